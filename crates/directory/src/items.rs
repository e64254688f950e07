//! The item names of directory notes, and helpers for lists of items.
//!
//! The names are Domino's where Domino has such an item; `docs/directory.md` lists all of them. Items unknown to this
//! crate are kept when a note is changed.

use base::Timestamp;
use notes::item::find_item;
use notes::{Item, ItemFlags, ItemValue};

pub(crate) const FORM: &str = "Form";
pub(crate) const TYPE: &str = "Type";

pub(crate) const FULL_NAME: &str = "FullName";
pub(crate) const FIRST_NAME: &str = "FirstName";
pub(crate) const LAST_NAME: &str = "LastName";
pub(crate) const SHORT_NAME: &str = "ShortName";
pub(crate) const INTERNET_ADDRESS: &str = "InternetAddress";
pub(crate) const MAIL_FILE: &str = "MailFile";
pub(crate) const MAIL_SERVER: &str = "MailServer";
pub(crate) const MAIL_ADDRESS: &str = "MailAddress";
pub(crate) const MAIL_QUOTA: &str = "MailQuota";
pub(crate) const DISABLED: &str = "Disabled";
pub(crate) const HTTP_PASSWORD: &str = "HTTPPassword";
pub(crate) const SCRAM_SHA_256: &str = "$ScramSHA256";
pub(crate) const APPLICATION_PASSWORDS: &str = "$ApplicationPasswords";
pub(crate) const SECOND_FACTOR: &str = "$SecondFactor";
pub(crate) const RECOVERY_CODES: &str = "$RecoveryCodes";

pub(crate) const LIST_NAME: &str = "ListName";
pub(crate) const LIST_DESCRIPTION: &str = "ListDescription";
pub(crate) const GROUP_TYPE: &str = "GroupType";
pub(crate) const MEMBERS: &str = "Members";

pub(crate) const DOMAIN_NAME: &str = "DomainName";
pub(crate) const DOMAIN_ALIASES: &str = "DomainAliases";
pub(crate) const CATCH_ALL: &str = "CatchAll";
pub(crate) const POSTMASTER: &str = "Postmaster";

pub(crate) const SERVER_NAME: &str = "ServerName";
pub(crate) const NET_ADDRESSES: &str = "NetAddresses";
pub(crate) const CERTIFICATE_EXPIRES: &str = "CertificateExpires";
pub(crate) const CERTIFICATE_ISSUER: &str = "CertificateIssuer";
pub(crate) const ALLOW_ACCESS: &str = "AllowAccess";
pub(crate) const DENY_ACCESS: &str = "DenyAccess";
pub(crate) const SOURCE: &str = "Source";
pub(crate) const DESTINATION: &str = "Destination";
pub(crate) const REPEAT_INTERVAL: &str = "RepeatInterval";
pub(crate) const REPLICATION_FILES: &str = "RepFileList";
pub(crate) const REPLICATION_TYPE: &str = "RepType";
pub(crate) const REPLICATION_TIME_LIMIT: &str = "RepTimeLimit";
pub(crate) const REPLICATION_BANDWIDTH: &str = "RepBandwidth";
pub(crate) const REPLICATION_PRIORITY: &str = "RepPriority";
pub(crate) const CONNECTION_NAME: &str = "ConnectionName";
pub(crate) const DAYS: &str = "DaysOfWeek";
pub(crate) const CONNECT_TIMES: &str = "ConnectTimes";
pub(crate) const SUBJECT: &str = "Subject";

/// Returns the first text of an item, or `None` if the item is missing or the text is blank.
pub(crate) fn text<'a>(items: &'a [Item], name: &str) -> Option<&'a str> {
    find_item(items, name)?.value.text().filter(|text| !text.trim().is_empty())
}

/// Returns the texts of an item that are not blank.
pub(crate) fn texts<'a>(items: &'a [Item], name: &str) -> impl Iterator<Item = &'a str> {
    let values = find_item(items, name).map_or(&[][..], |item| item.value.texts());
    values.iter().map(String::as_str).filter(|text| !text.trim().is_empty())
}

/// Returns the first number of an item as a count. Returns `None` if it is negative or not finite.
pub(crate) fn count(items: &[Item], name: &str) -> Option<u64> {
    let number = find_item(items, name)?.value.number()?;
    // The cast saturates at both ends; numbers that large are not valid counts anyway.
    (number.is_finite() && number >= 0.0).then_some(number as u64)
}

/// Returns the first point in time of an item.
pub(crate) fn time(items: &[Item], name: &str) -> Option<Timestamp> {
    find_item(items, name)?.value.time()
}

/// Replaces all items with the given name by `item`, or removes them if it is `None`.
pub(crate) fn set(items: &mut Vec<Item>, name: &str, item: Option<Item>) {
    items.retain(|known| !known.is_named(name));
    items.extend(item);
}

/// Sets an item to a text, or removes it if `value` is `None`.
pub(crate) fn set_text(items: &mut Vec<Item>, name: &str, value: Option<&str>) {
    set(items, name, value.map(|value| Item::text(name, value)));
}

/// Sets an item to a list of texts, or removes it if the list is empty.
pub(crate) fn set_texts(items: &mut Vec<Item>, name: &str, values: &[String]) {
    let item = (!values.is_empty()).then(|| Item::summary(name, ItemValue::TextList(values.to_vec())));
    set(items, name, item);
}

/// Sets an item to a list of hierarchical names.
pub(crate) fn set_names(items: &mut Vec<Item>, name: &str, values: &[String]) {
    set_texts(items, name, values);
    items
        .iter_mut()
        .filter(|item| item.is_named(name))
        .for_each(|item| item.flags = item.flags.union(ItemFlags::NAMES));
}

/// Sets a protected item outside the summary, so that no view and no search shows it, or removes it if `value` is
/// `None`.
pub(crate) fn set_secret(items: &mut Vec<Item>, name: &str, value: Option<String>) {
    let secret = |value| Item { flags: ItemFlags::PROTECTED, ..Item::body(name, ItemValue::Text(value)) };
    set(items, name, value.map(secret));
}

/// Sets a protected item outside the summary to a list of texts, or removes it if the list is empty.
pub(crate) fn set_secrets(items: &mut Vec<Item>, name: &str, values: Vec<String>) {
    let secret = |values| Item { flags: ItemFlags::PROTECTED, ..Item::body(name, ItemValue::TextList(values)) };
    set(items, name, (!values.is_empty()).then_some(values).map(secret));
}

/// Sets an item to a number, or removes it if `value` is `None`.
pub(crate) fn set_count(items: &mut Vec<Item>, name: &str, value: Option<u64>) {
    // Byte counts stay far below 2^53, up to which a double is exact.
    set(items, name, value.map(|value| Item::summary(name, ItemValue::Number(value as f64))));
}

/// Sets an item to a point in time, or removes it if `value` is `None`.
pub(crate) fn set_time(items: &mut Vec<Item>, name: &str, value: Option<Timestamp>) {
    set(items, name, value.map(|value| Item::summary(name, ItemValue::Time(value))));
}
