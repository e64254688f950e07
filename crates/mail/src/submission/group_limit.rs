//! The number of deliveries to members of groups that one sender causes within an hour.
//!
//! One message to a large group is delivered thousands of times. So a sender who repeats it could occupy the server
//! with little effort of its own. Only members of groups count: recipients that the sender names one by one are limited
//! by the rate at which it can name them.
//!
//! The sender is the user, or the network address of a client that has not logged in (IPv6: its /64). Clients on this
//! machine and front-end servers (LMTP) pass on the mail of many senders and are not counted. At most
//! [`GROUP_SENDERS_MAX`] senders are kept, in memory.

use std::net::IpAddr;
use std::time::Duration;

use base::lru_map::LruMap;
use base::networks::peer_network;
use base::sync::Mutex;

use crate::hourly_rate::HourlyRate;
use crate::limits::{GROUP_SENDERS_MAX, GROUP_TARGETS_PER_HOUR_MAX};
use crate::submission::{Origin, ReceivedProtocol};

/// A sender whose deliveries are counted.
#[derive(Clone, PartialEq, Eq, Hash)]
enum GroupSender {
    User(String),
    Network(IpAddr),
}

impl GroupSender {
    /// Returns the sender of a message, or `None` if it is not counted.
    fn of(origin: &Origin) -> Option<Self> {
        if origin.protocol == ReceivedProtocol::Lmtp {
            return None;
        }
        if let Some(login) = &origin.login {
            return Some(Self::User(login.clone()));
        }
        let address = origin.ip().to_canonical();
        (!address.is_loopback()).then(|| Self::Network(peer_network(address)))
    }
}

/// Counts the deliveries of all senders.
pub(crate) struct GroupLimit {
    senders: Mutex<LruMap<GroupSender, HourlyRate>>,
}

impl Default for GroupLimit {
    fn default() -> Self {
        Self { senders: Mutex::new(LruMap::new(GROUP_SENDERS_MAX)) }
    }
}

impl GroupLimit {
    /// Counts deliveries to `targets` members of groups, at a monotonic time. Returns `false` if they are too many.
    pub(crate) fn admit(&self, origin: &Origin, targets: usize, now: Duration) -> bool {
        let Some(sender) = GroupSender::of(origin).filter(|_| targets > 0) else { return true };
        let mut senders = self.senders.lock();
        let rate = senders.entry(&sender);
        match rate.after(targets as u64, GROUP_TARGETS_PER_HOUR_MAX, now) {
            Some(after) => {
                *rate = after;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = GROUP_TARGETS_PER_HOUR_MAX as usize;

    fn origin(protocol: ReceivedProtocol, address: Option<&str>, login: Option<&str>) -> Origin {
        let peer = address.map(|address| (address.parse::<IpAddr>().expect("an address"), 4_000).into());
        Origin { protocol, peer, login: login.map(str::to_owned) }
    }

    fn smtp(address: &str, login: Option<&str>) -> Origin {
        origin(ReceivedProtocol::Esmtp, Some(address), login)
    }

    #[test]
    fn senders_are_counted_by_account_or_network() {
        let limit = GroupLimit::default();
        let now = Duration::from_secs(9);
        let admits = |origin: &Origin, targets| limit.admit(origin, targets, now);
        assert!(admits(&smtp("192.0.2.1", Some("ann")), MANY));
        assert!(!admits(&smtp("192.0.2.2", Some("ann")), 1), "the address of a user does not matter");
        assert!(admits(&smtp("192.0.2.1", Some("ann")), 0));
        assert!(admits(&smtp("192.0.2.1", Some("bob")), MANY));
        assert!(admits(&smtp("192.0.2.1", None), MANY));
        assert!(!admits(&smtp("192.0.2.1", None), 1));
        assert!(admits(&smtp("192.0.2.2", None), 1));
        assert!(admits(&smtp("2001:db8::1", None), MANY));
        assert!(!admits(&smtp("2001:db8::2", None), 1), "the same /64");
        assert!(admits(&smtp("2001:db8:0:1::1", None), 1));
        assert!(limit.admit(&smtp("192.0.2.1", Some("ann")), MANY, now + Duration::from_hours(1)));
    }

    #[test]
    fn clients_that_pass_on_mail_are_not_counted() {
        let limit = GroupLimit::default();
        for origin in [
            smtp("127.0.0.1", None),
            smtp("::1", None),
            origin(ReceivedProtocol::Esmtp, None, None),
            origin(ReceivedProtocol::Lmtp, Some("192.0.2.1"), None),
        ] {
            assert!(limit.admit(&origin, MANY, Duration::ZERO) && limit.admit(&origin, MANY, Duration::ZERO));
        }
    }
}
