//! The component's export, `wasi:http/incoming-handler`: audio is read as it comes, events are written
//! between.

use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

use crate::{Event, Listener};

/// Most bytes that are taken at once.
const PIECE: u64 = 16 << 10;

struct Component;

wasip2::http::proxy::export!(Component);

impl Guest for Component {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        // The head leaves at once: the client has it before it sends its audio.
        let Some((body, output)) = begin(out) else { return };
        // A body that is not finished breaks off, so that no client takes a part for the whole.
        if let Some(()) = serve(&request, &output) {
            drop(output);
            let _ = OutgoingBody::finish(body, None);
        }
    }
}

fn begin(out: ResponseOutparam) -> Option<(OutgoingBody, OutputStream)> {
    let headers = [("content-type", "text/event-stream"), ("cache-control", "no-store")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    let response = OutgoingResponse::new(Fields::from_list(&headers).ok()?);
    let body = response.body().ok()?;
    let output = body.write().ok()?;
    ResponseOutparam::set(out, Ok(response));
    Some((body, output))
}

/// `None` if the audio did not end properly, the client is gone, or the model has failed.
fn serve(request: &IncomingRequest, output: &OutputStream) -> Option<()> {
    let body = request.consume().ok()?;
    let audio = body.stream().ok()?;
    let mut listener = told(Listener::new())?;
    let mut events = String::new();
    while let Some(piece) = next(&audio)? {
        told(listener.hear(&piece, |event: Event| events += &event.to_string()))?;
        send(output, &mut events)?;
    }
    told(listener.finish(|event| events += &event.to_string()))?;
    send(output, &mut events)
}

/// The bytes that are there, at least one; `Some(None)` at the end.
fn next(audio: &InputStream) -> Option<Option<Vec<u8>>> {
    match audio.blocking_read(PIECE) {
        Ok(piece) => Some(Some(piece)),
        Err(StreamError::Closed) => Some(None),
        Err(StreamError::LastOperationFailed(_)) => None,
    }
}

/// Sends all events, and waits while the client does not read.
fn send(output: &OutputStream, events: &mut String) -> Option<()> {
    // As much as the stream takes in one call.
    for piece in events.as_bytes().chunks(4096) {
        output.blocking_write_and_flush(piece).ok()?;
    }
    events.clear();
    Some(())
}

/// A value, or its error in the host's log.
#[expect(clippy::print_stderr, reason = "the host's log")]
fn told<T>(outcome: modelhost_guest::Result<T>) -> Option<T> {
    outcome.inspect_err(|error| eprintln!("{error}")).ok()
}
