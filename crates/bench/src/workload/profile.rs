//! Size profiles: how large messages and their attachments are.

use std::collections::BTreeMap;

use serde::Serialize;

use super::fraction::Fraction;
use super::limits::{PROFILE_ROWS_MAX, PROFILES_MAX};
use super::table::Table;
use super::units::Share;

/// The profile that is built in: the table of `SendMessage profile` of Server.Load.
pub const SERVER_LOAD: &str = "server-load";

/// Keys of a profile.
pub const KEYS: &[&str] = &["rows", "bytes", "kinds"];

const ROW_KEYS: &[&str] = &["body", "attachment", "share"];

/// Difference from 1 that the shares of a profile may add up to, in millionths.
const SHARES_DIFFERENCE_MAX: u32 = 1;

/// A kind of attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Text,
    Pdf,
    Office,
    Image,
    Archive,
    Random,
}

const KINDS: &[(&str, Kind)] = &[
    ("text", Kind::Text),
    ("pdf", Kind::Pdf),
    ("office", Kind::Office),
    ("image", Kind::Image),
    ("archive", Kind::Archive),
    ("random", Kind::Random),
];

/// Sizes that occur together, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SizeRow {
    /// The size of the body in bytes.
    pub body_bytes: u64,
    /// The size of the attachment in bytes, or 0 for none.
    pub attachment_bytes: u64,
    /// The share of the messages.
    pub share: Share,
}

/// The sizes of messages. The shares of the rows add up to 1, to a millionth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SizeProfile {
    /// At least one row.
    pub rows: Vec<SizeRow>,
    /// The kinds of attachments. If there are none, each kind is drawn as often as the population has it.
    pub kinds: Vec<Kind>,
}

impl SizeProfile {
    /// Returns the built-in profile: a mean of 97,305 bytes, 10.5 % of the messages with attachments.
    pub fn server_load() -> Self {
        let row = |body_bytes, attachment_bytes, millionths| SizeRow {
            body_bytes,
            attachment_bytes,
            share: Share::from_millionths(millionths).expect("the shares of the table are below 1"),
        };
        let rows = vec![
            row(500, 0, 100_000),
            row(10_000, 0, 300_000),
            row(50_000, 0, 400_000),
            row(50_000, 50_000, 100_000),
            row(150_000, 0, 95_000),
            row(1_000, 10_000_000, 5_000),
        ];
        Self { rows, kinds: Vec::new() }
    }

    /// Returns the share of the messages that have an attachment.
    pub fn with_attachment(&self) -> Fraction {
        let with = self.rows.iter().filter(|row| row.attachment_bytes > 0);
        with.fold(Fraction::ZERO, |sum, row| sum.plus(row.share.fraction()))
    }

    /// Returns the mean size of a message in bytes.
    pub fn mean_bytes(&self) -> Fraction {
        self.mean_of(|row| row.body_bytes + row.attachment_bytes)
    }

    /// Returns the mean of a number of bytes that each row has.
    pub fn mean_of(&self, bytes: impl Fn(&SizeRow) -> u64) -> Fraction {
        let weighted = |row: &SizeRow| row.share.fraction().times(Fraction::from(bytes(row)));
        self.rows.iter().fold(Fraction::ZERO, |sum, row| sum.plus(weighted(row)))
    }
}

/// Reads the profiles of a file, and adds the one that is built in.
pub fn read_all(file: &Table<'_>) -> BTreeMap<String, SizeProfile> {
    let mut profiles = BTreeMap::from([(SERVER_LOAD.to_owned(), SizeProfile::server_load())]);
    for (name, mut table) in file.named_tables("profile", PROFILES_MAX) {
        table.check_keys(KEYS);
        let profile = read(&table);
        if name == SERVER_LOAD {
            table.refuse("rows", "the profile server-load is built in, and cannot be changed");
        }
        profiles.insert(name, profile);
    }
    profiles
}

fn read(table: &Table<'_>) -> SizeProfile {
    let kinds = table.choices("kinds", KINDS);
    if !table.has("rows") {
        table.require("bytes");
        let body_bytes = table.bytes("bytes").unwrap_or_default();
        return SizeProfile { rows: vec![SizeRow { body_bytes, attachment_bytes: 0, share: Share::ALL }], kinds };
    }
    table.forbid("bytes", "together with rows");
    let rows: Vec<_> = table.tables("rows", "row", PROFILE_ROWS_MAX).iter_mut().map(read_row).collect();
    let sum: u32 = rows.iter().map(|row| row.share.millionths()).sum();
    if sum.abs_diff(Share::ALL.millionths()) > SHARES_DIFFERENCE_MAX {
        table.refuse("rows", format!("the shares add up to {}, not to 1", f64::from(sum) / 1e6));
    }
    SizeProfile { rows, kinds }
}

fn read_row(table: &mut Table<'_>) -> SizeRow {
    table.check_keys(ROW_KEYS);
    ROW_KEYS.iter().for_each(|key| table.require(key));
    SizeRow {
        body_bytes: table.bytes("body").unwrap_or_default(),
        attachment_bytes: table.bytes("attachment").unwrap_or_default(),
        share: table.share("share").unwrap_or_default(),
    }
}
