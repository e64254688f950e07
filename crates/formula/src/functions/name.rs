//! Functions of names of people and servers, and of Internet addresses.

use base::Name;

use super::text::{charge_new_text, each};
use super::{Attributes, Function, function};
use crate::error::ErrorValueKind;
use crate::evaluation::{Evaluation, FunctionResult};
use crate::text::Text;
use crate::value::Value;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function(
        "@Name",
        1,
        "keyword; name",
        "A part or form of the name: `[CN]`, `[O]`, `[OU1]`, `[Abbreviate]`, `[Canonicalize]`, `[ToKeyword]`, `[Address821]` and others.",
        name,
    )
    .with_byte_cost(16),
    function(
        "@ValidateInternetAddress",
        2,
        "keyword; address",
        "The empty text if the address is valid, otherwise the reason why it is not.",
        validate,
    )
    .with_byte_cost(8),
    function("@NameLookup", 2, "options; name; item", "An item of the person's directory entry.", lookup)
        .with_attributes(Attributes::HOST),
];

fn name<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let keyword = arguments[0].text()?.to_ascii_uppercase();
    let keyword = keyword.strip_prefix('[').and_then(|keyword| keyword.strip_suffix(']')).unwrap_or(&keyword);
    let action = action(keyword).ok_or(ErrorValueKind::Keyword)?;
    each(run, &arguments[1], |run, text| match apply(&action, text) {
        Some(result) => charge_new_text(run, result),
        None => Ok(Text::EMPTY),
    })
}

/// The operation that a keyword of `@Name` selects.
enum NameOperation {
    Attribute(&'static str),
    OrganizationalUnit(usize),
    Abbreviate,
    Canonicalize,
    HierarchyOnly,
    ToKeyword,
    Address821,
    LocalPart,
    Phrase,
}

fn action(keyword: &str) -> Option<NameOperation> {
    Some(match keyword {
        "CN" | "O" | "C" | "A" | "P" | "G" | "I" | "S" | "Q" => {
            let attributes = ["CN", "O", "C", "A", "P", "G", "I", "S", "Q"];
            NameOperation::Attribute(attributes.into_iter().find(|attribute| *attribute == keyword)?)
        }
        "OU1" | "OU2" | "OU3" | "OU4" => NameOperation::OrganizationalUnit(keyword[2..].parse().ok()?),
        "ABBREVIATE" => NameOperation::Abbreviate,
        "CANONICALIZE" => NameOperation::Canonicalize,
        "HIERARCHYONLY" => NameOperation::HierarchyOnly,
        "TOKEYWORD" => NameOperation::ToKeyword,
        "ADDRESS821" => NameOperation::Address821,
        "LP" => NameOperation::LocalPart,
        "PHRASE" => NameOperation::Phrase,
        _ => return None,
    })
}

fn apply(action: &NameOperation, text: &str) -> Option<String> {
    // Most names are canonical, so their components can be read without normalization.
    if let NameOperation::Attribute(attribute) = action
        && text.starts_with("CN=")
        && !text.contains('<')
    {
        return component(text, attribute).map(str::to_owned);
    }
    match action {
        NameOperation::Attribute("CN") => common_name(text),
        NameOperation::Attribute(attribute) => component(&canonicalize(text), attribute).map(str::to_owned),
        NameOperation::OrganizationalUnit(number) => {
            let name = canonicalize(text);
            let units: Vec<&str> =
                components(&name).filter(|(a, _)| a.to_ascii_uppercase().starts_with("OU")).map(|(_, v)| v).collect();
            units.iter().rev().nth(number - 1).map(|unit| (*unit).to_owned())
        }
        NameOperation::Abbreviate => Some(abbreviate(&canonicalize(text))),
        NameOperation::Canonicalize => Some(canonicalize(text)),
        NameOperation::HierarchyOnly => Some(components_without_common_name(&canonicalize(text)).join("/")),
        NameOperation::ToKeyword => Some(to_keyword(canonicalize(text))),
        NameOperation::Address821 => address(text).map(str::to_owned),
        NameOperation::LocalPart => address(text)?.rsplit_once('@').map(|(local, _)| local.to_owned()),
        NameOperation::Phrase => phrase(text),
    }
}

/// The X.400 labels: given name, initials, surname, generation, administrative domain and private domain. Names in
/// Domino do not use them, but `@Name` supports them.
const X400_LABELS: [&str; 6] = ["G", "I", "S", "Q", "A", "P"];

/// The labels of hierarchical names.
const LABELS: [&str; 4] = ["CN", "OU", "O", "C"];

fn is_label(label: &str, labels: &[&str]) -> bool {
    labels.iter().any(|known| label.trim().eq_ignore_ascii_case(known))
}

/// Returns the canonical form of a name, with all labels. A name with X.400 labels stays as it is.
fn canonicalize(text: &str) -> String {
    let mut labels = text.split('/').filter_map(|part| part.split_once('=')).map(|(label, _)| label);
    if labels.any(|label| is_label(label, &X400_LABELS)) {
        return text.trim().to_owned();
    }
    Name::new(text).canonical().to_owned()
}

/// Returns a canonical name without its labels.
fn abbreviate(name: &str) -> String {
    name.split('/').map(without_label).collect::<Vec<_>>().join("/")
}

fn without_label(part: &str) -> &str {
    match part.split_once('=') {
        Some((label, value)) if is_label(label, &LABELS) || is_label(label, &X400_LABELS) => value.trim(),
        _ => part,
    }
}

/// Returns the common name.
///
/// This is the phrase of an Internet address, or its local part if it has no phrase. For other names it is the `CN`
/// component, or the whole name if the name is not hierarchical. The part after an `@` is the domain and does not
/// belong to the name.
fn common_name(text: &str) -> Option<String> {
    if let Some(phrase) = phrase(text) {
        return Some(phrase);
    }
    let local = address(text).and_then(|address| address.rsplit_once('@')).map_or(text, |(local, _)| local);
    let name = canonicalize(local);
    if !name.contains('=') {
        return Some(name);
    }
    component(&name, "CN").map(str::to_owned)
}

/// Returns the value of the first component with the given label.
fn component<'n>(name: &'n str, label: &str) -> Option<&'n str> {
    let mut parts = name.split('/').filter_map(|part| part.split_once('='));
    parts.find(|(own, _)| own.trim().eq_ignore_ascii_case(label)).map(|(_, value)| value.trim())
}

/// Returns the components of a hierarchical name as pairs of label and value.
fn components(name: &str) -> impl Iterator<Item = (&str, &str)> {
    name.split('/').filter_map(|part| part.split_once('=')).map(|(a, v)| (a.trim(), v.trim()))
}

/// Returns the values of all components of a name except the common name.
fn components_without_common_name(name: &str) -> Vec<&str> {
    components(name).filter(|(label, _)| !label.eq_ignore_ascii_case("CN")).map(|(_, value)| value).collect()
}

/// Returns the components of a name in reverse order, country first, separated by backslashes, so that a view can be
/// categorized by them.
///
/// The common name is omitted. A name that is not hierarchical and an Internet address stay as they are.
fn to_keyword(name: String) -> String {
    if !name.contains('=') {
        return name;
    }
    let mut parts = components_without_common_name(&name);
    parts.reverse();
    parts.join("\\")
}

/// Returns the address in texts such as `"Ann" <ann@acme.test>`, `ann@acme.test (Ann)` or a bare address.
fn address(text: &str) -> Option<&str> {
    let inside = match (text.rfind('<'), text.rfind('>')) {
        (Some(start), Some(end)) if start < end => &text[start + 1..end],
        _ => text.split('(').next().unwrap_or(text),
    };
    let inside = inside.trim();
    inside.contains('@').then_some(inside)
}

fn phrase(text: &str) -> Option<String> {
    let (phrase, rest) = text.split_once('<')?;
    let phrase = phrase.trim().trim_matches('"').trim();
    (rest.contains('@') && !phrase.is_empty()).then(|| phrase.to_owned())
}

fn validate<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let keyword = arguments[0].text()?.to_ascii_uppercase();
    let with_phrase = match keyword.as_str() {
        "[ADDRESS821]" => false,
        "[ADDRESS822]" => true,
        _ => return Err(ErrorValueKind::Keyword.into()),
    };
    each(run, &arguments[1], |_, text| {
        let address = if with_phrase { address(text) } else { Some(text.as_str()) };
        Ok(Text::Borrowed(address.map_or("The address has no @", address_error)))
    })
}

fn address_error(address: &str) -> &'static str {
    let Some((local, domain)) = address.rsplit_once('@') else { return "The address has no @" };
    let local = local.strip_prefix('"').and_then(|local| local.strip_suffix('"')).map_or(local, |_| "quoted");
    let is_atom = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let is_host = |c: char| c.is_alphanumeric() || c == '-';
    if local.is_empty() || domain.is_empty() {
        "The address has nothing before or after its @"
    } else if !local.chars().all(is_atom) || local.starts_with('.') || local.ends_with('.') || local.contains("..") {
        "The part before the @ contains invalid characters"
    } else if domain.split('.').any(|label| label.is_empty() || !label.chars().all(is_host)) {
        "The part after the @ is not a valid host name"
    } else {
        ""
    }
}

fn lookup<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let names: Vec<&str> = arguments[1].texts()?.iter().map(|name| name.as_str()).collect();
    let found = run.host.name_lookup(&names, arguments[2].text()?).ok_or(ErrorValueKind::Context)?;
    Ok(found.map_err(ErrorValueKind::Host)?.normalized())
}
