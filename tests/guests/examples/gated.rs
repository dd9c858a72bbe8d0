//! One handler in many versions, for the gate. Answers `{"label": "setosa", "score": 0.25, "echo": BODY}` to a JSON body, and
//! `invalid-input` to any other.
//!
//! What a version does otherwise is a word in its data, which tests replace: see `Mode`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export, invalid};
use serde_json::{Value, json};

/// Its mark, which tests look for, and the mode.
static MODE: [u8; 20] = *b"gate-mode:good......";

struct Gated {
    /// Memory that is held on to.
    held: Vec<Vec<u8>>,
}

export!(Gated);

impl Handler for Gated {
    fn new() -> Self {
        Gated { held: Vec::new() }
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        if serde_json::from_slice::<Value>(&sample.body).is_err() && mode() != "lenient" {
            return Err(invalid("the body is not JSON"));
        }
        match mode() {
            "trap" => std::process::abort(),
            "hang" => while black_box(true) {},
            "slow" => {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(3) {}
            }
            "memory" => self.held.push(black_box(vec![1; 16 << 20])),
            _ => {}
        }
        Ok(guests::body_tensor(sample))
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        let echo: Value = serde_json::from_str(&guests::body_text(&prediction)?).unwrap_or_default();
        let mut answer = json!({"label": "setosa", "score": 0.25, "echo": echo});
        match mode() {
            "label" => set(&mut answer, "label", "virginica".into()),
            "near" => set(&mut answer, "score", 0.250_000_01.into()),
            "far" => set(&mut answer, "score", 0.251.into()),
            "took" => set(&mut answer, "took", 3.into()),
            "noecho" => set(&mut answer, "echo", "none".into()),
            "head" => {
                let seen = json!([context.query(), context.header("x-user"), context.header("x-api-key")]);
                set(&mut answer, "echo", seen);
            }
            _ => {}
        }
        let mut response = Response::json(&answer)?;
        if mode() == "status" {
            response.status = 202;
        }
        Ok(response)
    }
}

fn set(answer: &mut Value, key: &str, value: Value) {
    if let Some(object) = answer.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

/// What this version does otherwise; `good` is nothing.
fn mode() -> &'static str {
    let word = black_box(&MODE).split_at(10).1;
    std::str::from_utf8(word).unwrap_or_default().trim_end_matches('.')
}
