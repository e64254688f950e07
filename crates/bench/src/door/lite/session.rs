//! The session of a user: pages, the way to them, and the style sheet.

use std::sync::Arc;

use hyper::header::{ACCEPT, HeaderName, HeaderValue};

use super::LiteSettings;
use super::form::{FieldKind, FilledForm, Form, FormMethod};
use super::page::Page;
use crate::door::call::{CallCount, CallError};
use crate::door::http::location::{resolve, without_query};
use crate::door::http::{HttpClient, HttpRequest, malformed, status_error};

/// Maximum number of style sheets.
const STYLE_SHEETS_MAX: usize = 16;

/// A page and where it was.
#[derive(Debug)]
pub(super) struct LoadedPage {
    /// The page.
    pub(super) page: Page,
    /// Its path and query.
    pub(super) target: String,
}

/// The pages to which every page leads.
#[derive(Debug, Clone, Default)]
pub(super) struct Navigation {
    pub(super) inbox: String,
    pub(super) folders: String,
    pub(super) write: String,
    pub(super) search: String,
    log_out: Option<Form>,
}

/// A user who has logged in, or whose session has ended.
#[derive(Debug)]
pub(super) struct LiteSession {
    client: HttpClient,
    navigation: Navigation,
    is_logged_in: bool,
    /// The style sheets that were loaded.
    style_sheets: Vec<String>,
}

impl LiteSession {
    /// Connects, and sends the login form.
    pub(super) async fn log_in(
        settings: &LiteSettings,
        user: u64,
        style_sheets: Vec<String>,
        count: &mut CallCount,
    ) -> Result<Self, CallError> {
        let fields = [
            (ACCEPT, HeaderValue::from_static("text/html")),
            (HeaderName::from_static("sec-fetch-site"), HeaderValue::from_static("same-origin")),
            (HeaderName::from_static("sec-fetch-mode"), HeaderValue::from_static("navigate")),
            (HeaderName::from_static("sec-fetch-dest"), HeaderValue::from_static("document")),
        ];
        let client = HttpClient::new(&Arc::clone(&settings.origin), &fields);
        let navigation = Navigation::default();
        let mut session = Self { client, navigation, is_logged_in: false, style_sheets };
        let begin = session.load(count, HttpRequest::get("/")).await?;
        let missing = || malformed(format!("{}: no login form", without_query(&begin.target))).into_lost();
        let form = begin.page.login_form().ok_or_else(missing)?;
        if form.method != FormMethod::Post {
            return Err(malformed("the login form would send the password in an address").into_lost());
        }
        let mut filled = form.fill();
        let login = form.field_of(FieldKind::Text).ok_or_else(missing)?;
        let password = form.field_of(FieldKind::Password).ok_or_else(missing)?;
        filled.set(&login.name, &settings.names.address(user))?;
        filled.set(&password.name, &settings.password)?;
        let request = filled.request(session.client.origin(), &begin.target)?;
        let refused = |text: &str| CallError::lost("login-refused", text);
        let first = session.load(count, request).await.map_err(CallError::into_lost)?;
        if first.page.login_form().is_some() {
            return Err(refused(first.page.problem()));
        }
        let way = |text: &str| {
            let link = first.page.link(text).and_then(|href| session.resolve(&first.target, href));
            link.ok_or_else(|| refused(&format!("the page after the login has no link {text}: {}", first.page.title)))
        };
        let log_out = first.page.forms.iter().find(|form| form.action.ends_with("/logout")).cloned();
        let navigation = Navigation {
            inbox: way("Inbox")?,
            folders: way("Folders")?,
            write: way("Write")?,
            search: way("Search")?,
            log_out,
        };
        session.navigation = navigation;
        session.is_logged_in = true;
        Ok(session)
    }

    /// Returns `true` if the user can perform steps.
    pub(super) fn is_logged_in(&self) -> bool {
        self.is_logged_in
    }

    /// Returns the pages to which every page leads.
    pub(super) fn navigation(&self) -> &Navigation {
        &self.navigation
    }

    /// Returns the style sheets that were loaded: a browser keeps them.
    pub(super) fn into_style_sheets(self) -> Vec<String> {
        self.style_sheets
    }

    /// Loads a page.
    pub(super) async fn visit(&mut self, count: &mut CallCount, target: &str) -> Result<LoadedPage, CallError> {
        self.show(count, HttpRequest::get(target)).await
    }

    /// Sends a form of the page `target`, and loads the page that answers.
    pub(super) async fn submit(
        &mut self,
        count: &mut CallCount,
        filled: FilledForm<'_>,
        target: &str,
    ) -> Result<LoadedPage, CallError> {
        let request = filled.request(self.client.origin(), target)?;
        self.show(count, request).await
    }

    /// Reads a file and drops it. A redirection leads to the login form: the session has ended.
    pub(super) async fn download(&mut self, count: &mut CallCount, target: &str) -> Result<(), CallError> {
        let answered = self.client.download(count, target).await?;
        if answered != target {
            return Err(CallError::lost("session-ended", "a download leads to another page"));
        }
        Ok(())
    }

    /// Returns the path of a reference, if it leads to this server.
    pub(super) fn resolve(&self, target: &str, href: &str) -> Option<String> {
        resolve(target, href, self.client.origin().authority())
    }

    /// Returns the server, as in the header field `Host`.
    pub(super) fn authority(&self) -> &str {
        self.client.origin().authority()
    }

    /// Ends the session with its form, and closes the connection.
    pub(super) async fn log_out(&mut self, count: &mut CallCount) {
        let form = self.navigation.log_out.clone();
        if let Some(Ok(request)) = form.map(|form| form.fill().request(self.client.origin(), &self.navigation.inbox)) {
            // The server ends a session that is idle by itself.
            let _ = self.client.request(count, request).await;
        }
        self.end();
    }

    /// Closes the connection. The style sheets are kept.
    pub(super) fn end(&mut self) {
        self.is_logged_in = false;
        self.client.disconnect();
    }

    /// Loads a page of a user who is logged in. A page that asks for a password means that the session has ended.
    async fn show(&mut self, count: &mut CallCount, request: HttpRequest) -> Result<LoadedPage, CallError> {
        let loaded = self.load(count, request).await?;
        if loaded.page.login_form().is_some() {
            return Err(CallError::lost("session-ended", loaded.page.problem()));
        }
        Ok(loaded)
    }

    async fn load(&mut self, count: &mut CallCount, request: HttpRequest) -> Result<LoadedPage, CallError> {
        let reply = self.client.request(count, request).await?;
        let page = Page::read(&reply.content)?;
        if reply.status == 401 {
            return Err(CallError::lost("session-ended", page.problem()));
        }
        if reply.status >= 400 && page.login_form().is_none() {
            return Err(status_error(reply.status, page.problem()));
        }
        self.load_style_sheets(count, &page, &reply.target).await?;
        Ok(LoadedPage { page, target: reply.target })
    }

    /// Loads the style sheets of a page that were not loaded before.
    async fn load_style_sheets(&mut self, count: &mut CallCount, page: &Page, target: &str) -> Result<(), CallError> {
        for href in &page.style_sheets {
            let Some(sheet) = self.resolve(target, href) else { continue };
            if self.style_sheets.len() < STYLE_SHEETS_MAX && !self.style_sheets.contains(&sheet) {
                let request = HttpRequest::get(sheet.clone()).with(ACCEPT, "text/css");
                self.client.request(count, request).await?;
                self.style_sheets.push(sheet);
            }
        }
        Ok(())
    }
}
