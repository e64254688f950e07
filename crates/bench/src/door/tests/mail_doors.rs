//! What the tests of the doors for IMAP and POP3 share: steps, settings, messages, and how a delivery goes.

use std::sync::Arc;
use std::time::Duration;

use super::scripted_server::Dialogue;
use crate::door::line_connection::Place;
use crate::door::mail_sending::MailSettings;
use crate::door::smtp::delivery::DeliveryPool;
use crate::door::{Door, Offered, Reply, Session, StepError};
use crate::engine::steps::StepSource as _;
use crate::plan::Plan;
use crate::plan::steps::{PlanAction, PlanSteps};
use crate::population::content::Purpose;
use crate::population::memos::MailFiles;
use crate::population::people::UserNames;
use crate::workload::check::check as check_workload;
use crate::workload::profile::SizeProfile;
use crate::workload::units::Share;
use crate::workload::verb::Verb;

/// The time limit of calls that fill mail files.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The results of steps, without the texts of errors.
pub(crate) type StepResults = Vec<Result<Reply, (String, Session)>>;

/// Returns the actions of user 1 of a run with two users, whose class has these steps, through a door that leaves some
/// verbs out.
pub(crate) fn actions((door, left_out): (&str, &[(Verb, &str)]), steps: &str) -> Vec<PlanAction> {
    let text = format!(
        "format = 1\nname = \"Test\"\ntitle = \"Test\"\ndoor = \"{door}\"\npace = \"unpaced\"\niterations = 1\n\
         step = [{steps}]"
    );
    let workload = check_workload(&text, &[]).unwrap_or_else(|findings| panic!("{findings:?}"));
    let plan = Arc::new(Plan::new(Arc::new(workload), 1, 2).expect("recipients"));
    let mut steps = PlanSteps::new(&plan, &Arc::new(Offered::all_but(left_out)), 1, 0).expect("a user");
    std::iter::from_fn(|| steps.next_step()).map(|step| step.action).collect()
}

/// Returns settings with the services that take messages.
pub(crate) fn mail_settings(submission: Option<&Place>, delivery: Option<DeliveryPool>) -> MailSettings {
    MailSettings {
        submission: submission.cloned(),
        delivery,
        names: UserNames::parse("mail{}@bench.test").expect("a pattern"),
        password: "secret".to_owned(),
        size_scale: 1.0,
    }
}

/// Logs in and performs steps. Returns the result of each, the login included.
pub(crate) async fn play<D: Door<Action = PlanAction>>(door: &mut D, actions: &[PlanAction]) -> StepResults {
    let short = |result: Result<Reply, StepError>| result.map_err(|error| (error.code.into_owned(), error.session));
    let mut results = vec![short(door.log_in().await)];
    for action in actions {
        results.push(short(door.perform(action).await));
    }
    results
}

/// Returns the mail files of two users.
pub(crate) fn mail_files(documents: u64, unread: Share) -> MailFiles {
    MailFiles {
        seed: 1,
        users: 2,
        documents,
        archive: 0,
        profile: SizeProfile::server_load(),
        size_scale: 0.001,
        unread,
        purpose: Purpose::Document,
        masters: 2,
        own: Share::ALL,
    }
}

/// Returns the delivery of the messages of user 1 over LMTP.
pub(crate) fn delivery_of(files: &MailFiles) -> Dialogue {
    files.memos(1).fold(Dialogue::new("220 ready").turn("LHLO", "250 mx"), |delivery, memo| {
        let sender = format!("MAIL FROM:<mail{}@bench.test>", memo.sender);
        let delivery = delivery.turn(&sender, "250 ok").turn("RCPT TO:<mail1@bench.test>", "250 ok");
        delivery.turn("DATA", "354 go").message("250 ok")
    })
}
