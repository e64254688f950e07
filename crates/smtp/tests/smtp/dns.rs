//! A name server on loopback with a zone in memory, queried by the resolver under test.
//!
//! A name that is in the zone without the requested type has no records. Any other name does not exist. Names with a
//! label `broken` get SERVFAIL. A [`silent_resolver`] name server never replies.

use std::net::{IpAddr, SocketAddr};

use mail_auth::hickory_resolver::proto::op::{Message, ResponseCode};
use mail_auth::hickory_resolver::proto::rr::rdata::{A, AAAA, MX, TXT};
use mail_auth::hickory_resolver::proto::rr::{Name, RData, Record};
use smtp::dns::{LookupError, MailExchanger, Resolver};
use tokio::net::UdpSocket;

/// A zone.
#[derive(Clone, Default)]
pub struct Zone {
    records: Vec<(String, RData)>,
}

impl Zone {
    pub fn mx(mut self, name: &str, preference: u16, exchange: &str) -> Self {
        self.records.push((name.to_owned(), RData::MX(MX::new(preference, absolute(exchange)))));
        self
    }

    pub fn host(mut self, name: &str, address: &str) -> Self {
        let data = match address.parse().expect("an address") {
            IpAddr::V4(address) => RData::A(A(address)),
            IpAddr::V6(address) => RData::AAAA(AAAA(address)),
        };
        self.records.push((name.to_owned(), data));
        self
    }

    pub fn txt(mut self, name: &str, text: &str) -> Self {
        let pieces = text.as_bytes().chunks(255).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
        self.records.push((name.trim_end_matches('.').to_owned(), RData::TXT(TXT::new(pieces))));
        self
    }

    /// Starts the name server and returns a resolver that queries it.
    pub async fn serve(self) -> Resolver {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a loopback port");
        let address: SocketAddr = socket.local_addr().expect("bound");
        tokio::spawn(async move {
            let mut buffer = [0; 1_500];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let answer = self.answer(&buffer[..length]);
                let _ = socket.send_to(&answer, from).await;
            }
        });
        Resolver::with_servers(&[address]).expect("a resolver")
    }

    fn answer(&self, query: &[u8]) -> Vec<u8> {
        let query = Message::from_vec(query).expect("the query is valid");
        let question = query.queries()[0].clone();
        let name = question.name().to_lowercase().to_ascii().trim_end_matches('.').to_owned();
        let mut message = Message::response(query.id(), query.op_code());
        message.add_query(question.clone()).set_recursion_available(true);
        let known: Vec<&RData> =
            self.records.iter().filter(|(known, _)| known.eq_ignore_ascii_case(&name)).map(|(_, data)| data).collect();
        message.set_response_code(match known.as_slice() {
            _ if name.split('.').any(|label| label == "broken") => ResponseCode::ServFail,
            [] => ResponseCode::NXDomain,
            _ => ResponseCode::NoError,
        });
        for data in known.into_iter().filter(|data| data.record_type() == question.query_type()) {
            message.add_answer(Record::from_rdata(question.name().clone(), 60, data.clone()));
        }
        message.to_vec().expect("the answer can be written")
    }
}

/// Returns a resolver that queries a name server which never replies, and the socket that keeps its port open.
pub async fn silent_resolver() -> (Resolver, UdpSocket) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = socket.local_addr().expect("bound");
    (Resolver::with_servers(&[address]).expect("a resolver"), socket)
}

fn absolute(name: &str) -> Name {
    Name::from_ascii(format!("{}.", name.trim_end_matches('.'))).expect("a name")
}

#[tokio::test]
async fn lookups_return_records_or_one_of_three_errors() {
    let zone = Zone::default()
        .mx("b.example", 20, "two.b.example")
        .mx("b.example", 10, "ONE.b.example")
        .mx("null.example", 0, ".")
        .host("one.b.example", "192.0.2.1")
        .host("one.b.example", "2001:db8::1")
        .host("xn--mller-kva.example", "192.0.2.2");
    let resolver = zone.serve().await;
    let exchanger = |preference, name: &str| MailExchanger { preference, name: name.to_owned() };
    let found = resolver.exchangers("b.example").await;
    assert_eq!(found, Ok(vec![exchanger(10, "one.b.example"), exchanger(20, "two.b.example")]));
    assert_eq!(resolver.exchangers("null.example").await, Ok(vec![exchanger(0, "")]));
    assert_eq!(resolver.exchangers("one.b.example").await, Err(LookupError::NoRecords));
    assert_eq!(resolver.exchangers("nowhere.example").await, Err(LookupError::NoSuchDomain));
    assert!(matches!(resolver.exchangers("broken.example").await, Err(LookupError::Temporary(_))));
    let addresses: Vec<IpAddr> = vec!["2001:db8::1".parse().expect("valid"), "192.0.2.1".parse().expect("valid")];
    assert_eq!(resolver.addresses("one.b.example").await, Ok(addresses));
    assert_eq!(resolver.addresses("müller.example").await, Ok(vec!["192.0.2.2".parse().expect("valid")]));
    assert_eq!(resolver.addresses("b.example").await, Err(LookupError::NoRecords));
    assert!(matches!(resolver.addresses("a.broken.example").await, Err(LookupError::Temporary(_))));
}
