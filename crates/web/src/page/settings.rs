//! Settings: preferences and signature, where the person is logged in, and the quota of the mail file.

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use base::Timestamp;
use http::sessions::Session;
use mail::limits::{PAGE_SIZE_MAX, PAGE_SIZE_MIN, UNDO_SECONDS_MAX};

use crate::answer;
use crate::backend::Account;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::limits::PAGE_SIZE_DEFAULT;
use crate::notice::Notice;
use crate::page::preferences::{self, PreferencesForm};
use crate::shown_time::ShownZone;
use crate::visit::Visit;
use crate::{personal_settings, shown_text, shown_time};

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    layout: Layout,
    preferences: PreferencesForm,
    /// Why the preferences were not saved.
    failure: Option<String>,
    /// The names of all time zones.
    zones: Vec<String>,
    /// The least, the greatest and the default number of rows of a page.
    page_sizes: (u64, u64, u32),
    undo_seconds_max: u64,
    account: Account,
    used: String,
    limit: Option<String>,
    percent: u64,
    sessions: Vec<SessionRow>,
}

struct SessionRow {
    name: String,
    client: String,
    address: String,
    begun: String,
    used: String,
    is_this: bool,
}

/// Shows the settings.
pub(crate) async fn show(visit: Visit) -> Result<Response> {
    page(&visit, None).await
}

/// Answers with the settings. With preferences that were typed and not saved, they and the reason are shown.
pub(crate) async fn page(visit: &Visit, refused: Option<(PreferencesForm, String)>) -> Result<Response> {
    let caller = visit.caller.clone();
    let settings = visit.settings().await?;
    let preferences = settings.preferences.clone();
    let read = visit.service.run(&visit.caller, "settings", move |backend| {
        let account = backend.account(&caller)?;
        let file = backend.open(&caller)?;
        let snapshot = file.snapshot()?;
        let identity = personal_settings::identity(&snapshot, file.database(), (&account, &preferences))?;
        let mut stored = PreferencesForm::of(&preferences, identity.as_ref());
        stored.locked = file.mail().options().locked_preferences.names().collect();
        Ok((account, file.quota()?, stored, snapshot.ticket()))
    });
    let (account, quota, stored, ticket) = read.await?;
    visit.service.services.databases.store().durable(ticket).await?;
    let status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let (preferences, failure) = match refused {
        Some((mut typed, failure)) => {
            typed.complete(stored);
            (typed, Some(failure))
        }
        None => (stored, None),
    };
    let sessions = visit.service.services.authenticator.sessions().list(Some(visit.caller.login()));
    let page = SettingsPage {
        layout: visit.frame().layout("Settings", &settings.zone),
        preferences,
        failure,
        zones: shown_time::names(),
        page_sizes: (PAGE_SIZE_MIN, PAGE_SIZE_MAX, PAGE_SIZE_DEFAULT),
        undo_seconds_max: UNDO_SECONDS_MAX,
        account,
        used: shown_text::size(quota.used_bytes),
        limit: quota.limit_bytes.map(shown_text::size),
        percent: quota.limit_bytes.map_or(0, |limit| quota.used_bytes.saturating_mul(100) / limit.max(1)),
        sessions: sessions.iter().map(|session| row(visit, session, &settings.zone)).collect(),
    };
    Ok(answer::page(status, &page))
}

fn row(visit: &Visit, session: &Session, zone: &ShownZone) -> SessionRow {
    let time = |time: Timestamp| zone.minute(time);
    let client = shown_text::shortened(&shown_text::on_one_line(&session.client.description), 100);
    SessionRow {
        name: session.id.name(),
        client: if client.is_empty() { "unknown".to_owned() } else { client },
        address: session.client.address.clone(),
        begun: time(session.begun),
        used: time(session.used),
        is_this: Some(session.id) == visit.caller.session,
    }
}

/// Executes a form of the settings: saves preferences, or ends sessions.
pub(crate) async fn submit(visit: Visit, body: Body) -> Result<Response> {
    let form = visit.form(body).await?;
    if form.text("do") == "preferences" {
        return preferences::save(&visit, &form).await;
    }
    let sessions = std::sync::Arc::clone(visit.service.services.authenticator.sessions());
    let login = visit.caller.login().to_owned();
    let this = visit.caller.session;
    let text = match form.text("do") {
        "end" => {
            let name = form.text("session").to_owned();
            let end = move |_: &dyn crate::backend::WebBackend| Ok(sessions.end_by_name(&login, &name)?);
            let is_ended = visit.service.run(&visit.caller, "session", end).await?;
            if !is_ended {
                return Err(Error::NotFound("the session"));
            }
            "The session was ended.".to_owned()
        }
        "end-others" => {
            let end = move |_: &dyn crate::backend::WebBackend| Ok(sessions.end_all(&login, this.as_ref())?);
            let count = visit.service.run(&visit.caller, "session", end).await?;
            format!("{count} other sessions were ended.")
        }
        _ => return Err(Error::Invalid("the form has no button that is known".to_owned())),
    };
    Ok(answer::redirect(&Notice::text(text).address("/lite/settings", &visit.secret)))
}
