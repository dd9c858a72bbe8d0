//! Jobs that applications in Python and JavaScript submit by their SDK's `jobs`.
//!
//! In: projects of a template, built by the host, and a host with a store. (A project without `jobs` does
//! not import it: in `templates.rs` no endpoint has jobs, and such an import would refuse the start.)

use std::path::Path;

use e2e::project::application;
use e2e::{Host, wait_until};
use serde_json::{Value, json};

/// Everything that can be done with a job, by one application.
fn works(plugin: &Path, store: &Path) {
    let arguments =
        ["--plugin", plugin.to_str().unwrap(), "--jobs", "on", "--jobs-store", store.to_str().unwrap()];
    let host = Host::serve(&[&arguments[..], &["--job-submissions", "2", "--job-depth", "0"]].concat());
    let ask = |path: &str, body: Value| {
        let reply = host.post(path, body.to_string());
        assert_eq!(reply.status, 200, "{path} {body}: {}", reply.text());
        reply.json()
    };
    let id = ask("/submit", json!({"path": "/work?x=1", "options": {"json": [1, 2], "priority": 0}}))["id"]
        .clone();
    let mut looked = Value::Null;
    wait_until("the job to be completed", || {
        looked = ask("/look", json!({"id": id}));
        looked["state"] == "completed"
    });
    assert_eq!(looked, json!({"state": "completed", "attempts": 3, "status": 200, "answer": {"sum": 3}}));
    for (path, options, expected) in [
        ("work", json!({}), "invalid"),
        ("/work", json!({"priority": 3}), "invalid"),
        ("/work", json!({"headers": {"authorization": "x"}}), "invalid"),
        ("/work", json!({"webhook": "https://example.com"}), "invalid"),
    ] {
        assert_eq!(
            ask("/submit", json!({"path": path, "options": options})),
            json!({"error": expected}),
            "{options}"
        );
    }
    let later = ask("/submit", json!({"path": "/work", "options": {"body": "[]", "delay": 100}}));
    assert_eq!(later["state"], "queued");
    assert_eq!(ask("/cancel", json!({"id": later["id"]})), json!(["cancelled"]));
    assert_eq!(ask("/cancel", json!({"id": "none"})), json!([null]));
    // Two for a request, and none for a job.
    assert_eq!(ask("/many", json!({})), json!(["queued", "queued", "limit"]));
    let deep = ask("/submit", json!({"path": "/many", "options": {"json": {}}}))["id"].clone();
    wait_until("that to be completed", || ask("/look", json!({"id": deep}))["state"] == "completed");
    assert_eq!(ask("/look", json!({"id": deep}))["answer"], json!(["limit", "limit", "limit"]));
}

const PYTHON: &str = r#"
from modelhost_guest import App, JobError, jobs

app = App()


@app.init
def load(metadata):
    return {}


@app.handler("/work")
def work(request):
    return {"sum": sum(request.json)}


@app.handler("/submit")
def submit(request):
    try:
        job = jobs.submit(request.json["path"], **request.json["options"])
    except JobError as error:
        return {"error": error.kind}
    return {"id": job.id, "state": job.state}


@app.handler("/look")
def look(request):
    job, answer = jobs.get(request.json["id"]), jobs.get_answer(request.json["id"])
    return {"state": job.state, "attempts": job.attempts, "status": job.status, "answer": answer and answer.json}


@app.handler("/cancel")
def cancel(request):
    job = jobs.cancel(request.json["id"])
    return [job and job.state]


@app.handler("/many")
def many(request):
    return [state() for _ in range(3)]


def state():
    try:
        return jobs.submit("/work", json=[]).state
    except JobError as error:
        return error.kind
"#;

const JAVASCRIPT: &str = r#"
import { App } from "modelhost-guest";
import * as jobs from "modelhost-guest/jobs";

const app = new App()
  .init(() => {})
  .post("/work", (request) => ({ sum: request.json().reduce((sum, one) => sum + one, 0) }))
  .post("/submit", (request) => {
    const [path, options] = request.fields("path", "options");
    return tried(() => {
      const { id, state } = jobs.submit(path, options);
      return { id, state };
    }, (kind) => ({ error: kind }));
  })
  .post("/look", (request) => {
    const [id] = request.fields("id");
    const { state, attempts, status } = jobs.get(id);
    return { state, attempts, status: status ?? null, answer: jobs.getAnswer(id)?.json() ?? null };
  })
  .post("/cancel", (request) => [jobs.cancel(...request.fields("id"))?.state ?? null])
  .post("/many", () => [0, 1, 2].map(() => tried(() => jobs.submit("/work", { json: [] }).state, (kind) => kind)));

export const { init, operations, respond } = app.exports();

function tried(call, failed) {
  try {
    return call();
  } catch (error) {
    if (error instanceof jobs.JobError) return failed(error.kind);
    throw error;
  }
}
"#;

#[test]
fn python_submits_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = application(folder.path(), "python", &[("app.py", PYTHON)]);
    works(&plugin, &folder.path().join("jobs"));
}

#[test]
fn javascript_submits_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = application(folder.path(), "js", &[("handler.js", JAVASCRIPT)]);
    works(&plugin, &folder.path().join("jobs"));
}
