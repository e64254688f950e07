//! The databases besides mail files: their paths, and the one in which a user works.

use super::Plan;
use crate::workload::Database;
use crate::workload::class::Replica;
use crate::workload::verb::Verb;

/// The name of the inbox of a mail file.
pub const INBOX: &str = "INBOX";

/// Returns the path of a database of a kind. Numbers count from 1.
pub fn path(kind: &Database, number: u64) -> String {
    format!("{}{number}.nsf", kind.name)
}

/// Where a user works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workplace {
    /// The database, or `None` for the own mail file.
    pub database: Option<WorkDatabase>,
    /// Whether the user works in a local replica of it.
    pub replica: Replica,
}

/// A database in which several users work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkDatabase {
    /// Its path on the server.
    pub path: String,
    /// The view that is opened unless a step says otherwise.
    pub view: String,
}

impl Default for Workplace {
    /// Returns the own mail file on the server.
    fn default() -> Self {
        Self { database: None, replica: Replica::None }
    }
}

impl Workplace {
    /// Returns `true` if the user works in the own mail file.
    pub fn is_mail_file(&self) -> bool {
        self.database.is_none()
    }

    /// Returns `true` if the verb needs a document that another user may have deleted meanwhile.
    pub fn is_shared_document(&self, verb: Verb) -> bool {
        let of_document =
            [Verb::Read, Verb::ReadAttachment, Verb::Update, Verb::Delete, Verb::Respond, Verb::Move].contains(&verb);
        of_document && !self.is_mail_file()
    }

    /// Returns the view that is opened unless a step says otherwise.
    pub fn view(&self) -> &str {
        self.database.as_ref().map_or(INBOX, |database| &database.view)
    }
}

impl Plan {
    /// Returns where a user works, or `None` if there is no such user. The users of a class are distributed over the
    /// databases of its kind by their numbers.
    pub fn workplace(&self, user: u64) -> Option<Workplace> {
        let class = self.class_of(user)?;
        let database = self.workload.database_of(class).map(|kind| {
            let number = 1 + (user - 1) % kind.count.max(1);
            WorkDatabase { path: path(kind, number), view: kind.view.clone() }
        });
        Some(Workplace { database, replica: class.replica })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::workload::{check, shipped};

    fn plan(name: &str, set: &[&str], users: u64) -> Plan {
        let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
        let text = shipped::load(name).expect("a shipped workload");
        let mut workload = check::check(&text, &set).expect("it is valid");
        workload.users = users;
        Plan::new(Arc::new(workload), 1, users).expect("a plan")
    }

    fn path_of(plan: &Plan, user: u64) -> Option<String> {
        plan.workplace(user).expect("a user").database.map(|database| database.path)
    }

    #[test]
    fn users_are_distributed_over_databases_by_their_numbers() {
        let plan = plan("shareddatabase", &["databases=3"], 7);
        let paths: Vec<_> = (1..=7).filter_map(|user| path_of(&plan, user)).collect();
        let expected = [1, 2, 3, 1, 2, 3, 1].map(|number| format!("discussion{number}.nsf"));
        assert_eq!(paths, expected);
        let database = plan.workplace(1).and_then(|place| place.database).expect("a database");
        assert_eq!(database.view, "All Documents");
        assert_eq!(plan.workplace(8), None);
    }

    #[test]
    fn others_work_in_their_mail_files() {
        let plan = plan("largeinbox", &["heavy=2"], 3);
        assert_eq!((1..=3).filter_map(|user| path_of(&plan, user)).count(), 0);
        assert_ne!(path_of(&plan, 4), path_of(&plan, 5), "each of the two users has a database");
        let plan = super::tests::plan("entmail", &[], 10);
        let replicas = (1..=10).filter(|user| plan.workplace(*user).expect("a user").replica == Replica::Local);
        assert_eq!(replicas.count(), 2);
    }
}
