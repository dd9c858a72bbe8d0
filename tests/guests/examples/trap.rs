//! Dies in `pre_inference` in the way the body names: `unreachable`, `panic`, `recurse`, `exit`. Under
//! `post:` before it, in `post_inference`. Any other body: like `echo`.

use std::hint::black_box;

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};

struct Trap;

export!(Trap);

impl Handler for Trap {
    fn new() -> Self {
        Trap
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        die(&sample.text()?);
        Ok(guests::body_tensor(sample))
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        let body = guests::body_text(&prediction)?;
        die(body.strip_prefix("post:").unwrap_or_default());
        guests::echo(&body, context)
    }
}

#[expect(clippy::panic, reason = "it is what this guest is for")]
fn die(how: &str) {
    match how {
        // Without a word on stderr, unlike a panic.
        "unreachable" => std::process::abort(),
        "panic" => panic!("the test asked for a panic"),
        "recurse" => drop(recurse(0)),
        "exit" => std::process::exit(3),
        _ => {}
    }
}

/// Needs a frame a call, because the sum happens after it, and never ends: no body is that deep.
fn recurse(depth: u64) -> u64 {
    if black_box(depth) == u64::MAX { depth } else { black_box(recurse(depth + 1)) + 1 }
}
