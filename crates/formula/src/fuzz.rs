//! The entry point for fuzzing: any bytes as a formula and a document.

use base::Timestamp;

use crate::formula::{Formula, Options};
use crate::host::{Document, Host};
use crate::limits::Limits;
use crate::parser::parse;
use crate::print::print;
use crate::value::Value;

/// What an evaluation may cost here.
const LIMITS: Limits = Limits { steps: 20_000, bytes: 1 << 20 };

/// Compiles and evaluates a formula; a line feed after a NUL ends it, and what follows is the value of every item.
///
/// # Panics
///
/// When something panics that must not, or when a formula that parses does not parse to the same tree after it was printed.
pub fn compile_and_evaluate(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (source, item) = text.split_once("\0\n").unwrap_or((&text, "An item of some length, 12"));
    if let Ok(tree) = parse(source) {
        let printed = print(&tree);
        if printed.len() <= crate::limits::SOURCE_BYTES_MAX {
            assert_eq!(parse(&printed).as_ref(), Ok(&tree), "{printed}");
        }
    }
    match Formula::compile(source, &Options::default()) {
        Err(error) => assert!(!error.render(source).is_empty()),
        Ok(formula) => {
            let (document, host) = (Everything(item), Clockwork);
            if let Ok(outcome) = formula.evaluate_within(&document, &host, LIMITS) {
                let _ = outcome.value.error().map(|failure| failure.render(source));
            }
        }
    }
}

/// A document that has every item.
struct Everything<'d>(&'d str);

impl Document for Everything<'_> {
    fn item(&self, _: Option<usize>, name: &str) -> Option<Value<'_>> {
        match name.len() % 4 {
            0 => Some(Value::from_texts(self.0.split(' ').map(Into::into).collect())),
            1 => Some(Value::from(self.0)),
            2 => Some(Value::Number(self.0.len() as f64)),
            _ => None,
        }
    }
}

/// A world that has a clock.
struct Clockwork;

impl Host for Clockwork {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_700_000_000)
    }

    fn random(&self) -> Option<u64> {
        Some(4)
    }
}
