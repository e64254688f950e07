//! Locks without poisoning, for all crates.
//!
//! A thread that panics while it holds a lock releases it, and the next holder continues with the data as they are. So
//! a panic in one request does not take later requests along. Code in which a change that was left half-done would
//! damage data must not panic between its steps: it checks first and changes then.
//!
//! The tidy test refuses the locks of `std::sync` in the product.

pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
