//! What takes a clock: clients that are asked whether they are there, and those that do not say so.

use std::time::Duration;

use tokio::io::DuplexStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;
use crate::request::socket::{NoMessage, Opening, Socket};
use crate::telemetry::metrics::Metrics;

const SOON: Duration = Duration::from_millis(30);

fn bounds() -> Bounds {
    let limits = SocketLimits { open: 1, message: 1 << 20, rate: 1000, idle: Duration::from_secs(60) };
    Bounds {
        limits,
        memory: crate::memory::Account::default(),
        stalled: Duration::from_secs(60),
        ping: (SOON, SOON),
    }
}

/// The handler's end of an open socket, and the client's.
async fn socket(bounds: Bounds) -> (Socket, DuplexStream) {
    let (socket, client) = Socket::new(Vec::new(), 1 << 20);
    socket.open(Opening::Accepted(None), "".into());
    let (_, _, wire) = client.opened().await.unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 10);
    let counts = Metrics::new().unwrap().endpoint("talk").sockets.opened();
    tokio::spawn(serve(ours, wire, bounds, counts, std::future::pending()));
    (socket, theirs)
}

async fn client(io: DuplexStream) -> Stream<DuplexStream> {
    WebSocketStream::from_raw_socket(io, Role::Client, None).await
}

#[tokio::test]
async fn a_client_that_answers_pings_stays_however_little_it_says() {
    let (socket, io) = socket(bounds()).await;
    let mut client = client(io).await;
    for _ in 0..6 {
        // Its library answers.
        assert!(client.next().await.unwrap().unwrap().is_ping());
    }
    client.send(Frame::text("a")).await.unwrap();
    assert_eq!(socket.receive(None).await, Ok(Message::Text("a".to_owned())));
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_gone() {
    let (socket, _io) = socket(bounds()).await;
    let gone = Close::new(Close::ABNORMAL, "");
    assert_eq!(socket.receive(None).await, Err(NoMessage::Closed(gone)));
    assert!(socket.progress().is_gone());
}

/// Within a message it can answer no ping.
#[tokio::test]
async fn a_client_whose_message_takes_long_is_not_gone() {
    let (socket, mut io) = socket(bounds()).await;
    let text = "slow".repeat(5);
    // A text of 20 bytes, masked by zeroes.
    io.write_all(&[0x81, 0x80 | 20, 0, 0, 0, 0]).await.unwrap();
    for byte in text.as_bytes() {
        tokio::time::sleep(SOON / 2).await;
        io.write_all(&[*byte]).await.unwrap();
    }
    assert_eq!(socket.receive(None).await, Ok(Message::Text(text)));
    let gone = Close::new(Close::ABNORMAL, "");
    assert_eq!(socket.receive(None).await, Err(NoMessage::Closed(gone)));
}

/// While nothing is read of it, because its handler takes nothing, it cannot be heard.
#[tokio::test]
async fn a_client_that_cannot_be_heard_is_not_gone() {
    let (socket, io) = socket(bounds()).await;
    let mut client = client(io).await;
    let text = |number: u32| Frame::text(number.to_string());
    for number in 0..3 {
        client.send(text(number)).await.unwrap();
    }
    tokio::time::sleep(SOON * 5).await;
    for number in 0..3 {
        assert_eq!(socket.receive(None).await, Ok(Message::Text(number.to_string())));
    }
}

#[tokio::test]
async fn what_was_sent_before_the_handler_ended_is_said_before_the_close() {
    let (socket, io) = socket(bounds()).await;
    let mut client = client(io).await;
    for number in 0..3 {
        socket.send(Message::Text(number.to_string())).await.unwrap();
    }
    socket.end(Ending::Returned);
    let mut said = Vec::new();
    while let Some(Ok(frame)) = client.next().await {
        said.push(frame);
    }
    said.retain(|frame| !frame.is_ping());
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[3].is_close());
    assert!(!socket.progress().is_gone());
}
