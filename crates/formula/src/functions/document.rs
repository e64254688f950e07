//! Functions of the document: its properties, its fields, its position in the view, and its deletion.

use base::Timestamp;

use super::{Attributes, Function, SpecialForm, form, row};
use crate::error::{ErrorValueKind, EvaluationError};
use crate::host::{DocumentState, DocumentTime, Position};
use crate::outcome::DeletionRequest;
use crate::run::{Evaluation, FunctionResult};
use crate::text::Text;
use crate::time::Moment;
use crate::value::Value;

const DOCUMENT: Attributes = Attributes::DOCUMENT;
const FIELD: Attributes = Attributes::NAMES_FIELD;
const ASSIGNS: Attributes = Attributes::EFFECT.with(Attributes::ASSIGNS);
const PLACE: Attributes = Attributes::LATE;
const SIBLINGS: Attributes = Attributes::SIBLINGS;
const DESCENDANTS: Attributes = Attributes::DESCENDANTS;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    row("@All", 1, "", "1: selects every document.", |_, _| Ok(Value::TRUE)),
    row("@AllChildren", 1, "", "0; direct responses of selected documents are selected with them.", |_, _| {
        Ok(Value::FALSE)
    })
    .is(Attributes::ALL_CHILDREN),
    row("@AllDescendants", 1, "", "0; all responses below selected documents are selected with them.", |_, _| {
        Ok(Value::FALSE)
    })
    .is(Attributes::ALL_DESCENDANTS),
    row("@IsResponseDoc", 1, "", "Whether the document responds to another.", is_response)
        .is(DOCUMENT)
        .reading(&["$REF"]),
    form("@IsAvailable", 1, "name", "Whether the document has the item.", SpecialForm::IsAvailable),
    form("@IsUnavailable", 1, "name", "Whether the document has no such item.", SpecialForm::IsUnavailable),
    row("@Created", 1, "", "When the document was made.", |run, _| moment(run, DocumentTime::Created)).is(DOCUMENT),
    row("@Modified", 1, "", "When the document was last saved.", |run, _| moment(run, DocumentTime::Modified)).is(DOCUMENT),
    row("@Accessed", 1, "", "When the document was last read.", |run, _| moment(run, DocumentTime::Accessed)).is(DOCUMENT),
    row("@AddedToThisFile", 2, "", "When the document came into this replica.", |run, _| moment(run, DocumentTime::Added))
        .is(DOCUMENT),
    row("@Author", 1, "", "Who wrote the document: its `From`, or its `$UpdatedBy`.", author)
        .is(DOCUMENT)
        .reading(&["From", "$UpdatedBy"]),
    row("@DocLength", 1, "", "The size of the document in bytes.", doc_length).is(DOCUMENT),
    row("@DocOmmittedLength", 3, "", "0: no document is truncated. The original spells it so.", |_, _| {
        Ok(Value::Number(0.0))
    }),
    row("@DocFields", 2, "", "The names of all items.", doc_fields).is(DOCUMENT),
    row("@DocumentUniqueID", 1, "", "The document's UNID.", unid).is(DOCUMENT),
    row("@InheritedDocumentUniqueID", 3, "", "The UNID of the document that this one responds to.", parent_unid)
        .is(DOCUMENT),
    row("@NoteID", 1, "", "The document's number in the database, with NT before it.", note_id).is(DOCUMENT),
    row("@Attachments", 1, "mime?", "The number of attachments; the argument, whether parts of the message's text count, is left out of account.", attachments).is(DOCUMENT),
    row("@AttachmentNames", 1, "mime?", "Their file names.", attachment_names).is(DOCUMENT),
    row("@AttachmentLengths", 1, "mime?", "Their sizes in bytes.", attachment_lengths).is(DOCUMENT),
    row("@AttachmentModifiedTimes", 3, "mime?", "When they were last changed.", attachment_times).is(DOCUMENT),
    row("@IsNewDoc", 2, "", "Whether the document was never saved.", |run, _| {
        Ok(Value::from_bool(run.document.is_new()))
    })
    .is(DOCUMENT),
    row("@IsDocBeingEdited", 3, "", "Whether it is open to be changed.", |run, _| state(run, DocumentState::BeingEdited))
        .is(DOCUMENT),
    row("@IsDocBeingSaved", 3, "", "Whether it is being saved.", |run, _| state(run, DocumentState::BeingSaved)).is(DOCUMENT),
    row("@IsDocBeingMailed", 3, "", "Whether it is being mailed.", |run, _| state(run, DocumentState::BeingMailed))
        .is(DOCUMENT),
    row("@IsDocBeingRecalculated", 3, "", "Whether it is being recalculated.", |run, _| {
        state(run, DocumentState::BeingRecalculated)
    })
    .is(DOCUMENT),
    row("@IsDocBeingLoaded", 3, "", "Whether it is being opened.", |run, _| state(run, DocumentState::BeingLoaded))
        .is(DOCUMENT),
    row("@IsDocTruncated", 3, "", "Whether it is truncated.", |run, _| state(run, DocumentState::Truncated)).is(DOCUMENT),
    row("@DocLevel", 1, "", "The level of the document in the view, from 1.", |run, _| {
        count(run, |p| p.path.len() as u64)
    })
    .is(PLACE),
    row(
        "@DocNumber",
        1,
        "separator?",
        "Its place on each level, with points or the separator between; with the empty text only the last.",
        doc_number,
    )
    .is(PLACE),
    row("@DocParentNumber", 1, "separator?", "The same of the entry above.", doc_parent_number).is(PLACE),
    row("@DocSiblings", 1, "", "The number of entries on its level there, itself included.", |run, _| {
        count(run, |p| p.siblings)
    })
    .is(SIBLINGS),
    row(
        "@DocChildren",
        1,
        "none?; one?; many?",
        "The number of entries directly below; texts say how it is shown, `%` in them stands for it. One text is for any number, two are for none and any other.",
        |run, a| worded(run, a, |p| p.children),
    )
    .is(DESCENDANTS),
    row("@DocDescendants", 1, "none?; one?; many?", "The same of all entries below.", |run, a| {
        worded(run, a, |p| p.descendants)
    })
    .is(DESCENDANTS),
    row("@Responses", 1, "", "The number of all entries below.", |run, _| count(run, |p| p.descendants))
        .is(DESCENDANTS),
    row(
        "@IsCategory",
        1,
        "yes?; no?",
        "The first text in the row of a category, else the other or nothing; without texts `*` and nothing.",
        |run, a| either(run, a, ["*", ""], |p| p.is_category),
    )
    .is(PLACE),
    row(
        "@IsExpandable",
        1,
        "yes?; no?",
        "The same of rows that can be opened; without texts `+` and `-`.",
        |run, a| either(run, a, ["+", "-"], |p| p.is_expandable),
    )
    .is(PLACE),
    row("@DeleteDocument", 2, "", "Wishes the document deleted; 1.", |run, _| delete(run, DeletionRequest::Delete))
        .is(ASSIGNS),
    row("@HardDeleteDocument", 2, "", "Wishes the document deleted for good; 1.", |run, _| {
        delete(run, DeletionRequest::HardDelete)
    })
    .is(ASSIGNS),
    row("@UndeleteDocument", 2, "", "Wishes a soft deletion taken back; 1.", |run, _| delete(run, DeletionRequest::Undelete))
        .is(ASSIGNS),
    row("@DeleteField", 2, "", "Behind `FIELD x :=`: removes the field.", unavailable),
    row("@Unavailable", 2, "", "The same.", unavailable),
    row("@GetField", 2, "name", "The value of a field whose name is computed.", get_field).is(FIELD.with(DOCUMENT)),
    row("@SetField", 2, "name; value", "Wishes a field changed whose name is computed; the value.", set_field)
        .is(FIELD.with(ASSIGNS)),
];

fn is_response<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from_bool(run.document.parent().is_some() || run.field("$REF").is_some()))
}

fn moment<'d>(run: &mut Evaluation<'d>, history: DocumentTime) -> FunctionResult<'d> {
    let moment: Timestamp = run.document.moment(history).ok_or(ErrorValueKind::Context)?;
    Ok(Moment::at(moment).into())
}

fn author<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(run.field("From").or_else(|| run.field("$UpdatedBy")).unwrap_or(Value::EMPTY))
}

fn doc_length<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    let size = run.document.size_bytes().ok_or(ErrorValueKind::Context)?;
    Ok(Value::Number(size as f64))
}

fn doc_fields<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    let names = run.document.item_names();
    run.make_list(names.len())?;
    Ok(Value::from_texts(names.into_iter().map(Text::from).collect()))
}

fn unid<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from(run.document.unid().ok_or(ErrorValueKind::Context)?.to_string()))
}

fn parent_unid<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(run.document.parent().map_or(Value::EMPTY, |parent| Value::from(parent.to_string())))
}

fn note_id<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    let id = run.document.note_id().ok_or(ErrorValueKind::Context)?;
    Ok(Value::from(format!("NT{:08X}", id.0)))
}

fn attachments<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from_count(run.document.attachments().len()))
}

fn attachment_names<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from_texts(run.document.attachments().into_iter().map(|file| Text::from(file.name)).collect()))
}

fn attachment_lengths<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from_numbers(run.document.attachments().into_iter().map(|file| file.size_bytes as f64).collect()))
}

fn attachment_times<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from_times(run.document.attachments().into_iter().map(|file| Moment::at(file.modified)).collect()))
}

fn state<'d>(run: &mut Evaluation<'d>, state: DocumentState) -> FunctionResult<'d> {
    Ok(Value::from_bool(run.document.has(state).ok_or(ErrorValueKind::Context)?))
}

fn position(run: &Evaluation<'_>) -> Result<Position, EvaluationError> {
    Ok(run.document.position().ok_or(ErrorValueKind::Context)?)
}

fn count<'d>(run: &mut Evaluation<'d>, number: fn(&Position) -> u64) -> FunctionResult<'d> {
    Ok(Value::Number(number(&position(run)?) as f64))
}

fn numbered<'d>(path: &[u32], arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let separator = match arguments.first() {
        Some(separator) => separator.text()?.as_str(),
        None => ".",
    };
    let path = if separator.is_empty() { &path[path.len().saturating_sub(1)..] } else { path };
    let numbers: Vec<String> = path.iter().map(ToString::to_string).collect();
    Ok(Value::from(numbers.join(separator)))
}

fn doc_number<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    numbered(&position(run)?.path, arguments)
}

fn doc_parent_number<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let path = position(run)?.path;
    numbered(&path[..path.len().saturating_sub(1)], arguments)
}

/// Returns a number, or the argument text that is meant for it.
///
/// The last text is the general one. With two or more texts, the first is for 0; with three, the second is for 1. The
/// first `%` in a text is replaced by the number.
fn worded<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>], number: fn(&Position) -> u64) -> FunctionResult<'d> {
    let number = number(&position(run)?);
    let wording = match (arguments, number) {
        ([], _) => return Ok(Value::Number(number as f64)),
        ([none, _, ..], 0) => none,
        ([_, one, _], 1) => one,
        ([.., many], _) => many,
    };
    Ok(Value::from(wording.text()?.replacen('%', &number.to_string(), 1)))
}

/// Returns the first argument if the test holds for the row, else the second argument or the empty text. Without
/// arguments, the texts of `missing` are used.
fn either<'d>(
    run: &mut Evaluation<'d>,
    arguments: &[Value<'d>],
    missing: [&'static str; 2],
    test: fn(&Position) -> bool,
) -> FunctionResult<'d> {
    let holds = test(&position(run)?);
    Ok(match (arguments, holds) {
        ([], _) => Value::from(missing[usize::from(!holds)]),
        ([yes, ..], true) => yes.clone(),
        ([_, no, ..], false) => no.clone(),
        ([_], false) => Value::EMPTY,
    })
}

fn delete<'d>(run: &mut Evaluation<'d>, deletion: DeletionRequest) -> FunctionResult<'d> {
    run.deletion = Some(deletion);
    Ok(Value::TRUE)
}

fn unavailable<'d>(_: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Err(ErrorValueKind::Unavailable.into())
}

fn get_field<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    run.charge_search()?;
    Ok(run.field(arguments[0].text()?).unwrap_or(Value::EMPTY))
}

fn set_field<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let name = arguments[0].text()?;
    if name.is_empty() || name.len() > crate::limits::NAME_BYTES_MAX {
        return Err(ErrorValueKind::Argument("@SetField: not the name of a field").into());
    }
    run.store_field(name, Some(arguments[1].clone()))?;
    Ok(arguments[1].clone())
}
