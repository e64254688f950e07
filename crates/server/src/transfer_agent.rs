//! The transfer agent: takes due jobs from the router, sends or delivers them, and reports the outcomes to the router.
//!
//! The router decides which jobs are due and holds the queue; the agent only runs them. Local jobs run on the worker
//! pool, remote ones through [`smtp::client::SmtpClient`]. Each kind has its own limit of concurrent jobs, so slow
//! remote servers do not delay local mail. Slow servers do not delay mail to fast ones either: the router gives slow
//! destinations half of the remote jobs, and limits for each job the time until its servers respond
//! ([`DeliveryJob::connect_time_max`]). No message is sent before it is durable in this server's store, because its
//! sender may still receive an error for it. A job that is running when the server closes is returned to the router
//! without an attempt being counted.

use std::sync::Arc;

use mail::router::{DeliveryJob, Destination, Recipient, Router, TransferOutcome};
use smtp::client::{DeliveryFailure, DeliveryOutcome, NextHop, OutboundMessage, SmtpClient};
use tokio::sync::{Notify, Semaphore};
use wire::{JobLabel, JobOwner, Shutdown, WorkerPool};

use crate::counters::MailCounters;
use crate::limits::QUEUE_POLL_INTERVAL;
use crate::replication::Replication;

/// Maximum number of local jobs that run at the same time.
const LOCAL_JOBS_MAX: usize = 4;

/// Runs the jobs of the queue.
pub struct TransferAgent {
    /// The router with its queue.
    pub router: Arc<Router>,
    /// The transfer to other servers, or `None` while mail for other servers stays in the queue.
    pub transfer: Option<Arc<SmtpClient>>,
    /// The configured smart host. If `None`, mail is routed by the DNS records of each domain.
    pub smart_host: Option<NextHop>,
    /// The connections to other servers of the domain.
    pub replication: Arc<Replication>,
    /// The worker pool for code that blocks.
    pub pool: WorkerPool,
    /// Notified when a message is added to the queue.
    pub queued: Arc<Notify>,
    /// The signal that ends the agent.
    pub shutdown: Shutdown,
    /// Maximum number of remote jobs that run at the same time.
    pub jobs_max: usize,
    /// The counters of outcomes.
    pub counters: Arc<MailCounters>,
}

impl TransferAgent {
    /// Runs until the server drains, then waits until running jobs have ended or the server closes.
    pub async fn run(self: Arc<Self>) {
        let here = Arc::new(Semaphore::new(LOCAL_JOBS_MAX));
        let elsewhere = Arc::new(Semaphore::new(self.jobs_max));
        loop {
            // Further jobs may be due if jobs were started and there is capacity for more.
            let more_here = self.start_due(&here, Router::take_local_jobs).await;
            let more_elsewhere = self.transfer.is_some() && self.start_due(&elsewhere, Router::take_remote_jobs).await;
            if let Some(transfer) = &self.transfer {
                transfer.close_idle().await;
            }
            self.replication.close_idle_mail();
            if (more_here || more_elsewhere) && !self.shutdown.is_draining() {
                continue;
            }
            tokio::select! {
                () = self.shutdown.draining() => break,
                () = self.queued.notified() => {}
                () = tokio::time::sleep(QUEUE_POLL_INTERVAL) => {}
            }
        }
        tokio::select! {
            () = async {
                tokio::join!(wait_until_idle(&here, LOCAL_JOBS_MAX), wait_until_idle(&elsewhere, self.jobs_max));
            } => {}
            () = self.shutdown.closing() => {}
        }
        if let Some(transfer) = &self.transfer {
            transfer.close().await;
        }
        self.replication.close_mail();
    }

    /// Starts due jobs as far as there is capacity. Returns `true` if more jobs may be due and there is capacity for
    /// them.
    async fn start_due(self: &Arc<Self>, slots: &Arc<Semaphore>, due: fn(&Router, usize) -> Vec<DeliveryJob>) -> bool {
        let free = slots.available_permits();
        if free == 0 {
            return false;
        }
        let router = Arc::clone(&self.router);
        let jobs = self.pool.run(server_job("due"), move || due(&router, free)).await.unwrap_or_default();
        let started = jobs.len();
        for job in jobs {
            let Ok(slot) = Arc::clone(slots).acquire_owned().await else {
                self.router.abandon(&job);
                continue;
            };
            let agent = Arc::clone(self);
            tokio::spawn(async move {
                agent.run_job(job).await;
                drop(slot);
            });
        }
        started > 0 && slots.available_permits() > 0
    }

    async fn run_job(&self, job: DeliveryJob) {
        if job.destination == Destination::Local {
            let router = Arc::clone(&self.router);
            let done = self.pool.run(server_job("deliver"), move || router.deliver_local(&job)).await;
            if let Ok(Err(error)) = done {
                tracing::error!(target: "mail", %error, "cannot deliver queued mail locally; will retry");
            }
            return;
        }
        if let Err(error) = self.router.durable(&job).await {
            tracing::error!(target: "mail", queue = %job.key, %error, "a queued message is not sent because it is not durable");
            return self.router.abandon(&job);
        }
        tokio::select! {
            outcomes = self.send(&job) => self.record_outcomes(job, outcomes).await,
            () = self.shutdown.closing() => self.router.abandon(&job),
        }
    }

    /// Sends the message of a job and returns an outcome for each recipient.
    async fn send(&self, job: &DeliveryJob) -> Vec<TransferOutcome> {
        let temporary =
            |reply: &str| vec![TransferOutcome::Temporary { reply: reply.to_owned() }; job.recipients.len()];
        let Some(transfer) = &self.transfer else {
            return temporary("451 4.3.2 delivery to other servers is turned off");
        };
        let router = Arc::clone(&self.router);
        let key = job.key;
        let message = match self.pool.run(server_job("read"), move || router.content(key)).await {
            Ok(Ok(message)) => message,
            Ok(Err(error)) => {
                tracing::error!(target: "mail", id = %job.key, %error, "cannot read a queued message");
                return temporary("451 4.3.0 the message cannot be read");
            }
            Err(error) => return temporary(&format!("451 4.3.0 {error}")),
        };
        if let Destination::Server(server) = &job.destination {
            return self.replication.forward_mail(server, job, message).await;
        }
        let recipients: Vec<Recipient> = job.recipients.iter().map(|queued| queued.recipient.clone()).collect();
        let route = match (&self.smart_host, &job.destination) {
            (Some(host), _) => host.clone(),
            (None, Destination::Domain(domain)) => NextHop::Domain(domain.clone()),
            (None, Destination::Local | Destination::SmartHost | Destination::Server(_)) => {
                return temporary("451 4.3.5 no smart host is configured");
            }
        };
        let outgoing = OutboundMessage {
            reverse_path: &job.envelope.reverse_path,
            recipients: &recipients,
            envelope_id: job.envelope.envelope_id.as_deref(),
            return_content: job.envelope.return_content,
            smtputf8: job.envelope.smtputf8,
            message: &message,
        };
        let outcomes = match job.connect_time_max {
            Some(limit) => transfer.send_with_open_timeout(limit, &route, &outgoing).await,
            None => transfer.send(&route, &outgoing).await,
        };
        outcomes.into_iter().map(outcome).collect()
    }

    async fn record_outcomes(&self, job: DeliveryJob, outcomes: Vec<TransferOutcome>) {
        for (queued, outcome) in job.recipients.iter().zip(&outcomes) {
            let (what, count, reply) = match outcome {
                TransferOutcome::Delivered { reply, .. } => ("sent", &self.counters.sent, reply),
                TransferOutcome::Temporary { reply } => ("deferred", &self.counters.deferred, reply),
                TransferOutcome::Permanent { reply } => ("failed", &self.counters.failed, reply),
                // Only local deliveries find that a mailbox is elsewhere.
                TransferOutcome::Elsewhere { server } => ("rerouted", &self.counters.deferred, server),
            };
            count.add(1);
            tracing::info!(target: "mail", id = job.envelope.id, queue = %job.key, to = queued.recipient.address, reply, "{what}");
        }
        let router = Arc::clone(&self.router);
        let key = job.key;
        match self.pool.run(server_job("finish"), move || router.finish(&job, &outcomes)).await {
            Ok(Ok(_)) => tracing::debug!(target: "mail", queue = %key, "settled"),
            Ok(Err(error)) => {
                tracing::error!(target: "mail", queue = %key, %error, "cannot record the outcome of a transfer; it will be repeated");
            }
            Err(error) => {
                tracing::error!(target: "mail", queue = %key, %error, "the outcome of a transfer is lost; it will be repeated")
            }
        }
    }
}

/// Returns the label of a job of the router in the worker pool.
fn server_job(command: &'static str) -> JobLabel {
    JobLabel::new(JobOwner::Server, "router", command)
}

/// Waits until no job is running.
async fn wait_until_idle(slots: &Semaphore, count: usize) {
    let all = u32::try_from(count).unwrap_or(u32::MAX);
    // Acquiring fails only if the semaphore is closed, which never happens here.
    drop(slots.acquire_many(all).await);
}

fn outcome(outcome: DeliveryOutcome) -> TransferOutcome {
    match outcome {
        DeliveryOutcome::Delivered(delivery) => {
            let reply = reply_text(&delivery.reply, Some(&delivery.host));
            TransferOutcome::Delivered { reply, reports: delivery.handles_dsn }
        }
        DeliveryOutcome::Temporary(failure) => TransferOutcome::Temporary { reply: reply_of(&failure) },
        DeliveryOutcome::Permanent(failure) => TransferOutcome::Permanent { reply: reply_of(&failure) },
    }
}

/// Formats a failure as a reply. The reply of a server starts with its own codes; a local failure is prefixed with its
/// status.
fn reply_of(failure: &DeliveryFailure) -> String {
    let text = match failure.code {
        Some(_) => failure.text.clone(),
        None => format!("{} {}", failure.status, failure.text),
    };
    reply_text(&text, failure.host.as_deref())
}

fn reply_text(text: &str, host: Option<&str>) -> String {
    match host {
        Some(host) => format!("{text} ({host})"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use smtp::EnhancedStatus;

    use super::*;

    fn check(code: Option<u16>, text: &str, host: Option<&str>, expected: &str) {
        let failure = DeliveryFailure {
            code,
            status: EnhancedStatus(5, 1, 1),
            text: text.to_owned(),
            host: host.map(str::to_owned),
        };
        assert_eq!(reply_of(&failure), expected);
    }

    #[test]
    fn failures_are_formatted_like_replies() {
        check(Some(550), "550 5.1.1 User unknown", Some("mx.test"), "550 5.1.1 User unknown (mx.test)");
        check(None, "no route to host", Some("mx.test"), "5.1.1 no route to host (mx.test)");
        check(None, "no such domain", None, "5.1.1 no such domain");
    }
}
