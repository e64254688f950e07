//! Creation of databases over the native protocol: the permission to create them, and their initial properties.

use std::sync::Arc;

use admin::databases::{check_title, server_only_acl};
use base::Name;
use design::template::{Template, apply_to_new};
use design::template_catalog::TemplateCatalog;
use instance::Instance;
use notes::{Acl, AclEntry, AclKind, AclLevel, Database, DatabaseKind, Identity, NewDatabase};
use rpc::backend::{CreateDatabaseError, DatabaseCreator, TemplateInfo};

/// The folder of mail files. They are created together with their users.
const MAIL_FOLDER: &str = "mail/";

/// Creates databases for the users whom the operator permits to do so.
pub struct TemplateDatabaseCreator {
    instance: Arc<Instance>,
}

impl TemplateDatabaseCreator {
    /// Creates the service, which adds databases to the server's catalog.
    #[must_use]
    pub fn new(instance: &Arc<Instance>) -> Self {
        Self { instance: Arc::clone(instance) }
    }

    /// Returns `true` if the identity may create databases. Names, groups and wildcards are matched in the same way as
    /// in an ACL.
    fn may_create(&self, identity: &Identity) -> Result<bool, directory::Error> {
        let mut acl = Acl::open_to_all(AclLevel::NoAccess);
        let names = self.instance.config.native.database_creators.split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty()) {
            acl.entries.push(AclEntry::new(self.canonical_name(name)?, AclLevel::Manager));
        }
        // The maximum level for password logins is a property of each database. It must not limit this check.
        acl.max_internet_access = AclLevel::Manager;
        Ok(acl.evaluate(identity).level == AclLevel::Manager)
    }

    fn canonical_name(&self, name: &str) -> Result<Name, directory::Error> {
        if let Some(person) = self.instance.directory.person(name)? {
            return Ok(person.name.clone());
        }
        let group = self.instance.directory.group(name)?;
        Ok(group.map_or_else(|| Name::new(name), |group| group.name.clone()))
    }

    fn acl_for(&self, creator: &Identity) -> Acl {
        let mut acl = server_only_acl(&self.instance);
        let kind = if creator.server { AclKind::Server } else { AclKind::Person };
        acl.entries.push(AclEntry { kind, ..AclEntry::new(creator.name.clone(), AclLevel::Manager) });
        // The creator logged in with a password. With a lower maximum, the creator could not grant access to anyone.
        acl.max_internet_access = AclLevel::Manager;
        acl
    }
}

impl DatabaseCreator for TemplateDatabaseCreator {
    fn templates(&self) -> Vec<TemplateInfo> {
        let listed = TemplateCatalog::of_data_folder(&self.instance.data).list();
        for failure in listed.errors {
            tracing::warn!(target: "design", %failure, "cannot use a template");
        }
        let mut all = [listed.own, listed.supplied].concat();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        let convert = |template: Template| TemplateInfo {
            name: template.name,
            title: template.title,
            description: template.about,
        };
        all.into_iter().map(convert).collect()
    }

    fn create(
        &self,
        creator: &Identity,
        path: &str,
        title: &str,
        template: &str,
    ) -> Result<Arc<Database>, CreateDatabaseError> {
        if !self.may_create(creator).map_err(CreateDatabaseError::Directory)? {
            return Err(CreateDatabaseError::NotAllowed);
        }
        if path.to_lowercase().starts_with(MAIL_FOLDER) {
            return Err(CreateDatabaseError::Refused(format!(
                "{MAIL_FOLDER} is reserved for mail files, which are created together with their users"
            )));
        }
        check_title(title).map_err(|error| CreateDatabaseError::Refused(error.to_string()))?;
        let template = match template {
            "" => None,
            name => {
                let found = TemplateCatalog::of_data_folder(&self.instance.data)
                    .find(name)
                    .map_err(|error| CreateDatabaseError::Refused(error.to_string()))?;
                Some(found.ok_or(CreateDatabaseError::NoTemplate)?)
            }
        };
        let own_title = template.as_ref().map_or(path, |template| template.title.as_str());
        let title = if title.is_empty() { own_title } else { title };
        let new = NewDatabase::new(path, title, DatabaseKind::Standard, self.acl_for(creator));
        let directory = &self.instance.directory;
        let database = directory.database_create(&new).map_err(CreateDatabaseError::Directory)?;
        let Some(template) = template else { return Ok(database) };
        let applied = apply_to_new(&self.instance, &database, &template);
        applied.map(|()| database).map_err(|error| CreateDatabaseError::Refused(error.to_string()))
    }
}
