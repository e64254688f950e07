//! A small data folder for unit tests: the domain `acme.test`, some people and a group, in a temporary folder.
//!
//! Only for tests. Hashing is cheap here; everything else is the real thing.

use std::ops::ControlFlow;
use std::sync::Arc;

use directory::{NewUser, UserChange};

use crate::admin::{Answer, Failure, Request, execute, groups, people};
use crate::config::{Origin, load};
use crate::core::Core;

/// The password of everybody.
pub(crate) const PASSWORD: &str = "sesame street";

/// A core and the folder that it lies in.
pub(crate) struct Sample {
    pub(crate) core: Core,
    pub(crate) folder: tempfile::TempDir,
}

impl Sample {
    /// Makes a folder with ann, bob (1 MiB of quota), the disabled eve and the group team of ann, bob and a stranger.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// Makes the same with more of the configuration set.
    pub(crate) fn with(assignments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let cheap = ["directory.password_memory=8KiB", "directory.password_rounds=1", "server.name=mail.acme.test"];
        let origin = Origin {
            data: Some(folder.path().join("data")),
            overrides: cheap.iter().chain(assignments).map(|text| (*text).to_owned()).collect(),
            ..Origin::default()
        };
        let core = Core::open(Arc::new(load(&origin).expect("it is valid"))).expect("it is new");
        // The domain's keys are left out: making them takes longer than all the rest.
        core.directory.domain_add("acme.test", &[]).expect("it is new");
        for (address, quota_bytes) in
            [("ann@acme.test", None), ("bob@acme.test", Some(1 << 20)), ("eve@acme.test", None)]
        {
            let password = Some(PASSWORD.as_bytes().to_vec());
            people::add(&core, &NewUser { quota_bytes, password, ..NewUser::new(address) }).expect("it is free");
        }
        let disable = UserChange { disabled: Some(true), ..UserChange::default() };
        core.directory.user_set("eve@acme.test", &disable).expect("she is there");
        let members = ["ann@acme.test", "bob@acme.test", "dora@elsewhere.test"].map(str::to_owned).to_vec();
        groups::add(&core, "team@acme.test", members).expect("it is free");
        Self { core, folder }
    }

    /// Executes a request whose progress nobody wants to hear.
    pub(crate) fn execute(&self, request: Request) -> Result<Answer, Failure> {
        execute(&self.core, request, &mut |_| ControlFlow::Continue(()))
    }
}
