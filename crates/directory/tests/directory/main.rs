//! The directory over a store in memory: what administrators change, what sessions look up, how people log in.

mod administration;
mod atomic;
mod fixture;
mod identity;
mod index;
mod login;
mod model;
mod resolve;
