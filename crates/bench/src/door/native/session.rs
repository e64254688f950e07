//! The connection and the session of a user, and the calls over them.

use std::future::Future;
use std::time::Duration;

use client::{Client, Code, Response, Status, v1};

use super::NativeSettings;
use crate::door;
use crate::door::call::{CONNECT_CODE, CONNECTION_CODE, limited};
pub(super) use crate::door::call::{CallCount, CallError};

/// Codes of calls that failed without a reason of the server.
const CODES: &[(Code, &str)] = &[
    (Code::Cancelled, "cancelled"),
    (Code::InvalidArgument, "invalid-argument"),
    (Code::DeadlineExceeded, "deadline-exceeded"),
    (Code::NotFound, "not-found"),
    (Code::PermissionDenied, "permission-denied"),
    (Code::ResourceExhausted, "resource-exhausted"),
    (Code::FailedPrecondition, "failed-precondition"),
    (Code::Aborted, "aborted"),
    (Code::OutOfRange, "out-of-range"),
    (Code::Unimplemented, "unimplemented"),
    (Code::Internal, "internal"),
    (Code::Unavailable, "unavailable"),
    (Code::DataLoss, "data-loss"),
    (Code::Unauthenticated, "unauthenticated"),
];

/// Returns the error of a call. `is_closed` is `true` if the connection is closed.
fn error_of_status(status: &Status, is_closed: bool) -> CallError {
    let reason = client::reason(status);
    let text = status.message().to_owned();
    if is_closed && reason.is_empty() {
        return CallError::lost(CONNECTION_CODE, text);
    }
    let known = CODES.iter().find(|(code, _)| *code == status.code()).map_or("unknown", |(_, name)| name);
    let is_lost = is_closed || status.code() == Code::Unauthenticated;
    CallError {
        code: if reason.is_empty() { known.into() } else { reason.into() },
        text,
        session: if is_lost { door::Session::Lost } else { door::Session::Kept },
    }
}

fn error_of_client(error: &client::Error) -> CallError {
    match error {
        client::Error::Call(status) => CallError { session: door::Session::Lost, ..error_of_status(status, false) },
        error => CallError::lost(CONNECT_CODE, error.to_string()),
    }
}

/// A user who has logged in.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    user: u64,
    token: String,
    /// The canonical name of the user.
    name: String,
    mail_file: String,
    /// The path of the database of the calls: the mail file, unless the user works in another one.
    database: String,
    /// The time limit of a call that belongs to no step: the client only tells the server its limit. `None` in a step,
    /// which has a time limit as a whole.
    time_limit: Option<Duration>,
}

impl Session {
    /// Connects and logs in.
    pub(super) async fn log_in(settings: &NativeSettings, user: u64, count: &mut CallCount) -> Result<Self, CallError> {
        let client = connect(settings, user).await?;
        let address = settings.names.address(user);
        count.calls += 1;
        let login = client.log_in(&address, &settings.password, &settings.random).await;
        let login = login.map_err(|error| error_of_client(&error))?;
        let v1::Session { name, mail_file, .. } = login.session.unwrap_or_default();
        if mail_file.is_empty() {
            return Err(CallError::lost("no-mail-file", format!("{address} has no mail file on this server")));
        }
        let database = mail_file.clone();
        Ok(Self { client, user, token: login.token, name, mail_file, database, time_limit: None })
    }

    /// Connects and logs in for calls that belong to no step. The login and each call have the time limit of the calls
    /// of the connection.
    pub(super) async fn log_in_without_steps(settings: &NativeSettings, user: u64) -> Result<Self, CallError> {
        let time_limit = settings.options.call_time_max;
        let mut count = CallCount::default();
        let session = wait_for_call(time_limit, Self::log_in(settings, user, &mut count)).await?;
        Ok(Self { time_limit, ..session })
    }

    /// Makes the following calls in a database instead of the mail file.
    pub(super) fn work_in(&mut self, path: String) {
        self.database = path;
    }

    /// Opens the connection again if the server has closed it, and continues the session.
    pub(super) async fn reopen(&mut self, settings: &NativeSettings, count: &mut CallCount) -> Result<(), CallError> {
        if !self.client.is_closed() {
            return Ok(());
        }
        let client = connect(settings, self.user).await?;
        client.resume(&self.token).map_err(|error| error_of_client(&error))?;
        self.client = client;
        count.reopened += 1;
        Ok(())
    }

    /// Ends the session.
    pub(super) async fn log_out(self, count: &mut CallCount) {
        count.calls += 1;
        // The server ends a session that is idle by itself.
        let logout = async { self.client.logout().await.map_err(|error| error_of_client(&error)) };
        let _ = wait_for_call(self.time_limit, logout).await;
    }

    /// Returns the connection.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the canonical name of the user.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the mail file.
    pub(super) fn mail_file_path(&self) -> &str {
        &self.mail_file
    }

    /// Returns the key of the database in which the user works.
    pub(super) fn database(&self) -> v1::DatabaseKey {
        v1::DatabaseKey { key: Some(v1::database_key::Key::Path(self.database.clone())) }
    }

    /// Returns the key of the mail file.
    pub(super) fn mail_file(&self) -> v1::DatabaseKey {
        v1::DatabaseKey { key: Some(v1::database_key::Key::Path(self.mail_file.clone())) }
    }

    /// Waits for the reply to a call, and counts it.
    pub(super) async fn call<T>(
        &self,
        count: &mut CallCount,
        reply: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, CallError> {
        count.calls += 1;
        let called = async { reply.await.map(Response::into_inner).map_err(|status| self.failed(&status)) };
        wait_for_call(self.time_limit, called).await
    }

    /// Returns the error of a call that failed.
    pub(super) fn failed(&self, status: &Status) -> CallError {
        error_of_status(status, self.client.is_closed())
    }
}

/// Waits for a call until its time limit has passed, if it has one.
async fn wait_for_call<T>(
    limit: Option<Duration>,
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    match limit {
        Some(limit) => limited(limit, call).await,
        None => call.await,
    }
}

async fn connect(settings: &NativeSettings, user: u64) -> Result<Client, CallError> {
    let opened = settings.connections.open(&settings.options, user).await;
    opened.map_err(|error| error_of_client(&error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use client::{ConnectOptions, Trust};
    use tokio::net::TcpListener;

    use super::*;
    use crate::door::native::connections::Connections;
    use crate::door::native::filling::fill_mail_file;
    use crate::plan::Plan;
    use crate::population::people::UserNames;
    use crate::stub::acceptor;
    use crate::target::system_random::SystemRandom;
    use crate::workload::check::check as check_workload;

    fn check(status: &Status, is_closed: bool, code: &str, session: door::Session) {
        let error = error_of_status(status, is_closed).into_step_error(CallCount { calls: 2, reopened: 0 });
        assert_eq!((&*error.code, error.session, error.calls), (code, session, 2));
    }

    #[test]
    fn codes_are_reasons_or_those_of_the_protocol() {
        let detail = v1::ErrorDetail { reason: "mailbox-full".to_owned(), detail: None };
        let detailed = client::details::status(Code::ResourceExhausted, "the mailbox is full", &detail);
        check(&detailed, false, "mailbox-full", door::Session::Kept);
        check(&Status::deadline_exceeded("too long"), false, "deadline-exceeded", door::Session::Kept);
        check(&Status::new(Code::Unknown, "strange"), false, "unknown", door::Session::Kept);
    }

    #[test]
    fn ended_sessions_and_broken_connections_are_lost() {
        check(&Status::unauthenticated("the session has ended"), false, "unauthenticated", door::Session::Lost);
        check(&Status::unavailable("broken pipe"), true, "connection", door::Session::Lost);
        check(&Status::unavailable("try later"), false, "unavailable", door::Session::Kept);
    }

    fn settings(address: &str, trust: Trust) -> NativeSettings {
        let text = "format = 1\nname = \"Test\"\ntitle = \"Test\"\ndoor = \"native\"\npace = \"unpaced\"\n\
            iterations = 1\nstep = [{ verb = \"poll\" }]";
        let workload = check_workload(text, &[]).unwrap_or_else(|findings| panic!("{findings:?}"));
        NativeSettings {
            plan: Arc::new(Plan::new(Arc::new(workload), 1, 1).expect("users")),
            options: ConnectOptions::new(address, trust),
            names: UserNames::parse("mail{}@bench.test").expect("a pattern"),
            password: "secret".to_owned(),
            size_scale: 1.0,
            connections: Connections::new(1, &[]),
            random: SystemRandom::open().expect("the system has one"),
            journal: None,
        }
    }

    /// The server accepts connections, also over TLS, and never answers a call.
    #[tokio::test]
    async fn calls_without_steps_do_not_wait_for_a_silent_server() {
        let (acceptor, pem) = acceptor(b"h2").expect("a certificate");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound").to_string();
        let settings = settings(&address, Trust::pinned(pem.as_bytes()).expect("a certificate"));
        let accepted = async {
            let (socket, _) = listener.accept().await.expect("the client comes");
            acceptor.accept(socket).await.expect("it trusts the certificate")
        };
        let (client, _stream) = tokio::join!(connect(&settings, 1), accepted);
        let name = String::new();
        let session = Session {
            client: client.expect("a connection"),
            user: 1,
            token: name.clone(),
            name: name.clone(),
            mail_file: name.clone(),
            database: name,
            time_limit: settings.options.call_time_max,
        };
        tokio::time::pause();
        let mut stub = session.client().changes();
        let mut count = CallCount::default();
        let late = session.call(&mut count, stub.poll_new_mail(v1::PollNewMailRequest::default())).await;
        let late = late.expect_err("no answer");
        assert_eq!((&*late.code, &*late.text, count.calls), ("timeout", "no answer within 60s", 1));
        session.log_out(&mut count).await;
        let late = Session::log_in_without_steps(&settings, 1).await.expect_err("no answer");
        assert_eq!((&*late.code, late.session), ("timeout", door::Session::Lost));
        let late = fill_mail_file(&settings, 1, std::iter::empty()).await.expect_err("no answer");
        assert_eq!(&*late.code, "timeout");
    }
}
