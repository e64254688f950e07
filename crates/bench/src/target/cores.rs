//! The cores of server and driver, if they are kept apart (`--pin`): the server has the first half of the cores on
//! which this process may run, and the driver the others.
//!
//! A process inherits the cores of the thread that starts it, and a thread those of the thread that creates it.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreHalves {
    server: Vec<usize>,
    driver: Vec<usize>,
}

impl CoreHalves {
    /// Divides the cores on which the calling thread may run.
    ///
    /// # Errors
    ///
    /// If there is only one.
    pub fn of_this_thread() -> io::Result<Self> {
        let permitted = sched_getaffinity(None)?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| permitted.is_set(*core)).collect();
        Self::divide(&cores).ok_or_else(|| io::Error::other("--pin: there is only one core"))
    }

    fn divide(cores: &[usize]) -> Option<Self> {
        let (server, driver) = cores.split_at(cores.len() / 2);
        (!server.is_empty()).then(|| Self { server: server.to_vec(), driver: driver.to_vec() })
    }

    /// Returns the number of the server's cores.
    pub fn server_count(&self) -> u64 {
        self.server.len() as u64
    }

    /// Returns the number of the driver's cores.
    pub fn driver_count(&self) -> u64 {
        self.driver.len() as u64
    }

    /// Binds the calling thread, and those that it creates, to the cores of the driver.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    pub fn bind_driver(&self) -> io::Result<()> {
        sched_setaffinity(None, &set(&self.driver))?;
        Ok(())
    }

    /// Calls a function that starts the server, while the calling thread is bound to the cores of the server.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    pub fn start_server<T>(&self, start: impl FnOnce() -> T) -> io::Result<T> {
        let before = sched_getaffinity(None)?;
        sched_setaffinity(None, &set(&self.server))?;
        let started = start();
        sched_setaffinity(None, &before)?;
        Ok(started)
    }
}

fn set(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_has_the_first_half() {
        let halves = CoreHalves::divide(&[0, 2, 3, 7, 9]).expect("five cores");
        assert_eq!((&*halves.server, &*halves.driver), (&[0, 2][..], &[3, 7, 9][..]));
        assert_eq!((halves.server_count(), halves.driver_count()), (2, 3));
        assert_eq!(CoreHalves::divide(&[4]), None);
    }

    /// The thread of the test has cores of its own afterwards, so it is one that this test creates.
    #[test]
    fn threads_are_bound_and_released() {
        let checked = std::thread::spawn(|| {
            let Ok(halves) = CoreHalves::of_this_thread() else { return };
            let bound = || sched_getaffinity(None).expect("the cores of a thread").count() as u64;
            halves.bind_driver().expect("they are permitted");
            assert_eq!(bound(), halves.driver_count());
            assert_eq!(halves.start_server(bound).expect("they are permitted"), halves.server_count());
            assert_eq!(bound(), halves.driver_count());
        });
        checked.join().expect("the cores are as stated");
    }
}
