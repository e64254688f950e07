//! The folders with their counts; creating, renaming and deleting them.
//!
//! Folders with a special use, such as the inbox and the trash, are not deleted or renamed here, because programs rely
//! on them. A folder with messages is deleted only after a question.

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use base::ViewId;
use mail::mailbox::{Folder, MailSnapshot};

use crate::answer;
use crate::error::{Error, Result};
use crate::form::Form;
use crate::layout::Layout;
use crate::limits::LISTED_FOLDERS_MAX;
use crate::mail_folders::shown_name;
use crate::notice::Notice;
use crate::page::action::ConfirmPage;
use crate::shown_text;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "folders.html")]
struct FoldersPage {
    layout: Layout,
    folders: Vec<FolderRow>,
}

struct FolderRow {
    id: u32,
    name: String,
    messages: String,
    unread: String,
    size: String,
    /// `true` if the folder holds messages.
    is_selectable: bool,
    /// `true` if it can be renamed and deleted.
    is_own: bool,
}

/// Shows the folders.
pub(crate) async fn show(visit: Visit) -> Result<Response> {
    let frame = visit.frame();
    let page = visit.run_with_settings("folders", move |file, settings| {
        let snapshot = file.snapshot()?;
        let folders = snapshot.folders()?;
        let rows = folders.iter().take(LISTED_FOLDERS_MAX).map(|folder| row(&snapshot, folder));
        let page =
            FoldersPage { layout: frame.layout("Folders", &settings.zone), folders: rows.collect::<Result<_>>()? };
        Ok((page, snapshot.ticket()))
    });
    Ok(answer::page(StatusCode::OK, &page.await?))
}

fn row(snapshot: &MailSnapshot<'_>, folder: &Folder) -> Result<FolderRow> {
    let status = snapshot.status(folder.id)?;
    Ok(FolderRow {
        id: folder.id.0,
        name: shown_name(folder),
        messages: shown_text::number(status.messages.into()),
        unread: shown_text::number(status.unseen.into()),
        size: shown_text::size(status.size),
        is_selectable: folder.selectable,
        is_own: is_own(folder),
    })
}

fn is_own(folder: &Folder) -> bool {
    folder.name != "INBOX" && folder.special_use.is_none()
}

/// Executes a form.
pub(crate) async fn submit(visit: Visit, body: Body) -> Result<Response> {
    let form = visit.form(body).await?;
    let notice = match form.text("do") {
        "create" => create(&visit, &form).await?,
        "rename" => rename(&visit, &form).await?,
        "delete" if form.has("sure") => delete(&visit, &form).await?,
        "delete" => return confirmation(&visit, &form).await,
        _ => return Err(Error::Invalid("the form has no button that is known".to_owned())),
    };
    Ok(answer::redirect(&notice.address("/lite/folders", &visit.secret)))
}

async fn create(visit: &Visit, form: &Form) -> Result<Notice> {
    let name = form.text("name").trim().to_owned();
    let shown = shown_text::on_one_line(&name);
    visit.run("create", move |file| Ok(((), file.folder_create(&name, None)?.1))).await?;
    Ok(Notice::text(format!("The folder {shown} was created.")))
}

async fn rename(visit: &Visit, form: &Form) -> Result<Notice> {
    let id = number(form)?;
    let name = form.text("name").trim().to_owned();
    let shown = shown_text::on_one_line(&name);
    let renamed = visit.run("rename", move |file| {
        let folder = own_folder(&file.snapshot()?, id)?;
        Ok(((), file.folder_rename(&folder.name, &name)?))
    });
    renamed.await?;
    Ok(Notice::text(format!("The folder is now {shown}.")))
}

async fn delete(visit: &Visit, form: &Form) -> Result<Notice> {
    let id = number(form)?;
    let found = visit.run("folder", move |file| {
        let snapshot = file.snapshot()?;
        Ok((own_folder(&snapshot, id)?, snapshot.ticket()))
    });
    let folder = found.await?;
    let shown = shown_name(&folder);
    loop {
        let name = folder.name.clone();
        let deleted = visit.run("delete", move |file| {
            let ticket = file.folder_delete_part(&name, ViewId(id))?;
            let is_done = ticket.is_some();
            Ok((is_done, ticket.unwrap_or(file.snapshot()?.ticket())))
        });
        if deleted.await? {
            return Ok(Notice::text(format!("The folder {shown} was deleted.")));
        }
    }
}

async fn confirmation(visit: &Visit, form: &Form) -> Result<Response> {
    let id = number(form)?;
    let frame = visit.frame();
    let page = visit.run_with_settings("folder", move |file, settings| {
        let snapshot = file.snapshot()?;
        let folder = own_folder(&snapshot, id)?;
        let count = snapshot.status(folder.id)?.messages;
        let page = ConfirmPage {
            layout: frame.layout("Delete the folder?", &settings.zone),
            question: format!(
                "The folder {} has {} messages. They are deleted with it and cannot be restored.",
                shown_name(&folder),
                shown_text::number(count.into())
            ),
            address: "/lite/folders".to_owned(),
            fields: vec![("do", "delete".to_owned()), ("sure", "1".to_owned()), ("folder", id.to_string())],
            button: "Delete the folder",
            back: "/lite/folders".to_owned(),
        };
        Ok((page, snapshot.ticket()))
    });
    Ok(answer::page(StatusCode::OK, &page.await?))
}

fn number(form: &Form) -> Result<u32> {
    form.number("folder").ok_or(Error::NotFound("the folder"))
}

/// Returns a folder that the person can rename and delete.
fn own_folder(snapshot: &MailSnapshot<'_>, id: u32) -> Result<Folder> {
    let folder = snapshot.folder_with_id(ViewId(id))?.ok_or(Error::NotFound("the folder"))?;
    if is_own(&folder) {
        return Ok(folder);
    }
    Err(Error::Invalid("this folder has a special use, so it stays".to_owned()))
}
