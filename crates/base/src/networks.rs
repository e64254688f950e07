//! Networks: an IP address with the number of its first bits that all addresses of the network share (RFC 4632).
//!
//! IPv4 addresses mapped into IPv6 (`::ffff:192.0.2.1`) are compared as the IPv4 addresses that they stand for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

impl Network {
    /// Creates a network from an address in it and the length of its prefix. Bits after the prefix are ignored.
    #[must_use]
    pub const fn new(address: IpAddr, prefix_bits: u8) -> Self {
        Self { address, prefix_bits }
    }

    /// Creates an IPv4 network.
    #[must_use]
    pub const fn v4(octets: [u8; 4], prefix_bits: u8) -> Self {
        let [a, b, c, d] = octets;
        Self::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix_bits)
    }

    /// Creates an IPv6 network from the first half of its address. The other half is zero.
    #[must_use]
    pub const fn v6(segments: [u16; 4], prefix_bits: u8) -> Self {
        let [a, b, c, d] = segments;
        Self::new(IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)), prefix_bits)
    }

    /// Returns `true` if an address is in this network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (network, address) = match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => (left_aligned(network), left_aligned(address)),
            (IpAddr::V6(network), IpAddr::V6(address)) => (u128::from(network), u128::from(address)),
            _ => return false,
        };
        let mask = u128::MAX.checked_shl(u128::BITS.saturating_sub(u32::from(self.prefix_bits))).unwrap_or(0);
        (network ^ address) & mask == 0
    }
}

/// Returns the bits of an IPv4 address, so that prefixes have the same positions as in IPv6.
fn left_aligned(address: Ipv4Addr) -> u128 {
    u128::from(u32::from(address)) << (u128::BITS - u32::BITS)
}

/// Number of bits of an IPv6 address that identify the network of one customer. A single machine has all addresses of
/// such a network.
const PEER_PREFIX_BITS: u32 = 64;

/// Returns the address under which a peer is counted: that of an IPv4 peer, and the first address of the /64 of an IPv6
/// peer.
#[must_use]
pub fn peer_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address @ IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (u128::BITS - PEER_PREFIX_BITS))).into()
        }
    }
}

/// A set of networks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Networks {
    networks: Vec<Network>,
}

impl Networks {
    /// Returns `true` if an address is in one of the networks.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<T: IntoIterator<Item = Network>>(networks: T) -> Self {
        Self { networks: networks.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(network: (&str, u8), address: &str, is_in: bool) {
        let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
        let networks = Networks::from_iter([Network::new(parse(network.0), network.1)]);
        assert_eq!(networks.contains(parse(address)), is_in, "{address} in {network:?}");
    }

    #[test]
    fn addresses_are_compared_up_to_the_length_of_the_prefix() {
        check(("10.0.0.0", 8), "10.255.255.255", true);
        check(("10.0.0.0", 8), "11.0.0.0", false);
        check(("10.1.2.3", 8), "10.9.9.9", true);
        check(("192.0.2.128", 25), "192.0.2.127", false);
        check(("192.0.2.1", 32), "192.0.2.1", true);
        check(("192.0.2.1", 32), "192.0.2.0", false);
        check(("0.0.0.0", 0), "255.255.255.255", true);
        check(("2001:db8::", 32), "2001:db8:ffff::1", true);
        check(("2001:db8::", 32), "2001:db9::", false);
        check(("2001:db8::1", 128), "2001:db8::1", true);
        check(("2001:db8::1", 128), "2001:db8::3", false);
        check(("::", 0), "fe80::1", true);
    }

    #[test]
    fn families_are_distinct_except_for_mapped_addresses() {
        check(("0.0.0.0", 0), "::1", false);
        check(("::", 0), "192.0.2.1", false);
        check(("10.0.0.0", 8), "::ffff:10.1.2.3", true);
        check(("::", 0), "::ffff:10.1.2.3", false);
    }

    #[test]
    fn peers_are_counted_by_ipv4_address_or_by_the_first_half_of_an_ipv6_address() {
        let check = |address: &str, expected: &str| {
            let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
            assert_eq!(peer_network(parse(address)), parse(expected), "{address}");
        };
        check("192.0.2.7", "192.0.2.7");
        check("::ffff:192.0.2.7", "192.0.2.7");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
        check("2001:db8:1:3::", "2001:db8:1:3::");
    }

    #[test]
    fn empty_set_contains_nothing() {
        assert!(!Networks::default().contains(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
}
