//! Changes of the access control list and of views in the simulation.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::sim::SeededRandom;
use base::{Name, Random, Unid};
use notes::view::note::{ViewInfo, ViewNote};
use notes::view::reader::{ViewRow, ViewRowContents};
use notes::view::sort_key::SortDirection;
use notes::view::view_format::{Column, ViewDesign};
use notes::{Access, Acl, AclEntry, AclKind, AclLevel, level};

use super::server::{Server, USERS};

/// Number of people who are in the list at times.
const GUESTS: u64 = 3;

/// Number of views from which no further ones are created.
const VIEWS_MAX: usize = 3;

impl Server {
    fn acl(&self) -> Acl {
        let access = self.itself();
        let reading = access.read().expect("a snapshot");
        (*reading.acl()).clone()
    }

    /// Changes the access control list: the level of a user, or whether somebody else is in the list. If there are
    /// `limited` servers, it may also be the level of one of them.
    pub(super) fn change_acl(&self, limited: Option<usize>, random: &SeededRandom) {
        let mut acl = self.acl();
        let levels = [AclLevel::Reader, AclLevel::Author, AclLevel::Editor, AclLevel::Designer, AclLevel::Manager];
        let level = levels[random.below(levels.len() as u64) as usize];
        let number = random.below(12);
        match (random.below(4), limited) {
            (0, _) => {
                let name = Name::new(&format!("Guest{}/Acme", number % GUESTS));
                let before = acl.entries.len();
                acl.entries.retain(|entry| entry.name != name);
                if acl.entries.len() == before {
                    acl.entries.push(AclEntry::new(name, level));
                }
            }
            (1, Some(servers)) => {
                let entry = Self::entry(number as usize % servers, level);
                acl.entries.retain(|other| other.name != entry.name);
                acl.entries.push(entry);
            }
            _ => {
                let user = Name::new(USERS[number as usize % USERS.len()]);
                let entries = acl.entries.iter_mut().filter(|entry| entry.name == user);
                entries.for_each(|entry| entry.level = level);
            }
        }
        self.write(|writer| writer.acl_set(acl));
    }

    /// Permits all servers everything.
    pub(super) fn permit_servers(&self) {
        let mut acl = self.acl();
        let servers = acl.entries.iter_mut().filter(|entry| entry.kind == AclKind::Server);
        servers.for_each(|entry| entry.level = AclLevel::Manager);
        self.write(|writer| writer.acl_set(acl));
    }

    fn views(&self) -> Vec<Arc<ViewInfo>> {
        let access = self.itself();
        let reading = access.read().expect("a snapshot");
        let mut views = reading.views().expect("a sound store");
        views.retain(|info| !info.view.kind.folder);
        views
    }

    /// Creates a view, changes one, or deletes one.
    pub(super) fn change_views(&self, title: &str, random: &SeededRandom) {
        let views = self.views();
        let some = views.get(random.below(views.len().max(1) as u64) as usize);
        let item = format!("V{}", 1 + random.below(20));
        let sort = [None, Some(SortDirection::Ascending), Some(SortDirection::Descending)][random.below(3) as usize];
        let column = Column { title: item.clone(), item: item.clone(), sort, ..Column::default() };
        let selection =
            if random.below(2) == 0 { "SELECT @All".into() } else { format!("SELECT @IsAvailable({item})") };
        let view = ViewNote {
            title: title.to_owned(),
            selection,
            design: ViewDesign { columns: vec![column], ..ViewDesign::default() },
            ..ViewNote::default()
        };
        match (random.below(5), some) {
            (0, Some(info)) => self.write(|writer| writer.view_delete(info.note)),
            (1..4, Some(info)) => self.write(|writer| writer.view_update(info.note, info.revision, &view).map(drop)),
            _ if views.len() < VIEWS_MAX => self.write(|writer| writer.view_create(&view).map(drop)),
            _ => {}
        }
    }

    /// Returns the documents that each view shows, in their order.
    pub(super) fn view_rows(&self) -> BTreeMap<Unid, Vec<Unid>> {
        let access: Access<level::Reader> = self.itself();
        let rows_of = |info: &ViewInfo| {
            while !access.view_refresh(info.note, 1_000).expect("a sound store").complete {}
            let reading = access.read().expect("a snapshot");
            let opened = reading.view(info.note).expect("it exists");
            let rows = reading.view_rows(&opened, 0).expect("rows");
            let unid_of = |row: ViewRow| match row.contents {
                ViewRowContents::Document { row, .. } => row.unid,
                ViewRowContents::Category { .. } => panic!("the view has no categories"),
            };
            rows.page(0, 1_000).expect("a sound store").into_iter().map(unid_of).collect()
        };
        self.views().iter().map(|info| (info.unid, rows_of(info))).collect()
    }
}
