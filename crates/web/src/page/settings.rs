//! Settings: where the person is logged in, and the quota of the mail file.

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use base::Timestamp;
use http::sessions::Session;

use crate::answer;
use crate::backend::Account;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::notice::Notice;
use crate::shown_text;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    layout: Layout,
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
    let layout = visit.layout("Settings");
    let caller = visit.caller.clone();
    let look_up = visit.service.run(&visit.caller, "account", move |backend| Ok(backend.account(&caller)?));
    let account = look_up.await?;
    let quota = visit.run("quota", |file| Ok((file.quota()?, file.snapshot()?.ticket()))).await?;
    let sessions = visit.service.services.authenticator.sessions().list(Some(visit.caller.login()));
    let page = SettingsPage {
        layout,
        account,
        used: shown_text::size(quota.used_bytes),
        limit: quota.limit_bytes.map(shown_text::size),
        percent: quota.limit_bytes.map_or(0, |limit| quota.used_bytes.saturating_mul(100) / limit.max(1)),
        sessions: sessions.iter().map(|session| row(&visit, session)).collect(),
    };
    Ok(answer::page(StatusCode::OK, &page))
}

fn row(visit: &Visit, session: &Session) -> SessionRow {
    let time = |time: Timestamp| time.to_utc().strftime("%Y-%m-%d %H:%M").to_string();
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

/// Ends sessions.
pub(crate) async fn submit(visit: Visit, body: Body) -> Result<Response> {
    let form = visit.form(body).await?;
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
