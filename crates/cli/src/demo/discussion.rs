//! The demo's discussion database of the team, created from the template that comes with the program.

use admin::databases;
use base::Unid;
use design::template_catalog::TemplateCatalog;
use instance::{Instance, authorize_server};
use notes::{
    Access, AclEntry, AclFlags, AclKind, AclLevel, DatabaseKind, FullTextSchedule, Item, ItemValue, NewDatabase,
    NewNote, level,
};

use super::DemoError;
use super::messages::{GROUP, PEOPLE};

/// The path of the database.
pub const PATH: &str = "teamroom.nsf";

/// A topic or a response: the index of its author in [`PEOPLE`], the index of the entry that it responds to, its
/// category, its subject and its body.
type Entry = (usize, Option<usize>, &'static str, &'static str, &'static str);

const ENTRIES: [Entry; 9] = [
    (
        0,
        None,
        "Bridges\\River",
        "Painting the river bridge",
        "It is rusting at the joints. Does anyone know a paint that lasts?",
    ),
    (1, Some(0), "", "Zinc first", "Whatever the paint, it needs a coat of zinc underneath."),
    (2, Some(1), "", "And dry weather", "Not before May, then."),
    (0, Some(0), "", "Decided: gray", "Zinc in May, gray on top. Thank you both."),
    (
        2,
        None,
        "Bridges\\Harbor",
        "Opening hours of the harbor bridge",
        "The fishermen are asking for a second opening at noon.",
    ),
    (1, Some(4), "", "Noon is bad for lorries", "Half past one would do, says the port."),
    (1, None, "Office", "Who looks after the plants in summer?", "They need water twice a week."),
    (2, Some(6), "", "I am here in July", "August is open."),
    (
        0,
        None,
        "Office",
        "Minutes of the last meeting",
        "Everyone was present. The next meeting is on the first Monday.",
    ),
];

/// Creates the database unless it exists.
pub(super) fn create(instance: &Instance) -> Result<(), DemoError> {
    if instance.databases.database_open(PATH).is_ok() {
        return Ok(());
    }
    let template = TemplateCatalog::of_data_folder(&instance.data).find_or_error("discussion")?;
    let mut acl = databases::server_only_acl(instance);
    if let Some(team) = instance.directory.group(GROUP)? {
        let entry = AclEntry::new(team.name.canonical(), AclLevel::Editor);
        let flags = AclFlags::CREATE_PERSONAL_FOLDER;
        acl.entries.push(AclEntry { kind: AclKind::PersonGroup, flags, ..entry });
    }
    let mut new = NewDatabase::new(PATH, "The team's discussion", DatabaseKind::Standard, acl);
    new.options.full_text = FullTextSchedule::Immediate;
    let database = instance.directory.database_create(&new)?;
    template.apply(&instance.databases, &authorize_server(&database)?)?;
    let mut unids: Vec<Unid> = Vec::new();
    for (author, above, category, subject, body) in ENTRIES {
        let person = instance.directory.person(PEOPLE[author].0)?;
        let Some(person) = person else { continue };
        let access: Access<level::Depositor> = database.authorize(&instance.directory.identity(&person)?)?;
        let accesses = [&access];
        let unid = Unid::generate(instance.random.as_ref());
        let form = if above.is_none() { "Topic" } else { "Response" };
        let mut items = vec![Item::text("Form", form), Item::text("Subject", subject)];
        items.push(Item::body("Body", ItemValue::RichText(format!("<p>{body}</p>"))));
        if !category.is_empty() {
            items.push(Item::summary("Categories", ItemValue::TextList(vec![category.to_owned()])));
        }
        let parent = above.and_then(|above| unids.get(above).copied());
        let new = NewNote { unid: Some(unid), parent, tracks_editors: true, ..NewNote::document(items) };
        let mut transaction = instance.databases.transaction(&accesses)?;
        transaction.writer(0).note_create(new)?;
        transaction.commit()?;
        unids.push(unid);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use notes::Identity;
    use std::sync::Arc;

    use super::*;
    use sample::Sample;

    #[test]
    fn only_the_team_has_access_to_the_discussion() {
        let sample = Sample::new();
        super::super::set_up(&sample.instance).expect("a sound folder");
        let database = sample.instance.databases.database_open(PATH).expect("the database exists");
        let bob = sample.instance.directory.person("bob@demo.test").expect("a lookup").expect("the user exists");
        let bob: Access<level::Editor> =
            database.authorize(&sample.instance.directory.identity(&bob).expect("known")).expect("he is of the team");
        let note =
            bob.downgrade::<level::Reader>().read().expect("a snapshot").view_find("By Category").expect("a view").note;
        let reader = bob.downgrade::<level::Reader>();
        assert!(reader.view_refresh(note, 100).expect("an index").complete);
        let reading = reader.read().expect("a snapshot");
        let view = reading.view(note).expect("a view");
        let rows = reading.view_rows(&view, 0).expect("rows");
        // Four categories, one of them the parent of two others, and all entries.
        assert_eq!(rows.count().expect("sound"), 4 + ENTRIES.len() as u64);
        let writing = bob.downgrade::<level::Depositor>();
        let accesses = [&writing];
        let mut transaction = sample.instance.databases.transaction(&accesses).expect("a transaction");
        transaction.writer(0).folder_create_personal("To read", &[]).expect("they may have folders of their own");
        let stranger = Arc::new(Identity::person("CN=Somebody/O=Elsewhere"));
        assert!(database.authorize::<level::Reader>(&stranger).is_err());
    }
}
