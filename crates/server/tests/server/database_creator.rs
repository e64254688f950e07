//! Tests of the creation of databases over the native protocol: who may create them, where, and with which rights.

use std::sync::Arc;

use notes::{AclLevel, AuthenticationMethod, Identity};
use rpc::backend::{CreateDatabaseError, DatabaseCreator};
use sample::Sample;
use server::database_creator::TemplateDatabaseCreator;

/// Creates a server on which the given creators may create databases.
fn creator(creators: &str) -> (TemplateDatabaseCreator, Arc<instance::Instance>, tempfile::TempDir) {
    let Sample { instance, folder } = Sample::with(&[&format!("native.database_creators={creators}")]);
    let instance = Arc::new(instance);
    (TemplateDatabaseCreator::new(&instance), instance, folder)
}

/// Returns the identity of a user after a login with a password.
fn user(instance: &instance::Instance, login: &str) -> Arc<Identity> {
    let person = instance.directory.person(login).expect("a sound store").expect("the user exists");
    instance.directory.identity(&person).expect("a sound store")
}

/// Returns `created`, or the reason why the database is not created.
fn outcome(creator: &TemplateDatabaseCreator, identity: &Identity, path: &str, title: &str, template: &str) -> String {
    match creator.create(identity, path, title, template) {
        Ok(database) => format!("created {}", database.path()),
        Err(CreateDatabaseError::NotAllowed) => "not allowed".to_owned(),
        Err(CreateDatabaseError::NoTemplate) => "no template".to_owned(),
        Err(CreateDatabaseError::Refused(reason)) => reason,
        Err(CreateDatabaseError::Directory(error)) => error.to_string(),
    }
}

#[test]
fn creators_are_users_groups_and_wildcards() {
    for (creators, may_ann, may_bob) in [
        ("", false, false),
        ("ann", true, false),
        ("ANN@acme.test", true, false),
        ("CN=ann/O=acme.test", true, false),
        ("nobody, bob ,", false, true),
        ("team", true, true),
        ("team@acme.test", true, true),
        ("*/acme.test", true, true),
        ("*/elsewhere.test", false, false),
        ("dora@elsewhere.test", false, false),
    ] {
        let (creator, instance, _folder) = creator(creators);
        for (who, may) in [("ann", may_ann), ("bob", may_bob)] {
            let path = format!("{who}s.nsf");
            let expected = if may { format!("created {path}") } else { "not allowed".to_owned() };
            assert_eq!(outcome(&creator, &user(&instance, who), &path, "", ""), expected, "{creators:?}");
            assert_eq!(instance.databases.database_open(&path).is_ok(), may, "{creators:?}");
        }
    }
}

#[test]
fn creator_is_manager_and_others_have_no_access() {
    let (creator, instance, _folder) = creator("ann");
    let ann = user(&instance, "ann");
    let database = creator.create(&ann, "plans.nsf", "Plans", "").expect("Ann may create databases");
    assert_eq!(database.record().title, "Plans");
    let access = database.authorize::<notes::level::Reader>(&ann).expect("the creator has access");
    let acl = access.read().expect("a sound store").acl().as_ref().clone();
    assert_eq!(acl.evaluate(&ann).level, AclLevel::Manager, "also with a password");
    assert_eq!(acl.evaluate(&user(&instance, "bob")).level, AclLevel::NoAccess);
    let stranger = Identity::person("Nobody").authenticated(AuthenticationMethod::Password);
    assert_eq!(acl.evaluate(&stranger).level, AclLevel::NoAccess);
}

#[test]
fn paths_titles_and_templates_are_checked() {
    let (creator, instance, _folder) = creator("ann");
    let ann = user(&instance, "ann");
    let check = |path: &str, title: &str, template: &str, expected: &str| {
        let found = outcome(&creator, &ann, path, title, template);
        assert!(found.contains(expected), "{path} {title} {template}: {found}");
    };
    check("mail/dora.nsf", "", "", "mail/ is reserved for mail files, which are created together with their users");
    check("MAIL/dora.nsf", "", "", "mail/ is reserved");
    check("docs.nsf", "", "nothing of this name", "no template");
    check("docs.nsf", "a\nb", "", "title");
    check("docs.nsf", "", "", "created docs.nsf");
    check("docs.nsf", "", "", "docs.nsf");
    for path in ["names.nsf", "mail.box", "Mail3.box", "log.nsf", "plans/x.box"] {
        check(path, "", "", &format!("database path {path:?}: the name is reserved for the server"));
    }
    assert!(instance.databases.database_open("mail3.box").is_err());
    assert!(instance.databases.database_open("mail/dora.nsf").is_err());
}

#[test]
fn database_gets_design_and_title_of_its_template() {
    let (creator, instance, _folder) = creator("ann");
    let ann = user(&instance, "ann");
    let templates = creator.templates();
    assert!(!templates.is_empty() && templates.is_sorted_by(|one, other| one.name < other.name), "names are unique");
    for template in templates {
        let path = format!("new-{}.nsf", template.name);
        let database = creator.create(&ann, &path, "", &template.name).expect("the template is valid");
        assert_eq!(database.record().title, template.title, "{path}");
        let access = database.authorize::<notes::level::Reader>(&ann).expect("the creator has access");
        assert!(!access.read().expect("a sound store").views().expect("a sound store").is_empty(), "{path}");
    }
    let named = creator.create(&ann, "named.nsf", "Own title", &creator.templates()[0].name).expect("it is valid");
    assert_eq!(named.record().title, "Own title");
}
