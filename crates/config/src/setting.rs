//! The types of configuration values.
//!
//! Each type parses one text from the file, or several texts for a list. It describes in one sentence what is wrong
//! with them, and formats a value in the form that it parses. [`Setting::number_range`] makes a value comparable with
//! the bounds of its key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use super::units::{ByteSize, ConfigDuration};

/// A value of the configuration.
pub trait Setting: Sized {
    /// The name of this type in the documentation.
    const KIND: &'static str;

    /// Parses the value from one text.
    fn read(text: &str) -> Result<Self, String>;

    /// Parses the value from the texts of a list.
    fn read_list(texts: &[String]) -> Result<Self, String> {
        match texts {
            [one] => Self::read(one),
            _ => Err("this key takes one value, not a list".to_owned()),
        }
    }

    /// Formats the value in the form that it has in the file.
    fn show(&self) -> String;

    /// Returns the smallest and the largest number in the value, or `None` if the value contains no number.
    fn number_range(&self) -> Option<(u128, u128)> {
        None
    }
}

impl Setting for bool {
    const KIND: &'static str = "true or false";

    fn read(text: &str) -> Result<Self, String> {
        match text {
            "true" | "on" | "yes" => Ok(true),
            "false" | "off" | "no" => Ok(false),
            _ => Err(format!("{text:?} is neither true nor false")),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for u64 {
    const KIND: &'static str = "number";

    fn read(text: &str) -> Result<Self, String> {
        text.replace('_', "").parse().map_err(|_| format!("{text:?} is not a whole number"))
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number_range(&self) -> Option<(u128, u128)> {
        Some((u128::from(*self), u128::from(*self)))
    }
}

impl Setting for String {
    const KIND: &'static str = "text";

    fn read(text: &str) -> Result<Self, String> {
        Ok(text.trim().to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Setting for ByteSize {
    const KIND: &'static str = "size";

    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number_range(&self) -> Option<(u128, u128)> {
        Some((u128::from(self.0), u128::from(self.0)))
    }
}

impl Setting for ConfigDuration {
    const KIND: &'static str = "duration";

    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number_range(&self) -> Option<(u128, u128)> {
        Some((self.0.as_millis(), self.0.as_millis()))
    }
}

/// A number that depends on the machine unless it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoCount {
    /// Chosen when the server starts.
    Auto,
    /// Set explicitly.
    Set(u64),
}

impl AutoCount {
    /// Returns the number that was set, or else the result of `decide`.
    pub fn unwrap_or_else(self, decide: impl FnOnce() -> u64) -> usize {
        let count = match self {
            Self::Auto => decide(),
            Self::Set(count) => count,
        };
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

impl Setting for AutoCount {
    const KIND: &'static str = "number or auto";

    fn read(text: &str) -> Result<Self, String> {
        if text == "auto" { Ok(Self::Auto) } else { u64::read(text).map(Self::Set) }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Set(count) => count.to_string(),
        }
    }

    fn number_range(&self) -> Option<(u128, u128)> {
        match self {
            Self::Auto => None,
            Self::Set(count) => count.number_range(),
        }
    }
}

/// A size that other keys decide, unless it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoSize(pub Option<ByteSize>);

impl Setting for AutoSize {
    const KIND: &'static str = "size or auto";

    fn read(text: &str) -> Result<Self, String> {
        if text == "auto" { Ok(Self(None)) } else { ByteSize::parse(text).map(|size| Self(Some(size))) }
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| "auto".to_owned(), |size| size.to_string())
    }

    fn number_range(&self) -> Option<(u128, u128)> {
        self.0.and_then(|size| size.number_range())
    }
}

/// An optional path of a file or folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptionalPath(pub Option<PathBuf>);

impl Setting for OptionalPath {
    const KIND: &'static str = "path";

    fn read(text: &str) -> Result<Self, String> {
        Ok(Self((!text.is_empty()).then(|| PathBuf::from(text))))
    }

    fn show(&self) -> String {
        self.0.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

impl Setting for PathBuf {
    const KIND: &'static str = "path";

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("the path must not be empty".to_owned()) } else { Ok(Self::from(text)) }
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

/// An optional server: its host name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptionalHost(pub Option<(String, u16)>);

impl OptionalHost {
    /// Splits `host`, `host:port`, `[address]` or `[address]:port`. The default port is 25.
    fn split(text: &str) -> Option<(String, u16)> {
        let (name, port, is_name) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                address.parse::<IpAddr>().ok()?;
                (address, port.strip_prefix(':').unwrap_or(if port.is_empty() { "25" } else { "" }), true)
            }
            None => {
                let (name, port) = text.split_once(':').unwrap_or((text, "25"));
                (name, port, is_host_name(name))
            }
        };
        let port = port.parse().ok().filter(|port| *port != 0)?;
        is_name.then(|| (name.to_owned(), port))
    }
}

impl Setting for OptionalHost {
    const KIND: &'static str = "host, host:port or [address]:port";

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let host = Self::split(text);
        host.map(|host| Self(Some(host))).ok_or_else(|| {
            format!("{text:?} is not a server; write smtp.example.net, smtp.example.net:587 or [2001:db8::1]:25")
        })
    }

    fn show(&self) -> String {
        match &self.0 {
            None => String::new(),
            Some((address, port)) if address.contains(':') => format!("[{address}]:{port}"),
            Some((name, port)) => format!("{name}:{port}"),
        }
    }
}

/// Returns `true` if the text can be the name of a host or a domain in ASCII.
#[must_use]
pub fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// The addresses at which a listener listens; empty if it is off.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenAddresses(pub Vec<BindAddress>);

/// One address to listen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindAddress {
    /// All addresses of the machine, IPv6 and IPv4, with this port.
    AllAddresses(u16),
    /// One address and port.
    Address(SocketAddr),
}

impl BindAddress {
    fn parse(text: &str) -> Result<Self, String> {
        let complaint = || format!("{text:?} is not an address; write 127.0.0.1:25, [::1]:25, *:25 or off");
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("*", text));
        let port: u16 = port.parse().map_err(|_| complaint())?;
        match host {
            "*" => Ok(Self::AllAddresses(port)),
            "localhost" => Ok(Self::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))),
            _ => Err(complaint()),
        }
    }

    /// Returns the addresses to try, in order. The first one that can be bound is sufficient.
    #[must_use]
    pub fn socket_addresses(self) -> Vec<SocketAddr> {
        match self {
            Self::Address(address) => vec![address],
            Self::AllAddresses(port) => {
                vec![
                    (IpAddr::from(Ipv6Addr::UNSPECIFIED), port).into(),
                    (IpAddr::from(Ipv4Addr::UNSPECIFIED), port).into(),
                ]
            }
        }
    }

    /// Returns `true` if the two cannot be bound at the same time.
    #[must_use]
    pub fn conflicts_with(self, other: Self) -> bool {
        let port = |bind: Self| match bind {
            Self::AllAddresses(port) => port,
            Self::Address(address) => address.port(),
        };
        let overlap = match (self, other) {
            (Self::Address(one), Self::Address(two)) => {
                let unspecified = one.ip().is_unspecified() || two.ip().is_unspecified();
                one.ip() == two.ip() || (unspecified && one.is_ipv4() == two.is_ipv4())
            }
            _ => true,
        };
        port(self) != 0 && port(self) == port(other) && overlap
    }

    /// Returns `true` if only this machine can reach the address.
    #[must_use]
    pub fn is_loopback(self) -> bool {
        matches!(self, Self::Address(address) if address.ip().is_loopback())
    }
}

impl Setting for ListenAddresses {
    const KIND: &'static str = "address, list of addresses or off";

    fn read(text: &str) -> Result<Self, String> {
        if matches!(text, "off" | "false") {
            return Ok(Self::default());
        }
        text.split(',').map(|part| BindAddress::parse(part.trim())).collect::<Result<_, _>>().map(Self)
    }

    fn read_list(texts: &[String]) -> Result<Self, String> {
        match texts {
            [one] => Self::read(one),
            _ => texts.iter().map(|text| BindAddress::parse(text)).collect::<Result<_, _>>().map(Self),
        }
    }

    fn show(&self) -> String {
        if self.0.is_empty() {
            return "off".to_owned();
        }
        let shown = self.0.iter().map(|bind| match bind {
            BindAddress::AllAddresses(port) => format!("*:{port}"),
            BindAddress::Address(address) => address.to_string(),
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// Networks, each an address and the number of its first bits that all addresses of the network share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkList(pub Vec<(IpAddr, u8)>);

impl NetworkList {
    /// Parses an address, or an address with the length of its prefix.
    fn parse_network(text: &str) -> Result<(IpAddr, u8), String> {
        Self::split(text).ok_or_else(|| {
            format!("{text:?} is not a network; write 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32, separated by commas")
        })
    }

    fn split(text: &str) -> Option<(IpAddr, u8)> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        // An IPv4 address that is mapped into IPv6 would never match: peers are compared by their IPv4 addresses.
        let address = address.parse::<IpAddr>().ok().filter(|address| address.to_canonical() == *address)?;
        let bits_max = address_bits(address);
        let prefix_bits = match prefix {
            Some(prefix) => prefix.parse().ok().filter(|bits| *bits <= bits_max)?,
            None => bits_max,
        };
        Some((address, prefix_bits))
    }
}

impl Setting for NetworkList {
    const KIND: &'static str = "network or list of networks";

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        text.split(',').map(|part| Self::parse_network(part.trim())).collect::<Result<_, _>>().map(Self)
    }

    fn read_list(texts: &[String]) -> Result<Self, String> {
        match texts {
            [one] => Self::read(one),
            _ => texts.iter().map(|text| Self::parse_network(text)).collect::<Result<_, _>>().map(Self),
        }
    }

    fn show(&self) -> String {
        let shown = self.0.iter().map(|(address, prefix_bits)| {
            if *prefix_bits == address_bits(*address) {
                address.to_string()
            } else {
                format!("{address}/{prefix_bits}")
            }
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the length of an address in bits.
fn address_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// An optional path of a local socket. A relative path is resolved in the data folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenPath(pub Option<PathBuf>);

impl Setting for ListenPath {
    const KIND: &'static str = "path or off";

    fn read(text: &str) -> Result<Self, String> {
        Ok(Self((!matches!(text, "off" | "false" | "")).then(|| PathBuf::from(text))))
    }

    fn show(&self) -> String {
        self.0.as_ref().map_or_else(|| "off".to_owned(), |path| path.display().to_string())
    }
}

/// Defines an enum whose variants are written as words in the file, and implements [`Setting`] for it.
macro_rules! words {
    ($(#[$doc:meta])* $Name:ident { $($(#[$variant_doc:meta])* $Variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Name {
            $($(#[$variant_doc])* $Variant,)+
        }

        impl Setting for $Name {
            const KIND: &'static str = concat!("one of", $(" `", $word, "`",)+);

            fn read(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$Variant),)+
                    _ => Err(format!("{text:?} is not {}", Self::KIND.replace('`', ""))),
                }
            }

            fn show(&self) -> String {
                match self {
                    $(Self::$Variant => $word,)+
                }
                .to_owned()
            }
        }
    };
}

words!(
    /// The format of log lines.
    LogFormat {
        /// Text for people to read.
        Human = "human",
        /// One JSON object per line.
        Json = "json",
    }
);

words!(
    /// The lowest severity that is logged.
    LogLevel {
        /// Errors that need the operator's attention.
        Error = "error",
        /// Also conditions that may become errors.
        Warn = "warn",
        /// Also events of normal operation.
        Info = "info",
        /// Also the causes of events.
        Debug = "debug",
        /// Also wire-level detail.
        Trace = "trace",
    }
);

words!(
    /// The point at which a change counts as durable.
    SyncMode {
        /// A change is durable when it is on disk, synced together with the changes of other writers.
        Group = "group",
        /// A change is durable when it is on disk, with a separate sync for each change. For comparison only.
        Each = "each",
        /// A change counts as durable at once, without a sync. The most recent changes are lost if the machine stops.
        /// For comparison and tests only.
        Off = "off",
    }
);

words!(
    /// The store's priority: few checkpoints or a fast restart.
    Favor {
        /// Few checkpoints; a restart after a crash reads much of the log.
        Runtime = "runtime",
        /// A compromise between the two.
        Standard = "standard",
        /// Many checkpoints; a restart after a crash is fast.
        Restart = "restart",
    }
);

words!(
    /// The codec of a part of the store's tables.
    TableCodec {
        /// LZ4, and Zstandard in the last level.
        Auto = "auto",
        /// None.
        None = "none",
        /// LZ4.
        Lz4 = "lz4",
        /// Zstandard.
        Zstd = "zstd",
    }
);

words!(
    /// The codec of attachments.
    BlobCodec {
        /// Zstandard.
        Zstd = "zstd",
        /// LZ4.
        Lz4 = "lz4",
        /// None.
        None = "none",
    }
);

words!(
    /// The reaction to a log that has lost acknowledged changes.
    DamagedLog {
        /// The server does not start.
        Refuse = "refuse",
        /// The server starts without the changes after the damage.
        DropTail = "drop-tail",
    }
);

words!(
    /// The update schedule of a full-text index.
    IndexSchedule {
        /// There is no index.
        Off = "off",
        /// Soon after each change.
        Immediate = "immediate",
        /// Every hour.
        Hourly = "hourly",
        /// Once a day.
        Daily = "daily",
    }
);

words!(
    /// The sender addresses that users may use.
    SenderPolicy {
        /// Their own: addresses, aliases, and both with a detail (`user+detail`).
        Own = "own",
        /// All addresses. For programs that send on behalf of others.
        Any = "any",
    }
);

words!(
    /// The handling of mail from outside whose sender or author is in a local domain.
    LocalSenderPolicy {
        /// It is accepted only if SPF or a signature of the domain passes.
        Verified = "verified",
        /// It is accepted.
        Any = "any",
    }
);

words!(
    /// The use of SPF, DKIM and DMARC for incoming mail.
    AuthenticationPolicy {
        /// They are not checked.
        Off = "off",
        /// The results are recorded in the message.
        Record = "record",
        /// The results are recorded, and a message is rejected if the policy of the sender's domain asks for it.
        Enforce = "enforce",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, binds: usize, shown: &str) {
        let listen = ListenAddresses::read(text).expect("an address");
        assert_eq!((listen.0.len(), listen.show().as_str()), (binds, shown));
        assert_eq!(ListenAddresses::read(shown), Ok(listen));
    }

    #[test]
    fn listen_addresses_are_parsed_in_every_form() {
        check("off", 0, "off");
        check("*:25", 1, "*:25");
        check("25", 1, "*:25");
        check("localhost:1025", 1, "127.0.0.1:1025");
        check("127.0.0.1:0, [::1]:0", 2, "127.0.0.1:0, [::1]:0");
        let list = ListenAddresses::read_list(&["*:25".to_owned(), "127.0.0.1:1025".to_owned()]);
        assert_eq!(list.map(|listen| listen.0.len()), Ok(2));
    }

    #[test]
    fn invalid_listen_address_is_refused_with_an_example() {
        for text in ["", "mail.test:25", "127.0.0.1", "127.0.0.1:99999", "[::1]", "*", "x"] {
            let refused = ListenAddresses::read(text).expect_err("no address");
            assert!(refused.contains("127.0.0.1:25"), "{refused}");
        }
    }

    #[test]
    fn smart_host_is_split_into_host_and_port() {
        let check = |text: &str, expected: Option<(&str, u16)>| {
            let host = OptionalHost::read(text).expect("a server");
            assert_eq!(host.0.as_ref().map(|(name, port)| (name.as_str(), *port)), expected, "{text}");
            assert_eq!(OptionalHost::read(&host.show()), Ok(host));
        };
        check("", None);
        check("smtp.example.net", Some(("smtp.example.net", 25)));
        check("smtp.example.net:587", Some(("smtp.example.net", 587)));
        check("192.0.2.1", Some(("192.0.2.1", 25)));
        check("[2001:db8::1]", Some(("2001:db8::1", 25)));
        check("[2001:db8::1]:465", Some(("2001:db8::1", 465)));
        for text in [":25", "host:port", "host:0", "[::1", "[::1]x", "[host]", "a b:25", "::::", "-a", "a..b"] {
            assert!(OptionalHost::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn networks_are_addresses_with_or_without_a_prefix() {
        let check = |text: &str, expected: &[(&str, u8)], shown: &str| {
            let networks = NetworkList::read(text).expect("networks");
            let parse = |(address, bits): &(&str, u8)| (address.parse().expect("an address"), *bits);
            assert_eq!(networks.0, expected.iter().map(parse).collect::<Vec<_>>(), "{text}");
            assert_eq!(networks.show(), shown);
            assert_eq!(NetworkList::read(shown), Ok(networks));
        };
        check("", &[], "");
        check("192.0.2.1", &[("192.0.2.1", 32)], "192.0.2.1");
        check("10.0.0.0/8,2001:db8::/32", &[("10.0.0.0", 8), ("2001:db8::", 32)], "10.0.0.0/8, 2001:db8::/32");
        check("0.0.0.0/0, ::1/128", &[("0.0.0.0", 0), ("::1", 128)], "0.0.0.0/0, ::1");
        let list = NetworkList::read_list(&["10.0.0.0/8".to_owned(), "::1".to_owned()]);
        assert_eq!(list.map(|networks| networks.0.len()), Ok(2));
        for text in ["host", "10.0.0.0/33", "::1/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8", ",", "::ffff:10.0.0.1"] {
            let refused = NetworkList::read(text).expect_err("no network");
            assert!(refused.contains("10.0.0.0/8"), "{refused}");
        }
    }

    #[test]
    fn overlapping_addresses_collide() {
        let check = |one: &str, two: &str, expected: bool| {
            let bind = |text| ListenAddresses::read(text).expect("an address").0[0];
            assert_eq!(
                (bind(one).conflicts_with(bind(two)), bind(two).conflicts_with(bind(one))),
                (expected, expected),
                "{one} {two}"
            );
        };
        check("*:25", "*:25", true);
        check("*:25", "127.0.0.1:25", true);
        check("0.0.0.0:25", "127.0.0.1:25", true);
        check("0.0.0.0:25", "[::1]:25", false);
        check("127.0.0.1:25", "127.0.0.2:25", false);
        check("*:25", "*:26", false);
        check("*:0", "*:0", false);
    }

    #[test]
    fn invalid_word_is_refused_with_the_alternatives() {
        assert_eq!(SyncMode::read("group"), Ok(SyncMode::Group));
        assert_eq!(SyncMode::read("never"), Err("\"never\" is not one of group each off".to_owned()));
        assert_eq!(Favor::Restart.show(), "restart");
    }
}
