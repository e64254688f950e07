//! A SCRAM exchange with fixed messages, for the tests of protocols: the example of RFC 7677 §3.
//!
//! It needs no keys and no arithmetic. The exchange with real keys is tested in `directory`.

use crate::credentials::{Login, ScramServer, ScramSuccess};
use crate::error::LoginError;
use crate::line::encode_line;
use crate::request::{ClientFinal, ClientFirst};

/// The client's first message. The name is `user`.
pub const CLIENT_FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";

/// The server's first message.
pub const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

/// The client's final message.
pub const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

/// The server's final message.
pub const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

/// The proof in the client's final message.
pub const PROOF: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

/// The client's nonce.
const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";

/// The server's side of the example. It accepts [`PROOF`] from every client.
pub struct ExampleScram {
    login: Login,
    first: ClientFirst,
}

impl ExampleScram {
    /// Begins an exchange that ends with this login. Returns it and the server's first message. Other nonces than that
    /// of the example are extended by `xyz`.
    #[must_use]
    pub fn begin(first: &ClientFirst, login: Login) -> (Box<dyn ScramServer>, String) {
        let challenge = match first.nonce.as_str() {
            CLIENT_NONCE => SERVER_FIRST.to_owned(),
            nonce => format!("r={nonce}xyz,s=c2FsdA==,i=4096"),
        };
        (Box::new(Self { login, first: first.clone() }), challenge)
    }

    /// Returns `true` if the message belongs to the example, or if the exchange has another nonce.
    fn is_expected(&self, last: &ClientFinal) -> bool {
        let example = CLIENT_FINAL.rsplit_once(",p=").map(|(without_proof, _)| without_proof);
        self.first.nonce != CLIENT_NONCE || example == Some(last.without_proof.as_str())
    }
}

impl ScramServer for ExampleScram {
    fn verify(self: Box<Self>, last: &ClientFinal) -> Result<ScramSuccess, LoginError> {
        if self.is_expected(last) && encode_line(&last.proof) == PROOF {
            let server_final = SERVER_FINAL.to_owned();
            return Ok(ScramSuccess { login: self.login, server_final, registration: None });
        }
        Err(LoginError::InvalidCredentials)
    }
}
