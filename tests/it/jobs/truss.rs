//! Truss's asynchronous calls, as its makers document them: `async_predict`, a request's state, its webhook.

use std::fs;

use e2e::setup::Endpoint;
use e2e::{Host, wait_until};
use ring::hmac;
use serde_json::{Value, json};

use super::stored;
use crate::webhooks::{BUSY, OK, Receiver, SECRET, assert_signed};

fn predict(host: &Host, path: &str, body: &Value) -> String {
    let reply = host.post(path, body.to_string());
    assert_eq!(reply.status, 201, "{}", reply.text());
    let answer = reply.json();
    assert_eq!(answer.as_object().unwrap().len(), 1, "{answer}");
    answer["request_id"].as_str().unwrap().to_owned()
}

fn until(host: &Host, path: &str, id: &str, field: &str, state: &str) -> Value {
    let mut status = Value::Null;
    wait_until(&format!("{field} of {id} to be {state}"), || {
        status = host.get(&format!("{path}/{id}")).json();
        status[field] == state
    });
    status
}

/// T34.
#[test]
fn a_request_is_acknowledged_run_and_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = folder.path().join("secrets");
    fs::write(&secrets, SECRET).unwrap();
    let receiver = Receiver::start(&[BUSY, OK]);
    let own = format!(
        "jobs = 'truss'\nallow_outbound = [{:?}]\nwebhook_secrets = ['@{}']",
        receiver.url,
        secrets.display()
    );
    let host = stored(folder.path(), [Endpoint::new("echo").guest("echo").set(own)]).serve();
    let input = json!({"prompt": "hello", "n": 1.5});
    let wanted = json!({
        "model_input": input, "webhook_endpoint": format!("{}/hook", receiver.url), "priority": 1,
        "max_time_in_queue_seconds": 100,
        "inference_retry_config": {"max_attempts": 3, "initial_delay_ms": 1000, "max_delay_ms": 5000},
    });
    let id = predict(&host, "/echo/async_predict", &wanted);
    let requests = receiver.wait_for(2);
    let request = &requests[1];
    assert_signed(request);
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let expected: String =
        hmac::sign(&key, &request.body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(request.header("X-BASETEN-SIGNATURE"), format!("v1={expected}"));
    let message: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(serde_json::from_str::<Value>(message["data"]["body"].as_str().unwrap()).unwrap(), input);
    assert_eq!(message["data"]["content_type"], "application/json");
    for (name, expected) in [
        ("request_id", json!(id)),
        ("model_id", json!("echo")),
        ("type", json!("async_request_completed")),
        ("errors", json!([])),
    ] {
        assert_eq!(message[name], expected, "{name}");
    }
    let status = until(&host, "/async_request", &id, "webhook_status", "SUCCEEDED");
    assert_eq!((&status["status"], &status["errors"]), (&json!("SUCCEEDED"), &json!([])));
    assert!(status["created_at"].as_str() < status["status_at"].as_str(), "{status}");
    assert_eq!(host.get(&format!("/echo/jobs/{id}/result")).json()["method"], "POST", "the result is kept");

    let text = host.post("/echo/async_predict", "[{}]").error(400, "invalid_input", "admit");
    assert!(
        text.starts_with("the body is no asynchronous request: invalid type: sequence, expected an object"),
        "{text}"
    );

    // The paths of the only endpoint; without a webhook.
    for path in ["/async_predict", "/production/async_predict", "/v1/models/model:async_predict"] {
        let id = predict(&host, path, &json!({"model_input": "x"}));
        let status = until(&host, "/echo/async_request", &id, "status", "SUCCEEDED");
        assert_eq!(status["webhook_status"], "NO_WEBHOOK_PROVIDED", "{path}");
    }
    for (body, text) in [
        (json!({}), "the body is no asynchronous request: missing field `model_input`"),
        (json!({"model_input": 1, "priority": 3}), "`priority` is not a number from 0 to 2"),
        (json!({"model_input": 1, "priority": -1}), "the body is no asynchronous request: invalid value"),
        (json!({"model_input": 1, "max_time_in_queue_seconds": 0}), "`max_time_in_queue_seconds` is not a"),
        (
            json!({"model_input": 1, "inference_retry_config": {"max_attempts": 4}}),
            "`inference_retry_config.max_attempts` is not a number from 1 to 3, `limits.job_attempts`",
        ),
        (
            json!({"model_input": 1, "webhook_endpoint": "http://127.0.0.1:1"}),
            "`webhook_endpoint` names a place that is not on the endpoint's list `allow_outbound`",
        ),
    ] {
        let answer = host.post("/echo/async_predict", body.to_string()).error(400, "invalid_input", "admit");
        assert!(answer.starts_with(text), "{body}: {answer}");
    }
    let reply = host.get("/async_predict");
    assert_eq!((reply.status, reply.header("allow")), (405, Some("OPTIONS, POST")));
    host.get("/async_request/01936c1e-2f6b-7abc-8def-0123456789ab").error(404, "not_found", "admit");
}

#[test]
fn queued_requests_are_cancelled_expire_and_come_by_priority() {
    let folder = tempfile::tempdir().unwrap();
    let slow = Endpoint::new("slow")
        .guest("files")
        .set("jobs = 'truss'")
        .limits("job_concurrency = 1, pre_timeout = '60s', wall_timeout = '60s'");
    let model = Endpoint::new("model").model("iris_dyn").set("jobs = 'truss'");
    let host = stored(folder.path(), [slow, model]).serve();
    // The handler reads its body as an order, which JSON is none of: this job is one of the server's form.
    let running = host.post("/slow/jobs", "sleep:3000").json()["id"].as_str().unwrap().to_owned();
    let running = running.as_str();
    until(&host, "/slow/async_request", running, "status", "IN_PROGRESS");
    let ask = |more: Value| {
        let mut body = json!({"model_input": {"a": 1}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        predict(&host, "/slow/async_predict", &body)
    };
    let expiring = ask(json!({"max_time_in_queue_seconds": 1}));
    let cancelled = ask(json!({}));
    let cancel = |id: &str| host.request("DELETE", &format!("/slow/async_request/{id}"), &[], b"").json();
    assert_eq!(cancel(&cancelled)["canceled"], true);
    let refused = cancel(running);
    assert_eq!((&refused["canceled"], &refused["request_id"]), (&json!(false), &json!(running)));
    let status = until(&host, "/slow/async_request", &expiring, "status", "EXPIRED");
    assert_eq!(status["errors"][0]["message"], "the job waited longer than it may");
    until(&host, "/slow/async_request", &cancelled, "status", "CANCELED");
    until(&host, "/slow/async_request", running, "status", "SUCCEEDED");
    let failing = predict(&host, "/model/async_predict", &json!({"model_input": "no tensor"}));
    let status = until(&host, "/model/async_request", &failing, "status", "FAILED");
    assert_eq!(status["errors"][0]["code"], "MODEL_PREDICT_ERROR");
    assert_eq!(host.get("/async_request/x").status, 404, "one endpoint of two");
}
