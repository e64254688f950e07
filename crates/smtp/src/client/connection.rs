//! A session with another server: connect, greeting, EHLO or HELO, STARTTLS, AUTH; then commands and replies.
//!
//! After STARTTLS all earlier information from the server is discarded (RFC 3207 §4.2), and data sent in the clear
//! after its reply to STARTTLS is an error. A server that identifies itself with this server's name is a mail loop.
//!
//! Each reply is a debug event of the target `smtp`, with the server's name, the verb of the command and the reply
//! code. A verb is logged only if it is one of [`LOGGED_VERBS`], because other lines may be a part of a login.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::{ClientTls, Stream};

use crate::client::reply::{ParsedReply, SmtpReply};
use crate::client::route::ServerAddress;
use crate::client::{ClientProtocol, DeliveryFailure, DeliveryOutcome, Security, SmtpClientOptions};
use crate::error::EnhancedStatus;

/// The verbs that the log may name.
const LOGGED_VERBS: &[&str] = &["EHLO", "HELO", "LHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "RSET", "QUIT"];

/// The reason why a session or a transaction failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransferError {
    /// The server replied with a refusal.
    Refused(SmtpReply),
    /// The TLS handshake failed.
    TlsFailed(String),
    /// The connection failed or broke, or the server did not respond.
    ConnectionFailed { status: EnhancedStatus, text: String },
    /// The transfer is impossible for a reason found on this side or by name resolution.
    Local { status: EnhancedStatus, text: String },
}

impl TransferError {
    pub(crate) fn permanent(status: EnhancedStatus, text: impl Into<String>) -> Self {
        Self::Local { status, text: text.into() }
    }

    pub(crate) fn temporary(status: EnhancedStatus, text: impl Into<String>) -> Self {
        Self::Local { status, text: text.into() }
    }

    pub(crate) fn connection_failed(text: impl Into<String>) -> Self {
        Self::ConnectionFailed { status: EnhancedStatus(4, 4, 2), text: text.into() }
    }

    /// Returns the outcome for a recipient.
    #[must_use]
    pub fn outcome(&self, host: Option<&str>) -> DeliveryOutcome {
        let host = host.map(str::to_owned);
        let (code, status, text) = match self {
            Self::Refused(reply) => {
                let class = if reply.is_permanent() { 5 } else { 4 };
                let status = reply.status().filter(|status| status.0 == class).unwrap_or(EnhancedStatus(class, 0, 0));
                (Some(reply.code), status, reply.to_string())
            }
            Self::TlsFailed(reason) => (None, EnhancedStatus(4, 7, 5), format!("TLS failed: {reason}")),
            Self::ConnectionFailed { status, text } | Self::Local { status, text } => (None, *status, text.clone()),
        };
        let failure = DeliveryFailure { code, status, text, host };
        if status.0 == 5 { DeliveryOutcome::Permanent(failure) } else { DeliveryOutcome::Temporary(failure) }
    }
}

/// The extensions that a server offers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extensions {
    /// PIPELINING.
    pub pipelining: bool,
    /// STARTTLS.
    pub starttls: bool,
    /// 8BITMIME.
    pub eight_bit_mime: bool,
    /// SMTPUTF8.
    pub smtputf8: bool,
    /// DSN.
    pub dsn: bool,
    /// SIZE, with the maximum message size. The size is 0 if the server does not state it.
    pub size: Option<u64>,
    /// Maximum number of recipients of a message, if the server states it (RFC 9422).
    pub recipients_max: Option<usize>,
    /// The mechanisms of AUTH.
    pub mechanisms: Vec<String>,
}

impl Extensions {
    /// Parses the reply to EHLO. Its first line is the server's name.
    #[must_use]
    pub fn parse(reply: &SmtpReply) -> Self {
        let mut found = Self::default();
        for line in reply.lines.iter().skip(1) {
            // Some servers also write `AUTH=PLAIN` for obsolete clients.
            let mut words = line.split([' ', '=']).filter(|word| !word.is_empty());
            let keyword = words.next().unwrap_or_default().to_ascii_uppercase();
            match keyword.as_str() {
                "PIPELINING" => found.pipelining = true,
                "STARTTLS" => found.starttls = true,
                "8BITMIME" => found.eight_bit_mime = true,
                "SMTPUTF8" => found.smtputf8 = true,
                "DSN" => found.dsn = true,
                "SIZE" => found.size = Some(words.next().and_then(|size| size.parse().ok()).unwrap_or(0)),
                "AUTH" => found.mechanisms.extend(words.map(str::to_ascii_uppercase)),
                "LIMITS" => found.recipients_max = recipients_max(line),
                _ => {}
            }
        }
        found
    }
}

fn recipients_max(line: &str) -> Option<usize> {
    let limit = line.split(' ').find_map(|word| word.strip_prefix("RCPTMAX="))?;
    limit.parse().ok().filter(|limit| *limit > 0)
}

/// A session with another server.
pub struct ClientConnection {
    stream: Stream,
    /// Received bytes that are not processed yet.
    input: Vec<u8>,
    /// The name by which this server knows the other one.
    pub name: String,
    /// The extensions that the server offers.
    pub extensions: Extensions,
    /// The protocol of the session.
    pub protocol: ClientProtocol,
    /// Number of messages sent over this connection.
    pub messages: u32,
}

impl ClientConnection {
    /// Opens a session until it is ready for MAIL.
    pub(crate) async fn open(
        target: &ServerAddress,
        options: &SmtpClientOptions,
        anyone: &ClientTls,
    ) -> Result<Self, TransferError> {
        let limits = &options.timeouts;
        let connected = timeout(limits.connect, TcpStream::connect(target.address)).await;
        let unreachable = |text: String| TransferError::ConnectionFailed { status: EnhancedStatus(4, 4, 1), text };
        let stream = match connected {
            Ok(Ok(stream)) => Stream::tcp(stream),
            Ok(Err(error)) => return Err(unreachable(format!("cannot connect to {}: {error}", target.address))),
            Err(_) => return Err(unreachable(format!("no answer from {}", target.address))),
        };
        let mut connection = Self {
            stream,
            input: Vec::new(),
            name: target.name.clone(),
            extensions: Extensions::default(),
            protocol: target.protocol,
            messages: 0,
        };
        if let Security::Implicit(tls) = &target.security {
            connection = connection.start_tls(tls).await?;
        }
        let greeting = connection.reply("", limits.greeting).await?;
        if !greeting.is_positive() {
            return Err(TransferError::Refused(greeting));
        }
        connection.send_hello(options).await?;
        connection = connection.start_tls_if_required(target, options, anyone).await?;
        if let Some((login, password)) = &target.login {
            connection.log_in(login, password, target, options).await?;
        }
        Ok(connection)
    }

    /// Returns `true` if the connection is encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }

    /// Sends a command (without CRLF) and waits for the reply. The command begins with its verb in upper case.
    pub(crate) async fn send_command(&mut self, line: &str, limit: Duration) -> Result<SmtpReply, TransferError> {
        self.write(format!("{line}\r\n").as_bytes(), limit).await?;
        self.reply(logged_verb(line), limit).await
    }

    /// Sends bytes unchanged.
    pub(crate) async fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), TransferError> {
        let sending = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        match timeout(limit, sending).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(TransferError::connection_failed(format!("the connection failed: {error}"))),
            Err(_) => Err(TransferError::connection_failed("the server did not accept data in time")),
        }
    }

    /// Waits for the next reply. `verb` is the verb of its command for the log; it is empty for the greeting.
    pub(crate) async fn reply(&mut self, verb: &'static str, limit: Duration) -> Result<SmtpReply, TransferError> {
        let reply = timeout(limit, self.receive_reply())
            .await
            .unwrap_or_else(|_| Err(TransferError::connection_failed("the server did not reply in time")))?;
        tracing::debug!(target: "smtp", server = self.name, verb, code = reply.code, "reply received");
        Ok(reply)
    }

    /// Sends QUIT and closes the connection. Errors are ignored.
    pub(crate) async fn quit(mut self, options: &SmtpClientOptions) {
        let limit = options.timeouts.command.min(Duration::from_secs(5));
        let _ = self.send_command("QUIT", limit).await;
        let _ = timeout(limit, self.stream.shutdown()).await;
    }

    async fn receive_reply(&mut self) -> Result<SmtpReply, TransferError> {
        loop {
            match SmtpReply::parse(&self.input) {
                ParsedReply::Complete(reply, used) => {
                    self.input.drain(..used);
                    return Ok(reply);
                }
                ParsedReply::Invalid => {
                    return Err(TransferError::connection_failed("the server sent an invalid SMTP reply"));
                }
                ParsedReply::Incomplete => {}
            }
            match self.stream.receive(&mut self.input).await {
                Ok(0) => return Err(TransferError::connection_failed("the server closed the connection")),
                Ok(_) => {}
                Err(error) => return Err(TransferError::connection_failed(format!("the connection failed: {error}"))),
            }
        }
    }

    /// Sends EHLO, or HELO if the server does not support EHLO.
    async fn send_hello(&mut self, options: &SmtpClientOptions) -> Result<(), TransferError> {
        let limit = options.timeouts.command;
        let verb = if self.protocol == ClientProtocol::Lmtp { "LHLO" } else { "EHLO" };
        let reply = self.send_command(&format!("{verb} {}", options.hostname), limit).await?;
        if reply.is_positive() {
            let server = reply.lines.first().and_then(|line| line.split(' ').next()).unwrap_or_default();
            if self.protocol == ClientProtocol::Smtp && server.eq_ignore_ascii_case(&options.hostname) {
                return Err(TransferError::permanent(
                    EnhancedStatus(5, 4, 6),
                    "mail loop: the server introduces itself with our own name",
                ));
            }
            self.extensions = Extensions::parse(&reply);
            return Ok(());
        }
        self.extensions = Extensions::default();
        if self.protocol == ClientProtocol::Lmtp || !reply.is_permanent() {
            return Err(TransferError::Refused(reply));
        }
        let reply = self.send_command(&format!("HELO {}", options.hostname), limit).await?;
        if reply.is_positive() { Ok(()) } else { Err(TransferError::Refused(reply)) }
    }

    async fn start_tls_if_required(
        mut self,
        target: &ServerAddress,
        options: &SmtpClientOptions,
        anyone: &ClientTls,
    ) -> Result<Self, TransferError> {
        let tls = match &target.security {
            Security::Clear | Security::Implicit(_) => return Ok(self),
            Security::Opportunistic if !self.extensions.starttls => return Ok(self),
            Security::Opportunistic | Security::Required => anyone,
            Security::Verified(tls) => tls,
        };
        let may_go_on = matches!(target.security, Security::Opportunistic);
        if !self.extensions.starttls {
            return Err(TransferError::temporary(
                EnhancedStatus(4, 7, 4),
                "TLS is required, but the server does not offer STARTTLS",
            ));
        }
        let reply = self.send_command("STARTTLS", options.timeouts.command).await?;
        if !reply.is_positive() {
            return if may_go_on { Ok(self) } else { Err(TransferError::Refused(reply)) };
        }
        if !self.input.is_empty() {
            return Err(TransferError::TlsFailed("the server sent unencrypted data after STARTTLS".to_owned()));
        }
        let mut connection = self.start_tls(tls).await?;
        connection.send_hello(options).await?;
        Ok(connection)
    }

    async fn start_tls(self, tls: &ClientTls) -> Result<Self, TransferError> {
        let Self { stream, name, .. } = self;
        match stream.connect_tls(tls, &name).await {
            Ok(stream) => Ok(Self { stream, name, input: Vec::new(), ..self }),
            Err(error) => Err(TransferError::TlsFailed(error.to_string())),
        }
    }

    async fn log_in(
        &mut self,
        login: &str,
        password: &str,
        target: &ServerAddress,
        options: &SmtpClientOptions,
    ) -> Result<(), TransferError> {
        if !self.is_tls() && !target.address.ip().is_loopback() {
            return Err(TransferError::temporary(EnhancedStatus(4, 7, 11), "the password may not be sent without TLS"));
        }
        let limit = options.timeouts.command;
        let offers = |name: &str| self.extensions.mechanisms.iter().any(|mechanism| mechanism == name);
        let reply = if offers("PLAIN") {
            let response = STANDARD.encode(format!("\0{login}\0{password}").as_bytes());
            self.send_command(&format!("AUTH PLAIN {response}"), limit).await?
        } else if offers("LOGIN") {
            let mut reply = self.send_command("AUTH LOGIN", limit).await?;
            for secret in [login, password] {
                if reply.code == 334 {
                    reply = self.answer_challenge(secret, limit).await?;
                }
            }
            reply
        } else {
            return Err(TransferError::temporary(
                EnhancedStatus(4, 7, 0),
                "the server offers no supported authentication mechanism",
            ));
        };
        match reply.code {
            235 => Ok(()),
            // Only the operator can correct a wrong password. Until then the mail waits.
            _ => Err(TransferError::temporary(EnhancedStatus(4, 7, 8), format!("the login was refused: {reply}"))),
        }
    }

    /// Sends the response to a challenge of AUTH and waits for the reply. The line is not a command, so it must not be
    /// searched for a verb.
    async fn answer_challenge(&mut self, response: &str, limit: Duration) -> Result<SmtpReply, TransferError> {
        let line = format!("{}\r\n", STANDARD.encode(response.as_bytes()));
        self.write(line.as_bytes(), limit).await?;
        self.reply("AUTH", limit).await
    }
}

/// Returns the verb of a command for the log, or an empty string if it is not one of [`LOGGED_VERBS`].
fn logged_verb(line: &str) -> &'static str {
    let verb = line.split(' ').next().unwrap_or_default();
    LOGGED_VERBS.iter().copied().find(|known| *known == verb).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ehlo_extensions_are_parsed() {
        let lines =
            ["mx", "PIPELINING", "size 1000", "AUTH PLAIN login", "auth=XYZ", "LIMITS MAILMAX=5 RCPTMAX=20", "odd"];
        let reply = SmtpReply { code: 250, lines: lines.iter().map(|line| (*line).to_owned()).collect() };
        let expected = Extensions {
            pipelining: true,
            size: Some(1000),
            recipients_max: Some(20),
            mechanisms: vec!["PLAIN".into(), "LOGIN".into(), "XYZ".into()],
            ..Extensions::default()
        };
        assert_eq!(Extensions::parse(&reply), expected);
    }

    #[test]
    fn only_known_verbs_are_logged() {
        let check = |line: &str, expected: &str| assert_eq!(logged_verb(line), expected, "{line:?}");
        check("DATA", "DATA");
        check("MAIL FROM:<a@c.example>", "MAIL");
        check("AUTH PLAIN AGEAc2VjcmV0", "AUTH");
        check("c2VjcmV0", "");
        check("DATAc2Vj", "");
        check("", "");
    }

    #[test]
    fn refusals_are_classified_as_permanent_or_temporary() {
        let check = |code: u16, text: &str, permanent: bool, status: EnhancedStatus| {
            let outcome = TransferError::Refused(SmtpReply { code, lines: vec![text.to_owned()] }).outcome(None);
            let (DeliveryOutcome::Permanent(failure) | DeliveryOutcome::Temporary(failure)) = &outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(failure.status, status);
            assert_eq!(matches!(outcome, DeliveryOutcome::Permanent(_)), permanent);
        };
        check(550, "5.1.1 no", true, EnhancedStatus(5, 1, 1));
        check(550, "no", true, EnhancedStatus(5, 0, 0));
        check(450, "4.2.0 later", false, EnhancedStatus(4, 2, 0));
        check(354, "what", false, EnhancedStatus(4, 0, 0));
    }
}
