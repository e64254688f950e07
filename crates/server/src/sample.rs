//! A small data folder for unit tests: the domain `acme.test`, some people and a group, in a temporary folder.
//!
//! For tests only. Password hashing is configured to be cheap; everything else is as in production.

use std::ops::ControlFlow;
use std::sync::Arc;

use directory::{NewUser, UserChange};

use crate::admin::{Answer, Failure, Request, execute, groups, people};
use crate::config::{ConfigSources, load};
use crate::core::Core;

/// The password of all sample users.
pub(crate) const PASSWORD: &str = "sesame street";

/// A core and the temporary folder of its data.
pub(crate) struct Sample {
    pub(crate) core: Core,
    pub(crate) folder: tempfile::TempDir,
}

impl Sample {
    /// Creates a data folder with the users ann, bob (quota of 1 MiB) and eve (disabled), and the group team with the
    /// members ann, bob and an external address.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// Creates the same data folder with additional configuration keys.
    pub(crate) fn with(assignments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let cheap = ["directory.password_memory=8KiB", "directory.password_rounds=1", "server.name=mail.acme.test"];
        let origin = ConfigSources {
            data: Some(folder.path().join("data")),
            overrides: cheap.iter().chain(assignments).map(|text| (*text).to_owned()).collect(),
            ..ConfigSources::default()
        };
        let core =
            Core::open(Arc::new(load(&origin).expect("the configuration is valid"))).expect("the data folder is new");
        // The domain gets no DKIM keys, because generating them takes longer than all other steps together.
        core.directory.domain_add("acme.test", &[]).expect("the data folder is new");
        for (address, quota_bytes) in
            [("ann@acme.test", None), ("bob@acme.test", Some(1 << 20)), ("eve@acme.test", None)]
        {
            let password = Some(PASSWORD.as_bytes().to_vec());
            people::add(&core, &NewUser { quota_bytes, password, ..NewUser::new(address) })
                .expect("the address is free");
        }
        let disable = UserChange { disabled: Some(true), ..UserChange::default() };
        core.directory.user_set("eve@acme.test", &disable).expect("the user exists");
        let members = ["ann@acme.test", "bob@acme.test", "dora@elsewhere.test"].map(str::to_owned).to_vec();
        groups::add(&core, "team@acme.test", members).expect("the address is free");
        Self { core, folder }
    }

    /// Executes a request and ignores its progress.
    pub(crate) fn execute(&self, request: Request) -> Result<Answer, Failure> {
        execute(&self.core, request, &mut |_| ControlFlow::Continue(()))
    }
}
