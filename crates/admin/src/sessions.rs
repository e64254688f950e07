//! Logins in browsers: `doublet session`.

use std::sync::Arc;

use http::sessions::Session;
use http::{SessionOptions, Sessions};
use instance::Instance;
use serde_json::{Value, json};

use crate::answer::{Answer, format_count, record, timestamp_json};
use crate::error::{AdminError, AdminResult};
use crate::people;
use crate::request::SessionRequest;

/// Opens the sessions of a data folder. A running server opens them once, because it has them in memory.
pub fn open(instance: &Instance) -> notes::Result<Arc<Sessions>> {
    let keys = &instance.config.http;
    let options = SessionOptions { idle_time_max: keys.session_idle_timeout.0, age_max: keys.session_time.0 };
    let sources = (Arc::clone(&instance.clock), Arc::clone(&instance.random));
    Sessions::open(&instance.databases, &instance.directory.options().server, sources, options)
}

/// Executes a request.
pub fn execute(instance: &Instance, sessions: &Sessions, request: &SessionRequest) -> AdminResult {
    match request {
        SessionRequest::List { user } => {
            let login = user.as_ref().map(|user| login_of(instance, user)).transpose()?;
            Ok(Answer::list(sessions.list(login.as_deref()).iter().map(row).collect()))
        }
        SessionRequest::End { user, session: Some(name), .. } => {
            match sessions.end_by_name(&login_of(instance, user)?, name)? {
                true => Ok(Answer::message(format!("Ended the session {name} of {user}."))),
                false => Err(AdminError::no_such("session", name)),
            }
        }
        SessionRequest::End { user, session: None, .. } => {
            let count = sessions.end_all(&login_of(instance, user)?, None)?;
            Ok(Answer::message(format!("Ended {} of {user}.", format_count(count as u64, "session", "sessions"))))
        }
    }
}

/// Returns the canonical name of a user, under which sessions are kept.
pub(crate) fn login_of(instance: &Instance, user: &str) -> Result<String, AdminError> {
    Ok(people::find(instance, user)?.name.canonical().to_owned())
}

fn row(session: &Session) -> Value {
    record(vec![
        ("session", json!(session.id.name())),
        ("user", json!(base::Name::new(&session.login.login).abbreviated())),
        ("began_at", timestamp_json(Some(session.begun))),
        ("used_at", timestamp_json(Some(session.used))),
        ("address", json!(session.client.address)),
        ("client", json!(session.client.description)),
    ])
}

#[cfg(test)]
mod tests {
    use http::sessions::{SessionClient, SessionLogin};
    use sample::Sample;
    use sasl::LoginPassword;

    use super::*;

    #[test]
    fn sessions_are_listed_and_ended_by_user() {
        let sample = Sample::new();
        let sessions = open(&sample.instance).expect("they open");
        let begin = |user: &str| {
            let login = login_of(&sample.instance, user).expect("a user");
            let login = SessionLogin { login, stamp: 1, password: LoginPassword::Account, factor: None };
            let client = SessionClient { address: "192.0.2.1".to_owned(), description: "Browser".to_owned() };
            sessions.begin(login, client).expect("a sound store");
        };
        begin("ann@acme.test");
        begin("ann@acme.test");
        begin("bob@acme.test");
        let run = |request: SessionRequest| execute(&sample.instance, &sessions, &request);
        let rows = |user: Option<&str>| {
            let listed = run(SessionRequest::List { user: user.map(str::to_owned) }).expect("they are listed");
            listed.data.as_array().cloned().unwrap_or_default()
        };
        assert_eq!((rows(None).len(), rows(Some("ann@acme.test")).len()), (3, 2));
        let name = rows(Some("ann@acme.test"))[0]["session"].as_str().expect("a name").to_owned();
        let end = |user: &str, session: Option<&str>| {
            let session = session.map(str::to_owned);
            run(SessionRequest::End { user: user.to_owned(), all: session.is_none(), session })
        };
        assert!(end("bob@acme.test", Some(&name)).is_err(), "it is another one's");
        assert!(end("ann@acme.test", Some(&name)).is_ok());
        assert!(end("ann@acme.test", Some(&name)).is_err(), "it has ended");
        let answer = end("ann@acme.test", None).expect("they are ended");
        assert!(format!("{answer:?}").contains("1 session of"), "{answer:?}");
        assert_eq!(rows(None).len(), 1);
        assert!(run(SessionRequest::List { user: Some("nobody".to_owned()) }).is_err());
    }
}
