//! Downloads: attachments, and the message as it arrived.
//!
//! Attachments are saved by the browser, whatever their type; images of safe types are shown if the person asks for it.
//! Types that a browser could execute, such as HTML and SVG, are sent as any bytes. The content is read in steps while
//! it is sent, so it is never whole in memory.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use base::NoteId;
use bytes::Bytes;
use http::Caller;
use http::content::Presentation;
use mail::mime::transfer_encoding::TransferDecoder;
use mail::mime::{MimeSource as _, PartKind};

use crate::answer::Download;
use crate::error::{Error, Result};
use crate::limits::DOWNLOAD_STEP_BYTES;
use crate::message_content::{SAFE_IMAGES, file_name, media_type};
use crate::page::message::{find, open};
use crate::service::Service;
use crate::visit::Visit;

/// Types that are sent as they are. Browsers save them and do not execute them.
const SENT_TYPES: [&str; 8] = [
    "application/pdf",
    "application/zip",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "text/plain",
    "text/csv",
];

/// The type of everything else.
const ANY_TYPE: &str = "application/octet-stream";

/// The state of a download.
struct Reading {
    service: Arc<Service>,
    caller: Caller,
    note: NoteId,
    position: u64,
    end: u64,
    /// The decoder. `None` if the bytes are sent as they are stored.
    decoder: Option<TransferDecoder>,
}

/// Sends an attachment.
pub(crate) async fn part(visit: Visit, (folder, uid): (u32, u32), part: usize) -> Result<Response> {
    let is_shown = visit.query.has("show");
    let found = visit.run("attachment", move |file| {
        let snapshot = file.snapshot()?;
        let (_, entry) = find(&snapshot, folder, uid)?;
        let message = open(&snapshot, &entry)?;
        let found = message.structure().parts().get(part).filter(|part| part.kind != PartKind::Multipart);
        let found = found.ok_or(Error::NotFound("the attachment"))?;
        let decoder = match found.kind {
            PartKind::Leaf => TransferDecoder::new(&found.content.encoding),
            PartKind::Multipart | PartKind::Message => None,
        };
        let known = media_type(found);
        let known = SENT_TYPES.iter().find(|sent| **sent == known).copied().unwrap_or(ANY_TYPE);
        let name = file_name(found);
        Ok(((entry.note, found.body.clone(), decoder, known, name), snapshot.ticket()))
    });
    let (note, range, decoder, media_type, name) = found.await?;
    let is_image = SAFE_IMAGES.contains(&media_type);
    let presentation = if is_shown && is_image { Presentation::Inline } else { Presentation::Attachment };
    let reading = Reading {
        service: Arc::clone(&visit.service),
        caller: visit.caller.clone(),
        note,
        position: range.start,
        end: range.end,
        decoder,
    };
    Ok(Download { media_type, name, presentation }.answer(reading.into_body()))
}

/// Shows the message as it arrived, as text.
pub(crate) async fn raw(visit: Visit, (folder, uid): (u32, u32)) -> Result<Response> {
    let is_saved = visit.query.has("save");
    let found = visit.run("source", move |file| {
        let snapshot = file.snapshot()?;
        let (_, entry) = find(&snapshot, folder, uid)?;
        let length = open(&snapshot, &entry)?.structure().length();
        Ok(((entry.note, length), snapshot.ticket()))
    });
    let (note, end) = found.await?;
    let service = Arc::clone(&visit.service);
    let reading = Reading { service, caller: visit.caller.clone(), note, position: 0, end, decoder: None };
    let (media_type, presentation) = match is_saved {
        true => (ANY_TYPE, Presentation::Attachment),
        false => ("text/plain; charset=utf-8", Presentation::Inline),
    };
    let name = format!("message-{uid}.eml");
    Ok(Download { media_type, name, presentation }.answer(reading.into_body()))
}

impl Reading {
    fn into_body(self) -> Body {
        Body::from_stream(futures_util::stream::try_unfold(self, |mut reading| async move {
            let step = reading.step().await.map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(step.map(|bytes| (bytes, reading)))
        }))
    }

    /// Reads the next bytes. Returns `None` at the end.
    async fn step(&mut self) -> Result<Option<Bytes>> {
        while self.position < self.end {
            let note = self.note;
            let range = self.position..self.end.min(self.position + DOWNLOAD_STEP_BYTES);
            self.position = range.end;
            let read = self.service.run_in_file(&self.caller, "download", move |file| {
                let snapshot = file.snapshot()?;
                let message = snapshot.message(note)?.ok_or(Error::NotFound("the message"))?;
                let bytes = message.range(range)?.into_owned();
                drop(message);
                Ok((bytes, snapshot.ticket()))
            });
            let bytes = self.decode(read.await?);
            if !bytes.is_empty() {
                return Ok(Some(bytes.into()));
            }
        }
        Ok(None)
    }

    fn decode(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let is_last = self.position >= self.end;
        let Some(decoder) = &mut self.decoder else { return bytes };
        let mut decoded = Vec::with_capacity(bytes.len());
        decoder.push(&bytes, &mut decoded);
        if is_last {
            decoder.finish(&mut decoded);
        }
        decoded
    }
}
