//! An application that serves requests together: what its orders say of the batch that they are in.

#![allow(
    clippy::print_stdout,
    clippy::panic,
    reason = "a guest of tests, whose output and panics are looked for"
)]

use std::sync::LazyLock;
use std::time::Duration;

use modelhost_guest::app::{FromRequest, Json, Request, Router};
use modelhost_guest::{Handler, Result, Tensor, export, internal, invalid, models};
use serde::Deserialize;
use serde_json::{Value, json};

struct App {
    /// Batches that this instance has served.
    batches: u32,
}

static ROUTES: LazyLock<Router<App>> = LazyLock::new(|| {
    Router::new()
        .batch("/", together)
        .batch("/other", together)
        .post("/alone", |_: &mut App, Json(order): Json<Value>| Json(json!({"alone": order})))
        .get("/", |app: &mut App| app.batches.to_string())
});

#[derive(Deserialize)]
struct Order {
    value: i64,
    /// What the batch that it is in comes to.
    #[serde(rename = "do", default)]
    how: String,
}

/// An order, with what is asked of its own context.
struct Asked {
    order: Order,
    id: String,
    mark: Option<String>,
}

impl FromRequest for Asked {
    fn from_request(request: &mut Request<'_>) -> Result<Self> {
        let Json(order) = Json::from_request(request)?;
        let (id, mark) = (request.context.request_id(), request.context.header("x-mark"));
        Ok(Asked { order, id, mark })
    }
}

fn together(app: &mut App, asked: Vec<Asked>) -> Result<Vec<Result<Json<Value>>>> {
    app.batches += 1;
    let values: Vec<i64> = asked.iter().map(|it| it.order.value).collect();
    println!("a batch of {values:?}");
    let is_asked = |how: &str| asked.iter().any(|it| it.order.how == how);
    if is_asked("trap") {
        panic!("in the middle of a batch");
    }
    if is_asked("fail") {
        return Err(internal("not this batch"));
    }
    if is_asked("teapot") {
        return Err(modelhost_guest::Response::text("no coffee").status(418).into());
    }
    if is_asked("wait") {
        std::thread::sleep(Duration::from_millis(1500));
    }
    if is_asked("for ever") {
        std::thread::sleep(Duration::from_secs(3600));
    }
    let sum: i64 = values.iter().sum();
    let modelled = match is_asked("model") {
        true => {
            let tensor = |name: &str| Tensor::new(name, [2], &[sum as f32, 0.0]);
            models::infer("", &[tensor("a"), tensor("b")])?
                .first()
                .map(|it| it.values::<f32>().map(|it| it.first().copied()))
        }
        false => None,
    };
    let modelled = modelled.transpose()?;
    let (short, long) = (is_asked("short"), is_asked("long"));
    let answer = |it: Asked| match it.order.how.as_str() {
        "refuse" => Err(invalid("not this one")),
        _ => Ok(Json(json!({
            "value": it.order.value, "batch": values, "id": it.id, "mark": it.mark, "model": modelled,
        }))),
    };
    let mut answers: Vec<_> = asked.into_iter().map(answer).collect();
    if short {
        answers.truncate(answers.len() - 1);
    }
    if long {
        answers.push(Ok(Json(Value::Null)));
    }
    Ok(answers)
}

impl Handler for App {
    fn new() -> Self {
        App { batches: 0 }
    }

    fn router() -> Option<&'static Router<App>> {
        Some(&ROUTES)
    }
}

export!(App: respond, respond_all);
