//! The requests of `doublet server`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

/// Requests about the servers of the domain.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum ServerRequest {
    /// Registers another server of this domain, and writes the file with which it joins.
    ///
    /// The first use creates the certifier of the domain, which signs the certificates of its servers, and gives this
    /// server a certificate of it, unless the configuration names one. Repeat it to renew a certificate.
    #[command(after_help = "Example: doublet server register spoke.acme.example --output spoke.pem\n\
                            Then, on the other server: doublet server join spoke.pem")]
    Register {
        /// Host name of the other server (its `server.name`), or its name, such as spoke.acme.example/Acme.
        #[arg(value_name = "HOST")]
        host: String,
        /// Host and port by which other servers reach it. Default: its host name, and 1352.
        #[arg(long, value_name = "HOST[:PORT]")]
        #[serde(default)]
        address: Option<String>,
        /// File for the other server. It contains a private key: copy it there safely, and delete it afterwards.
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
        /// Host and port by which the other server reaches this one. Default: the name of this server, and 1352.
        #[arg(long, value_name = "HOST[:PORT]")]
        #[serde(default)]
        own_address: Option<String>,
    },
    /// Makes the server of this data folder a member of the domain of another one. Works before its first start.
    ///
    /// The directory of the other server replicates to this one, and the certificate is installed. On a server that has
    /// joined already, only the certificate is replaced.
    Join(JoinRequest),
    /// Replaces the certificate of this server by a new one with the same name, for a new key.
    ///
    /// The first server of the domain issues it: this server connects to it with its present certificate, which must be
    /// valid. A running server does this by itself 90 days before the certificate ends.
    Renew {
        /// The first server of the domain, if it is not the one that has issued the present certificate: its name, or
        /// host and port.
        #[arg(long, value_name = "SERVER")]
        #[serde(default)]
        from: Option<String>,
    },
    /// Lists the servers of the domain, with the end of their certificates.
    List,
    /// Shows a server and its certificate.
    Show {
        /// Name of the server, such as spoke.acme.example/Acme, or its host name. Default: this server.
        #[arg(value_name = "SERVER")]
        name: Option<String>,
    },
    /// Changes the address of a server of the domain, and which other servers may call it. Other properties are not
    /// changed.
    #[command(after_help = "Examples: doublet server set spoke.acme.example --address 192.0.2.7:1352\n          \
                            doublet server set hub.acme.example --admit '*/Acme' --exclude old.acme.example/Acme")]
    Set(ServerUpdate),
    /// Removes a server from the directory and from the group of the domain's servers. Its certificate stays valid
    /// until it expires; access control lists that name the server itself are not changed.
    Remove {
        /// Name of the server, such as spoke.acme.example/Acme, or its host name.
        #[arg(value_name = "SERVER")]
        name: String,
        /// Also removes the server that has issued the certificate of this one. Without it, no server can be registered
        /// and no certificate renewed.
        #[arg(long)]
        #[serde(default)]
        force: bool,
    },
    /// Registers a server again that was removed, with the certificate that it has. Works on each server of the domain.
    Readmit {
        /// Name of the server, such as spoke.acme.example/Acme, or its host name.
        #[arg(value_name = "SERVER")]
        name: String,
        /// Host and port by which other servers reach it. Default: its host name, and 1352.
        #[arg(long, value_name = "HOST[:PORT]")]
        #[serde(default)]
        address: Option<String>,
    },
}

/// Changes to a server document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
pub struct ServerUpdate {
    /// Name of the server, such as spoke.acme.example/Acme, or its host name.
    #[arg(value_name = "SERVER")]
    pub name: String,
    /// Host and port by which other servers reach its native protocol. Default port: 1352. `none`: unknown.
    #[arg(long, value_name = "HOST[:PORT]|none")]
    #[serde(default)]
    pub address: Option<String>,
    /// A server, wildcard or group of servers; may be given several times. Only these servers may call it. `none`: all
    /// servers of the domain.
    #[arg(long = "admit", value_name = "WHO|none")]
    #[serde(default)]
    pub admitted: Vec<String>,
    /// A server, wildcard or group of servers that may not call it; may be given several times. `none`: no server is
    /// excluded.
    #[arg(long = "exclude", value_name = "WHO|none")]
    #[serde(default)]
    pub excluded: Vec<String>,
}

/// Joins the domain of another server.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
pub struct JoinRequest {
    /// File that `doublet server register` has written on the other server.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Host and port of the other server, if they differ from those in the file.
    #[arg(long, value_name = "HOST[:PORT]")]
    #[serde(default)]
    pub from: Option<String>,
}
