//! Tests of the function table: it agrees with `docs/formula.md`, and every function checks its arguments.

use formula::functions::{Function, Implementation, all, find, markdown, nearest};
use formula::{BudgetExceeded, Formula, FormulaOptions, Limits};

use crate::fixture::{LineDocument, Server, write};

#[test]
fn documentation_lists_the_functions() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formula.md");
    let page = std::fs::read_to_string(path).expect("the page exists");
    let (_, rest) = page.split_once("<!-- functions -->\n").expect("the list begins");
    let (listed, _) = rest.split_once("<!-- end -->").expect("the list ends");
    assert!(listed.trim() == markdown().trim(), "put this into docs/formula.md:\n\n{}", markdown());
}

#[test]
fn function_names_are_unique() {
    let mut names: Vec<String> = all().map(|function| function.name.to_lowercase()).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(all().all(|function| (1..=3).contains(&function.tier) && function.help.ends_with('.')));
}

#[test]
fn functions_for_views_mail_and_agents_exist() {
    let needed = "@All @AllChildren @AllDescendants @IsResponseDoc @If @IsAvailable @IsUnavailable @IsMember @IsNotMember @Member @Contains @Begins \
        @Ends @Matches @Like @Trim @Left @Right @Middle @LeftBack @RightBack @Word @Length @LowerCase @UpperCase @ProperCase @Text @TextToNumber \
        @TextToTime @Date @Time @Day @Month @Year @Hour @Minute @Weekday @Adjust @Created @Modified @Accessed @Now @Today @Yesterday @Tomorrow @Elements \
        @Subset @Unique @Explode @Implode @Replace @ReplaceSubstring @Sort @Transform @Sum @Min @Max @Abs @Round @Integer @Modulo @Name @Author \
        @DocLength @DocumentUniqueID @NoteID @Attachments @AttachmentNames @AttachmentLengths @DocLevel @DocNumber @DocSiblings @DocChildren \
        @DocDescendants @DocParentNumber @IsCategory @IsExpandable @Responses @NewLine @Char @True @Yes @False @No @Error @IsError @Return @Do @Keywords \
        @Select @Count @Version @DeleteDocument @HardDeleteDocument @UndeleteDocument @Unavailable @SetField @GetField @GetDocField @SetDocField \
        @GetProfileField @SetProfileField @DbLookup @DbColumn @MailSend @UserName @UserNamesList @UserRoles @UserAccess @ServerName @DbName @DbTitle \
        @ReplicaID @ViewTitle @Environment @SetEnvironment @AddToFolder @Domain @NameLookup @ValidateInternetAddress @TimeMerge @GetCurrentTimeZone \
        @For @While @DoWhile @Eval @Random @Repeat @CheckFormulaSyntax @Command @HashPassword @Password @VerifyPassword";
    let missing: Vec<&str> = needed.split_whitespace().filter(|name| find(name).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn call(function: &Function, arguments: &[&str]) -> String {
    format!("{}({})", function.name, arguments.join("; "))
}

#[test]
fn calls_with_a_wrong_number_of_arguments_are_refused() {
    for function in all() {
        let (least, greatest) = function.argument_counts();
        for count in [least.checked_sub(1), greatest.map(|greatest| greatest + 1)].into_iter().flatten() {
            let source = if count == 0 { function.name.to_owned() } else { call(function, &vec!["1"; count]) };
            let error =
                Formula::compile(&source, &FormulaOptions::default()).err().map(|error| error.reason.to_string());
            let expected = format!("{} takes {}, {count} given", function.name, function.arguments_in_words());
            assert_eq!(error, Some(expected), "{source}");
        }
    }
}

#[test]
fn misspelled_name_suggests_a_function() {
    for function in all().filter(|function| function.name.len() >= 8) {
        for index in 1..function.name.len() {
            let mut misspelt = function.name.to_owned();
            misspelt.remove(index);
            if find(&misspelt).is_none() {
                let found = nearest(&misspelt).unwrap_or_default();
                assert!(found.len().abs_diff(misspelt.len()) <= 1, "{misspelt} leads to {found:?}");
            }
        }
    }
    assert_eq!(nearest("@Trmi"), Some("@Trim"));
    assert_eq!(nearest("@UPPERCASEE"), Some("@UpperCase"));
    assert_eq!(nearest("@Completely"), None);
}

#[test]
fn client_functions_are_known_but_unsupported() {
    for name in ["@PickList", "@dialogbox", "@PostedCommand", "@StatusBar", "@URLOpen", "@ThisValue"] {
        let error = Formula::compile(name, &FormulaOptions::default()).err().map(|error| error.reason.to_string());
        let expected = format!(
            "{name} is not supported: it needs a Notes client or a part of Domino that this server does not have"
        );
        assert_eq!(error, Some(expected));
        assert!(find(name).is_none(), "{name}");
    }
}

/// Returns the functions that evaluate each of their arguments once.
fn plain_functions() -> impl Iterator<Item = &'static Function> {
    all().filter(|function| matches!(function.implementation, Implementation::Plain(_)))
}

/// Evaluates a formula.
fn outcome(source: &str) -> Result<String, BudgetExceeded> {
    let formula =
        Formula::compile(source, &FormulaOptions::default()).unwrap_or_else(|error| panic!("{}", error.render(source)));
    let document = LineDocument::new("Names=Tom ~ Dick | Numbers=#1 2 3 | Times=@2024-01-01 10:00");
    let value = |outcome: formula::EvaluationOutcome<'_>| write(&outcome.value);
    formula.evaluate(&document, &Server).map(value)
}

#[test]
fn an_error_in_an_argument_is_the_result() {
    for function in plain_functions().filter(|function| function.argument_counts().0 > 0) {
        let (least, _) = function.argument_counts();
        for index in 0..least {
            let mut arguments = vec!["\"a\""; least];
            arguments[index] = "@Error";
            let source = call(function, &arguments);
            let expected = if function.takes_errors() { "1" } else { "error: ERROR specified in formula" };
            assert_eq!(outcome(&source).as_deref(), Ok(expected), "{source}");
        }
    }
}

#[test]
fn calls_are_charged_by_the_length_of_their_arguments() {
    let document = LineDocument::new(&format!("Long={}", "a".repeat(80_000)));
    for function in plain_functions().filter(|function| function.argument_counts().0 > 0) {
        let (least, _) = function.argument_counts();
        let source = call(function, &vec!["Long"; least]);
        let formula = Formula::compile(&source, &FormulaOptions::default())
            .unwrap_or_else(|error| panic!("{}", error.render(&source)));
        let mut budget = Limits { steps: 100_000_000, ..Limits::default() };
        let _ = formula.evaluate_from(&document, &Server, &mut budget);
        let charged = 100_000_000 - budget.steps;
        let expected = least as u64 * 10_000 * u64::from(function.byte_cost);
        assert!(charged >= expected, "{source}: {charged} steps instead of {expected}");
    }
}

#[test]
fn every_function_accepts_arguments_of_every_type() {
    let values = ["Names", "Numbers", "Times", "\"\"", "-1", "\"[CN]\"", "[10:00]", "[1/1/2024 - 1/5/2024]", "Missing"];
    let mut errors = 0;
    let mut count = 0;
    for function in plain_functions() {
        let (least, greatest) = function.argument_counts();
        for number in least..=greatest.unwrap_or(least + 1).min(4) {
            for start in 0..values.len().pow(number.min(2) as u32) {
                let arguments: Vec<&str> = (0..number)
                    .map(|index| values[start / values.len().pow((index % 2) as u32) % values.len()])
                    .collect();
                let source = if number == 0 { function.name.to_owned() } else { call(function, &arguments) };
                let found = outcome(&source).unwrap_or_else(|stop| panic!("{source}: {stop}"));
                errors += usize::from(found.starts_with("error: "));
                count += 1;
            }
        }
    }
    assert!(count > 5_000 && errors > count / 4 && errors < count, "{errors} errors of {count} calls");
}
