//! Special-purpose IP addresses: those that are not the address of a host on the Internet.
//!
//! The networks are those of the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890), and those of
//! multicast and of deprecated forms. Some IPv6 addresses contain the IPv4 address to which their packets go:
//! IPv4-mapped addresses (RFC 4291 §2.5.5.2), NAT64 (RFC 6052) and 6to4 (RFC 3056). Such an address is special if the
//! contained one is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::networks::{Network, Networks};

/// The special networks, in the order of the registries.
const SPECIAL_NETWORKS: &[Network] = &[
    // This network (RFC 791).
    Network::v4([0, 0, 0, 0], 8),
    // Private use (RFC 1918).
    Network::v4([10, 0, 0, 0], 8),
    // Addresses shared by the customers of a provider (RFC 6598).
    Network::v4([100, 64, 0, 0], 10),
    // Loopback (RFC 1122).
    Network::v4([127, 0, 0, 0], 8),
    // Link-local (RFC 3927). The metadata services of cloud providers are here.
    Network::v4([169, 254, 0, 0], 16),
    // Private use (RFC 1918).
    Network::v4([172, 16, 0, 0], 12),
    // Assignments for protocols (RFC 6890).
    Network::v4([192, 0, 0, 0], 24),
    // Documentation (RFC 5737).
    Network::v4([192, 0, 2, 0], 24),
    // AS112 (RFC 7535).
    Network::v4([192, 31, 196, 0], 24),
    // Automatic multicast tunnels (RFC 7450).
    Network::v4([192, 52, 193, 0], 24),
    // Relays of 6to4, deprecated (RFC 7526).
    Network::v4([192, 88, 99, 0], 24),
    // Private use (RFC 1918).
    Network::v4([192, 168, 0, 0], 16),
    // AS112 (RFC 7534).
    Network::v4([192, 175, 48, 0], 24),
    // Benchmarks (RFC 2544).
    Network::v4([198, 18, 0, 0], 15),
    // Documentation (RFC 5737).
    Network::v4([198, 51, 100, 0], 24),
    Network::v4([203, 0, 113, 0], 24),
    // Multicast (RFC 5771).
    Network::v4([224, 0, 0, 0], 4),
    // Reserved (RFC 1112), with the limited broadcast address.
    Network::v4([240, 0, 0, 0], 4),
    // The unspecified address, loopback, and IPv4-compatible addresses, deprecated (RFC 4291).
    Network::v6([0, 0, 0, 0], 96),
    // NAT64 within a site (RFC 8215).
    Network::v6([0x64, 0xff9b, 1, 0], 48),
    // Discard-only, and the dummy prefix (RFC 6666, RFC 9780).
    Network::v6([0x100, 0, 0, 0], 63),
    // Assignments for protocols: Teredo, benchmarks, ORCHIDv2 and others (RFC 2928).
    Network::v6([0x2001, 0, 0, 0], 23),
    // Documentation (RFC 3849).
    Network::v6([0x2001, 0xdb8, 0, 0], 32),
    // AS112 (RFC 7534).
    Network::v6([0x2620, 0x4f, 0x8000, 0], 48),
    // Documentation (RFC 9637).
    Network::v6([0x3fff, 0, 0, 0], 20),
    // Segment routing (RFC 9602).
    Network::v6([0x5f00, 0, 0, 0], 16),
    // Unique local addresses (RFC 4193).
    Network::v6([0xfc00, 0, 0, 0], 7),
    // Link-local (RFC 4291), and site-local, deprecated (RFC 3879).
    Network::v6([0xfe80, 0, 0, 0], 9),
    // Multicast (RFC 4291).
    Network::v6([0xff00, 0, 0, 0], 8),
];

/// The prefix of addresses for NAT64 (RFC 6052), in the upper 96 bits. The rest is an IPv4 address.
const NAT64_PREFIX: u128 = 0x0064_ff9b << 64;

/// The prefix of 6to4 (RFC 3056). An IPv4 address follows.
const SIX_TO_FOUR_PREFIX: u128 = 0x2002;

/// Returns `true` if mail may be sent to an address: it is not special, or it is in one of the exceptions.
#[must_use]
pub fn is_permitted(address: IpAddr, exceptions: &Networks) -> bool {
    !is_special(address) || exceptions.contains(address)
}

/// Returns `true` if an address is special, or if it contains an IPv4 address that is.
fn is_special(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let contained = match address {
        IpAddr::V6(address) => contained_ipv4(address).map(IpAddr::V4),
        IpAddr::V4(_) => None,
    };
    let is_listed = |address: IpAddr| SPECIAL_NETWORKS.iter().any(|network| network.contains(address));
    is_listed(address) || contained.is_some_and(is_listed)
}

/// Returns the IPv4 address within an address of NAT64 or 6to4.
fn contained_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = u128::from(address);
    let contained = if bits >> 32 == NAT64_PREFIX {
        bits
    } else if bits >> 112 == SIX_TO_FOUR_PREFIX {
        bits >> 80
    } else {
        return None;
    };
    u32::try_from(contained & u128::from(u32::MAX)).ok().map(Ipv4Addr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(addresses: &[&str], expected: bool) {
        for text in addresses {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(is_special(address), expected, "{text}");
        }
    }

    #[test]
    fn networks_of_the_ipv4_registry_are_special() {
        check(&["0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255"], true);
        check(&["127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.0", "172.31.255.255"], true);
        check(&["192.0.0.0", "192.0.0.255", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1"], true);
        check(&["192.168.0.0", "192.168.255.255", "192.175.48.1", "198.18.0.0", "198.19.255.255"], true);
        check(&["198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"], true);
    }

    #[test]
    fn addresses_beside_those_networks_are_not_special() {
        check(&["1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"], false);
        check(&["128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0"], false);
        check(
            &["192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255"],
            false,
        );
    }

    #[test]
    fn networks_of_the_ipv6_registry_are_special() {
        check(&["::", "::1", "64:ff9b:1::1", "100::1", "100:0:0:1::1", "2001::1", "2001:2::1", "2001:20::1"], true);
        check(&["2001:1ff:ffff::", "2001:db8::1", "2620:4f:8000::1", "3fff::1", "3fff:fff:ffff::", "5f00::1"], true);
        check(&["fc00::1", "fdff::1", "fe80::1", "febf::1", "fec0::1", "ff02::1"], true);
        check(&["64:ff9b:2::1", "100:0:0:2::1", "2001:200::1", "2001:db9::1", "2620:4f:8001::1", "3fff:1000::"], false);
        check(&["2606:4700::1", "2a00::1", "5f01::1", "fb00::1", "fe00::1"], false);
    }

    #[test]
    fn exceptions_are_permitted() {
        let exceptions = Networks::from_iter([Network::v4([10, 1, 0, 0], 16)]);
        let is_permitted = |text: &str| is_permitted(text.parse().expect("an address"), &exceptions);
        assert!(is_permitted("10.1.2.3") && is_permitted("::ffff:10.1.2.3") && is_permitted("8.8.8.8"));
        assert!(!is_permitted("10.2.0.0") && !is_permitted("127.0.0.1") && !is_permitted("64:ff9b::10.1.2.3"));
    }

    #[test]
    fn contained_ipv4_addresses_are_examined() {
        check(&["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1"], true);
        check(&["64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1", "2002:a00:1::1", "2002:7f00:1::", "2002:c0a8:101::1"], true);
        check(&["::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"], false);
    }
}
