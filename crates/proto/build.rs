//! Compiles the `.proto` files of `proto/` into messages and stubs, without a compiler of the system's (`protox` is one in Rust).

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const ROOT: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={ROOT}");
    let folder = Path::new(ROOT).join("doublet/v1");
    let files: BTreeSet<PathBuf> =
        std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    let set = protox::compile(files, [ROOT])?;
    let mut methods = String::from("&[\n");
    for service in set.file.iter().flat_map(|file| &file.service) {
        for method in &service.method {
            writeln!(methods, "    \"/doublet.v1.{}/{}\",", service.name(), method.name())?;
        }
    }
    methods.push(']');
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("methods.rs"), methods)?;
    tonic_prost_build::configure().build_transport(false).compile_fds(set)?;
    Ok(())
}
