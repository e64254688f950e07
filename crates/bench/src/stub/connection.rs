//! The connections of a stub server, and their calls.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use hyper::http::{HeaderMap, HeaderValue, Request, Response};
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use super::Shared;

/// Maximum number of calls of a connection at the same time.
const CALLS_MAX: u32 = 1_000;
/// The bytes that a client may send ahead, of a call and of a connection.
const CALL_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// The code of gRPC for a call that does not exist.
const UNIMPLEMENTED: &str = "12";

/// Accepts connections until it is aborted. The tasks of the connections end with it.
pub(super) async fn accept_all(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((socket, peer)) = accepted {
                shared.begin_connection(peer.ip());
                connections.spawn(serve(socket, acceptor.clone(), Arc::clone(&shared)));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves a connection until the client closes it. An error ends the connection, and the client sees it.
async fn serve(socket: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let stream = acceptor.accept(socket).await?;
    let mut builder = Builder::new(TokioExecutor::new());
    builder.max_concurrent_streams(CALLS_MAX);
    builder.initial_stream_window_size(CALL_WINDOW_BYTES).initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
    builder.serve_connection(TokioIo::new(stream), service).await.map_err(io::Error::other)
}

/// Answers a call. An error means that the client has ended it.
async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Reply>, hyper::Error> {
    let reply = shared.replies.of(request.uri().path());
    let mut response = Response::new(Reply { message: None, trailers: None });
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let Some(message) = reply else {
        response.headers_mut().insert("grpc-status", HeaderValue::from_static(UNIMPLEMENTED));
        return Ok(response);
    };
    drop_body(request.into_body()).await?;
    let time = shared.begin_call();
    if !time.is_zero() {
        sleep(time).await;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    *response.body_mut() = Reply { message: Some(message), trailers: Some(trailers) };
    Ok(response)
}

/// Reads a request to its end.
async fn drop_body(mut body: Incoming) -> Result<(), hyper::Error> {
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        frame?;
    }
    Ok(())
}

/// A reply: a message, and the status of the call.
struct Reply {
    message: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.message.take() {
            Some(message) => Some(Frame::data(message)),
            None => self.trailers.take().map(Frame::trailers),
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.message.is_none() && self.trailers.is_none()
    }
}
