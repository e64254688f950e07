//! The configuration: one TOML file, read in two stages.
//!
//! The first stage turns the file into a flat list of keys and texts ([`raw`]). The second turns every known key into a
//! checked value ([`keys`]). All problems are reported at once, each with its line; an unknown key is an error that
//! names the most similar known key. The old name of a renamed key ([`renamed_keys`]) still works, with a warning. A
//! key that is not set has its default from the table in [`keys`]; a test compares `docs/configuration.md` with the
//! same table.
//!
//! Order of precedence: the command line (`--set section.key=value`, `--data`), the file, the demo's preset, the
//! default. Environment variables are not read.

mod contradictions;
pub mod keys;
pub mod limits;
pub mod load;
pub mod log_filter;
pub mod problem;
pub mod raw;
pub mod reference;
pub mod renamed_keys;
pub mod setting;
pub mod units;

#[cfg(test)]
mod tests;

pub use keys::{Config, ConfigKey, ConfigSection, EffectiveValue, KEYS, SECTIONS};
pub use load::{ConfigSources, load};
pub use problem::{ConfigError, Problem};
pub use raw::ValueSource;
