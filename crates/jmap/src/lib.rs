//! JMAP (RFC 8620) and JMAP for Mail (RFC 8621).

pub mod email;
