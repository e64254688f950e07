//! Tests of `jmap`.

mod email;
