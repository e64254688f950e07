//! Arguments of the verbs that concern the session itself: LOGIN, AUTHENTICATE, ENABLE, ID, COMPRESS.

use crate::codec::command::{CommandBody, Numbering};
use crate::codec::error::SyntaxError;
use crate::codec::scanner::{Parsed, Scanner};
use crate::limits;

/// Parses `LOGIN user password`.
pub fn login(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let user = scanner.astring_text()?;
    scanner.space()?;
    let password = scanner.astring()?.into_owned();
    Ok(CommandBody::Login { user, password })
}

/// Parses `AUTHENTICATE mechanism [initial-response]`.
pub fn authenticate(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let mechanism = scanner.atom("a mechanism")?.to_ascii_uppercase();
    let mut initial = None;
    if !scanner.is_at_end() {
        scanner.space()?;
        let text = scanner.bytes_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        initial = Some(text.to_vec());
    }
    Ok(CommandBody::Authenticate { mechanism, initial })
}

/// Parses `ENABLE capability ...`.
pub fn enable(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    let mut names = Vec::new();
    while names.is_empty() || !scanner.is_at_end() {
        if names.len() >= limits::LIST_ITEMS_MAX {
            return Err(SyntaxError::Limit("capabilities"));
        }
        scanner.space()?;
        names.push(scanner.atom("a capability")?.to_ascii_uppercase());
    }
    Ok(CommandBody::Enable(names))
}

/// Parses `ID (name value ...)` or `ID NIL`.
pub fn id(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    if scanner.take_word("NIL") {
        return Ok(CommandBody::Id(Vec::new()));
    }
    let parameters = scanner.list(limits::LIST_ITEMS_MAX, "parameters", |scanner| {
        let name = scanner.astring_text()?;
        scanner.space()?;
        Ok((name, scanner.nstring_text()?))
    })?;
    Ok(CommandBody::Id(parameters))
}

/// Parses `COMPRESS algorithm`.
pub fn compress(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    Ok(CommandBody::Compress(scanner.atom("an algorithm")?.to_ascii_uppercase()))
}
