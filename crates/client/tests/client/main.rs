//! Integration tests of the client against a server in the same process, over TLS on loopback.

mod calls;
mod connection;
mod login;
mod server;
mod streams;
mod trust;
