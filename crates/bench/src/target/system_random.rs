//! Random numbers of the operating system: nonces of logins, and the password of the users of a run.

use std::fs::File;
use std::io::{self, Read as _};

use base::Random;

/// The file of the operating system's generator.
const SOURCE: &str = "/dev/urandom";
/// Characters of passwords, without those that look alike.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// The length of a password: 24 characters of 5 bits.
const PASSWORD_LENGTH: usize = 24;

/// The operating system's generator.
#[derive(Debug)]
pub struct SystemRandom {
    source: File,
}

impl SystemRandom {
    /// Opens the generator.
    ///
    /// # Errors
    ///
    /// If the operating system has none.
    pub fn open() -> io::Result<Self> {
        Ok(Self { source: File::open(SOURCE)? })
    }

    /// Draws a password.
    pub fn password(&self) -> String {
        let mut bytes = [0; PASSWORD_LENGTH];
        self.fill(&mut bytes);
        bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
    }
}

impl Random for SystemRandom {
    fn fill(&self, buffer: &mut [u8]) {
        (&self.source).read_exact(buffer).expect("the generator of the operating system never ends");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_differ() {
        let random = SystemRandom::open().expect("the generator");
        let one = random.password();
        assert_eq!(one.len(), PASSWORD_LENGTH);
        assert!(one.bytes().all(|byte| ALPHABET.contains(&byte)));
        assert_ne!(one, random.password());
    }
}
