//! The options that every command takes.

use std::path::{Path, PathBuf};

use clap::Args;
use config::{Config, ConfigSources};

use crate::error::CommandError;
use crate::remote_options::RemoteOptions;
use crate::terminal_text;

/// Location of the configuration and the data; the same options for every command.
#[derive(Debug, Clone, Args)]
pub struct GlobalOptions {
    /// Configuration file (TOML). Without a file every key has its default.
    #[arg(long, short, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data folder; overrides server.data of the configuration.
    #[arg(long, short, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Sets one key of the configuration, for example --set listen.imap=127.0.0.1:1143. May be given several times.
    // Not global for clap, which would keep only the values at the deepest level. `command_line` adds it to every
    // subcommand and collects the values of all levels.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Prints results as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// Server that commands connect to.
    #[command(flatten)]
    pub remote: RemoteOptions,
}

impl GlobalOptions {
    /// Returns the sources of the configuration.
    #[must_use]
    pub fn sources(&self) -> ConfigSources {
        ConfigSources {
            file: self.config.clone(),
            preset: Vec::new(),
            overrides: self.set.clone(),
            data: self.data.clone(),
        }
    }

    /// Reads and checks the configuration. Writes its warnings to standard error.
    pub fn load(&self) -> Result<Config, CommandError> {
        load(&self.sources())
    }

    /// Reads and checks the configuration of a folder with local replicas. Writes its warnings to standard error.
    pub fn load_local(&self, folder: &Path) -> Result<Config, CommandError> {
        load(&ConfigSources { data: Some(folder.to_owned()), ..self.sources() })
    }
}

fn load(sources: &ConfigSources) -> Result<Config, CommandError> {
    let config = config::load(sources).map_err(CommandError::new)?;
    for warning in &config.warnings {
        eprintln!("doublet: warning: {}", terminal_text::lines(&warning.to_string()));
    }
    Ok(config)
}
