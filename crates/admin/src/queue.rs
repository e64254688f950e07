//! `doublet queue`: mail that waits for another server, or for a decision of the administrator.

use instance::Instance;
use mail::mime::message_header::top_header;
use mail::router::{QueueEntry, QueueKey, RecipientState};
use serde_json::{Value, json};
use store::Ticket;

use super::answer::{record, timestamp_json};
use super::request::{QueueRequest, QueueSelection, QueueState};
use super::{AdminError, AdminResult, Answer, format_count};

pub(super) fn execute(instance: &Instance, request: QueueRequest) -> AdminResult {
    match request {
        QueueRequest::List { state } => Ok(list(instance, state)),
        QueueRequest::Show { id } => show(instance, &id),
        QueueRequest::Retry { selection } => {
            change_selected(instance, &selection, "will be tried now", |key| instance.router.retry(key))
        }
        QueueRequest::Hold { selection } => {
            change_selected(instance, &selection, "held", |key| instance.router.hold(key))
        }
        QueueRequest::Release { selection } => {
            change_selected(instance, &selection, "released", |key| instance.router.release(key))
        }
        QueueRequest::Remove { selection } => {
            change_selected(instance, &selection, "removed", |key| instance.router.remove(key))
        }
    }
}

fn list(instance: &Instance, wanted: Option<QueueState>) -> Answer {
    let entries = instance.router.list();
    let of_state = entries.iter().filter(|(_, entry)| wanted.is_none_or(|state| has_state(entry, state)));
    Answer::list(of_state.map(|(key, entry)| queue_record(*key, entry)).collect())
}

fn queue_record(key: QueueKey, entry: &QueueEntry) -> Value {
    let last = entry.recipients.iter().map(|queued| queued.last_reply.as_str()).find(|reply| !reply.is_empty());
    record(vec![
        ("id", json!(key.to_string())),
        ("state", json!(state_name(entry))),
        ("arrived_at", timestamp_json(Some(entry.arrived))),
        ("next_attempt_at", timestamp_json(entry.next_attempt())),
        ("size_bytes", json!(entry.size)),
        ("sender", json!(sender(entry))),
        ("recipients", json!(entry.recipients.iter().map(|queued| &queued.recipient.address).collect::<Vec<_>>())),
        ("last_reply", json!(last)),
    ])
}

fn show(instance: &Instance, id: &str) -> AdminResult {
    let key = parse_key(id)?;
    let Some((_, entry)) = instance.router.list().into_iter().find(|(known, _)| *known == key) else {
        return Err(AdminError::no_such("queue", id));
    };
    let recipients: Vec<Value> = entry
        .recipients
        .iter()
        .map(|queued| {
            record(vec![
                ("address", json!(queued.recipient.address)),
                ("state", json!(recipient_state(queued.state))),
                ("attempts", json!(queued.attempts)),
                ("next_attempt_at", timestamp_json(Some(queued.next_attempt))),
                ("last_reply", json!(queued.last_reply)),
            ])
        })
        .collect();
    let raw = instance.router.content(key)?;
    let text = String::from_utf8_lossy(top_header(&raw));
    let header: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    Ok(Answer::record(vec![
        ("id", json!(id)),
        ("message_id", json!(entry.envelope.id)),
        ("sender", json!(sender(&entry))),
        ("arrived_at", timestamp_json(Some(entry.arrived))),
        ("size_bytes", json!(entry.size)),
        ("recipients", Value::Array(recipients)),
        ("header", json!(header)),
    ]))
}

fn change_selected(
    instance: &Instance,
    selection: &QueueSelection,
    outcome: &str,
    act: impl Fn(QueueKey) -> mail::Result<Ticket>,
) -> AdminResult {
    let keys = if selection.all {
        instance.router.list().into_iter().map(|(key, _)| key).collect()
    } else {
        selection.ids.iter().map(|id| parse_key(id)).collect::<Result<Vec<_>, _>>()?
    };
    let mut last = Ticket::NONE;
    for key in &keys {
        last = last.max(act(*key)?);
    }
    instance.store.durable(last).wait()?;
    Ok(Answer::message(format!("{}: {outcome}.", format_count(keys.len(), "message", "messages"))))
}

fn parse_key(id: &str) -> Result<QueueKey, AdminError> {
    id.parse().map_err(|text: String| AdminError::Refused(format!("{text}; `doublet queue list` shows all")))
}

fn sender(entry: &QueueEntry) -> &str {
    if entry.envelope.reverse_path.is_empty() { "<>" } else { &entry.envelope.reverse_path }
}

fn has_state(entry: &QueueEntry, state: QueueState) -> bool {
    let wanted = match state {
        QueueState::Waiting => RecipientState::Pending,
        QueueState::Held => RecipientState::Held,
        QueueState::Dead => RecipientState::Dead,
    };
    entry.recipients.iter().any(|queued| queued.state == wanted)
}

fn state_name(entry: &QueueEntry) -> &'static str {
    let most_urgent = [QueueState::Dead, QueueState::Held].into_iter().find(|state| has_state(entry, *state));
    match most_urgent {
        Some(QueueState::Dead) => "dead",
        Some(QueueState::Held) => "held",
        _ => "waiting",
    }
}

fn recipient_state(state: RecipientState) -> &'static str {
    match state {
        RecipientState::Pending => "waiting",
        RecipientState::Held => "held",
        RecipientState::Dead => "dead",
    }
}
