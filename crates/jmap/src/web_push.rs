//! Web Push: encryption of messages for one subscription (RFC 8291), and the identification of this server to push
//! services (VAPID, RFC 8292).
//!
//! Only the client can read a message: neither the push service nor anybody between learns which states have changed.
//! Pure, except that keys come from the generator of the cryptographic library, as those of TLS do.

use base::Timestamp;
use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use ring::aead;
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hmac::{HMAC_SHA256, Key, sign};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;

use crate::limits::VAPID_TOKEN_LIFETIME;

/// Number of bytes of a public key: an uncompressed point of P-256.
const PUBLIC_KEY_BYTES: usize = 65;

/// Number of bytes of the secret that the client shares with the server.
const AUTH_BYTES: usize = 16;

/// Number of bytes of the salt of a message.
pub const SALT_BYTES: usize = 16;

/// Number of bytes of an encrypted message that push services take at least (RFC 8030 §7.2).
const BODY_BYTES_MAX: usize = 4_096;

/// Number of bytes of a text that an encrypted message has room for: without its header, delimiter and tag.
pub const TEXT_BYTES_MAX: usize = BODY_BYTES_MAX - HEADER_BYTES - 1 - aead::MAX_TAG_LEN;

/// Number of bytes before the encrypted text: salt, size of records, length of the key, key.
const HEADER_BYTES: usize = SALT_BYTES + 4 + 1 + PUBLIC_KEY_BYTES;

/// The byte behind the text of the last record (RFC 8188 §2).
const LAST_RECORD: u8 = 2;

/// Base64 for URLs with or without padding, as clients send it.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The reason why a message is not encrypted or a key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebPushError {
    /// The keys of a subscription are not valid.
    #[error("the keys of the subscription are not valid")]
    Keys,
    /// The text is too long for a message.
    #[error("the text is too long for a message")]
    TooLong,
    /// The cryptographic library has failed.
    #[error("the cryptographic library has failed")]
    Library,
}

/// The keys of a client, with which messages for it are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientKeys {
    public: [u8; PUBLIC_KEY_BYTES],
    auth: [u8; AUTH_BYTES],
}

impl ClientKeys {
    /// Reads the members `p256dh` and `auth` of a subscription.
    pub fn parse(p256dh: &str, auth: &str) -> Result<Self, WebPushError> {
        let decode = |text: &str| LENIENT.decode(text).map_err(|_| WebPushError::Keys);
        let keys = Self {
            public: decode(p256dh)?.try_into().map_err(|_| WebPushError::Keys)?,
            auth: decode(auth)?.try_into().map_err(|_| WebPushError::Keys)?,
        };
        // A point that is not on the curve is found by using it.
        keys.encrypt(b"", [0; SALT_BYTES])?;
        Ok(keys)
    }

    /// Returns `p256dh` and `auth` as texts.
    #[must_use]
    pub fn to_texts(&self) -> [String; 2] {
        [URL_SAFE_NO_PAD.encode(self.public), URL_SAFE_NO_PAD.encode(self.auth)]
    }

    /// Encrypts a text as the body of a message with the content coding `aes128gcm`.
    pub fn encrypt(&self, text: &[u8], salt: [u8; SALT_BYTES]) -> Result<Vec<u8>, WebPushError> {
        let random = SystemRandom::new();
        let private = EphemeralPrivateKey::generate(&ECDH_P256, &random).map_err(|_| WebPushError::Library)?;
        let own = private.compute_public_key().map_err(|_| WebPushError::Library)?;
        let own: [u8; PUBLIC_KEY_BYTES] = own.as_ref().try_into().map_err(|_| WebPushError::Library)?;
        let theirs = UnparsedPublicKey::new(&ECDH_P256, &self.public);
        let sealed = agree_ephemeral(private, &theirs, |secret| self.seal(text, secret, &own, salt));
        sealed.map_err(|_| WebPushError::Keys)?
    }

    /// Encrypts a text with the secret that both keys agree on.
    fn seal(
        &self,
        text: &[u8],
        secret: &[u8],
        own: &[u8; PUBLIC_KEY_BYTES],
        salt: [u8; SALT_BYTES],
    ) -> Result<Vec<u8>, WebPushError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(WebPushError::TooLong);
        }
        let MessageKey { key, nonce } = self.derive(secret, own, salt);
        let key = aead::UnboundKey::new(&aead::AES_128_GCM, &key).map_err(|_| WebPushError::Library)?;
        let mut sealed = [text, &[LAST_RECORD]].concat();
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let sealing = aead::LessSafeKey::new(key).seal_in_place_append_tag(nonce, aead::Aad::empty(), &mut sealed);
        sealing.map_err(|_| WebPushError::Library)?;
        let record_bytes = u32::try_from(BODY_BYTES_MAX).unwrap_or(u32::MAX).to_be_bytes();
        let key_bytes = u8::try_from(PUBLIC_KEY_BYTES).unwrap_or(u8::MAX);
        Ok([&salt[..], &record_bytes, &[key_bytes], own, &sealed].concat())
    }

    /// Derives the key of a message (RFC 8291 §3.4).
    fn derive(&self, secret: &[u8], own: &[u8; PUBLIC_KEY_BYTES], salt: [u8; SALT_BYTES]) -> MessageKey {
        let combined = hmac(&self.auth, &[secret]);
        let input = hmac(&combined, &[b"WebPush: info\0", &self.public, own, &[1]]);
        let derived = hmac(&salt, &[&input]);
        let mut message_key = MessageKey { key: [0; 16], nonce: [0; 12] };
        message_key.key.copy_from_slice(&hmac(&derived, &[b"Content-Encoding: aes128gcm\0\x01"])[..16]);
        message_key.nonce.copy_from_slice(&hmac(&derived, &[b"Content-Encoding: nonce\0\x01"])[..12]);
        message_key
    }
}

/// The key of one message.
struct MessageKey {
    key: [u8; 16],
    nonce: [u8; 12],
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let tag = sign(&Key::new(HMAC_SHA256, key), &parts.concat());
    let mut digest = [0; 32];
    digest.copy_from_slice(tag.as_ref());
    digest
}

/// The key by which this server identifies itself to push services.
pub struct VapidKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl VapidKey {
    /// Creates a key, and returns it as PKCS #8.
    pub fn generate() -> Result<Vec<u8>, WebPushError> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        made.map(|key| key.as_ref().to_vec()).map_err(|_| WebPushError::Library)
    }

    /// Reads a key from PKCS #8.
    pub fn parse(pkcs8: &[u8]) -> Result<Self, WebPushError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random);
        Ok(Self { pair: pair.map_err(|_| WebPushError::Keys)?, random })
    }

    /// Returns the public key as clients pass it to their push service (`applicationServerKey`).
    #[must_use]
    pub fn public(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.pair.public_key())
    }

    /// Returns the value of the field `Authorization` for the push service of an origin. `contact` is a URI at which
    /// the service reaches the operator.
    pub fn authorization(&self, origin: &str, contact: &str, now: Timestamp) -> Result<String, WebPushError> {
        let expires = now.after(VAPID_TOKEN_LIFETIME).seconds();
        let head = json!({ "typ": "JWT", "alg": "ES256" }).to_string();
        let claims = json!({ "aud": origin, "exp": expires, "sub": contact }).to_string();
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.pair.sign(&self.random, text.as_bytes()).map_err(|_| WebPushError::Library)?;
        let signature = URL_SAFE_NO_PAD.encode(signature.as_ref());
        Ok(format!("vapid t={text}.{signature}, k={}", self.public()))
    }
}

impl std::fmt::Debug for VapidKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VapidKey")
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey as VerifyingKey};

    use super::*;

    /// The example of RFC 8291, appendix A.
    const P256DH: &str = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";
    const OWN: &str = "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8";
    const SECRET: &str = "kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs";
    const SALT: &str = "DGv6ra1nlYgDCS1FRnbzlw";
    const BODY: &str = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6Tlz\
        AC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";

    fn decode<const N: usize>(text: &str) -> [u8; N] {
        URL_SAFE_NO_PAD.decode(text).expect("base64").try_into().expect("the length is right")
    }

    #[test]
    fn the_example_of_the_standard_is_encrypted_to_the_same_bytes() {
        let keys = ClientKeys::parse(P256DH, AUTH).expect("the keys are valid");
        let text = b"When I grow up, I want to be a watermelon";
        let sealed = keys.seal(text, &decode::<32>(SECRET), &decode(OWN), decode(SALT)).expect("it is short");
        assert_eq!(URL_SAFE_NO_PAD.encode(sealed), BODY);
        assert_eq!(keys.to_texts(), [P256DH, AUTH]);
    }

    #[test]
    fn keys_of_clients_are_checked() {
        let check = |p256dh: &str, auth: &str| {
            assert_eq!(ClientKeys::parse(p256dh, auth), Err(WebPushError::Keys), "{p256dh} {auth}");
        };
        check("", AUTH);
        check(&P256DH[4..], AUTH);
        check(P256DH, "BTBZMqHH6r4Tts7J");
        check(P256DH, "###");
        // It is not on the curve.
        check(&format!("{}A", &P256DH[..P256DH.len() - 2]), AUTH);
        check(&P256DH.replace("BCVxsr7N", "BCVxsr7M"), AUTH);
        assert!(ClientKeys::parse(&format!("{P256DH}="), &format!("{AUTH}==")).is_ok(), "padding is permitted");
    }

    #[test]
    fn the_longest_text_fits() {
        let keys = ClientKeys::parse(P256DH, AUTH).expect("the keys are valid");
        let sealed = keys.encrypt(&[b'x'; TEXT_BYTES_MAX], [7; SALT_BYTES]).expect("it is short enough");
        assert_eq!(sealed.len(), BODY_BYTES_MAX);
        let refused = keys.encrypt(&[b'x'; TEXT_BYTES_MAX + 1], [7; SALT_BYTES]);
        assert_eq!(refused, Err(WebPushError::TooLong));
    }

    #[test]
    fn a_token_is_signed_for_one_push_service() {
        let pkcs8 = VapidKey::generate().expect("a key");
        let key = VapidKey::parse(&pkcs8).expect("it is valid");
        let now = Timestamp(1_700_000_000_000_000);
        let value = key.authorization("https://push.test", "mailto:postmaster@demo.test", now).expect("a token");
        let (token, public) = value.strip_prefix("vapid t=").and_then(|rest| rest.split_once(", k=")).expect("a form");
        assert_eq!(public, key.public());
        let (text, signature) = token.rsplit_once('.').expect("three parts");
        let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64");
        let verifying = VerifyingKey::new(&ECDSA_P256_SHA256_FIXED, URL_SAFE_NO_PAD.decode(public).expect("base64"));
        verifying.verify(text.as_bytes(), &signature).expect("the signature is valid");
        let claims = text.split_once('.').expect("two parts").1;
        let claims: serde_json::Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).expect("base64")).expect("JSON");
        let expected =
            json!({ "aud": "https://push.test", "exp": 1_700_043_200, "sub": "mailto:postmaster@demo.test" });
        assert_eq!(claims, expected);
        assert!(VapidKey::parse(b"x").is_err());
    }
}
