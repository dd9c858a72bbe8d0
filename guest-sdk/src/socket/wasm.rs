//! The host's side of a socket in a component.

use super::{Close, Message, Refusal};
use crate::Response;
use crate::bindings::websocket::modelhost::handler::websockets;

#[derive(Debug)]
pub struct Handshake(websockets::Upgrade);

#[derive(Debug)]
pub struct Source(websockets::Socket);

impl From<websockets::Upgrade> for Handshake {
    fn from(upgrade: websockets::Upgrade) -> Handshake {
        Handshake(upgrade)
    }
}

impl From<websockets::Error> for Refusal {
    fn from(error: websockets::Error) -> Refusal {
        match error {
            websockets::Error::Closed(websockets::CloseFrame { code, reason }) => {
                Refusal::Closed(Close { code, reason })
            }
            websockets::Error::TimedOut => Refusal::TimedOut,
            websockets::Error::Invalid(why) => Refusal::Invalid(why),
        }
    }
}

impl Handshake {
    pub(super) fn protocols(&self) -> Vec<String> {
        self.0.protocols()
    }

    pub(super) fn accept(self, protocol: Option<String>) -> Result<Source, String> {
        websockets::Upgrade::accept(self.0, protocol.as_deref()).map(Source)
    }

    pub(super) fn refuse(self, response: Response) -> Result<(), String> {
        websockets::Upgrade::refuse(self.0, &response)
    }
}

impl Source {
    pub(super) fn receive(&self, patience: Option<u32>) -> Result<Message, Refusal> {
        Ok(match self.0.receive(patience)? {
            websockets::Message::Text(text) => Message::Text(text),
            websockets::Message::Binary(bytes) => Message::Binary(bytes),
        })
    }

    pub(super) fn send(&self, message: Message) -> Result<(), Refusal> {
        let message = match message {
            Message::Text(text) => websockets::Message::Text(text),
            Message::Binary(bytes) => websockets::Message::Binary(bytes),
        };
        Ok(self.0.send(&message)?)
    }

    pub(super) fn close(&self, code: u16, reason: &str) -> Result<(), Refusal> {
        Ok(self.0.close(code, reason)?)
    }
}
