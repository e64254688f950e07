//! The accounts of JMAP over a data folder: the own mail file, and those of others by the names in their lists.

use std::sync::Arc;

use base::Timestamp;
use directory::{FactorSecret, GroupChange, GroupKind, NewGroup};
use http::sessions::{SessionClient, SessionId, SessionLogin};
use jmap::backend::Scope;
use jmap::principal::{PrincipalInfo, Principals};
use jmap::{AccountInfo, Accounts, Caller};
use notes::{AclEntry, AclLevel, level};
use sample::Sample;
use sasl::LoginPassword;
use server::jmap_backend::ServerJmapAccounts;
use server::logins::Logins;
use server::principal_list::PrincipalList;
use server::shared_mail_files::SharedMailFiles;

const ANN: &str = "mail/ann.nsf";

/// The canonical name of Ann.
const ANN_NAME: &str = "CN=ann/O=acme.test";

struct World {
    sample: Sample,
    accounts: ServerJmapAccounts,
}

impl World {
    fn new() -> Self {
        let sample = Sample::new();
        let instance = &sample.instance;
        let accounts = ServerJmapAccounts {
            directory: Arc::clone(&instance.directory),
            logins: Logins::new(instance, Arc::default(), admin::sessions::open(instance).expect("they open")),
            mail: Arc::clone(&instance.mail),
            shared: SharedMailFiles::new(&instance.databases),
            full_text: Arc::clone(&instance.full_text),
        };
        Self { sample, accounts }
    }

    /// Sets an entry of the list of a mail file, or removes it.
    fn grant(&self, path: &str, name: &str, access: Option<AclLevel>) {
        let instance = &self.sample.instance;
        let opened = admin::people::open_as_manager(instance, path).expect("the mail file exists");
        let writer = opened.downgrade::<level::Depositor>();
        let mut acl = (*opened.read().expect("a snapshot").acl()).clone();
        acl.entries.retain(|entry| entry.name != base::Name::new(name));
        acl.entries.extend(access.map(|access| AclEntry::new(name, access)));
        let accesses = [&writer];
        let mut transaction = instance.databases.transaction(&accesses).expect("a transaction");
        transaction.writer(0).acl_set(acl).expect("the list is valid");
        transaction.commit().expect("a commit");
    }

    /// Returns the names of the accounts of a person, with a star for the own one and `r` for those that are read-only.
    fn accounts(&self, login: &str) -> Vec<String> {
        let describe = |info: AccountInfo| {
            let mark = if info.is_personal { "*" } else { "" };
            let right = if info.rights.is_read_only { " r" } else { "" };
            format!("{mark}{}{right}", info.name)
        };
        self.infos(login).into_iter().map(describe).collect()
    }

    fn infos(&self, login: &str) -> Vec<AccountInfo> {
        self.accounts.accounts(&caller(login)).expect("the directory works")
    }

    fn opens(&self, login: &str, account: &str) -> bool {
        self.accounts.open(&caller(login), account).is_ok_and(|opened| opened.is_some())
    }
}

fn caller(login: &str) -> Caller {
    Caller { login: login.to_owned(), scope: Scope::All, credential: String::new() }
}

#[test]
fn mail_files_of_others_are_accounts_while_their_lists_permit() {
    let world = World::new();
    assert_eq!(world.accounts("bob"), ["*bob@acme.test"]);
    world.grant(ANN, "bob@acme.test", Some(AclLevel::Depositor));
    assert_eq!(world.accounts("bob"), ["*bob@acme.test"]);
    world.grant(ANN, "bob@acme.test", Some(AclLevel::Reader));
    assert_eq!(world.accounts("bob"), ["*bob@acme.test", "ann@acme.test r"]);
    let account = world.infos("bob").remove(1).id;
    assert!(world.opens("bob", &account));
    world.grant(ANN, "bob@acme.test", Some(AclLevel::Editor));
    assert_eq!(world.accounts("bob"), ["*bob@acme.test", "ann@acme.test"]);
    assert_eq!(world.accounts("ann"), ["*ann@acme.test"]);
    world.grant(ANN, "bob@acme.test", None);
    assert_eq!(world.accounts("bob"), ["*bob@acme.test"]);
    assert!(!world.opens("bob", &account));
    assert!(world.opens("ann", &account));
}

#[test]
fn groups_wildcards_and_the_default_open_mail_files() {
    let world = World::new();
    world.grant(ANN, "team", Some(AclLevel::Author));
    assert_eq!(world.accounts("bob"), ["*bob@acme.test", "ann@acme.test"]);
    let members = vec!["bob@acme.test".to_owned()];
    let leave = GroupChange { members_remove: members.clone(), ..GroupChange::default() };
    world.sample.instance.directory.group_set("team@acme.test", &leave).expect("the group exists");
    assert_eq!(world.accounts("bob"), ["*bob@acme.test"]);
    let staff = NewGroup { name: "Staff".to_owned(), members, ..NewGroup::default() };
    world.sample.instance.directory.group_add(&staff).expect("the name is free");
    world.grant(ANN, "Staff", Some(AclLevel::Reader));
    assert_eq!(world.accounts("bob"), ["*bob@acme.test", "ann@acme.test r"]);
    world.grant(ANN, "Staff", None);
    world.grant(ANN, "*", Some(AclLevel::Reader));
    assert_eq!(world.accounts("bob"), ["*bob@acme.test", "ann@acme.test r"]);
    world.grant(ANN, "*", None);
    world.grant(ANN, "-Default-", Some(AclLevel::Reader));
    assert_eq!(world.accounts("bob"), ["*bob@acme.test", "ann@acme.test r"]);
}

#[test]
fn renamed_and_deleted_mail_files_are_followed() {
    let world = World::new();
    world.grant(ANN, "bob@acme.test", Some(AclLevel::Reader));
    let account = world.infos("bob").remove(1).id;
    let access = admin::people::open_as_manager(&world.sample.instance, ANN).expect("the mail file exists");
    world.sample.instance.directory.mail_file_rename(&access, "mail/new.nsf").expect("the path is free");
    assert_eq!(world.accounts("bob"), ["*bob@acme.test", "ann@acme.test r"]);
    assert_eq!(world.infos("bob").remove(1).id, account);
    assert!(world.opens("bob", &account));
    world.sample.instance.databases.database_delete(&access).expect("it exists");
    drop(access);
    assert_eq!(world.accounts("bob"), ["*bob@acme.test"]);
    assert!(!world.opens("bob", &account));
}

#[test]
fn other_databases_and_forged_identifiers_are_no_accounts() {
    let world = World::new();
    let instance = &world.sample.instance;
    sample::database_with_view(instance, notes::view::view_format::Refresh::Automatic, Default::default());
    let database = instance.databases.database_open(sample::DATABASE).expect("it was created");
    let of_database = format!("A{:016x}", database.record().replica_id.0);
    assert!(!world.opens("bob", &of_database));
    for forged in ["", "A", "A0", "A+000000000000000", "Affffffffffffffff", "B0000000000000000"] {
        assert!(!world.opens("bob", forged), "{forged}");
    }
    let upper = world.infos("bob").remove(0).id.to_uppercase();
    let own = world.infos("bob").remove(0).id;
    assert_eq!(world.opens("bob", &upper), upper == own);
    assert!(world.infos("nobody").is_empty() && world.infos("eve").is_empty());
}

#[test]
fn people_and_groups_are_principals() {
    let world = World::new();
    let directory = &world.sample.instance.directory;
    let list = PrincipalList::new(directory);
    let names = || {
        let mut found = Vec::new();
        let mut add = |info: &PrincipalInfo| found.push(format!("{} {}", info.kind.name(), info.name));
        list.for_each(&[], &mut add).expect("the directory works");
        found.sort();
        found
    };
    assert_eq!(names(), ["group team", "individual ann", "individual bob"], "eve is disabled");
    let before = list.state().expect("the directory works");
    let servers = NewGroup { name: "Hubs".to_owned(), kind: GroupKind::ServersOnly, ..NewGroup::default() };
    let denied = NewGroup { name: "Leavers".to_owned(), kind: GroupKind::DenyList, ..NewGroup::default() };
    let staff = NewGroup { name: "Staff".to_owned(), ..NewGroup::default() };
    for group in [servers, denied, staff] {
        directory.group_add(&group).expect("the name is free");
    }
    assert_eq!(names(), ["group Staff", "group team", "individual ann", "individual bob"]);
    assert_ne!(list.state().expect("the directory works"), before);
    let own = world.infos("ann").remove(0).owner.expect("ann is a principal");
    let ann = list.find(&own).expect("the directory works").expect("the identifier is valid");
    assert_eq!(ann.email.as_deref(), Some("ann@acme.test"));
    let mut ids = Vec::new();
    list.for_each(&[], &mut |info| ids.push(info.id.clone())).expect("the directory works");
    assert!(ids.contains(&own));
    for forged in ["", "P", "Px", &own.to_lowercase(), &own.replace('P', "Q")] {
        assert_eq!(list.find(forged).expect("the directory works"), None, "{forged}");
    }
    world.grant(ANN, "bob@acme.test", Some(AclLevel::Reader));
    assert_eq!(world.infos("bob").remove(1).owner, Some(own));
}

#[test]
fn a_second_factor_ends_the_credentials_that_have_not_proved_it() {
    let world = World::new();
    let instance = &world.sample.instance;
    let sessions = admin::sessions::open(instance).expect("they open");
    let logins = Logins::new(instance, Arc::default(), Arc::clone(&sessions));
    let accounts = ServerJmapAccounts { logins, ..world.accounts };
    let added = Timestamp(1_234_567);
    let begin = |factor| {
        let client = SessionClient { address: "192.0.2.1".to_owned(), description: String::new() };
        let login = SessionLogin { login: ANN_NAME.to_owned(), stamp: 1, password: LoginPassword::Account, factor };
        let (token, _) = sessions.begin(login, client).expect("a sound store");
        SessionId::of_token(&token).name()
    };
    let credentials = [String::new(), begin(None), begin(Some(added))];
    let is_valid = |credential: &String| {
        let caller = Caller { credential: credential.clone(), ..caller(ANN_NAME) };
        accounts.password_stamp(&caller).expect("the directory works").is_some()
    };
    assert_eq!(credentials.each_ref().map(is_valid), [true, true, true]);
    let secret = FactorSecret([7; 20]);
    let code = secret.code_at(instance.clock.now());
    instance.directory.second_factor_set_at("ann", (&secret, &code), added).expect("the code is right");
    assert_eq!(credentials.each_ref().map(is_valid), [false, false, true]);
}
