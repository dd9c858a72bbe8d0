//! Continues a text with a decoder, token by token, and streams what it finds.
//!
//! In:   `POST /generate` with `{"prompt": "Once", "tokens": 32}`.
//! Out:  server-sent events: `{"token": 48, "text": "O"}` each, at last `event: done` with the whole text.
//!       Paths of OpenAI's and Triton's clients for the same: [`openai`], [`responses`], [`triton`].
//!
//! The model appends to a cache of keys and values with every step. That cache never enters the sandbox: the
//! outputs of one run are the inputs of the next, and only the logits are read.

mod asked;
mod openai;
mod responses;
mod triton;

use std::sync::LazyLock;

use modelhost_guest::app::{Event, Json, Output, Router, Sent};
use modelhost_guest::models::{self, Resident};
use modelhost_guest::{Handler, Result, Tensor, export, internal, invalid};
use serde::{Deserialize, Serialize};

/// Tokens that the model has places for.
const CONTEXT: usize = 256;
/// Tokens that there are.
const TOKENS: i64 = 96;

#[derive(Deserialize)]
struct Generate {
    prompt: String,
    #[serde(default = "some_tokens")]
    tokens: usize,
}

fn some_tokens() -> usize {
    64
}

#[derive(Serialize)]
struct Token {
    token: i64,
    text: char,
}

#[derive(Serialize)]
struct Done {
    tokens: usize,
    text: String,
}

struct App;

static ROUTES: LazyLock<Router<App>> = LazyLock::new(|| {
    Router::new()
        .post("/generate", generate)
        .post("/v2/models/{model}/generate", triton::generate)
        .post("/v2/models/{model}/generate_stream", triton::stream)
        .post("/v1/completions", openai::complete)
        .post("/v1/chat/completions", openai::chat)
        .post("/v1/responses", responses::create)
});

export!(App: respond);

impl Handler for App {
    fn new() -> Self {
        App
    }

    fn router() -> Option<&'static Router<App>> {
        Some(&ROUTES)
    }
}

fn generate(_: &mut App, Json(Generate { prompt, tokens }): Json<Generate>, output: Output) -> Result<Sent> {
    let mut new = read(&prompt)?;
    check_length(&new, tokens)?;
    let mut decoder = Decoder::new()?;
    let mut events = output.events()?;
    let mut text = String::new();
    for _ in 0..tokens {
        let token = decoder.step(&new)?;
        new = vec![token];
        text.push(character(token)?);
        if !events.send(&Event::json(&Token { token, text: character(token)? })?) {
            break; // The client is gone, and what the host holds for it goes with this function.
        }
    }
    let _ = events.send(&Event::json(&Done { tokens: text.len(), text })?.name("done"));
    Ok(events.finish())
}

/// The tokens of a prompt.
fn read(prompt: &str) -> Result<Vec<i64>> {
    match prompt.chars().map(token).collect::<Result<Vec<i64>>>()? {
        new if new.is_empty() => Err(invalid("`prompt` is empty")),
        new => Ok(new),
    }
}

/// A prompt that so many tokens are to follow has room.
fn check_length(prompt: &[i64], tokens: usize) -> Result<()> {
    match prompt.len().saturating_add(tokens) > CONTEXT {
        true => Err(invalid(format!("`prompt` and `tokens` are more than {CONTEXT} together"))),
        false => Ok(()),
    }
}

/// A text that the model has read so far.
struct Decoder {
    /// How many tokens.
    length: i64,
    cache: Vec<Kept>,
}

/// A part of the cache: what a run returns under one name, the next one takes under another.
struct Kept {
    before: String,
    after: String,
    held: Resident,
}

impl Decoder {
    /// Nothing read: the parts of the cache, as the model declares them, without a token.
    fn new() -> Result<Decoder> {
        let mut cache = Vec::new();
        for input in models::describe("")?.inputs {
            let Some(part) = input.name.strip_prefix("past.") else { continue };
            let &[_, heads, _, size] = input.shape.as_slice() else {
                return Err(internal(format!("input `{}` has another shape than a cache's", input.name)));
            };
            let extent = |extent: i64| u64::try_from(extent).map_err(|_| internal("a cache of any size"));
            let shape = [1, extent(heads)?, 0, extent(size)?];
            let held = Resident::new(&Tensor::new("", shape, &[0_f32; 0]))?;
            cache.push(Kept { after: format!("present.{part}"), before: input.name, held });
        }
        Ok(Decoder { length: 0, cache })
    }

    /// Reads tokens; the likeliest one to follow.
    fn step(&mut self, new: &[i64]) -> Result<i64> {
        let shape = [1, new.len() as u64];
        let positions: Vec<i64> = (self.length..).take(new.len()).collect();
        let tokens = Resident::new(&Tensor::new("", shape, new))?;
        let positions = Resident::new(&Tensor::new("", shape, &positions))?;
        let mut inputs = vec![("tokens", &tokens), ("positions", &positions)];
        inputs.extend(self.cache.iter().map(|kept| (kept.before.as_str(), &kept.held)));
        let mut outputs = models::run("", &inputs)?;
        for kept in &mut self.cache {
            kept.held = outputs.take(&kept.after)?;
        }
        self.length += shape[1] as i64;
        let logits = outputs.take("logits")?.read("logits")?;
        likeliest(&logits.values::<f32>()?)
    }
}

fn likeliest(logits: &[f32]) -> Result<i64> {
    let largest = logits.iter().enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a });
    let (index, _) = largest.ok_or_else(|| internal("the model's logits are empty"))?;
    i64::try_from(index).map_err(|error| internal(error.to_string()))
}

/// Token 0 is the line feed; the printable characters of ASCII follow.
fn token(character: char) -> Result<i64> {
    match character {
        '\n' => Ok(0),
        ' '..='~' => Ok(i64::from(u32::from(character)) - 31),
        other => Err(invalid(format!("`prompt` has {other:?}, which the model has no token for"))),
    }
}

fn character(token: i64) -> Result<char> {
    let code = if token == 0 { Some(b'\n') } else { u8::try_from(token + 31).ok() };
    code.map(char::from).ok_or_else(|| internal(format!("the model answers with token {token}")))
}

#[cfg(test)]
pub(crate) mod tests {
    use modelhost_guest::app::{Answer, answer};
    use modelhost_guest::{Context, Datatype, Error, Signature, TensorSpec};

    use super::*;

    /// A model whose cache holds the tokens themselves, and whose next token is their sum modulo 96.
    pub(crate) fn serve() {
        let spec = |name: &str, datatype, shape: &[i64]| {
            let (name, shape) = (name.to_owned(), shape.to_vec());
            TensorSpec { name, datatype, shape }
        };
        let signature = Signature {
            inputs: vec![
                spec("tokens", Datatype::Int64, &[-1, -1]),
                spec("positions", Datatype::Int64, &[-1, -1]),
                spec("past.0.key", Datatype::Fp32, &[-1, 1, -1, 1]),
            ],
            outputs: Vec::new(),
        };
        models::describe_with(move |_| Ok(signature.clone()));
        models::answer_with(|_, inputs| {
            let new = inputs[0].values::<i64>().unwrap().into_owned();
            let positions = inputs[1].values::<i64>().unwrap().into_owned();
            let mut all = inputs[2].values::<f32>().unwrap().into_owned();
            assert_eq!(positions[0], all.len() as i64, "positions go on where the cache ends");
            assert_eq!(inputs[2].shape, [1, 1, all.len() as u64, 1]);
            all.extend(new.iter().map(|token| *token as f32));
            let mut logits = [0.0_f32; 96];
            logits[all.iter().sum::<f32>() as usize % 96] = 1.0;
            Ok(vec![
                Tensor::new("logits", [1, 96], &logits),
                Tensor::new("present.0.key", [1, 1, all.len() as u64, 1], &all),
            ])
        });
    }

    fn ask(body: &str) -> Result<Answer> {
        let request = Context::builder().method("POST").path("/generate").body("application/json", body);
        answer(&mut App, request)
    }

    #[test]
    fn each_token_is_found_with_the_cache_of_all_before() {
        serve();
        // `!` and `"` are tokens 2 and 3, so 5, 10, 20 follow: `$`, `)`, `3`.
        let streamed = ask(r#"{"prompt": "!\"", "tokens": 3}"#).unwrap();
        let events = [
            r#"data: {"token":5,"text":"$"}"#,
            r#"data: {"token":10,"text":")"}"#,
            r#"data: {"token":20,"text":"3"}"#,
            "event: done\ndata: {\"tokens\":3,\"text\":\"$)3\"}",
        ];
        assert!(streamed.is_whole);
        assert_eq!(streamed.text(), events.map(|event| format!("{event}\n\n")).concat());
    }

    #[test]
    fn a_prompt_that_the_model_cannot_take_is_the_callers() {
        for (body, says) in [
            (r#"{"prompt": ""}"#, "`prompt` is empty"),
            (r#"{"prompt": "é"}"#, "`prompt` has 'é', which the model has no token for"),
            (r#"{"prompt": "x", "tokens": 256}"#, "`prompt` and `tokens` are more than 256 together"),
            (r#"{"tokens": 1}"#, "missing field `prompt`"),
        ] {
            let error = ask(body).unwrap_err();
            assert!(matches!(&error, Error::InvalidInput(text) if text.contains(says)), "{body}: {error}");
        }
    }

    #[test]
    fn tokens_are_characters() {
        for (letter, number) in [('\n', 0), (' ', 1), ('A', 34), ('~', 95)] {
            assert_eq!((token(letter), character(number)), (Ok(number), Ok(letter)));
        }
        assert!(character(-40).is_err());
    }
}
