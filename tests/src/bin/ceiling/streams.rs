//! Streams of server-sent events, as the tests' guests `responder` and `application` send them.
//!
//! In:  `GET /ticks/{events}?ms=100`.
//! Out: so many events, each so long after the one before, then the end.
//!
//! A stream is a task that sends to a bounded channel, as a server is written whose events come from elsewhere.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use tokio::sync::mpsc::channel;

use crate::decoder::Events;

#[derive(Deserialize)]
struct Pause {
    ms: u64,
}

pub fn router() -> Router {
    Router::new().route("/ticks/{events}", get(ticks))
}

async fn ticks(Path(events): Path<u32>, Query(pause): Query<Pause>) -> Response {
    let (sender, receiver) = channel(16);
    tokio::spawn(async move {
        for number in 0..events {
            if sender.send(Bytes::from(format!("data: {number}\n\n"))).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(pause.ms)).await;
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::new(Events::new(receiver))).into_response()
}
