//! Functions of the document: its properties, its fields, its position in the view, and its deletion.

use base::Timestamp;

use super::{Attributes, Function, SpecialForm, function, special_form};
use crate::error::{ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::host::{DocumentState, DocumentTime, ViewPosition};
use crate::outcome::DeletionRequest;
use crate::text::Text;
use crate::time::Moment;
use crate::value::Value;

const DOCUMENT: Attributes = Attributes::DOCUMENT;
const FIELD: Attributes = Attributes::NAMES_FIELD;
const ASSIGNS: Attributes = Attributes::EFFECT.union(Attributes::ASSIGNS);
const PLACE: Attributes = Attributes::NOT_FOLDABLE;
const SIBLINGS: Attributes = Attributes::SIBLINGS;
const DESCENDANTS: Attributes = Attributes::DESCENDANTS;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function("@All", 1, "", "1, which selects every document.", |_, _| Ok(Value::TRUE)),
    function("@AllChildren", 1, "", "0. Direct responses to selected documents are selected as well.", |_, _| {
        Ok(Value::FALSE)
    })
    .with_attributes(Attributes::ALL_CHILDREN),
    function("@AllDescendants", 1, "", "0. All descendants of selected documents are selected as well.", |_, _| {
        Ok(Value::FALSE)
    })
    .with_attributes(Attributes::ALL_DESCENDANTS),
    function("@IsResponseDoc", 1, "", "1 if the document is a response, otherwise 0.", is_response)
        .with_attributes(DOCUMENT)
        .with_reads(&["$REF"]),
    special_form("@IsAvailable", 1, "name", "1 if the document has the item, otherwise 0.", SpecialForm::IsAvailable),
    special_form("@IsUnavailable", 1, "name", "1 if the document does not have the item, otherwise 0.", SpecialForm::IsUnavailable),
    function("@Created", 1, "", "The time when the document was created.", |run, _| moment(run, DocumentTime::Created)).with_attributes(DOCUMENT),
    function("@Modified", 1, "", "The time when the document was last saved.", |run, _| moment(run, DocumentTime::Modified)).with_attributes(DOCUMENT),
    function("@Accessed", 1, "", "The time when the document was last read.", |run, _| moment(run, DocumentTime::Accessed)).with_attributes(DOCUMENT),
    function("@AddedToThisFile", 2, "", "The time when the document was added to this replica.", |run, _| moment(run, DocumentTime::Added))
        .with_attributes(DOCUMENT),
    function("@Author", 1, "", "The author of the document, from `From` or else from `$UpdatedBy`.", author)
        .with_attributes(DOCUMENT)
        .with_reads(&["From", "$UpdatedBy"]),
    function("@DocLength", 1, "", "The size of the document in bytes.", doc_length).with_attributes(DOCUMENT),
    function("@DocOmmittedLength", 3, "", "0, because the length of what a truncated document lacks is not stored. The spelling is Domino's.", |_, _| {
        Ok(Value::Number(0.0))
    }),
    function("@DocFields", 2, "", "The names of all items.", doc_fields).with_attributes(DOCUMENT),
    function("@DocumentUniqueID", 1, "", "The document's UNID.", unid).with_attributes(DOCUMENT),
    function("@InheritedDocumentUniqueID", 3, "", "The UNID of the document to which this one is a response.", parent_unid)
        .with_attributes(DOCUMENT),
    function("@NoteID", 1, "", "The note ID of the document, with the prefix `NT`.", note_id).with_attributes(DOCUMENT),
    function("@Attachments", 1, "mime?", "The number of attachments. The argument, which selects whether text parts of the message count, is ignored.", attachments).with_attributes(DOCUMENT),
    function("@AttachmentNames", 1, "mime?", "The file names of the attachments.", attachment_names).with_attributes(DOCUMENT),
    function("@AttachmentLengths", 1, "mime?", "The sizes of the attachments in bytes.", attachment_lengths).with_attributes(DOCUMENT),
    function("@AttachmentModifiedTimes", 3, "mime?", "The times when the attachments were last modified.", attachment_times).with_attributes(DOCUMENT),
    function("@IsNewDoc", 2, "", "1 if the document was never saved, otherwise 0.", |run, _| {
        Ok(Value::from_bool(run.document.is_new()))
    })
    .with_attributes(DOCUMENT),
    function("@IsDocBeingEdited", 3, "", "1 if the document is open for editing, otherwise 0.", |run, _| state(run, DocumentState::BeingEdited))
        .with_attributes(DOCUMENT),
    function("@IsDocBeingSaved", 3, "", "1 if the document is being saved, otherwise 0.", |run, _| state(run, DocumentState::BeingSaved)).with_attributes(DOCUMENT),
    function("@IsDocBeingMailed", 3, "", "1 if the document is being mailed, otherwise 0.", |run, _| state(run, DocumentState::BeingMailed))
        .with_attributes(DOCUMENT),
    function("@IsDocBeingRecalculated", 3, "", "1 if the document is being recalculated, otherwise 0.", |run, _| {
        state(run, DocumentState::BeingRecalculated)
    })
    .with_attributes(DOCUMENT),
    function("@IsDocBeingLoaded", 3, "", "1 if the document is being opened, otherwise 0.", |run, _| state(run, DocumentState::BeingLoaded))
        .with_attributes(DOCUMENT),
    function("@IsDocTruncated", 3, "", "1 if the document is truncated, otherwise 0.", |run, _| state(run, DocumentState::Truncated)).with_attributes(DOCUMENT),
    function("@DocLevel", 1, "", "The level of the document in the view, starting at 1.", |run, _| {
        count(run, |p| p.path.len() as u64)
    })
    .with_attributes(PLACE),
    function(
        "@DocNumber",
        1,
        "separator?",
        "The position of the entry on each level, joined by periods or the separator. With an empty separator, the position on the last level only.",
        doc_number,
    )
    .with_attributes(PLACE),
    function("@DocParentNumber", 1, "separator?", "Like `@DocNumber`, for the parent entry.", doc_parent_number).with_attributes(PLACE),
    function("@DocSiblings", 1, "", "The number of siblings of the entry, including itself.", |run, _| {
        count(run, |p| p.siblings)
    })
    .with_attributes(SIBLINGS),
    function(
        "@DocChildren",
        1,
        "none?; one?; many?",
        "The number of direct children. Texts replace the number and may contain it as `%`: one text for any number, two for 0 and others, three for 0, 1 and others.",
        |run, a| count_text(run, a, |p| p.children),
    )
    .with_attributes(DESCENDANTS),
    function("@DocDescendants", 1, "none?; one?; many?", "Like `@DocChildren`, for all descendants.", |run, a| {
        count_text(run, a, |p| p.descendants)
    })
    .with_attributes(DESCENDANTS),
    function("@Responses", 1, "", "The number of all descendants.", |run, _| count(run, |p| p.descendants))
        .with_attributes(DESCENDANTS),
    function(
        "@IsCategory",
        1,
        "yes?; no?",
        "The first argument in a category row, otherwise the second argument or the empty text. Without arguments, `*` in a category row.",
        |run, a| choose_text(run, a, ["*", ""], |p| p.is_category),
    )
    .with_attributes(PLACE),
    function(
        "@IsExpandable",
        1,
        "yes?; no?",
        "The first argument in a row that can be expanded, otherwise the second argument or the empty text. Without arguments, `+` or `-`.",
        |run, a| choose_text(run, a, ["+", "-"], |p| p.is_expandable),
    )
    .with_attributes(PLACE),
    function("@DeleteDocument", 2, "", "Requests that the document is deleted. Returns 1.", |run, _| delete(run, DeletionRequest::Delete))
        .with_attributes(ASSIGNS),
    function("@HardDeleteDocument", 2, "", "Requests that the document is deleted permanently. Returns 1.", |run, _| {
        delete(run, DeletionRequest::HardDelete)
    })
    .with_attributes(ASSIGNS),
    function("@UndeleteDocument", 2, "", "Requests that a soft deletion is undone. Returns 1.", |run, _| delete(run, DeletionRequest::Undelete))
        .with_attributes(ASSIGNS),
    function("@DeleteField", 2, "", "After `FIELD x :=`, removes the field.", unavailable),
    function("@Unavailable", 2, "", "The same.", unavailable),
    function("@GetField", 2, "name", "The value of a field whose name may be computed.", get_field).with_attributes(FIELD.union(DOCUMENT)),
    function("@SetField", 2, "name; value", "Sets a field whose name may be computed. Returns the value.", set_field)
        .with_attributes(FIELD.union(ASSIGNS)),
];

fn is_response<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    run.charge_search()?;
    Ok(Value::from_bool(run.document.parent().is_some() || run.field("$REF").is_some()))
}

fn moment<'d>(run: &mut Evaluation<'d>, history: DocumentTime) -> FunctionResult<'d> {
    let moment: Timestamp = run.document.time_of(history).ok_or(ErrorValueKind::Context)?;
    Ok(Moment::at(moment).into())
}

fn author<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    run.charge_search()?;
    Ok(run.field("From").or_else(|| run.field("$UpdatedBy")).unwrap_or(Value::EMPTY))
}

fn doc_length<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    let size = run.document.size_bytes().ok_or(ErrorValueKind::Context)?;
    Ok(Value::Number(size as f64))
}

fn doc_fields<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    run.charge_search()?;
    let names = run.document.item_names();
    run.charge_list(names.len())?;
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
    run.charge_search()?;
    Ok(Value::from_count(run.document.attachments().len()))
}

fn attachment_names<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    run.charge_search()?;
    Ok(Value::from_texts(run.document.attachments().into_iter().map(|file| Text::from(file.name)).collect()))
}

fn attachment_lengths<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    run.charge_search()?;
    Ok(Value::from_numbers(run.document.attachments().into_iter().map(|file| file.size_bytes as f64).collect()))
}

fn attachment_times<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    run.charge_search()?;
    Ok(Value::from_times(run.document.attachments().into_iter().map(|file| Moment::at(file.modified)).collect()))
}

fn state<'d>(run: &mut Evaluation<'d>, state: DocumentState) -> FunctionResult<'d> {
    Ok(Value::from_bool(run.document.is_in_state(state).ok_or(ErrorValueKind::Context)?))
}

fn position(run: &Evaluation<'_>) -> Result<ViewPosition, EvaluationError> {
    Ok(run.document.position().ok_or(ErrorValueKind::Context)?)
}

fn count<'d>(run: &mut Evaluation<'d>, number: fn(&ViewPosition) -> u64) -> FunctionResult<'d> {
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
fn count_text<'d>(
    run: &mut Evaluation<'d>,
    arguments: &[Value<'d>],
    number: fn(&ViewPosition) -> u64,
) -> FunctionResult<'d> {
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
fn choose_text<'d>(
    run: &mut Evaluation<'d>,
    arguments: &[Value<'d>],
    missing: [&'static str; 2],
    test: fn(&ViewPosition) -> bool,
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
    let value = run.field(arguments[0].text()?).unwrap_or(Value::EMPTY);
    run.charge(value.cost_steps(0))?;
    Ok(value)
}

fn set_field<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let name = arguments[0].text()?;
    if name.is_empty() || name.len() > crate::limits::NAME_BYTES_MAX {
        return Err(ErrorValueKind::Argument("@SetField: invalid field name").into());
    }
    run.store_field(name, Some(arguments[1].clone()))?;
    Ok(arguments[1].clone())
}
