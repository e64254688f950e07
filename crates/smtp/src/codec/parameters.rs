//! The parameters of MAIL and RCPT, and the encodings of their values.
//!
//! MAIL has `SIZE` (RFC 1870), `BODY` (RFC 6152), `SMTPUTF8` (RFC 6531), `RET` and `ENVID` (RFC 3461) and `AUTH` (RFC
//! 4954). RCPT has `NOTIFY` and `ORCPT` (RFC 3461). An unknown or repeated parameter, or one with an invalid value, is
//! an error that names it; RFC 5321 §4.1.1.11 forbids ignoring it.

use base::hex;
use mail::router::{Notify, ReturnContent};

use crate::limits::{ENVELOPE_ID_BYTES_MAX, ORIGINAL_RECIPIENT_BYTES_MAX, PARAMETERS_MAX};

/// The error of refused parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterError {
    /// The parameter is unknown, or the list is not empty parameters.
    Unknown,
    /// The parameter occurs twice.
    Repeated,
    /// The value of the named parameter is invalid.
    Value(&'static str),
}

/// The encoding of a message body (RFC 6152).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BodyType {
    /// Only ASCII.
    #[default]
    SevenBit,
    /// Any bytes, in lines.
    EightBitMime,
}

/// The parameters of MAIL.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MailParameters {
    /// `SIZE=`, the size of the message announced by the client.
    pub size: Option<u64>,
    /// `BODY=`.
    pub body: Option<BodyType>,
    /// `SMTPUTF8`.
    pub smtputf8: bool,
    /// `RET=`.
    pub ret: Option<ReturnContent>,
    /// `ENVID=`, decoded.
    pub envelope_id: Option<String>,
    /// `true` if `AUTH=` was given. Its value is not trusted and not kept.
    pub auth: bool,
}

/// The parameters of RCPT.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RcptParameters {
    /// `NOTIFY=`.
    pub notify: Option<Notify>,
    /// `ORCPT=`, decoded: the type of the address, `;` and the address.
    pub original: Option<String>,
}

/// Parses the parameters of MAIL.
pub fn parse_mail(input: &str) -> Result<MailParameters, ParameterError> {
    let mut parameters = MailParameters::default();
    for (keyword, value) in pairs(input)? {
        match find_keyword(keyword, &["SIZE", "BODY", "SMTPUTF8", "RET", "ENVID", "AUTH"]) {
            Some("SIZE") => set_once(&mut parameters.size, size(value))?,
            Some("BODY") => set_once(&mut parameters.body, body(value))?,
            Some("RET") => set_once(&mut parameters.ret, ret(value))?,
            Some("ENVID") => set_once(&mut parameters.envelope_id, envelope_id(value))?,
            Some("SMTPUTF8") => set_flag(&mut parameters.smtputf8, value.is_none())?,
            Some("AUTH") => set_flag(&mut parameters.auth, value.is_some_and(|value| decode_xtext(value).is_some()))?,
            _ => return Err(ParameterError::Unknown),
        }
    }
    Ok(parameters)
}

/// Parses the parameters of RCPT.
pub fn parse_rcpt(input: &str) -> Result<RcptParameters, ParameterError> {
    let mut parameters = RcptParameters::default();
    for (keyword, value) in pairs(input)? {
        match find_keyword(keyword, &["NOTIFY", "ORCPT"]) {
            Some("NOTIFY") => set_once(&mut parameters.notify, notify(value))?,
            Some("ORCPT") => set_once(&mut parameters.original, original(value))?,
            _ => return Err(ParameterError::Unknown),
        }
    }
    Ok(parameters)
}

/// Decodes `xtext` (RFC 3461 §4), in which `+` and two hexadecimal digits stand for a byte. Returns `None` if the text
/// is malformed, not UTF-8, or contains control characters.
#[must_use]
pub fn decode_xtext(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'+' {
            bytes.push(byte);
            continue;
        }
        let ([high, low], after) = rest.split_first_chunk::<2>()?;
        bytes.push(hex::parse_byte(*high, *low)?);
        rest = after;
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains(char::is_control)).then_some(text)
}

/// Encodes `xtext` (RFC 3461 §4).
#[must_use]
pub fn encode_xtext(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, b'!'..=b'~') && byte != b'+' && byte != b'=' {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("+{byte:02X}"));
        }
    }
    encoded
}

fn pairs(input: &str) -> Result<impl Iterator<Item = (&str, Option<&str>)>, ParameterError> {
    let words = || input.split(' ').filter(|word| !word.is_empty());
    if words().count() > PARAMETERS_MAX {
        return Err(ParameterError::Unknown);
    }
    Ok(words().map(|word| match word.split_once('=') {
        Some((keyword, value)) => (keyword, Some(value)),
        None => (word, None),
    }))
}

fn find_keyword(keyword: &str, keywords: &[&'static str]) -> Option<&'static str> {
    keywords.iter().copied().find(|known| known.eq_ignore_ascii_case(keyword))
}

fn set_once<T>(slot: &mut Option<T>, value: Result<T, ParameterError>) -> Result<(), ParameterError> {
    if slot.is_some() {
        return Err(ParameterError::Repeated);
    }
    *slot = Some(value?);
    Ok(())
}

fn set_flag(slot: &mut bool, fits: bool) -> Result<(), ParameterError> {
    if !fits {
        return Err(ParameterError::Value("parameter"));
    }
    if std::mem::replace(slot, true) { Err(ParameterError::Repeated) } else { Ok(()) }
}

fn size(value: Option<&str>) -> Result<u64, ParameterError> {
    value
        .filter(|value| value.len() <= 20 && value.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|value| value.parse().ok())
        .ok_or(ParameterError::Value("SIZE"))
}

fn body(value: Option<&str>) -> Result<BodyType, ParameterError> {
    match value.and_then(|value| find_keyword(value, &["7BIT", "8BITMIME"])) {
        Some("7BIT") => Ok(BodyType::SevenBit),
        Some(_) => Ok(BodyType::EightBitMime),
        None => Err(ParameterError::Value("BODY")),
    }
}

fn ret(value: Option<&str>) -> Result<ReturnContent, ParameterError> {
    match value.and_then(|value| find_keyword(value, &["FULL", "HDRS"])) {
        Some("FULL") => Ok(ReturnContent::Full),
        Some(_) => Ok(ReturnContent::Headers),
        None => Err(ParameterError::Value("RET")),
    }
}

fn envelope_id(value: Option<&str>) -> Result<String, ParameterError> {
    value
        .and_then(decode_xtext)
        .filter(|id| !id.is_empty() && id.len() <= ENVELOPE_ID_BYTES_MAX && id.bytes().all(|byte| byte.is_ascii()))
        .ok_or(ParameterError::Value("ENVID"))
}

fn notify(value: Option<&str>) -> Result<Notify, ParameterError> {
    let value = value.ok_or(ParameterError::Value("NOTIFY"))?;
    if value.eq_ignore_ascii_case("NEVER") {
        return Ok(Notify::NEVER);
    }
    let mut notify = Notify::NEVER;
    for word in value.split(',') {
        let slot = match find_keyword(word, &["SUCCESS", "FAILURE", "DELAY"]) {
            Some("SUCCESS") => &mut notify.success,
            Some("FAILURE") => &mut notify.failure,
            Some(_) => &mut notify.delay,
            None => return Err(ParameterError::Value("NOTIFY")),
        };
        if std::mem::replace(slot, true) {
            return Err(ParameterError::Value("NOTIFY"));
        }
    }
    Ok(notify)
}

fn original(value: Option<&str>) -> Result<String, ParameterError> {
    let fail = ParameterError::Value("ORCPT");
    let value = value.filter(|value| value.len() <= ORIGINAL_RECIPIENT_BYTES_MAX).ok_or(fail)?;
    let (kind, address) = value.split_once(';').ok_or(fail)?;
    let is_atom = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    // `utf-8;` (RFC 6533 §3) has its own escape, \x{HEX}, which is kept unchanged.
    let address = decode_xtext(address).filter(|address| !address.is_empty()).ok_or(fail)?;
    if !is_atom(kind) {
        return Err(fail);
    }
    Ok(format!("{kind};{address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_parameters_are_parsed() {
        let parsed = parse_mail("size=1000 BODY=8bitmime SMTPUTF8 RET=HDRS ENVID=a+20b AUTH=<>").expect("well formed");
        assert_eq!(
            parsed,
            MailParameters {
                size: Some(1000),
                body: Some(BodyType::EightBitMime),
                smtputf8: true,
                ret: Some(ReturnContent::Headers),
                envelope_id: Some("a b".into()),
                auth: true,
            }
        );
        assert_eq!(parse_mail(""), Ok(MailParameters::default()));
    }

    #[test]
    fn invalid_mail_parameters_are_reported() {
        let check = |input: &str, expected: ParameterError| assert_eq!(parse_mail(input), Err(expected), "{input}");
        check("SIZE=1 SIZE=1", ParameterError::Repeated);
        check("SMTPUTF8 SMTPUTF8", ParameterError::Repeated);
        check("HOLDFOR=1", ParameterError::Unknown);
        check("SIZE=-1", ParameterError::Value("SIZE"));
        check("SIZE", ParameterError::Value("SIZE"));
        check("SIZE=99999999999999999999", ParameterError::Value("SIZE"));
        check("BODY=BINARYMIME", ParameterError::Value("BODY"));
        check("RET=ALL", ParameterError::Value("RET"));
        check("ENVID=a+0Db", ParameterError::Value("ENVID"));
        check("ENVID=+", ParameterError::Value("ENVID"));
        check("SMTPUTF8=1", ParameterError::Value("parameter"));
        check(&"SIZE=1 ".repeat(17), ParameterError::Unknown);
    }

    #[test]
    fn rcpt_parameters_are_parsed() {
        let parsed = parse_rcpt("NOTIFY=SUCCESS,delay ORCPT=rfc822;a+2Bb@c");
        let notify = Some(Notify { success: true, failure: false, delay: true });
        let original = Some("rfc822;a+b@c".to_owned());
        assert_eq!(parsed, Ok(RcptParameters { notify, original }));
        let never = RcptParameters { notify: Some(Notify::NEVER), original: None };
        assert_eq!(parse_rcpt("NOTIFY=NEVER"), Ok(never));
    }

    #[test]
    fn invalid_rcpt_parameters_are_reported() {
        let check = |input: &str, expected: ParameterError| assert_eq!(parse_rcpt(input), Err(expected), "{input}");
        check("NOTIFY=NEVER,DELAY", ParameterError::Value("NOTIFY"));
        check("NOTIFY=DELAY,DELAY", ParameterError::Value("NOTIFY"));
        check("NOTIFY=", ParameterError::Value("NOTIFY"));
        check("ORCPT=a@b", ParameterError::Value("ORCPT"));
        check("ORCPT=rfc822;", ParameterError::Value("ORCPT"));
        check("ORCPT=rfc822;a+0Ab", ParameterError::Value("ORCPT"));
        check("SIZE=1", ParameterError::Unknown);
    }

    #[test]
    fn xtext_round_trips() {
        for text in ["plain", "a+b=c d", "ü"] {
            assert_eq!(decode_xtext(&encode_xtext(text)).as_deref(), Some(text));
        }
        assert_eq!(encode_xtext("a+b=c d"), "a+2Bb+3Dc+20d");
        assert_eq!(decode_xtext("+G0"), None);
        assert_eq!(decode_xtext("++1"), None);
    }
}
