//! Serves WebSockets, and some requests beside them. What a socket does, its client says by texts; how it opens, by
//! the path.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a guest of tests, whose output and panics are looked for"
)]

use std::thread::sleep;
use std::time::Duration;

use modelhost_guest::app::{IntoReply as _, Json, Reply, Request};
use modelhost_guest::socket::{Message, NoMessage, Socket, Upgrade};
use modelhost_guest::{Handler, Response, Result, Tensor, export, internal, invalid, models};

struct Talker {
    /// Sockets that this instance has served.
    served: u32,
}

impl Handler for Talker {
    fn new() -> Self {
        Talker { served: 0 }
    }

    fn respond(&mut self, _: Request<'_>) -> Result<Reply> {
        "hello".into_reply()
    }

    fn websocket(&mut self, upgrade: Upgrade<'_>) -> Result<()> {
        self.served += 1;
        match &*upgrade.context.path() {
            "/refuse" => upgrade.refuse(Response::text("not you").status(403).header("x-why", "refused")),
            "/refuse-badly" => upgrade.refuse(Response::text("?").status(42)),
            "/unanswered" => Ok(()),
            "/fail" => Err(internal("as asked")),
            "/invalid" => Err(invalid("no room is named")),
            "/elsewhere" => Err(Response::text("moved").status(307).into()),
            "/slow" => {
                sleep(Duration::from_secs(60));
                Ok(())
            }
            "/wrong-protocol" => upgrade.accept_protocol("nobody's").map(drop),
            "/protocol" => {
                let wanted = upgrade.protocols().into_iter().find(|it| it.starts_with("chat."));
                let mut socket = match &wanted {
                    Some(protocol) => upgrade.accept_protocol(protocol)?,
                    None => upgrade.accept()?,
                };
                socket.send(format!("{wanted:?}")).map(drop)
            }
            "/head" => {
                let (context, id) = (upgrade.context, upgrade.context.request_id());
                let said =
                    (context.query(), context.header("x-forwarded-prefix"), context.header("authorization"));
                let said = Json((context.method(), id, said)).into_reply()?.into_response().unwrap();
                upgrade.accept()?.send(String::from_utf8(said.body).unwrap()).map(drop)
            }
            _ => self.talk(upgrade.accept()?),
        }
    }
}

impl Talker {
    fn talk(&self, mut socket: Socket) -> Result<()> {
        while let Some(message) = socket.receive() {
            let text = match message {
                Message::Text(text) => text,
                Message::Binary(bytes) => {
                    socket.send(bytes)?;
                    continue;
                }
            };
            let (order, argument) = text.split_once(' ').unwrap_or((&text, ""));
            let number = || argument.parse::<u64>().unwrap();
            match order {
                "bye" => return Ok(()),
                "boom" => return Err(internal("boom, as asked")),
                "trap" => panic!("as asked"),
                "spin" => loop {
                    std::hint::spin_loop();
                },
                "compute" => {
                    let begun = std::time::Instant::now();
                    while begun.elapsed() < Duration::from_millis(number()) {}
                    socket.send("computed")?;
                }
                "grow" => {
                    let mut held = Vec::new();
                    loop {
                        held.push(vec![1_u8; 1 << 20]);
                    }
                }
                "sleep" => {
                    sleep(Duration::from_millis(number()));
                    socket.send("slept")?;
                }
                "deaf" => sleep(Duration::from_secs(3600)),
                "big" => match socket.send("x".repeat(usize::try_from(number()).unwrap())) {
                    Ok(_) => {}
                    Err(why) => drop(socket.send(why.to_string())?),
                },
                "flood" => while socket.send("x".repeat(1 << 16))? {},
                "served" => drop(socket.send(self.served.to_string())?),
                "keep" => {
                    std::mem::forget(socket);
                    return Ok(());
                }
                "close" => {
                    let (code, reason) = argument.split_once(' ').unwrap_or((argument, ""));
                    if let Err(why) = socket.close(code.parse().unwrap(), reason) {
                        socket.send(why.to_string())?;
                        continue;
                    }
                    assert!(!socket.send("late")?);
                    assert_eq!(socket.receive(), None);
                    assert_eq!(socket.closed().unwrap().code, code.parse::<u16>().unwrap());
                    return Ok(());
                }
                "patience" => match socket.receive_within(Duration::from_millis(number())) {
                    Ok(message) => drop(socket.send(message)?),
                    Err(NoMessage::TimedOut) => drop(socket.send("nothing came")?),
                    Err(NoMessage::Closed) => return Ok(()),
                },
                "model" => {
                    let tensor = Tensor::new("x", [2], &[1.5_f32, 2.5]);
                    let outputs = models::infer("", &[tensor])?;
                    socket.send(format!("{:?}", outputs[0].values::<f32>()?))?;
                }
                // After the client has closed: what became of it shows in the log.
                "linger" => {
                    while socket.receive().is_some() {}
                    let code = socket.closed().map(|close| close.code);
                    sleep(Duration::from_millis(number()));
                    println!("lingered after {code:?}");
                    return Ok(());
                }
                _ => drop(socket.send(format!("echo {text}"))?),
            }
        }
        Ok(())
    }
}

export!(Talker: respond, websocket);
