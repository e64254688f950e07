//! The designs of databases: templates, and the textual form of views (`docs/templates.md`).

pub mod error;
pub mod limits;
pub mod template;
pub mod template_catalog;
pub mod view_text;
