//! The pushes to the clients of subscriptions (RFC 8620 §7.2).
//!
//! One task serves all subscriptions, and holds no worker while it waits. A subscription waits for a change of one of
//! the mail files that its person may read, then for further changes of the same moment; one job finds out what its
//! client does not know yet. A push service that fails gets the next push later, with everything that has changed
//! until then. At most [`PUSHES_MAX`] pushes are on their way at the same time, one of a subscription, and
//! [`PUSHES_PER_HOST_MAX`] to a push service: one that does not answer delays only its own.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::sync::Mutex;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use store::Ticket;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, sleep_until};

use super::Service;
use super::push_sender::{PushOutcome, PushSender};
use crate::backend::{Caller, Scope};
use crate::limits::{
    PUSH_CHECK_INTERVAL, PUSH_FAILURES_MAX, PUSH_PAUSE, PUSH_RETRY_FIRST, PUSH_RETRY_MAX, PUSHES_MAX,
    PUSHES_PER_HOST_MAX,
};
use crate::push::Change;
use crate::push_messages::{self, ClientKnowledge, Prepared, PreparedMessages};

impl Service {
    /// Serves all push subscriptions until the server shuts down.
    pub async fn deliver_pushes(self: Arc<Self>, sender: PushSender) {
        let shutdown = self.parts.shutdown.clone();
        let services = Arc::clone(&self.parts.services);
        let delivery =
            Delivery { service: self, sender, slots: Semaphore::new(PUSHES_MAX), host_slots: HostSlots::default() };
        let mut served = HashSet::new();
        let mut running = FuturesUnordered::new();
        loop {
            for (id, changed) in services.push.all() {
                if served.insert(id.clone()) {
                    running.push(Box::pin(delivery.serve(id, changed)));
                }
            }
            tokio::select! {
                biased;
                () = shutdown.draining() => return,
                Some(id) = running.next(), if !running.is_empty() => {
                    served.remove(&id);
                }
                () = services.push.added() => {}
            }
        }
    }
}

/// What the deliveries share.
struct Delivery {
    service: Arc<Service>,
    sender: PushSender,
    slots: Semaphore,
    host_slots: HostSlots,
}

/// The slots of each push service. Those of a service exist while one of its subscriptions refers to them.
#[derive(Default)]
struct HostSlots(Mutex<HashMap<String, Weak<Semaphore>>>);

impl HostSlots {
    /// Returns the slots of the service with this host and port.
    fn of(&self, authority: &str) -> Arc<Semaphore> {
        let mut slots = self.0.lock();
        if let Some(known) = slots.get(authority).and_then(Weak::upgrade) {
            return known;
        }
        slots.retain(|_, known| known.strong_count() > 0);
        let new = Arc::new(Semaphore::new(PUSHES_PER_HOST_MAX));
        slots.insert(authority.to_owned(), Arc::downgrade(&new));
        new
    }
}

/// What a subscription waits for.
enum Waiting {
    /// It has ended.
    Ended,
    /// The next change.
    ForChange(Change),
    /// The next attempt.
    ForAttempt(Duration),
}

impl Delivery {
    /// Serves a subscription until it ends, and returns its identifier.
    async fn serve(&self, id: String, changed: Arc<Notify>) -> String {
        let mut known = ClientKnowledge::default();
        let mut failures = 0;
        loop {
            let waiting = {
                // The semaphores are never closed. A subscription that waits for its service holds no slot of all.
                let of_host = self.host_slots.of(&self.authority(&id));
                let _host_slot = of_host.acquire().await;
                let _slot = self.slots.acquire().await;
                self.attempt(&id, &mut known, &mut failures).await
            };
            match waiting {
                Waiting::Ended => return id,
                Waiting::ForAttempt(wait) => self.pause(&id, &changed, wait).await,
                Waiting::ForChange(change) => tokio::select! {
                    // Further changes of the same moment are one push.
                    () = change => sleep(PUSH_PAUSE).await,
                    () = changed.notified() => {}
                    () = sleep(PUSH_CHECK_INTERVAL) => {}
                },
            }
        }
    }

    /// Waits for the next attempt, or until the subscription has been destroyed.
    async fn pause(&self, id: &str, changed: &Notify, wait: Duration) {
        let mut end = pin!(sleep_until(Instant::now() + wait));
        while self.service.parts.services.push.get(id).is_some() {
            tokio::select! {
                () = &mut end => return,
                () = changed.notified() => {}
            }
        }
    }

    /// Sends what a client does not know yet.
    async fn attempt(&self, id: &str, known: &mut ClientKnowledge, failures: &mut u32) -> Waiting {
        let owned = (id.to_owned(), known.clone(), self.sender.contact.clone());
        let caller = self.caller(id);
        let prepared = self
            .service
            .run(&caller, "push", move |services| push_messages::prepare(services, &owned.0, &owned.1, &owned.2));
        let PreparedMessages { target, messages, known: next, change } = match prepared.await {
            Ok(Prepared::Send(prepared)) => prepared,
            Ok(Prepared::Nothing(change)) => return Waiting::ForChange(change),
            Ok(Prepared::Ended(reason)) => return self.end(id, reason).await,
            Ok(Prepared::Unavailable) | Err(_) => return Waiting::ForAttempt(PUSH_RETRY_FIRST),
        };
        let policy = self.service.parts.services.push.policy();
        for message in messages {
            match self.sender.send(policy, &target, message).await {
                PushOutcome::Delivered => {}
                PushOutcome::Gone(reason) => return self.end(id, Some(reason)).await,
                PushOutcome::Later(after, reason) => {
                    *failures += 1;
                    tracing::debug!(target: "jmap", host = %target, id, reason, failures, "a push was not delivered");
                    if *failures >= PUSH_FAILURES_MAX {
                        return self.end(id, Some(reason)).await;
                    }
                    return Waiting::ForAttempt(pause_after(*failures).max(after.unwrap_or_default()));
                }
            }
        }
        *failures = 0;
        *known = next;
        Waiting::ForChange(change)
    }

    /// Removes a subscription.
    async fn end(&self, id: &str, reason: Option<String>) -> Waiting {
        let caller = self.caller(id);
        if let Some(reason) = reason {
            tracing::info!(target: "jmap", account = caller.login, id, reason, "removed a push subscription");
        }
        let of_job = id.to_owned();
        let removed = self.service.run(&caller, "push", move |services| {
            let removed = services.push.remove(&of_job);
            if let Err(error) = &removed {
                tracing::error!(target: "jmap", %error, "a push subscription could not be removed");
            }
            (removed.is_ok(), Ticket::NONE)
        });
        // A subscription that could not be removed is found again, and ends then.
        match removed.await {
            Ok(true) => Waiting::Ended,
            Ok(false) | Err(_) => Waiting::ForAttempt(PUSH_RETRY_FIRST),
        }
    }

    /// Returns the host and the port of the push service of a subscription, or nothing if there is none any more.
    fn authority(&self, id: &str) -> String {
        let push = &self.service.parts.services.push;
        let target = push.get(id).and_then(|one| push.policy().target(&one.wanted.url).ok());
        target.map(|target| target.authority).unwrap_or_default()
    }

    /// Returns the caller for whom a subscription is served.
    fn caller(&self, id: &str) -> Caller {
        let found = self.service.parts.services.push.get(id);
        match found {
            Some(one) => push_messages::caller_of(&one.owner),
            None => Caller { login: String::new(), scope: Scope::Reading, credential: String::new() },
        }
    }
}

/// Returns the time until the next attempt after some failures in a row.
fn pause_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    PUSH_RETRY_FIRST.saturating_mul(1 << doublings).min(PUSH_RETRY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_an_hour() {
        let minutes: Vec<u64> = (1..=12).map(|failures| pause_after(failures).as_secs()).collect();
        assert_eq!(minutes, [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600, 3_600, 3_600]);
        assert_eq!(pause_after(u32::MAX), PUSH_RETRY_MAX);
    }
}
