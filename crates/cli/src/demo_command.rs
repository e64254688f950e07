//! `doublet demo`: the demo server that `make run` starts.

use std::fmt::Write;
use std::sync::Arc;

use config::ConfigSources;
use instance::Instance;
use instance::data_folder::ListenerAddress;

use super::{CommandError, GlobalOptions, ServerFunctions, print};
use crate::{demo, log};

/// Sets up the demo data on the first start and runs the demo server.
pub fn run(server: &ServerFunctions, global: &GlobalOptions) -> Result<(), CommandError> {
    let preset = demo::PRESET.iter().map(|text| (*text).to_owned()).collect();
    let mut config = config::load(&ConfigSources { preset, ..global.sources() }).map_err(CommandError::new)?;
    log::start(&config.log).map_err(CommandError)?;
    log::configuration_warnings(&config);
    (server.prepare)(&mut config).map_err(CommandError)?;
    let instance = Instance::open(Arc::new(config)).map_err(CommandError::new)?;
    let logins = demo::set_up(&instance).map_err(CommandError::new)?;
    let kept = instance.data.demo_passwords_file();
    (server.run)(instance, &mut |bound| print(&welcome(bound, &logins, &kept))).map_err(CommandError)
}

fn welcome(bound: &[ListenerAddress], logins: &[(String, String)], kept: &std::path::Path) -> String {
    let mut text = format!("\nDoublet's demo: domain {}, group team@{0}.\n\n", demo::DOMAIN);
    for (login, password) in logins {
        let _ = writeln!(text, "  {login:18} {password}");
    }
    let _ = writeln!(text, "\nThe passwords are kept in {}.\n", kept.display());
    for listener in bound {
        let _ = writeln!(text, "  {:16} {}", listener.protocol, listener.address);
    }
    if let Some(listener) = bound.iter().find(|listener| listener.protocol == "http") {
        let address = listener.address.replace("127.0.0.1", "localhost");
        let _ = writeln!(text, "\nWeb mail: http://{address}/ (log in with a name and a password from above).");
    }
    if let (Some((login, _)), Some(data)) = (logins.first(), kept.parent()) {
        let command = format!("doublet view entries {} 'By Category'", demo::discussion::PATH);
        let _ =
            writeln!(text, "\nTo read the team's discussion: `{command} --user {login} --data {}`.", data.display());
    }
    text.push_str(
        "\nThe certificate is self-signed; mail for other domains stays in the queue. Ctrl-C stops the server.\n\n",
    );
    text
}
