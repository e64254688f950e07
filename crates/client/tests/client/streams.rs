//! Tests of the message streams of calls with streaming requests.

use client::{request_channel, request_stream};
use tonic::codegen::tokio_stream::StreamExt;

#[tokio::test]
async fn request_stream_yields_its_messages_in_order() {
    let mut stream = request_stream(1..=100);
    let mut received = Vec::new();
    while let Some(message) = stream.next().await {
        received.push(message);
    }
    assert_eq!(received, (1..=100).collect::<Vec<i32>>());
    assert_eq!(request_stream::<i32>([]).next().await, None);
}

#[tokio::test]
async fn sender_waits_at_the_capacity_of_the_channel() {
    let (sender, mut stream) = request_channel(2);
    assert!(sender.send(1).await);
    assert!(sender.send(2).await);
    let mut third = std::pin::pin!(sender.send(3));
    let is_ready = std::future::poll_fn(|context| std::task::Poll::Ready(third.as_mut().poll(context).is_ready()));
    assert!(!is_ready.await, "two messages are ahead");
    assert_eq!(stream.next().await, Some(1));
    assert!(third.await, "there is capacity again");
    assert_eq!((stream.next().await, stream.next().await), (Some(2), Some(3)));
}

#[tokio::test]
async fn dropping_either_end_ends_the_stream() {
    let (sender, mut stream) = request_channel(0);
    assert!(sender.send("last").await, "at least one message may be ahead");
    drop(sender);
    assert_eq!((stream.next().await, stream.next().await), (Some("last"), None));
    let (sender, stream) = request_channel(1);
    drop(stream);
    assert!(!sender.send("too late").await);
}
