//! Random generation of operations.

use base::sim::SeededRandom;
use base::{Random, Timestamp, Uid};
use mail::mailbox::{FlagChange, Flags, SpecialUse};
use mail::router::{Envelope, Notify, Recipient, TransferOutcome};

use super::content::{self, Content};
use super::files::{FileOperation, UserMessage};
use super::state::{File, State};

const MARKS: [&str; 5] = ["\\Seen", "\\Answered", "\\Flagged", "\\Deleted", "\\Draft"];
const KEYWORDS: [&str; 4] = ["Work", "WORK", "$Forwarded", "later"];
const FOLDERS: [&str; 8] = ["A", "B", "A/X", "A/Y", "B/Z/Q", "C", "A/X/Deep", "Junk"];
const SENDERS: [&str; 6] = ["ann@acme.test", "bob@acme.test", "tiny@acme.test", "peer@far.test", "gone@acme.test", ""];
const RECIPIENTS: [&str; 13] = [
    "ann@acme.test",
    "ANN@acme.test",
    "bob@acme.test",
    "cy@acme.test",
    "tiny@acme.test",
    "small@acme.test",
    "team@acme.test",
    "all@acme.test",
    "full@acme.test",
    "gone@acme.test",
    "carl@away.test",
    "x@away.test",
    "dora@far.test",
];

/// A random generator of operations, driven by a seed.
pub struct OperationGenerator {
    random: SeededRandom,
    /// The number of the next message.
    serial: u64,
}

impl OperationGenerator {
    pub fn new(seed: u64) -> Self {
        Self { random: SeededRandom::new(seed ^ 0x5EED), serial: 0 }
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Returns `true` with a probability of `percent` percent.
    pub fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// Draws one of several items. Returns `None` if there are none.
    pub fn pick_of<T>(&self, of: impl IntoIterator<Item = T>) -> Option<T> {
        let mut all: Vec<T> = of.into_iter().collect();
        if all.is_empty() { None } else { Some(all.swap_remove(self.below(all.len() as u64) as usize)) }
    }

    pub fn message(&mut self) -> Content {
        self.serial += 1;
        let attachment = self.chance(50).then(|| self.below(6));
        let text_bytes = if self.chance(20) { self.below(3_000) } else { self.below(200) };
        Content::new(content::message(self.serial, attachment, text_bytes as usize))
    }

    fn flags(&self) -> Flags {
        let mut flags = Flags::none();
        for name in MARKS.iter().chain(&KEYWORDS) {
            if self.chance(25) {
                flags.add(name);
            }
        }
        flags
    }

    fn letter(&mut self, now: Timestamp) -> UserMessage {
        let received = self.chance(50).then(|| Timestamp::from_seconds(now.seconds() - self.below(1_000_000) as i64));
        UserMessage { content: self.message(), flags: self.flags(), received }
    }

    /// Draws an operation of the owner of a file.
    pub fn file_operation(&mut self, file: &File, now: Timestamp) -> FileOperation {
        let selectable: Vec<&String> =
            file.folders.iter().filter(|(_, folder)| folder.selectable).map(|(name, _)| name).collect();
        let folder = (*self.pick(&selectable)).clone();
        let target = (*self.pick(&selectable)).clone();
        let filled = file.folders.iter().filter(|(_, folder)| !folder.messages.is_empty()).map(|(name, _)| name);
        let filled = self.pick_of(filled).cloned();
        let uids = filled.as_ref().map_or_else(Vec::new, |name| self.uids(file, name));
        match (self.below(20), filled) {
            (0, _) => FileOperation::Create { name: (*self.pick(&FOLDERS)).into(), special: self.special() },
            (1, _) => self.rename(file),
            (2, _) => FileOperation::Delete { name: self.any_folder(file) },
            (3, _) => FileOperation::Subscribe { name: (*self.pick(&FOLDERS)).into(), wanted: self.chance(70) },
            (4, _) => self.import(now),
            (5..=8, Some(folder)) => {
                let since = self.chance(20).then(|| base::Modseq(self.below(file.modseq.0 + 1)));
                let change = match self.below(3) {
                    0 => FlagChange::Add(self.flags()),
                    1 => FlagChange::Remove(self.flags()),
                    _ => FlagChange::Replace(self.flags()),
                };
                FileOperation::Flag { folder, uids, change, unchanged_since: since }
            }
            (9 | 10, Some(folder)) => FileOperation::Expunge { folder, uids: Some(uids).filter(|_| self.chance(30)) },
            (11 | 12, Some(folder)) => FileOperation::Copy { folder, uids, target },
            (13..=15, Some(folder)) => FileOperation::Move { folder, uids, target },
            (16, Some(folder)) => FileOperation::Replace { folder, uid: uids[0], target, letter: self.letter(now) },
            _ => {
                let letters = (0..=self.below(3)).map(|_| self.letter(now)).collect();
                FileOperation::Append { folder, letters }
            }
        }
    }

    /// Draws some of the UIDs of a mailbox that is not empty.
    fn uids(&self, file: &File, folder: &str) -> Vec<Uid> {
        let all: Vec<Uid> = file.folders[folder].messages.keys().copied().collect();
        let percent = *self.pick(&[10, 50, 100]);
        let some: Vec<Uid> = all.iter().copied().filter(|_| self.chance(percent)).collect();
        if some.is_empty() { vec![*self.pick(&all)] } else { some }
    }

    fn special(&self) -> Option<SpecialUse> {
        self.chance(20).then_some(SpecialUse::Archive)
    }

    fn any_folder(&self, file: &File) -> String {
        self.pick_of(file.folders.keys().cloned()).expect("there is an inbox")
    }

    fn rename(&self, file: &File) -> FileOperation {
        FileOperation::Rename { from: self.any_folder(file), to: (*self.pick(&FOLDERS)).into() }
    }

    fn import(&mut self, now: Timestamp) -> FileOperation {
        let source = format!("archive-{}.mbox", self.below(3));
        let letters = (0..2 + self.below(4))
            .map(|_| {
                let received = now.before(std::time::Duration::from_secs(self.below(100_000)));
                ((*self.pick(&FOLDERS[..6])).to_owned(), UserMessage { received: Some(received), ..self.letter(now) })
            })
            .collect();
        FileOperation::Import { source, letters }
    }

    /// Draws a message with its envelope.
    pub fn envelope(&mut self) -> (Envelope, Content) {
        let raw = self.message();
        let count = 1 + self.below(3);
        let recipients = (0..count).map(|_| self.recipient()).collect();
        let reverse_path = (*self.pick(&SENDERS)).to_owned();
        let id = format!("S{}", self.serial);
        (Envelope { id, reverse_path, recipients, ..Envelope::default() }, raw)
    }

    fn recipient(&self) -> Recipient {
        let notify = Notify { success: self.chance(50), failure: self.chance(70), delay: self.chance(50) };
        Recipient { notify: self.chance(30).then_some(notify), ..Recipient::new(self.pick::<&str>(&RECIPIENTS)) }
    }

    /// Draws the outcome for a recipient.
    pub fn outcome(&self) -> TransferOutcome {
        match self.below(5) {
            0 | 1 => TransferOutcome::Delivered { reply: "250 2.0.0 ok".into(), reports: self.chance(30) },
            2 | 3 => TransferOutcome::Temporary { reply: "450 4.2.0 later".into() },
            _ => TransferOutcome::Permanent { reply: "550 5.1.1 unknown".into() },
        }
    }

    /// Draws a mail file of a state. Returns `None` if the state has none.
    pub fn path(&self, state: &State) -> Option<String> {
        self.pick_of(state.files.keys().cloned())
    }
}
