//! The byte stream of one connection: TCP, a local socket or memory, plain or under TLS, with or without DEFLATE.
//!
//! A [`Stream`] starts plain and is upgraded later: [`Stream::accept_tls`] for implicit TLS and STARTTLS,
//! [`Stream::connect_tls`] at the client's end, [`Stream::start_deflate`] for IMAP COMPRESS. It is small, because the
//! layers are boxed, and holds no buffers besides those of TLS and DEFLATE.
//!
//! Before an upgrade the caller must discard all bytes received after the command that requested it. Bytes that a
//! protocol has already received must not be taken for encrypted ones (CVE-2011-0411).

use std::fmt;
use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sasl::ChannelBinding;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use crate::channel_binding::{bindings_of, certificate_hash};
use crate::deflate::Deflate;
use crate::limits::{HANDSHAKE_TIME_MAX, RECEIVE_BYTES_MAX};
use crate::tls::{ClientTls, Tls, TlsInfo};

/// A connection that can be read, written and upgraded.
pub struct Stream {
    layer: Layer,
    deflate: Option<Box<Deflate>>,
    /// The hash of the certificate with which this end accepted TLS.
    certificate_hash: Option<Arc<[u8]>>,
}

enum Layer {
    Plain(Transport),
    Server(Box<server::TlsStream<Transport>>),
    Client(Box<client::TlsStream<Transport>>),
}

/// The transport below all layers.
enum Transport {
    Tcp(TcpStream),
    Unix(UnixStream),
    Memory(DuplexStream),
}

impl Stream {
    /// Creates a stream on a TCP connection and sets TCP_NODELAY.
    #[must_use]
    pub fn tcp(stream: TcpStream) -> Self {
        // A socket that refuses the option still works, but slower.
        let _ = stream.set_nodelay(true);
        Self::plain(Transport::Tcp(stream))
    }

    /// Creates a stream on a local socket connection.
    #[must_use]
    pub fn unix(stream: UnixStream) -> Self {
        Self::plain(Transport::Unix(stream))
    }

    /// Creates two connected streams in memory, each with a buffer of `size_bytes`, for tests.
    #[must_use]
    pub fn duplex(size_bytes: usize) -> (Self, Self) {
        let (one, other) = tokio::io::duplex(size_bytes);
        (Self::plain(Transport::Memory(one)), Self::plain(Transport::Memory(other)))
    }

    /// Sends a short reply and closes the connection, without waiting: the socket is closed when this method returns,
    /// whether or not its peer reads. Only for new connections, whose sockets can take the reply at once. Other streams
    /// are closed without a reply.
    pub fn refuse(self, reply: &[u8]) {
        // Errors at the end of the connection are ignored.
        match self.layer {
            Layer::Plain(Transport::Tcp(stream)) => {
                if let Ok(mut stream) = stream.into_std() {
                    let _ = stream.write_all(reply);
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                }
            }
            Layer::Plain(Transport::Unix(stream)) => {
                if let Ok(mut stream) = stream.into_std() {
                    let _ = stream.write_all(reply);
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                }
            }
            Layer::Plain(Transport::Memory(_)) | Layer::Server(_) | Layer::Client(_) => {}
        }
    }

    /// Performs a TLS handshake as the server. On error the connection is lost.
    pub async fn accept_tls(self, tls: &Tls) -> io::Result<Self> {
        let settings = tls.settings();
        let acceptor = TlsAcceptor::from(Arc::clone(&settings.config));
        self.accept(acceptor, settings.certificate_hash.clone()).await
    }

    /// Performs a TLS handshake as the server of a protocol over HTTP/2. On error the connection is lost.
    pub async fn accept_tls_h2(self, tls: &Tls) -> io::Result<Self> {
        let settings = tls.settings();
        let acceptor = TlsAcceptor::from(Arc::clone(&settings.config_h2));
        self.accept(acceptor, settings.certificate_hash.clone()).await
    }

    /// Performs a TLS handshake as the server of HTTP/2 and HTTP/1.1, between which the client chooses. On error the
    /// connection is lost.
    pub async fn accept_tls_http(self, tls: &Tls) -> io::Result<Self> {
        let settings = tls.settings();
        let acceptor = TlsAcceptor::from(Arc::clone(&settings.config_http));
        self.accept(acceptor, settings.certificate_hash.clone()).await
    }

    /// Performs a TLS handshake as the client of the server with this name. On error the connection is lost.
    pub async fn connect_tls(self, tls: &ClientTls, server_name: &str) -> io::Result<Self> {
        let name = ClientTls::server_name(server_name).map_err(io::Error::other)?;
        let connector = TlsConnector::from(tls.config());
        let stream = with_timeout(connector.connect(name, self.into_transport()?)).await?;
        Ok(Self { layer: Layer::Client(Box::new(stream)), deflate: None, certificate_hash: None })
    }

    /// Compresses all further bytes, in both directions. Does nothing if compression is already on.
    pub fn start_deflate(&mut self) {
        if self.deflate.is_none() {
            self.deflate = Some(Box::new(Deflate::new()));
        }
    }

    /// Releases memory that a connection without traffic does not need. Should be called before a long wait.
    pub fn release_idle_memory(&mut self) {
        if let Some(deflate) = &mut self.deflate {
            deflate.release_memory();
        }
    }

    /// Returns `true` if the bytes are encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        !matches!(self.layer, Layer::Plain(_))
    }

    /// Returns `true` if the bytes are compressed.
    #[must_use]
    pub fn is_deflated(&self) -> bool {
        self.deflate.is_some()
    }

    /// Returns the result of the TLS handshake, or `None` without TLS.
    #[must_use]
    pub fn tls_info(&self) -> Option<TlsInfo> {
        match &self.layer {
            Layer::Plain(_) => None,
            Layer::Server(stream) => TlsInfo::from_connection(stream.get_ref().1),
            Layer::Client(stream) => TlsInfo::from_connection(stream.get_ref().1),
        }
    }

    /// Returns the client's certificate in DER form, if it sent one. The certificate is trusted, because a handshake
    /// with any other fails.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        match &self.layer {
            Layer::Server(stream) => stream.get_ref().1.peer_certificates()?.first().map(AsRef::as_ref),
            _ => None,
        }
    }

    /// Returns the channel bindings of the connection, the best first. They are equal at both ends, and differ between
    /// connections. There are none without TLS 1.3.
    #[must_use]
    pub fn channel_bindings(&self) -> Vec<ChannelBinding> {
        match &self.layer {
            Layer::Plain(_) => Vec::new(),
            Layer::Server(stream) => bindings_of(stream.get_ref().1, self.certificate_hash.as_deref()),
            Layer::Client(stream) => {
                let connection = stream.get_ref().1;
                let certificate = connection.peer_certificates().and_then(|chain| chain.first());
                let hash = certificate.and_then(|certificate| certificate_hash(certificate));
                bindings_of(connection, hash.as_deref())
            }
        }
    }

    /// Appends the bytes that arrive next, at most [`RECEIVE_BYTES_MAX`], and returns their number. Zero means that the
    /// peer has closed the connection.
    ///
    /// No memory is held until bytes arrive. Dropping the future loses no data.
    pub async fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_receive(cx, buffer)).await
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let mut space = [const { MaybeUninit::uninit() }; RECEIVE_BYTES_MAX];
        let mut fresh = ReadBuf::uninit(&mut space);
        ready!(Pin::new(self).poll_read(cx, &mut fresh))?;
        buffer.extend_from_slice(fresh.filled());
        Poll::Ready(Ok(fresh.filled().len()))
    }

    fn plain(transport: Transport) -> Self {
        Self { layer: Layer::Plain(transport), deflate: None, certificate_hash: None }
    }

    async fn accept(self, acceptor: TlsAcceptor, certificate_hash: Option<Arc<[u8]>>) -> io::Result<Self> {
        let stream = with_timeout(acceptor.accept(self.into_transport()?)).await?;
        Ok(Self { layer: Layer::Server(Box::new(stream)), deflate: None, certificate_hash })
    }

    fn into_transport(self) -> io::Result<Transport> {
        match (self.layer, self.deflate) {
            (Layer::Plain(transport), None) => Ok(transport),
            _ => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "TLS can be started only once and only before compression",
            )),
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::tcp(stream)
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Self::unix(stream)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("tls", &self.is_tls()).field("deflate", &self.is_deflated()).finish()
    }
}

async fn with_timeout<T>(handshake: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(HANDSHAKE_TIME_MAX, handshake)
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long"))?
}

/// Calls the same method on the value of every variant.
macro_rules! on_each {
    ($value:expr, [$($variant:path),+], $stream:ident => $call:expr) => {
        match $value {
            $($variant($stream) => $call,)+
        }
    };
}

macro_rules! on_layer {
    ($value:expr, $stream:ident => $call:expr) => {
        on_each!($value, [Layer::Plain, Layer::Server, Layer::Client], $stream => $call)
    };
}

macro_rules! on_transport {
    ($value:expr, $stream:ident => $call:expr) => {
        on_each!($value, [Transport::Tcp, Transport::Unix, Transport::Memory], $stream => $call)
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match &mut this.deflate {
            Some(deflate) => deflate.poll_read(&mut this.layer, cx, buffer),
            None => Pin::new(&mut this.layer).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match &mut this.deflate {
            Some(deflate) => deflate.poll_write(&mut this.layer, cx, bytes),
            None => Pin::new(&mut this.layer).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match &mut this.deflate {
            Some(deflate) => {
                let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
                deflate.poll_write(&mut this.layer, cx, first)
            }
            None => Pin::new(&mut this.layer).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.deflate.is_none() && self.layer.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match &mut this.deflate {
            Some(deflate) => deflate.poll_flush(&mut this.layer, cx),
            None => Pin::new(&mut this.layer).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(deflate) = &mut this.deflate {
            ready!(deflate.poll_flush(&mut this.layer, cx))?;
        }
        Pin::new(&mut this.layer).poll_shutdown(cx)
    }
}

impl AsyncRead for Layer {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_layer!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Layer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on_layer!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_layer!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        on_layer!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_layer!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_layer!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_transport!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on_transport!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_transport!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        on_transport!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_transport!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_transport!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}
