//! The basis of all crates: identifiers, sets of UIDs, time, names, networks, limits, memory budgets, bounded maps,
//! byte codecs, hexadecimal digits, line ends, locks, the pace of long work, and the simulator.
//!
//! Nothing here accesses a file, a socket, the system clock or the system's randomness. The two traits [`Clock`] and
//! [`Random`] are implemented by `instance` (the real ones) and by [`sim`] (the simulated ones), so that any test can
//! be replayed from a seed.
//!
//! Code that only one crate needs is deliberately left out.

pub mod address_literal;
pub mod ascii_case;
pub mod assertions;
pub mod codec;
pub mod hex;
pub mod id;
pub mod limits;
pub mod line_ends;
pub mod lru_map;
pub mod memory;
pub mod name;
pub mod networks;
pub mod pacer;
pub mod random;
pub mod sim;
pub mod special_addresses;
pub mod sync;
pub mod time;
pub mod uid_set;

pub use jiff::civil;

pub use id::{DbNumber, Modseq, NoteId, ReplicaId, Uid, Unid, ViewId};
pub use name::Name;
pub use pacer::{Interrupted, Pacer, Unpaced};
pub use random::Random;
pub use time::{Clock, Timestamp};
pub use uid_set::UidSet;
