//! Application passwords: `doublet app-password`.

use directory::{ApplicationPassword, NewApplicationPassword};
use http::Sessions;
use instance::Instance;
use sasl::{APPLICATION_PROTOCOLS, ApplicationPasswordId, LoginProtocol, LoginScope};
use serde_json::{Value, json};

use crate::answer::{Answer, format_count, record, timestamp_json};
use crate::error::{AdminError, AdminResult};
use crate::people;
use crate::request::ApplicationPasswordRequest;
use crate::sessions::login_of;

/// Executes a request. `uses` has the last uses of application passwords.
pub fn execute(instance: &Instance, uses: &Sessions, request: &ApplicationPasswordRequest) -> AdminResult {
    match request {
        ApplicationPasswordRequest::Add { user, name, protocols, reading } => {
            let scope = if *reading { LoginScope::Reading } else { LoginScope::All };
            let protocols = protocols.iter().map(|name| parse_protocol(name)).collect::<Result<_, _>>()?;
            let new = NewApplicationPassword { name: name.clone(), protocols, scope };
            let login = login_of(instance, user)?;
            let (added, text) = instance.directory.application_password_add(&login, &new)?;
            Ok(Answer::record(vec![("id", json!(added.id.to_string())), ("password", json!(text))]))
        }
        ApplicationPasswordRequest::List { user } => {
            let person = people::find(instance, user)?;
            Ok(Answer::list(person.application_passwords().iter().map(|known| row(known, uses)).collect()))
        }
        ApplicationPasswordRequest::Revoke { user, id: Some(text), .. } => {
            let login = login_of(instance, user)?;
            let id = ApplicationPasswordId::parse(text);
            let id = id.ok_or_else(|| AdminError::no_such("application password", text))?;
            let revoked = instance.directory.application_password_revoke(&login, id)?;
            uses.forget_application_password(id)?;
            Ok(Answer::message(format!("Revoked the application password {} of {user}.", revoked.name)))
        }
        ApplicationPasswordRequest::Revoke { user, id: None, .. } => {
            let login = login_of(instance, user)?;
            let count = instance.directory.application_passwords_revoke_all(&login)?;
            let count = format_count(count as u64, "application password", "application passwords");
            Ok(Answer::message(format!("Revoked {count} of {user}.")))
        }
    }
}

fn parse_protocol(name: &str) -> Result<LoginProtocol, AdminError> {
    let found = LoginProtocol::parse(name).filter(|protocol| APPLICATION_PROTOCOLS.contains(protocol));
    found.ok_or_else(|| {
        let known: Vec<&str> = APPLICATION_PROTOCOLS.iter().map(|protocol| protocol.name()).collect();
        AdminError::Refused(format!("there is no protocol {name}; the protocols are {}", known.join(", ")))
    })
}

fn row(known: &ApplicationPassword, uses: &Sessions) -> Value {
    let used = uses.application_password_use(known.id);
    record(vec![
        ("id", json!(known.id.to_string())),
        ("name", json!(known.name)),
        ("protocols", json!(known.protocols.iter().map(|protocol| protocol.name()).collect::<Vec<_>>())),
        ("scope", json!(known.scope.name())),
        ("made_at", timestamp_json(Some(known.created))),
        ("used_at", timestamp_json(used.as_ref().map(|used| used.time))),
        ("used_from", json!(used.as_ref().map(|used| used.address.clone()))),
        ("used_over", json!(used.map(|used| used.protocol))),
    ])
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sample::Sample;

    use super::*;
    use crate::sessions;

    #[test]
    fn passwords_are_made_listed_and_revoked() {
        let sample = Sample::new();
        let uses = sessions::open(&sample.instance).expect("they open");
        let run = |request: ApplicationPasswordRequest| execute(&sample.instance, &uses, &request);
        let add = |protocol: &str, reading: bool| {
            let protocols = vec![protocol.to_owned()];
            let (user, name) = ("ann@acme.test".to_owned(), "Phone".to_owned());
            run(ApplicationPasswordRequest::Add { user, name, protocols, reading })
        };
        let made = add("imap", true).expect("it is made").data;
        let id = made["id"].as_str().and_then(ApplicationPasswordId::parse).expect("an identifier");
        let text = made["password"].as_str().expect("a text").to_owned();
        uses.use_application_password(id, Ipv4Addr::LOCALHOST.into(), LoginProtocol::Imap);
        let list = || {
            let listed = run(ApplicationPasswordRequest::List { user: "ann".to_owned() }).expect("they are listed");
            listed.data.as_array().cloned().unwrap_or_default()
        };
        let rows = list();
        assert_eq!((rows.len(), &rows[0]["scope"], &rows[0]["used_over"]), (1, &json!("reading"), &json!("imap")));
        assert!(!rows[0].to_string().contains(&text), "the password is shown once");
        for wrong in ["ldap", "smoke"] {
            let refused = add(wrong, false).expect_err("no such protocol").to_string();
            assert!(refused.contains("imap, pop3"), "{refused}");
        }
        assert!(add("submission", true).is_err(), "sending is not reading");
        let revoke = |user: &str, id: Option<String>| {
            let all = id.is_none();
            run(ApplicationPasswordRequest::Revoke { user: user.to_owned(), id, all })
        };
        assert!(revoke("bob@acme.test", Some(id.to_string())).is_err(), "it is another one's");
        assert!(revoke("ann@acme.test", Some("x".to_owned())).is_err());
        assert!(revoke("ann@acme.test", Some(id.to_string())).is_ok());
        assert_eq!((list().len(), uses.application_password_use(id)), (0, None));
        add("imap", false).expect("it is made");
        let answer = revoke("ann@acme.test", None).expect("they are revoked");
        assert!(format!("{answer:?}").contains("1 application password of"), "{answer:?}");
        assert!(list().is_empty());
    }
}
