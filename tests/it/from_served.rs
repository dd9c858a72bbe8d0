//! Projects of other systems, brought over, that need more than one request to be seen: batches of Cortex and
//! Inferless, the stages of Truss, its typed inputs.

use std::thread;

use e2e::socket::WebSocket;
use e2e::wire;
use e2e::{Host, Reply, wait_until};
use serde_json::{Value, json};

use crate::from::{old, served};
use crate::request_batches::at_once;

const PREDICT: &str = "/v1/models/model:predict";

/// What bodies get that are posted at the same time.
fn together(host: &Host, path: &str, bodies: &[Value]) -> Vec<Reply> {
    let requests = bodies.iter().map(|body| wire::post(path, &[], &body.to_string()));
    at_once(host, requests).into_iter().map(|(reply, _)| reply).collect()
}

/// C28: `predict` gets lists and returns a list.
#[test]
fn cortex_serves_requests_together() {
    let folder = old(&[
        (
            "cortex.yaml",
            "- name: sums\n  kind: RealtimeAPI\n  predictor:\n    type: python\n    path: predictor.py\n    server_side_batching:\n\
             \x20     max_batch_size: 2\n      batch_interval: 1s\n",
        ),
        (
            "predictor.py",
            "class PythonPredictor:\n    def __init__(self, config):\n        pass\n\n    def predict(self, payload):\n\
             \x20       if \"dict\" in payload:\n            return {\"a\": 1}\n        if \"short\" in payload:\n            return payload[1:]\n\
             \x20       return [{\"sum\": sum(it), \"of\": len(payload)} for it in payload]\n",
        ),
    ]);
    let (project, host) = served(folder.path());
    let config = std::fs::read_to_string(project.join("modelhost.toml")).unwrap();
    for part in ["max_requests = 2", "request_delay = \"1000ms\"", "concurrency = 2"] {
        assert!(config.contains(part), "{config}");
    }
    let replies = together(&host, "/sums", &[json!([1, 2]), json!([3]), json!([4, 5, 6])]);
    let mut sizes = Vec::new();
    for (reply, sum) in replies.iter().zip([3, 3, 15]) {
        let answer = reply.json();
        assert_eq!((reply.status, &answer["sum"]), (200, &json!(sum)));
        sizes.push(answer["of"].as_u64().unwrap());
    }
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 2, 2]);
    for (bad, says) in [
        ("dict", "with one result for each of its 2 requests; this one returned dict"),
        ("short", "returned 1 results for a batch of 2 requests, expected one for each"),
    ] {
        for reply in together(&host, "/sums", &[json!(bad), json!([1])]) {
            let text = reply.json()["error"].as_str().unwrap().to_owned();
            assert!(reply.status == 500 && text.contains(says), "{text}");
        }
    }
    assert_eq!(together(&host, "/sums", &[json!([1]), json!([2])])[1].json(), json!({"sum": 2, "of": 2}));
}

/// I13, I14: `infer` gets a list of dicts.
#[test]
fn inferless_serves_requests_together() {
    let folder = old(&[
        (
            "app.py",
            "class InferlessPythonModel:\n    def initialize(self):\n        self.batches = 0\n\n    def infer(self, inputs):\n\
             \x20       answers = [{\"name\": it[\"name\"], \"of\": len(inputs)} for it in inputs]\n\
             \x20       return answers[1:] if any(it[\"name\"] == \"short\" for it in inputs) else answers\n\n    def finalize(self):\n        pass\n",
        ),
        (
            "input_schema.py",
            "INPUT_SCHEMA = {\n    \"name\": {\n        \"datatype\": \"STRING\",\n        \"required\": True,\n        \"shape\": [1],\n\
             \x20       \"example\": [\"you\"],\n    },\n}\nBATCH_SIZE = 4\nBATCH_WINDOW = 1500\n",
        ),
    ]);
    let (_, host) = served(folder.path());
    // Where their clients call, in the form of the protocol, with and without the axis of a batch.
    let tensor = |shape: &Value, name: &str| json!({"id": name, "inputs": [{"name": "name", "shape": shape, "datatype": "BYTES", "data": [name]}]});
    for path in ["/v2/models/mine/infer", "/v2/models/mine/versions/1/infer", "/v2/models/mine/generate"] {
        let bodies = [
            tensor(&json!([1]), "ada"),
            tensor(&json!([1, 1]), "bob"),
            json!({"name": "cid"}),
            json!({"inputs": []}),
        ];
        let replies = together(&host, path, &bodies);
        for (reply, (name, shape)) in replies.iter().zip([("ada", json!([1])), ("bob", json!([1, 1]))]) {
            let expected = json!({
                "model_name": "mine",
                "model_version": "1",
                "id": name,
                "outputs": [
                    {"name": "name", "datatype": "BYTES", "shape": shape, "data": [name]},
                    {"name": "of", "datatype": "INT64", "shape": shape, "data": [3]},
                ],
            });
            assert_eq!((reply.status, reply.json()), (200, expected), "{path}");
        }
        assert_eq!(replies[2].json(), json!({"name": "cid", "of": 3}));
        let refused = replies[3].error(400, "invalid_input", "pre_inference");
        assert_eq!(refused, "input `name`: missing, expected BYTES [1]");
    }
    for (count, expected) in [(3, vec![3; 3]), (4, vec![4; 4]), (5, vec![1, 4, 4, 4, 4])] {
        let bodies: Vec<Value> = (0..count).map(|number| json!({"name": number.to_string()})).collect();
        let replies = together(&host, "/", &bodies);
        let mut sizes = Vec::new();
        for (reply, body) in replies.iter().zip(&bodies) {
            let answer = reply.json();
            assert_eq!((reply.status, &answer["name"]), (200, &body["name"]));
            sizes.push(answer["of"].as_u64().unwrap());
        }
        sizes.sort_unstable();
        assert_eq!(sizes, expected);
    }
    for reply in together(&host, "/", &["short", "b", "c", "d"].map(|name| json!({"name": name}))) {
        reply.error(500, "plugin_bad_output", "pre_inference");
    }
}

/// I15: events at the paths that their clients call, of inputs in either form.
#[test]
fn inferless_streams_where_its_clients_call() {
    let folder = old(&[
        (
            "app.py",
            "class InferlessPythonModel:\n    def initialize(self):\n        pass\n\n    def infer(self, inputs, stream_output_handler):\n\
             \x20       for word in inputs[\"text\"].split():\n            stream_output_handler.send_streamed_output({\"OUT\": word})\n\
             \x20       stream_output_handler.finalise_streamed_output()\n\n    def finalize(self):\n        pass\n",
        ),
        (
            "input_schema.py",
            "INPUT_SCHEMA = {\n    \"text\": {\n        \"datatype\": \"STRING\",\n        \"required\": True,\n        \"shape\": [1],\n\
             \x20       \"example\": [\"a b\"],\n    },\n}\nIS_STREAMING_OUTPUT = True\n",
        ),
    ]);
    let (_, host) = served(folder.path());
    let tensors = json!({"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a b"]}]});
    for path in [
        "/v2/models/mine/generate_stream",
        "/v2/models/mine/versions/1/generate_stream",
        "/v2/models/mine/generate",
        "/v2/models/mine/infer",
        "/",
    ] {
        for body in [&tensors, &json!({"text": "a b"})] {
            let reply = host.post(path, body.to_string());
            assert_eq!(
                (reply.status, reply.header("content-type"), reply.text().as_str()),
                (200, Some("text/event-stream"), "data: {\"OUT\":\"a\"}\n\ndata: {\"OUT\":\"b\"}\n\n"),
                "{path}"
            );
        }
        let wrong =
            json!({"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": ["a", "b"]}]});
        let refused = host.post(path, wrong.to_string());
        assert_eq!(
            refused.error(400, "invalid_input", "pre_inference"),
            "input `text`: expected BYTES [1], got BYTES [2]",
            "{path}"
        );
    }
}

/// T4, T6, T8, T21, T29, and what the host itself says at a Truss's paths.
#[test]
fn truss_speaks_messagepack_and_marks_its_errors() {
    let folder = old(&[
        ("config.yaml", "model_name: errors\n"),
        (
            "model/model.py",
            "from fastapi import HTTPException, Response, WebSocket, WebSocketDisconnect, status\n\n\n\
             class Model:\n    def __init__(self, secrets):\n        self.secrets = secrets\n\n\
             \x20   def predict(self, inputs):\n        do = inputs.get(\"do\")\n        if do == \"boom\":\n            raise ValueError(\"a secret of the model's\")\n\
             \x20       if do == \"secret\":\n            return self.secrets[\"absent\"]\n\
             \x20       if do == \"status\":\n            return Response(b\"\", inputs[\"status\"], {\"x-mine\": \"1\"})\n\
             \x20       if do == \"teapot\":\n            raise HTTPException(status.HTTP_418_IM_A_TEAPOT)\n\
             \x20       return {\"generated_text\": inputs[\"prompt\"] * inputs[\"n\"]}\n\n\
             \x20   async def websocket(self, websocket: WebSocket):\n        try:\n            while True:\n\
             \x20               await websocket.send_text((await websocket.receive_text()).upper())\n\
             \x20       except WebSocketDisconnect as left:\n            print(f\"cleaned up after {left.code}\")\n",
        ),
    ]);
    let (project, host) = served(folder.path());
    let ported = std::fs::read_to_string(project.join("model/model.py")).unwrap();
    let import =
        "from modelhost_guest.web import HTTPException, Response, WebSocket, WebSocketDisconnect, status\n";
    assert!(ported.starts_with(import), "{ported}");
    let code = |reply: &Reply| {
        let of = |name: &str| reply.header(name).map(str::to_owned);
        of("x-baseten-error-source")
            .zip(of("x-baseten-error-code"))
            .map(|(source, code)| format!("{source}/{code}"))
    };
    // MessagePack, at both paths.
    for path in [PREDICT, "/v1/models/model:predict_binary"] {
        let binary = [("content-type", "application/octet-stream")];
        let reply = host.request("POST", path, &binary, b"\x82\xa6prompt\xa2ab\xa1n\x02");
        assert_eq!(
            (reply.status, reply.header("content-type"), reply.body.as_slice()),
            (200, Some("application/octet-stream"), b"\x81\xaegenerated_text\xa4abab".as_slice())
        );
        let reply = host.request("POST", path, &binary, b"\x82\xa6prompt");
        let expected = json!({"error": "Invalid MessagePack payload: the document breaks off"});
        assert_eq!((reply.status, code(&reply).as_deref(), reply.json()), (400, Some("04/700"), expected));
    }
    let internal = json!({"error": "Internal Server Error (in model/chainlet)."});
    for (body, status, marks, expected) in [
        (json!({"do": "boom"}), 500, Some("04/600"), Some(internal.clone())),
        (json!({"do": "secret"}), 500, Some("04/600"), Some(internal)),
        (json!({"do": "teapot"}), 418, Some("04/600"), Some(json!({"error": "I'm a Teapot"}))),
        (json!({"do": "status", "status": 204}), 204, None, None),
        (json!({"do": "status", "status": 302}), 302, Some("04/700"), None),
        (json!({"do": "status", "status": 404}), 404, Some("04/700"), None),
        (json!({"do": "status", "status": 500}), 500, Some("04/700"), None),
    ] {
        for path in [PREDICT, "/v1/models/model:predict_binary", "/"] {
            let reply =
                host.request("POST", path, &[("content-type", "text/plain")], body.to_string().as_bytes());
            assert_eq!((reply.status, code(&reply).as_deref()), (status, marks), "{path} {body}");
            assert!(expected.as_ref().is_none_or(|it| reply.json() == *it), "{}", reply.text());
        }
    }
    host.wait_for_log("a secret of the model's");
    host.wait_for_log("Secret 'absent' not found. Please ensure that:");
    for (body, says) in [
        ("{bad", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("", "Expecting value: line 1 column 1 (char 0)"),
    ] {
        let reply = host.post(PREDICT, body);
        let expected = json!({"error": format!("Invalid JSON payload: {says}")});
        assert_eq!((reply.status, code(&reply).as_deref(), reply.json()), (400, Some("04/700"), expected));
    }
    assert_eq!(code(&host.get(PREDICT)).as_deref(), Some("04/700"));
    // A client that leaves.
    let Ok(mut socket) = WebSocket::open(&host.url, "/v1/websocket", &[]) else { panic!("no socket") };
    assert_eq!(socket.ask("hello"), "HELLO");
    drop(socket);
    host.wait_for_log("cleaned up after 1006");
}

/// T15: while one prediction is in its last stage, the next one is under way.
#[test]
fn truss_runs_the_stages_of_several_predictions_at_once() {
    let folder = old(&[
        ("config.yaml", "model_name: slow\nruntime:\n  predict_concurrency: 2\n"),
        (
            "model/model.py",
            "import time\n\n\nclass Model:\n    def predict(self, inputs):\n        return [\"0\", \"1\"]\n\n    def postprocess(self, outputs):\n\
             \x20       made = []\n        for it in outputs:\n            print(f\"item {it} begins\")\n            time.sleep(1)\n            made.append(f\"{it} modified\")\n        return made\n",
        ),
    ]);
    let (_, host) = served(folder.path());
    thread::scope(|scope| {
        let calls = [(); 2].map(|()| scope.spawn(|| host.post(PREDICT, "{}")));
        wait_until("both to be in the last stage", || {
            host.log().matches("item 0 begins").count() == 2
                && host.metric("modelhost_requests_in_flight{endpoint=\"model\"}") == 2.0
        });
        for call in calls {
            assert_eq!(call.join().unwrap().json(), json!(["0 modified", "1 modified"]));
        }
    });
}

/// T17, T18: without pydantic, in its words.
#[test]
fn truss_checks_and_tells_typed_inputs() {
    let folder = old(&[
        ("config.yaml", "model_name: typed\nmodel_metadata:\n  example_model_input: {prompt: ab}\n"),
        (
            "model/model.py",
            "from dataclasses import dataclass\n\n\n@dataclass\nclass I:\n    prompt: str\n    n: int = 1\n\n\n@dataclass\nclass O:\n    generated_text: str\n\n\n\
             class Model:\n    def predict(self, inputs: I) -> O:\n        return O(inputs.prompt * inputs.n)\n",
        ),
    ]);
    let (_, host) = served(folder.path());
    for (body, status, code, expected) in [
        (json!({"prompt": "ab", "n": 2}), 200, None, json!({"generated_text": "abab"})),
        (json!({"prompt": "ab"}), 200, None, json!({"generated_text": "ab"})),
        (json!({}), 400, Some("700"), json!({"error": "Input Parsing Error:\n  `prompt`: Field required."})),
        (
            json!({"prompt": 1, "n": "z"}),
            400,
            Some("700"),
            json!({"error": "Input Parsing Errors:\n  `prompt`: Input should be a valid string.\n  `n`: Input should be a valid integer, \
                   unable to parse string as an integer."}),
        ),
    ] {
        let reply = host.post(PREDICT, body.to_string());
        assert_eq!(
            (reply.status, reply.header("x-baseten-error-code"), reply.json()),
            (status, code, expected)
        );
    }
    let schema = host.get("/v1/models/model/schema");
    let expected = json!({
        "input_schema": {
            "properties": {
                "prompt": {"title": "Prompt", "type": "string"},
                "n": {"default": 1, "title": "N", "type": "integer"},
            },
            "required": ["prompt"],
            "title": "I",
            "type": "object",
        },
        "output_schema": {
            "properties": {"generated_text": {"title": "Generated Text", "type": "string"}},
            "required": ["generated_text"],
            "title": "O",
            "type": "object",
        },
        "supports_streaming": false,
    });
    assert_eq!((schema.status, schema.json()), (200, expected));
}
