//! The data folder that unit tests open. The tests of `instance` compile this file, too.

use std::sync::Arc;

use config::{ConfigSources, load};
use directory::{NewGroup, NewUser, PersonChange};
use instance::{Instance, authorize_server};
use notes::view::note::ViewNote;
use notes::view::view_format::{Refresh, ViewDesign};
use notes::{Acl, AclLevel, Database, DatabaseKind, DatabaseOptions, Item, NewDatabase, NewNote, level};

/// The password of all sample users.
pub const PASSWORD: &str = "sesame street";

/// The path of the database that [`database_with_view`] creates.
pub const DATABASE: &str = "docs.nsf";

/// An open data folder in a temporary folder.
pub struct Sample {
    /// The open data folder.
    pub instance: Instance,
    /// The temporary folder; it is removed with this value.
    pub folder: tempfile::TempDir,
}

impl Default for Sample {
    fn default() -> Self {
        Self::new()
    }
}

impl Sample {
    /// Creates a data folder with the users ann, bob (quota of 1 MiB) and eve (disabled), and the group team with the
    /// members ann, bob and an external address.
    #[must_use]
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// Creates the same data folder with additional configuration keys.
    #[must_use]
    pub fn with(assignments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let cheap = ["directory.password_memory=8KiB", "directory.password_rounds=1", "server.name=mail.acme.test"];
        let origin = ConfigSources {
            data: Some(folder.path().join("data")),
            overrides: cheap.iter().chain(assignments).map(|text| (*text).to_owned()).collect(),
            ..ConfigSources::default()
        };
        let instance = Instance::open(Arc::new(load(&origin).expect("the configuration is valid")))
            .expect("the data folder is new");
        // The domain gets no DKIM keys, because generating them takes longer than all other steps together.
        instance.directory.domain_add("acme.test", &[]).expect("the data folder is new");
        for (address, quota_bytes) in
            [("ann@acme.test", None), ("bob@acme.test", Some(1 << 20)), ("eve@acme.test", None)]
        {
            let password = Some(PASSWORD.as_bytes().to_vec());
            let new = NewUser { quota_bytes, password, ..NewUser::new(address) };
            let person = instance.directory.user_add(&new).expect("the address is free");
            instance
                .mail
                .create_if_missing(&person.mail_file, &person.display_name(), &person.name, person.quota_bytes)
                .expect("there is no mail file of this name");
        }
        let disable = PersonChange { disabled: Some(true), ..PersonChange::default() };
        instance.directory.user_set("eve@acme.test", &disable).expect("the user exists");
        let members = ["ann@acme.test", "bob@acme.test", "dora@elsewhere.test"].map(str::to_owned).to_vec();
        let addresses = vec!["team@acme.test".to_owned()];
        instance
            .directory
            .group_add(&NewGroup { members, addresses, ..NewGroup::default() })
            .expect("the address is free");
        Self { instance, folder }
    }
}

/// Creates a database with one document, and one view with the given refresh option.
pub fn database_with_view(instance: &Instance, refresh: Refresh, options: DatabaseOptions) -> Arc<Database> {
    let acl = Acl::open_to_all(AclLevel::Manager);
    let new = NewDatabase { options, ..NewDatabase::new(DATABASE, "Documents", DatabaseKind::Standard, acl) };
    let database = instance.databases.database_create(&new).expect("the path is free");
    let design = ViewDesign { refresh, ..ViewDesign::default() };
    let view = ViewNote { title: "All".into(), selection: "SELECT @All".into(), design, ..ViewNote::default() };
    let access = authorize_server(&database).expect("the server has access").downgrade::<level::Depositor>();
    let accesses = [&access];
    let mut transaction = instance.databases.transaction(&accesses).expect("a transaction");
    transaction.writer(0).view_create(&view).expect("a view");
    transaction.writer(0).note_create(NewNote::document(vec![Item::text("Form", "Memo")])).expect("a document");
    transaction.commit().expect("it is committed");
    database
}
