//! Patches (RFC 8620 §5.3): changes of an object by JSON pointers without their leading slash.
//!
//! A pointer must not be a prefix of another one, all parts of it but the last must exist in the object, and it must
//! not lead into an array. Pure and fuzzed.

use serde_json::{Map, Value};

use crate::error::SetError;
use crate::limits::PATCH_ENTRIES_MAX;

/// A checked patch: the tokens of each pointer, and the value.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    entries: Vec<(Vec<String>, Value)>,
}

impl Patch {
    /// Parses a patch object, and checks that its pointers do not overlap.
    pub fn parse(patch: &Map<String, Value>) -> Result<Self, SetError> {
        if patch.len() > PATCH_ENTRIES_MAX {
            return Err(invalid("the patch has too many entries"));
        }
        let mut entries = Vec::with_capacity(patch.len());
        for (pointer, value) in patch {
            let tokens: Option<Vec<String>> = pointer.split('/').map(unescape_token).collect();
            let tokens = tokens.filter(|tokens| !tokens.first().is_none_or(String::is_empty));
            let tokens = tokens.ok_or_else(|| invalid(format!("{pointer:?} is not a pointer")))?;
            entries.push((tokens, value.clone()));
        }
        let mut order: Vec<&Vec<String>> = entries.iter().map(|(tokens, _)| tokens).collect();
        order.sort_unstable();
        if order.windows(2).any(|pair| pair[1].starts_with(pair[0])) {
            return Err(invalid("a pointer is a prefix of another one"));
        }
        Ok(Self { entries })
    }

    /// Returns the entries: the tokens of the pointer, and the value, which is `null` to remove something.
    #[must_use]
    pub fn entries(&self) -> &[(Vec<String>, Value)] {
        &self.entries
    }

    /// Applies the patch to an object.
    pub fn apply(&self, object: &mut Map<String, Value>) -> Result<(), SetError> {
        for (tokens, value) in &self.entries {
            let Some((last, parents)) = tokens.split_last() else { continue };
            let mut place = &mut *object;
            for token in parents {
                let Some(Value::Object(inner)) = place.get_mut(token) else {
                    return Err(invalid(format!("there is no object {:?}", parents.join("/"))));
                };
                place = inner;
            }
            if value.is_null() && !parents.is_empty() {
                place.shift_remove(last);
            } else {
                place.insert(last.clone(), value.clone());
            }
        }
        Ok(())
    }
}

/// Resolves the escapes of a token of a JSON pointer (RFC 6901). Returns `None` if they are invalid.
#[must_use]
pub fn unescape_token(token: &str) -> Option<String> {
    if !token.contains('~') {
        return Some(token.to_owned());
    }
    let mut plain = String::with_capacity(token.len());
    let mut characters = token.chars();
    while let Some(character) = characters.next() {
        match character {
            '~' => plain.push(match characters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            }),
            other => plain.push(other),
        }
    }
    Some(plain)
}

fn invalid(description: impl Into<String>) -> SetError {
    SetError::described("invalidPatch", description)
}
