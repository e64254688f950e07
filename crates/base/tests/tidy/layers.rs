//! Checks of the layers: the allowed dependencies between crates.
//!
//! The layers are read from the code map in `ARCHITECTURE.md`, so that the map and the manifests always agree. A crate
//! depends only on crates of lower layers. Protocol crates and `wire` share layer 6. They may depend on `wire`, on
//! `dkim`, on `http`, and on `proto` if they speak the native protocol, but never on each other. A crate without a
//! layer (`–` in the map) depends on `base` and `client` alone, unless the map states that it drives other crates. No
//! crate depends on a crate without a layer.

use std::collections::{BTreeMap, BTreeSet};

use crate::ratchet::Finding;
use crate::{dependencies, repository};

/// The highest layer whose crates must build without tokio.
const LAYER_WITHOUT_RUNTIME_MAX: u8 = 5;

/// Crates of layer 6 that other crates of layer 6 may depend on.
const LAYER_6_SHARED: &[&str] = &["wire", "proto", "dkim", "http"];

/// Crates that a crate without a layer may depend on. The load generator is a client of the native protocol.
const UNLAYERED_DEPENDENCIES: &[&str] = &["base", "client"];

/// Crates that drive all other crates and so depend on every layer.
const UNRESTRICTED_CRATES: &[&str] = &["fuzz"];

/// Checks the manifests against the map, and the map against the folders.
pub fn layer_violations() -> Vec<Finding> {
    let map = map(&repository::read("ARCHITECTURE.md"));
    let crates: BTreeSet<String> = repository::crates().into_iter().collect();
    let mut findings = Vec::new();
    for crate_name in &crates {
        let manifest = format!("crates/{crate_name}/Cargo.toml");
        let Some(layer) = map.get(crate_name) else {
            findings.push(Finding::new("map", manifest, "ARCHITECTURE.md does not name this crate"));
            continue;
        };
        let table = repository::manifest(&manifest);
        let targets: BTreeSet<&String> = dependencies::dependencies(&table).map(|(name, _)| name).collect();
        for target in targets {
            if let Some(remark) = objection((crate_name, *layer), target, &map) {
                findings.push(Finding::new("layer", format!("{manifest}::{target}"), remark));
            }
        }
    }
    findings
}

/// Checks with Cargo's resolver that the core crates do not link tokio.
pub fn runtime() -> Vec<Finding> {
    let map = map(&repository::read("ARCHITECTURE.md"));
    let core = repository::crates()
        .into_iter()
        .filter(|crate_name| matches!(map.get(crate_name), Some(Some(layer)) if *layer <= LAYER_WITHOUT_RUNTIME_MAX));
    let mut findings = Vec::new();
    for crate_name in core {
        let packages = repository::cargo(&[
            "tree",
            "--package",
            &crate_name,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ]);
        if packages.iter().any(|package| package.starts_with("tokio v")) {
            findings.push(Finding::new(
                "runtime",
                format!("crates/{crate_name}"),
                "links tokio; the core is synchronous (`cargo tree -i tokio` says why)",
            ));
        }
    }
    findings
}

/// Returns the objection to a dependency of a crate on `target`, or `None` if it is allowed.
fn objection(from: (&str, Option<u8>), target: &str, map: &BTreeMap<String, Option<u8>>) -> Option<String> {
    let (crate_name, layer) = from;
    let allowed = match (layer, map.get(target)?) {
        _ if UNRESTRICTED_CRATES.contains(&crate_name) => true,
        (_, None) => false,
        (None, Some(_)) => UNLAYERED_DEPENDENCIES.contains(&target),
        (Some(6), Some(6)) => LAYER_6_SHARED.contains(&target),
        (Some(from), Some(to)) => to < &from,
    };
    if allowed { None } else { Some(format!("{crate_name} may not lean on {target} (layers in ARCHITECTURE.md)")) }
}

/// Parses the rows `| layer | `crate` ... | ... |` of the code map.
fn map(page: &str) -> BTreeMap<String, Option<u8>> {
    let mut crates = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, layer, names, ..] = cells[..] else { continue };
        let layer = match layer {
            "–" => None,
            number => match number.parse() {
                Ok(number) => Some(number),
                Err(_) => continue,
            },
        };
        for name in names.split('`').skip(1).step_by(2) {
            crates.insert(name.trim_end_matches('/').to_owned(), layer);
        }
    }
    crates
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| layer | crate |\n|---|---|\n| 0 | `base` | ids |\n| 1 | `store` | files |\n| 6 | `wire` `client` | s |\n\
                        | 6 | `imap` `smtp` | p |\n| – | `bench` | load |\n";

    fn refused(from: &str, to: &str) -> bool {
        let map = map(PAGE);
        objection((from, map[from]), to, &map).is_some()
    }

    #[test]
    fn only_references_to_lower_layers_are_permitted() {
        assert!(
            !refused("store", "base")
                && !refused("imap", "store")
                && !refused("imap", "wire")
                && !refused("bench", "base")
        );
        assert!(
            refused("base", "store")
                && refused("imap", "smtp")
                && refused("store", "bench")
                && refused("bench", "store")
        );
        assert!(refused("wire", "imap") && refused("imap", "client") && !refused("bench", "client"));
    }
}
