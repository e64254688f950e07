//! The client side of a line-based connection with TLS.

use sasl::{ChannelBinding, ChannelBindingType};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use wire::{ClientTls, Stream};

/// A connection after the handshake.
pub(crate) struct TlsDialogue {
    stream: Stream,
    received_bytes: Vec<u8>,
    /// The runtime of the stream. It is dropped after the stream.
    runtime: Runtime,
}

impl TlsDialogue {
    /// Connects and performs the handshake, at once or after the plaintext dialogue `start`: lines to send, each with a
    /// text that the reply contains.
    pub(crate) fn connect(address: &str, start: &[(&str, &str)]) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let stream = runtime.block_on(async {
            let mut stream = Stream::tcp(TcpStream::connect(address).await.expect("it listens"));
            for (line, awaited) in start {
                let mut received = Vec::new();
                stream.write_all(line.as_bytes()).await.expect("the server reads");
                while !String::from_utf8_lossy(&received).contains(awaited) {
                    assert_ne!(stream.receive(&mut received).await.expect("the server answers"), 0, "{awaited}");
                }
            }
            let trust = ClientTls::opportunistic().expect("valid settings");
            stream.connect_tls(&trust, "mail.acme.test").await.expect("a handshake")
        });
        Self { stream, received_bytes: Vec::new(), runtime }
    }

    /// Reads a line.
    pub(crate) fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received_bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received_bytes.drain(..=end).collect();
                return String::from_utf8(line).expect("text").trim_end().to_owned();
            }
            let received = self.runtime.block_on(self.stream.receive(&mut self.received_bytes));
            assert_ne!(received.expect("the server answers"), 0, "the server closed the connection");
        }
    }

    /// Sends a line.
    pub(crate) fn say(&mut self, text: &str) {
        let Self { stream, runtime, .. } = self;
        let line = format!("{text}\r\n");
        let sent = runtime.block_on(async {
            stream.write_all(line.as_bytes()).await?;
            stream.flush().await
        });
        sent.expect("the server reads");
    }

    /// Returns the data of a channel binding, as the client computes it.
    pub(crate) fn channel_binding(&self, binding_type: ChannelBindingType) -> Vec<u8> {
        let bindings = self.stream.channel_bindings();
        let found = bindings.iter().find(|binding| binding.binding_type() == binding_type);
        found.map(ChannelBinding::data).expect("TLS 1.3 has it").to_vec()
    }
}
