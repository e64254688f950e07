//! Tests of messages and positions of errors, refused formulas and limits.

use std::cell::Cell;

use base::Timestamp;
use formula::{BudgetExceeded, Formula, FormulaOptions, Host, Limits, Permissions};

use crate::fixture::{LineDocument, Server, evaluate};

fn refused(source: &str) -> String {
    match Formula::compile(source, &FormulaOptions::default()) {
        Ok(_) => format!("{source} is not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn errors_have_message_and_position() {
    let cases = [
        ("", "line 1, column 1: No formula specified"),
        (" ;; ", "line 1, column 5: No formula specified"),
        ("x := 1", "line 1, column 1: No main or selection expression in formula"),
        ("REM \"only\"", "line 1, column 1: No main or selection expression in formula"),
        ("1 +", "line 1, column 4: A value expected, the end of the formula found"),
        ("1 2", "line 1, column 3: An operator or semicolon expected, the number 2 found"),
        ("\"abc", "line 1, column 1: End of formula reached before end of quoted string, date/time or array accessor"),
        (
            "1;\n  {abc",
            "line 2, column 3: End of formula reached before end of quoted string, date/time or array accessor",
        ),
        ("[CN", "line 1, column 1: End of formula reached before end of quoted string, date/time or array accessor"),
        ("(1", "line 1, column 3: A right parenthesis expected, the end of the formula found"),
        ("1)", "line 1, column 2: An operator or semicolon expected, ) found"),
        ("a # b", "line 1, column 3: Unexpected character '#'"),
        ("1,5", "line 1, column 2: Unexpected character ','"),
        ("1.2.3", "line 1, column 1: Invalid number"),
        ("1E999", "line 1, column 1: Invalid number"),
        ("@", "line 1, column 1: Unexpected character '@'"),
        ("@Lefft(\"a\"; 1)", "line 1, column 1: Unknown @Function: @Lefft; did you mean @Left?"),
        ("@LowerCsae(\"a\")", "line 1, column 1: Unknown @Function: @LowerCsae; did you mean @LowerCase?"),
        ("@Xyzzyx", "line 1, column 1: Unknown @Function: @Xyzzyx"),
        (
            "@Prompt([OK]; 1; 2)",
            "line 1, column 1: @Prompt is not supported: it needs a Notes client or a part of Domino that this server does not have",
        ),
        ("@Left(\"a\")", "line 1, column 1: @Left takes 2 arguments, 1 given"),
        ("@Text", "line 1, column 1: @Text takes 1 to 2 arguments, 0 given"),
        ("@Today(1)", "line 1, column 1: @Today takes no arguments, 1 given"),
        ("@Sum", "line 1, column 1: @Sum takes 1 or more arguments, 0 given"),
        ("@If(1; 2)", "line 1, column 1: @If must have an odd number of arguments"),
        ("SELECT 1; SELECT 2", "line 1, column 11: Only one SELECT expression is allowed"),
        ("1 + SELECT 2", "line 1, column 5: SELECT is allowed only as a separate statement"),
        ("@Do(REM \"x\"; 1)", "line 1, column 5: REM is allowed only as a separate statement"),
        (
            "FIELD 1 := 2",
            "line 1, column 7: FIELD must be followed by a variable name and :=; a name expected, the number 1 found",
        ),
        ("1 + DEFAULT a := 2", "line 1, column 5: DEFAULT is allowed only as a separate statement"),
        (r"{a\}", "line 1, column 1: End of formula reached before end of quoted string, date/time or array accessor"),
        (
            "REM 1",
            "line 1, column 5: REM must be followed by a quoted string containing the remark: a text expected, the number 1 found",
        ),
        ("1 := 2", "line 1, column 3: An operator or semicolon expected, := found"),
        ("FIELD a = 2", "line 1, column 9: := expected, = found"),
        ("@IsAvailable(1 + 1)", "line 1, column 14: @IsAvailable: argument 1 must be a name or a text constant"),
        ("@Transform(1; x + y; 1)", "line 1, column 15: @Transform: argument 2 must be a name or a text constant"),
    ];
    for (source, expected) in cases {
        assert_eq!(refused(source), expected, "{source}");
    }
}

#[test]
fn carets_mark_the_error() {
    let source = "x := 1;\n\t@Lefft(\"ä\"; 1) + 2";
    let error = Formula::compile(source, &FormulaOptions::default()).expect_err("there is no @Lefft");
    let expected = "line 2, column 2: Unknown @Function: @Lefft; did you mean @Left?\n\t@Lefft(\"ä\"; 1) + 2\n\t^^^^^^";
    assert_eq!(error.render(source), expected);
    let source = "1 + @Length(\"a\") + @Abs(Form)";
    let rendered = evaluate(source, "Form=Memo", |outcome| outcome.value.error().map(|failure| failure.render(source)));
    let expected = "line 1, column 20: Incorrect data type for operator or @Function: Number expected\n\
                    1 + @Length(\"a\") + @Abs(Form)\n                   ^^^^^^^^^^";
    assert_eq!(rendered.as_deref(), Some(expected));
}

#[test]
fn forbidden_effects_are_refused() {
    let options = FormulaOptions { permissions: Permissions::NONE, ..FormulaOptions::default() };
    let refused = |source| Formula::compile(source, &options).err().map(|error| error.reason.to_string());
    let fields = Some("You are not allowed to modify fields in this context.");
    assert_eq!(refused("FIELD a := 1; 0").as_deref(), fields);
    assert_eq!(refused("@SetField(\"a\"; 1)").as_deref(), fields);
    assert_eq!(refused("@DeleteDocument").as_deref(), fields);
    let environment = Some("You are not allowed to modify the environment in this context.");
    assert_eq!(refused("ENVIRONMENT a := 1; 0").as_deref(), environment);
    assert_eq!(refused("@SetEnvironment(\"a\"; 1)").as_deref(), environment);
    let effects = Some("@MailSend: Formulas with side-effects are not allowed in this context.");
    assert_eq!(refused("@MailSend").as_deref(), effects);
    assert_eq!(refused("DEFAULT a := 1; x := 2; a + x"), None);
    let formula = Formula::compile("@Eval(\"@DeleteDocument\")", &options)
        .expect("the evaluated text is unknown at compile time");
    let paper = LineDocument::new("");
    let outcome = formula.evaluate(&paper, &Server).expect("no limit is near");
    assert!(
        outcome.value.error().is_some() && outcome.deletion.is_none(),
        "an evaluated text has the same permissions"
    );
    let formula = Formula::compile("@Environment(\"a\"; 1)", &options).expect("reading is allowed");
    assert!(formula.evaluate(&paper, &Server).expect("no limit is near").effects.is_empty());
}

fn stopped(source: &str, limits: Limits) -> Option<BudgetExceeded> {
    let formula =
        Formula::compile(source, &FormulaOptions::default()).unwrap_or_else(|error| panic!("{}", error.render(source)));
    let paper = LineDocument::new("");
    formula.evaluate_within(&paper, &Server, limits).err()
}

#[test]
fn evaluation_stops_at_its_limits() {
    let few = Limits { steps: 200_000, bytes: 1 << 20 };
    let endless = [
        ("@While(1; 1)", BudgetExceeded::Steps),
        ("@For(n := 1; n > 0; n := n + 1; 1)", BudgetExceeded::Steps),
        ("@DoWhile(1)", BudgetExceeded::Steps),
        ("x := 1:2:3:4:5:6:7:8; @While(1; x := x *+ x)", BudgetExceeded::Steps),
        ("x := 1; @While(1; x := x : x)", BudgetExceeded::Memory),
        ("x := \"ab\"; @While(1; x := x + x)", BudgetExceeded::Memory),
        ("@Repeat(\"abc\"; 1E15)", BudgetExceeded::Memory),
        ("@Repeat(@Repeat(\"a\"; 500000); 2000000)", BudgetExceeded::Memory),
        ("x := @Repeat(\"a\"; 200000); @ReplaceSubstring(x; \"a\"; x)", BudgetExceeded::Memory),
        ("@IfError(@While(1; 1); 2)", BudgetExceeded::Steps),
        ("@Eval(\"@While(1; 1)\")", BudgetExceeded::Steps),
        ("x := \"@Eval(x)\"; FIELD x := \"@Eval(x)\"; @Eval(x)", BudgetExceeded::Depth),
        ("@Transform(1:2:3:4:5:6:7:8:9; \"x\"; @While(1; 1))", BudgetExceeded::Steps),
        ("n := 0; @While(1; @SetField(\"f\" + @Text(n := n + 1); 1))", BudgetExceeded::Steps),
        ("@While(1; @MailSend)", BudgetExceeded::Effects),
        ("@Sort(1:2:3; [CUSTOMSORT]; @While(1; 1))", BudgetExceeded::Steps),
        ("x := @Repeat(\"a\"; 100000); @While(1; x = x + \"\")", BudgetExceeded::Steps),
        ("x := @Repeat(\"a,\"; 100000); @While(1; y := @Explode(x; \",\"))", BudgetExceeded::Memory),
        ("@ProperCase(@Repeat(\"a\"; 200000))", BudgetExceeded::Steps),
        ("@UpperCase(@Repeat(\"a\"; 200000))", BudgetExceeded::Steps),
        ("@Ascii(@Repeat(\"a\"; 200000))", BudgetExceeded::Steps),
        ("@Name([CN]; @Repeat(\"a\"; 200000))", BudgetExceeded::Steps),
        ("x := @Repeat(\"a\"; 100000); x < x + \"b\"", BudgetExceeded::Steps),
        ("x := @Repeat(\"a\"; 100000); @Sort(x : (x + \"b\"))", BudgetExceeded::Steps),
        ("x := @Repeat(\"ab\"; 50000); @While(1; @Left(x; \"c\"))", BudgetExceeded::Steps),
        ("@Matches(@Repeat(\"a\"; 100000); \"{abcdefghijklmnopqrst}\")", BudgetExceeded::Steps),
        ("@Keywords(@Repeat(\"a \"; 50000); \"a\"; @Repeat(\",\"; 2000))", BudgetExceeded::Steps),
    ];
    for (source, expected) in endless {
        assert_eq!(stopped(source, few), Some(expected), "{source}");
    }
    for (hashes, expected) in [(4, None), (5, Some(BudgetExceeded::Steps))] {
        for source in ["@HashPassword(@Repeat(\"a\"; i))", "@VerifyPassword(\"a\"; \"b\")"] {
            let source = format!("@For(i := 1; i <= {hashes}; i := i + 1; {source})");
            assert_eq!(stopped(&source, Limits::default()), expected, "{source}");
        }
    }
}

/// A host whose time is over after a number of checks.
struct HurriedHost {
    checks_left: Cell<u32>,
}

impl Host for HurriedHost {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(0)
    }

    fn is_out_of_time(&self) -> bool {
        let left = self.checks_left.get();
        self.checks_left.set(left.saturating_sub(1));
        left == 0
    }
}

#[test]
fn evaluation_ends_with_the_time_of_its_host() {
    let stop = |source: &str, checks: u32| {
        let formula = Formula::compile(source, &FormulaOptions::default()).expect("it compiles");
        let paper = LineDocument::new("");
        let host = HurriedHost { checks_left: Cell::new(checks) };
        formula.evaluate(&paper, &host).err()
    };
    for source in ["@While(1; 1)", "@IfError(@Eval(\"@While(1; 1)\"); 2)", "@ProperCase(@Repeat(\"ab \"; 100000))"] {
        assert_eq!(stop(source, 0), Some(BudgetExceeded::Time), "{source}");
        assert_ne!(stop(source, 10_000), Some(BudgetExceeded::Time), "{source}");
    }
    assert_eq!(stop("x := 1; x + 1", 0), None, "a short evaluation ends before the first check");
}

#[test]
fn evaluations_share_a_budget() {
    let compile = |source: &str| Formula::compile(source, &FormulaOptions::default()).expect("it compiles");
    let paper = LineDocument::new("");
    let mut budget = Limits { steps: 10_000, bytes: 1 << 20 };
    let short = compile("x := 1; x + 1");
    assert_eq!(short.evaluate_from(&paper, &Server, &mut budget).err(), None);
    assert!((9_900..10_000).contains(&budget.steps), "{} steps left", budget.steps);
    let endless = compile("@Eval(\"@While(1; 1)\")");
    assert_eq!(endless.evaluate_from(&paper, &Server, &mut budget).err(), Some(BudgetExceeded::Steps));
    assert_eq!(budget.steps, 0);
    assert_eq!(short.evaluate_from(&paper, &Server, &mut budget).err(), Some(BudgetExceeded::Steps));
}

#[test]
fn depth_and_length_are_limited() {
    let deep = |open: &str, close: &str, count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
    for (open, close) in
        [("(", ")"), ("@Abs(", ")"), ("-", ""), ("!", ""), ("x := ", ""), ("a[", "]"), ("2 + x := ", "")]
    {
        let shallow = format!("{}; 1", deep(open, close, 50));
        assert!(Formula::compile(&shallow, &FormulaOptions::default()).is_ok(), "50 times {open}");
        assert!(refused(&deep(open, close, 101)).contains("nesting"), "101 times {open}");
        assert!(refused(&deep(open, close, 20_000)).contains("nesting") || open.len() > 3, "20,000 times {open}");
    }
    let chain = vec!["1"; 10_000].join(" + ");
    assert_eq!(evaluate(&chain, "", |outcome| outcome.value.number()), Ok(10_000.0), "a chain is no depth");
    let list = format!("@Elements({})", vec!["1"; 20_000].join(":"));
    assert_eq!(evaluate(&list, "", |outcome| outcome.value.number()), Ok(20_000.0));
    assert!(refused(&" ".repeat(70_000)).contains("bytes"));
    let names: Vec<String> = (0..1_001).map(|number| format!("n{number}")).collect();
    assert!(refused(&names.join(" + ")).contains("names"));
    assert!(refused(&"n".repeat(300)).contains("bytes in a name"));
    assert!(refused(&format!("@Sum({})", vec!["1"; 256].join(";"))).contains("arguments"));
}

#[test]
fn deepest_formula_needs_one_mib_of_stack() {
    let deepest = |open: &str, close: &str| format!("{}1{}", open.repeat(98), close.repeat(98));
    let nested = [
        deepest("(", ")"),
        deepest("@Abs(", ")"),
        deepest("@If(1; ", "; 0)"),
        deepest("@Transform(1; \"x\"; ", ")"),
        deepest("@Sort(1:2; [CUSTOMSORT]; ", ")"),
        deepest("x[1 + ", "]"),
        // Each assignment counts as two levels, because it is as deep as with its parentheses.
        format!("{}1", "1 + x := ".repeat(49)),
    ];
    let run = move || {
        nested.iter().for_each(|source| assert_ne!(stopped(source, Limits::default()), Some(BudgetExceeded::Depth)))
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run).expect("a thread");
    thread.join().expect("one MiB is enough");
}

#[test]
fn formulas_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Formula>();
}

#[test]
fn extreme_numbers_do_not_panic() {
    for number in ["1E300", "-1E300", "9223372036854775807", "-9223372036854775808", "0"] {
        for call in [
            "@Date(#; #; #)",
            "@Date(2024; 1; 1; #; #; #)",
            "@Time(#; #; #)",
            "@Adjust(@Now; #; #; #; #; #; #)",
            "@Subset(1:2; #)",
            "@Select(#; 1)",
            "@Left(\"abc\"; #)",
            "@RightBack(\"abc\"; #)",
            "@Middle(\"abc\"; #; #)",
            "@MiddleBack(\"abc\"; #; #)",
            "@Word(\"a b\"; \" \"; #)",
            "@Repeat(\"\"; #)",
            "@Repeat(\"a\"; 3; #)",
            "(1:2)[#]",
            "@Char(#)",
            "@Round(#; #)",
            "@Text(#; \"F99\")",
            "@Text(#; \"G0\")",
            "@DbColumn(\"\"; \"\"; \"Colours\"; #)",
            "@Adjust([1/1/2024]; #; #; #; 0; 0; 0)",
            "@Adjust([10:00]; 0; 0; 0; #; #; #)",
            "@BusinessDays([1/1/2024]; [1/2/2024]; #)",
        ] {
            let source = call.replace("#", &format!("({number})"));
            let _ = stopped(&source, Limits { steps: 1_000_000, bytes: 1 << 20 });
        }
    }
}
