//! Fixed limits of configuration files.

/// Maximum length of a configuration file, in bytes.
pub const CONFIGURATION_BYTES_MAX: usize = 1 << 20;

/// Maximum nesting depth of tables in a configuration file. All existing keys have depth 1.
pub const CONFIGURATION_DEPTH_MAX: usize = 8;
