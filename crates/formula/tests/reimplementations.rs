//! Test cases published by open re-implementations of the language, reworded: their inputs and results.
//!
//! The sources are OpenNTF/org.openntf.domino (the test runners and the notes on differences in its function classes),
//! HCL-TECH-SOFTWARE/domino-jnx (`TestFormulaCompiler`) and klehmann/domino-jna (`TestFormulaExecution`). Where the
//! result differs here, the case states the reason.

use formula::parser::parse;
use formula::print::print;
use formula::{Formula, FormulaOptions};

use crate::fixture::{check, evaluate, write};

#[test]
fn cases_of_the_openntf_engine_pass() {
    let steps = "t := {start}; @For(i := 1; i != 10; i := i + 1; t := t : @If(i = 1; {one}; i <= 3; {two or three}; {four or more})); t";
    let expected = "\"start\" : \"one\" : \"two or three\" : \"two or three\" : \"four or more\" : \"four or more\" : \
                    \"four or more\" : \"four or more\" : \"four or more\" : \"four or more\"";
    check(
        "",
        &[
            (steps, expected),
            ("x := 1:2 *+ 32:64:1; @Elements(x ** x)", "36"),
            (
                "@Transform((1:2:3) *+ (0:3:6:9); {x}; x * x)",
                "1 : 16 : 49 : 100 : 4 : 25 : 64 : 121 : 9 : 36 : 81 : 144",
            ),
            ("\"ab\\n\\x\\\"xyzz\"", "\"abnx\\\"xyzz\""),
            ("@Time(1800; 2; 3; 4; 15; 18)", "[02/03/1800 04:15:18 AM]"),
            ("@Replace(\"a\":\"b\"; \"a\":\"b\"; \"A\")", "\"A\" : \"\""),
            ("@ReplaceSubstring(\"a\":\"b\"; \"a\":\"b\"; \"A\")", "\"A\" : \"A\""),
            ("@Select(-11; 1; 2; 4)", "1"),
            ("@Trim(\" a\tb \")", "\"a\\tb\""),
            // That implementation trims tabs, although Domino does not, as its authors note. The result here is
            // Domino's.
            ("@Trim(\"\ta\")", "\"\\ta\""),
            // Domino returns 1, an error and 2. Here a list that contains an error is an error.
            ("@IsError(@TextToNumber(\"1\":\"a\":\"2\"))", "1"),
            // Domino is said to return 0 and to report the error only when the value is used. Here the error is
            // reported at once.
            ("@IsError(@TextToTime(\"Nonsense\"))", "1"),
            ("@Modulo(-14; 3)", "-2"),
            // In that implementation a division by zero returns infinity.
            ("@IsError(@Modulo(1; 0))", "1"),
            ("@Middle(\"abc\"; 1; -5)", "\"a\""),
            // In that implementation the maximum of a list without elements above 0 is above 0.
            ("@Max((-5):(-7))", "-5"),
            // In that implementation 3 arguments return neither a date nor a time. According to Domino's documentation
            // they return a time.
            ("@Time(14; 26; 0)", "[02:26:00 PM]"),
            // That implementation treats 4 and 5 arguments like 3. Domino has a message for this error.
            ("@IsError(@Date(2024; 1; 1; 10))", "1"),
            ("!!!!!1 = 1", "0"),
            ("@IfError(@Error; \"\")", "\"\""),
        ],
    );
}

#[test]
fn example_formula_extracts_a_name_from_an_address() {
    let formula = "REM {Begin_Do_Not_Tag};\r\n\r\nSenderName := @If(SendTo = \"\"; EnterSendTo; SendTo);\r\n\
        Send := @Subset(SenderName; 1);\r\nCN1 := @Trim(@Name([CN]; Send));\r\n\
        CN := @If(@Contains(@Right(Send; \"@\"); \">\") & CN1 = \"\"; @Trim(Send); CN1);\r\n\
        G := @If(CN = \"\"; @Name([G]; @Subset(SenderName; 1)); \"\");\r\nS := @If(CN = \"\"; @Name([S]; @Subset(SenderName; 1)); \"\");\r\n\
        Person := @If(CN != \"\"; CN; G + \" \" + S);\r\n\
        @If(@Left(Person; 1) = \"\\\"\" & @Right(Person; 1) = \"\\\"\"; @LeftBack(@RightBack(Person; 1); 1); Person);\r\nREM {End_Do_Not_Tag};";
    check("SendTo=CN=Ann Smith/O=Acme ~ CN=Bob/O=Acme", &[(formula, "\"Ann Smith\"")]);
    check("EnterSendTo=\"Ann\"", &[(formula, "\"Ann\"")]);
    let compiled = Formula::compile(formula, &FormulaOptions::default()).expect("it compiles");
    assert_eq!(compiled.analysis().items().collect::<Vec<_>>(), ["SendTo", "EnterSendTo"]);
}

#[test]
fn parsed_formulas_print_unchanged() {
    for source in ["Hello", "Index > 1"] {
        assert_eq!(print(&parse(source).expect("it parses")), source);
    }
}

#[test]
fn example_executions_have_their_results() {
    let formula = "FIELD anumber := 534; FIELD curruser := @UserName; \"XYZ\"";
    evaluate(formula, "", |outcome| {
        assert_eq!(write(&outcome.value), "\"XYZ\"");
        let changes: Vec<_> =
            outcome.changes.iter().map(|change| (change.name.as_str(), change.value.clone())).collect();
        assert_eq!(changes[0], ("anumber", Some(534.0.into())));
        assert_eq!(changes[1], ("curruser", Some("CN=Ann Smith/OU=Sales/O=Acme".into())));
    });
    assert!(evaluate("SELECT anumber = 534", "anumber=#534", |outcome| outcome.selected));
    assert!(evaluate("@DeleteDocument", "", |outcome| outcome.deletion.is_some()));
}

#[test]
fn results_may_exceed_64_kib() {
    let document = format!("field1={0} | field2={0} | field3={0}", "x".repeat(30_000));
    let length = evaluate("field1 : field2 : field3", &document, |outcome| {
        outcome.value.texts().map(|texts| texts.iter().map(|text| text.len()).sum::<usize>())
    });
    assert_eq!(length, Ok(90_000));
    // In Domino a single text is limited to 64 KiB; here it is not.
    let length = evaluate("@Length(field1 + field2 + field3)", &document, |outcome| outcome.value.number());
    assert_eq!(length, Ok(90_000.0));
}
