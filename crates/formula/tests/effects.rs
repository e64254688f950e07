//! Tests of the effects that an evaluation requests: selection, deletion, changes and others.

use formula::outcome::{DeletionRequest, SelectedResponses, SideEffect};
use formula::{EvaluationOutcome, Value};

use crate::fixture::{evaluate, write};

#[test]
fn select_determines_the_selection() {
    let selected = |formula: &str, document: &str| evaluate(formula, document, |outcome| outcome.selected);
    assert!(selected("SELECT Form = \"Memo\"", "Form=Memo"));
    assert!(!selected("SELECT Form = \"Memo\"", "Form=Reply"));
    assert!(selected("SELECT @All", ""));
    assert!(selected("Form = \"MatchForm\"", "Form=MatchForm"), "without SELECT, the value decides");
    assert!(!selected("\"text\"", ""));
    assert!(!selected("SELECT @Error", ""));
    assert!(!selected("SELECT Form", "Form=Memo"), "a text is not true");
    assert!(selected("SELECT 1; 0", ""), "later statements do not change the selection");
    assert!(selected("SELECT 0:1", ""));
}

#[test]
fn selection_reports_included_responses() {
    let responses = |formula: &str| evaluate(formula, "Form=Topic", |outcome| (outcome.selected, outcome.responses));
    assert_eq!(responses("SELECT Form = \"Topic\""), (true, SelectedResponses::None));
    assert_eq!(responses("SELECT Form = \"Topic\" | @AllChildren"), (true, SelectedResponses::Children));
    assert_eq!(responses("SELECT Form = \"Topic\" | @AllDescendants"), (true, SelectedResponses::Descendants));
    assert_eq!(
        responses("SELECT Form = \"Other\" | @AllDescendants | @AllChildren"),
        (false, SelectedResponses::Descendants)
    );
}

#[test]
fn deletion_functions_report_a_request() {
    let deletion = |formula: &str| evaluate(formula, "Form=Memo", |outcome| outcome.deletion);
    assert_eq!(deletion("@DeleteDocument"), Some(DeletionRequest::Delete));
    assert_eq!(deletion("@HardDeleteDocument"), Some(DeletionRequest::HardDelete));
    assert_eq!(deletion("@UndeleteDocument"), Some(DeletionRequest::Undelete));
    assert_eq!(deletion("@If(Form = \"Reply\"; @DeleteDocument; 0)"), None);
    assert_eq!(deletion("@Eval(\"@DeleteDocument\")"), Some(DeletionRequest::Delete));
}

fn changes(outcome: &EvaluationOutcome<'_>) -> Vec<String> {
    let written = |value: Option<&Value<'_>>| value.map_or("gone".to_owned(), write);
    outcome.changes.iter().map(|change| format!("{}={}", change.name, written(change.value.as_ref()))).collect()
}

#[test]
fn field_assignments_report_changes() {
    let changed = |formula: &str| evaluate(formula, "Form=Memo", changes);
    assert_eq!(changed("FIELD a := 1; 0"), ["a=1"]);
    assert_eq!(changed("FIELD a := 1; FIELD b := a + 1; FIELD A := 5; 0"), ["a=5", "b=2"]);
    assert_eq!(changed("FIELD Form := @DeleteField; 0"), ["Form=gone"]);
    assert_eq!(changed("@SetField(\"x\" + \"y\"; 1:2); 0"), ["xy=1 : 2"]);
    assert_eq!(changed("@SetField(\"x\"; 1); @SetField(\"y\"; @GetField(\"X\") + 1)"), ["x=1", "y=2"]);
    assert_eq!(changed("@SetField(\"Form\"; \"x\"); FIELD b := Form; 0"), ["Form=\"x\"", "b=\"x\""]);
    assert_eq!(changed("@Eval(\"FIELD a := 1; 0\"); FIELD b := 2; 0"), ["a=1", "b=2"]);
    assert_eq!(changed("FIELD a := 1; @Eval(\"FIELD b := a; 0\"); 0"), ["a=1", "b=1"]);
    assert_eq!(changed("x := 1; DEFAULT y := 2; x + y"), Vec::<String>::new());
    assert_eq!(changed("@If(0; FIELD a := 1; \"\")"), Vec::<String>::new());
    assert_eq!(changed("FIELD a := 1; FIELD b := @Error; FIELD c := 3; 0"), ["a=1"], "an error ends the evaluation");
    assert_eq!(evaluate("FIELD b := @Error; 0", "", |o| write(&o.value)), "error: ERROR specified in formula");
}

#[test]
fn other_side_effects_are_reported() {
    let effects = |formula: &str| evaluate(formula, "", |outcome| outcome.effects.clone());
    let text = |text: &str| Value::from(text.to_owned());
    let environment = |value: &str| SideEffect::Environment { name: "a".to_owned(), value: value.to_owned() };
    assert_eq!(effects("ENVIRONMENT a := \"1\"; 0"), [environment("1")]);
    assert_eq!(effects("@SetEnvironment(\"a\"; 5)"), [environment("5")]);
    assert_eq!(effects("@Environment(\"a\"; \"x\":\"y\")"), [environment("x")]);
    assert_eq!(effects("ENVIRONMENT a := 7:8; 0"), [environment("7")]);
    assert_eq!(effects("@SetEnvironment(\"a\":\"a\"; 5)"), [environment("5"), environment("5")]);
    assert_eq!(
        effects("@AddToFolder(\"Done\"; \"Inbox\")"),
        [SideEffect::Folder { add: "Done".to_owned(), remove: "Inbox".to_owned() }]
    );
    assert_eq!(effects("@MailSend"), [SideEffect::Mail { arguments: vec![] }]);
    let arguments = vec![text("ann"), text(""), text(""), text("Hi")];
    assert_eq!(effects("@MailSend(\"ann\"; \"\"; \"\"; \"Hi\")"), [SideEffect::Mail { arguments }]);
    assert_eq!(
        effects("@Command([ToolsRunMacro]; \"Clean\")"),
        [SideEffect::Command { name: "ToolsRunMacro".to_owned(), arguments: vec![text("Clean")] }]
    );
    let unid = "00000000000000000000000000000001";
    assert_eq!(
        effects(&format!("@SetDocField(\"{unid}\"; \"f\"; 1)")),
        [SideEffect::DocumentField {
            unid: unid.parse().expect("32 digits"),
            name: "f".to_owned(),
            value: Value::Number(1.0)
        }]
    );
    assert_eq!(effects("@SetProfileField(\"P\"; \"f\"; 1; \"Ann\")").len(), 1);
    assert_eq!(effects("@Command([EditClear])"), []);
}
