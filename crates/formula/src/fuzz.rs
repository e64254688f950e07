//! The entry point for fuzzing: evaluates arbitrary bytes as a formula over a document.

use base::Timestamp;

use crate::formula::Formula;
use crate::host::{Document, Host};
use crate::limits::Limits;
use crate::options::FormulaOptions;
use crate::parser::parse;
use crate::print::print;
use crate::value::Value;

/// The budgets of a fuzzed evaluation.
const LIMITS: Limits = Limits { steps: 20_000, bytes: 1 << 20 };

/// Compiles and evaluates a formula. A NUL followed by a line feed ends the formula; the values of the items are
/// derived from the text after it.
///
/// # Panics
///
/// Panics if the code under test panics, or if the printed form of a parsed formula does not parse to the same tree.
pub fn compile_and_evaluate(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (source, item) = text.split_once("\0\n").unwrap_or((&text, "An item of some length, 12"));
    if let Ok(tree) = parse(source) {
        let printed = print(&tree);
        if printed.len() <= crate::limits::SOURCE_BYTES_MAX {
            assert_eq!(parse(&printed).as_ref(), Ok(&tree), "{printed}");
        }
    }
    match Formula::compile(source, &FormulaOptions::default()) {
        Err(error) => assert!(!error.render(source).is_empty()),
        Ok(formula) => {
            let document = DerivedItems(item);
            let host = FixedHost;
            if let Ok(outcome) = formula.evaluate_within(&document, &host, LIMITS) {
                let _ = outcome.value.error().map(|failure| failure.render(source));
            }
        }
    }
}

/// A document with an item for most names. The type of the item depends on the length of its name.
struct DerivedItems<'d>(&'d str);

impl Document for DerivedItems<'_> {
    fn item(&self, _: Option<usize>, name: &str) -> Option<Value<'_>> {
        match name.len() % 4 {
            0 => Some(Value::from_texts(self.0.split(' ').map(Into::into).collect())),
            1 => Some(Value::from(self.0)),
            2 => Some(Value::Number(self.0.len() as f64)),
            _ => None,
        }
    }
}

/// A host with a fixed clock and a fixed random number.
struct FixedHost;

impl Host for FixedHost {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_700_000_000)
    }

    fn random(&self) -> Option<u64> {
        Some(4)
    }
}
