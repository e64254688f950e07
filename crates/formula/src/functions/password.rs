//! Functions of password hashes. The host creates and verifies the hashes; this module only charges their cost.
//!
//! A secure hash takes memory and time. Each one therefore costs a large part of an evaluation's budget
//! ([`PASSWORD_STEPS`]). Hosts that evaluate formulas over many documents, as views do, do not support passwords; there
//! the functions are not valid.

use super::{Attributes, Function, function};
use crate::error::{ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::limits::PASSWORD_STEPS;
use crate::text::Text;
use crate::value::Value;

const HOST: Attributes = Attributes::HOST.union(Attributes::NOT_FOLDABLE);

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function(
        "@HashPassword",
        2,
        "text",
        "A salted hash of the text, for `@VerifyPassword`. A text that is already a hash is returned unchanged.",
        hash,
    )
    .with_attributes(HOST),
    function("@Password", 2, "text", "The same as `@HashPassword`.", hash).with_attributes(HOST),
    function("@VerifyPassword", 2, "text; hash", "1 if the hash belongs to the text, otherwise 0.", verify)
        .with_attributes(HOST),
];

fn hash<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    super::text::each(run, &arguments[0], |run, text| {
        if text.is_empty() {
            return Ok(text.clone());
        }
        run.charge(PASSWORD_STEPS)?;
        let hash = run.host.password_hash(text).ok_or::<EvaluationError>(ErrorValueKind::Context.into())?;
        let hash = hash.map_err(ErrorValueKind::Host)?;
        run.charge_text(hash.len())?;
        Ok(Text::from(hash))
    })
}

fn verify<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let text = arguments[0].text()?;
    let hash = arguments[1].text()?;
    run.charge(PASSWORD_STEPS)?;
    let is_it = run.host.password_verify(text, hash).ok_or::<EvaluationError>(ErrorValueKind::Context.into())?;
    Ok(if is_it { Value::TRUE } else { Value::Number(0.0) })
}
