//! The host's side of a socket in a unit test: the client says what it was given, and keeps what it gets.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::{Close, Message, Refusal};
use crate::context::ContextBuilder;
use crate::{Handler, Response, Result};

/// A client without a connection, and what was said to it.
#[derive(Debug, Default)]
struct Client {
    says: VecDeque<Message>,
    protocols: Vec<String>,
    protocol: Option<String>,
    heard: Vec<Message>,
    close: Option<Close>,
    refusal: Option<Response>,
}

/// All that was said over a socket.
#[derive(Debug)]
pub struct Conversation {
    /// The result of the handler.
    pub outcome: Result<()>,
    /// The messages that it sent.
    pub sent: Vec<Message>,
    /// The subprotocol that it chose.
    pub protocol: Option<String>,
    /// How it closed the socket by itself; its return and its error close it too.
    pub close: Option<Close>,
    /// The response with which it refused the handshake.
    pub refusal: Option<Response>,
}

impl Conversation {
    /// The texts among the messages that the handler sent.
    pub fn texts(&self) -> Vec<&str> {
        let texts = self.sent.iter().filter_map(|message| match message {
            Message::Text(text) => Some(text.as_str()),
            Message::Binary(_) => None,
        });
        texts.collect()
    }
}

/// Has a handler serve a client that says these messages and then closes with 1000. Its subprotocols are in
/// the header `sec-websocket-protocol`.
pub fn converse<H: Handler>(
    handler: &mut H,
    request: ContextBuilder,
    says: impl IntoIterator<Item = impl Into<Message>>,
) -> Conversation {
    let context = request.method("GET").build();
    let offered = context.header("sec-websocket-protocol").unwrap_or_default();
    let protocols =
        offered.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect();
    let says = says.into_iter().map(Into::into).collect();
    let client = Rc::new(RefCell::new(Client { says, protocols, ..Client::default() }));
    let outcome = super::serve(handler, &context, Handshake(client.clone()));
    let Client { heard, protocol, close, refusal, .. } = client.take();
    Conversation { outcome, sent: heard, protocol, close, refusal }
}

#[derive(Debug)]
pub struct Handshake(Rc<RefCell<Client>>);

#[derive(Debug)]
pub struct Source(Rc<RefCell<Client>>);

impl Handshake {
    pub(super) fn protocols(&self) -> Vec<String> {
        self.0.borrow().protocols.clone()
    }

    pub(super) fn accept(self, protocol: Option<String>) -> Result<Source, String> {
        if let Some(protocol) = protocol.as_ref().filter(|it| !self.0.borrow().protocols.contains(it)) {
            return Err(format!("the client offers no subprotocol `{protocol}`"));
        }
        self.0.borrow_mut().protocol = protocol;
        Ok(Source(self.0))
    }

    pub(super) fn refuse(self, response: Response) -> Result<(), String> {
        self.0.borrow_mut().refusal = Some(response);
        Ok(())
    }
}

impl Source {
    pub(super) fn receive(&self, _: Option<u32>) -> Result<Message, Refusal> {
        let mut client = self.0.borrow_mut();
        let said = client.says.pop_front().filter(|_| client.close.is_none());
        said.ok_or_else(|| Refusal::Closed(client.close.clone().unwrap_or_else(normal)))
    }

    pub(super) fn send(&self, message: Message) -> Result<(), Refusal> {
        let mut client = self.0.borrow_mut();
        if let Some(close) = &client.close {
            return Err(Refusal::Closed(close.clone()));
        }
        client.heard.push(message);
        Ok(())
    }

    pub(super) fn close(&self, code: u16, reason: &str) -> Result<(), Refusal> {
        if !matches!(code, 1000..=1003 | 1007..=1011 | 3000..=4999) {
            return Err(Refusal::Invalid(format!("code {code} is not one that is sent")));
        }
        self.0.borrow_mut().close.get_or_insert(Close { code, reason: reason.to_owned() });
        Ok(())
    }
}

fn normal() -> Close {
    Close { code: 1000, reason: String::new() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::socket::{NoMessage, Upgrade};
    use crate::{Context, internal, invalid};

    /// Says in capitals what it hears, in the subprotocol `loud` alone; it wants to know nothing of `mute`.
    struct Loud;

    impl Handler for Loud {
        fn new() -> Self {
            Loud
        }

        fn websocket(&mut self, upgrade: Upgrade<'_>) -> Result<()> {
            if !upgrade.protocols().iter().any(|it| it == "loud") {
                return upgrade.refuse(Response::text("too quiet").status(403));
            }
            if upgrade.protocols().iter().any(|it| it == "mute") {
                return Err(invalid("one of the two"));
            }
            let mut socket = upgrade.accept_protocol("loud")?;
            loop {
                match socket.receive_within(Duration::from_secs(1)) {
                    Ok(Message::Text(text)) if text == "stop" => return socket.close(4000, "stopped"),
                    Ok(Message::Text(text)) => assert!(socket.send(text.to_uppercase())?),
                    Ok(Message::Binary(bytes)) => assert!(socket.send(bytes)?),
                    Err(NoMessage::TimedOut) => {
                        return Err(internal("a client without a connection is in time"));
                    }
                    Err(NoMessage::Closed) => {
                        assert_eq!(socket.closed(), Some(&normal()));
                        return Ok(());
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_said_is_kept() {
        let request = || Context::builder().header("sec-websocket-protocol", "soft, loud");
        let said = converse(&mut Loud, request(), [Message::from("a"), Message::from(vec![1])]);
        assert_eq!(said.sent, [Message::from("A"), Message::from(vec![1])]);
        assert_eq!((said.outcome, said.protocol.as_deref(), said.close), (Ok(()), Some("loud"), None));
        let said = converse(&mut Loud, request(), ["a", "stop", "b"]);
        assert_eq!((said.texts(), said.close.as_ref().map(|it| it.code)), (vec!["A"], Some(4000)));
        let refused = converse(&mut Loud, Context::builder(), ["a"]);
        assert_eq!(refused.refusal.map(|it| it.status), Some(403));
        let both = Context::builder().header("sec-websocket-protocol", "loud, mute");
        let refused = converse(&mut Loud, both, ["a"]);
        let refusal = refused.refusal.unwrap();
        assert_eq!((refused.outcome, refusal.status), (Ok(()), 400));
        let body = r#"{"error":"one of the two","code":"invalid_input","stage":"pre_inference","request_id":"test"}"#;
        assert_eq!(refusal.body, body.as_bytes());
    }
}
