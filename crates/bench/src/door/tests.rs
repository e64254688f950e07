//! What the tests of several doors share: a server that follows a script.

pub mod scripted_server;
