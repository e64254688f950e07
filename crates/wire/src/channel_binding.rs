//! The channel bindings of a TLS connection (RFC 5056), with which SASL ties a login to the connection.
//!
//! | type | source | value |
//! |---|---|---|
//! | `tls-exporter` | RFC 9266 §2 | 32 bytes of keying material, which both ends export |
//! | `tls-server-end-point` | RFC 5929 §4 | hash of the server's certificate |
//!
//! Only connections with TLS 1.3 have bindings. With TLS 1.2, the keying material is unique only if the extended master
//! secret (RFC 7627) was negotiated, which rustls can require but does not report. Clients also expect `tls-unique`
//! there, the default of SCRAM before TLS 1.3 (RFC 5802 §6.1), for which rustls does not expose the message `Finished`,
//! and SCRAM has no way to agree on another type.
//!
//! The values must not appear in logs.

use sasl::ChannelBinding;
use sasl::limits::TLS_EXPORTER_BYTES;
use sha2::{Digest, Sha256, Sha384, Sha512};
use tokio_rustls::rustls::{ConnectionCommon, ProtocolVersion};

/// The label of the keying material. Its context is empty.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// Returns the channel bindings of a connection after its handshake, the best first. They are equal at both ends.
/// `certificate_hash` is the hash of the server's certificate, if it is defined.
pub(crate) fn bindings_of<Data>(
    connection: &ConnectionCommon<Data>,
    certificate_hash: Option<&[u8]>,
) -> Vec<ChannelBinding> {
    if connection.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
        return Vec::new();
    }
    let material = [0_u8; TLS_EXPORTER_BYTES];
    let exporter = connection.export_keying_material(material, EXPORTER_LABEL, Some(b"")).ok();
    let end_point = certificate_hash.map(|hash| ChannelBinding::TlsServerEndPoint(hash.to_vec()));
    exporter.map(ChannelBinding::TlsExporter).into_iter().chain(end_point).collect()
}

/// Returns the hash of a certificate in DER form: with the hash function of its signature, or SHA-256 if that is MD5 or
/// SHA-1 (RFC 5929 §4.1). Returns `None` for a signature without a hash function, such as Ed25519, for RSASSA-PSS,
/// whose parameters name two, and for an unknown signature: the binding is undefined then.
pub(crate) fn certificate_hash(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    match parsed.signature_algorithm.algorithm.to_id_string().as_str() {
        oid::MD5_WITH_RSA
        | oid::SHA1_WITH_RSA
        | oid::ECDSA_WITH_SHA1
        | oid::SHA256_WITH_RSA
        | oid::ECDSA_WITH_SHA256 => Some(Sha256::digest(certificate).to_vec()),
        oid::SHA384_WITH_RSA | oid::ECDSA_WITH_SHA384 => Some(Sha384::digest(certificate).to_vec()),
        oid::SHA512_WITH_RSA | oid::ECDSA_WITH_SHA512 => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// Object identifiers of signature algorithms (RFC 8017, RFC 5758).
mod oid {
    pub(super) const MD5_WITH_RSA: &str = "1.2.840.113549.1.1.4";
    pub(super) const SHA1_WITH_RSA: &str = "1.2.840.113549.1.1.5";
    pub(super) const SHA256_WITH_RSA: &str = "1.2.840.113549.1.1.11";
    pub(super) const SHA384_WITH_RSA: &str = "1.2.840.113549.1.1.12";
    pub(super) const SHA512_WITH_RSA: &str = "1.2.840.113549.1.1.13";
    pub(super) const ECDSA_WITH_SHA1: &str = "1.2.840.10045.4.1";
    pub(super) const ECDSA_WITH_SHA256: &str = "1.2.840.10045.4.3.2";
    pub(super) const ECDSA_WITH_SHA384: &str = "1.2.840.10045.4.3.3";
    pub(super) const ECDSA_WITH_SHA512: &str = "1.2.840.10045.4.3.4";
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

    use super::*;

    /// Creates a certificate in DER form that is signed with this algorithm.
    fn certificate(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).expect("ring creates such keys");
        let params = CertificateParams::new(vec!["mail.test".to_owned()]).expect("a name");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn hash_function_is_that_of_the_signature() {
        let with_sha256 = certificate(&rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(certificate_hash(&with_sha256), Some(Sha256::digest(&with_sha256).to_vec()));
        let with_sha384 = certificate(&rcgen::PKCS_ECDSA_P384_SHA384);
        assert_eq!(certificate_hash(&with_sha384), Some(Sha384::digest(&with_sha384).to_vec()));
    }

    /// Returns a certificate whose signature algorithm is replaced. The signature is not checked.
    fn with_algorithm(replacement: &[u8]) -> Vec<u8> {
        let mut certificate = certificate(&rcgen::PKCS_ECDSA_P256_SHA256);
        let known = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
        let places: Vec<usize> = (0..certificate.len()).filter(|at| certificate[*at..].starts_with(&known)).collect();
        assert_eq!(places.len(), 2, "the signed part and the certificate name the algorithm");
        for place in places {
            certificate[place..place + known.len()].copy_from_slice(replacement);
        }
        certificate
    }

    #[test]
    fn hash_of_a_signature_with_sha_512_is_sha_512() {
        let certificate = with_algorithm(&[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04]);
        assert_eq!(certificate_hash(&certificate), Some(Sha512::digest(&certificate).to_vec()));
    }

    #[test]
    fn hash_without_a_single_strong_hash_function_is_undefined() {
        assert_eq!(certificate_hash(&certificate(&rcgen::PKCS_ED25519)), None);
        assert_eq!(
            certificate_hash(&with_algorithm(&[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x7f])),
            None
        );
        assert_eq!(certificate_hash(b"not a certificate"), None);
        assert_eq!(certificate_hash(b""), None);
    }
}
