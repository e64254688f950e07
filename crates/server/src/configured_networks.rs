//! The networks that the configuration lists, in the form that the checks of addresses use.

use base::networks::{Network, Networks};
use config::setting::NetworkList;

/// Returns the networks of a key.
#[must_use]
pub(crate) fn networks(list: &NetworkList) -> Networks {
    list.0.iter().map(|(address, prefix_bits)| Network::new(*address, *prefix_bits)).collect()
}
