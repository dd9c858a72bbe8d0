//! The decoder by OpenAI's Responses API.
//!
//! In:   `POST /v1/responses` with an `input`: a text, or messages whose content is a text or parts of one;
//!       `instructions`, `max_output_tokens`, `stream`. What is not served is refused, see [`super::asked`].
//! Out:  a response with one message, or the events that it is built up by, each with a number.
//!
//! A response is not kept: one with `previous_response_id` is refused. It ends at its length, so it is
//! `incomplete` in that API's words.

use std::time::{SystemTime, UNIX_EPOCH};

use modelhost_guest::app::{Event, Json, Output, Sent};
use modelhost_guest::{Response, Result, invalid};
use serde_json::{Value, json};

use super::asked::{self, Asked, is_nothing};
use super::{App, CONTEXT, Decoder, character, check_length, read, some_tokens};

/// Members that say whose request it is.
const ABOUT: [&str; 4] = ["user", "metadata", "safety_identifier", "prompt_cache_key"];

/// What is asked for.
struct Create {
    model: String,
    prompt: String,
    instructions: Option<String>,
    tokens: usize,
    stream: bool,
}

impl Create {
    fn read(body: Value) -> Result<Create> {
        let mut asked = Asked::new(body)?;
        if asked.take("previous_response_id").is_some() {
            return Err(invalid(
                "`previous_response_id` names a response, and none is kept: send the messages again",
            ));
        }
        let model = asked.text("model")?.ok_or_else(|| invalid("`model` is missing"))?;
        let instructions = asked.text("instructions")?;
        let prompt = prompt(asked.needed("input")?, instructions.as_deref())?;
        let tokens = asked.whole("max_output_tokens", 1..=CONTEXT)?.unwrap_or_else(some_tokens);
        let stream = asked.flag("stream")?;
        asked.number("temperature", 0.0..=2.0)?;
        asked.number("top_p", 0.0..=1.0)?;
        for name in ["tools", "include", "background", "store", "top_logprobs"] {
            asked.unserved(name, is_nothing)?;
        }
        asked.unserved("tool_choice", |choice| matches!(choice.as_str(), Some("none" | "auto")))?;
        asked.unserved("parallel_tool_calls", Value::is_boolean)?;
        asked
            .unserved("text", |text| is_nothing(text) || *text == json!({ "format": { "type": "text" } }))?;
        asked.unserved("truncation", |truncation| truncation == "disabled")?;
        asked.unserved("service_tier", |tier| matches!(tier.as_str(), Some("auto" | "default")))?;
        asked.ignore(&ABOUT);
        asked.end()?;
        Ok(Create { model, prompt, instructions, tokens, stream })
    }
}

/// The model knows no roles: a line for each message.
fn prompt(input: Value, instructions: Option<&str>) -> Result<String> {
    let line = |role: &str, content: &str| format!("{role}: {content}\n");
    let first = instructions.map(|text| line("system", text)).unwrap_or_default();
    match input {
        Value::String(text) if first.is_empty() => Ok(text),
        Value::String(text) => Ok(format!("{first}{}assistant: ", line("user", &text))),
        Value::Array(items) if items.is_empty() => Err(invalid("`input` is empty")),
        Value::Array(items) => {
            let lines = items.into_iter().enumerate().map(|(at, item)| {
                let mut item =
                    Asked::new(item).map_err(|_| invalid(format!("`input[{at}]` is no object")))?;
                let kind = item.text("type")?.unwrap_or_else(|| "message".to_owned());
                if kind != "message" {
                    return Err(invalid(format!("`input[{at}].type` is not served, but \"message\"")));
                }
                let role = item.text("role")?.unwrap_or_default();
                if !["developer", "system", "user", "assistant"].contains(&role.as_str()) {
                    return Err(invalid(format!("`input[{at}].role` is none of the roles")));
                }
                let missing = || invalid(format!("`input[{at}].content` is missing"));
                let content = item.take("content").ok_or_else(missing)?;
                Ok(line(&role, &asked::content(content, &format!("input[{at}].content"))?))
            });
            Ok(format!("{first}{}assistant: ", lines.collect::<Result<String>>()?))
        }
        _ => Err(invalid("`input` is neither a text nor a list of messages")),
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

pub(super) fn create(_: &mut App, Json(body): Json<Value>, output: Output) -> Result<Sent> {
    let asked = Create::read(body)?;
    let tokens = asked.tokens;
    let mut new = read(&asked.prompt)?;
    check_length(&new, tokens)?;
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
            json!({ "input": [{ "type": "function_call_output", "call_id": "1", "output": "x" }] }),
            json!({ "input": [{ "role": "user" }] }),
            json!({ "input": "x", "tools": [{ "type": "web_search" }] }),
            json!({ "input": "x", "text": { "format": { "type": "json_object" } } }),
            json!({ "input": "x", "max_output_tokens": 0 }),
            json!({ "input": "x", "temperature": 3 }),
            json!({ "input": "x", "top_k": 3 }),
        ] {
            let mut body = json!({ "model": "m" });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert!(matches!(ask(&body), Err(Error::InvalidInput(_))), "{body}");
        }
    }
}
