//! What every room stands on: identifiers, time, names, limits, byte codecs and the simulator.
//!
//! Nothing here touches a file, a socket, the system clock or the system's randomness. The two traits
//! [`Clock`] and [`Random`] are handed down by `server` (the real ones) or by [`sim`] (the simulated ones),
//! so that any test can be replayed from a seed.
//!
//! Left out on purpose: anything that only one room needs.

pub mod check;
pub mod codec;
pub mod id;
pub mod limits;
pub mod name;
pub mod random;
pub mod sim;
pub mod time;

pub use id::{DbNumber, Modseq, NoteId, ReplicaId, Uid, Unid, ViewId};
pub use name::Name;
pub use random::Random;
pub use time::{Clock, Timestamp};
