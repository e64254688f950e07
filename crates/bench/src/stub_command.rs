//! The command `stub`: a server that answers at once, for the driver's own figures.
//!
//! It writes the files that `run --target` needs into a folder, prints the path of the first one, and serves until it
//! is ended. It is not for people who measure servers, so `help` does not list it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::stub::{ResponseTime, StubOptions, StubServer};
use clap::Args;

use crate::arguments::Result;
use crate::run_command::facts;
use crate::run_command::interrupts::Interrupts;

/// Options of `stub`.
#[derive(Debug, Args)]
pub struct StubCommand {
    /// The folder for target.toml, the certificate and the password.
    folder: PathBuf,
    /// The address on which it listens.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// How long a call takes: "5 ms", "1 ms-9 ms" (uniform), or "exponential 5 ms"; default: no time.
    #[arg(long, value_name = "TIME")]
    response: Option<ResponseTime>,
    /// The seed of times that are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The worker threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
}

/// Serves until the process is ended.
pub fn run(command: &StubCommand) -> Result<ExitCode> {
    facts::raise_open_files();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(command.threads.into()).enable_all().build()?;
    runtime.block_on(async {
        let options = StubOptions {
            listen: command.listen.clone(),
            response_time: command.response.unwrap_or(ResponseTime::AtOnce),
            seed: command.seed,
        };
        let mut interrupts = Interrupts::new()?;
        let server = StubServer::start(&options).await?;
        let target = write_target(&command.folder, &server)?;
        println!("{}", target.display());
        interrupts.next().await;
        eprintln!("{} calls", server.calls());
        Ok(ExitCode::SUCCESS)
    })
}

/// Writes the files of a target, and returns the path of the one that describes it.
fn write_target(folder: &Path, server: &StubServer) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("certificate.pem"), server.certificate())?;
    let mut password = fs::OpenOptions::new();
    let mut password = password.write(true).create(true).truncate(true).mode(0o600).open(folder.join("password"))?;
    password.write_all(b"every password is accepted\n")?;
    let path = folder.join("target.toml");
    let text = format!(
        "native = \"{}\"\npassword_file = \"password\"\ncertificate = \"certificate.pem\"\nprocesses = [{}]\n",
        server.address(),
        std::process::id()
    );
    fs::write(&path, text)?;
    Ok(path)
}
