//! The server's certificate: either the configured one, or a self-signed one that the server creates.
//!
//! A server of a domain has one of the domain's certifier instead ([`ServerFile`]), whose key is in the same file, so
//! that a crash cannot leave a pair that does not fit.
//!
//! A server without a certificate could not offer encryption. The first start therefore creates a self-signed
//! certificate for the server's name and keeps it in the data folder. Clients warn about it, as they should. SIGHUP or
//! `doublet tls reload` reads the files again.

use std::path::{Path, PathBuf};

use base::{Name, Timestamp};
use config::Config;
use directory::IssuedCertificate;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use wire::Tls;
use wire::limits::PEM_BYTES_MAX;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::time::ASN1Time;

use crate::certifier::ServerFile;
use crate::data_folder::{DataError, DataFolder, read_limited, write_private};

/// Paths of the certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    chain: PathBuf,
    key: PathBuf,
    /// The files of the server itself, or `None` if the configuration names the files.
    own: Option<OwnCertificate>,
    /// File with the root certificates that sign the certificates of other servers. If it is not configured, it is that
    /// of the certifier, which may not exist.
    peers: PeerRoots,
}

/// The certificate of a server whose configuration names none.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OwnCertificate {
    /// Server name for which a self-signed certificate is created if there is none.
    name: String,
    data: DataFolder,
}

impl OwnCertificate {
    /// Returns the file of the certificate that the certifier has issued, with its key, if it exists.
    fn issued_file(&self) -> Option<PathBuf> {
        Some(self.data.issued_file()).filter(|file| file.exists())
    }
}

/// The file with the root certificates that sign the certificates of other servers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PeerRoots {
    path: PathBuf,
    /// `true` if the configuration names the file, which then has to exist.
    is_configured: bool,
}

impl PeerRoots {
    /// Reads the certificates. Returns `None` if there are none.
    fn read(&self) -> Result<Option<Vec<u8>>, DataError> {
        if !self.is_configured && !self.path.exists() {
            return Ok(None);
        }
        read_limited(&self.path, PEM_BYTES_MAX as u64).map(Some)
    }
}

/// Reason why the certificate cannot be used, written for the operator.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The files are not a valid certificate and key.
    #[error("{chain} and {key}: {source}")]
    Tls {
        /// File of the certificate.
        chain: PathBuf,
        /// File of the key.
        key: PathBuf,
        /// The underlying error.
        source: wire::TlsError,
    },
    /// The file with the root certificates of other servers is invalid.
    #[error("{path}: {source}")]
    Peers {
        /// File of the root certificates.
        path: PathBuf,
        /// The underlying error.
        source: wire::TlsError,
    },
    /// The file is not a certificate in PEM format.
    #[error("{0} does not contain a readable certificate")]
    Unreadable(PathBuf),
    /// This server has the certificate of a certifier without its key: it has joined a domain, or the key is lost.
    #[error(
        "{certificate} is the certifier of this domain, but its key {key} is not here; register servers on the server \
         that has the key (the first one of the domain), or restore the key from a backup"
    )]
    NoCertifierKey {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the missing key.
        key: PathBuf,
    },
    /// A certificate was issued, and cannot be used by this server.
    #[error(
        "the certificate cannot be used for the server {server}: {reason}; `doublet server register` on the first server of the domain issues a new one"
    )]
    Unusable {
        /// The name of this server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// No certificate can be created for this name.
    #[error("cannot create a certificate for {0:?}: {1}")]
    Generate(String, String),
}

impl CertificateFiles {
    /// Returns the paths from the configuration, or those in the data folder if none are configured.
    #[must_use]
    pub fn from_config(config: &Config, data: &DataFolder, server_name: &str) -> Self {
        let peers = match &config.tls.peers.0 {
            Some(path) => PeerRoots { path: data.resolve(path), is_configured: true },
            None => PeerRoots { path: data.certifier_file(), is_configured: false },
        };
        match (&config.tls.certificate.0, &config.tls.key.0) {
            (Some(chain), Some(key)) => Self { chain: data.resolve(chain), key: data.resolve(key), own: None, peers },
            _ => {
                let (chain, key) = data.self_signed_files();
                let own = OwnCertificate { name: server_name.to_owned(), data: data.clone() };
                Self { chain, key, own: Some(own), peers }
            }
        }
    }

    /// Loads the certificate. A self-signed certificate that does not exist yet is created first, and an interrupted
    /// installation of one of the certifier is completed.
    pub fn load(&self) -> Result<Tls, CertificateError> {
        if let Some(own) = &self.own {
            self.prepare(own)?;
        }
        let (chain, key) = self.read_files()?;
        let roots = self.peers.read()?;
        let tls = Tls::new(&chain, &key).map_err(|source| self.tls_error(source))?;
        let Some(roots) = roots else { return Ok(tls) };
        Tls::with_client_roots(&chain, &key, Some(&roots)).map_err(|source| self.peers_error(source))
    }

    /// Reads the files again for a running server. On error the old certificate stays in use.
    pub fn reload(&self, tls: &Tls) -> Result<(), CertificateError> {
        let (chain, key) = self.read_files()?;
        let roots = self.peers.read()?;
        Tls::new(&chain, &key).map_err(|source| self.tls_error(source))?;
        tls.replace(&chain, &key, roots.as_deref()).map_err(|source| self.peers_error(source))
    }

    /// Reads the files again if a running server presents another certificate than the one in them. Returns `true` if
    /// it did.
    pub fn reload_if_changed(&self, tls: &Tls) -> Result<bool, CertificateError> {
        let (chain, _) = self.read_files()?;
        if tls.presents(&chain).map_err(|source| self.tls_error(source))? {
            return Ok(false);
        }
        self.reload(tls)?;
        Ok(true)
    }

    /// Reads what connections to other servers of the domain need. Returns `None` if no authority for their
    /// certificates is configured.
    pub fn for_servers(&self) -> Result<Option<ServerCredentials>, CertificateError> {
        let Some(roots) = self.peers.read()? else { return Ok(None) };
        let (chain, key) = self.read_files()?;
        Ok(Some(ServerCredentials { roots, chain, key }))
    }

    /// Reads the description of the certificate from its file.
    pub fn describe(&self) -> Result<CertificateDescription, CertificateError> {
        let (chain, _) = self.read_files()?;
        CertificateDescription::parse(&chain).ok_or_else(|| CertificateError::Unreadable(self.chain.clone()))
    }

    /// Returns `true` if the configuration names the files of the certificate.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        self.own.is_none()
    }

    /// Returns `true` if the certifier of the domain has issued the certificate: the configuration does not name it,
    /// and the certifier is known.
    #[must_use]
    pub fn is_issued(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.data.certifier_file().exists())
    }

    /// Returns `true` if the server has created the certificate itself.
    #[must_use]
    pub fn is_self_signed(&self) -> bool {
        self.own.is_some() && !self.is_issued()
    }

    /// Returns the file of the certificate for clients, without the key.
    #[must_use]
    pub fn chain_file(&self) -> &Path {
        &self.chain
    }

    fn issued_file(&self) -> Option<PathBuf> {
        self.own.as_ref().and_then(OwnCertificate::issued_file)
    }

    fn read_files(&self) -> Result<(Vec<u8>, Vec<u8>), DataError> {
        let size_bytes_max = PEM_BYTES_MAX as u64;
        if let Some(issued) = self.issued_file() {
            let both = read_limited(&issued, size_bytes_max)?;
            return Ok((both.clone(), both));
        }
        Ok((read_limited(&self.chain, size_bytes_max)?, read_limited(&self.key, size_bytes_max)?))
    }

    fn prepare(&self, own: &OwnCertificate) -> Result<(), CertificateError> {
        if let Some(issued) = ServerFile::installed(&own.data)? {
            let for_clients = read_limited(&self.chain, PEM_BYTES_MAX as u64).ok();
            if self.key.exists() || for_clients.as_deref() != Some(issued.chain().as_bytes()) {
                issued.install(&own.data)?;
            }
        } else if !(self.chain.exists() && self.key.exists()) {
            self.create(&own.name)?;
        }
        Ok(())
    }

    fn create(&self, name: &str) -> Result<(), CertificateError> {
        let (chain, key) = generate_self_signed(name)
            .map_err(|error| CertificateError::Generate(name.to_owned(), error.to_string()))?;
        write_private(&self.key, key.as_bytes())?;
        write_private(&self.chain, chain.as_bytes())?;
        tracing::info!(file = %self.chain.display(), name, "created a self-signed certificate");
        Ok(())
    }

    fn peers_error(&self, source: wire::TlsError) -> CertificateError {
        CertificateError::Peers { path: self.peers.path.clone(), source }
    }

    fn tls_error(&self, source: wire::TlsError) -> CertificateError {
        let issued = self.issued_file();
        let [chain, key] = [&self.chain, &self.key].map(|file| issued.as_ref().unwrap_or(file).clone());
        CertificateError::Tls { chain, key, source }
    }
}

/// What a connection to another server of the domain needs, in PEM form.
pub struct ServerCredentials {
    /// The authorities that sign the certificates of servers.
    pub roots: Vec<u8>,
    /// The certificate of this server.
    pub chain: Vec<u8>,
    /// The key of this server.
    pub key: Vec<u8>,
}

/// Description of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateDescription {
    /// Names for which the certificate is valid.
    pub names: Vec<String>,
    /// Issuer of the certificate.
    pub issuer: String,
    /// Start of the validity period.
    pub not_before: Timestamp,
    /// End of the validity period.
    pub not_after: Timestamp,
}

/// Returns the server name in a certificate, in the form used in access control lists.
///
/// The name consists of the common name and the organization of the subject. Without a common name the first DNS name
/// takes its place; without an organization, `organization` does. Returns `None` if the certificate has no usable name.
#[must_use]
pub fn server_name_in(certificate: &[u8], organization: &str) -> Option<Name> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let text = |attribute: Option<&x509_parser::x509::AttributeTypeAndValue<'_>>| {
        attribute.and_then(|attribute| attribute.as_str().ok()).map(str::to_owned)
    };
    let subject = certificate.subject();
    let organization = text(subject.iter_organization().next()).unwrap_or_else(|| organization.to_owned());
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let dns = alternative.and_then(|names| {
        names.value.general_names.iter().find_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
    });
    let common = text(subject.iter_common_name().next()).or(dns)?;
    let is_plain = |part: &str| !part.is_empty() && !part.contains(['/', '=', '*']);
    (is_plain(&common) && is_plain(&organization)).then(|| Name::new(&format!("CN={common}/O={organization}")))
}

impl CertificateDescription {
    /// Returns what the directory records of the certificate.
    #[must_use]
    pub fn issued(&self) -> IssuedCertificate {
        IssuedCertificate { issuer: self.issuer.clone(), until: self.not_after }
    }

    /// Describes the first certificate of a chain in PEM form. Returns `None` if it cannot be read.
    #[must_use]
    pub fn parse(chain: &[u8]) -> Option<Self> {
        Self::parse_der(&Pem::iter_from_buffer(chain).next()?.ok()?.contents)
    }

    /// Describes a certificate in DER form. Returns `None` if it cannot be read.
    #[must_use]
    pub fn parse_der(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
        let alternative = certificate.subject_alternative_name().ok().flatten();
        let names = alternative.iter().flat_map(|names| &names.value.general_names).map(|name| match name {
            GeneralName::DNSName(name) => (*name).to_owned(),
            other => other.to_string(),
        });
        let moment = |at: ASN1Time| Timestamp::from_seconds(at.timestamp());
        Some(Self {
            names: names.collect(),
            issuer: certificate.issuer().to_string(),
            not_before: moment(certificate.validity().not_before),
            not_after: moment(certificate.validity().not_after),
        })
    }
}

fn generate_self_signed(name: &str) -> Result<(String, String), rcgen::Error> {
    let mut names = vec![name.to_owned(), "localhost".to_owned()];
    names.dedup();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, "Doublet, self-signed");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use config::{ConfigSources, load};

    fn files(folder: &Path, overrides: &[String]) -> CertificateFiles {
        let origin =
            ConfigSources { data: Some(folder.to_owned()), overrides: overrides.to_vec(), ..ConfigSources::default() };
        let config = load(&origin).expect("a valid configuration");
        CertificateFiles::from_config(&config, &DataFolder::new(folder), "mail.test")
    }

    #[test]
    fn a_certificate_is_described() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = files(folder.path(), &[]);
        assert!(files.describe().is_err());
        files.load().expect("it can be made");
        let found = files.describe().expect("it was made");
        assert_eq!(
            (found.names, found.issuer.contains("CN=mail.test")),
            (vec!["mail.test".to_owned(), "localhost".to_owned()], true)
        );
        assert!(found.not_after > found.not_before);
        std::fs::write(files.chain_file(), "nonsense").expect("it can be written");
        assert!(files.describe().is_err());
    }

    #[test]
    fn certificate_is_created_once_and_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = files(folder.path(), &[]);
        files.load().expect("it is made");
        let created = std::fs::read(files.chain_file()).expect("the file exists");
        let mode = std::fs::metadata(&files.key).expect("the file exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        files.load().expect("the certificate exists");
        assert_eq!(std::fs::read(files.chain_file()).expect("the file exists"), created);
    }

    #[test]
    fn broken_certificate_file_is_reported_and_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = files(folder.path(), &[]);
        let tls = files.load().expect("it is made");
        let before = tls.config();
        std::fs::write(files.chain_file(), "nonsense").expect("it can be written");
        let error = files.reload(&tls).expect_err("no certificate").to_string();
        assert!(error.contains("certificate.pem"), "{error}");
        assert!(std::sync::Arc::ptr_eq(&before, &tls.config()));
    }

    #[test]
    fn files_that_a_running_server_does_not_present_are_read_again() {
        let [folder, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let peers = folder.path().join("peers.pem");
        let files = files(folder.path(), &[format!("tls.peers={}", peers.display())]);
        let replaced = self::files(other.path(), &[]);
        replaced.load().expect("it is made");
        std::fs::copy(replaced.chain_file(), &peers).expect("it can be copied");
        let tls = files.load().expect("it is made");
        assert!(!files.reload_if_changed(&tls).expect("they are readable"), "it presents what is in the file");
        for (from, to) in [(&replaced.chain, &files.chain), (&replaced.key, &files.key)] {
            std::fs::copy(from, to).expect("it can be copied");
        }
        std::fs::rename(&peers, folder.path().join("moved")).expect("it can be moved");
        let before = tls.config();
        files.reload_if_changed(&tls).expect_err("the authorities are missing");
        assert!(std::sync::Arc::ptr_eq(&before, &tls.config()));
        std::fs::rename(folder.path().join("moved"), &peers).expect("it can be moved");
        assert!(files.reload_if_changed(&tls).expect("they are readable"), "the attempt is repeated");
        assert!(!files.reload_if_changed(&tls).expect("they are readable"));
    }

    #[test]
    fn configured_certificate_files_are_never_created() {
        let folder = tempfile::tempdir().expect("a folder");
        let overrides = ["tls.certificate=mine.pem".to_owned(), "tls.key=mine.key".to_owned()];
        let error = files(folder.path(), &overrides).load().expect_err("there is no file").to_string();
        assert!(error.contains("mine.pem"), "{error}");
    }
}
