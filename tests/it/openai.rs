//! OpenAI's paths: its own clients against embeddings and a decoder; paths that several endpoints share; errors.

use std::process::Command;
use std::thread;

use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, Reply, clients, component, root};
use serde_json::{Value, json};

const EMBEDDINGS: &str = "/v1/embeddings";
const CHAT: &str = "/v1/chat/completions";
/// How far a value may be from the package's.
const NEAR: f64 = 1e-4;

fn embeddings() -> Endpoint {
    let file = |path: &str| {
        let file = root().join("target/models/embeddings").join(path);
        assert!(file.exists(), "no `{}`; hint: run `scripts/example-models.sh` first", file.display());
        file
    };
    Endpoint::new("all-minilm-l6-v2")
        .plugin(&component("embeddings-wasm"))
        .set(format!("project = {:?}", file("project")))
        .set("batching = { max_batch = 32, max_delay = '2ms' }")
        .set(format!("paths = ['{EMBEDDINGS}']"))
        .model_at(&file("model.onnx"), "")
}

fn decoder(paths: &str) -> Endpoint {
    Endpoint::new("decoder")
        .plugin(&component("decoder-wasm"))
        .model_at(&root().join("examples/decoder-wasm/decoder.onnx"), "")
        .set(format!("paths = {paths}"))
}

/// Both, and the decoder where embeddings are asked for as well, so that the body's `model` decides.
fn serve() -> Host {
    let paths = format!("['{CHAT}', '/v1/completions', '/v1/responses', '{EMBEDDINGS}']");
    Setup::of([embeddings(), decoder(&paths)]).serve()
}

/// The error in OpenAI's form.
fn error(reply: &Reply, status: u16) -> Value {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert!(reply.header("x-request-id").is_some());
    let error = reply.json()["error"].take();
    assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
    error
}

#[test]
fn the_clients_for_python_and_javascript_get_what_they_expect() {
    let host = serve();
    clients::run("openai_client", &[&host.url]);
    let folder = clients::program("js");
    let script = root().join("tests/clients/openai_client.mjs");
    let mut command = Command::new(clients::program("js/node"));
    clients::finished(command.arg(script).arg(folder).arg(&host.url), "openai_client.mjs");
}

#[test]
fn vectors_are_those_of_the_package() {
    let host = Setup::of([embeddings()]).serve();
    let mut texts = vec![
        "Hello world".to_owned(),
        "unaffable, CAFÉ-crème: naïve façade \u{200b}x\u{301}".to_owned(),
        "東京 is 首都; Москва – столица… ¿qué? 😀 🥲 🇫🇷".to_owned(),
        "\t\r\n ".to_owned(),
        "a".repeat(101),
        "$1,234.50 (50%) <b>& ~user_name@example.org".to_owned(),
        "ﬁne ½ Ⅷ İstanbul ǅ ß ΑΣ".to_owned(),
        "long ".repeat(200),
    ];
    texts.extend((0..70).map(|n| format!("sentence {n} {}", "of some words ".repeat(n % 9))));
    let models = root().join("target/models/embeddings");
    let path = |name: &str| models.join(name).to_str().unwrap().to_owned();
    let arguments = [path("model.safetensors"), path("tokenizer.json"), json!(texts).to_string()];
    let expected = clients::run("embeddings", &arguments.each_ref().map(String::as_str));
    let expected: Vec<Value> = serde_json::from_str(&expected).unwrap();
    let ask = |texts: &[String]| {
        let reply = host.post(EMBEDDINGS, json!({ "model": "any", "input": texts }).to_string());
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    };
    let check = |answer: &Value, texts: &[String], expected: &[Value]| {
        let data = answer["data"].as_array().unwrap();
        assert_eq!(data.len(), texts.len());
        for ((one, text), expected) in data.iter().zip(texts).zip(expected) {
            let (found, wanted) =
                (one["embedding"].as_array().unwrap(), expected["vector"].as_array().unwrap());
            assert_eq!(found.len(), wanted.len());
            let number = |value: &Value| value.as_f64().unwrap();
            let far =
                found.iter().zip(wanted).map(|(a, b)| (number(a) - number(b)).abs()).fold(0.0, f64::max);
            assert!(far < NEAR, "{text:?} is {far} off; tokens {}", expected["tokens"]);
        }
        let tokens: usize = expected.iter().map(|one| one["tokens"].as_array().unwrap().len()).sum();
        assert_eq!(answer["usage"], json!({ "prompt_tokens": tokens, "total_tokens": tokens }));
    };
    check(&ask(&texts), &texts, &expected);
    // Many at once are joined in the model's runs, and each gets its own.
    thread::scope(|scope| {
        for (texts, expected) in texts.chunks(3).zip(expected.chunks(3)) {
            scope.spawn(|| check(&ask(texts), texts, expected));
        }
    });
}

#[test]
fn the_model_in_a_body_says_which_of_several_endpoints_answers() {
    let keys = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(keys.path(), "open-sesame-of-the-test\n").unwrap();
    let classic = Endpoint::new("answer").guest("echo").set(format!("paths = ['{CHAT}']"));
    let locked = decoder(&format!("['{CHAT}']")).set(format!("keys = ['@{}']", keys.path().display()));
    let host = Setup::of([classic, locked]).serve();
    let chat = |model: &str| {
        format!(
            r#"{{"messages": [{{"role": "user", "content": "x"}}], "max_tokens": 2, "model": "{model}"}}"#
        )
    };
    assert_eq!(error(&host.post(CHAT, chat("decoder")), 401)["type"], "authentication_error");
    let key = [("authorization", "Bearer open-sesame-of-the-test"), ("content-type", "application/json")];
    let reply = host.request("POST", CHAT, &key, chat("decoder").as_bytes());
    assert_eq!((reply.status, &reply.json()["object"]), (200, &json!("chat.completion")), "{}", reply.text());
    let body = r#"{"model": "answer", "n": 1}"#;
    assert_eq!(host.post(CHAT, body).json()["body"], body);

    // Names that a caller may not call are not told.
    let unknown = error(&host.post(CHAT, chat("none")), 404);
    assert_eq!((&unknown["code"], &unknown["param"]), (&json!("model_not_found"), &json!("model")));
    let message = unknown["message"].as_str().unwrap();
    assert!(
        message.contains("`none`") && message.contains("`answer`") && !message.contains("`decoder`"),
        "{message}"
    );
    for (body, says) in [
        ("{}", "the body has no `model`; `/v1/chat/completions` is answered by `answer`"),
        (r#"{"model": 1}"#, "the body is no JSON object with a text as its `model`: "),
        ("[", "the body is no JSON object"),
        (r#"{"model": "answer", "model": "decoder"}"#, "duplicate field `model`"),
    ] {
        let refused = error(&host.post(CHAT, body), 400);
        assert!(refused["message"].as_str().unwrap().contains(says), "{body}: {refused}");
        assert_eq!(
            (&refused["type"], &refused["code"]),
            (&json!("invalid_request_error"), &json!("invalid_input"))
        );
    }
    let get = host.get(CHAT);
    assert_eq!(
        (error(&get, 405)["code"].as_str(), get.header("allow")),
        (Some("method_not_allowed"), Some("OPTIONS, POST"))
    );
    assert_eq!(host.request("OPTIONS", CHAT, &[], b"").status, 204);
}

/// A body too long for its endpoint is refused, and so is one too long for all; others are answered.
#[test]
fn a_shared_path_holds_each_endpoint_to_its_own_limits() {
    let endpoint = |name: &str, body: &str| {
        Endpoint::new(name)
            .guest("echo")
            .set(format!("paths = ['{CHAT}']"))
            .limits(&format!("body = '{body}'"))
    };
    let host = Setup::of([endpoint("small", "1KiB"), endpoint("large", "4KiB")]).serve();
    let ask = |model: &str, length: usize| {
        host.post(CHAT, json!({ "model": model, "fill": "x".repeat(length) }).to_string())
    };
    assert_eq!(error(&ask("small", 2000), 413)["code"], "body_too_large");
    assert_eq!(error(&ask("large", 5000), 413)["code"], "body_too_large");
    for (model, length) in [("small", 500), ("large", 2000)] {
        let reply = ask(model, length);
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.json()["body"].as_str().unwrap().contains(&format!("\"{model}\"")), "{}", reply.text());
    }
}

/// Bodies that never come take no place from requests that are there, at this path or another; when the drain is over
/// they are told so.
#[test]
fn begun_bodies_at_a_shared_path_harm_nobody() {
    let endpoint = |name: &str| {
        let limits = "concurrency = 1, queue = 1, body_timeout = '4s'";
        Endpoint::new(name).guest("echo").set(format!("paths = ['{CHAT}']")).limits(limits)
    };
    let host = Setup::of([endpoint("one"), endpoint("two"), Endpoint::new("neighbour").guest("echo")])
        .arguments(&["--drain-timeout", "500ms"])
        .serve();
    let begin = |headers: &[(&str, &str)]| {
        let begun = wire::post(CHAT, headers, r#"{"model": "one"}"#);
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(&begun[..begun.len() - 1]).unwrap();
        wire
    };
    let wires: Vec<Wire> = (0..20).map(|_| begin(&[])).collect();
    for model in ["one", "two"].repeat(5) {
        let reply = host.post(CHAT, json!({ "model": model }).to_string());
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(host.post("/neighbour", "x").status, 200);
    }
    let mut made_way = 0;
    for mut wire in wires {
        let reply = wire.read().unwrap();
        let code = reply.json()["error"]["code"].as_str().unwrap().to_owned();
        assert!([(503, "overloaded"), (408, "body_timeout")].contains(&(reply.status, &code)), "{code}");
        made_way += usize::from(reply.status == 503);
    }
    // Four places there are at the path, and others have had them since.
    assert!(made_way >= 16, "{made_way}");
    // This one is waited for: its client has been told to go on.
    let mut last = begin(&[("expect", "100-continue")]);
    while !String::from_utf8_lossy(last.unread()).contains("100 Continue") {
        last.receive().unwrap();
    }
    host.signal("TERM");
    let told = String::from_utf8(last.until_closed()).unwrap();
    assert!(told.contains("HTTP/1.1 503") && told.contains(r#""code":"shutting_down""#), "{told}");
    host.wait();
}

#[test]
fn errors_and_models_have_the_form_of_every_client() {
    let host = serve();
    // Nothing answers there; KServe's and TensorFlow Serving's paths keep their own form.
    assert_eq!(error(&host.post("/v1/moderations", "{}"), 404)["code"], "not_found");
    host.post("/v1/models/none:predict", "{}").error(404, "not_found", "admit");
    let listed = host.get("/v1/models").json();
    assert_eq!(listed["models"], json!(["all-minilm-l6-v2", "decoder"]));
    assert_eq!((&listed["object"], listed["data"].as_array().unwrap().len()), (&json!("list"), 2));
    let unknown = error(&host.get("/v1/models/none"), 404);
    assert_eq!((&unknown["code"], &unknown["param"]), (&json!("model_not_found"), &json!("model")));
    // A method that the application's router does not know.
    let get = host.get("/v1/responses");
    assert_eq!(
        (error(&get, 405)["code"].as_str(), get.header("allow").is_some()),
        (Some("method_not_allowed"), true)
    );
    let model = host.get("/v1/models/decoder").json();
    assert_eq!(
        (&model["name"], &model["ready"], &model["id"]),
        (&json!("decoder"), &json!(true), &json!("decoder"))
    );
    // What a handler refuses is in the same form, and on its own path in the host's.
    let body = r#"{"model": "all-minilm-l6-v2", "input": []}"#;
    let empty = error(&host.post(EMBEDDINGS, body), 400);
    assert_eq!((&empty["message"], &empty["param"]), (&json!("`input` is empty"), &json!("input")));
    host.post("/all-minilm-l6-v2", body).error(400, "invalid_input", "pre_inference");
}

/// The client that docs/openai.md shows, and the answer that the example's README shows.
#[test]
fn the_documents_are_true() {
    let host = serve();
    let text = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let guide = text("docs/openai.md");
    let code = guide.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let code = code.replace("http://127.0.0.1:8000", &host.url);
    let printed =
        clients::finished(Command::new(clients::program("bin/python")).args(["-c", &code]), "guide");
    assert!(guide.contains(&format!("prints `{}`", printed.trim())), "{printed}");

    let readme = text("examples/embeddings-wasm/README.md");
    let body = readme.split("--json '").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
    let shown = readme.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let (shown, answer): (Value, Value) =
        (serde_json::from_str(shown).unwrap(), host.post(EMBEDDINGS, body).json());
    assert_eq!(answer["usage"], shown["usage"]);
    for (found, shown) in [0, 1].map(|at| {
        let value = |answer: &Value| answer["data"][0]["embedding"][at].as_f64().unwrap();
        (value(&answer), value(&shown))
    }) {
        assert!((found - shown).abs() < 1e-3, "{answer}");
    }
}
