//! The division of a message's parts into `textBody`, `htmlBody` and `attachments` (RFC 8621 §4.1.4).
//!
//! This is the algorithm that the RFC suggests, step by step. A list that is closed for the rest of a multipart,
//! because another representation was chosen there, is `None`.

use crate::email::part_tree::PartTree;

/// The lists of parts, as indexes in the order in which they are displayed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct BodyParts {
    pub(crate) text: Vec<usize>,
    pub(crate) html: Vec<usize>,
    pub(crate) attachments: Vec<usize>,
}

impl BodyParts {
    /// Sorts the parts of a message into the lists.
    pub(crate) fn of(tree: PartTree<'_>) -> Self {
        let mut parts = Self::default();
        let mut lists =
            OpenLists { text: Some(&mut parts.text), html: Some(&mut parts.html), attachments: &mut parts.attachments };
        let place = Place { is_alternative: false, is_related: false, in_alternative: false };
        sort(tree, &[0], place, &mut lists);
        parts
    }

    /// Returns `true` if there is an attachment that is not displayed within the message.
    pub(crate) fn has_attachment(&self, tree: PartTree<'_>) -> bool {
        self.attachments.iter().any(|index| tree.disposition(*index).as_deref() != Some("inline"))
    }
}

/// The multipart whose parts are sorted.
#[derive(Debug, Clone, Copy)]
struct Place {
    is_alternative: bool,
    is_related: bool,
    /// `true` if this multipart or one that encloses it is a `multipart/alternative`.
    in_alternative: bool,
}

/// The lists that parts can still be added to.
struct OpenLists<'a> {
    text: Option<&'a mut Vec<usize>>,
    html: Option<&'a mut Vec<usize>>,
    attachments: &'a mut Vec<usize>,
}

impl OpenLists<'_> {
    fn push_text(&mut self, index: usize) {
        self.text.iter_mut().for_each(|text| text.push(index));
    }

    fn push_html(&mut self, index: usize) {
        self.html.iter_mut().for_each(|html| html.push(index));
    }

    /// Adds a part to the lists of an alternative.
    fn push_alternative(&mut self, index: usize, media_type: &str) {
        match media_type {
            "text/plain" => self.push_text(index),
            "text/html" => self.push_html(index),
            _ => self.attachments.push(index),
        }
    }

    /// Adds a part that is displayed.
    fn push_displayed(&mut self, index: usize, media_type: &str) {
        self.push_text(index);
        self.push_html(index);
        if (self.text.is_none() || self.html.is_none()) && is_inline_media(media_type) {
            self.attachments.push(index);
        }
    }
}

fn is_inline_media(media_type: &str) -> bool {
    ["image/", "audio/", "video/"].iter().any(|kind| media_type.starts_with(kind))
}

/// Sorts consecutive parts of a multipart into the lists. The depth of multiparts is bounded by the structure.
fn sort(tree: PartTree<'_>, parts: &[usize], place: Place, lists: &mut OpenLists<'_>) {
    let text_start = lists.text.as_ref().map(|text| text.len());
    let html_start = lists.html.as_ref().map(|html| html.len());
    // Lists that are closed in this multipart stay open outside it.
    let mut lists = OpenLists {
        text: lists.text.as_deref_mut(),
        html: lists.html.as_deref_mut(),
        attachments: &mut *lists.attachments,
    };
    for (position, index) in parts.iter().copied().enumerate() {
        let media_type = tree.media_type(index);
        if tree.is_multipart(index) {
            let is_alternative = media_type == "multipart/alternative";
            let inner = Place {
                is_alternative,
                is_related: media_type == "multipart/related",
                in_alternative: place.in_alternative || is_alternative,
            };
            sort(tree, &tree.sub_parts(index), inner, &mut lists);
        } else if !is_displayed(tree, index, position, place) {
            lists.attachments.push(index);
        } else if place.is_alternative {
            lists.push_alternative(index, &media_type);
        } else {
            match &media_type[..] {
                "text/plain" if place.in_alternative => lists.html = None,
                "text/html" if place.in_alternative => lists.text = None,
                _ => {}
            }
            lists.push_displayed(index, &media_type);
        }
    }
    if place.is_alternative
        && let (Some(text), Some(html), Some(text_start), Some(html_start)) =
            (lists.text, lists.html, text_start, html_start)
    {
        complete_alternative(text, html, [text_start, html_start]);
    }
}

/// Returns `true` if a part belongs to the body and is no attachment. `position` is its position within its multipart.
fn is_displayed(tree: PartTree<'_>, index: usize, position: usize, place: Place) -> bool {
    let media_type = tree.media_type(index);
    let is_text = matches!(&media_type[..], "text/plain" | "text/html");
    let is_media = is_inline_media(&media_type);
    let is_named = || tree.part(index).content.file_name().is_some();
    tree.disposition(index).as_deref() != Some("attachment")
        && (is_text || is_media)
        && (position == 0 || (!place.is_related && (is_media || !is_named())))
}

/// Uses the only representation of an alternative for both lists.
fn complete_alternative(text: &mut Vec<usize>, html: &mut Vec<usize>, [text_start, html_start]: [usize; 2]) {
    let has_text = text.len() != text_start;
    let has_html = html.len() != html_start;
    if has_html && !has_text {
        text.extend_from_slice(&html[html_start..]);
    } else if has_text && !has_html {
        html.extend_from_slice(&text[text_start..]);
    }
}
