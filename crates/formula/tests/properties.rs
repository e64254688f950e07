//! Property tests that hold for every formula.

use formula::parser::parse;
use formula::pattern::TextPattern;
use formula::print::print;
use formula::{Formula, FormulaOptions, Limits};
use proptest::prelude::*;

use crate::fixture::{LineDocument, Server, evaluate, write};

/// Generates formulas that parse, with every kind of node and limited depth.
fn formula() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (0u32..1000).prop_map(|number| number.to_string()),
        "[a-z]{1,3}".prop_map(|name| format!("v{name}")),
        "[a-zA-Z\\\\\" é;:]{0,6}".prop_map(|text| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))),
        Just("[CN]".to_owned()),
        Just("[1/2/2024]".to_owned()),
        Just("@Today".to_owned()),
        Just(r"{\} brace \\ \ }".to_owned()),
    ];
    leaf.prop_recursive(6, 60, 4, |inner| {
        let operator = prop::sample::select(vec!["+", "-", "*", "/", "*+", "**", "=", "<>", "<", "*=", "&", "|", ":"]);
        prop_oneof![
            (inner.clone(), operator, inner.clone())
                .prop_map(|(left, operator, right)| format!("{left} {operator} {right}")),
            inner.clone().prop_map(|inside| format!("({inside})")),
            inner.clone().prop_map(|inside| format!("-({inside})")),
            inner.clone().prop_map(|inside| format!("(!{inside})")),
            (inner.clone(), inner.clone()).prop_map(|(list, index)| format!("({list})[{index}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("@If({a}; {b}; x := {a})")),
            inner.clone().prop_map(|inside| format!("@Text({inside})")),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("{left} + y := {right}")),
            inner.prop_map(|inside| format!("(FIELD f := {inside})")),
        ]
    })
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-c]{0,2}", 1..5)
}

fn as_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("\"{text}\"")).collect();
    quoted.join(":")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_compiles_or_is_refused(source in "\\PC{0,60}") {
        if let Err(error) = Formula::compile(&source, &FormulaOptions::default()) {
            prop_assert!(!error.render(&source).is_empty());
        }
    }

    #[test]
    fn any_token_sequence_compiles_or_is_refused(words in prop::collection::vec(prop::sample::select(vec![
        "1", "\"a\"", "x", ":=", ";", "(", ")", "[", "]", "@If", "@Left", "@Now", "FIELD", "SELECT", "REM", "DEFAULT", "+", "-", "*", "!", ":", "=", "&", "{b}",
    ]), 0..30)) {
        let source = words.join(" ");
        if let Ok(tree) = parse(&source) {
            prop_assert_eq!(parse(&print(&tree)), Ok(tree));
        }
        let _ = Formula::compile(&source, &FormulaOptions::default());
    }

    #[test]
    fn printed_formulas_parse_to_the_same_tree(source in formula()) {
        let tree = parse(&source).map_err(|error| TestCaseError::fail(error.render(&source)))?;
        let printed = print(&tree);
        prop_assert_eq!(parse(&printed), Ok(tree), "{} became {}", source, printed);
    }

    #[test]
    fn evaluations_end_within_their_limits(source in formula()) {
        let source = format!("{source}; 0");
        let formula = Formula::compile(&source, &FormulaOptions::default())
            .map_err(|error| TestCaseError::fail(error.render(&source)))?;
        let paper = LineDocument::new("va=#1 2 3 | vb=x ~ y | vc=@2024-01-01 10:00");
        let _ = formula.evaluate_within(&paper, &Server, Limits { steps: 2_000, bytes: 100_000 });
    }

    /// Checks that operators work pairwise and that the shorter list repeats its last element.
    #[test]
    fn operators_pair_elements(left in texts(), right in texts()) {
        let count = left.len().max(right.len());
        let expected: Vec<String> = (0..count)
            .map(|index| format!("{}{}", left[index.min(left.len() - 1)], right[index.min(right.len() - 1)]))
            .collect();
        let left = as_list(&left);
        let right = as_list(&right);
        prop_assert_eq!(evaluate(&format!("{left} + {right}"), "", |o| write(&o.value)), as_list(&expected).replace(':', " : "));
    }

    #[test]
    fn permuted_operators_combine_every_pair(left in texts(), right in texts()) {
        let all: Vec<String> = left.iter().flat_map(|one| right.iter().map(move |other| format!("{one}{other}"))).collect();
        let equal = left.iter().any(|one| right.contains(one));
        let left = as_list(&left);
        let right = as_list(&right);
        prop_assert_eq!(evaluate(&format!("{left} *+ {right}"), "", |o| write(&o.value)), as_list(&all).replace(':', " : "));
        prop_assert_eq!(evaluate(&format!("{left} *= {right}"), "", |o| o.selected), equal);
    }

    #[test]
    fn sorted_lists_have_the_same_elements_in_order(texts in texts()) {
        let mut expected = texts.clone();
        expected.sort();
        let source = format!("@Sort({})", as_list(&texts));
        prop_assert_eq!(evaluate(&source, "", |o| write(&o.value)), as_list(&expected).replace(':', " : "));
    }

    #[test]
    fn explode_reverts_implode(texts in prop::collection::vec("[a-c]{1,3}", 2..6)) {
        let source = format!("@Explode(@Implode({}; \"~\"); \"~\")", as_list(&texts));
        prop_assert_eq!(evaluate(&source, "", |o| write(&o.value)), as_list(&texts).replace(':', " : "));
    }

    #[test]
    fn parsing_and_matching_patterns_never_panics(pattern in "[ab*?+{}!&|\\\\-]{0,12}", text in "[ab]{0,20}") {
        let _ = TextPattern::parse_matches(&pattern).map(|pattern| pattern.matches(&text));
        let _ = TextPattern::parse_like(&pattern, Some('*')).map(|pattern| pattern.matches(&text));
    }

    #[test]
    fn numbers_round_trip_through_text(number in -1e9..1e9f64) {
        let rounded = (number * 1e3).round() / 1e3;
        let source = format!("@TextToNumber(@Text({rounded}))");
        prop_assert_eq!(evaluate(&source, "", |o| o.value.number()), Ok(rounded));
    }

    #[test]
    fn dates_round_trip_through_text(days in -200_000i64..200_000) {
        let source = format!("d := @Adjust([1/1/2000]; 0; 0; {days}; 0; 0; 0); @TextToTime(@Text(d)) = d");
        prop_assert!(evaluate(&source, "", |o| o.selected));
    }
}
