//! Submits jobs to its own endpoint, as the body says. A list of orders, each a list of its name and arguments, is answered
//! with what came of each; `{"chain": …}` submits itself again, and is answered with what came of that; `{"sleep": MS}` takes
//! that long; anything else comes back.

#![allow(clippy::indexing_slicing, reason = "a guest of tests, which sees what it is sent")]

use std::thread;
use std::time::Duration;

use modelhost_guest::jobs::{self, Job, JobError, Submission};
use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::{Value, json};

struct Jobs;

export!(Jobs: pre_inference);

impl Handler for Jobs {
    fn new() -> Self {
        Jobs
    }

    fn pre_inference(&mut self, sample: Sample, context: &Context) -> Result<Vec<Tensor>> {
        let body: Value = sample.json()?;
        let answer = match &body {
            Value::Array(orders) => {
                let mut last = String::new();
                let outcome = |order| done(order, &mut last).unwrap_or_else(|error| failed(&error));
                orders.iter().map(outcome).collect()
            }
            Value::Object(fields) if fields.contains_key("chain") => {
                let next = Submission::to("/").json(&body).and_then(Submission::submit);
                next.map_or_else(|error| failed(&error), |job| json!(job.id))
            }
            Value::Object(fields) if fields.contains_key("sleep") => {
                thread::sleep(Duration::from_millis(fields["sleep"].as_u64().unwrap_or_default()));
                body
            }
            _ => json!({"seen": body, "query": context.query(), "header": context.header("x-mine")}),
        };
        Err(Response::json(&answer)?.into())
    }
}

fn failed(error: &JobError) -> Value {
    json!({"error": format!("{error:?}")})
}

fn shown(job: &Job) -> Value {
    json!({"id": job.id, "state": format!("{:?}", job.state), "attempts": job.attempts, "status": job.status})
}

fn done(order: &Value, last: &mut String) -> Result<Value, JobError> {
    let text = |at: usize| order[at].as_str().unwrap_or_default();
    let id = if text(1) == "last" { last.clone() } else { text(1).to_owned() };
    Ok(match text(0) {
        "submit" => {
            let job = submission(order)?.submit()?;
            last.clone_from(&job.id);
            shown(&job)
        }
        // As many as the number says, or until it is refused.
        "many" => {
            let mut stored = 0;
            let refused = loop {
                match Submission::to("/").json(&order[2])?.submit() {
                    Ok(_) if stored + 1 == order[1].as_u64().unwrap_or_default() => break Value::Null,
                    Ok(_) => stored += 1,
                    Err(error) => break failed(&error),
                }
            };
            json!([stored, refused])
        }
        "get" => json!(jobs::get(&id)?.map(|job| shown(&job))),
        "answer" => {
            json!(jobs::get_answer(&id)?.map(|answer| {
                json!([answer.status, answer.headers, String::from_utf8_lossy(&answer.body)])
            }))
        }
        "cancel" => json!(jobs::cancel(&id)?.map(|job| shown(&job))),
        // Until the host has had enough.
        "forever" => loop {
            jobs::get(&id)?;
        },
        other => json!(format!("cannot `{other}`")),
    })
}

/// Path, body and options.
fn submission(order: &Value) -> Result<Submission, JobError> {
    let options = &order[3];
    let number = |name: &str| options[name].as_u64();
    let mut submission = Submission::to(order[1].as_str().unwrap_or_default()).json(&order[2])?;
    if let Some(bytes) = number("fill") {
        submission.body = vec![b'x'; usize::try_from(bytes).unwrap_or_default()];
    }
    if let Some([name, value]) = options["header"].as_array().map(Vec::as_slice) {
        submission = submission.header(name.as_str().unwrap_or_default(), value.as_str().unwrap_or_default());
    }
    submission.priority = number("priority").map(|number| u8::try_from(number).unwrap_or(u8::MAX));
    submission.delay = number("delay").map(Duration::from_millis);
    submission.wait = number("wait").map(Duration::from_millis);
    submission.attempts = number("attempts").map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    submission.webhook = options["webhook"].as_str().map(str::to_owned);
    submission.idempotency_key = options["key"].as_str().map(str::to_owned);
    Ok(submission)
}
