//! Server-sent events: <https://html.spec.whatwg.org/multipage/server-sent-events.html>.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Pieces, Sent};
use crate::{Result, internal};

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Event {
    data: String,
    name: Option<String>,
    id: Option<String>,
}

impl Event {
    /// An event with this data, of any number of lines.
    pub fn new(data: impl Into<String>) -> Event {
        Event { data: data.into(), ..Event::default() }
    }

    /// An event whose data is JSON.
    ///
    /// # Errors
    /// [`Error::Internal`](crate::Error::Internal) if `value` cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Event> {
        let data = serde_json::to_string(value);
        data.map(Event::new).map_err(|error| internal(format!("the event is no json: {error}")))
    }

    /// The same with a name, by which a browser dispatches it.
    pub fn name(mut self, name: impl Into<String>) -> Event {
        self.name = Some(name.into());
        self
    }

    /// The same with an id, which a client that comes back sends as `last-event-id`.
    pub fn id(mut self, id: impl Into<String>) -> Event {
        self.id = Some(id.into());
        self
    }

    /// As it is sent. Line ends in names and ids are left out: they would begin another field.
    fn text(&self) -> String {
        let mut text = String::with_capacity(self.data.len() + 8);
        for (field, value) in [("event", &self.name), ("id", &self.id)] {
            if let Some(value) = value {
                let value: String = value.chars().filter(|it| !matches!(it, '\r' | '\n' | '\0')).collect();
                // A string takes any text.
                let _ = writeln!(text, "{field}: {value}");
            }
        }
        for line in self.data.replace("\r\n", "\n").split(['\n', '\r']) {
            let _ = writeln!(text, "data: {line}");
        }
        text.push('\n');
        text
    }
}

/// A stream of events.
#[derive(Debug)]
pub struct Events(Pieces);

impl Events {
    pub(super) fn new(pieces: Pieces) -> Events {
        Events(pieces)
    }

    /// Sends an event; waits while the client does not read. False: the client is gone.
    #[must_use = "there may be no client any more"]
    pub fn send(&mut self, event: &Event) -> bool {
        self.0.write(event.text())
    }

    /// Sends a line that clients pass over: it keeps proxies from closing a stream that is quiet.
    #[must_use = "there may be no client any more"]
    pub fn keep_alive(&mut self) -> bool {
        self.0.write(":\n\n")
    }

    /// Ends the stream.
    pub fn finish(self) -> Sent {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_written_as_the_standard_says() {
        for (event, expected) in [
            (Event::new("a"), "data: a\n\n"),
            (Event::new(""), "data: \n\n"),
            (Event::new("a\nb\r\nc\rd"), "data: a\ndata: b\ndata: c\ndata: d\n\n"),
            (Event::new("x").name("token").id("7"), "event: token\nid: 7\ndata: x\n\n"),
            (Event::new("x").name("a\ndata: b"), "event: adata: b\ndata: x\n\n"),
            (Event::json(&[1, 2]).unwrap(), "data: [1,2]\n\n"),
        ] {
            assert_eq!(event.text(), expected);
        }
    }
}
