//! What all pages share: the frame with its links, and the style sheet.
//!
//! The style sheet is compiled in. Its address has a hash of its bytes, so browsers may keep it for ever.

use http::static_file::content_hash;

use crate::notice::ShownNotice;
use crate::shown_time::ShownZone;

/// The style sheet.
pub const STYLE: &str = include_str!("../templates/style.css");

const STYLE_HASH: u64 = content_hash(STYLE.as_bytes());

/// Returns the name of the style sheet.
#[must_use]
pub fn style_name() -> String {
    format!("{STYLE_HASH:016x}.css")
}

/// The frame of a page.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// The title, which is the first heading, too.
    pub title: String,
    /// The name of the style sheet.
    pub style: String,
    /// The name of the person. `None` on pages of nobody.
    pub account: Option<String>,
    /// The token of the forms on this page.
    pub token: String,
    /// The name of the time zone of all times on the page.
    pub zone: String,
    /// What has just happened.
    pub notice: Option<ShownNotice>,
}

/// The frame of a page of somebody who is logged in, as far as the request determines it.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) account: String,
    pub(crate) token: String,
    pub(crate) notice: Option<ShownNotice>,
}

impl Frame {
    /// Completes the frame with the title and the time zone of the person.
    pub(crate) fn layout(self, title: impl Into<String>, zone: &ShownZone) -> Layout {
        Layout {
            account: Some(self.account),
            token: self.token,
            zone: zone.name().to_owned(),
            notice: self.notice,
            ..Layout::public(&title.into())
        }
    }
}

impl Layout {
    /// Creates the frame of a page of nobody.
    #[must_use]
    pub fn public(title: &str) -> Self {
        Self { title: title.to_owned(), style: style_name(), ..Self::default() }
    }
}
