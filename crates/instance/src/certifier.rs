//! The certifier: the authority of a domain that signs the certificates of its servers.
//!
//! The first server of a domain creates it (`doublet server register`). Its key stays in the data folder of that
//! server. Another server gets a *server file*: its certificate, its key and the certificate of the certifier in one
//! PEM file, which `doublet server join` reads. `docs/replication.md` ("Servers") describes the steps.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Name, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType, DnValue,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use wire::Tls;
use wire::limits::PEM_BYTES_MAX;
use wire::tls::{verify_issued, verify_issued_der};
use x509_parser::pem::Pem;
use x509_parser::x509::X509Name;

use crate::certificate::{CertificateDescription, CertificateError, CertificateFiles, server_name_in};
use crate::data_folder::{DataFolder, read_limited, remove_file, write_private};

/// Common name of the certifier.
const NAME: &str = "Doublet certifier";

/// Number of years for which the certifier is valid.
const CERTIFIER_YEARS: i16 = 20;

/// Number of years for which the certificate of a server is valid.
const SERVER_YEARS: i16 = 5;

const SECONDS_PER_DAY: i64 = 86_400;

/// Beginning of the line with the address of the server that has written a server file.
const PARTNER_PREFIX: &str = "Address: ";

/// Beginning of the line with the name in the certificate of that server.
const PARTNER_NAME_PREFIX: &str = "Name: ";

const CERTIFICATE_LABEL: &str = "CERTIFICATE";
const KEY_LABEL: &str = "PRIVATE KEY";

/// The authority that signs the certificates of the servers of a domain.
pub struct Certifier {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate in PEM form, and what else its file contains.
    pub certificate: String,
    /// Its certificate alone, in PEM form.
    own: String,
}

/// The certificate of a server, with its key and that of the certifier, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFile {
    /// The certificate of the server.
    pub certificate: String,
    /// The key of the server.
    pub key: String,
    /// The certificate of the certifier, and those of further authorities that the operator has added to its file.
    pub certifier: String,
    /// Host and port of the server that has written the file.
    pub partner: Option<String>,
    /// The name in the certificate of that server.
    pub partner_name: Option<String>,
}

impl Certifier {
    /// Opens the certifier of a data folder. Creates it if there is none.
    pub fn open_or_create(data: &DataFolder, organization: &str, now: Timestamp) -> Result<Self, CertificateError> {
        let (certificate, key) = files(data);
        if certificate.exists() && !key.exists() {
            return Err(CertificateError::NoCertifierKey { certificate, key });
        }
        if !certificate.exists() {
            let created = create(organization, now).map_err(|error| generate_error(NAME, &error))?;
            write_private(&key, created.1.as_bytes())?;
            write_private(&certificate, created.0.as_bytes())?;
            tracing::info!(file = %certificate.display(), "created the certifier of this domain");
        }
        Self::read(&certificate, &key)
    }

    fn read(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let unreadable = || CertificateError::Unreadable(certificate.to_owned());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| unreadable());
        let pem = text(read_limited(certificate, PEM_BYTES_MAX as u64)?)?;
        let key_pem = text(read_limited(key, PEM_BYTES_MAX as u64)?)?;
        let key_pair = KeyPair::from_pem(&key_pem).map_err(|error| generate_error(NAME, &error))?;
        let own = certificate_of_key(&pem, &key_pair).ok_or_else(unreadable)?;
        let organization =
            subject_text(&own, |subject| Some(subject.iter_organization().next()?.as_str().ok()?.to_owned()));
        let params = certifier_params(&organization.ok_or_else(unreadable)?);
        Ok(Self { issuer: Issuer::new(params, key_pair), certificate: pem, own })
    }

    /// Opens the certifier of a data folder. Returns `None` if this server does not have its key.
    pub fn open(data: &DataFolder) -> Result<Option<Self>, CertificateError> {
        let (certificate, key) = files(data);
        (certificate.exists() && key.exists()).then(|| Self::read(&certificate, &key)).transpose()
    }

    /// Returns `true` if this certifier has signed the certificate in the files, and it is valid now.
    pub fn has_issued(&self, files: &CertificateFiles, now: Timestamp) -> Result<bool, CertificateError> {
        if !files.chain_file().exists() {
            return Ok(false);
        }
        let chain = read_limited(files.chain_file(), PEM_BYTES_MAX as u64)?;
        Ok(verify_issued(&chain, self.certificate.as_bytes(), now).is_ok())
    }

    /// Checks that this certifier itself, and not a further authority, has signed the certificate of a server in DER
    /// form, and that it is valid now.
    pub fn check_issued(&self, server: &Name, certificate: &[u8], now: Timestamp) -> Result<(), CertificateError> {
        verify_issued_der(certificate, self.own.as_bytes(), now).map_err(|error| CertificateError::Unusable {
            server: server.abbreviated(),
            reason: format!("the certifier of the domain has not signed the present one, or its time is over: {error}"),
        })
    }

    /// Issues the certificate of a server with this host name, as clients and other servers verify it.
    pub fn issue(&self, host: &str, organization: &str, now: Timestamp) -> Result<ServerFile, CertificateError> {
        let issue = || -> Result<ServerFile, rcgen::Error> {
            let key = KeyPair::generate()?;
            let certificate = server_params(host, organization, now)?.signed_by(&key, &self.issuer)?.pem();
            let certifier = authorities_in(&self.certificate).unwrap_or_default();
            Ok(ServerFile { certificate, key: key.serialize_pem(), certifier, partner: None, partner_name: None })
        };
        issue().map_err(|error| generate_error(host, &error))
    }
}

impl Certifier {
    /// Issues another certificate of a server, for the key of a signing request in DER form. Returns it in PEM form.
    pub fn renew(&self, server: &Name, request: &[u8], now: Timestamp) -> Result<String, CertificateError> {
        let host = server.common();
        let (_, organization) = server
            .abbreviated()
            .split_once('/')
            .map(|(host, rest)| (host.to_owned(), rest.to_owned()))
            .unwrap_or_default();
        let failed = |error: rcgen::Error| generate_error(host, &error);
        // This verifies the signature, which proves that the server has the key.
        let request = CertificateSigningRequestParams::from_der(&request.into()).map_err(failed)?;
        if requested_name(&request.params.distinguished_name).as_ref() != Some(server) {
            let reason = "the signing request has another name (`server.name`, `server.organization`)";
            return Err(CertificateError::Generate(host.to_owned(), reason.to_owned()));
        }
        let params = server_params(host, &organization, now).map_err(failed)?;
        Ok(params.signed_by(&request.public_key, &self.issuer).map_err(failed)?.pem())
    }
}

/// A new key of a server, and the request that a certifier signs it.
pub struct SigningRequest {
    key: KeyPair,
    /// The request in DER form.
    pub request: Vec<u8>,
}

impl SigningRequest {
    /// Creates a key and the request for its certificate.
    pub fn create(host: &str, organization: &str) -> Result<Self, CertificateError> {
        let create = || {
            let mut params = CertificateParams::default();
            params.distinguished_name = distinguished_name(host, organization);
            let key = KeyPair::generate()?;
            let request = params.serialize_request(&key)?.der().to_vec();
            Ok(Self { key, request })
        };
        create().map_err(|error| generate_error(host, &error))
    }

    /// Returns the server file with the certificate that the certifier of a data folder has issued for the key.
    pub fn complete(&self, certificate: &str, data: &DataFolder) -> Result<ServerFile, CertificateError> {
        let path = data.certifier_file();
        let text = String::from_utf8(read_limited(&path, PEM_BYTES_MAX as u64)?).ok();
        let certifier = text.and_then(|text| authorities_in(&text)).ok_or(CertificateError::Unreadable(path))?;
        let unreadable = || CertificateError::Unreadable("the answer of the other server".into());
        let certificate = section(certificate, CERTIFICATE_LABEL, 0).ok_or_else(unreadable)?;
        let key = self.key.serialize_pem();
        Ok(ServerFile { certificate, key, certifier, partner: None, partner_name: None })
    }
}

impl ServerFile {
    /// Returns the text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let line = |prefix: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("{prefix}{value}\n")).unwrap_or_default()
        };
        let partner = line(PARTNER_PREFIX, &self.partner);
        let name = line(PARTNER_NAME_PREFIX, &self.partner_name);
        format!("{partner}{name}{}{}{}", self.certificate, self.key, self.certifier)
    }

    /// Parses the text of a file: the first certificate is that of the server, all others are those of authorities.
    /// Returns `None` if it lacks one of its parts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut certificates = Vec::new();
        let mut key = None;
        for pem in Pem::iter_from_buffer(text.as_bytes()) {
            let pem = pem.ok()?;
            match pem.label.as_str() {
                CERTIFICATE_LABEL => certificates.push(section(text, CERTIFICATE_LABEL, certificates.len())?),
                KEY_LABEL => key = Some(section(text, KEY_LABEL, 0)?),
                _ => {}
            }
        }
        let certificate = certificates.first()?.clone();
        let certifier = certificates[1..].concat();
        if certifier.is_empty() {
            return None;
        }
        let line = |prefix: &str| text.lines().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
        let partner = line(PARTNER_PREFIX);
        Some(Self { certificate, key: key?, certifier, partner, partner_name: line(PARTNER_NAME_PREFIX) })
    }

    /// Checks that the certificate names the server, was signed by the certifier, is valid now and fits the key, and
    /// that the installed file can be read.
    pub fn verify(&self, server: &Name, now: Timestamp) -> Result<(), CertificateError> {
        let unusable = |reason: String| CertificateError::Unusable { server: server.abbreviated(), reason };
        let named = self.server_name().ok_or_else(|| unusable("it names no server".to_owned()))?;
        if named != *server {
            return Err(unusable(format!("it is for the server {}", named.abbreviated())));
        }
        verify_issued(self.certificate.as_bytes(), self.certifier.as_bytes(), now).map_err(|error| {
            unusable(format!("the certifier in the file has not signed it, or its time is over: {error}"))
        })?;
        Tls::new(self.chain().as_bytes(), self.key.as_bytes()).map_err(|error| unusable(error.to_string()))?;
        let text = self.to_text();
        if text.len() > PEM_BYTES_MAX || Self::parse(&text).as_ref() != Some(self) {
            return Err(unusable("the file with it could not be read at the next start".to_owned()));
        }
        Ok(())
    }

    /// Stores the certificate in the data folder. The key and the certificate are one file, which is replaced as a
    /// whole, so they fit together whenever the program ends. The file that it replaces is kept ([`Self::replaced`]).
    pub fn install(&self, data: &DataFolder) -> Result<(), CertificateError> {
        let (chain, key) = data.self_signed_files();
        if let Some(present) = Self::read(data.issued_file())?.filter(|present| present != self) {
            write_private(&data.replaced_issued_file(), present.to_text().as_bytes())?;
        }
        write_private(&files(data).0, self.certifier.as_bytes())?;
        write_private(&data.issued_file(), self.to_text().as_bytes())?;
        // From here on the pair of earlier versions is not read any more. Clients get the certificate from its file.
        write_private(&chain, self.chain().as_bytes())?;
        remove_file(&key)?;
        Ok(())
    }

    /// Reads the file that was installed in a data folder. Returns `None` if there is none.
    pub fn installed(data: &DataFolder) -> Result<Option<Self>, CertificateError> {
        let path = data.issued_file();
        if !path.exists() {
            return Ok(None);
        }
        Self::read(path.clone())?.map(Some).ok_or(CertificateError::Unreadable(path))
    }

    /// Reads the file that the last installation in a data folder has replaced. Returns `None` if there is none that
    /// can be read.
    pub fn replaced(data: &DataFolder) -> Result<Option<Self>, CertificateError> {
        Self::read(data.replaced_issued_file())
    }

    /// Reads a server file. Returns `None` if it does not exist, or is none.
    fn read(path: PathBuf) -> Result<Option<Self>, CertificateError> {
        if !path.exists() {
            return Ok(None);
        }
        let text = String::from_utf8(read_limited(&path, PEM_BYTES_MAX as u64)?).ok();
        Ok(text.as_deref().and_then(Self::parse))
    }

    /// Describes the certificate. Returns `None` if it cannot be read.
    #[must_use]
    pub fn describe(&self) -> Option<CertificateDescription> {
        CertificateDescription::parse(self.certificate.as_bytes())
    }

    /// Returns the name of the server in its certificate.
    #[must_use]
    pub fn server_name(&self) -> Option<Name> {
        let pem = Pem::iter_from_buffer(self.certificate.as_bytes()).next()?.ok()?;
        // A server file always states the organization.
        server_name_in(&pem.contents, "")
    }

    /// Returns the certificate of the server followed by that of the certifier.
    #[must_use]
    pub fn chain(&self) -> String {
        format!("{}{}", self.certificate, self.certifier)
    }
}

/// Returns the files of the certificate and the key of the certifier.
fn files(data: &DataFolder) -> (PathBuf, PathBuf) {
    (data.certifier_file(), data.resolve("tls/certifier.key".as_ref()))
}

/// Returns the certificates in a PEM file without what is between them. Returns `None` if there are none.
fn authorities_in(pem: &str) -> Option<String> {
    let sections = (0..).map_while(|index| section(pem, CERTIFICATE_LABEL, index));
    Some(sections.collect::<String>()).filter(|all| !all.is_empty())
}

/// Returns the section with a label in a PEM file, with its lines.
fn section(text: &str, label: &str, index: usize) -> Option<String> {
    let begin = format!("-----BEGIN {label}-----");
    let end = format!("-----END {label}-----");
    let start = text.match_indices(&begin).nth(index)?.0;
    let length = text[start..].find(&end)? + end.len();
    Some(format!("{}\n", &text[start..start + length]))
}

fn create(organization: &str, now: Timestamp) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = certifier_params(organization);
    set_validity(&mut params, now, CERTIFIER_YEARS);
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

fn server_params(host: &str, organization: &str, now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut names = vec![host.to_owned(), "localhost".to_owned()];
    names.dedup();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = distinguished_name(host, organization);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, SERVER_YEARS);
    Ok(params)
}

fn certifier_params(organization: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.distinguished_name = distinguished_name(NAME, organization);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn distinguished_name(common_name: &str, organization: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name.push(DnType::OrganizationName, organization);
    name
}

/// Returns the name of a server in the subject of a signing request. Names are equal whatever the case of their
/// letters.
fn requested_name(subject: &DistinguishedName) -> Option<Name> {
    let text = |kind: &DnType| match subject.get(kind)? {
        DnValue::Utf8String(text) => Some(text.clone()),
        DnValue::PrintableString(text) => Some(text.as_str().to_owned()),
        _ => None,
    };
    let common = text(&DnType::CommonName)?;
    let organization = text(&DnType::OrganizationName)?;
    let is_plain = |part: &str| !part.is_empty() && !part.contains(['/', '=', '*']);
    (is_plain(&common) && is_plain(&organization)).then(|| Name::new(&format!("CN={common}/O={organization}")))
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, years: i16) {
    let today = now.to_utc().date();
    let month = u8::try_from(today.month()).unwrap_or(1);
    // The first of the month: it exists in every year, and a clock that is days behind accepts the certificate.
    params.not_before = date_time_ymd(i32::from(today.year()) - 1, month, 1);
    // The end shows which of several certificates is the newest one, so it includes the second.
    let days = i64::from(today.day()) - 1;
    let seconds = days * SECONDS_PER_DAY + now.seconds().rem_euclid(SECONDS_PER_DAY);
    let end = date_time_ymd(i32::from(today.year() + years), month, 1);
    params.not_after = end + Duration::from_secs(seconds.unsigned_abs());
}

/// Returns the certificate of a key in a PEM file.
fn certificate_of_key(pem: &str, key: &KeyPair) -> Option<String> {
    let public_key = key.subject_public_key_info();
    let mut sections = (0..).map_while(|index| section(pem, CERTIFICATE_LABEL, index));
    sections.find(|section| {
        let parsed = Pem::iter_from_buffer(section.as_bytes()).next().and_then(Result::ok);
        parsed.is_some_and(|pem| pem.parse_x509().is_ok_and(|found| found.public_key().raw == public_key))
    })
}

/// Returns a text in the subject of the first certificate of a PEM file.
fn subject_text(pem: &str, text: impl Fn(&X509Name<'_>) -> Option<String>) -> Option<String> {
    let pem = Pem::iter_from_buffer(pem.as_bytes()).next()?.ok()?;
    text(pem.parse_x509().ok()?.subject())
}

fn generate_error(name: &str, error: &rcgen::Error) -> CertificateError {
    CertificateError::Generate(name.to_owned(), error.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_767_225_600);

    fn certifier(folder: &tempfile::TempDir) -> Certifier {
        Certifier::open_or_create(&DataFolder::new(folder.path()), "Acme", NOW).expect("it can be created")
    }

    fn der(pem: &str) -> Vec<u8> {
        Pem::iter_from_buffer(pem.as_bytes()).next().expect("one").expect("valid").contents
    }

    #[test]
    fn certifier_is_created_once_and_its_key_is_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = certifier(&folder);
        assert_eq!(certifier(&folder).certificate, first.certificate);
        let key = files(&DataFolder::new(folder.path())).1;
        assert_eq!(std::fs::metadata(key).expect("it exists").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn certificates_name_the_server_and_are_signed() {
        let folder = tempfile::tempdir().expect("a folder");
        let issued = certifier(&folder).issue("hub.acme.test", "Acme", NOW).expect("it can be issued");
        let name = server_name_in(&der(&issued.certificate), "Other").expect("a name");
        assert_eq!(name.canonical(), "CN=hub.acme.test/O=Acme");
        assert_eq!(issued.server_name(), Some(name));
        // Another start of the program signs with the same name and key.
        let again = certifier(&folder).issue("spoke.acme.test", "Acme", NOW).expect("it can be issued");
        let authority = der(&issued.certifier);
        let (_, authority) = x509_parser::parse_x509_certificate(&authority).expect("valid");
        for file in [&issued, &again] {
            let der = der(&file.certificate);
            let (_, certificate) = x509_parser::parse_x509_certificate(&der).expect("valid");
            assert_eq!(certificate.issuer(), authority.subject());
        }
        wire::Tls::with_client_roots(again.chain().as_bytes(), again.key.as_bytes(), Some(again.certifier.as_bytes()))
            .expect("the certificate and the key belong together");
    }

    #[test]
    fn server_file_reads_back_and_is_installed() {
        let folder = tempfile::tempdir().expect("a folder");
        let issued = certifier(&folder).issue("hub.acme.test", "Acme", NOW).expect("it can be issued");
        let with_partner = ServerFile {
            partner: Some("hub.acme.test:1352".to_owned()),
            partner_name: Some("hub.acme.test".to_owned()),
            ..issued.clone()
        };
        for file in [&issued, &with_partner] {
            assert_eq!(ServerFile::parse(&file.to_text()).as_ref(), Some(file));
        }
        for broken in ["", &issued.certificate, &format!("{}{}", issued.certificate, issued.key)] {
            assert_eq!(ServerFile::parse(broken), None);
        }
        let other = tempfile::tempdir().expect("a folder");
        let data = DataFolder::new(other.path());
        issued.install(&data).expect("it can be written");
        assert_eq!(ServerFile::installed(&data).expect("it can be read"), Some(issued.clone()));
        issued.install(&data).expect("it can be written");
        assert_eq!(ServerFile::replaced(&data).expect("it can be read"), None, "nothing was replaced");
        with_partner.install(&data).expect("it can be written");
        assert_eq!(ServerFile::replaced(&data).expect("it can be read"), Some(issued.clone()));
        issued.install(&data).expect("it can be written");
        assert_eq!(std::fs::metadata(data.issued_file()).expect("it exists").permissions().mode() & 0o777, 0o600);
        let config = config(&other);
        let files = |data| CertificateFiles::from_config(&config, data, "hub.acme.test");
        assert!(certifier(&folder).has_issued(&files(&data), NOW).expect("it can be read"));
        let empty = DataFolder::new(folder.path());
        let has_issued = certifier(&folder).has_issued(&files(&empty), NOW);
        assert!(has_issued.is_ok_and(|is_own| !is_own), "there is no certificate");
        let six_years = Timestamp::from_seconds(NOW.seconds() + 6 * 366 * 86_400);
        assert!(!certifier(&folder).has_issued(&files(&data), six_years).expect("it can be read"), "it has expired");
    }

    #[test]
    fn certifier_of_the_same_name_has_not_issued_what_another_one_signed() {
        let [folder, stranger, server] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
        let data = DataFolder::new(server.path());
        let issued = certifier(&stranger).issue("hub.acme.test", "Acme", NOW).expect("it can be issued");
        issued.install(&data).expect("it can be written");
        let files = CertificateFiles::from_config(&config(&server), &data, "hub.acme.test");
        assert!(certifier(&stranger).has_issued(&files, NOW).expect("it can be read"));
        assert!(!certifier(&folder).has_issued(&files, NOW).expect("it can be read"), "only the names are equal");
    }

    #[test]
    fn server_file_is_verified_before_it_is_installed() {
        let [folder, stranger] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let issued = certifier(&folder).issue("hub.acme.test", "Acme", NOW).expect("it can be issued");
        let foreign = certifier(&stranger).issue("hub.acme.test", "Acme", NOW).expect("it can be issued");
        let check = |file: &ServerFile, name: &str, expected: &str| {
            let error = file.verify(&Name::new(name), NOW).map_err(|error| error.to_string()).err().unwrap_or_default();
            assert!(error.contains(expected) && error.is_empty() == expected.is_empty(), "{error}");
        };
        check(&issued, "CN=hub.acme.test/O=Acme", "");
        check(&issued, "CN=hub.acme.test/O=Other", "hub.acme.test/Acme");
        check(&issued, "CN=spoke.acme.test/O=Acme", "hub.acme.test/Acme");
        let signed_by_another = ServerFile { certifier: foreign.certifier.clone(), ..issued.clone() };
        check(&signed_by_another, "CN=hub.acme.test/O=Acme", "has not signed it");
        let other_key = ServerFile { key: foreign.key, ..issued };
        check(&other_key, "CN=hub.acme.test/O=Acme", "key");
    }

    #[test]
    fn renewed_certificate_has_the_name_of_the_server_and_the_key_of_the_request() {
        let [folder, spoke] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let certifier = certifier(&folder);
        let name = Name::new("CN=spoke.acme.test/O=Acme");
        let data = DataFolder::new(spoke.path());
        certifier.issue("spoke.acme.test", "Acme", NOW).and_then(|file| file.install(&data)).expect("it is issued");
        assert!(Certifier::open(&data).expect("it can be read").is_none(), "this server has no key of the certifier");
        let request = SigningRequest::create("spoke.acme.test", "Acme").expect("a key");
        let later = Timestamp::from_seconds(NOW.seconds() + 4 * 366 * 86_400);
        let certificate = certifier.renew(&name, &request.request, later).expect("it is signed");
        let file = request.complete(&certificate, &data).expect("the certifier is known");
        file.verify(&name, Timestamp::from_seconds(NOW.seconds() + 8 * 366 * 86_400)).expect("it is valid");
        // The organization in the configuration may differ in the case of letters. The certificate keeps its name.
        let in_capitals = SigningRequest::create("Spoke.acme.test", "ACME").expect("a key");
        let certificate = certifier.renew(&name, &in_capitals.request, later).expect("it is the same name");
        let subject = server_name_in(&der(&certificate), "").expect("it names a server");
        assert_eq!(subject.canonical(), "CN=spoke.acme.test/O=Acme");
        // The subject of the request does not decide, and nobody gets a certificate for a key that is not theirs.
        let other = SigningRequest::create("hub.acme.test", "Acme").expect("a key");
        certifier.renew(&name, &other.request, NOW).expect_err("the request is for another server");
        let mut broken = request.request.clone();
        *broken.last_mut().expect("it is not empty") ^= 1;
        certifier.renew(&name, &broken, NOW).expect_err("the signature is wrong");
        certifier.renew(&name, b"nonsense", NOW).expect_err("it is no request");
    }

    #[test]
    fn certificates_that_the_certifier_itself_has_signed_are_told_from_others_and_by_their_end() {
        let [folder, stranger] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let own = certifier(&folder);
        let other = certifier(&stranger);
        let name = Name::new("CN=spoke.acme.test/O=Acme");
        let path = files(&DataFolder::new(folder.path())).0;
        // The key decides which certificate in the file is the certifier, not the order.
        write_private(&path, format!("{}{}", other.certificate, own.certificate).as_bytes()).expect("writable");
        let with_both = certifier(&folder);
        let issue = |from: &Certifier, at| from.issue("spoke.acme.test", "Acme", at).expect("it can be issued");
        let later = Timestamp::from_seconds(NOW.seconds() + 1);
        let [first, second] = [NOW, later].map(|at| issue(&with_both, at));
        for (file, expected) in [(&first, true), (&issue(&own, NOW), true), (&issue(&other, NOW), false)] {
            let checked = with_both.check_issued(&name, &der(&file.certificate), NOW);
            assert_eq!(checked.is_ok(), expected, "{checked:?}");
        }
        let until = |file: &ServerFile| file.describe().expect("readable").not_after;
        assert!(until(&first) < until(&second), "the second one is the newest");
    }

    #[test]
    fn file_with_further_authorities_is_read_after_a_renewal() {
        let [folder, stranger, spoke] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
        let own = certifier(&folder);
        let other = certifier(&stranger);
        let name = Name::new("CN=spoke.acme.test/O=Acme");
        let data = DataFolder::new(spoke.path());
        let both = format!("{}The certifier from next year on:\n{}", own.certificate, other.certificate);
        for authorities in [data.certifier_file(), files(&DataFolder::new(folder.path())).0] {
            write_private(&authorities, both.as_bytes()).expect("writable");
        }
        let request = SigningRequest::create("spoke.acme.test", "Acme").expect("a key");
        let answered = own.renew(&name, &request.request, NOW).expect("it is signed");
        let on_spoke = request.complete(&answered, &data).expect("the certifier is known");
        let with_more = request.complete(&format!("{answered}{}", other.certificate), &data);
        assert_eq!(with_more.as_ref().ok(), Some(&on_spoke), "one certificate of the answer counts");
        let on_hub = certifier(&folder).issue("spoke.acme.test", "Acme", NOW).expect("it is signed");
        for file in [&on_spoke, &on_hub] {
            file.verify(&name, NOW).expect("it is usable");
            file.install(&data).expect("it can be written");
            assert_eq!(ServerFile::installed(&data).expect("the next start reads it").as_ref(), Some(file));
            assert!(file.certifier.contains(other.certificate.trim()), "both authorities are trusted");
        }
        let unreadable = ServerFile { certificate: format!("{answered}{answered}"), ..on_spoke };
        let error = unreadable.verify(&name, NOW).expect_err("the second one would be an authority").to_string();
        assert!(error.contains("next start"), "{error}");
    }

    #[test]
    fn certificate_and_key_fit_whenever_an_installation_ends() {
        let [folder, server] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let data = DataFolder::new(server.path());
        let load = || {
            let config = config(&server);
            CertificateFiles::from_config(&config, &data, "hub.acme.test").load()
        };
        load().expect("a self-signed pair");
        let issued = certifier(&folder).issue("hub.acme.test", "Acme", NOW).expect("it can be issued");
        // The steps of an installation, and a start after each.
        write_private(&data.certifier_file(), issued.certifier.as_bytes()).expect("writable");
        load().expect("the self-signed pair still fits");
        write_private(&data.issued_file(), issued.to_text().as_bytes()).expect("writable");
        load().expect("the issued certificate has its key");
        let (chain, key) = data.self_signed_files();
        let for_clients = std::fs::read_to_string(&chain).expect("it exists");
        assert_eq!(for_clients, issued.chain(), "the start has completed the installation");
        assert!(!key.exists());
        // A pair that does not fit, which an interrupted join of an earlier version left, is repaired by another join.
        std::fs::remove_file(data.issued_file()).expect("it exists");
        let other = certifier(&folder).issue("x", "Acme", NOW).expect("it can be issued");
        write_private(&key, other.key.as_bytes()).expect("writable");
        load().expect_err("they do not fit");
        issued.install(&data).expect("it can be written");
        load().expect("the pair is not read any more");
    }

    fn config(folder: &tempfile::TempDir) -> config::Config {
        let data = Some(folder.path().to_owned());
        config::load(&config::ConfigSources { data, ..config::ConfigSources::default() })
            .expect("a valid configuration")
    }
}
