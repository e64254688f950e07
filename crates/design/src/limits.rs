//! Fixed limits of templates.
//!
//! Limits that the operator may set are in the configuration. The limits here are fixed, because they bound memory
//! whatever the configuration says.

/// Maximum size of a template file, in bytes.
pub const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// Maximum length of a template name, in bytes.
pub const TEMPLATE_NAME_BYTES_MAX: usize = 64;

/// Maximum number of templates added by the operator.
pub const CUSTOM_TEMPLATES_MAX: usize = 200;
