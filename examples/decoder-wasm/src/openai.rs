//! The decoder as OpenAI's clients call it.
//!
//! In:   `POST /v1/completions` with a `prompt`, `POST /v1/chat/completions` with `messages`; `max_tokens` or
//!       `max_completion_tokens`, `stream` and `stream_options`.
//! Out:  a completion, or one in chunks: server-sent events, at last `[DONE]`.
//!
//! This model never ends by itself, so each completion ends at its length.

use std::time::{SystemTime, UNIX_EPOCH};

use modelhost_guest::app::{Event, Json, Output, Sent};
use modelhost_guest::{Response, Result, invalid};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{App, Decoder, character, read, some_tokens};

/// What both paths take.
#[derive(Deserialize)]
pub(super) struct Options {
    model: String,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
pub(super) struct Completion {
    prompt: String,
    #[serde(flatten)]
    options: Options,
}

#[derive(Deserialize)]
pub(super) struct Chat {
    messages: Vec<Message>,
    #[serde(flatten)]
    options: Options,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

pub(super) fn complete(_: &mut App, Json(body): Json<Completion>, output: Output) -> Result<Sent> {
    answer(&body.prompt, &body.options, &Form { is_chat: false }, output)
}

/// The model knows no roles, so a chat is a text like any other: a line for each message.
pub(super) fn chat(_: &mut App, Json(body): Json<Chat>, output: Output) -> Result<Sent> {
    if body.messages.is_empty() {
        return Err(invalid("`messages` is empty"));
    }
    let lines = body.messages.iter().map(|Message { role, content }| format!("{role}: {content}\n"));
    answer(
        &format!("{}assistant: ", lines.collect::<String>()),
        &body.options,
        &Form { is_chat: true },
        output,
    )
}

/// What differs between the paths.
struct Form {
    is_chat: bool,
}

impl Form {
    fn object(&self, is_chunk: bool) -> &'static str {
        match (self.is_chat, is_chunk) {
            (true, true) => "chat.completion.chunk",
            (true, false) => "chat.completion",
            (false, _) => "text_completion",
        }
    }

    fn choice(&self, text: Option<&str>, is_chunk: bool, reason: Option<&str>) -> Value {
        let mut choice = json!({ "index": 0, "logprobs": null, "finish_reason": reason });
        let (name, content) = match (self.is_chat, is_chunk) {
            (true, true) => ("delta", text.map_or(json!({}), |text| json!({ "content": text }))),
            (true, false) => ("message", json!({ "role": "assistant", "content": text })),
            (false, _) => ("text", text.unwrap_or_default().into()),
        };
        if let Value::Object(choice) = &mut choice {
            choice.insert(name.to_owned(), content);
        }
        choice
    }
}

fn answer(prompt: &str, options: &Options, form: &Form, output: Output) -> Result<Sent> {
    let tokens = options.max_completion_tokens.or(options.max_tokens).unwrap_or_else(some_tokens);
    let mut new = read(prompt, tokens)?;
    let prompt_tokens = new.len();
    let usage = json!({
        "prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens,
    });
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let said = |is_chunk: bool, choices: Vec<Value>, usage: Option<&Value>| {
        let prefix = if form.is_chat { "chatcmpl" } else { "cmpl" };
        let mut said = json!({
            "id": format!("{prefix}-{}", created.as_nanos()), "object": form.object(is_chunk),
            "created": created.as_secs(), "model": options.model, "choices": choices,
        });
        if let (Value::Object(said), Some(usage)) = (&mut said, usage) {
            said.insert("usage".to_owned(), usage.clone());
        }
        said
    };
    let mut decoder = Decoder::new()?;
    let mut next = || -> Result<char> {
        let token = decoder.step(&new)?;
        new = vec![token];
        character(token)
    };
    if !options.stream {
        let text = (0..tokens).map(|_| next()).collect::<Result<String>>()?;
        let choice = form.choice(Some(&text), false, Some("length"));
        return output.send(Response::json(&said(false, vec![choice], Some(&usage)))?);
    }
    let mut events = output.events()?;
    let mut is_read = true;
    if form.is_chat {
        let mut first = form.choice(Some(""), true, None);
        if let Some(delta) = first.get_mut("delta").and_then(Value::as_object_mut) {
            delta.insert("role".to_owned(), "assistant".into());
        }
        is_read = events.send(&Event::json(&said(true, vec![first], None))?);
    }
    for _ in 0..tokens {
        if !is_read {
            return Ok(events.finish()); // The client is gone.
        }
        let choice = form.choice(Some(next()?.encode_utf8(&mut [0; 4])), true, None);
        is_read = events.send(&Event::json(&said(true, vec![choice], None))?);
    }
    let last = form.choice(None, true, Some("length"));
    let mut ends = vec![Event::json(&said(true, vec![last], None))?];
    if options.stream_options.as_ref().is_some_and(|options| options.include_usage) {
        ends.push(Event::json(&said(true, Vec::new(), Some(&usage)))?);
    }
    ends.push(Event::new("[DONE]"));
    let _ = ends.iter().all(|event| events.send(event));
    Ok(events.finish())
}

#[cfg(test)]
mod tests {
    use modelhost_guest::app::answer;
    use modelhost_guest::{Context, Error};

    use super::super::tests::serve;
    use super::*;

    fn ask(path: &str, body: &Value) -> Result<String> {
        let request = Context::builder().method("POST").path(path).body("application/json", body.to_string());
        answer(&mut App, request).map(|answer| answer.text().to_owned())
    }

    #[test]
    fn a_completion_says_what_it_used() {
        serve();
        let body = json!({ "model": "m", "prompt": "!\"", "max_tokens": 3 });
        let said: Value = serde_json::from_str(&ask("/v1/completions", &body).unwrap()).unwrap();
        assert_eq!(said["choices"][0]["text"], "$)3");
        assert_eq!(said["usage"], json!({ "prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5 }));
    }

    #[test]
    fn a_chat_in_chunks_ends_with_done() {
        serve();
        let messages = [json!({ "role": "user", "content": "x" })];
        let options = json!({ "include_usage": true });
        let body = json!({ "model": "m", "messages": messages, "max_tokens": 2, "stream": true, "stream_options": options });
        let text = ask("/v1/chat/completions", &body).unwrap();
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        let (done, chunks) = events.split_last().unwrap();
        assert_eq!(*done, "data: [DONE]");
        let chunk =
            |event: &&str| -> Value { serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap() };
        let chunks: Vec<Value> = chunks.iter().map(chunk).collect();
        assert_eq!(chunks.len(), 5, "role, two tokens, the end, usage");
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
        assert_eq!(chunks[3]["choices"][0]["finish_reason"], "length");
        assert_eq!(chunks[4]["usage"]["completion_tokens"], 2);
    }

    #[test]
    fn a_chat_without_messages_is_the_callers() {
        let body = json!({ "model": "m", "messages": [] });
        assert!(matches!(ask("/v1/chat/completions", &body), Err(Error::InvalidInput(_))));
    }
}
