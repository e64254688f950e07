//! Tests of the rights that ACLs grant, and of the validity of ACLs.

use super::*;

fn acl(lines: &[(&str, AclLevel)]) -> Acl {
    Acl { entries: lines.iter().map(|(name, level)| AclEntry::new(*name, *level)).collect(), ..Acl::default() }
}

fn ann(groups: &[&str]) -> Identity {
    Identity { groups: groups.iter().map(|name| Name::new(name)).collect(), ..Identity::person("Ann/Sales/Acme") }
}

#[test]
fn most_specific_entry_decides() {
    use AclLevel::{Author, Editor, NoAccess, Reader};
    let check = |lines: &[(&str, AclLevel)], groups: &[&str], expected: AclLevel| {
        assert_eq!(acl(lines).evaluate(&ann(groups)).level, expected, "{lines:?} {groups:?}");
    };
    check(&[("-Default-", Reader)], &[], Reader);
    check(&[], &[], NoAccess);
    check(&[("-Default-", Reader), ("Ann/Sales/Acme", NoAccess), ("Staff", Editor)], &["Staff"], NoAccess);
    check(&[("-Default-", Reader), ("Staff", Author), ("*/Sales/Acme", Editor)], &["Staff"], Editor);
    check(&[("-Default-", Editor), ("*/Research/Acme", Reader)], &[], Editor);
    check(&[("-Default-", Editor), ("*/Sales/Acme", Reader)], &[], Reader);
}

#[test]
fn anonymous_has_its_own_entry_or_the_default() {
    let with = acl(&[("-Default-", AclLevel::Editor), ("Anonymous", AclLevel::NoAccess)]);
    assert_eq!(with.evaluate(&Identity::anonymous()).level, AclLevel::NoAccess);
    let without = acl(&[("-Default-", AclLevel::Reader)]);
    assert_eq!(without.evaluate(&Identity::anonymous()).level, AclLevel::Reader);
}

#[test]
fn person_entry_does_not_apply_to_a_server() {
    let mut list = acl(&[("-Default-", AclLevel::NoAccess), ("Ann/Sales/Acme", AclLevel::Editor)]);
    list.entries[1].kind = AclKind::Server;
    assert_eq!(list.evaluate(&ann(&[])).level, AclLevel::NoAccess);
}

#[test]
fn forbidding_flags_apply_only_if_all_groups_have_them() {
    let mut list = acl(&[("Staff", AclLevel::Editor), ("Board", AclLevel::Editor)]);
    list.entries[0].flags = AclFlags::NO_DELETE.union(AclFlags::CREATE_FOLDER);
    let flags = |groups: &[&str]| {
        list.evaluate(&ann(groups)).flags.difference(AclFlags::PUBLIC_READER).difference(AclFlags::PUBLIC_WRITER)
    };
    assert_eq!(flags(&["Staff"]), AclFlags::NO_DELETE.union(AclFlags::CREATE_FOLDER));
    assert_eq!(flags(&["Staff", "Board"]), AclFlags::CREATE_FOLDER);
}

#[test]
fn roles_of_all_entries_are_combined() {
    let mut list = acl(&[("Staff", AclLevel::Reader), ("Ann/Sales/Acme", AclLevel::Editor)]);
    list.entries[0].roles.insert("[A]".into());
    list.entries[1].roles.insert("[B]".into());
    let roles: Vec<_> = list.evaluate(&ann(&["Staff"])).roles.into_iter().collect();
    assert_eq!(roles, ["[A]", "[B]"]);
}

#[test]
fn the_stored_form_reads_back() {
    let mut list = acl(&[("-Default-", AclLevel::Reader), ("Ann/Sales/Acme", AclLevel::Manager)]);
    list.enforce_consistent = true;
    list.roles.insert("[X]".into());
    list.entries[1].roles.insert("[X]".into());
    assert_eq!(Acl::decode(&list.encode()), Ok(list.clone()));
    let bytes = list.encode();
    assert!((0..bytes.len()).all(|length| Acl::decode(&bytes[..length]).is_err()));
}

#[test]
fn a_name_may_not_occur_twice() {
    assert!(acl(&[("A", AclLevel::Reader), ("a", AclLevel::Editor)]).check().is_err());
}

#[test]
fn entry_applies_only_to_its_user_type() {
    use AclKind::{MixedGroup, Person, PersonGroup, Server, ServerGroup, Unspecified};
    let check = |name: &str, kind: AclKind, server: bool, expected: bool| {
        let mut list = acl(&[("-Default-", AclLevel::NoAccess), (name, AclLevel::Reader)]);
        list.entries[1].kind = kind;
        let who = Identity { server, ..ann(&["Staff"]) };
        assert_eq!(list.evaluate(&who).level == AclLevel::Reader, expected, "{name} {kind:?} server: {server}");
    };
    for (kind, as_person, as_server) in
        [(Unspecified, true, true), (Person, true, false), (Server, false, true), (PersonGroup, false, false)]
    {
        check("Ann/Sales/Acme", kind, false, as_person);
        check("Ann/Sales/Acme", kind, true, as_server);
    }
    for (kind, as_person, as_server) in [
        (Unspecified, true, true),
        (MixedGroup, true, true),
        (PersonGroup, true, false),
        (ServerGroup, false, true),
        (Person, false, false),
        (Server, false, false),
    ] {
        check("Staff", kind, false, as_person);
        check("Staff", kind, true, as_server);
    }
    check("*/Sales/Acme", PersonGroup, false, true);
    check("*/Sales/Acme", Person, false, true);
    check("*/Sales/Acme", ServerGroup, false, false);
    check("*", Unspecified, false, true);
}

#[test]
fn flags_apply_only_at_their_levels() {
    let all = AclFlags(0x069d);
    let check = |level: AclLevel, flags: AclFlags, expected: AclFlags| {
        let mut list = acl(&[("Ann/Sales/Acme", level)]);
        list.entries[0].flags = flags;
        assert_eq!(list.evaluate(&ann(&[])).flags, expected, "{level}");
    };
    let public = AclFlags::PUBLIC_READER.union(AclFlags::PUBLIC_WRITER);
    check(AclLevel::NoAccess, all, public);
    check(AclLevel::Depositor, all, public);
    check(AclLevel::Reader, all, AclFlags(0x0618));
    check(AclLevel::Author, all, AclFlags(0x061d));
    check(AclLevel::Editor, all, AclFlags(0x069c));
    check(AclLevel::Designer, all, AclFlags(0x069c));
    check(AclLevel::Manager, all, AclFlags(0x069c));
    check(AclLevel::NoAccess, AclFlags::NONE, AclFlags::NONE);
    check(AclLevel::Reader, AclFlags::NONE, AclFlags::PUBLIC_READER);
    check(AclLevel::Editor, AclFlags::NONE, public);
    check(AclLevel::Manager, AclFlags::NONE, AclFlags(0x0698));
    check(AclLevel::Manager, AclFlags::NO_DELETE, AclFlags(0x069c));
}

#[test]
fn password_logins_are_capped_at_the_maximum_level() {
    use AclLevel::{Depositor, Editor, Manager, NoAccess, Reader};
    let check = |has: AclLevel, max: AclLevel, expected: AclLevel, makes_folders: bool| {
        let list = Acl { max_internet_access: max, ..acl(&[("Ann/Sales/Acme", has)]) };
        let by_key = list.evaluate(&ann(&[]));
        let by_password = list.evaluate(&ann(&[]).authenticated(AuthenticationMethod::Password));
        assert_eq!((by_key.level, by_password.level), (has, expected), "{has} at most {max}");
        assert_eq!(by_password.flags.contains(AclFlags::CREATE_FOLDER), makes_folders, "{has} at most {max}");
    };
    check(Manager, Manager, Manager, true);
    check(Manager, Editor, Editor, true);
    check(Editor, Editor, Editor, false);
    check(Reader, Editor, Reader, false);
    check(Manager, Reader, Reader, false);
    check(Manager, NoAccess, NoAccess, false);
    let open = Acl { max_internet_access: Depositor, ..acl(&[("-Default-", Manager)]) };
    assert_eq!(open.evaluate(&Identity::anonymous()).level, Depositor);
    assert_eq!(open.evaluate(&Identity::local_server("hub")).level, Manager);
    assert_eq!(Acl::default().max_internet_access, Editor);
}

#[test]
fn capped_password_login_loses_public_access() {
    let flags = |list: &Acl| list.evaluate(&ann(&[]).authenticated(AuthenticationMethod::Password)).flags;
    let mut list = Acl { max_internet_access: AclLevel::Depositor, ..acl(&[("Ann/Sales/Acme", AclLevel::Manager)]) };
    assert_eq!(flags(&list), AclFlags::NONE);
    list.entries[0] =
        AclEntry { flags: AclFlags::PUBLIC_READER, ..AclEntry::new("Ann/Sales/Acme", AclLevel::NoAccess) };
    assert_eq!(flags(&list), AclFlags::PUBLIC_READER, "a login below the maximum keeps the flags of its entry");
    list.max_internet_access = AclLevel::NoAccess;
    assert_eq!(flags(&list), AclFlags::NONE);
}

#[test]
fn enforced_acl_applies_to_local_tools() {
    let mut list = acl(&[("-Default-", AclLevel::NoAccess), ("hub/Acme", AclLevel::Reader)]);
    let level = |list: &Acl, who: Identity| list.evaluate(&who).level;
    assert_eq!(level(&list, Identity::local_tool("hub/Acme")), AclLevel::Manager);
    list.enforce_consistent = true;
    assert_eq!(level(&list, Identity::local_tool("hub/Acme")), AclLevel::Reader);
    assert_eq!(level(&list, Identity::local_tool("spoke/Acme")), AclLevel::NoAccess);
    assert_eq!(level(&list, Identity::local_server("hub/Acme")), AclLevel::Manager, "delivery and indexing continue");
}

#[test]
fn the_stored_form_of_version_1_is_read() {
    let list = Acl { enforce_consistent: true, ..acl(&[("-Default-", AclLevel::Reader)]) };
    let mut bytes = list.encode();
    assert_eq!((bytes[0], bytes.remove(2)), (2, AclLevel::Editor as u8));
    bytes[0] = 1;
    assert_eq!(Acl::decode(&bytes), Ok(list));
}

#[test]
fn invalid_acls_are_refused() {
    let check = |change: &dyn Fn(&mut Acl), expected: Option<&str>| {
        let mut list = acl(&[("-Default-", AclLevel::NoAccess), ("Ann/Sales/Acme", AclLevel::Manager)]);
        change(&mut list);
        match (list.check(), expected) {
            (Ok(()), None) => {}
            (Err(error), Some(text)) => assert!(error.to_string().contains(text), "{error}"),
            (outcome, _) => panic!("{outcome:?} instead of {expected:?}"),
        }
    };
    let role = |name: &'static str| {
        move |list: &mut Acl| {
            list.roles.insert(name.to_owned());
        }
    };
    let named = |name: &'static str| move |list: &mut Acl| list.entries.push(AclEntry::new(name, AclLevel::Reader));
    check(&|_| {}, None);
    check(&role("[HRStaff]"), None);
    check(&role("[Sixteen bytes ok]"), None);
    check(&role("[Seventeen bytes x]"), Some("at most 16 bytes"));
    check(&role("HRStaff"), Some("brackets"));
    check(&role("[]"), Some("brackets"));
    check(&role("[a]b]"), Some("brackets"));
    check(&role("[ a]"), Some("brackets"));
    let twice = |list: &mut Acl| list.roles.extend(["[A]".to_owned(), "[a]".to_owned()]);
    check(&twice, Some("occurs twice; upper and lower case are not distinguished"));
    let unknown = |list: &mut Acl| list.entries[1].roles.extend(["[A]".to_owned()]);
    check(&unknown, Some("the database has no such role"));
    check(&named("*/Sales/Acme"), None);
    check(&named("*"), None);
    check(&named("*@acme.test"), None);
    check(&named("*Acme"), Some("wildcard"));
    check(&named("*/"), Some("wildcard"));
    check(&named("Ann*/Acme"), Some("wildcard"));
    check(&named("**/Acme"), Some("wildcard"));
    check(&named("Ann\u{7}"), Some("control characters"));
    check(&named(""), Some("is empty, too long or contains control characters"));
    check(&named("ANN/sales/ACME"), Some("occurs twice"));
    check(&|list| list.entries[0].kind = AclKind::Person, Some("cannot have a user type"));
    check(&|list| list.entries.extend(vec![AclEntry::new("x", AclLevel::Reader); 10_000]), Some("at most"));
}
