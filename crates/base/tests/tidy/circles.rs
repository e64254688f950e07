//! Checks of the circles among the files of a crate.
//!
//! A file depends on another if it names an item of it: in a `use` declaration or in a path. Re-exports are followed to
//! the file that defines the item, so `use crate::Error` is a dependency on `error.rs` and not on `lib.rs`. Files that
//! depend on each other, directly or through others, form a *circle*: none of them can be understood or tested without
//! the rest. The size of a circle is the number of its lines, and has a maximum.
//!
//! Methods are called without a path, so the file of an `impl` block is not a dependency of its callers. Test code and
//! the arguments of macros are not examined.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::ratchet::Finding;
use crate::repository;
use crate::sources::{for_tests, is_test};

/// Maximum number of lines of a circle in a crate that [`CIRCLE_LINES_MAX`] does not name.
const CIRCLE_LINES_DEFAULT_MAX: usize = 1_500;

/// Maximum number of lines of a circle by crate, just above its largest. A number may be lowered, and is never raised.
const CIRCLE_LINES_MAX: &[(&str, usize)] =
    &[("admin", 2_150), ("cli", 2_400), ("formula", 2_050), ("imap", 2_700), ("notes", 1_600), ("search", 1_550)];

/// Maximum number of re-exports between a name and its definition.
const RE_EXPORTS_MAX: usize = 16;

type ModulePath = Vec<String>;

/// Checks all crates. Prints the largest circle of each.
pub fn findings() -> Vec<Finding> {
    let mut findings = Vec::new();
    for crate_name in repository::crates() {
        let folder = format!("crates/{crate_name}/src");
        let circles = Modules::load(&folder).circles();
        let Some(Circle { lines, files }) = circles.into_iter().max_by_key(|circle| circle.lines) else { continue };
        println!("{crate_name}: {lines} lines in a circle of {} files", files.len());
        let limit = limit(&crate_name);
        if lines > limit {
            let remark = format!("{lines} lines depend on each other, at most {limit}: {}", files.join(" "));
            findings.push(Finding::sized("circle", folder, lines, remark));
        }
    }
    findings
}

/// Returns the maximum number of lines of a circle in a crate.
fn limit(crate_name: &str) -> usize {
    let own = CIRCLE_LINES_MAX.iter().find(|(name, _)| *name == crate_name);
    own.map_or(CIRCLE_LINES_DEFAULT_MAX, |(_, limit)| *limit)
}

/// Files that depend on each other.
#[derive(Debug, PartialEq, Eq)]
struct Circle {
    /// The sum of their lines.
    lines: usize,
    /// Their modules, as paths from the root of the crate.
    files: Vec<String>,
}

/// The modules of a crate that have a file of their own, without test code.
struct Modules {
    modules: BTreeMap<ModulePath, Module>,
}

/// A file.
struct Module {
    lines: usize,
    /// The paths of its `use` declarations, by the name that each brings into scope, `*` for a glob.
    imports: Vec<(String, ModulePath)>,
    /// All paths that it names.
    paths: Vec<ModulePath>,
    /// The items that it defines.
    items: BTreeSet<String>,
}

impl Modules {
    fn load(folder: &str) -> Self {
        let files = repository::files(folder, &["rs"]);
        Self::parse(folder, files.into_iter().filter(|path| !is_test(path)).map(|path| (repository::read(&path), path)))
    }

    fn parse(folder: &str, files: impl Iterator<Item = (String, String)>) -> Self {
        let module = |(text, path): (String, String)| {
            let module = module_path(path.strip_prefix(folder)?.trim_start_matches('/'))?;
            let syntax = syn::parse_file(&text).ok()?;
            Some((module.clone(), Module::from_syntax(&syntax, module, text.lines().count())))
        };
        Self { modules: files.filter_map(module).collect() }
    }

    fn circles(&self) -> Vec<Circle> {
        let direct: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
            self.modules.keys().map(|module| (module, self.dependencies(module))).collect();
        let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
            direct.keys().map(|module| (*module, reachable(module, &direct))).collect();
        let mut done: BTreeSet<&ModulePath> = BTreeSet::new();
        let mut circles = Vec::new();
        for (module, others) in &reached {
            let members: Vec<_> = others.iter().copied().filter(|other| reached[other].contains(module)).collect();
            if members.len() < 2 || !done.insert(module) {
                continue;
            }
            done.extend(&members);
            let lines = members.iter().map(|member| self.modules[*member].lines).sum();
            circles.push(Circle { lines, files: members.iter().map(|member| member.join("::")).collect() });
        }
        circles
    }

    fn dependencies(&self, module: &ModulePath) -> BTreeSet<&ModulePath> {
        let paths = &self.modules[module].paths;
        let named = paths.iter().filter_map(|path| self.definition(module, path, RE_EXPORTS_MAX));
        named.filter(|found| *found != module).collect()
    }

    /// Returns the module that defines what `path` names in `module`. Returns `None` for items of other crates and for
    /// local names.
    fn definition(&self, module: &ModulePath, path: &[String], re_exports: usize) -> Option<&ModulePath> {
        let mut base = module.clone();
        let mut rest = path;
        while let Some((first, behind)) = rest.split_first() {
            match first.as_str() {
                "crate" => base.clear(),
                "super" => drop(base.pop()),
                "self" => {}
                _ => break,
            }
            rest = behind;
        }
        if rest.len() == path.len() && !self.names(&base, path.first()?) {
            return None;
        }
        while let Some((first, behind)) = rest.split_first() {
            let child = [&base[..], std::slice::from_ref(first)].concat();
            if self.modules.contains_key(&child) {
                base = child;
                rest = behind;
                continue;
            }
            return self.imported(&base, first, behind, re_exports).or_else(|| self.file_of(&base));
        }
        self.file_of(&base)
    }

    /// Returns `true` if a name is that of a submodule or was imported, so that a path may begin with it.
    fn names(&self, module: &[String], name: &str) -> bool {
        let child = [module, &[name.to_owned()]].concat();
        let file = self.file_of(module).map(|file| &self.modules[file]);
        self.modules.contains_key(&child) || file.is_some_and(|file| file.imports.iter().any(|(own, _)| own == name))
    }

    /// Returns the module that defines an item that `module` imports by its name or with a glob.
    fn imported(&self, module: &ModulePath, name: &str, rest: &[String], re_exports: usize) -> Option<&ModulePath> {
        let re_exports = re_exports.checked_sub(1)?;
        let file = self.modules.get(module)?;
        let is_itself = |target: &ModulePath| target.len() == 1 && target[0] == name;
        if let Some((_, target)) = file.imports.iter().find(|(own, target)| own == name && !is_itself(target)) {
            return self.definition(module, &[&target[..], rest].concat(), re_exports);
        }
        let globs = file.imports.iter().filter(|(own, _)| own == "*" && !file.items.contains(name));
        let mut found = globs.filter_map(|(_, target)| self.definition(module, target, re_exports));
        found.find(|found| self.modules[*found].items.contains(name))
    }

    /// Returns the module of the file in which a module lies, which is another one for an inline module.
    fn file_of(&self, module: &[String]) -> Option<&ModulePath> {
        (0..=module.len()).rev().find_map(|length| self.modules.get_key_value(&module[..length]).map(|(path, _)| path))
    }
}

impl Module {
    fn from_syntax(syntax: &syn::File, path: ModulePath, lines: usize) -> Self {
        let module = Self { lines, imports: Vec::new(), paths: Vec::new(), items: BTreeSet::new() };
        let mut visitor = PathVisitor { module, path, inline: 0 };
        visitor.visit_file(syntax);
        visitor.module
    }
}

/// Returns the modules that can be reached from a module, which is among them if it is in a circle.
fn reachable<'m>(
    from: &'m ModulePath,
    direct: &BTreeMap<&'m ModulePath, BTreeSet<&'m ModulePath>>,
) -> BTreeSet<&'m ModulePath> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        open.extend(direct[module].iter().copied().filter(|next| found.insert(*next)));
    }
    found
}

/// Returns the module of a file, by its path in `src`. Returns `None` for programs, which are crates of their own.
fn module_path(file: &str) -> Option<ModulePath> {
    let stem = file.strip_suffix(".rs")?;
    let mut parts: ModulePath = stem.split('/').map(str::to_owned).collect();
    let last = parts.last()?.clone();
    match last.as_str() {
        "main" => return None,
        "lib" if parts.len() == 1 => drop(parts.pop()),
        _ if parts[0] == "bin" => return None,
        _ => {}
    }
    Some(parts)
}

/// A visitor that collects the paths of a file, with `super` in inline modules resolved.
struct PathVisitor {
    module: Module,
    /// The current module, inline modules included.
    path: ModulePath,
    /// Number of inline modules around the current place.
    inline: usize,
}

impl PathVisitor {
    fn add(&mut self, mut path: ModulePath) {
        if self.inline > 0 && matches!(path[0].as_str(), "super" | "self") {
            drop(path.splice(0..0, std::iter::once("crate".to_owned()).chain(self.path.iter().cloned())));
            while let Some(at) = path.iter().position(|part| part == "super" || part == "self") {
                let first = if path[at] == "super" { at - 1 } else { at };
                path.drain(first..=at);
            }
        }
        self.module.paths.push(path);
    }

    fn imports(&mut self, tree: &syn::UseTree, before: &mut ModulePath) {
        let (name, last) = match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.imports(&path.tree, before);
                before.pop();
                return;
            }
            syn::UseTree::Group(group) => return group.items.iter().for_each(|item| self.imports(item, before)),
            syn::UseTree::Name(name) => (name.ident.to_string(), Some(name.ident.to_string())),
            syn::UseTree::Rename(name) => (name.rename.to_string(), Some(name.ident.to_string())),
            syn::UseTree::Glob(_) => ("*".to_owned(), None),
        };
        let target: ModulePath = before.iter().cloned().chain(last.filter(|last| last != "self")).collect();
        let name = if name == "self" { before.last().cloned().unwrap_or_default() } else { name };
        if !target.is_empty() {
            self.add(target.clone());
            self.module.imports.push((name, target));
        }
    }
}

impl<'a> Visit<'a> for PathVisitor {
    fn visit_item(&mut self, item: &'a syn::Item) {
        let (attributes, name) = match item {
            syn::Item::Mod(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            syn::Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Type(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Const(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Static(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Impl(item) => (&item.attrs, None),
            syn::Item::Use(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if for_tests(attributes) {
            return;
        }
        self.module.items.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if item.content.is_some() {
            self.path.push(item.ident.to_string());
            self.inline += 1;
            visit::visit_item_mod(self, item);
            self.inline -= 1;
            self.path.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.imports(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            self.add(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&[&str]]) {
        let files = files.iter().map(|(path, text)| ((*text).to_owned(), format!("crates/x/src/{path}")));
        let circles = Modules::parse("crates/x/src", files).circles();
        let found: Vec<_> = circles.iter().map(|circle| circle.files.clone()).collect();
        assert_eq!(found, expected);
        assert!(circles.iter().all(|circle| circle.lines == circle.files.len()), "each file has one line");
    }

    #[test]
    fn files_that_name_each_other_are_a_circle() {
        check(&[("a.rs", "use crate::b::B;"), ("b.rs", "struct B;")], &[]);
        check(&[("a.rs", "use crate::b::B;"), ("b.rs", "struct B(crate::a::A);")], &[&["a", "b"]]);
        check(&[("a.rs", "use super::b;"), ("b.rs", "use crate::c;"), ("c.rs", "use crate::a;")], &[&["a", "b", "c"]]);
        check(&[("a.rs", "mod c; use c::C;"), ("a/c.rs", "use super::A; struct C;")], &[&["a", "a::c"]]);
    }

    #[test]
    fn re_exports_lead_to_the_definition() {
        let root = ("lib.rs", "pub mod a; pub mod b; pub use a::A; pub use b::*;");
        check(&[root, ("a.rs", "use crate::B; struct A;"), ("b.rs", "struct B;")], &[]);
        check(&[root, ("a.rs", "use crate::B; struct A;"), ("b.rs", "struct B(crate::A);")], &[&["a", "b"]]);
    }

    #[test]
    fn tests_and_other_crates_do_not_count() {
        check(&[("a.rs", "use crate::b::B;"), ("b.rs", "#[cfg(test)] mod tests { use crate::a::A; }")], &[]);
        check(&[("a.rs", "use b::B; use std::a;"), ("b.rs", "fn f() { a::g(); }")], &[]);
        check(&[("a.rs", "use crate::b::B; mod inner { use super::A; }"), ("b.rs", "struct B;")], &[]);
    }
}
