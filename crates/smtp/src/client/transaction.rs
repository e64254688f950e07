//! One message over one session: MAIL, RCPT for each recipient, DATA, the message data, and the replies to all of them.
//!
//! With PIPELINING, the commands up to DATA are sent together (RFC 2920). Recipients are sent in groups of the size
//! that the server accepts. A message that the server cannot accept is detected before anything is sent: a message that
//! is too large, 8-bit data without 8BITMIME, and addresses or header fields that need SMTPUTF8 (RFC 6531 §3.6, bounces
//! with 5.6.7).

use std::fmt::Write as _;

use mail::router::{Recipient, ReturnContent};

use crate::client::connection::{ClientConnection, TransferError};
use crate::client::message_data::{detect_eight_bit, dot_stuff};
use crate::client::reply::SmtpReply;
use crate::client::{ClientProtocol, Delivery, DeliveryOutcome, EightBitPolicy, OutboundMessage, SmtpClientOptions};
use crate::codec::parameters::encode_xtext;
use crate::codec::path::split_address;
use crate::dns::ascii_domain;
use crate::error::EnhancedStatus;
use crate::limits::TRANSFER_RECIPIENTS_MAX;

/// Sends a message to the recipients without an outcome.
///
/// After an error the connection is unusable. Recipients that still have no outcome may be tried with another server.
pub(crate) async fn run(
    connection: &mut ClientConnection,
    options: &SmtpClientOptions,
    outgoing: &OutboundMessage<'_>,
    outcomes: &mut [Option<DeliveryOutcome>],
) -> Result<(), TransferError> {
    let plan = match TransactionCommands::make(connection, options, outgoing) {
        Ok(plan) => plan,
        Err(problem) => {
            record_outcomes(outcomes, &problem.outcome(Some(&connection.name)));
            return Ok(());
        }
    };
    let text = dot_stuff(outgoing.message);
    let group_max = connection.extensions.recipients_max.unwrap_or(usize::MAX).min(TRANSFER_RECIPIENTS_MAX);
    loop {
        let waiting = outcomes.iter().enumerate().filter(|(_, outcome)| outcome.is_none());
        let group: Vec<usize> = waiting.map(|(index, _)| index).take(group_max).collect();
        if group.is_empty() {
            return Ok(());
        }
        let mut transaction = Transaction { connection, options, outgoing, plan: &plan, outcomes };
        if let Err(SessionFailure { problem, uncertain }) = transaction.send(&group, &text).await {
            // Only recipients whose message data was sent are settled, because the server may change the ACL have
            // accepted it. The others may be tried elsewhere.
            if uncertain {
                let outcome = problem.outcome(Some(&connection.name));
                group.iter().for_each(|index| record_outcome(outcomes, *index, || outcome.clone()));
            }
            return Err(problem);
        }
    }
}

/// The MAIL and RCPT commands for this server and message.
struct TransactionCommands {
    mail: String,
    /// For each recipient its command, or the reason why it cannot be sent.
    rcpts: Vec<Result<String, TransferError>>,
}

impl TransactionCommands {
    fn make(
        connection: &ClientConnection,
        options: &SmtpClientOptions,
        outgoing: &OutboundMessage<'_>,
    ) -> Result<Self, TransferError> {
        let extensions = &connection.extensions;
        let (header_is_eight_bit, is_eight_bit) = detect_eight_bit(outgoing.message);
        let size = outgoing.message.len();
        if extensions.size.is_some_and(|limit| limit > 0 && size as u64 > limit) {
            return Err(TransferError::permanent(
                EnhancedStatus(5, 3, 4),
                "the message exceeds the size limit of the server",
            ));
        }
        if is_eight_bit && !extensions.eight_bit_mime && options.eight_bit == EightBitPolicy::Bounce {
            return Err(TransferError::permanent(EnhancedStatus(5, 6, 3), "the server does not accept 8-bit text"));
        }
        let utf8_header = outgoing.smtputf8 && header_is_eight_bit;
        if utf8_header && !extensions.smtputf8 {
            return Err(needs_smtputf8());
        }
        let reverse_path = encode_address(outgoing.reverse_path, extensions.smtputf8)?;
        let rcpts: Vec<Result<String, TransferError>> =
            outgoing.recipients.iter().map(|recipient| rcpt(recipient, connection)).collect();
        let says_utf8 = extensions.smtputf8
            && (utf8_header || !reverse_path.is_ascii() || outgoing.recipients.iter().any(|r| !r.address.is_ascii()));
        let mut mail = format!("MAIL FROM:<{reverse_path}>");
        // Writing to a string cannot fail.
        if extensions.size.is_some() {
            let _ = write!(mail, " SIZE={size}");
        }
        if is_eight_bit && extensions.eight_bit_mime {
            mail.push_str(" BODY=8BITMIME");
        }
        if says_utf8 {
            mail.push_str(" SMTPUTF8");
        }
        if extensions.dsn {
            match outgoing.return_content {
                ReturnContent::Full => mail.push_str(" RET=FULL"),
                ReturnContent::Headers => mail.push_str(" RET=HDRS"),
                ReturnContent::Unspecified => {}
            }
            if let Some(id) = outgoing.envelope_id {
                let _ = write!(mail, " ENVID={}", encode_xtext(id));
            }
        }
        Ok(Self { mail, rcpts })
    }
}

/// The failure that ended a session.
struct SessionFailure {
    problem: TransferError,
    /// `true` if the server may change the ACL have accepted the message.
    uncertain: bool,
}

impl From<TransferError> for SessionFailure {
    fn from(problem: TransferError) -> Self {
        Self { problem, uncertain: false }
    }
}

struct Transaction<'a> {
    connection: &'a mut ClientConnection,
    options: &'a SmtpClientOptions,
    outgoing: &'a OutboundMessage<'a>,
    plan: &'a TransactionCommands,
    outcomes: &'a mut [Option<DeliveryOutcome>],
}

impl Transaction<'_> {
    /// Sends the message to a group of recipients. On success, each of them has an outcome.
    async fn send(&mut self, group: &[usize], text: &[u8]) -> Result<(), SessionFailure> {
        let mut sayable = Vec::new();
        for &index in group {
            match self.plan.rcpts.get(index) {
                Some(Ok(line)) => sayable.push((index, line.as_str())),
                Some(Err(problem)) => self.record_failure(index, problem),
                None => self.record_failure(index, &TransferError::connection_failed("there is no such recipient")),
            }
        }
        if sayable.is_empty() {
            return Ok(());
        }
        let (accepted, data) = if self.connection.extensions.pipelining {
            self.begin_pipelined(&sayable).await?
        } else {
            self.begin_sequential(&sayable).await?
        };
        let Some(data) = data else { return Ok(()) };
        if data.code != 354 {
            accepted.iter().for_each(|index| self.record_failure(*index, &TransferError::Refused(data.clone())));
            return self.reset().await;
        }
        if accepted.is_empty() {
            // The server asks for data although it accepted no recipient. It gets an empty message (RFC 2920 §3.1).
            return self.finish(b".\r\n", &[]).await;
        }
        self.finish(text, &accepted).await
    }

    /// Sends MAIL, RCPT and DATA together. Returns the accepted recipients and the reply to DATA.
    async fn begin_pipelined(
        &mut self,
        sayable: &[(usize, &str)],
    ) -> Result<(Vec<usize>, Option<SmtpReply>), TransferError> {
        let limits = &self.options.timeouts;
        let mut lines = format!("{}\r\n", self.plan.mail);
        sayable.iter().for_each(|(_, line)| {
            lines.push_str(line);
            lines.push_str("\r\n");
        });
        lines.push_str("DATA\r\n");
        self.connection.write(lines.as_bytes(), limits.command).await?;
        let mail = self.connection.reply("MAIL", limits.command).await?;
        let mut accepted = Vec::new();
        for (index, _) in sayable {
            let reply = self.connection.reply("RCPT", limits.command).await?;
            if !mail.is_positive() {
                self.record_failure(*index, &TransferError::Refused(mail.clone()));
            } else if reply.is_positive() {
                accepted.push(*index);
            } else {
                self.record_failure(*index, &TransferError::Refused(reply));
            }
        }
        let data = self.connection.reply("DATA", limits.data_begin).await?;
        if !mail.is_positive() && mail.code == 421 {
            return Err(TransferError::connection_failed("the server is closing the connection"));
        }
        Ok((accepted, Some(data)))
    }

    /// Sends MAIL, RCPT and DATA one after the other. If DATA was not sent, the reply is `None`.
    async fn begin_sequential(
        &mut self,
        sayable: &[(usize, &str)],
    ) -> Result<(Vec<usize>, Option<SmtpReply>), TransferError> {
        let limits = &self.options.timeouts;
        let mail = self.connection.send_command(&self.plan.mail, limits.command).await?;
        if !mail.is_positive() {
            sayable.iter().for_each(|(index, _)| self.record_failure(*index, &TransferError::Refused(mail.clone())));
            return Ok((Vec::new(), None));
        }
        let mut accepted = Vec::new();
        for (index, line) in sayable {
            let reply = self.connection.send_command(line, limits.command).await?;
            if reply.is_positive() {
                accepted.push(*index);
            } else {
                self.record_failure(*index, &TransferError::Refused(reply));
            }
        }
        if accepted.is_empty() {
            self.reset().await.map_err(|broken| broken.problem)?;
            return Ok((accepted, None));
        }
        let data = self.connection.send_command("DATA", limits.data_begin).await?;
        Ok((accepted, Some(data)))
    }

    /// Sends the message data, and settles the recipients according to the server's reply.
    async fn finish(&mut self, text: &[u8], accepted: &[usize]) -> Result<(), SessionFailure> {
        let limits = &self.options.timeouts;
        let uncertain = |problem| SessionFailure { problem, uncertain: true };
        self.connection.write(text, limits.data_block).await.map_err(uncertain)?;
        if self.connection.protocol == ClientProtocol::Lmtp {
            for index in accepted {
                let reply = self.connection.reply("DATA", limits.data_end).await.map_err(uncertain)?;
                self.record_reply(*index, &reply);
            }
            return Ok(());
        }
        let reply = self.connection.reply("DATA", limits.data_end).await.map_err(uncertain)?;
        accepted.iter().for_each(|index| self.record_reply(*index, &reply));
        Ok(())
    }

    async fn reset(&mut self) -> Result<(), SessionFailure> {
        self.connection.send_command("RSET", self.options.timeouts.command).await?;
        Ok(())
    }

    fn record_reply(&mut self, index: usize, reply: &SmtpReply) {
        if !reply.is_positive() {
            return self.record_failure(index, &TransferError::Refused(reply.clone()));
        }
        let delivery = Delivery {
            host: self.connection.name.clone(),
            reply: reply.to_string(),
            handles_dsn: self.connection.extensions.dsn && self.connection.protocol == ClientProtocol::Smtp,
            tls: self.connection.is_tls(),
        };
        record_outcome(self.outcomes, index, || DeliveryOutcome::Delivered(delivery));
    }

    fn record_failure(&mut self, index: usize, problem: &TransferError) {
        base::always!(index < self.outgoing.recipients.len(), "an outcome needs its recipient");
        record_outcome(self.outcomes, index, || problem.outcome(Some(&self.connection.name)));
    }
}

fn record_outcome(outcomes: &mut [Option<DeliveryOutcome>], index: usize, outcome: impl FnOnce() -> DeliveryOutcome) {
    if let Some(slot) = outcomes.get_mut(index) {
        slot.get_or_insert_with(outcome);
    }
}

fn record_outcomes(outcomes: &mut [Option<DeliveryOutcome>], outcome: &DeliveryOutcome) {
    for slot in outcomes {
        slot.get_or_insert_with(|| outcome.clone());
    }
}

fn rcpt(recipient: &Recipient, connection: &ClientConnection) -> Result<String, TransferError> {
    let address = encode_address(&recipient.address, connection.extensions.smtputf8)?;
    let mut line = format!("RCPT TO:<{address}>");
    if connection.extensions.dsn {
        // Writing to a string cannot fail.
        if let Some(notify) = recipient.notify {
            let _ = write!(line, " NOTIFY={notify}");
        }
        if let Some((kind, address)) = recipient.original.as_deref().and_then(|original| original.split_once(';')) {
            let _ = write!(line, " ORCPT={kind};{}", encode_xtext(address));
        }
    }
    Ok(line)
}

/// Returns an address in a form that the server accepts. Without SMTPUTF8 the domain is converted to ASCII; a non-ASCII
/// local part is an error.
fn encode_address(address: &str, smtputf8: bool) -> Result<String, TransferError> {
    if address.contains(|c: char| c.is_control() || c == '<' || c == '>') && !address.starts_with('"') {
        return Err(TransferError::permanent(
            EnhancedStatus(5, 1, 3),
            "the address contains characters that cannot be sent",
        ));
    }
    if address.contains(char::is_control) {
        return Err(TransferError::permanent(
            EnhancedStatus(5, 1, 3),
            "the address contains characters that cannot be sent",
        ));
    }
    if smtputf8 || address.is_ascii() {
        return Ok(address.to_owned());
    }
    let (local, domain) = split_address(address);
    match ascii_domain(domain) {
        Some(domain) if local.is_ascii() => Ok(format!("{local}@{domain}")),
        _ => Err(needs_smtputf8()),
    }
}

fn needs_smtputf8() -> TransferError {
    TransferError::permanent(EnhancedStatus(5, 6, 7), "the message needs SMTPUTF8, which the server does not support")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encoded_for_the_servers_extensions() {
        let check = |address: &str, smtputf8: bool, expected: Option<&str>| {
            assert_eq!(encode_address(address, smtputf8).ok().as_deref(), expected, "{address}");
        };
        check("a@b.example", false, Some("a@b.example"));
        check("a@müller.example", false, Some("a@xn--mller-kva.example"));
        check("a@müller.example", true, Some("a@müller.example"));
        check("ü@b.example", false, None);
        check("ü@b.example", true, Some("ü@b.example"));
        check("a>\r\nRCPT TO:<c@d", true, None);
        check("\"a\r\nb\"@c", true, None);
    }
}
