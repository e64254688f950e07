//! The changes of states that a client is told: shared by the event source and WebSocket.
//!
//! Waiting holds no worker: it ends with a change of one of the mail files that the person may read. After a change,
//! one job computes the states, and the event has those that differ from what the client was told before. The first
//! change is told at once. A pause after it bounds the number of events and jobs of a busy mail file.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use http::problem::Problem;
use serde_json::{Map, Value};
use store::Ticket;
use tokio::time::{Instant, sleep_until};

use super::{Service, failed};
use crate::Caller;
use crate::limits::EVENT_PAUSE;
use crate::push::{self, AccountStates, Change, Observation};
use crate::type_selection::TypeSelection;

/// Changes of states, without end unless the accounts cannot be read any more.
pub(super) type StateEvents = Pin<Box<dyn Stream<Item = StateEvent> + Send>>;

/// A change of states.
pub(super) struct StateEvent {
    /// All states, in the form in which a client that comes back tells what it knows.
    pub(super) identifier: String,
    /// The StateChange object.
    pub(super) change: Map<String, Value>,
}

/// Returns the changes of some types. `last` is the identifier of the last event that the client has; without it, the
/// client knows the present states.
pub(super) async fn state_events(
    service: &Arc<Service>,
    caller: &Caller,
    types: TypeSelection,
    last: Option<&str>,
) -> Result<StateEvents, Problem> {
    let Observation { states: present, change, .. } = observe(service, caller).await?;
    // An identifier that cannot be read may be old: its client is sent all states.
    let known = last.map(|id| AccountStates::from_event_id(id).unwrap_or_default());
    // What the client has missed is found at once.
    let change: Change = if known.is_some() { Box::pin(std::future::ready(())) } else { change };
    let known = known.unwrap_or(present);
    let earliest = Instant::now();
    let watch = Watch { service: Arc::clone(service), caller: caller.clone(), types, known, change, earliest };
    Ok(Box::pin(futures_util::stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        Some((event, watch))
    })))
}

struct Watch {
    service: Arc<Service>,
    caller: Caller,
    types: TypeSelection,
    /// What the client knows.
    known: AccountStates,
    change: Change,
    /// The time before which no further event is sent.
    earliest: Instant,
}

impl Watch {
    async fn next(&mut self) -> Option<StateEvent> {
        loop {
            (&mut self.change).await;
            sleep_until(self.earliest).await;
            // A person who may no longer log in has lost the connection by now.
            let observed = observe(&self.service, &self.caller).await.ok()?;
            let Observation { states: present, change, .. } = observed.with_known(&self.known);
            self.change = change;
            let changed = present.differences(&self.known, &self.types);
            let identifier = present.event_id();
            self.known = present;
            self.earliest = Instant::now() + EVENT_PAUSE;
            if let Some(change) = changed {
                return Some(StateEvent { identifier, change });
            }
        }
    }
}

/// Returns the present states, and the future of the next change. The listener begins before the states are read, so no
/// change is missed.
async fn observe(service: &Service, caller: &Caller) -> Result<Observation, Problem> {
    let of_job = caller.clone();
    let observed = service.run(caller, "events", move |services| {
        let observed = push::observe(services, &of_job);
        let ticket = observed.as_ref().map_or(Ticket::NONE, |observed| observed.ticket);
        (observed, ticket)
    });
    observed.await?.map_err(|error| failed("events", &error))
}
