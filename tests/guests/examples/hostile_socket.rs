//! A handler of WebSockets that does what its contract does not allow, by bare bindings; which of it, the path says.

// Natively its exports have names that no linker takes.
#![cfg(target_family = "wasm")]
#![allow(clippy::panic, clippy::unwrap_used, unsafe_code, reason = "a guest of tests that misbehaves")]

use std::time::Duration;

mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "websocket-handler",
        generate_all,
    });
}

use bindings::exports::modelhost::handler::websocket::{Context, Guest, Upgrade};
use bindings::modelhost::handler::types::Response;
use bindings::modelhost::handler::websockets::{Message, Socket};

struct Hostile;

impl Guest for Hostile {
    fn websocket(upgrade: Upgrade, context: &Context) -> Result<(), String> {
        let path = context.path();
        match path.trim_start_matches('/') {
            "trap-first" => panic!("as asked"),
            "spin-first" => spin(),
            "wait-first" => std::thread::sleep(Duration::from_secs(3600)),
            "drop-upgrade" => drop(upgrade),
            "long-error" => return Err("x".repeat(3_000_000)),
            "twice" => {
                let handle = upgrade.handle();
                let first = Upgrade::accept(upgrade, None).unwrap();
                let second = Upgrade::accept(unsafe { Upgrade::from_handle(handle) }, None);
                drop((first, second));
            }
            "refuse-wide" => {
                let headers = vec![("x-wide".to_owned(), "x".repeat(1_000_000))];
                let response =
                    Response { status: 200, content_type: String::new(), headers, body: Vec::new() };
                return Upgrade::refuse(upgrade, &response);
            }
            "forge" => {
                let _ = Upgrade::accept(upgrade, None).unwrap();
                let _ = unsafe { Socket::from_handle(77) }.receive(None);
            }
            "spin" => {
                let _socket = Upgrade::accept(upgrade, None).unwrap();
                spin();
            }
            // Never receives, and never ends.
            "deaf" => {
                let _socket = Upgrade::accept(upgrade, None).unwrap();
                std::thread::sleep(Duration::from_secs(3600));
            }
            // Goes on although the socket is closed.
            "stubborn" => {
                let socket = Upgrade::accept(upgrade, None).unwrap();
                loop {
                    let _ = socket.receive(Some(1));
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            "storm" => {
                let socket = Upgrade::accept(upgrade, None).unwrap();
                loop {
                    let _ = socket.receive(Some(0));
                }
            }
            "flood" => {
                let socket = Upgrade::accept(upgrade, None).unwrap();
                while socket.send(&Message::Binary(vec![0; 1 << 16])).is_ok() {}
            }
            "leak" => {
                let socket = Upgrade::accept(upgrade, None).unwrap();
                let mut held = Vec::new();
                loop {
                    held.push(socket.subscribe());
                }
            }
            "huge" => {
                let socket = Upgrade::accept(upgrade, None).unwrap();
                let _ = socket.send(&Message::Binary(vec![0; 40 << 20]));
            }
            "grow" => {
                let _socket = Upgrade::accept(upgrade, None).unwrap();
                let mut held = Vec::new();
                loop {
                    held.push(vec![1_u8; 1 << 20]);
                }
            }
            "poll" => {
                let socket = Upgrade::accept(upgrade, None).unwrap();
                socket.subscribe().block();
                match socket.receive(Some(0)) {
                    Ok(message) => socket.send(&message).unwrap(),
                    Err(error) => return Err(format!("{error:?}")),
                }
            }
            other => panic!("no such attack: `{other}`"),
        }
        Ok(())
    }
}

fn spin() {
    let mut n = 0_u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}

bindings::export!(Hostile with_types_in bindings);
