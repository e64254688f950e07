//! A client for commands as they are written, for works that measure single commands.
//!
//! Every server gets the same bytes, whatever it offers: passwords are sent with LOGIN, and a message is sent when the
//! server asks for it. Responses are read up to the one that ends the command, and only those with a status are parsed,
//! because the driver shares the machine with the server. A server that does not answer within [`RESPONSE_TIME_MAX`]
//! has failed.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

use super::connection::{Command, ImapConnection};
use crate::door::call::CallError;
use crate::door::line_connection::Place;
use crate::door::{Session, TIMEOUT};

/// Maximum time to wait for the end of a command.
pub const RESPONSE_TIME_MAX: Duration = Duration::from_secs(120);

/// A connection to a server.
#[derive(Debug)]
pub struct ImapClient {
    connection: ImapConnection,
}

impl ImapClient {
    /// Connects, and reads the greeting.
    ///
    /// # Errors
    ///
    /// If there is no server, or if it does not greet.
    pub async fn connect(place: &Place) -> Result<Self, CallError> {
        Ok(Self { connection: limited(ImapConnection::connect(place)).await? })
    }

    /// Logs in with words that need no quotes.
    ///
    /// # Errors
    ///
    /// If the server refuses the login, or if the connection ends.
    pub async fn log_in(&mut self, login: &str, password: &str) -> Result<(), CallError> {
        // A server may repeat the command, which has the password.
        let without_text = |error: CallError| CallError { text: format!("LOGIN {login}: {}", error.code), ..error };
        self.command(&format!("LOGIN {login} {password}")).await.map_err(without_text)
    }

    /// Sends a command, and waits for its end.
    ///
    /// # Errors
    ///
    /// If the server refuses the command, or if the connection ends.
    pub async fn command(&mut self, text: &str) -> Result<(), CallError> {
        limited(self.connection.call_unparsed(Command::from_text(text))).await.map(drop)
    }

    /// Sends a command, and waits for its end, also if the server refuses it.
    ///
    /// # Errors
    ///
    /// If the connection ends.
    pub async fn command_with_any_status(&mut self, text: &str) -> Result<(), CallError> {
        match self.command(text).await {
            Err(refused) if refused.session == Session::Kept => Ok(()),
            done => done,
        }
    }

    /// Appends a message to a mailbox.
    ///
    /// # Errors
    ///
    /// If the server refuses the message, or if the connection ends.
    pub async fn append(&mut self, mailbox: &str, flags: &str, message: &[u8]) -> Result<(), CallError> {
        let command = Command::from_text(&format!("APPEND {mailbox} ({flags})"));
        let command = command.synchronizing_literal(message.to_vec());
        limited(self.connection.call_unparsed(command)).await.map(drop)
    }

    /// Begins IDLE, which lasts as long as the connection.
    ///
    /// # Errors
    ///
    /// If the server refuses the command, or if the connection ends.
    pub async fn idle(&mut self) -> Result<(), CallError> {
        limited(self.connection.begin(Command::new("IDLE"))).await.map(drop)
    }
}

async fn limited<T>(call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    let late = |_| CallError::lost(TIMEOUT, format!("the server has not answered for {RESPONSE_TIME_MAX:?}"));
    timeout(RESPONSE_TIME_MAX, call).await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use client::Traffic;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::door::tests::scripted_server::{Dialogue, ScriptedServer};

    async fn client_of(dialogue: Dialogue) -> (ImapClient, ScriptedServer) {
        let server = ScriptedServer::start(vec![dialogue]).await;
        let client = ImapClient::connect(&server.place).await.expect("a greeting");
        (client, server)
    }

    /// Returns the error of a command to a server that answers with these bytes and closes the connection.
    async fn error_after(greeting: &'static str, answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound").to_string();
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("the client comes");
            socket.write_all(greeting.as_bytes()).await.expect("the client reads");
            if !greeting.is_empty() && socket.read(&mut [0; 1_000]).await.is_ok_and(|length| length > 0) {
                socket.write_all(answer.as_bytes()).await.expect("the client reads");
            }
        });
        let call = async {
            let mut client = ImapClient::connect(&Place::unencrypted(&address, &Traffic::default())).await?;
            client.command("FETCH 1 (BODY[])").await
        };
        let error = call.await.expect_err("there is no answer");
        server.await.expect("no panic");
        error.text
    }

    #[tokio::test]
    async fn the_same_is_sent_to_servers_that_offer_more() {
        let dialogue = Dialogue::new("* OK [CAPABILITY IMAP4rev1 AUTH=PLAIN SASL-IR LITERAL+ IDLE] ready")
            .turn("LOGIN 7bench@bench.test secret", "TAG OK [CAPABILITY IMAP4rev1 LITERAL+ IDLE] in")
            .turn("APPEND INBOX (\\Seen) {4}\ntext", "* 1 EXISTS|TAG OK done")
            .turn("IDLE", "+ idling");
        let (mut client, server) = client_of(dialogue).await;
        client.log_in("7bench@bench.test", "secret").await.expect("it is right");
        client.append("INBOX", "\\Seen", b"text").await.expect("it is taken");
        client.idle().await.expect("it is offered");
        assert_eq!(server.finish().await[1], "APPEND INBOX (\\Seen) {4}\ntext");
    }

    #[tokio::test]
    async fn commands_end_with_their_tag_outside_of_literals() {
        let fetched = "* 1 FETCH (BODY[] {10}|TAG OK no|)|* 2 FETCH (X) nonsense) \"|TAG OK done";
        let dialogue = Dialogue::new("* OK ready").turn("FETCH 1 (BODY[])", fetched).turn("NOOP", "TAG NO never");
        let (mut client, server) = client_of(dialogue).await;
        client.command("FETCH 1 (BODY[])").await.expect("responses are not parsed");
        assert_eq!(client.command("NOOP").await, Err(CallError::kept("no", "NOOP: NO never")));
        server.finish().await;
    }

    #[tokio::test]
    async fn long_lines_are_read() {
        let sorted = format!("* SORT{}|TAG OK done", " 123456".repeat(20_000));
        let (mut client, server) = client_of(Dialogue::new("* OK ready").turn("SORT", &sorted)).await;
        client.command("SORT (SUBJECT) UTF-8 ALL").await.expect("a mailbox may be large");
        server.finish().await;
    }

    #[tokio::test]
    async fn refused_commands_are_errors_unless_any_status_will_do() {
        let dialogue = Dialogue::new("* OK ready")
            .turn("APPEND INBOX () {4}", "TAG NO [TOOBIG] too large")
            .turn("CREATE Work", "TAG NO [ALREADYEXISTS] it is there")
            .turn("LOGIN 7bench@bench.test wrong", "TAG NO LOGIN 7bench@bench.test wrong")
            .turn("SEARCH", "* BYE enough");
        let (mut client, server) = client_of(dialogue).await;
        let refused = client.append("INBOX", "", b"text").await.expect_err("the server refuses the message");
        assert_eq!(refused, CallError::kept("no-toobig", "APPEND: NO too large"));
        client.command_with_any_status("CREATE Work").await.expect("any status will do");
        let refused = client.log_in("7bench@bench.test", "wrong").await.expect_err("the password is wrong");
        assert_eq!(refused.text, "LOGIN 7bench@bench.test: no");
        let ended = client.command_with_any_status("SEARCH ALL").await.expect_err("the connection ends");
        assert_eq!((&*ended.code, ended.session), ("bye", Session::Lost));
        server.finish().await;
    }

    #[tokio::test]
    async fn servers_that_do_not_greet_are_refused() {
        assert_eq!(error_after("* BYE too many connections\r\n", "").await, "the greeting: BYE too many connections");
        assert_eq!(error_after("", "").await, "the server has closed the connection");
    }

    #[tokio::test]
    async fn incomplete_answers_are_errors() {
        let check = async |answer, expected| assert_eq!(error_after("* OK ready\r\n", answer).await, expected);
        check("", "the server has closed the connection").await;
        check("* 1 FETCH (FLAGS ())\r\n", "the server has closed the connection").await;
        check("* 1 FETCH (BODY[] {10}\r\n12345", "the server has closed the connection").await;
        check("+ what\r\n", "FETCH: the server wants a literal that there is not").await;
        check("d1 BAD what\r\n", "FETCH: BAD what").await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_has_failed() {
        let endless = std::future::pending::<Result<(), CallError>>();
        let late = limited(endless).await.expect_err("it never ends");
        assert_eq!((&*late.code, late.session), (TIMEOUT, Session::Lost));
        assert_eq!(late.text, "the server has not answered for 120s");
    }
}
