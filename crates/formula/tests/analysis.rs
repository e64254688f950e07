//! Tests of the static analysis of formulas.

use formula::{Formula, FormulaOptions};

fn facts(source: &str) -> String {
    let formula = Formula::compile(source, &FormulaOptions::default()).expect("it compiles");
    let analysis = formula.analysis();
    let flags = [
        ("constant", analysis.is_constant()),
        ("time", analysis.is_time_variant()),
        ("clock", analysis.is_clock_variant()),
        ("siblings", analysis.uses_siblings()),
        ("descendants", analysis.uses_descendants()),
        ("selects", analysis.selects),
        ("computed", analysis.reads_computed),
        ("effects", analysis.has_effects()),
    ];
    flags.iter().filter(|(_, holds)| *holds).map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
}

#[test]
fn analysis_reports_attributes() {
    let cases = [
        ("123", "constant"),
        ("@DocSiblings", "constant siblings"),
        ("@DocDescendants", "constant descendants"),
        ("@Now", "time clock"),
        ("[Today]", "time"),
        ("[12/25]", "time"),
        ("[12/25/2024 10:00 EST]", "constant"),
        ("Form", ""),
        ("@Created", ""),
        ("@UserName", ""),
        ("SELECT @All", "constant selects"),
        ("SELECT Form = \"x\" & Due < @Today", "time selects"),
        ("x := 1; x + 1", "constant"),
        ("@Eval(\"a\")", "time clock computed"),
        ("@GetField(\"a\")", ""),
        ("@GetField(a)", "computed"),
        ("FIELD a := 1; 0", "constant effects"),
        ("@DeleteDocument", "effects"),
        ("@Text([1/1/2024])", "constant"),
    ];
    for (source, expected) in cases {
        assert_eq!(facts(source), expected, "{source}");
    }
}

#[test]
fn analysis_reports_items_read_and_written() {
    let cases = [
        ("SELECT Form = \"Memo\" & @Contains(subject; \"x\")", "Form subject", ""),
        ("x := Form; x + X", "Form", ""),
        ("@If(Form = \"a\"; x := 1; 0); x", "Form x", ""),
        ("FIELD Form := \"x\"; Form", "", "Form"),
        ("DEFAULT Colour := 1; Colour", "Colour", ""),
        ("@Author", "From $UpdatedBy", ""),
        ("SELECT @IsResponseDoc", "$REF", ""),
        ("@IsAvailable(Body)", "Body", ""),
        ("@GetField(\"a\") + @SetField(\"b\"; 1)", "a b", "b"),
        ("@Transform(List; \"x\"; x + y)", "List y", ""),
        ("@Sort(List; [CustomSort]; $A > $B)", "List", ""),
        ("@For(n := 1; n < 3; n := n + 1; m := m + n)", "m", ""),
    ];
    for (source, reads, writes) in cases {
        let formula = Formula::compile(source, &FormulaOptions::default()).expect("it compiles");
        let analysis = formula.analysis();
        let names =
            |slots: &[usize]| slots.iter().map(|slot| analysis.names[*slot].clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(
            (names(&analysis.reads), names(&analysis.writes)),
            (reads.to_owned(), writes.to_owned()),
            "{source}"
        );
        assert_eq!(analysis.items().collect::<Vec<_>>().join(" "), reads);
    }
}

#[test]
fn constant_expressions_are_folded() {
    let size =
        |source: &str| Formula::compile(source, &FormulaOptions::default()).expect("it compiles").program().code.len();
    assert_eq!(size("1 + 2 * 3"), size("7"));
    assert_eq!(size("@UpperCase(\"a\" + \"b\"):\"c\""), size("\"x\""));
    assert_eq!(size("[1/1/2024 - 1/2/2024]"), size("1"));
    assert!(size("1 / 0") > size("1"), "errors are left to the evaluation");
    assert!(size("@Repeat(\"abc\"; 5000)") > size("1"), "large results are left to the evaluation too");
    assert!(size("@Text(@Now)") > size("1"));
}
