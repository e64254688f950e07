//! Checks of the sources: every Rust file of the crates and of `fuzz/`, parsed.
//!
//! There are four groups of rules:
//!
//! - *Language* ([`language`]): verbs of doc comments, banned words, width of comments, parameters, packed `let`s.
//! - *Shape* ([`shape`]): module docs, doc comments on public items, length of functions and files, nesting, names,
//!   markers of unfinished work.
//! - *Reach* ([`banned_calls`]): functions that only certain crates may call, for files, time, randomness and the
//!   environment.
//! - *Care* (also [`banned_calls`], since these are calls and attributes): unwraps, poisoned locks, sleeping tests,
//!   `unsafe`, ignored tests.
//!
//! Test code is code under `tests/` or `examples/` (measuring programs), in `tests.rs`, or in a module marked
//! `#[cfg(test)]`. Build scripts (`build.rs`) are treated like test code, because they are not part of the product.

mod banned_calls;
pub mod language;
mod shape;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::ratchet::Finding;
use crate::repository;

/// The rules of this folder.
pub const RULES: &[&str] = &[
    "docs",
    "public",
    "length",
    "file",
    "nesting",
    "name",
    "marker",
    "contents",
    "files",
    "clock",
    "random",
    "environment",
    "spawn",
    "unwrap",
    "lock",
    "sleep",
    "unsafe",
    "ignore",
    "verb",
    "word",
    "width",
    "page",
    "parameters",
    "tuple",
];

/// A parsed file and the properties that follow from its path.
pub struct Source {
    /// The path from the root.
    pub path: String,
    /// The crate, or `fuzz`.
    pub crate_name: String,
    /// `true` if the whole file is test code.
    pub test: bool,
    /// The text of the file.
    pub text: String,
    /// The parsed text.
    pub syntax: syn::File,
}

/// Checks all sources.
pub fn findings() -> Vec<Finding> {
    let paths = ["crates", "fuzz"].iter().flat_map(|folder| repository::files(folder, &["rs"]));
    paths.map(|path| (repository::read(&path), path)).flat_map(|(text, path)| file(&path, text)).collect()
}

fn file(path: &str, text: String) -> Vec<Finding> {
    let syntax = match syn::parse_file(&text) {
        Ok(syntax) => syntax,
        Err(error) => return vec![Finding::new("docs", path, format!("does not parse: {error}"))],
    };
    let mut folders = path.split('/');
    let crate_name = if folders.next() == Some("crates") { folders.next().unwrap_or_default() } else { "fuzz" };
    let source = Source { path: path.into(), crate_name: crate_name.into(), test: is_test(path), text, syntax };
    let mut findings = shape::findings(&source);
    findings.extend(banned_calls::findings(&source));
    findings.extend(language::findings(&source));
    findings
}

/// Returns `true` if a file contains only test code, by its path.
pub fn is_test(path: &str) -> bool {
    ["/tests/", "/examples/", "/benches/"].iter().any(|folder| path.contains(folder))
        || path.ends_with("/build.rs")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

/// Returns `true` if an item is compiled for tests only.
pub fn for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("cfg") && list.tokens.to_string() == "test"
    })
}

/// A function with a body, anywhere in a file.
pub struct Function<'a> {
    /// The name, preceded by the name of the type in an `impl`.
    pub name: String,
    /// `true` if the function is test code.
    pub test: bool,
    /// Number of lines from the line of `fn` to that of the closing brace.
    pub lines: usize,
    /// The body.
    pub body: &'a syn::Block,
}

/// Returns all functions of a file.
pub fn functions(source: &Source) -> Vec<Function<'_>> {
    let mut collector = Collector { found: Vec::new(), owner: String::new(), test: source.test };
    collector.visit_file(&source.syntax);
    collector.found
}

struct Collector<'a> {
    found: Vec<Function<'a>>,
    owner: String,
    test: bool,
}

impl<'a> Collector<'a> {
    fn add(&mut self, signature: &syn::Signature, attributes: &[syn::Attribute], body: &'a syn::Block) {
        let lines = body.span().end().line - signature.span().start().line + 1;
        let name = format!("{}{}", self.owner, signature.ident);
        let test = self.test || attributes.iter().any(|a| a.path().segments.last().is_some_and(|s| s.ident == "test"));
        self.found.push(Function { name, test, lines, body });
    }
}

impl<'a> Visit<'a> for Collector<'a> {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        let outside = self.test;
        self.test |= for_tests(&module.attrs);
        visit::visit_item_mod(self, module);
        self.test = outside;
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig, &item.attrs, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let outside = self.owner.clone();
        if let syn::Type::Path(path) = &*item.self_ty
            && let Some(last) = path.path.segments.last()
        {
            self.owner = format!("{}::", last.ident);
        }
        visit::visit_item_impl(self, item);
        self.owner = outside;
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig, &item.attrs, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.sig, &item.attrs, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the names of the rules that a file violates. A module doc is added before the text.
    fn check(path: &str, text: &str, expected: &[&str]) {
        let text = format!("//! A file that is there to be\n//! looked at by the tidy test.\n\n{text}\n");
        let mut rules: Vec<String> = file(path, text.clone()).into_iter().map(|finding| finding.rule).collect();
        rules.dedup();
        assert_eq!(rules, expected, "{path}:\n{text}");
    }

    const MAIL: &str = "crates/mail/src/x.rs";

    #[test]
    fn allowed_calls_depend_on_the_crate() {
        let clock = "fn f() -> std::time::Instant { std::time::Instant::now() }";
        check(MAIL, clock, &["clock"]);
        check("crates/instance/src/x.rs", clock, &[]);
        check("crates/wire/src/x.rs", "use tokio::time::Instant;\nfn f() -> Instant { Instant::now() }", &[]);
        let files = "use std::fs::File;\nfn f() { let _ = File::open(\"x\"); }";
        check(MAIL, files, &["files"]);
        check("crates/store/src/x.rs", files, &[]);
        check("crates/mail/tests/x.rs", files, &[]);
        check(MAIL, "fn f() { let _ = std::env::var(\"HOME\"); }", &["environment"]);
        check("crates/mail/src/x.rs", "use rand::Rng;", &["random"]);
    }

    #[test]
    fn careless_calls_are_found() {
        check(MAIL, "fn f(x: Option<u8>) -> u8 { x.unwrap() }", &["unwrap"]);
        check(MAIL, "#[cfg(test)]\nmod tests { fn f(x: Option<u8>) -> u8 { x.unwrap() } }", &[]);
        check(MAIL, "use std::sync::{Arc, Mutex};", &["lock"]);
        check(MAIL, "fn f(x: &std::sync::RwLock<u8>) {}", &["lock"]);
        check("crates/mail/tests/x.rs", "use std::sync::{Arc, Mutex};", &[]);
        check("crates/mail/tests/x.rs", "#[test]\n#[ignore]\nfn f() {}", &["ignore"]);
        check("crates/mail/tests/x.rs", "fn f() { std::thread::sleep(D); }", &["sleep"]);
        check(MAIL, "fn f() { unsafe { g() } }", &["unsafe"]);
        check("crates/store/src/x.rs", "fn f() { unsafe { g() } }", &[]);
    }

    #[test]
    fn shape_is_measured() {
        check(MAIL, &format!("fn f() {{\n{}}}", "    g();\n".repeat(68)), &[]);
        check(MAIL, &format!("fn f() {{\n{}}}", "    g();\n".repeat(69)), &["length"]);
        check(MAIL, "pub fn f() {}", &["public"]);
        check(MAIL, "/// Does it.\npub fn f() {}", &[]);
        check("crates/mail/src/util.rs", "", &["name"]);
        check(MAIL, "struct QueueManager;", &["name"]);
        check(MAIL, &format!("// {}: later", ["FIX", "ME"].concat()), &["marker"]);
        check("crates/mail/src/lib.rs", "fn f() {}", &["contents"]);
        let nested = |depth: usize| format!("fn f() {{ {} g(); {} }}", "if x() {".repeat(depth), "}".repeat(depth));
        check(MAIL, &nested(5), &[]);
        check(MAIL, &nested(6), &["nesting"]);
        check(
            MAIL,
            "fn f() { if a() {} else if b() {} else if c() {} else if d() {} else if e() {} else if g() {} }",
            &[],
        );
    }

    #[test]
    fn a_file_without_docs_is_found() {
        let rules: Vec<_> = file(MAIL, "fn f() {}\n".into()).into_iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, ["docs"]);
    }
}
