//! `doublet config check|show|keys`: checks, shows and explains the configuration.

use admin::format_count;
use clap::Subcommand;
use config::{KEYS, ValueSource, reference};

use super::{CommandError, GlobalOptions, ServerFunctions, print};

/// Configuration commands.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Checks the configuration, its memory and the files it names, and reports all problems.
    Check,
    /// Prints every key with its effective value and its source.
    Show {
        /// Shows only keys that do not have their default value.
        #[arg(long)]
        changed: bool,
    },
    /// Explains every key: values, default, range and meaning.
    Keys {
        /// Prints the tables of docs/configuration.md.
        #[arg(long)]
        markdown: bool,
    },
}

/// Runs the command.
pub fn run(server: &ServerFunctions, global: &GlobalOptions, command: &ConfigCommand) -> Result<(), CommandError> {
    match command {
        ConfigCommand::Check => check(server, global),
        ConfigCommand::Show { changed } => show(global, *changed),
        ConfigCommand::Keys { markdown } => {
            keys(global, *markdown);
            Ok(())
        }
    }
}

fn check(server: &ServerFunctions, global: &GlobalOptions) -> Result<(), CommandError> {
    let config = global.load()?;
    let problems = (server.check_files)(&config);
    if !problems.is_empty() {
        return Err(CommandError(format!("the configuration cannot be used here:\n  {}", problems.join("\n  "))));
    }
    let set = config.sources.len();
    if global.json {
        let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
        let object = serde_json::json!({ "valid": true, "set": set, "keys": KEYS.len(), "warnings": warnings });
        print(&format!("{object}\n"));
    } else {
        print(&format!(
            "The configuration is valid: of {} keys {} set, the others have their default.\n",
            KEYS.len(),
            format_count(set, "is", "are")
        ));
    }
    Ok(())
}

fn show(global: &GlobalOptions, changed_only: bool) -> Result<(), CommandError> {
    let mut effective = global.load()?.effective();
    effective.retain(|key| !changed_only || key.source != ValueSource::Default);
    if global.json {
        let member = |key: &config::EffectiveValue| {
            (key.name.to_owned(), serde_json::json!({ "value": key.value, "source": key.source.to_string() }))
        };
        let object: serde_json::Map<_, _> = effective.iter().map(member).collect();
        print(&format!("{}\n", serde_json::Value::Object(object)));
        return Ok(());
    }
    let width = effective.iter().map(|key| key.name.len() + key.value.len()).max().unwrap_or(0);
    for key in &effective {
        let gap = " ".repeat(width.saturating_sub(key.name.len() + key.value.len()));
        print(&format!("{} = {:?}{gap}  # {}\n", key.name, key.value, key.source));
    }
    Ok(())
}

fn keys(global: &GlobalOptions, markdown: bool) {
    if global.json {
        let object = |key: &config::ConfigKey| {
            serde_json::json!({
                "name": key.name, "kind": key.kind, "default": key.default, "range": key.range,
                "meaning": key.description.join(" ").trim(),
            })
        };
        print(&format!("{}\n", serde_json::Value::Array(KEYS.iter().map(object).collect())));
    } else if markdown {
        print(&reference::markdown());
    } else {
        print(&reference::terminal_text());
    }
}
