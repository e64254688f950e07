//! The options of commands that connect to a server as a user.

use std::path::PathBuf;

use clap::Args;

use crate::error::CommandError;

/// Heading of the native protocol options in the help.
pub const HEADING: &str = "Native protocol";

/// Address of a server and login of the caller; the same options for every command that connects to a server. All other
/// commands reject them.
#[derive(Debug, Clone, Default, Args)]
pub struct RemoteOptions {
    /// Connects to this server over the native protocol. Default port: 1352.
    #[arg(long, global = true, value_name = "HOST[:PORT]", help_heading = HEADING, hide = true)]
    pub server: Option<String>,
    /// Works on the local replicas in this folder, without a connection; docs/replication.md ("Local replicas").
    #[arg(long, global = true, value_name = "DIR", help_heading = HEADING, hide = true, conflicts_with_all = ["server", "data"])]
    pub local: Option<PathBuf>,
    /// User to log in as: a short name, full name or mail address.
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING, hide = true)]
    pub user: Option<String>,
    /// File with the password in its first line, - for standard input. Default: the variable DOUBLET_PASSWORD, or else
    /// a prompt.
    #[arg(long, global = true, value_name = "FILE|-", help_heading = HEADING, hide = true)]
    pub password_file: Option<PathBuf>,
    /// The server's own certificate (PEM); no other is accepted. Default: certificates signed by the roots of the
    /// configuration (router.roots).
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING, hide = true)]
    pub certificate: Option<PathBuf>,
    /// Compresses requests and replies (gzip), for slow lines.
    #[arg(long, global = true, help_heading = HEADING, hide = true)]
    pub compress: bool,
}

impl RemoteOptions {
    /// Returns `true` if a command that can also work on a data folder is to connect to a server.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.given_options().next().is_some()
    }

    /// Returns the names of the given options.
    pub fn given_options(&self) -> impl Iterator<Item = &'static str> {
        let options = [
            ("--local", self.local.is_some()),
            ("--user", self.user.is_some()),
            ("--server", self.server.is_some()),
            ("--password-file", self.password_file.is_some()),
            ("--certificate", self.certificate.is_some()),
            ("--compress", self.compress),
        ];
        options.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// Returns `true` if the password is read from standard input.
    #[must_use]
    pub fn reads_input(&self) -> bool {
        self.password_file.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }

    /// Returns the name of the user to log in as.
    pub fn user(&self) -> Result<String, CommandError> {
        self.user.clone().ok_or_else(|| CommandError("no user name; specify it with --user".to_owned()))
    }
}
