//! The workload files that this program brings, and the files of others.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::finding::nearest;
use super::limits::FILE_BYTES_MAX;

/// The files of the folder `workloads`, by their names without extension.
pub const FILES: &[(&str, &str)] = &[
    ("attachmentcompression", include_str!("../../../../workloads/attachmentcompression.toml")),
    ("clustermail", include_str!("../../../../workloads/clustermail.toml")),
    ("dwa8", include_str!("../../../../workloads/dwa8.toml")),
    ("dwa85", include_str!("../../../../workloads/dwa85.toml")),
    ("dwa85lite", include_str!("../../../../workloads/dwa85lite.toml")),
    ("entmail", include_str!("../../../../workloads/entmail.toml")),
    ("idle", include_str!("../../../../workloads/idle.toml")),
    ("largeinbox", include_str!("../../../../workloads/largeinbox.toml")),
    ("maxsessions", include_str!("../../../../workloads/maxsessions.toml")),
    ("n7mail", include_str!("../../../../workloads/n7mail.toml")),
    ("n8mail", include_str!("../../../../workloads/n8mail.toml")),
    ("n8mailinit", include_str!("../../../../workloads/n8mailinit.toml")),
    ("namelookup", include_str!("../../../../workloads/namelookup.toml")),
    ("networkcompression", include_str!("../../../../workloads/networkcompression.toml")),
    ("r5mail", include_str!("../../../../workloads/r5mail.toml")),
    ("r6imap", include_str!("../../../../workloads/r6imap.toml")),
    ("r6inotes", include_str!("../../../../workloads/r6inotes.toml")),
    ("r6mail", include_str!("../../../../workloads/r6mail.toml")),
    ("shareddatabase", include_str!("../../../../workloads/shareddatabase.toml")),
    ("streamingreplication", include_str!("../../../../workloads/streamingreplication.toml")),
    ("viewrebuild", include_str!("../../../../workloads/viewrebuild.toml")),
];

/// Returns the text of a shipped workload by its name in lower case, or that of a file by its path.
///
/// At most one byte more than the maximum size is read, so that a longer file is refused later without being loaded.
pub fn load(name: &str) -> Result<String, String> {
    if let Some((_, text)) = FILES.iter().find(|(shipped, _)| *shipped == name) {
        return Ok((*text).to_owned());
    }
    read_file(Path::new(name)).map_err(|error| match nearest(name, FILES.iter().map(|(shipped, _)| *shipped)) {
        Some(shipped) if !name.contains(['/', '.']) => {
            format!("there is no workload {name}; did you mean {shipped}?")
        }
        _ => format!("{name} cannot be read: {error}"),
    })
}

fn read_file(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    // The cut may be within a character.
    if bytes.len() > FILE_BYTES_MAX {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(std::io::Error::other)
}
