//! Functions of the user, the database and the environment, lookups, and effects beyond the document.

use base::Unid;

use super::text::each;
use super::{Attributes, Function, function, text_of};
use crate::error::{ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::host::{HostText, Lookup, LookupColumn, UserAccess};
use crate::outcome::SideEffect;
use crate::text::Text;
use crate::value::Value;

const HOST: Attributes = Attributes::HOST;
const EFFECT: Attributes = Attributes::EFFECT;
const SETS: Attributes = Attributes::EFFECT.union(Attributes::SETS_ENVIRONMENT);

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function("@UserName", 2, "which?", "The canonical name of the user.", |run, _| host_text(run, HostText::UserName)).with_attributes(HOST),
    function("@UserNamesList", 2, "", "All names of the user: own names, groups and roles.", |run, _| list(run.host.user_names())).with_attributes(HOST),
    function("@UserRoles", 2, "", "The user's roles, in brackets.", |run, _| list(run.host.user_roles())).with_attributes(HOST),
    function("@UserAccess", 2, "database; keywords?", "The user's access level and rights to create and delete documents, or the ones that the keywords select.", user_access).with_attributes(HOST),
    function("@ServerName", 2, "", "The canonical name of the server.", |run, _| host_text(run, HostText::ServerName)).with_attributes(HOST),
    function("@DbName", 2, "", "The server and the path of the database.", db_name).with_attributes(HOST),
    function("@WebDbName", 3, "", "The path of the database as part of a URL.", web_db_name).with_attributes(HOST),
    function("@DbTitle", 2, "", "The title of the database.", |run, _| host_text(run, HostText::DatabaseTitle)).with_attributes(HOST),
    function("@ReplicaID", 2, "", "The replica ID of the database.", replica_id).with_attributes(HOST),
    function("@ViewTitle", 2, "", "The title of the view.", |run, _| host_text(run, HostText::ViewTitle)).with_attributes(HOST),
    function("@Domain", 2, "", "The mail domain.", |run, _| host_text(run, HostText::Domain)).with_attributes(HOST),
    function("@Platform", 3, "keyword?", "The operating system.", |run, _| host_text(run, HostText::Platform)).with_attributes(HOST),
    function("@Version", 1, "", "The version of the program.", |run, _| host_text(run, HostText::Version)).with_attributes(HOST),
    function("@Language", 3, "keyword?", "The language.", |run, _| host_text(run, HostText::Language)).with_attributes(HOST),
    function("@LanguagePreference", 3, "keyword", "The same as `@Language`.", |run, _| host_text(run, HostText::Language)).with_attributes(HOST),
    function("@IsModalHelp", 3, "", "0, because there is no help window.", |_, _| Ok(Value::Number(0.0))),
    function("@IsEmbeddedInsideWCT", 3, "", "0, because there is no such client.", |_, _| Ok(Value::Number(0.0))),
    function("@ClientType", 3, "", "`None`, because formulas run on the server.", |_, _| Ok(Value::from("None"))),
    function("@Environment", 2, "name; value?", "The value of an environment setting. With a second argument, requests that it is changed and returns 1.", environment).with_attributes(HOST),
    function("@SetEnvironment", 2, "name; value", "Requests that an environment setting is changed. Returns 1.", set_environment).with_attributes(SETS),
    function("@DbColumn", 2, "class; database; view; column", "The values of a view column.", db_column).with_attributes(HOST),
    function("@DbLookup", 2, "class; database; view; key; column or field; keywords?", "The values of a column or field in the entries with the given key.", db_lookup).with_attributes(HOST),
    function("@GetDocField", 2, "unid; name", "A field of another document.", get_doc_field).with_attributes(HOST),
    function("@SetDocField", 2, "unid; name; value", "Requests that a field of another document is changed. Returns the value.", set_doc_field).with_attributes(EFFECT),
    function("@GetProfileField", 2, "profile; name; user?", "A field of a profile document.", get_profile_field).with_attributes(HOST),
    function("@SetProfileField", 2, "profile; name; value; user?", "Requests that a field of a profile document is changed. Returns the value.", set_profile_field).with_attributes(EFFECT),
    function("@AddToFolder", 2, "add; remove", "Requests that the document is added to one folder and removed from another. Returns 1.", add_to_folder).with_attributes(EFFECT),
    function("@MailSend", 2, "arguments...", "Requests that a message is sent; without arguments, the document itself. Returns 1.", mail_send).with_attributes(EFFECT),
    function("@Command", 3, "keyword; arguments...", "Requests that a command is run: `[MailSend]`, `[ToolsRunMacro]`, `[Compose]`, `[FileSave]`, `[FileCloseWindow]`, `[ViewChange]`, `[OpenView]`. Returns 1.", command).with_attributes(EFFECT),
];

fn host_text<'d>(run: &mut Evaluation<'d>, kind: HostText) -> FunctionResult<'d> {
    Ok(Value::from(run.host_text(kind)?))
}

fn list<'d>(texts: Option<Vec<&'d str>>) -> FunctionResult<'d> {
    let texts = texts.ok_or::<EvaluationError>(ErrorValueKind::Context.into())?;
    Ok(Value::from_texts(texts.into_iter().map(Text::from).collect()))
}

fn user_access<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let database = arguments[0].texts()?.last().map_or("", |text| text.as_str());
    let access = run.host.user_access(database).ok_or::<EvaluationError>(ErrorValueKind::Context.into())?;
    let Some(keywords) = arguments.get(1) else { return Ok(access_list(&access)) };
    let parts: Result<Vec<f64>, ErrorValueKind> =
        keywords.texts()?.iter().map(|keyword| access_part(&access, keyword)).collect();
    Ok(Value::from_numbers(parts?))
}

fn access_list(access: &UserAccess) -> Value<'static> {
    let texts = [access.level, u8::from(access.creates), u8::from(access.deletes)];
    Value::from_texts(texts.iter().map(|number| Text::from(number.to_string())).collect())
}

fn access_part(access: &UserAccess, keyword: &str) -> Result<f64, ErrorValueKind> {
    match keyword.to_ascii_uppercase().as_str() {
        "[ACCESSLEVEL]" => Ok(f64::from(access.level)),
        "[CREATEDOCUMENTS]" => Ok(f64::from(u8::from(access.creates))),
        "[DELETEDOCUMENTS]" => Ok(f64::from(u8::from(access.deletes))),
        _ => Err(ErrorValueKind::Keyword),
    }
}

fn db_name<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    let path = Text::from(run.host_text(HostText::DatabasePath)?);
    let server = Text::from(run.host.text(HostText::ServerName).unwrap_or_default());
    Ok(Value::from_texts(vec![server, path]))
}

/// Returns the path of the database for use in a URL. Spaces become plus signs; all other characters except letters,
/// digits, `-`, `_`, `.`, `~` and the `/` between folders are percent-encoded.
fn web_db_name<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    let path = run.host_text(HostText::DatabasePath)?;
    run.charge_text(path.len() * 3)?;
    let mut name = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b' ' => name.push('+'),
            b'/' | b'-' | b'_' | b'.' | b'~' => name.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(Value::from(name))
}

fn replica_id<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from(run.host.replica_id().ok_or::<EvaluationError>(ErrorValueKind::Context.into())?.to_text()))
}

fn environment<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    if arguments.len() > 1 {
        if !run.options.permissions.environment {
            return Err(ErrorValueKind::Context.into());
        }
        return set_environment(run, arguments);
    }
    each(run, &arguments[0], |run, name| {
        run.charge(1 + run.effects.len())?;
        let wished = run.effects.iter().rev().find_map(|effect| match effect {
            SideEffect::Environment { name: wished, value } if wished.eq_ignore_ascii_case(name) => Some(value.clone()),
            _ => None,
        });
        Ok(wished.map_or_else(|| Text::from(run.host.environment(name).unwrap_or_default()), Text::from))
    })
}

/// Requests that each of the named settings is changed to the first element of the value.
fn set_environment<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let value = arguments[1].element(0).unwrap_or(Value::EMPTY);
    let value = text_of(run, &value);
    for name in arguments[0].texts()? {
        run.charge_text(name.len() + value.len())?;
        run.request_effect(SideEffect::Environment { name: name.to_string(), value: value.clone() })?;
    }
    Ok(Value::TRUE)
}

/// Returns the server and the database of an argument, which is either both, the database alone, or a replica ID. The
/// server is empty if it is not given.
fn server_and_database<'v>(value: &'v Value<'_>) -> Result<(&'v str, &'v str), ErrorValueKind> {
    Ok(match value.texts()? {
        [database] => ("", database),
        [server, database, ..] => (server, database),
        [] => ("", ""),
    })
}

fn column<'v>(value: &'v Value<'_>) -> Result<LookupColumn<'v>, ErrorValueKind> {
    match value.number() {
        Ok(_) => match usize::try_from(value.integer()?) {
            Ok(number @ 1..) => Ok(LookupColumn::Number(number)),
            _ => Err(ErrorValueKind::Argument("Column numbers start at 1")),
        },
        Err(_) => Ok(LookupColumn::Field(value.text().map_err(|_| ErrorValueKind::Type)?)),
    }
}

fn look_up<'d>(run: &mut Evaluation<'d>, lookup: &Lookup<'_>) -> FunctionResult<'d> {
    run.charge(100)?;
    let found = run.host.lookup(lookup).ok_or::<EvaluationError>(ErrorValueKind::Context.into())?;
    let found = found.map_err(ErrorValueKind::Host)?.normalized();
    run.charge(found.count())?;
    run.charge_list(found.count())?;
    Ok(found)
}

fn db_column<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let (server, database) = server_and_database(&arguments[1])?;
    let class = arguments[0].text()?;
    let view = arguments[2].text()?;
    let column = column(&arguments[3])?;
    look_up(run, &Lookup { class, server, database, view, key: None, column, keywords: Vec::new() })
}

fn db_lookup<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let (server, database) = server_and_database(&arguments[1])?;
    let class = arguments[0].text()?;
    let view = arguments[2].text()?;
    let column = column(&arguments[4])?;
    let keywords = match arguments.get(5) {
        Some(keywords) => keywords.texts()?.iter().map(|keyword| keyword.trim_matches(['[', ']'])).collect(),
        None => Vec::new(),
    };
    let mut found: Option<Value<'d>> = None;
    for key in arguments[3].texts()? {
        let lookup = Lookup { class, server, database, view, key: Some(key), column, keywords: Vec::clone(&keywords) };
        let values = look_up(run, &lookup)?;
        found = Some(match found {
            None => values,
            Some(before) => crate::operators::join_lists(run, [before, values].into_iter())?,
        });
    }
    Ok(found.unwrap_or(Value::EMPTY))
}

fn parse_unid(value: &Value<'_>) -> Result<Unid, ErrorValueKind> {
    value.text()?.parse().map_err(|_| ErrorValueKind::Unid)
}

fn get_doc_field<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let unid = parse_unid(&arguments[0])?;
    run.charge(100)?;
    let found = run.host.document_field(unid, arguments[1].text()?).ok_or(ErrorValueKind::NotFound)?;
    Ok(found.map_err(ErrorValueKind::Host)?.normalized())
}

fn set_doc_field<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let unid = parse_unid(&arguments[0])?;
    let name = arguments[1].text()?.to_string();
    let value = arguments[2].clone().into_owned();
    run.charge_bytes(value.size_bytes())?;
    run.request_effect(SideEffect::DocumentField { unid, name, value })?;
    Ok(arguments[2].clone())
}

fn user_of<'v>(arguments: &'v [Value<'_>], index: usize) -> Result<&'v str, ErrorValueKind> {
    arguments.get(index).map_or(Ok(""), |user| user.text().map(|user| user.as_str()))
}

fn get_profile_field<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let profile = arguments[0].text()?;
    let name = arguments[1].text()?;
    let user = user_of(arguments, 2)?;
    Ok(run.host.profile_field(profile, name, user).map_or(Value::EMPTY, Value::normalized))
}

fn set_profile_field<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let profile = arguments[0].text()?.to_string();
    let name = arguments[1].text()?.to_string();
    let value = arguments[2].clone().into_owned();
    let user = user_of(arguments, 3)?.to_owned();
    run.charge_bytes(value.size_bytes())?;
    run.request_effect(SideEffect::ProfileField { profile, name, value, user })?;
    Ok(arguments[2].clone())
}

fn add_to_folder<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let add = arguments[0].text()?.to_string();
    let remove = arguments[1].text()?.to_string();
    run.request_effect(SideEffect::Folder { add, remove })?;
    Ok(Value::TRUE)
}

fn owned<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> Result<Vec<Value<'static>>, EvaluationError> {
    run.charge_bytes(arguments.iter().map(Value::size_bytes).sum())?;
    Ok(arguments.iter().map(|argument| argument.clone().into_owned()).collect())
}

fn mail_send<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let arguments = owned(run, arguments)?;
    run.request_effect(SideEffect::Mail { arguments })?;
    Ok(Value::TRUE)
}

const COMMANDS: [&str; 7] =
    ["MailSend", "ToolsRunMacro", "Compose", "FileSave", "FileCloseWindow", "ViewChange", "OpenView"];

fn command<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let keyword = arguments[0].text()?;
    let keyword = keyword.trim_matches(['[', ']']);
    let known = COMMANDS.iter().find(|command| command.eq_ignore_ascii_case(keyword));
    let name = (*known.ok_or(ErrorValueKind::Keyword)?).to_owned();
    let arguments = owned(run, &arguments[1..])?;
    run.request_effect(SideEffect::Command { name, arguments })?;
    Ok(Value::TRUE)
}
