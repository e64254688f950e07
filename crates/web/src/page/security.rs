//! Application passwords and the second factor of the person.
//!
//! A person who finds a browser that is logged in must not be able to add a way in, so each change needs the password,
//! and, of somebody who has a second factor, also a code. Revoking an application
//! password needs neither. New secrets are shown once, in the answer to the form.

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use qrcode::QrCode;
use qrcode::render::svg;
use sasl::{APPLICATION_PROTOCOLS, ApplicationPasswordId, LoginError, LoginProtocol, LoginScope, PasswordRequest};

use crate::answer;
use crate::credential_backend::{
    ApplicationPasswordInfo, ChangedCredential, CredentialChange, CredentialError, CredentialsInfo, SecondFactorInfo,
};
use crate::error::{Error, Result, sentence};
use crate::form::Form;
use crate::layout::Layout;
use crate::notice::Notice;
use crate::shown_text;
use crate::shown_time::ShownZone;
use crate::visit::Visit;

const PATH: &str = "/lite/settings/security";

/// Least width of a QR code in pixels.
const QR_PIXELS: u32 = 200;

#[derive(Template)]
#[template(path = "security.html")]
struct SecurityPage {
    layout: Layout,
    failure: Option<String>,
    second_factor: Option<FactorRow>,
    passwords: Vec<PasswordRow>,
    form: PasswordForm,
}

struct FactorRow {
    added: String,
    recovery_codes: usize,
}

struct PasswordRow {
    id: String,
    name: String,
    protocols: String,
    scope: &'static str,
    made: String,
    used: String,
}

/// What the form for a new application password contains.
struct PasswordForm {
    name: String,
    protocols: Vec<ProtocolChoice>,
    is_reading: bool,
}

struct ProtocolChoice {
    name: &'static str,
    label: &'static str,
    is_chosen: bool,
}

#[derive(Template)]
#[template(path = "factor.html")]
struct FactorPage {
    layout: Layout,
    failure: Option<String>,
    /// The QR code as an SVG element, which has no text of a person.
    qr: String,
    key: String,
    secret: String,
}

#[derive(Template)]
#[template(path = "made.html")]
struct MadePage {
    layout: Layout,
    text: &'static str,
    secrets: Vec<String>,
}

/// Shows the ways to log in.
pub(crate) async fn show(visit: Visit) -> Result<Response> {
    page(&visit, None, &Form::default()).await
}

/// Changes the ways to log in.
pub(crate) async fn submit(visit: Visit, body: Body) -> Result<Response> {
    let form = visit.form(body).await?;
    // After the change, nothing may fail that would hide a new password or new codes.
    let layout = visit.layout("Security").await?;
    let (change, text) = match form.text("do") {
        "revoke" => {
            let id =
                ApplicationPasswordId::parse(form.text("id")).ok_or(Error::NotFound("the application password"))?;
            (CredentialChange::RevokeApplicationPassword(id), "The application password was revoked.")
        }
        "add" => (new_password(&form), "This is the new application password. It is shown only now."),
        "renew-codes" => (CredentialChange::RenewRecoveryCodes, NEW_CODES),
        "set-password" => {
            if form.text("new") != form.text("again") {
                return page(&visit, Some("The new passwords differ. Nothing was changed.".to_owned()), &form).await;
            }
            // A code is used up by its check, so what needs no code is checked before.
            if let Err(failure) = check_password(&visit, form.text("new").to_owned()).await? {
                return page(&visit, Some(failure), &form).await;
            }
            (CredentialChange::SetPassword(form.text("new").to_owned()), "The password was changed. Log in with it.")
        }
        "remove-factor" => (CredentialChange::RemoveSecondFactor, "The second step was removed."),
        _ => return Err(Error::Invalid("the form has no button that is known".to_owned())),
    };
    let confirmed = match &change {
        CredentialChange::RevokeApplicationPassword(_) => Ok(()),
        CredentialChange::AddApplicationPassword { .. } | CredentialChange::SetPassword(_)
            if credentials(&visit).await?.second_factor.is_none() =>
        {
            confirm(&visit, &form, Confirmation::Password).await?
        }
        _ => confirm(&visit, &form, Confirmation::PasswordAndCode).await?,
    };
    if let Err(failure) = confirmed {
        return page(&visit, Some(failure), &form).await;
    }
    match apply(&visit, change).await? {
        Ok(made) => Ok(answer_to_change(&visit, layout, (made, text))),
        Err(failure) => page(&visit, Some(failure), &form).await,
    }
}

const NEW_CODES: &str = "These are your recovery codes. Keep them where you find them without your authenticator. \
                         Each is valid once. They are shown only now.";

/// Shows a new secret for an authenticator.
pub(crate) async fn show_factor(visit: Visit) -> Result<Response> {
    factor_page(&visit, (None, None)).await
}

/// Adds the second factor.
pub(crate) async fn submit_factor(visit: Visit, body: Body) -> Result<Response> {
    let form = visit.form(body).await?;
    // Somebody who has a second factor replaces it by removing it first, which needs a code of it.
    if credentials(&visit).await?.second_factor.is_some() {
        return Ok(answer::redirect(PATH));
    }
    // The authenticator has this secret already, so the form keeps it if something else is wrong.
    let secret = form.text("secret").to_owned();
    if let Err(failure) = confirm(&visit, &form, Confirmation::Password).await? {
        return factor_page(&visit, (Some(failure), Some(secret))).await;
    }
    let layout = visit.layout("Security").await?;
    let change =
        CredentialChange::SetSecondFactor { secret: secret.clone(), code: form.text("code").trim().to_owned() };
    match apply(&visit, change).await? {
        Ok(made) => {
            // Sessions that began with the password alone do not outlive it.
            let sessions = std::sync::Arc::clone(visit.service.services.authenticator.sessions());
            let login = visit.caller.login().to_owned();
            let this = visit.caller.session;
            let end = move |_: &dyn crate::backend::WebBackend| Ok(sessions.end_all(&login, this.as_ref())?);
            visit.service.run(&visit.caller, "session", end).await?;
            Ok(answer_to_change(&visit, layout, (made, NEW_CODES)))
        }
        Err(failure) => factor_page(&visit, (Some(failure), Some(secret))).await,
    }
}

/// What somebody must enter before a change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Confirmation {
    Password,
    PasswordAndCode,
}

/// Checks the password, and the code, of a form. The inner error is the text for the person.
async fn confirm(visit: &Visit, form: &Form, what: Confirmation) -> Result<std::result::Result<(), String>> {
    let authenticator = &visit.service.services.authenticator;
    let refused = |error: LoginError| match error {
        LoginError::Throttled => Ok(Err("Too much was wrong. Wait some minutes and try again.".to_owned())),
        LoginError::Unavailable => Err(Error::Unavailable),
        _ => Ok(Err("The password or the code is wrong. Nothing was changed.".to_owned())),
    };
    let password = form.text("password");
    let request = match PasswordRequest::without_sasl(visit.caller.login().as_bytes(), password.as_bytes()) {
        Ok(request) => request,
        Err(error) => return refused(error),
    };
    if let Err(error) = authenticator.confirm_password(&visit.context, request).await {
        return refused(error);
    }
    if what == Confirmation::PasswordAndCode {
        let code = form.text("code").to_owned();
        if let Err(error) = authenticator.confirm_code(&visit.context, visit.caller.login(), code).await {
            return refused(error);
        }
    }
    Ok(Ok(()))
}

/// Makes a change. The inner error is the text for the person.
async fn apply(visit: &Visit, change: CredentialChange) -> Result<std::result::Result<ChangedCredential, String>> {
    let caller = visit.caller.clone();
    let backend = std::sync::Arc::clone(&visit.service.services.credentials);
    let changed = visit.service.run(&visit.caller, "credentials", move |_| Ok(backend.change(&caller, &change)));
    text_of_refusal(changed.await?)
}

/// Checks that a text may be a password. The inner error is the text for the person.
async fn check_password(visit: &Visit, password: String) -> Result<std::result::Result<(), String>> {
    let backend = std::sync::Arc::clone(&visit.service.services.credentials);
    let checked = visit.service.run(&visit.caller, "credentials", move |_| Ok(backend.check_password(&password)));
    text_of_refusal(checked.await?)
}

/// Separates refusals, whose text is for the person, from other errors.
fn text_of_refusal<T>(outcome: std::result::Result<T, CredentialError>) -> Result<std::result::Result<T, String>> {
    match outcome {
        Ok(made) => Ok(Ok(made)),
        Err(CredentialError::Refused(reason)) => Ok(Err(sentence(&reason))),
        Err(CredentialError::NotFound) => Err(Error::NotFound("the application password")),
        Err(CredentialError::Backend(error)) => Err(Error::MailFile(error)),
    }
}

fn answer_to_change(visit: &Visit, layout: Layout, (made, text): (ChangedCredential, &'static str)) -> Response {
    let secrets = match made {
        ChangedCredential::Nothing => {
            return answer::redirect(&Notice::text(text.to_owned()).address(PATH, &visit.secret));
        }
        ChangedCredential::ApplicationPassword(password) => vec![password],
        ChangedCredential::RecoveryCodes(codes) => codes,
    };
    answer::page(StatusCode::OK, &MadePage { layout, text, secrets })
}

async fn credentials(visit: &Visit) -> Result<CredentialsInfo> {
    let caller = visit.caller.clone();
    let backend = std::sync::Arc::clone(&visit.service.services.credentials);
    visit.service.run(&visit.caller, "credentials", move |_| Ok(backend.credentials(&caller)?)).await
}

async fn page(visit: &Visit, failure: Option<String>, form: &Form) -> Result<Response> {
    let known = credentials(visit).await?;
    let zone = &visit.settings().await?.zone;
    let status = if failure.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let page = SecurityPage {
        layout: visit.layout("Security").await?,
        failure,
        second_factor: known.second_factor.as_ref().map(|factor| factor_row(factor, zone)),
        passwords: known.application_passwords.iter().map(|password| password_row(password, zone)).collect(),
        form: password_form(form),
    };
    Ok(answer::page(status, &page))
}

async fn factor_page(visit: &Visit, (failure, secret): (Option<String>, Option<String>)) -> Result<Response> {
    let caller = visit.caller.clone();
    let backend = std::sync::Arc::clone(&visit.service.services.credentials);
    let offer = move |_: &dyn crate::backend::WebBackend| Ok(backend.offer_second_factor(&caller, secret.as_deref()));
    let offered = visit.service.run(&visit.caller, "credentials", offer).await?;
    let status = if failure.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let groups: Vec<String> =
        offered.secret.as_bytes().chunks(4).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
    let page = FactorPage {
        layout: visit.layout("Set up the second step").await?,
        failure,
        qr: qr_code(&offered.url),
        key: groups.join(" "),
        secret: offered.secret,
    };
    Ok(answer::page(status, &page))
}

/// Returns a QR code as an SVG element, or nothing if the text is too long for one.
fn qr_code(text: &str) -> String {
    let Ok(code) = QrCode::new(text) else { return String::new() };
    let image = code.render::<svg::Color<'_>>().min_dimensions(QR_PIXELS, QR_PIXELS).build();
    // Within a page, an SVG element has no XML declaration.
    let start = image.find("<svg").unwrap_or(image.len());
    image[start..].replacen("<svg", "<svg role=\"img\" aria-label=\"QR code with the key\"", 1)
}

fn new_password(form: &Form) -> CredentialChange {
    CredentialChange::AddApplicationPassword {
        name: form.text("name").trim().to_owned(),
        protocols: form.all("protocol").filter_map(LoginProtocol::parse).collect(),
        scope: if form.text("reading").is_empty() { LoginScope::All } else { LoginScope::Reading },
    }
}

fn password_form(form: &Form) -> PasswordForm {
    let choice = |protocol: LoginProtocol| ProtocolChoice {
        name: protocol.name(),
        label: label(protocol),
        is_chosen: form.all("protocol").any(|name| name == protocol.name()),
    };
    PasswordForm {
        name: form.text("name").to_owned(),
        protocols: APPLICATION_PROTOCOLS.into_iter().map(choice).collect(),
        is_reading: !form.text("reading").is_empty(),
    }
}

/// Returns the name of a protocol for people.
fn label(protocol: LoginProtocol) -> &'static str {
    match protocol {
        LoginProtocol::Imap => "IMAP: mail programs read and file mail",
        LoginProtocol::Pop3 => "POP3: mail programs fetch the inbox",
        LoginProtocol::Submission => "SMTP: mail programs send",
        LoginProtocol::Jmap => "JMAP: newer mail programs",
        LoginProtocol::Native => "Doublet's own protocol: the command line",
        LoginProtocol::Http => "CouchDB and other programs over HTTP",
        LoginProtocol::Ldap => "LDAP",
        LoginProtocol::Dav => "CalDAV and CardDAV",
    }
}

fn factor_row(factor: &SecondFactorInfo, zone: &ShownZone) -> FactorRow {
    FactorRow { added: zone.minute(factor.added), recovery_codes: factor.recovery_codes }
}

fn password_row(password: &ApplicationPasswordInfo, zone: &ShownZone) -> PasswordRow {
    let names: Vec<&str> = password.protocols.iter().map(|protocol| protocol.name()).collect();
    let used = password.last_use.as_ref();
    PasswordRow {
        id: password.id.to_string(),
        name: shown_text::on_one_line(&password.name),
        protocols: names.join(", "),
        scope: match password.scope {
            LoginScope::All => "everything",
            LoginScope::Reading => "reading",
        },
        made: zone.minute(password.created),
        used: used.map_or("never".to_owned(), |(at, from, by)| format!("{} from {from} over {by}", zone.minute(*at))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qr_code_is_an_element_without_scripts() {
        let code = qr_code("otpauth://totp/acme:ann?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        assert!(code.starts_with("<svg role=\"img\"") && code.ends_with("</svg>"), "{code}");
        assert!(!code.contains("script") && !code.contains("style"));
        assert_eq!(qr_code(&"x".repeat(5_000)), "");
    }
}
