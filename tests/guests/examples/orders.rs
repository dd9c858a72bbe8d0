//! Works without a model, on tensors: does what the tensor `order` says, and passes the tensors on if that is nothing.
//!
//! `panic`, `hog`, `spin:MS`, `sleep:MS`, `internal`, `invalid`, `nothing`, `respond STATUS TYPE BODY`. The tensors that are
//! passed on are joined by `seen`: path, content type, header `x-note`, parameters and sample of the request.

use std::time::{Duration, Instant};

use modelhost_guest::{Context, Error, Handler, Response, Result, Tensor, export, internal, invalid};
use serde_json::{Value, json};

struct Orders;

export!(Orders: pre_inference_tensors);

impl Handler for Orders {
    fn new() -> Self {
        Orders
    }

    fn pre_inference_tensors(&mut self, mut sample: Vec<Tensor>, context: &Context) -> Result<Vec<Tensor>> {
        let order = match Tensor::named(&sample, "order") {
            Ok(order) => order.strings()?.concat(),
            Err(_) => String::new(),
        };
        obey(&order)?;
        let parameters: Value = context.parameters()?;
        let seen = json!({
            "method": context.method(),
            "path": context.path(),
            "note": context.header("x-note"),
            "request_id": context.request_id(),
            "parameters": parameters,
        });
        sample.push(Tensor::from_bytes("seen", [1], [seen.to_string().as_str()]));
        Ok(sample)
    }
}

#[expect(clippy::panic, reason = "it is what this guest is for")]
fn obey(order: &str) -> Result<()> {
    let (verb, object) = order.split_once([':', ' ']).unwrap_or((order, ""));
    let time = || object.parse().map(Duration::from_millis).map_err(|_| invalid("no number of milliseconds"));
    match verb {
        "panic" => panic!("the test asked for a panic"),
        "hog" => {
            let mut eaten = Vec::new();
            loop {
                eaten.push(std::hint::black_box(vec![1u8; 1 << 20]));
            }
        }
        "spin" => {
            let (start, time) = (Instant::now(), time()?);
            while start.elapsed() < time {}
        }
        "sleep" => std::thread::sleep(time()?),
        "internal" => return Err(internal("a secret of the handler's")),
        "invalid" => return Err(invalid("the order is `invalid`")),
        "respond" => {
            let mut words = object.splitn(3, ' ');
            let status = words.next().and_then(|word| word.parse().ok()).unwrap_or(500);
            let (content_type, body) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            return Err(Error::Respond(Response::new(status, content_type, body)));
        }
        _ => {}
    }
    Ok(())
}
