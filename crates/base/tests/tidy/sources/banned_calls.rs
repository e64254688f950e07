//! Checks of calls that are allowed only in certain crates, or in none.
//!
//! A path is compared word by word: `std::fs::read`, `fs::read` after `use std::fs`, and `File::open` after `use
//! std::fs::File` are all found, because an import of the banned module is a finding itself. Renamed imports that evade
//! the check are left to code review. The clock of tokio belongs to the runtime, and tests can stop it, so protocols
//! may use it for their deadlines.

use syn::visit::{self, Visit};

use super::{Source, for_tests};
use crate::ratchet::Finding;

/// A rule about paths: banned sequences of words, and the crates in which they are allowed.
struct Ban {
    rule: &'static str,
    words: &'static [&'static [&'static str]],
    crates: &'static [&'static str],
    instead: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        rule: "files",
        words: &[&["std", "fs"], &["tokio", "fs"], &["File", "open"], &["File", "create"], &["OpenOptions", "new"]],
        crates: &[
            "store", "search", "config", "instance", "design", "admin", "server", "cli", "doublet", "bench", "fuzz",
        ],
        instead: "only `store` touches files; take a `Read` or `Write`",
    },
    Ban {
        rule: "clock",
        words: &[
            &["SystemTime", "now"],
            &["Instant", "now"],
            &["Timestamp", "now"],
            &["Zoned", "now"],
            &["Utc", "now"],
        ],
        crates: &["instance", "bench"],
        instead: "time is a parameter: base::Clock",
    },
    Ban {
        rule: "random",
        words: &[&["getrandom"], &["rand"], &["OsRng"], &["thread_rng"], &["fastrand"]],
        crates: &["instance"],
        instead: "randomness is a parameter: base::Random",
    },
    Ban {
        rule: "environment",
        words: &[&["env", "var"], &["env", "var_os"], &["env", "vars"], &["env", "args"]],
        crates: &["cli", "doublet", "bench", "fuzz"],
        instead: "only `cli` reads the environment",
    },
    Ban {
        rule: "lock",
        words: &[&["std", "sync", "Mutex"], &["std", "sync", "RwLock"], &["std", "sync", "Condvar"]],
        crates: &[],
        instead: "a panic elsewhere must not take this request along: use the locks of base::sync",
    },
];

/// Files that may start tasks. Each of them documents how its tasks end.
const SPAWNING: &[&str] = &[
    "crates/admin/src/control/server.rs",
    "crates/client/src/connection.rs",
    "crates/server/src/serve/protocols.rs",
    "crates/server/src/transfer_agent.rs",
    "crates/smtp/src/auth/verify.rs",
];

/// Checks one file.
pub fn findings(source: &Source) -> Vec<Finding> {
    let mut walk = BannedCallVisitor { source, test: source.test, runtime_clock: false, findings: Vec::new() };
    walk.visit_file(&source.syntax);
    walk.findings.sort();
    walk.findings.dedup();
    walk.findings
}

struct BannedCallVisitor<'a> {
    source: &'a Source,
    test: bool,
    runtime_clock: bool,
    findings: Vec<Finding>,
}

impl BannedCallVisitor<'_> {
    fn add(&mut self, rule: &str, what: &str, remark: &str) {
        self.findings.push(Finding::new(rule, format!("{}::{what}", self.source.path), remark));
    }

    fn path(&mut self, words: &[String]) {
        if words.last().is_some_and(|word| word == "sleep") && self.test {
            self.add("sleep", "sleep", "tests wait for a state, they do not sleep");
        }
        if !self.test
            && words.first().is_some_and(|word| word == "tokio")
            && words.last().is_some_and(|word| word == "spawn")
        {
            self.spawn(words);
        }
        if words.iter().any(|word| word == "tokio") || (self.runtime_clock && words == ["Instant", "now"]) {
            self.runtime_clock |= words == ["tokio", "time", "Instant"];
            if words.get(1).is_none_or(|word| word != "fs") {
                return;
            }
        }
        for ban in BANS.iter().filter(|ban| !self.test && !ban.crates.contains(&self.source.crate_name.as_str())) {
            if ban.words.iter().any(|banned| starts_somewhere(words, banned)) {
                let what = words.join("::");
                self.findings.push(Finding::new(ban.rule, format!("{}::{what}", self.source.path), ban.instead));
            }
        }
    }

    /// Reports a started task in a file that may not start tasks. Detached tasks are started only where the server
    /// starts and ends. Elsewhere a crate awaits the work that it starts.
    fn spawn(&mut self, words: &[String]) {
        if !SPAWNING.iter().any(|path| *path == self.source.path) {
            self.add(
                "spawn",
                &words.join("::"),
                "a task needs an owner who ends it: await it, or give it to the crate that starts the connections",
            );
        }
    }

    fn imports(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.imports(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.imports(item, before)),
            syn::UseTree::Name(name) => self.import(before, Some(name.ident.to_string())),
            syn::UseTree::Rename(name) => self.import(before, Some(name.ident.to_string())),
            syn::UseTree::Glob(_) => self.import(before, None),
        }
    }

    fn import(&mut self, before: &[String], name: Option<String>) {
        let words: Vec<String> = before.iter().cloned().chain(name).collect();
        self.path(&words);
    }
}

fn starts_somewhere(words: &[String], banned: &[&str]) -> bool {
    // A single word is a crate or a type and must come first. Several words may occur anywhere.
    let places =
        if banned.len() == 1 { words.windows(1).take(1) } else { words.windows(banned.len()).take(usize::MAX) };
    places.into_iter().any(|window| window.iter().zip(banned).all(|(word, banned)| word == banned))
}

impl<'a> Visit<'a> for BannedCallVisitor<'_> {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        let outside = self.test;
        self.test |= for_tests(&module.attrs);
        visit::visit_item_mod(self, module);
        self.test = outside;
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.imports(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.path(&words);
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        if call.method == "unwrap" && call.args.is_empty() && !self.test {
            self.add("unwrap", "unwrap", "`?`, or expect(\"why it holds\") where the same block proves it");
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_unsafe(&mut self, block: &'a syn::ExprUnsafe) {
        if self.source.crate_name != "store" {
            self.add("unsafe", "unsafe", "`unsafe` is for `store`, with its proof");
        }
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_attribute(&mut self, attribute: &'a syn::Attribute) {
        if attribute.path().is_ident("ignore") {
            self.add(
                "ignore",
                "ignore",
                "a test that does not run is none; assert the behavior as it is, with the reason",
            );
        }
        visit::visit_attribute(self, attribute);
    }
}
