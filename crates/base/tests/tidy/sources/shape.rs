//! Checks of the shape of a file: docs, lengths, nesting, names, unfinished work.

use syn::visit::{self, Visit};

use super::{Source, for_tests, functions};
use crate::ratchet::Finding;

const FUNCTION_LINES_MAX: usize = 70;
/// Maximum number of lines of a test function. A test may describe a longer sequence of events.
const TEST_FUNCTION_LINES_MAX: usize = 100;
const FILE_LINES_MAX: usize = 1_000;
const NESTING_MAX: usize = 5;
const DOC_LINES_MIN: usize = 1;
const DOC_LINES_MAX: usize = 60;

/// Names of modules that attract unrelated code.
const BANNED_MODULES: &[&str] = &["util", "utils", "common", "helper", "helpers", "manager", "misc", "shared", "stuff"];
const BANNED_ENDINGS: &[&str] = &["Manager", "Helper", "Util", "Utils"];

/// Checks one file.
pub fn findings(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    module_doc(source, &mut findings);
    lengths(source, &mut findings);
    nesting(source, &mut findings);
    names(source, &mut findings);
    markers(source, &mut findings);
    lib_without_logic(source, &mut findings);
    if !source.test {
        let mut public = PublicDocsVisitor { source, findings: &mut findings };
        public.visit_file(&source.syntax);
    }
    findings
}

fn module_doc(source: &Source, findings: &mut Vec<Finding>) {
    let lines = source.text.lines().filter(|line| line.trim_start().starts_with("//!")).count();
    let first = source.text.lines().find(|line| !line.starts_with("#!")).unwrap_or_default();
    if !first.starts_with("//!") || lines < DOC_LINES_MIN {
        findings.push(Finding::new(
            "docs",
            &source.path,
            "a file opens with `//!`: what it is, what it promises, what it leaves out",
        ));
    } else if lines > DOC_LINES_MAX {
        findings.push(Finding::sized("docs", &source.path, lines, "its module doc is a book: that belongs into docs/"));
    }
}

fn lengths(source: &Source, findings: &mut Vec<Finding>) {
    for function in functions(source) {
        let max = if function.test { TEST_FUNCTION_LINES_MAX } else { FUNCTION_LINES_MAX };
        if function.lines > max {
            let place = format!("{}::{}", source.path, function.name);
            let remark = format!("{} lines, at most {max}: give its phases names", function.lines);
            findings.push(Finding::sized("length", place, function.lines, remark));
        }
    }
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        findings.push(Finding::sized("file", &source.path, lines, format!("{lines} lines, at most {FILE_LINES_MAX}")));
    }
}

fn nesting(source: &Source, findings: &mut Vec<Finding>) {
    for function in functions(source) {
        let mut depth = NestingVisitor::default();
        depth.visit_block(function.body);
        if depth.deepest > NESTING_MAX {
            let place = format!("{}::{}", source.path, function.name);
            let remark =
                format!("nests {} deep, at most {NESTING_MAX}: return early, or name the inner part", depth.deepest);
            findings.push(Finding::sized("nesting", place, depth.deepest, remark));
        }
    }
}

/// The nesting depth of conditions, loops, matches and closures with a block. An `else if` does not add a level.
#[derive(Default)]
struct NestingVisitor {
    now: usize,
    deepest: usize,
}

impl NestingVisitor {
    fn inside(&mut self, walk: impl FnOnce(&mut Self)) {
        self.now += 1;
        self.deepest = self.deepest.max(self.now);
        walk(self);
        self.now -= 1;
    }
}

impl<'a> Visit<'a> for NestingVisitor {
    fn visit_expr_if(&mut self, item: &'a syn::ExprIf) {
        self.visit_expr(&item.cond);
        self.inside(|depth| depth.visit_block(&item.then_branch));
        match item.else_branch.as_ref().map(|(_, other)| &**other) {
            Some(syn::Expr::If(next)) => self.visit_expr_if(next),
            Some(other) => self.inside(|depth| visit::visit_expr(depth, other)),
            None => {}
        }
    }

    fn visit_expr_match(&mut self, item: &'a syn::ExprMatch) {
        self.inside(|depth| visit::visit_expr_match(depth, item));
    }

    fn visit_expr_while(&mut self, item: &'a syn::ExprWhile) {
        self.inside(|depth| visit::visit_expr_while(depth, item));
    }

    fn visit_expr_for_loop(&mut self, item: &'a syn::ExprForLoop) {
        self.inside(|depth| visit::visit_expr_for_loop(depth, item));
    }

    fn visit_expr_loop(&mut self, item: &'a syn::ExprLoop) {
        self.inside(|depth| visit::visit_expr_loop(depth, item));
    }

    fn visit_expr_closure(&mut self, item: &'a syn::ExprClosure) {
        if matches!(*item.body, syn::Expr::Block(_)) {
            self.inside(|depth| visit::visit_expr_closure(depth, item));
        } else {
            visit::visit_expr_closure(self, item);
        }
    }

    /// Skips nested functions, which are measured separately.
    fn visit_item_fn(&mut self, _: &'a syn::ItemFn) {}
}

fn names(source: &Source, findings: &mut Vec<Finding>) {
    let stems = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    for stem in stems.filter(|stem| BANNED_MODULES.contains(stem)) {
        findings.push(Finding::new(
            "name",
            &source.path,
            format!("`{stem}` attracts whatever has no home: a module is a noun of the domain"),
        ));
    }
    if source.path.contains("/src/") && source.path.ends_with("/mod.rs") {
        findings.push(Finding::new("name", &source.path, "`foo/mod.rs` is named `foo.rs`, beside the folder `foo`"));
    }
    for item in &source.syntax.items {
        let name = match item {
            syn::Item::Mod(item) if BANNED_MODULES.contains(&item.ident.to_string().as_str()) => &item.ident,
            syn::Item::Struct(item) => &item.ident,
            syn::Item::Enum(item) => &item.ident,
            syn::Item::Trait(item) => &item.ident,
            _ => continue,
        };
        let name = name.to_string();
        if matches!(item, syn::Item::Mod(_)) || BANNED_ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            findings.push(Finding::new("name", format!("{}::{name}", source.path), "says nothing about what it does"));
        }
    }
}

fn markers(source: &Source, findings: &mut Vec<Finding>) {
    // The markers are assembled here, so that this file does not report itself.
    let banned = [["FIX", "ME"], ["TO", "DO"], ["XX", "X:"]].map(|halves| halves.concat());
    for marker in &banned {
        let whole = |line: &str| {
            line.split(|c: char| !c.is_alphanumeric() && c != ':')
                .any(|word| word.trim_end_matches(':') == marker.trim_end_matches(':'))
        };
        if source.text.lines().filter(|line| line.contains("//")).any(whole) {
            findings.push(Finding::new(
                "marker",
                &source.path,
                format!("{marker}: main holds finished things; open ends go into an issue"),
            ));
        }
    }
}

fn lib_without_logic(source: &Source, findings: &mut Vec<Finding>) {
    if !source.path.ends_with("src/lib.rs") || source.crate_name == "fuzz" {
        return;
    }
    for item in &source.syntax.items {
        if let syn::Item::Fn(function) = item
            && !for_tests(&function.attrs)
        {
            let place = format!("{}::{}", source.path, function.sig.ident);
            findings.push(Finding::new(
                "contents",
                place,
                "lib.rs is a table of contents: move the logic into a module",
            ));
        }
    }
}

/// A visitor that finds public items without a doc comment. Items that are visible only within the crate need none.
struct PublicDocsVisitor<'a> {
    source: &'a Source,
    findings: &'a mut Vec<Finding>,
}

impl PublicDocsVisitor<'_> {
    fn look(&mut self, visibility: &syn::Visibility, attributes: &[syn::Attribute], name: &syn::Ident) {
        let documented = attributes.iter().any(|attribute| attribute.path().is_ident("doc"));
        if matches!(visibility, syn::Visibility::Public(_)) && !documented {
            let place = format!("{}::{name}", self.source.path);
            self.findings.push(Finding::new("public", place, "a public item says in a `///` sentence what it is"));
        }
    }
}

impl<'a> Visit<'a> for PublicDocsVisitor<'_> {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.look(&item.vis, &item.attrs, &item.sig.ident);
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.look(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.look(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.look(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_type(&mut self, item: &'a syn::ItemType) {
        self.look(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.look(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.look(&item.vis, &item.attrs, &item.sig.ident);
    }
}
