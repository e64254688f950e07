//! Connections whose protocol has lines: IMAP, SMTP, LMTP and POP3.
//!
//! What a server sends is foreign. A line has at most [`LINE_BYTES_MAX`] bytes unless the caller permits more, and a
//! content of announced length is read piece by piece; only its beginning is kept. So the memory of a connection is
//! bounded, whatever the server sends. A connection that waits for nothing holds no buffer of its own.

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use client::Traffic;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::call::{CONNECT_CODE, CONNECTION_CODE, CallError};

/// Maximum length of a line, its end included.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Maximum length of a content that a server announces.
pub const LITERAL_BYTES_MAX: u64 = 64 << 20;

/// The bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// Where a server is, how it is reached, and who counts the bytes.
#[derive(Debug, Clone)]
pub struct Place {
    way: Way,
    traffic: Traffic,
}

#[derive(Debug, Clone)]
enum Way {
    /// A host and port with TLS from the beginning, and the certificates that are trusted.
    Tls { address: String, config: Arc<ClientConfig> },
    /// A host and port, without encryption.
    Tcp(String),
    /// A local socket.
    Local(PathBuf),
}

impl Place {
    /// Creates the place of a host and port with TLS from the beginning. Bytes are counted by `traffic`.
    pub fn tls(address: &str, config: &Arc<ClientConfig>, traffic: &Traffic) -> Self {
        let way = Way::Tls { address: address.to_owned(), config: Arc::clone(config) };
        Self { way, traffic: traffic.clone() }
    }

    /// Creates the place of an address without encryption: the path of a local socket, or a host and port.
    pub fn unencrypted(address: &str, traffic: &Traffic) -> Self {
        let is_local = address.starts_with('/');
        let way = if is_local { Way::Local(PathBuf::from(address)) } else { Way::Tcp(address.to_owned()) };
        Self { way, traffic: traffic.clone() }
    }
}

/// What carries the bytes of a connection.
trait Transport: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Transport for T {}

/// A connection to a server.
pub struct LineConnection {
    transport: Box<dyn Transport>,
    /// Bytes that were received. Those before `start` are used.
    buffer: Vec<u8>,
    start: usize,
}

impl std::fmt::Debug for LineConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineConnection").field("unread", &self.unread().len()).finish()
    }
}

impl LineConnection {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// If there is no server, or if its certificate is not trusted.
    pub async fn connect(place: &Place) -> Result<Self, CallError> {
        let traffic = &place.traffic;
        match &place.way {
            Way::Tls { address, config } => {
                let socket = traffic.counted(connect_tcp(address).await?);
                let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let failed = |reason: &dyn std::fmt::Display| connect_error(address, reason);
                let name = ServerName::try_from(host).map_err(|error| failed(&error))?;
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(name, socket).await.map_err(|error| failed(&error))?;
                Ok(Self::over(stream))
            }
            Way::Tcp(address) => Ok(Self::over(traffic.counted(connect_tcp(address).await?))),
            Way::Local(path) => {
                let failed = |error| connect_error(&path.display().to_string(), &error);
                Ok(Self::over(traffic.counted(UnixStream::connect(path).await.map_err(failed)?)))
            }
        }
    }

    /// Uses a stream that is connected already.
    pub fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static) -> Self {
        Self { transport: Box::new(stream), buffer: Vec::new(), start: 0 }
    }

    /// Sends bytes.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        self.transport.write_all(bytes).await.map_err(|error| broken(&error))?;
        self.transport.flush().await.map_err(|error| broken(&error))
    }

    /// Reads a line, and appends it without its end. `bytes_max` is the longest permitted length of the line.
    ///
    /// # Errors
    ///
    /// If the line is longer, or if the connection ends.
    pub async fn read_line(&mut self, line: &mut Vec<u8>, bytes_max: usize) -> Result<(), CallError> {
        self.read_line_of(line, |_| bytes_max).await
    }

    /// Reads a line whose longest permitted length follows from what has been read of it.
    ///
    /// # Errors
    ///
    /// If the line is longer, or if the connection ends.
    pub async fn read_line_of(
        &mut self,
        line: &mut Vec<u8>,
        bytes_max_of: impl Fn(&[u8]) -> usize,
    ) -> Result<(), CallError> {
        let begin = line.len();
        loop {
            let end = self.unread().iter().position(|byte| *byte == b'\n');
            let piece = &self.unread()[..end.map_or(self.unread().len(), |end| end + 1)];
            line.extend_from_slice(piece);
            self.start += end.map_or(self.unread().len(), |end| end + 1);
            let length = line.len() - begin;
            if length > bytes_max_of(&line[begin..]) {
                return Err(CallError::malformed(format!("the server has sent a line of {length} bytes and more")));
            }
            if end.is_some() {
                line.truncate(line.len() - 1);
                if line.len() > begin && line.ends_with(b"\r") {
                    line.truncate(line.len() - 1);
                }
                return Ok(());
            }
            self.receive().await?;
        }
    }

    /// Reads a content of announced length, of which at most `kept_max` bytes are appended to `kept`.
    ///
    /// # Errors
    ///
    /// If the content is longer than [`LITERAL_BYTES_MAX`], or if the connection ends within it.
    pub async fn read_content(&mut self, length: u64, kept: &mut Vec<u8>, kept_max: usize) -> Result<(), CallError> {
        if length > LITERAL_BYTES_MAX {
            return Err(CallError::malformed(format!("the server announces a content of {length} bytes")));
        }
        let mut left = length as usize;
        let mut kept_left = kept_max;
        while left > 0 {
            if self.unread().is_empty() {
                self.receive().await?;
            }
            let piece = &self.unread()[..left.min(self.unread().len())];
            kept.extend_from_slice(&piece[..kept_left.min(piece.len())]);
            kept_left = kept_left.saturating_sub(piece.len());
            left -= piece.len();
            self.start += piece.len();
        }
        Ok(())
    }

    /// Waits until there is something to read. This may be dropped at any time without a loss.
    ///
    /// # Errors
    ///
    /// If the connection ends.
    pub async fn wait_for_bytes(&mut self) -> Result<(), CallError> {
        if self.unread().is_empty() { self.receive().await } else { Ok(()) }
    }

    /// Returns `true` if the server has closed the connection. What has arrived is received; nothing is waited for.
    pub async fn is_closed(&mut self) -> bool {
        poll_fn(|context| {
            loop {
                match self.poll_receive(context) {
                    Poll::Ready(Ok(length)) if length > 0 && self.unread().len() < LINE_BYTES_MAX => {}
                    Poll::Ready(Ok(length)) => return Poll::Ready(length == 0),
                    Poll::Ready(Err(_)) => return Poll::Ready(true),
                    Poll::Pending => return Poll::Ready(false),
                }
            }
        })
        .await
    }

    /// Returns `true` if bytes have been received and not read.
    pub fn has_bytes(&self) -> bool {
        !self.unread().is_empty()
    }

    /// Releases the buffer if everything in it is read.
    pub fn release_buffer(&mut self) {
        if self.unread().is_empty() {
            self.buffer = Vec::new();
            self.start = 0;
        }
    }

    /// Closes the connection, so that the server sees its end.
    pub async fn close(mut self) {
        // The server may have closed it already.
        let _ = self.transport.shutdown().await;
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    async fn receive(&mut self) -> Result<(), CallError> {
        match poll_fn(|context| self.poll_receive(context)).await {
            Ok(0) => Err(CallError::lost(CONNECTION_CODE, "the server has closed the connection")),
            Ok(_) => Ok(()),
            Err(error) => Err(broken(&error)),
        }
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let filled = self.buffer.len();
        self.buffer.resize(filled + READ_BYTES, 0);
        let mut space = ReadBuf::new(&mut self.buffer[filled..]);
        let polled = Pin::new(&mut self.transport).poll_read(context, &mut space);
        let length = space.filled().len();
        self.buffer.truncate(filled + length);
        if filled + length == 0 && polled.is_pending() {
            self.buffer = Vec::new();
        }
        polled.map_ok(|()| length)
    }
}

async fn connect_tcp(address: &str) -> Result<TcpStream, CallError> {
    let failed = |error| connect_error(address, &error);
    let socket = TcpStream::connect(address).await.map_err(failed)?;
    socket.set_nodelay(true).map_err(failed)?;
    Ok(socket)
}

fn connect_error(place: &str, reason: &dyn std::fmt::Display) -> CallError {
    CallError::lost(CONNECT_CODE, format!("cannot connect to {place}: {reason}"))
}

fn broken(error: &std::io::Error) -> CallError {
    CallError::lost(CONNECTION_CODE, format!("the connection broke: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn connection_with(bytes: &[u8]) -> LineConnection {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        far.write_all(bytes).await.expect("there is space");
        LineConnection::over(near)
    }

    async fn read_line(connection: &mut LineConnection) -> Result<String, String> {
        let mut line = Vec::new();
        connection.read_line(&mut line, LINE_BYTES_MAX).await.map_err(|error| error.text)?;
        Ok(String::from_utf8(line).expect("text"))
    }

    #[tokio::test]
    async fn lines_and_contents_are_read_in_turns() {
        let mut connection = connection_with(b"one\r\n\r\nbare\n1234567890rest\r\n").await;
        assert_eq!(read_line(&mut connection).await.as_deref(), Ok("one"));
        assert_eq!(read_line(&mut connection).await.as_deref(), Ok(""));
        assert_eq!(read_line(&mut connection).await.as_deref(), Ok("bare"));
        let mut kept = Vec::new();
        connection.read_content(10, &mut kept, 4).await.expect("it is there");
        assert_eq!(kept, b"1234");
        assert_eq!(read_line(&mut connection).await.as_deref(), Ok("rest"));
        connection.release_buffer();
        assert_eq!(connection.buffer.capacity(), 0);
        assert!(read_line(&mut connection).await.is_err_and(|text| text.contains("closed the connection")));
    }

    #[tokio::test]
    async fn long_lines_and_contents_are_refused() {
        let endless = vec![b'x'; 100_000];
        let mut connection = connection_with(&endless).await;
        let refused = read_line(&mut connection).await.expect_err("it is too long");
        assert!(refused.contains("a line of"), "{refused}");
        let mut connection = connection_with(&[&endless[..], b"\r\n"].concat()).await;
        let mut line = Vec::new();
        let permitted = |begin: &[u8]| if begin.starts_with(b"x") { 200_000 } else { LINE_BYTES_MAX };
        connection.read_line_of(&mut line, permitted).await.expect("it may be longer");
        assert_eq!(line.len(), 100_000);
        let refused = connection.read_content(u64::MAX, &mut line, 10).await.expect_err("it is too long");
        assert_eq!(refused.code, "malformed");
    }

    #[tokio::test]
    async fn a_closed_connection_is_noticed_without_waiting() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let mut connection = LineConnection::over(near);
        assert!(!connection.is_closed().await);
        far.write_all(b"* BYE idle for too long\r\n").await.expect("there is space");
        assert!(!connection.is_closed().await);
        assert!(connection.has_bytes());
        drop(far);
        assert!(connection.is_closed().await);
        assert_eq!(read_line(&mut connection).await.as_deref(), Ok("* BYE idle for too long"));
    }

    #[tokio::test]
    async fn what_is_sent_arrives_and_the_end_is_seen() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let mut connection = LineConnection::over(near);
        connection.send(b"NOOP\r\n").await.expect("it is open");
        connection.close().await;
        let mut received = String::new();
        far.read_to_string(&mut received).await.expect("text");
        assert_eq!(received, "NOOP\r\n");
    }
}
