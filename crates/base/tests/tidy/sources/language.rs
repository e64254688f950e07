//! Checks of the language of comments and of statements that pack unrelated values.
//!
//! - *Verb*: the doc comment of a function begins with a verb of `verbs.txt` in the third person ("Returns",
//!   "Creates").
//! - *Word*: comments, texts and pages use none of the [`BANNED_WORDS`], which a stranger would not search for.
//! - *Width*: a comment ends within 120 columns.
//! - *Page*: a Markdown page that a comment names exists.
//! - *Parameters*: a function has at most five parameters; the members of a tuple count.
//! - *Tuple*: one `let` does not bind several unrelated values, as in `let (a, b) = (x, y)`.
//! - *Name*: no variable, field or function has one of the [`BANNED_NAME_WORDS`] in its name.

use syn::visit::{self, Visit};

use super::{Source, for_tests};
use crate::ratchet::Finding;
use crate::repository;

const COMMENT_COLUMNS_MAX: usize = 120;
const PARAMETERS_MAX: usize = 5;

/// Words of a private dialect, with the words that replace them. Each is searched as a whole, in lower case.
const BANNED_WORDS: &[(&str, &str)] = &[
    ("whoever", "name the subject: the caller, the client, the operator"),
    ("the original's", "Domino's"),
    ("like the original", "like Domino"),
    ("as the original", "as Domino"),
    ("in the original", "in Domino"),
    ("what was told", "name the value"),
    ("what was said", "name the value"),
    ("what was asked", "the request"),
    ("deleted back", "restored"),
    ("this room", "this crate"),
    ("the rooms above", "the crates above"),
];

/// Words that say that a value was passed on, but not what it is.
const BANNED_NAME_WORDS: &[&str] = &["told", "heard", "said", "asked"];

/// Folders in which pages may lie that comments name.
const PAGE_FOLDERS: &[&str] = &["", "docs/", "packaging/"];

/// Checks one file.
pub fn findings(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    comments(source, &mut findings);
    // The list of the words is in this folder.
    if !source.path.contains("/tidy/") {
        findings.extend(words(&source.path, &source.text));
    }
    let mut visitor = Visitor { source, findings: &mut findings };
    visitor.visit_file(&source.syntax);
    findings
}

/// Returns a finding for each word of a source or page that [`BANNED_WORDS`] lists.
pub fn words(path: &str, text: &str) -> Vec<Finding> {
    let finding = |line: &str| {
        let place = format!("{path}::{}", first_words(line));
        let of_line = banned_words(line).into_iter();
        of_line
            .map(|(word, replacement)| {
                Finding::new("word", place.clone(), format!("{word:?} is dialect: {replacement}"))
            })
            .collect::<Vec<_>>()
    };
    text.lines().flat_map(finding).collect()
}

/// Returns the words of a text that [`BANNED_WORDS`] lists, each with its replacement.
fn banned_words(text: &str) -> Vec<(&'static str, &'static str)> {
    let text = text.to_lowercase();
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_used = |word: &str| {
        text.match_indices(word).any(|(at, _)| {
            !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + word.len()..].chars().next())
        })
    };
    BANNED_WORDS.iter().filter(|(word, _)| is_used(word)).copied().collect()
}

fn comments(source: &Source, findings: &mut Vec<Finding>) {
    for line in source.text.lines() {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let columns = line.chars().count();
        if columns > COMMENT_COLUMNS_MAX && !is_verbatim(comment) {
            let place = format!("{}::{}", source.path, first_words(comment));
            findings.push(Finding::sized("width", place, columns, "a comment ends within 120 columns"));
        }
        for page in pages(comment).filter(|page| !is_page(&source.path, page)) {
            findings.push(Finding::new("page", format!("{}::{page}", source.path), "there is no such page"));
        }
    }
}

/// Returns `true` for lines of tables and code in doc comments, which cannot be wrapped.
fn is_verbatim(comment: &str) -> bool {
    let text = comment.trim_start_matches(['/', '!']);
    text.trim_start().starts_with('|') || text.starts_with("     ") || text.starts_with(" doublet")
}

fn first_words(comment: &str) -> String {
    comment.trim_start_matches(['/', '!', ' ']).split_whitespace().take(4).collect::<Vec<_>>().join("_")
}

/// Returns the names of Markdown pages in a comment.
fn pages(comment: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| !c.is_ascii_alphanumeric() && !"/._-".contains(c);
    comment.split(is_end).map(|word| word.trim_end_matches('.')).filter(|word| word.ends_with(".md") && word.len() > 3)
}

fn is_page(path: &str, page: &str) -> bool {
    let is_beside = path.rsplit_once('/').is_some_and(|(folder, _)| repository::exists(&format!("{folder}/{page}")));
    is_beside || PAGE_FOLDERS.iter().any(|folder| repository::exists(&format!("{folder}{page}")))
}

struct Visitor<'a> {
    source: &'a Source,
    findings: &'a mut Vec<Finding>,
}

impl Visitor<'_> {
    fn name(&mut self, name: &syn::Ident) {
        let name = name.to_string();
        if name.split('_').any(|word| BANNED_NAME_WORDS.contains(&word)) {
            let place = format!("{}::{name}", self.source.path);
            self.findings.push(Finding::new("name", place, "name the value: the reply, the request, the error"));
        }
    }

    fn function(&mut self, signature: &syn::Signature, attributes: &[syn::Attribute]) {
        self.name(&signature.ident);
        let place = format!("{}::{}", self.source.path, signature.ident);
        if !self.source.test
            && let Some(first) = first_doc_word(attributes)
            && !verbs().iter().any(|verb| *verb == first)
        {
            let remark = format!("its doc comment begins with {first:?}, which is no verb of verbs.txt");
            self.findings.push(Finding::new("verb", place.clone(), remark));
        }
        let parameters: usize = signature.inputs.iter().map(parameter_count).sum();
        if parameters > PARAMETERS_MAX && !self.source.test {
            let remark = format!("{parameters} parameters, at most {PARAMETERS_MAX}: make a struct");
            self.findings.push(Finding::sized("parameters", place, parameters, remark));
        }
    }
}

impl<'a> Visit<'a> for Visitor<'_> {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        if !for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(&item.sig, &item.attrs);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(&item.sig, &item.attrs);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        self.function(&item.sig, &item.attrs);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_pat_ident(&mut self, item: &'a syn::PatIdent) {
        self.name(&item.ident);
        visit::visit_pat_ident(self, item);
    }

    fn visit_field(&mut self, item: &'a syn::Field) {
        item.ident.iter().for_each(|name| self.name(name));
        visit::visit_field(self, item);
    }

    fn visit_local(&mut self, item: &'a syn::Local) {
        let pattern = match &item.pat {
            syn::Pat::Type(typed) => &*typed.pat,
            pattern => pattern,
        };
        let value = item.init.as_ref().filter(|init| init.diverge.is_none()).map(|init| &*init.expr);
        if let (syn::Pat::Tuple(names), Some(syn::Expr::Tuple(_))) = (pattern, value) {
            let names: Vec<_> = names.elems.iter().map(pattern_name).collect();
            let place = format!("{}::{}", self.source.path, names.join("_"));
            self.findings.push(Finding::new("tuple", place, "bind each value in a statement of its own"));
        }
        visit::visit_local(self, item);
    }
}

fn pattern_name(pattern: &syn::Pat) -> String {
    match pattern {
        syn::Pat::Ident(name) => name.ident.to_string(),
        _ => "_".to_owned(),
    }
}

fn parameter_count(parameter: &syn::FnArg) -> usize {
    match parameter {
        syn::FnArg::Receiver(_) => 0,
        syn::FnArg::Typed(typed) => match &*typed.ty {
            syn::Type::Tuple(members) => members.elems.len(),
            _ => 1,
        },
    }
}

fn first_doc_word(attributes: &[syn::Attribute]) -> Option<String> {
    let doc = attributes.iter().find(|attribute| attribute.path().is_ident("doc"))?;
    let syn::Meta::NameValue(value) = &doc.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &value.value else { return None };
    let text = text.value();
    let first = text.split_whitespace().next()?;
    Some(first.trim_end_matches([',', '.', ':']).to_owned())
}

fn verbs() -> Vec<&'static str> {
    include_str!("../verbs.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<String> {
        let syntax = syn::parse_file(text).expect("Rust");
        let source = Source { path: path.into(), crate_name: "base".into(), test: false, text: text.into(), syntax };
        findings(&source).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn dialect_and_packed_statements_are_found() {
        assert_eq!(
            rules("a.rs", "/// Returns it (`docs/views.md`).\nfn f(a: u8, b: (u8, u8)) {}"),
            Vec::<String>::new()
        );
        assert_eq!(rules("a.rs", "/// Gives it.\nfn f() {}"), ["verb"]);
        assert_eq!(rules("a.rs", "/// Returns it to whoever asks.\nfn f() {}"), ["word"]);
        assert_eq!(rules("a.rs", "// See gone.md.\nfn f() {}"), ["page"]);
        assert_eq!(rules("a.rs", &format!("// {}\nfn f() {{}}", "long ".repeat(30))), ["width"]);
        assert_eq!(rules("a.rs", "fn f(a: (u8, u8, u8), b: (u8, u8, u8)) {}"), ["parameters"]);
        assert_eq!(rules("a.rs", "fn f() { let (a, b) = (1, 2); }"), ["tuple"]);
        assert_eq!(rules("a.rs", "fn f() { let (a, b) = pair(); }"), Vec::<String>::new());
        assert_eq!(rules("a.rs", "fn f() { let was_told = 1; }"), ["name"]);
        assert_eq!(rules("a.rs", "struct S { said: u8 }\nfn heard(retold: u8) {}"), ["name", "name"]);
    }
}
