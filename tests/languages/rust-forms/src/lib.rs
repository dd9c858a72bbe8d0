//! An application that tells the parts of a form, and sets two cookies: see tests/languages/multipart.json.

use std::sync::LazyLock;

use modelhost_guest::app::{Multipart, Router};
use modelhost_guest::{Handler, Part, Response, Result, export};
use serde_json::{Value, json};

struct App;

static ROUTES: LazyLock<Router<App>> =
    LazyLock::new(|| Router::new().post("/form", form).get("/cookies", cookies));

fn form(_: &mut App, form: Multipart) -> Result<Response> {
    let part = |part: Part<'_>| -> Value {
        let sum: u64 = part.body.iter().map(|byte| u64::from(*byte)).sum();
        json!({
            "name": part.name, "filename": part.filename, "type": part.content_type, "size": part.body.len(), "sum": sum,
        })
    };
    Response::json(&json!({ "parts": form.parts().map(part).collect::<Vec<_>>() }))
}

fn cookies(_: &mut App) -> Response {
    Response::text("baked").header("set-cookie", "a=1").header("set-cookie", "b=2")
}

impl Handler for App {
    fn new() -> Self {
        App
    }

    fn router() -> Option<&'static Router<App>> {
        Some(&ROUTES)
    }
}

export!(App: respond);
