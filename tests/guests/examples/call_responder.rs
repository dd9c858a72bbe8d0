//! An application on `respond` that calls models and another server for each request (`guests::calls`). `POST /` answers at
//! once, `/stream` as server-sent events; both with a header of the request if it asks for one: `?header=NAME`.

#![cfg(target_family = "wasm")]

use std::sync::LazyLock;

use guests::calls;
use modelhost_guest::app::{Event, Json, Output, Query, Reply, Request, Router, Sent};
use modelhost_guest::{Handler, Result, Sample, export, invalid};
use serde_json::{Value, json};

struct App {
    /// Requests that this instance has served.
    served: u32,
}

static ROUTES: LazyLock<Router<App>> = LazyLock::new(|| {
    Router::new()
        .post("/", all)
        .post("/stream", stream)
        .get("/items/{id}", |_: &mut App, Query(query): Query<Vec<(String, String)>>| {
            Json(json!({"query": query}))
        })
        .get("/served", |app: &mut App| app.served.to_string())
});

fn all(_: &mut App, sample: Sample) -> Result<Json<Value>> {
    Ok(Json(calls::all(&sample.body).map_err(invalid)?))
}

fn stream(_: &mut App, sample: Sample, output: Output) -> Result<Sent> {
    let told = calls::all(&sample.body).map_err(invalid)?;
    let mut events = output.events()?;
    for (name, value) in told.as_object().into_iter().flatten() {
        if !events.send(&Event::new(value.to_string()).id(name.clone())) {
            break;
        }
    }
    Ok(events.finish())
}

impl Handler for App {
    fn new() -> Self {
        App { served: 0 }
    }

    fn respond(&mut self, request: Request<'_>) -> Result<Reply> {
        self.served += 1;
        ROUTES.respond(self, request)
    }
}

export!(App: respond);
