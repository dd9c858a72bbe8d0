//! The decoder by OpenAI's Responses API.
//!
//! In:   `POST /v1/responses` with an `input`: a text, or messages whose content is a text or parts of one;
//!       `instructions`, `max_output_tokens`, `stream`.
//! Out:  a response with one message, or the events that it is built up by, each with a number.
//!
//! A response is not kept: one with `previous_response_id` is refused. It ends at its length, so it is
//! `incomplete` in that API's words.

use std::time::{SystemTime, UNIX_EPOCH};

use modelhost_guest::app::{Event, Json, Output, Sent};
use modelhost_guest::{Response, Result, invalid};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{App, Decoder, character, read, some_tokens};

#[derive(Deserialize)]
pub(super) struct Create {
    model: String,
    input: Input,
    instructions: Option<String>,
    max_output_tokens: Option<usize>,
    previous_response_id: Option<String>,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`input` is a text or a list of messages")]
enum Input {
    Text(String),
    Messages(Vec<Message>),
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Content,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`content` is a text or a list of parts with a `text`")]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    text: String,
}

impl Content {
    fn text(self) -> String {
        match self {
            Content::Text(text) => text,
            Content::Parts(parts) => parts.into_iter().map(|part| part.text).collect(),
        }
    }
}

impl Create {
    /// The model knows no roles: a line for each message.
    fn prompt(&mut self) -> Result<String> {
        let line = |role: &str, content: &str| format!("{role}: {content}\n");
        let instructions = self.instructions.iter().map(|text| line("system", text)).collect::<String>();
        match std::mem::replace(&mut self.input, Input::Text(String::new())) {
            Input::Text(text) if instructions.is_empty() => Ok(text),
            Input::Text(text) => Ok(format!("{instructions}{}assistant: ", line("user", &text))),
            Input::Messages(messages) if messages.is_empty() => Err(invalid("`input` is empty")),
            Input::Messages(messages) => {
                let lines = messages.into_iter().map(|said| line(&said.role, &said.content.text()));
                Ok(format!("{instructions}{}assistant: ", lines.collect::<String>()))
            }
        }
    }
}

/// A response while it comes about.
struct Made<'a> {
    asked: &'a Create,
    number: u128,
    created: u64,
    /// Tokens of the prompt, and those that are to follow.
    tokens: (usize, usize),
}

impl Made<'_> {
    fn part(text: &str) -> Value {
        json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
    }

    fn item(&self, status: &str, text: Option<&str>) -> Value {
        let content: Vec<Value> = text.map(Made::part).into_iter().collect();
        json!({
            "type": "message", "id": self.item_id(), "status": status, "role": "assistant",
            "content": content,
        })
    }

    fn item_id(&self) -> String {
        format!("msg_{}", self.number)
    }

    /// The response: begun, or with its text.
    fn response(&self, text: Option<&str>) -> Value {
        let (before, after) = self.tokens;
        let usage = text.map(|_| {
            json!({
                "input_tokens": before, "input_tokens_details": { "cached_tokens": 0 },
                "output_tokens": after, "output_tokens_details": { "reasoning_tokens": 0 },
                "total_tokens": before + after,
            })
        });
        let output: Vec<Value> = text.map(|text| self.item("incomplete", Some(text))).into_iter().collect();
        json!({
            "id": format!("resp_{}", self.number), "object": "response", "created_at": self.created,
            "model": self.asked.model, "status": if text.is_some() { "incomplete" } else { "in_progress" },
            "incomplete_details": text.map(|_| json!({ "reason": "max_output_tokens" })),
            "error": null, "instructions": self.asked.instructions, "max_output_tokens": after,
            "output": output, "usage": usage, "metadata": {}, "parallel_tool_calls": false,
            "previous_response_id": null, "store": false, "temperature": 0, "top_p": 1,
            "tool_choice": "none", "tools": [],
        })
    }
}

pub(super) fn create(_: &mut App, Json(mut asked): Json<Create>, output: Output) -> Result<Sent> {
    if asked.previous_response_id.is_some() {
        return Err(invalid(
            "`previous_response_id` names a response, and none is kept: send the messages again",
        ));
    }
    let prompt = asked.prompt()?;
    let tokens = asked.max_output_tokens.unwrap_or_else(some_tokens);
    let mut new = read(&prompt, tokens)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let made =
        Made { asked: &asked, number: now.as_nanos(), created: now.as_secs(), tokens: (new.len(), tokens) };
    let mut decoder = Decoder::new()?;
    let mut next = || -> Result<char> {
        let token = decoder.step(&new)?;
        new = vec![token];
        character(token)
    };
    if !asked.stream {
        let text = (0..tokens).map(|_| next()).collect::<Result<String>>()?;
        return output.send(Response::json(&made.response(Some(&text)))?);
    }
    let mut events = output.events()?;
    let mut number = 0;
    let mut send = |kind: &str, mut data: Value| -> Result<bool> {
        if let Value::Object(members) = &mut data {
            members.insert("type".to_owned(), kind.into());
            members.insert("sequence_number".to_owned(), number.into());
        }
        number += 1;
        Ok(events.send(&Event::json(&data)?.name(kind)))
    };
    // Where in the response an event belongs.
    let place = |more: Value| {
        let mut place = json!({ "item_id": made.item_id(), "output_index": 0, "content_index": 0 });
        if let (Value::Object(place), Value::Object(more)) = (&mut place, more) {
            place.extend(more);
        }
        place
    };
    send("response.created", json!({ "response": made.response(None) }))?;
    let begun = json!({ "output_index": 0, "item": made.item("in_progress", None) });
    send("response.output_item.added", begun)?;
    let mut is_read = send("response.content_part.added", place(json!({ "part": Made::part("") })))?;
    let mut text = String::new();
    for _ in 0..tokens {
        if !is_read {
            return Ok(events.finish()); // The client is gone.
        }
        let next = next()?;
        text.push(next);
        let delta = place(json!({ "delta": next, "logprobs": [] }));
        is_read = send("response.output_text.delta", delta)?;
    }
    send("response.output_text.done", place(json!({ "text": text, "logprobs": [] })))?;
    send("response.content_part.done", place(json!({ "part": Made::part(&text) })))?;
    let done = json!({ "output_index": 0, "item": made.item("incomplete", Some(&text)) });
    send("response.output_item.done", done)?;
    send("response.incomplete", json!({ "response": made.response(Some(&text)) }))?;
    Ok(events.finish())
}

#[cfg(test)]
mod tests {
    use modelhost_guest::app::answer;
    use modelhost_guest::{Context, Error};

    use super::super::tests::serve;
    use super::*;

    fn ask(body: &Value) -> Result<String> {
        let request = Context::builder()
            .method("POST")
            .path("/v1/responses")
            .body("application/json", body.to_string());
        answer(&mut App, request).map(|answer| answer.text().to_owned())
    }

    #[test]
    fn a_response_has_one_message_and_says_what_it_used() {
        serve();
        let body = json!({ "model": "m", "input": "!\"", "max_output_tokens": 3 });
        let said: Value = serde_json::from_str(&ask(&body).unwrap()).unwrap();
        assert_eq!(said["output"][0]["content"][0]["text"], "$)3");
        let used = |name: &str| said["usage"][name].as_u64();
        assert_eq!(["input_tokens", "output_tokens", "total_tokens"].map(used), [Some(2), Some(3), Some(5)]);
    }

    #[test]
    fn the_events_of_a_stream_are_numbered_and_end_with_the_response() {
        serve();
        let parts = [json!({ "type": "input_text", "text": "x" })];
        let input = [json!({ "role": "user", "content": parts })];
        let body = json!({ "model": "m", "input": input, "max_output_tokens": 2, "stream": true });
        let text = ask(&body).unwrap();
        let events: Vec<Value> = text
            .split_terminator("\n\n")
            .map(|event| serde_json::from_str(event.split_once("\ndata: ").unwrap().1).unwrap())
            .collect();
        assert_eq!(events.len(), 9, "three to begin, two tokens, four to end");
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number);
        }
        let deltas = events.iter().filter_map(|event| event["delta"].as_str()).collect::<String>();
        assert_eq!(events[8]["response"]["output"][0]["content"][0]["text"], deltas);
    }

    #[test]
    fn what_cannot_be_answered_is_the_callers() {
        for more in [
            json!({ "input": [] }),
            json!({ "input": "x", "previous_response_id": "resp_1" }),
            json!({ "input": 1 }),
            json!({ "input": [{ "role": "user", "content": [{ "type": "input_image" }] }] }),
        ] {
            let mut body = json!({ "model": "m" });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert!(matches!(ask(&body), Err(Error::InvalidInput(_))), "{body}");
        }
    }
}
