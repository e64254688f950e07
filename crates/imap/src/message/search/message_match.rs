//! The match of one message, which can be interrupted.
//!
//! A match proceeds in stages: the ids and the date of the message, its header, its body. A stage consists of steps of
//! bounded work. Between two steps a [`MessageMatch`] keeps the results of the tests and the place in the message, and
//! no reference to the message, so that the next step may be made in a later snapshot.

use mail::limits::SEARCH_PIECE_BYTES;
use mail::mime::header::HeaderField;
use mail::mime::{date, header};
use mail::search_texts::{BodyPiece, BodyTextReader, folded_addresses, folded_field, folded_value};

use super::needle_scan::NeedleScan;
use super::{ContentTest, FieldForm, SearchPlan};
use crate::limits::{SEARCH_DECODED_BYTE_WORK, SEARCH_FIELD_WORK};
use crate::message::entry::{EntryData, MessageSource};

/// The work and the time that a search may still use before other work gets its turn.
pub struct SearchBudget<'t> {
    work: u64,
    is_over: &'t dyn Fn() -> bool,
}

impl<'t> SearchBudget<'t> {
    /// Creates a budget. The work is counted in bytes that are compared with one sought text. `is_over` returns `true`
    /// if the time is over.
    #[must_use]
    pub fn new(work: u64, is_over: &'t dyn Fn() -> bool) -> Self {
        Self { work, is_over }
    }

    /// Returns `true` if nothing is left.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.work == 0 || (self.is_over)()
    }

    fn charge(&mut self, work: u64) {
        self.work = self.work.saturating_sub(work);
    }
}

/// The match of one message, as far as it has proceeded.
#[derive(Debug)]
pub struct MessageMatch {
    /// The results of the tests of the plan that are known, by their number.
    results: Vec<Option<bool>>,
    stage: MatchStage,
}

/// The next stage of a match.
#[derive(Debug)]
enum MatchStage {
    /// The ids and the date.
    Identity,
    Header(HeaderScan),
    /// The beginning of the body.
    BeforeBody,
    Body(Box<BodyScan>),
    /// The end of the body. Texts that were not found are not in the message.
    Done,
}

/// A match in the header.
#[derive(Debug, Default)]
struct HeaderScan {
    /// Offset of the first field that has not been read.
    position: usize,
    /// The texts that are sought in all fields.
    whole: NeedleScan,
    /// The texts that are sought in certain fields, by their index in the plan.
    fields: Vec<NeedleScan>,
}

/// A match in the body.
#[derive(Debug, Default)]
struct BodyScan {
    reader: BodyTextReader,
    piece: BodyPiece,
    text: NeedleScan,
    displayed: NeedleScan,
}

impl MessageMatch {
    pub(super) fn new(results: Vec<Option<bool>>) -> Self {
        Self { results, stage: MatchStage::Identity }
    }

    pub(super) fn results(&self) -> &[Option<bool>] {
        &self.results
    }

    /// Makes a step. `open` are the tests without a result that can change the result of the whole.
    pub(super) fn step<E: EntryData, M: MessageSource>(
        &mut self,
        (plan, open): (&SearchPlan, &[usize]),
        (entry, message): (&E, &M),
        budget: &mut SearchBudget<'_>,
    ) -> Result<(), M::Error> {
        let results = &mut self.results[..];
        match &mut self.stage {
            MatchStage::Identity => {
                test_identity((plan, open), message, results)?;
                self.stage = MatchStage::Header(HeaderScan::new(plan, open));
            }
            MatchStage::Header(scan) => {
                if scan.step(plan, message.header(), results, budget) {
                    rule_out_bodies((plan, open), entry, results);
                    self.stage = MatchStage::BeforeBody;
                }
            }
            MatchStage::BeforeBody => self.stage = MatchStage::Body(Box::new(BodyScan::new(open))),
            MatchStage::Body(scan) => {
                if scan.step(plan, message, results, budget)? {
                    self.stage = MatchStage::Done;
                }
            }
            MatchStage::Done => results.iter_mut().for_each(|result| *result = result.or(Some(false))),
        }
        Ok(())
    }
}

/// Performs the tests of ids and dates.
fn test_identity<M: MessageSource>(
    (plan, open): (&SearchPlan, &[usize]),
    message: &M,
    results: &mut [Option<bool>],
) -> Result<(), M::Error> {
    let needs = |is_kind: fn(&ContentTest) -> bool| open.iter().any(|number| is_kind(&plan.tests[*number]));
    let needs_email_id = needs(|test| matches!(test, ContentTest::EmailId(_)));
    let email_id = needs_email_id.then(|| message.email_id()).transpose()?;
    let needs_thread_id = needs(|test| matches!(test, ContentTest::ThreadId(_)));
    let thread_id = needs_thread_id.then(|| message.thread_id()).transpose()?.flatten();
    let needs_date = needs(|test| matches!(test, ContentTest::Sent(_)));
    let date = needs_date.then(|| header::first(message.header(), "Date")).flatten();
    let day = date.and_then(date::HeaderDate::parse).map(|date| date.local_day());
    for number in open {
        results[*number] = match &plan.tests[*number] {
            ContentTest::EmailId(id) => Some(email_id.as_ref() == Some(id)),
            ContentTest::ThreadId(id) => Some(thread_id.as_ref() == Some(id)),
            ContentTest::Sent(days) => Some(day.is_some_and(|day| days.contains_day(day))),
            ContentTest::Field { .. } | ContentTest::Body(_) | ContentTest::Text(_) => continue,
        };
    }
    Ok(())
}

/// Sets the results of texts that are neither in the header nor, according to the index, in the body.
fn rule_out_bodies((plan, open): (&SearchPlan, &[usize]), entry: &impl EntryData, results: &mut [Option<bool>]) {
    for number in open {
        let ContentTest::Text(sought) = &plan.tests[*number] else { continue };
        if results[*number].is_none() && entry.is_known_not_to_contain(sought.number) {
            results[*number] = Some(false);
        }
    }
}

impl HeaderScan {
    fn new(plan: &SearchPlan, open: &[usize]) -> Self {
        let mut scan = Self::default();
        scan.fields.resize_with(plan.fields.len(), NeedleScan::default);
        for number in open {
            match &plan.tests[*number] {
                ContentTest::Text(_) => scan.whole.open.push(*number),
                ContentTest::Field { field, .. } => scan.fields[*field].open.push(*number),
                _ => {}
            }
        }
        scan
    }

    /// Reads the next fields. Returns `true` at the end of the header.
    fn step(
        &mut self,
        plan: &SearchPlan,
        header: &[u8],
        results: &mut [Option<bool>],
        budget: &mut SearchBudget<'_>,
    ) -> bool {
        let start = self.position;
        let mut is_complete = true;
        let is_needed = !self.whole.open.is_empty() || self.fields.iter().any(|scan| !scan.open.is_empty());
        let rest = header.get(start..).filter(|_| is_needed).unwrap_or_default();
        for field in header::fields(rest) {
            if self.position - start >= SEARCH_PIECE_BYTES {
                is_complete = false;
                break;
            }
            self.position += field.raw.len();
            budget.charge(SEARCH_FIELD_WORK * (1 + self.fields.len() as u64));
            self.add(plan, &field);
            budget.charge(self.compare(plan, results, NeedleScan::is_due));
        }
        budget.charge(SEARCH_DECODED_BYTE_WORK * (self.position - start) as u64);
        if is_complete {
            budget.charge(self.compare(plan, results, |_| true));
            for number in self.fields.iter().flat_map(|scan| &scan.open) {
                results[*number] = results[*number].or(Some(false));
            }
        }
        is_complete
    }

    /// Adds the texts of a field to the scans that it concerns.
    fn add(&mut self, plan: &SearchPlan, field: &HeaderField<'_>) {
        if !self.whole.open.is_empty() {
            self.whole.push(&folded_field(field));
            self.whole.end_text();
        }
        for (group, scan) in plan.fields.iter().zip(&mut self.fields) {
            if scan.open.is_empty() || !field.is(&group.name) {
                continue;
            }
            let (text, addresses) = match group.form {
                FieldForm::Value => (folded_value(field), None),
                FieldForm::Addresses => folded_addresses(field),
            };
            for text in std::iter::once(text).chain(addresses) {
                scan.push(&text);
                scan.end_text();
            }
        }
    }

    /// Compares the collected texts of the scans that are due. Returns the work.
    fn compare(
        &mut self,
        plan: &SearchPlan,
        results: &mut [Option<bool>],
        is_due: impl Fn(&NeedleScan) -> bool,
    ) -> u64 {
        let mut work = 0;
        for scan in self.fields.iter_mut().chain([&mut self.whole]).filter(|scan| is_due(scan)) {
            work += scan.compare(|number| plan.field_finder(number), results);
        }
        work
    }
}

impl BodyScan {
    fn new(open: &[usize]) -> Self {
        let mut scan = Self::default();
        scan.text.open = open.to_vec();
        scan.displayed.open = open.to_vec();
        scan
    }

    /// Reads the next piece. Returns `true` at the end of the body.
    fn step<M: MessageSource>(
        &mut self,
        plan: &SearchPlan,
        message: &M,
        results: &mut [Option<bool>],
        budget: &mut SearchBudget<'_>,
    ) -> Result<bool, M::Error> {
        let is_read = self.reader.read(message, &mut self.piece)?;
        let scans = [(&mut self.text, &self.piece.text), (&mut self.displayed, &self.piece.displayed)];
        for (scan, text) in scans {
            if is_read && !text.is_empty() {
                scan.push(text);
            }
            if is_read && self.piece.is_last {
                scan.end_text();
            }
            if !is_read || scan.is_due() {
                budget.charge(scan.compare(|number| plan.body_finder(number), results));
            }
            budget.charge(SEARCH_FIELD_WORK + SEARCH_DECODED_BYTE_WORK * text.len() as u64);
        }
        Ok(!is_read)
    }
}
