//! End-to-end tests of mail routing by MX records, with two servers and a test name server between them.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use serde_json::json;

use crate::{TestFolder, collect};

const MX: u16 = 15;
const A: u16 = 1;

/// The records of the name server: the data of one record by name and type. All other names do not exist.
type Zone = HashMap<(&'static str, u16), Vec<u8>>;

/// Encodes a name in the DNS wire format.
fn packed(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    labels.chain([0]).collect()
}

fn mx(preference: u16, host: &str) -> Vec<u8> {
    [&preference.to_be_bytes()[..], &packed(host)].concat()
}

/// Answers one query (RFC 1035 §4) with the header, the question, and the record if there is one.
fn answer(zone: &Zone, query: &[u8]) -> Vec<u8> {
    let mut name = Vec::new();
    let mut position = 12;
    while query[position] != 0 {
        let length = usize::from(query[position]);
        name.push(String::from_utf8_lossy(&query[position + 1..=position + length]).to_lowercase());
        position += length + 1;
    }
    let name = name.join(".");
    let question = &query[12..position + 5];
    let kind = u16::from_be_bytes([query[position + 1], query[position + 2]]);
    let record = zone.iter().find(|((known, of_kind), _)| *known == name && *of_kind == kind).map(|(_, data)| data);
    let exists = zone.keys().any(|(known, _)| *known == name);
    let mut packet = query[..2].to_vec();
    packet.extend([0x85, if exists { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(record.is_some()), 0, 0, 0, 0]);
    packet.extend(question);
    if let Some(data) = record {
        packet.extend([0xC0, 12]);
        packet.extend(kind.to_be_bytes());
        packet.extend([0, 1, 0, 0, 0, 60]);
        packet.extend((data.len() as u16).to_be_bytes());
        packet.extend(data);
    }
    packet
}

/// Starts a name server that runs until the tests end.
fn name_server(zone: Zone) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback port");
    let address = socket.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let mut buffer = [0; 1_500];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&answer(&zone, &buffer[..length]), from);
        }
    });
    address
}

#[test]
fn mail_is_routed_by_mx_records() {
    let mut other = TestFolder::with_people_of("other.example", &["dora@other.example"]);
    other.options.extend(["--set".to_owned(), "server.name=mx.other.example".to_owned()]);
    let there = other.serve();
    let zone = Zone::from([
        (("other.example", MX), mx(10, "mx.other.example")),
        (("mx.other.example", A), Ipv4Addr::LOCALHOST.octets().to_vec()),
        (("null.example", MX), vec![0, 0, 0]),
    ]);
    let mut folder = TestFolder::with_people(&["ann@acme.test"]);
    let (_, port) = there.listeners["smtp"].rsplit_once(':').expect("an address has a port");
    let settings = [format!("server.name_servers={}", name_server(zone)), format!("router.port={port}")];
    let fixed = ["log.filter=mail=debug", "router.special_networks=127.0.0.0/8"].map(str::to_owned);
    for setting in settings.into_iter().chain(fixed) {
        folder.options.extend(["--set".to_owned(), setting]);
    }
    let mut here = folder.serve();
    let mut smtp = here.submission();
    smtp.ask("MAIL FROM:<ann@acme.test>", "250 ");
    for to in ["dora@other.example", "x@null.example", "y@nowhere.example"] {
        smtp.ask(&format!("RCPT TO:<{to}>"), "250 ");
    }
    smtp.ask("DATA", "354 ");
    smtp.ask("From: ann@acme.test\r\nSubject: by MX\r\n\r\nHello Dora.\r\n.", "250 ");
    for _ in 0..3 {
        here.wait_for_log("settled");
    }
    let arrived = collect(&there, "dora@other.example");
    assert!(arrived.len() == 1 && arrived[0].contains("Subject: by MX"), "{arrived:?}");
    let reports = collect(&here, "ann@acme.test").concat();
    for (address, status) in [("x@null.example", "5.1.10"), ("y@nowhere.example", "5.1.2")] {
        let wanted = format!("Final-Recipient: rfc822; {address}\nAction: failed\nStatus: {status}\n");
        assert!(reports.contains(&wanted), "{wanted}{reports}");
    }
    assert!(!reports.contains("Diagnostic-Code"), "no server has replied: {reports}");
    assert_eq!(folder.json(&["queue", "list"]), json!([]));
    here.stop();
    there.stop();
}
