//! Measures how many documents per second a selection formula evaluates on one processor.
//!
//! ```text
//! cargo run --release -p formula --example selection_cost
//! ```
//!
//! The documents resemble the summaries of a mail file: each has sixteen items, of which a formula reads two or three
//! by name. Half of the documents are memos.

use std::hint::black_box;

use base::Timestamp;
use formula::{Document, Formula, FormulaOptions, Host, Moment, Value};

const DOCUMENTS: usize = 10_000;
const ROUNDS: usize = 200;

const FORMULAS: [&str; 4] = [
    "SELECT Form=\"Memo\" & @Contains(Subject;\"x\")",
    "SELECT @All",
    "SELECT (Form=\"Memo\" | Form=\"Reply\") & @IsUnavailable(DeliveredDate) & PostedDate > [1/1/2020]",
    "SELECT Form=\"Memo\":\"Reply\":\"NonDelivery Report\" & @LowerCase(@Name([CN]; From))=\"ann smith\" & Size > 1000",
];

struct Summary {
    items: Vec<(&'static str, Value<'static>)>,
}

impl Summary {
    fn new(number: usize) -> Self {
        let text = |text: &str| Value::from(text.to_owned());
        let form = if number.is_multiple_of(2) { "Memo" } else { "Appointment" };
        let time = |seconds: usize| Value::Time(Moment::at(Timestamp::from_seconds(1_600_000_000 + seconds as i64)));
        let items = vec![
            ("$MessageID", text(&format!("<{number}@acme.test>"))),
            ("$UpdatedBy", text("CN=Ann Smith/OU=Sales/O=Acme")),
            ("Form", text(form)),
            ("From", text("CN=Ann Smith/OU=Sales/O=Acme")),
            ("SendTo", text("CN=Bob Brown/OU=Sales/O=Acme")),
            ("CopyTo", text("CN=Carl Cole/OU=Sales/O=Acme")),
            ("BlindCopyTo", text("")),
            ("Importance", text("2")),
            ("Size", Value::Number(number as f64)),
            ("PostedDate", time(number * 60)),
            ("ComposedDate", time(number * 60)),
            (
                "Subject",
                text(&format!("Minutes of meeting number {number} of the sales team, and what follows from them")),
            ),
            ("Principal", text("CN=Ann Smith/OU=Sales/O=Acme")),
            ("ReplyTo", text("ann@acme.test")),
            ("Categories", text("Meetings")),
            ("$Revisions", time(number * 61)),
        ];
        Self { items }
    }
}

impl Document for Summary {
    fn item(&self, _: Option<usize>, name: &str) -> Option<Value<'_>> {
        self.items.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_borrowed())
    }
}

struct Clock;

impl Host for Clock {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_700_000_000)
    }
}

fn main() {
    let documents: Vec<Summary> = (0..DOCUMENTS).map(Summary::new).collect();
    for source in FORMULAS {
        let formula = Formula::compile(source, &FormulaOptions::default()).expect("the formulas above compile");
        let started = processor_seconds();
        let mut selected = 0;
        for _ in 0..ROUNDS {
            for document in &documents {
                selected +=
                    usize::from(black_box(&formula).evaluate(document, &Clock).expect("no limit is near").selected);
            }
        }
        let seconds = processor_seconds() - started;
        let each = (DOCUMENTS * ROUNDS) as f64;
        println!(
            "{:>6.2} million/s {:>5.0} ns  {:>5} selected  {source}",
            each / seconds / 1e6,
            seconds / each * 1e9,
            selected / ROUNDS
        );
    }
}

/// Returns the processor time used by this process, in seconds.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells what a process has used");
    stat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).expect("a number of nanoseconds")
        / 1e9
}
