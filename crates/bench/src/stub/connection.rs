//! The connections of a stub server, and their calls.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use hyper::http::{HeaderMap, HeaderValue, Request, Response};
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
    let mut builder = Builder::new();
    builder.max_concurrent_streams(CALLS_MAX);
    builder.initial_window_size(CALL_WINDOW_BYTES).initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let mut connection = builder.handshake::<_, Bytes>(stream).await.map_err(io::Error::other)?;
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    calls.spawn(answer(request, respond, Arc::clone(&shared)));
                }
                Some(Err(error)) => return Err(io::Error::other(error)),
                None => return Ok(()),
            },
            Some(_) = calls.join_next() => {}
        }
    }
}

/// Answers a call. An error means that the client has ended it.
async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let Some(reply) = shared.replies.of(request.uri().path()) else {
        response.headers_mut().insert("grpc-status", HeaderValue::from_static(UNIMPLEMENTED));
        respond.send_response(response, true)?;
        return Ok(());
    };
    drop_body(request.into_body()).await?;
    let time = shared.begin_call();
    if !time.is_zero() {
        sleep(time).await;
    }
    let mut stream = respond.send_response(response, false)?;
    stream.send_data(reply, false)?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}

/// Reads a request to its end.
async fn drop_body(mut body: RecvStream) -> Result<(), h2::Error> {
    while let Some(piece) = body.data().await {
        let length = piece?.len();
        body.flow_control().release_capacity(length)?;
    }
    Ok(())
}
