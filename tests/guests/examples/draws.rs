//! Draws on everything outside itself that the body names, and answers with what it got: `{"pre": [...], "post": [...]}`.
//!
//! The body is words; those before a `|` are for `pre_inference`, the others for `post_inference`. `wall`, `clock`, `random`,
//! `id`, `query`; `sleep:MILLISECONDS`; `ticks:N` reads the clock N times, `until:MILLISECONDS` for so long; `read:PATH`,
//! `header:NAME`, `set:NAME` (a header of the response); `kept` counts in the instance; `invalid`, `fail:TEXT`, `abort`, `spin`,
//! `respond`.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export, internal, invalid};
use serde_json::{Value, json};

struct Draws {
    pre: Vec<Value>,
    headers: Vec<String>,
    kept: u32,
}

export!(Draws);

impl Handler for Draws {
    fn new() -> Self {
        Draws { pre: Vec::new(), headers: Vec::new(), kept: 0 }
    }

    fn pre_inference(&mut self, sample: Sample, context: &Context) -> Result<Vec<Tensor>> {
        self.headers.clear();
        let text = sample.text()?.into_owned();
        let words = text.split('|').next().unwrap_or_default();
        self.pre = self.draw(words, context)?;
        Ok(guests::body_tensor(sample))
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        let text = guests::body_text(&prediction)?;
        let post = self.draw(text.split('|').nth(1).unwrap_or_default(), context)?;
        let response = Response::json(&json!({"pre": self.pre, "post": post}))?;
        Ok(self
            .headers
            .iter()
            .fold(response, |response, name| response.header(name, "a-header-of-the-handler")))
    }
}

impl Draws {
    fn draw(&mut self, words: &str, context: &Context) -> Result<Vec<Value>> {
        words.split_whitespace().map(|word| self.one(word, context)).collect()
    }

    fn one(&mut self, word: &str, context: &Context) -> Result<Value> {
        let (verb, argument) = word.split_once(':').unwrap_or((word, ""));
        let number = || argument.parse::<u64>().map_err(|_| invalid(format!("`{argument}` is no number")));
        Ok(match verb {
            "wall" => {
                let since = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_err(|error| internal(error.to_string()))?;
                json!(since.as_nanos().to_string())
            }
            // The clock counts from a moment of its own: two readings say how long something took.
            "clock" => {
                let start = Instant::now();
                json!(start.elapsed().as_nanos().to_string())
            }
            "random" => json!(RandomState::new().build_hasher().finish().to_string()),
            "id" => json!(context.request_id()),
            "query" => json!(context.query()),
            "sleep" => {
                let start = Instant::now();
                std::thread::sleep(Duration::from_millis(number()?));
                json!(start.elapsed().as_nanos().to_string())
            }
            "ticks" => {
                let (start, mut last) = (Instant::now(), Duration::ZERO);
                for _ in 0..number()? {
                    last = start.elapsed();
                }
                json!(last.as_nanos().to_string())
            }
            "until" => {
                let (start, length, mut times) = (Instant::now(), Duration::from_millis(number()?), 0_u64);
                while start.elapsed() < length {
                    times += 1;
                }
                json!(times)
            }
            "read" => match std::fs::read_to_string(argument) {
                Ok(text) => json!(text),
                Err(error) => json!({"error": error.to_string()}),
            },
            "header" => json!(context.header(argument)),
            "set" => {
                self.headers.push(argument.to_owned());
                Value::Null
            }
            "kept" => {
                self.kept += 1;
                json!(self.kept)
            }
            "invalid" => return Err(invalid("the body asks for it")),
            "fail" => return Err(internal(argument)),
            "abort" => std::process::abort(),
            "spin" => loop {
                black_box(0);
            },
            "respond" => return Err(Response::text("at once").status(418).into()),
            other => return Err(invalid(format!("no word is `{other}`"))),
        })
    }
}
