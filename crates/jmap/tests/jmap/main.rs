//! Tests of `jmap`.
