//! What belongs to no endpoint: health, metrics, and what Potassium's clients ask.
//!
//! Place in the flow: beside it; documents `http/health.rs` and `compat/potassium.rs`.

use serde_json::{Value, json};

use super::answers::{self, PROCESS_TAG, Paths, error_free, json_ok};
use crate::server::served::Served;

pub(super) fn paths(served: &Served) -> Paths<'_> {
    let flag = |name: &str| json!({ "type": "object", "properties": { name: { "type": "boolean" } }, "required": [name] });
    let live = |id| get(id, "The process is alive", &json_ok("It is.", &flag("ok")));
    let ready = |answer: &str| json_ok(answer, &flag("ready"));
    let mut readiness = get("process.ready", "Requests are served", &ready("They are."));
    // Not an error: the answer to the question.
    if let Some(Value::Object(answers)) = readiness.pointer_mut("/get/responses") {
        answers.insert("503".to_owned(), ready("Not any more: the process is going away."));
    }
    let mut paths = vec![
        ("/healthz".to_owned(), live("process.healthz")),
        ("/v2/health/live".to_owned(), live("process.live")),
        ("/v2/health/ready".to_owned(), readiness),
    ];
    let warm = |id| get(id, "Whether it is warm (Potassium)", &json_ok("It is.", &flag("warm")));
    let warmup = json!({
        "get": warm("potassium.warm").get("get"),
        "post": warm("potassium.warmup").get("get"),
    });
    let count = json!({ "type": "integer", "minimum": 0 });
    let activity = json_ok(
        "Times in milliseconds.",
        &json!({
            "type": "object",
            "properties": {
                "gpu_available": { "type": "boolean" },
                "sequence_number": count,
                "idle_time": count,
                "inference_time": count,
            },
            "required": ["gpu_available", "sequence_number", "idle_time", "inference_time"],
        }),
    );
    let status = |id| get(id, "What it is doing (Potassium)", &activity);
    paths.extend([
        ("/_k/warmup".to_owned(), warmup),
        ("/_k/status".to_owned(), status("potassium.status")),
        ("/__status__".to_owned(), status("potassium.old_status")),
    ]);
    if served.config.metrics_on_main {
        let text = json!({ "text/plain": { "schema": { "type": "string" } } });
        let metrics = get("process.metrics", "Metrics", &error_free("In Prometheus' text format.", &text));
        paths.push(("/metrics".to_owned(), metrics));
    }
    Box::new(paths.into_iter())
}

fn get(id: &str, summary: &str, ok: &Value) -> Value {
    answers::get(id, PROCESS_TAG, summary, ok.clone(), &[])
}
