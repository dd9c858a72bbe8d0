//! The example examples/decoder-wasm: a decoder whose cache stays with the host, as a stream of tokens.

use std::thread;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, clients, component};
use serde_json::{Value, json};

const TOKENS: usize = 48;
const PROMPTS: [&str; 4] = [
    "Once upon a time",
    "Twice upon a time",
    "x",
    "A longer prompt, with\na line feed: 0123456789 and so on until there is more than fits into one line",
];

fn serve() -> Host {
    component("decoder-wasm");
    let config = e2e::root().join("examples/decoder-wasm/modelhost.toml");
    Host::serve(&["--config", config.to_str().unwrap()])
}

/// The tokens of a stream, which has to come to its end.
fn tokens(reply: &Reply) -> Vec<i64> {
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
    let text = reply.text();
    let mut events: Vec<&str> = text.split_terminator("\n\n").collect();
    let done = events.pop().and_then(|event| event.strip_prefix("event: done\ndata: ")).expect("an end");
    let data =
        |event: &&str| -> Value { serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap() };
    let events: Vec<Value> = events.iter().map(data).collect();
    let whole: String = events.iter().map(|event| event["text"].as_str().unwrap()).collect();
    let done: Value = serde_json::from_str(done).unwrap();
    assert_eq!(done, json!({"tokens": events.len(), "text": whole}));
    events.iter().map(|event| event["token"].as_i64().unwrap()).collect()
}

#[test]
fn tokens_are_those_of_an_implementation_without_a_cache() {
    let host = serve();
    let expected = clients::run("decoder", &[&[TOKENS.to_string().as_str()], &PROMPTS[..]].concat());
    let expected: Vec<Vec<i64>> = expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(expected.len(), PROMPTS.len());
    let ask = |prompt: &str| {
        host.post("/decoder/generate", json!({"prompt": prompt, "tokens": TOKENS}).to_string())
    };
    for (prompt, expected) in PROMPTS.iter().zip(&expected) {
        assert_eq!(&tokens(&ask(prompt)), expected, "{prompt}");
    }
    // Many at once share the model, and each has a cache of its own.
    thread::scope(|scope| {
        for (prompt, expected) in PROMPTS.iter().zip(&expected).cycle().take(16) {
            scope.spawn(move || assert_eq!(&tokens(&ask(prompt)), expected, "{prompt}"));
        }
    });
}

#[test]
fn the_example_answers_what_its_readme_shows() {
    let host = serve();
    let readme = std::fs::read_to_string(e2e::root().join("examples/decoder-wasm/README.md")).unwrap();
    let body = r#"{"prompt": "Once", "tokens": 3}"#;
    let reply = host.post("/decoder/generate", body);
    assert!(readme.contains(body) && readme.contains(reply.text().trim_end()), "{}", reply.text());
    let text =
        host.post("/decoder/generate", r#"{"prompt": "é"}"#).error(400, "invalid_input", "pre_inference");
    assert!(readme.contains(&text), "{text}");
}

/// The paths of Triton's generate extension: the same text, whole and in pieces, beside the server's own below `/v2`.
#[test]
fn clients_of_tritons_generate_extension_are_answered() {
    let host = serve();
    let ask = |path: &str, body: &Value| host.post(&format!("/v2/models/decoder/{path}"), body.to_string());
    let body = json!({"text_input": "Once", "max_tokens": 5});
    let whole = ask("generate", &body).json();
    assert_eq!((&whole["model_name"], &whole["model_version"]), (&json!("decoder"), &json!("1")));
    let reply = ask("generate_stream", &body);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
    let text = reply.text();
    let pieces = text.split_terminator("\n\n").map(|event| {
        let piece: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        piece["text_output"].as_str().unwrap().to_owned()
    });
    assert_eq!(pieces.collect::<String>(), whole["text_output"].as_str().unwrap());
    for path in ["generate", "generate_stream"] {
        ask(path, &json!({})).error(400, "invalid_input", "pre_inference");
    }
    assert_eq!(host.get("/v2/models/decoder/ready").status, 200);
    assert_eq!(host.get("/v2/models/decoder").json()["name"], "decoder");
}

/// A cache that outgrows what a request may hold ends that stream alone, and not as if it were whole.
#[test]
fn a_cache_is_bounded_and_a_neighbour_unharmed() {
    let (plugin, model) = (component("decoder-wasm"), e2e::root().join("examples/decoder-wasm/decoder.onnx"));
    let endpoint = |name: &str| Endpoint::new(name).plugin(&plugin).model_at(&model, "");
    let small = endpoint("small").limits("tensor_memory = '16KiB'");
    let host = Setup::of([small, endpoint("large")]).serve();
    let body = json!({"prompt": PROMPTS[0], "tokens": 64}).to_string();
    let cut = e2e::try_request(
        &e2e::agent(),
        "POST",
        &format!("{}/small/generate", host.url),
        &[],
        body.as_bytes(),
    );
    assert!(cut.is_err(), "a stream that is cut must not look whole: {cut:?}");
    let outcome = "modelhost_requests_total{endpoint=\"small\",outcome=\"plugin_error\"}";
    e2e::wait_until("the failure to be counted", || host.metrics().contains(outcome));
    assert_eq!(tokens(&host.post("/large/generate", &body)).len(), 64);
}
