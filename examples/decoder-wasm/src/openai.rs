//! The decoder as OpenAI's clients call it.
//!
//! In:   `POST /v1/completions` with a `prompt`: a text, tokens, or a list of either; `POST
//!       /v1/chat/completions` with `messages`, whose content is a text or parts of one; `max_tokens` or
//!       `max_completion_tokens`, `n`, `stream` and `stream_options`.
//! Out:  a completion, or one in chunks: server-sent events, at last `[DONE]`.
//!
//! This model never ends by itself, so each completion ends at its length. It takes the likeliest token, so
//! `temperature`, `top_p` and `seed` have no effect, and `n` choices are equal.

use std::time::{SystemTime, UNIX_EPOCH};

use modelhost_guest::app::{Event, Json, Output, Sent};
use modelhost_guest::{Response, Result, invalid};
use serde_json::{Value, json};

use super::asked::{self, Asked, is_nothing};
use super::{App, CONTEXT, Decoder, TOKENS, character, read, some_tokens};

/// Most choices of an answer.
const MOST_CHOICES: usize = 32;
/// Members that say whose request it is.
const ABOUT: [&str; 4] = ["user", "metadata", "safety_identifier", "prompt_cache_key"];

/// What both paths take.
struct Options {
    model: String,
    tokens: usize,
    choices: usize,
    stream: bool,
    include_usage: bool,
}

impl Options {
    fn read(asked: &mut Asked) -> Result<Options> {
        let model = asked.text("model")?.ok_or_else(|| invalid("`model` is missing"))?;
        let tokens = asked.whole("max_tokens", 1..=CONTEXT)?;
        let tokens = asked.whole("max_completion_tokens", 1..=CONTEXT)?.or(tokens);
        let choices = asked.whole("n", 1..=MOST_CHOICES)?.unwrap_or(1);
        let stream = asked.flag("stream")?;
        let options = asked.take("stream_options");
        if options.is_some() && !stream {
            return Err(invalid("`stream_options` is for answers with `stream`"));
        }
        let mut include_usage = false;
        if let Some(options) = options {
            let mut options = Asked::new(options).map_err(|_| invalid("`stream_options` is no object"))?;
            include_usage = options.flag("include_usage")?;
            options.unserved("include_obfuscation", is_nothing)?;
            options.end()?;
        }
        asked.number("temperature", 0.0..=2.0)?;
        asked.number("top_p", 0.0..=1.0)?;
        for name in ["presence_penalty", "frequency_penalty"] {
            if let Some(value) = asked.take(name) {
                let is_in_range = value.as_f64().is_some_and(|number| (-2.0..=2.0).contains(&number));
                match is_in_range {
                    false => return Err(invalid(format!("`{name}` is no number from -2 to 2"))),
                    true if !is_nothing(&value) => return Err(invalid(format!("`{name}` is not served"))),
                    true => {}
                }
            }
        }
        if asked.take("seed").is_some_and(|seed| !seed.is_i64() && !seed.is_u64()) {
            return Err(invalid("`seed` is no whole number"));
        }
        for name in ["stop", "logit_bias", "logprobs", "top_logprobs", "store"] {
            asked.unserved(name, is_nothing)?;
        }
        asked.ignore(&ABOUT);
        let tokens = tokens.unwrap_or_else(some_tokens);
        Ok(Options { model, tokens, choices, stream, include_usage })
    }
}

pub(super) fn complete(_: &mut App, Json(body): Json<Value>, output: Output) -> Result<Sent> {
    let mut asked = Asked::new(body)?;
    let prompts = prompts(asked.needed("prompt")?)?;
    let options = Options::read(&mut asked)?;
    asked.unserved("best_of", |best| best.as_u64() == Some(options.choices as u64))?;
    for name in ["echo", "suffix"] {
        asked.unserved(name, is_nothing)?;
    }
    asked.end()?;
    answer(&prompts, &options, &Form { is_chat: false }, output)
}

/// The tokens of each prompt.
fn prompts(prompt: Value) -> Result<Vec<Vec<i64>>> {
    let is_token = |value: &Value| value.is_i64() || value.is_u64();
    let tokens = |tokens: &[Value], place: &str| {
        let token = |value: &Value| {
            let token = value.as_i64().filter(|token| (0..TOKENS).contains(token));
            token.ok_or_else(|| invalid(format!("`{place}` has something that is no token, {value}")))
        };
        match tokens {
            [] => Err(invalid(format!("`{place}` is empty"))),
            tokens => tokens.iter().map(token).collect(),
        }
    };
    let items = match prompt {
        Value::String(text) => return Ok(vec![read(&text)?]),
        Value::Array(items) => items,
        _ => return Err(invalid("`prompt` is none of a text, tokens and a list of either")),
    };
    if items.first().is_some_and(is_token) {
        return Ok(vec![tokens(&items, "prompt")?]);
    }
    if items.is_empty() {
        return Err(invalid("`prompt` is empty"));
    }
    let one = |(at, item): (usize, Value)| match item {
        Value::String(text) => read(&text),
        Value::Array(items) => tokens(&items, &format!("prompt[{at}]")),
        _ => Err(invalid(format!("`prompt[{at}]` is neither a text nor tokens"))),
    };
    items.into_iter().enumerate().map(one).collect()
}

/// The model knows no roles, so a chat is a text like any other: a line for each message.
pub(super) fn chat(_: &mut App, Json(body): Json<Value>, output: Output) -> Result<Sent> {
    let mut asked = Asked::new(body)?;
    let messages = match asked.needed("messages")? {
        Value::Array(messages) => messages,
        _ => return Err(invalid("`messages` is no list")),
    };
    if messages.is_empty() {
        return Err(invalid("`messages` is empty"));
    }
    let lines = messages.into_iter().enumerate().map(|(at, message)| line(message, at));
    let prompt = format!("{}assistant: ", lines.collect::<Result<String>>()?);
    let options = Options::read(&mut asked)?;
    asked.unserved("tools", is_nothing)?;
    asked.unserved("functions", is_nothing)?;
    // Without tools there is none to choose.
    for name in ["tool_choice", "function_call"] {
        asked.unserved(name, |choice| matches!(choice.as_str(), Some("none" | "auto")))?;
    }
    asked.unserved("parallel_tool_calls", Value::is_boolean)?;
    asked.unserved("response_format", |format| *format == json!({ "type": "text" }))?;
    asked.unserved("modalities", |modalities| *modalities == json!(["text"]))?;
    asked.unserved("service_tier", |tier| matches!(tier.as_str(), Some("auto" | "default")))?;
    asked.end()?;
    answer(&[read(&prompt)?], &options, &Form { is_chat: true }, output)
}

/// The line of a message, `messages[at]`.
fn line(message: Value, at: usize) -> Result<String> {
    let mut message = Asked::new(message).map_err(|_| invalid(format!("`messages[{at}]` is no object")))?;
    let role = message.text("role").ok().flatten().unwrap_or_default();
    if !["developer", "system", "user", "assistant", "tool", "function"].contains(&role.as_str()) {
        return Err(invalid(format!("`messages[{at}].role` is none of the roles")));
    }
    // What an assistant has called is said in the place of a text.
    let calls = match message.take("tool_calls") {
        Some(Value::Array(calls)) => calls,
        Some(_) => return Err(invalid(format!("`messages[{at}].tool_calls` is no list"))),
        None => Vec::new(),
    };
    let called = |call: &Value| {
        let function = call.get("function")?;
        let part = |name: &str| function.get(name)?.as_str();
        Some(format!("{}({})", part("name")?, part("arguments")?))
    };
    let mut texts = Vec::new();
    match message.take("content") {
        Some(said) => texts.push(asked::content(said, &format!("messages[{at}].content"))?),
        None if role == "assistant" && (!calls.is_empty() || message.take("refusal").is_some()) => {}
        None => return Err(invalid(format!("`messages[{at}].content` is missing"))),
    }
    for (place, call) in calls.iter().enumerate() {
        let wrong = || invalid(format!("`messages[{at}].tool_calls[{place}]` is no call of a function"));
        texts.push(called(call).ok_or_else(wrong)?);
    }
    texts.retain(|text| !text.is_empty());
    Ok(format!("{role}: {}\n", texts.join(" ")))
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

    fn choice(&self, index: usize, text: Option<&str>, is_chunk: bool, reason: Option<&str>) -> Value {
        let mut choice = json!({ "index": index, "logprobs": null, "finish_reason": reason });
        let (name, content) = match (self.is_chat, is_chunk) {
            (true, true) => ("delta", text.map_or(json!({}), |text| json!({ "content": text }))),
            (true, false) => ("message", json!({ "role": "assistant", "content": text, "refusal": null })),
            (false, _) => ("text", text.unwrap_or_default().into()),
        };
        if let Value::Object(choice) = &mut choice {
            choice.insert(name.to_owned(), content);
        }
        choice
    }
}

/// The text after a prompt, a character at a time.
struct Text {
    decoder: Decoder,
    new: Vec<i64>,
}

impl Text {
    fn after(prompt: &[i64]) -> Result<Text> {
        Ok(Text { decoder: Decoder::new()?, new: prompt.to_vec() })
    }

    fn next(&mut self) -> Result<char> {
        let token = self.decoder.step(&self.new)?;
        self.new = vec![token];
        character(token)
    }
}

fn answer(prompts: &[Vec<i64>], options: &Options, form: &Form, output: Output) -> Result<Sent> {
    let Options { tokens, choices, .. } = *options;
    let all = prompts.len().saturating_mul(choices);
    if all > MOST_CHOICES {
        let text = format!("`n` times the prompts are {all} choices, of at most {MOST_CHOICES}");
        return Err(invalid(text));
    }
    if prompts.iter().any(|prompt| prompt.len() + tokens > CONTEXT) {
        let text = format!("`max_tokens` and a prompt are more than {CONTEXT} tokens together");
        return Err(invalid(text));
    }
    let read = prompts.iter().map(Vec::len).sum::<usize>();
    let usage = json!({
        "prompt_tokens": read, "completion_tokens": tokens * all, "total_tokens": read + tokens * all,
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
    // The choices of prompt `at`.
    let places = |at: usize| at * choices..(at + 1) * choices;
    if !options.stream {
        let mut said_of = Vec::with_capacity(all);
        for (at, prompt) in prompts.iter().enumerate() {
            let mut next = Text::after(prompt)?;
            let text = (0..tokens).map(|_| next.next()).collect::<Result<String>>()?;
            said_of.extend(places(at).map(|index| form.choice(index, Some(&text), false, Some("length"))));
        }
        return output.send(Response::json(&said(false, said_of, Some(&usage)))?);
    }
    let mut texts = prompts.iter().map(|prompt| Text::after(prompt)).collect::<Result<Vec<_>>>()?;
    let mut events = output.events()?;
    for (at, text) in texts.iter_mut().enumerate() {
        if form.is_chat {
            for index in places(at) {
                let mut first = form.choice(index, Some(""), true, None);
                if let Some(delta) = first.get_mut("delta").and_then(Value::as_object_mut) {
                    delta.insert("role".to_owned(), "assistant".into());
                }
                if !events.send(&Event::json(&said(true, vec![first], None))?) {
                    return Ok(events.finish()); // The client is gone.
                }
            }
        }
        for _ in 0..tokens {
            let next = text.next()?;
            for index in places(at) {
                let choice = form.choice(index, Some(next.encode_utf8(&mut [0; 4])), true, None);
                if !events.send(&Event::json(&said(true, vec![choice], None))?) {
                    return Ok(events.finish()); // The client is gone.
                }
            }
        }
        for index in places(at) {
            let last = form.choice(index, None, true, Some("length"));
            if !events.send(&Event::json(&said(true, vec![last], None))?) {
                return Ok(events.finish());
            }
        }
    }
    if options.include_usage {
        let _ = events.send(&Event::json(&said(true, Vec::new(), Some(&usage)))?);
    }
    let _ = events.send(&Event::new("[DONE]"));
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
    fn prompts_and_choices_are_numbered_through() {
        serve();
        let body = json!({ "model": "m", "prompt": ["!\"", [2, 3], "x"], "n": 2, "max_tokens": 3 });
        let said: Value = serde_json::from_str(&ask("/v1/completions", &body).unwrap()).unwrap();
        let choices = said["choices"].as_array().unwrap();
        let indices: Vec<u64> = choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect();
        assert_eq!(indices, [0, 1, 2, 3, 4, 5]);
        assert!(choices[..4].iter().all(|choice| choice["text"] == "$)3") && choices[4]["text"] != "$)3");
        assert_eq!(said["usage"], json!({ "prompt_tokens": 5, "completion_tokens": 18, "total_tokens": 23 }));
        let body = json!({ "model": "m", "prompt": [2, 3], "n": 2, "max_tokens": 2, "stream": true });
        let text = ask("/v1/completions", &body).unwrap();
        let pieces = |index: &str| text.lines().filter(|line| line.contains(index)).count();
        assert_eq!((pieces("\"index\":0"), pieces("\"index\":1")), (3, 3), "{text}");
    }

    #[test]
    fn a_message_is_a_text_or_parts_of_one() {
        serve();
        let said = |messages: Value| {
            let text =
                ask("/v1/chat/completions", &json!({ "model": "m", "messages": messages, "max_tokens": 4 }));
            let said: Value = serde_json::from_str(&text.unwrap()).unwrap();
            said["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
        };
        let text = said(json!([{ "role": "user", "content": "ab" }]));
        let parts = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
        assert_eq!(said(json!([{ "role": "user", "content": parts, "name": "x" }])), text);
        let call = json!({ "id": "1", "type": "function", "function": { "name": "f", "arguments": "{}" } });
        let called = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
        let tool = json!({ "role": "tool", "tool_call_id": "1", "content": "3" });
        let user = json!({ "role": "user", "content": "ab" });
        assert_eq!(
            said(json!([user, called, tool])),
            said(json!([user, { "role": "assistant", "content": "f({})" }, tool]))
        );
    }

    /// What is not served is named first, for the host to tell the client as `param`.
    #[test]
    fn what_is_not_served_is_refused_by_name() {
        serve();
        let user = || json!([{ "role": "user", "content": "x" }]);
        let text = json!({ "type": "text", "text": "a" });
        for (name, value) in [
            ("tools", json!([{ "type": "function", "function": { "name": "f" } }])),
            ("tool_choice", json!("required")),
            ("response_format", json!({ "type": "json_object" })),
            ("n", json!(0)),
            ("n", json!(33)),
            ("n", json!("2")),
            ("temperature", json!(2.5)),
            ("temperature", json!("hot")),
            ("top_p", json!(-0.1)),
            ("presence_penalty", json!(3)),
            ("frequency_penalty", json!(1)),
            ("max_tokens", json!(0)),
            ("max_tokens", json!(-1)),
            ("max_tokens", json!(1.5)),
            ("max_completion_tokens", json!(257)),
            ("stop", json!(["x"])),
            ("logprobs", json!(true)),
            ("stream", json!("yes")),
            ("stream_options", json!({ "include_usage": true })),
            ("seed", json!("1")),
            ("best_of", json!(2)),
            ("top_k", json!(5)),
            ("model", json!(1)),
            ("messages", json!([])),
            ("messages", json!("x")),
            ("messages[0]", json!(["x"])),
            ("messages[0].role", json!([{ "role": "x", "content": "x" }])),
            ("messages[0].content", json!([{ "role": "user", "content": null }])),
            ("messages[0].content", json!([{ "role": "user" }])),
            (
                "messages[0].content[1].type",
                json!([{ "role": "user", "content": [text, { "type": "image_url" }] }]),
            ),
            (
                "messages[1].tool_calls[0]",
                json!([{ "role": "user", "content": "x" }, { "role": "assistant", "tool_calls": [{}] }]),
            ),
        ] {
            let mut body = json!({ "model": "m", "messages": user() });
            let member = name.split(['[', '.']).next().unwrap();
            body[member] = value;
            let error = ask("/v1/chat/completions", &body).unwrap_err();
            let starts = format!("`{name}` ");
            assert!(
                matches!(&error, Error::InvalidInput(text) if text.starts_with(&starts)),
                "{body}: {error}"
            );
        }
        for (name, prompt) in [
            ("prompt", json!([])),
            ("prompt", json!("")),
            ("prompt", json!([96])),
            ("prompt[1]", json!(["x", 1])),
            ("prompt", json!({})),
        ] {
            let error = ask("/v1/completions", &json!({ "model": "m", "prompt": prompt })).unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{name}` ")), "{error}");
        }
        let harmless = json!({
            "model": "m", "messages": user(), "max_tokens": 2, "temperature": 0.7, "top_p": 1, "n": 1, "seed": 7,
            "tools": [], "tool_choice": "none", "response_format": { "type": "text" }, "stop": null,
            "presence_penalty": 0, "logit_bias": {}, "user": "u", "parallel_tool_calls": true,
        });
        ask("/v1/chat/completions", &harmless).unwrap();
    }
}
