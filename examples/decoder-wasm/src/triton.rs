//! The decoder as clients of Triton's generate extension call it.
//!
//! In:   `POST /v2/models/NAME/generate` or `/generate_stream` with a `text_input`; `max_tokens` beside it or
//!       in `parameters`.
//! Out:  `{"model_name", "model_version", "text_output"}`, or an event with one of these for each token.

use modelhost_guest::app::{Event, Json, Output, Path, Sent};
use modelhost_guest::{Response, Result};
use serde::{Deserialize, Serialize};

use super::{App, Decoder, character, check_length, read, some_tokens};

#[derive(Deserialize)]
pub(super) struct Generate {
    text_input: String,
    max_tokens: Option<usize>,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Default, Deserialize)]
struct Parameters {
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Generated<'a> {
    model_name: &'a str,
    model_version: &'static str,
    text_output: String,
}

impl Generate {
    fn tokens(&self) -> usize {
        self.max_tokens.or(self.parameters.max_tokens).unwrap_or_else(some_tokens)
    }
}

fn generated(model_name: &str, text_output: String) -> Generated<'_> {
    Generated { model_name, model_version: "1", text_output }
}

pub(super) fn generate(
    _: &mut App,
    Path(model): Path<String>,
    Json(body): Json<Generate>,
) -> Result<Response> {
    let mut text = String::new();
    for_each_token(&body, |character| {
        text.push(character);
        Ok(true)
    })?;
    Response::json(&generated(&model, text))
}

pub(super) fn stream(
    _: &mut App,
    Path(model): Path<String>,
    Json(body): Json<Generate>,
    output: Output,
) -> Result<Sent> {
    // What the model cannot take is said before the stream begins.
    check_length(&read(&body.text_input)?, body.tokens())?;
    let mut events = output.events()?;
    for_each_token(&body, |character| {
        Ok(events.send(&Event::json(&generated(&model, character.to_string()))?))
    })?;
    Ok(events.finish())
}

/// Gives each character that follows to `take`, until that wants no more.
fn for_each_token(body: &Generate, mut take: impl FnMut(char) -> Result<bool>) -> Result<()> {
    let tokens = body.tokens();
    let mut new = read(&body.text_input)?;
    check_length(&new, tokens)?;
    let mut decoder = Decoder::new()?;
    for _ in 0..tokens {
        let token = decoder.step(&new)?;
        new = vec![token];
        if !take(character(token)?)? {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use modelhost_guest::Context;
    use modelhost_guest::app::answer;

    use super::super::tests::serve;
    use super::*;

    #[test]
    fn a_text_comes_whole_or_in_pieces() {
        serve();
        let ask = |path: &str, body: &str| {
            let path = format!("/v2/models/decoder/{path}");
            let request = Context::builder().method("POST").path(&path).body("application/json", body);
            answer(&mut App, request).unwrap().text().to_owned()
        };
        let said =
            |text: &str| format!(r#"{{"model_name":"decoder","model_version":"1","text_output":"{text}"}}"#);
        let body = r#"{"text_input": "!\"", "parameters": {"max_tokens": 3}}"#;
        assert_eq!(ask("generate", body), said("$)3"));
        let events = ["$", ")", "3"].map(|text| format!("data: {}\n\n", said(text)));
        assert_eq!(ask("generate_stream", body), events.concat());
    }
}
