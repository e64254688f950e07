//! Tests of the preparation: what is left out, and what is refused.

use super::*;
use crate::workload::shipped;

fn prepared(name: &str, edit: impl Fn(&mut RunOptions)) -> Result<PreparedRun, Refusal> {
    let mut options = RunOptions { users: Some(vec![10]), ..RunOptions::default() };
    edit(&mut options);
    prepare(&shipped::load(name).expect("shipped"), options)
}

fn refusal(name: &str, edit: impl Fn(&mut RunOptions)) -> String {
    match prepared(name, edit) {
        Ok(_) => panic!("{name} is played"),
        Err(refusal) => refusal.to_string(),
    }
}

#[test]
fn verbs_of_the_calendar_are_left_out_with_their_share() {
    let run = prepared("n8mail", |_| {}).expect("it can be played");
    let names: Vec<&str> = run.left_out.iter().map(|left_out| left_out.name.as_str()).collect();
    assert_eq!(names, ["invite", "accept"]);
    // One invitation and one answer of 7 transactions in the 199.05 of eight iterations.
    let shares: f64 = run.left_out.iter().filter_map(|left_out| left_out.share).sum();
    assert!((shares - 8.0 / 199.05).abs() < 1e-9, "{shares}");
    assert_eq!((run.settings.levels, run.mail_files.documents), (vec![10], 3_000));
}

#[test]
fn transactions_are_those_of_the_rates() {
    use crate::workload::rates::Rates;
    for (name, text) in shipped::FILES {
        let workload = check::check(text, &[]).expect("a shipped workload is valid");
        let sum: f64 = transactions_by_verb(&workload).values().sum();
        let Some(rates) = Rates::of_all(&workload) else { continue };
        assert!((sum - rates.transactions.to_f64()).abs() < 1e-6, "{name}: {sum}");
    }
}

#[test]
fn options_change_plan_and_population() {
    let run = prepared("n8mail", |options| {
        options.users = Some(vec![10, 20]);
        options.documents = Some(5);
        options.size_scale = 0.1;
        options.recipients = Some([1, 3]);
        options.speedup = 60.0;
    });
    let run = run.expect("it can be played");
    assert_eq!((run.plan.users(), run.settings.levels), (20, vec![10, 20]));
    assert_eq!((run.mail_files.documents, run.mail_files.size_scale), (5, 0.1));
    assert!(run.plan.recipients([1, 0, 0], 9, 9).iter().all(|user| (1..=3).contains(user)));
    assert_eq!(run.settings.lengths.measure(), Duration::from_secs(60));
}

#[test]
fn iterations_and_measured_interval_can_be_those_of_the_command_line() {
    let run = prepared("n8mail", |options| {
        options.iterations = Some(8);
        options.measure_us = Some(60_000_000);
    });
    let run = run.expect("it can be played");
    assert_eq!((run.plan.workload().iterations, run.settings.lengths.measure()), (8, Duration::from_secs(60)));
}

#[test]
fn local_replicas_are_played() {
    assert_eq!(prepared("entmail", |_| {}).expect("it can be played").left_out.len(), 4, "two verbs and two parts");
    assert_eq!(prepared("streamingreplication", |_| {}).expect("it can be played").left_out.len(), 0);
}

#[test]
fn databases_can_have_fewer_documents_than_the_workload_states() {
    let run = prepared("shareddatabase", |options| options.database_documents = Some(120)).expect("it can be played");
    let kind = &run.databases.kinds[0];
    assert_eq!((kind.database.documents, kind.documents_stated, kind.database.count), (120, 1_000, 25));
    assert_eq!(run.plan.workload().databases[0].documents, 120);
}

#[test]
fn users_of_fixed_classes_are_in_addition() {
    let text = "format = 1\nname = \"Fixed\"\ntitle = \"Fixed\"\niteration = \"1 min\"\n\
                [[class]]\nname = \"a\"\nstep = [{ verb = \"poll\" }]\n\
                [[class]]\nname = \"b\"\nusers = 2\nstep = [{ verb = \"read\" }]\n";
    let run = prepare(text, RunOptions { users: Some(vec![3]), ..RunOptions::default() });
    assert_eq!(run.expect("it can be played").settings.levels, [5]);
    let levels = prepare(text, RunOptions { users: Some(vec![3, 4]), ..RunOptions::default() });
    assert!(levels.expect_err("two levels").to_string().contains("has one level"));
}

#[test]
fn what_cannot_be_played_is_refused_with_the_reason() {
    let same = |_: &mut RunOptions| {};
    assert!(refusal("dwa8", same).contains("the door full does not exist yet"));
    assert!(refusal("n8mail", |options| options.users = Some(vec![5, 5])).contains("ascending"));
    assert!(refusal("n8mail", |options| options.users = Some(Vec::new())).contains("--users"));
    assert!(refusal("n8mail", |options| options.users = Some(vec![200_001])).contains("at most 200000"));
    assert!(refusal("n8mail", |options| options.speedup = 0.0).contains("--speedup"));
    assert!(refusal("n8mail", |options| options.speedup = 4_000.0).contains("1.2 s"));
    assert!(refusal("n8mail", |options| options.size_scale = 1.5).contains("--size-scale"));
    assert!(refusal("n8mail", |options| options.recipients = Some([11, 12])).contains("recipients"));
    assert!(refusal("n8mail", |options| options.set = vec!["no=1".to_owned()]).contains("not valid"));
}

#[test]
fn users_are_divided_between_servers() {
    let run = |servers: u64| {
        let prepared = prepared("n8mail", |options| {
            options.users = Some(vec![6]);
            options.masters = Some(2);
            options.servers = servers;
        });
        prepared.expect("it can be played")
    };
    assert_eq!((run(1).recipe().servers, run(2).recipe().servers), (1, 2));
    assert!(run(2).has_population_of(&run(2)) && !run(2).has_population_of(&run(1)));
}

#[test]
fn what_several_servers_cannot_have_is_refused() {
    let check = |workload: &str, change: fn(&mut RunOptions), expected: &str| {
        let refusal = refusal(workload, |options| {
            options.servers = 2;
            change(options);
        });
        assert_eq!(refusal, format!("--servers: {expected}"));
    };
    check("n8mail", |options| options.servers = 9, "not a number from 1 to 8");
    check("n8mail", |options| options.users = Some(vec![1]), "1 users cannot be divided between 2 servers");
    check("shareddatabase", |_| {}, "the workload has databases besides mail files, which are on one server");
    check("n8mail", |options| options.parts = 2, "a run of several parts has one server");
    let shared = "users of different servers share no connection (--users-per-connection)";
    check("n8mail", |options| options.users_per_connection = 2, shared);
    let refusal = refusal("n8mail", |options| {
        options.servers = 2;
        options.masters = Some(3);
    });
    assert_eq!(refusal, "--masters: not a multiple of --servers, because a server copies its own mail files");
}

#[test]
fn verbs_that_the_target_does_not_have_are_left_out() {
    let run = prepared("n8mail", |_| {}).expect("it can be played");
    let missing = [(Verb::Lookup, "no principals"), (Verb::Invite, "left out already"), (Verb::Pull, "not used")];
    let without = run.without(&missing);
    let names: Vec<&str> = without.left_out.iter().map(|left_out| left_out.name.as_str()).collect();
    assert_eq!(names, ["lookup", "invite", "accept"]);
    assert_eq!((&*without.left_out[0].reason, without.left_out[0].share > Some(0.0)), ("no principals", true));
    assert!(!without.offered.has(Verb::Lookup) && without.offered.has(Verb::Read));
    assert_eq!(run.without(&[]).left_out, run.left_out);
}

#[test]
fn random_senders_are_refused() {
    let text = "format = 1\nname = \"Fill\"\ntitle = \"Fill\"\npace = \"unpaced\"\n\
                step = [{ verb = \"send\", to = \"self\", from = \"random\" }]\n";
    for door in [Door::Native, Door::Jmap, Door::Lite] {
        let options = RunOptions { door: Some(door), ..RunOptions::default() };
        let refused = prepare(text, options).expect_err("no such door").to_string();
        assert!(refused.contains("in the name of another user"), "{refused}");
    }
    for door in [Door::Imap, Door::Pop3] {
        let options = RunOptions { door: Some(door), ..RunOptions::default() };
        assert_eq!(prepare(text, options).expect("LMTP").plan.workload().door, door);
    }
}

#[test]
fn views_other_than_the_inbox_are_refused_over_pop3() {
    let prepare = |view: &str| {
        let text = format!(
            "format = 1\nname = \"Fetch\"\ntitle = \"Fetch\"\ndoor = \"pop3\"\npace = \"unpaced\"\n\
             step = [{{ verb = \"open_view\"{view} }}, {{ verb = \"wait\" }}]\n"
        );
        super::prepare(&text, RunOptions::default()).map(|run| run.left_out).map_err(|refusal| refusal.to_string())
    };
    for view in ["", ", view = \"Inbox\"", ", view = \"($Inbox)\""] {
        let left_out = prepare(view).expect("the inbox");
        assert_eq!((&*left_out[0].name, &*left_out[0].reason), ("wait", "POP3 does not report new mail"));
    }
    let refused = prepare(", view = \"Archive\"").expect_err("another view");
    assert!(refused.contains("no other view than the inbox"), "{refused}");
}
