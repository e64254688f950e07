//! The accounts of a caller by the principals that they belong to, and the conditions on principals (RFC 9670 §2.4).
//!
//! Principals are objects of the caller's own account.

use serde_json::{Map, Value, json};

use crate::account::Account;
use crate::arguments::as_texts;
use crate::backend::{AccountInfo, Caller, Services};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::principal::PrincipalInfo;
use crate::session;

/// Opens the account of the caller that has the principals. Returns `accountNotSupportedByMethod` for that of another
/// person.
pub fn open_account(context: &Context<'_>, id: &str) -> MethodResult<Account> {
    let account = context.account(id)?;
    match account.info.is_personal {
        true => Ok(account),
        false => Err(MethodError::described("accountNotSupportedByMethod", "only the own account has principals")),
    }
}

/// Number of hexadecimal digits of a digest in a state.
const STATE_DIGITS: usize = 16;

/// The accounts of a caller by the principals that they belong to.
pub struct OwnedAccounts {
    infos: Vec<AccountInfo>,
}

impl OwnedAccounts {
    /// Reads the accounts of a caller.
    pub fn load(services: &Services, caller: &Caller) -> MethodResult<Self> {
        Ok(Self { infos: services.accounts.accounts(caller)? })
    }

    /// Returns the state of the principals as the caller sees them. It is that of the directory, and a digest of the
    /// accounts that the principals show, which access control lists change.
    pub fn principals_state(&self, services: &Services, caller: &Caller) -> MethodResult<String> {
        let own = session::principals_account(&self.infos);
        let mut digest = blake3::Hasher::new();
        for info in &self.infos {
            let shown = session::describe_account(services, caller, info, own);
            digest.update(json!([info.id, info.owner, shown]).to_string().as_bytes());
        }
        let digest = &digest.finalize().to_hex()[..STATE_DIGITS];
        Ok(format!("{}-{digest}", services.principals.state()?))
    }

    /// Returns the accounts of a principal as Account objects.
    #[must_use]
    pub fn of(&self, services: &Services, caller: &Caller, principal: &str) -> Map<String, Value> {
        let own = session::principals_account(&self.infos);
        let owned = self.infos.iter().filter(|info| info.owner.as_deref() == Some(principal));
        owned.map(|info| (info.id.clone(), session::describe_account(services, caller, info, own))).collect()
    }
}

/// One property of a condition (RFC 9670 §2.4).
#[derive(Clone, Debug)]
pub enum PrincipalTest {
    /// `accountIds`.
    Accounts(Vec<String>),
    /// `email`, folded.
    Email(String),
    /// `name`, folded.
    Name(String),
    /// `text`, folded.
    Text(String),
    /// `type`.
    Kind(String),
    /// `timeZone`, which no principal has.
    TimeZone,
}

impl PrincipalTest {
    /// Parses a property of a condition.
    pub fn parse(name: &str, value: &Value) -> MethodResult<Option<Self>> {
        let wrong = || MethodError::invalid_arguments(format!("{name} has the wrong type"));
        let text = || value.as_str().ok_or_else(wrong);
        let folded = || text().map(mail::casemap::fold);
        Ok(Some(match name {
            _ if value.is_null() => return Ok(None),
            "accountIds" => Self::Accounts(as_texts(value).ok_or_else(wrong)?),
            "email" => Self::Email(folded()?),
            "name" => Self::Name(folded()?),
            "text" => Self::Text(folded()?),
            "type" => Self::Kind(text()?.to_owned()),
            "timeZone" => text().map(|_| Self::TimeZone)?,
            _ => return Err(MethodError::described("unsupportedFilter", format!("there is no condition {name}"))),
        }))
    }

    /// Returns `true` if a principal matches.
    #[must_use]
    pub fn is_met(&self, info: &PrincipalInfo, accounts: &OwnedAccounts) -> bool {
        let has = |text: Option<&str>, part: &str| text.is_some_and(|text| mail::casemap::fold(text).contains(part));
        match self {
            Self::Accounts(ids) => {
                let owned = accounts.infos.iter().filter(|of| of.owner.as_deref() == Some(info.id.as_str()));
                owned.into_iter().any(|of| ids.contains(&of.id))
            }
            Self::Email(part) => has(info.email.as_deref(), part),
            Self::Name(part) => has(Some(&info.name), part),
            Self::Text(part) => [Some(info.name.as_str()), info.email.as_deref(), info.description.as_deref()]
                .into_iter()
                .any(|text| has(text, part)),
            Self::Kind(kind) => info.kind.name() == kind,
            Self::TimeZone => false,
        }
    }
}
