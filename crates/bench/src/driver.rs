//! The driver: a run from its options to its report.
//!
//! [`options`] is what the command line states; [`prepare`] turns it into a plan and into the settings of the engine,
//! or refuses it; [`users`] creates the users of the engine; [`observer`] observes server and driver at each border;
//! [`play`] fills the mail files and plays; [`outcome`] forms the report. [`data_folder`] is the folder of a server
//! that the driver has started, and [`forecast`] says what a run will take.

pub mod data_folder;
pub mod forecast;
pub mod observer;
pub mod options;
pub mod outcome;
pub mod play;
pub mod prepare;
pub mod users;
