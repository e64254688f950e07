//! The limits of connections against a plain list of admitted peers.

use proptest::prelude::*;
use wire::{ConnectionLimits, ConnectionPermit, Connections, LimitReached, Peer};

/// Returns the part of an address that is counted: the host of IPv4, the /64 network of IPv6, or `None` for this
/// machine.
fn counted(address: &str) -> Option<String> {
    if address.starts_with("127.") || address.starts_with("[::1]") || address.starts_with("[::ffff:127.") {
        return None;
    }
    let host = address.rsplit_once(':').expect("a port").0;
    let host = host.trim_start_matches("[::ffff:").trim_end_matches(']');
    Some(host.split_once("::").map_or(host, |(network, _)| network).trim_start_matches('[').to_owned())
}

const ADDRESSES: [&str; 9] = [
    "192.0.2.1:1000",
    "192.0.2.1:2000",
    "192.0.2.2:1000",
    "[::ffff:192.0.2.2]:1000",
    "[2001:db8:0:7::1]:1000",
    "[2001:db8:0:7::ffff]:1000",
    "[2001:db8:0:8::1]:1000",
    "127.0.0.1:1000",
    "[::1]:1000",
];

/// Admits a peer in the model.
fn expected(admitted: &[Option<String>], address: &str, limits: ConnectionLimits) -> Result<(), LimitReached> {
    let group = counted(address);
    if admitted.len() >= limits.total_max {
        return Err(LimitReached::Total);
    }
    let same = admitted.iter().filter(|other| group.is_some() && **other == group).count();
    if group.is_some() && same >= limits.per_address_max { Err(LimitReached::PerAddress) } else { Ok(()) }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn admission_matches_a_plain_list(
        total_max in 0usize..8,
        per_address_max in 0usize..4,
        steps in prop::collection::vec((any::<bool>(), 0usize..ADDRESSES.len(), any::<prop::sample::Index>()), 0..60),
    ) {
        let limits = ConnectionLimits { total_max, per_address_max };
        let connections = Connections::new(limits);
        let mut admitted: Vec<Option<String>> = Vec::new();
        let mut permits: Vec<ConnectionPermit> = Vec::new();
        for (begins, address, ending) in steps {
            let address = ADDRESSES[address];
            if begins || admitted.is_empty() {
                let outcome = connections.admit(&Peer::network(address.parse().expect("an address")));
                let found = outcome.as_ref().map(drop).map_err(|error| *error);
                prop_assert_eq!(found, expected(&admitted, address, limits));
                if let Ok(permit) = outcome {
                    permits.push(permit);
                    admitted.push(counted(address));
                }
            } else {
                let position = ending.index(admitted.len());
                admitted.remove(position);
                permits.remove(position);
            }
            prop_assert_eq!(connections.count(), admitted.len());
        }
    }
}

#[test]
fn refusal_names_the_reached_limit() {
    assert_eq!(LimitReached::Total.to_string(), "too many connections to this server");
    assert_eq!(LimitReached::PerAddress.to_string(), "too many connections from your address");
}
