//! Tests of servers that call over the native protocol: mutual TLS with the certificate authorities of `tls.peers`.
//! They need the whole program, which reads the certificates and checks those of its peers.

use client::{Client, Code, Trust, v1};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};

use crate::native::{database, reason_of};
use crate::{Server, TestFolder};

/// A certificate authority that signs the certificates of servers.
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl CertificateAuthority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("a name makes a certificate");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named(&[(DnType::CommonName, name)]);
        let pem = params.self_signed(&key).expect("it signs itself").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Returns a certificate for a server, and its key.
    pub fn sign(&self, dns: &str, name: &[(DnType, &str)]) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![dns.to_owned()]).expect("a name makes a certificate");
        params.distinguished_name = named(name);
        (params.signed_by(&key, &self.issuer).expect("it signs").pem(), key.serialize_pem())
    }
}

fn named(parts: &[(DnType, &str)]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for (kind, text) in parts {
        name.push(kind.clone(), *text);
    }
    name
}

/// Connects with a client certificate. The server presents its self-signed certificate.
async fn connect(
    folder: &TestFolder,
    server: &Server,
    (chain, key): &(String, String),
) -> Result<Client, client::Error> {
    let certificate = std::fs::read(folder.data().join("tls/certificate.pem")).expect("the server has made it");
    let trust = Trust::mutual(&certificate, chain.as_bytes(), key.as_bytes())?;
    let address = server.listeners.get("native").expect("it listens");
    let server_name = Some("mail.acme.test".to_owned());
    Client::connect(&client::ConnectOptions { server_name, ..client::ConnectOptions::new(address, trust) }).await
}

async fn open(client: &Client, path: &str) -> Result<v1::Database, client::Status> {
    let request = v1::OpenDatabaseRequest { database: database(path) };
    client.databases().open_database(request).await.map(client::Response::into_inner)
}

#[test]
fn server_with_a_certificate_of_a_trusted_root_is_accepted() {
    let mut folder = TestFolder::with_people(&["ann@acme.test"]);
    let root = CertificateAuthority::new("Our root");
    let stranger = CertificateAuthority::new("Our root");
    std::fs::write(folder.path("peers.pem"), &root.pem).expect("writes a test file");
    for key in ["tls.peers", "router.roots"] {
        folder.options.extend(["--set".to_owned(), format!("{key}={}", folder.path("peers.pem").display())]);
    }
    folder.check(&["db", "create", "plan.nsf"], "was created");
    folder.check(&["db", "acl", "plan.nsf", "set", "Hub/Acme", "--kind", "server", "--level", "editor"], "");
    let server = folder.serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let name = [(DnType::CommonName, "Hub"), (DnType::OrganizationName, "Acme")];
        let hub = connect(&folder, &server, &root.sign("hub.acme.test", &name)).await.expect("a root has signed it");
        let opened = open(&hub, "plan.nsf").await.expect("the ACL lists the server");
        assert_eq!(opened.rights.map(|rights| rights.level()), Some(v1::AccessLevel::Editor));
        let session = hub.sessions().get_session(v1::GetSessionRequest {}).await.expect("it needs none").into_inner();
        assert_eq!(session.name, "CN=Hub/O=Acme");
        assert_eq!(reason_of(open(&hub, "mail/ann.nsf").await), (Code::NotFound, "not-found".to_owned()));
        let other = connect(&folder, &server, &root.sign("spoke.acme.test", &[])).await.expect("a root has signed it");
        assert_eq!(reason_of(open(&other, "plan.nsf").await).1, "not-found", "the ACL lists another server");
        let itself = connect(&folder, &server, &root.sign("mail.acme.test", &[])).await.expect("a root has signed it");
        let refused = (Code::Unauthenticated, "login".to_owned());
        assert_eq!(reason_of(open(&itself, "names.nsf").await), refused, "the name of the server itself");
        // With the same names but another certificate authority, either the handshake or the first call fails.
        let refused = match connect(&folder, &server, &stranger.sign("hub.acme.test", &name)).await {
            Err(client::Error::Tls { .. }) => true,
            Err(error) => panic!("{error}"),
            Ok(client) => open(&client, "plan.nsf").await.is_err_and(|status| client::reason(&status).is_empty()),
        };
        assert!(refused, "no trusted root has signed it");
        // Users can still connect without a certificate.
        let client = Client::connect(&folder.options(&server)).await.expect("the server is there");
        client.login("ann", crate::native::PASSWORD).await.expect("the password is right");
    });
    let address = server.listeners.get("native").expect("it listens");
    folder.fails_as_user("ann", &["db", "list", "--server", address], "give a copy of it");
    server.stop();
}
