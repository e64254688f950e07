//! The check of codes of the second factor at a login.

use std::net::IpAddr;

use crate::directory::Directory;
use crate::error::AuthError;
use crate::limits::FACTOR_CODE_BYTES_MAX;
use crate::login::throttle_auth_error;
use crate::second_factor::FactorProof;

impl Directory {
    /// Checks a code of the second factor of a person, for somebody who has proved the password. A recovery code is
    /// removed. Wrong codes are throttled like wrong passwords.
    pub fn check_second_factor(&self, login: &str, code: &str, from: IpAddr) -> Result<FactorProof, AuthError> {
        let credentials = self.credentials();
        let login_account = self.login_account(login)?;
        // Codes have a count of their own. The password of the account makes no network familiar for it, so somebody
        // who knows the password gets no further guesses from other networks.
        let account = format!("\u{1}code of {}", login_account.throttle_key());
        let attempt = credentials.throttle().begin(&account, from).map_err(throttle_auth_error)?;
        let person = login_account.person.filter(|_| code.len() <= FACTOR_CODE_BYTES_MAX);
        let factor = person.as_ref().and_then(|person| person.second_factor());
        let proof = factor.and_then(|factor| factor.step_of(code, credentials.now()));
        if let Some(proof) = proof {
            attempt.report_success();
            return Ok(proof);
        }
        if factor.is_some_and(|factor| factor.has_recovery_code(code)) {
            let taken = self.person_change(login, |person| {
                let factor = person.second_factor.as_mut();
                Ok(factor.and_then(|factor| factor.take_recovery_code(code).then_some(factor.added)))
            });
            match taken {
                Ok(Some(factor)) => {
                    attempt.report_success();
                    return Ok(FactorProof::RecoveryCode { factor });
                }
                Ok(None) => {}
                Err(error) => {
                    attempt.report_inconclusive();
                    return Err(error.into());
                }
            }
        }
        attempt.report_failure();
        Err(AuthError::Refused)
    }
}
