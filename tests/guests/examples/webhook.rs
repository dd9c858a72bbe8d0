//! An application that sends requests to others with the SDK: what it is told to send comes in the body.

use std::sync::LazyLock;
use std::time::Duration;

use modelhost_guest::app::{Json, Output, Router, Sent};
use modelhost_guest::outbound::{Request, Webhook, send_webhook};
use modelhost_guest::{Handler, Response, Result, export, internal};
use serde::Deserialize;
use serde_json::{Value, json};

struct App;

static ROUTES: LazyLock<Router<App>> =
    LazyLock::new(|| Router::new().post("/hook", hook).background("/later", tell).post("/fetch", fetch));

#[derive(Deserialize)]
struct Told {
    url: String,
    value: Value,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    is_signed: bool,
}

/// Goes on whatever becomes of the webhook.
#[allow(clippy::print_stderr, reason = "the warning that the test looks for")]
fn hook(_: &mut App, Json(told): Json<Told>) -> Json<Value> {
    let sent = send_webhook(&told.url, &told.value);
    if let Err(error) = &sent {
        eprintln!("the webhook is lost: {error}");
    }
    Json(json!({"is_sent": sent.is_ok()}))
}

/// Signs with the secret that the endpoint grants.
fn tell(_: &mut App, Json(told): Json<Told>) -> Result<()> {
    let webhook = Webhook::new(&told.url).attempts(told.attempts).pause(Duration::from_millis(50));
    let secret = std::env::var("WEBHOOK_SECRET").map_err(|error| internal(error.to_string()))?;
    let webhook = if told.is_signed { webhook.signed(&secret) } else { webhook };
    webhook.send(&told.value)?;
    Ok(())
}

/// Passes a response on in pieces as they come.
fn fetch(_: &mut App, Json(told): Json<Told>, output: Output) -> Result<Sent> {
    let request = Request::new("PUT", &told.url).header("x-mine", "1").json(&told.value)?;
    let mut response = match request.timeout(Duration::from_millis(500)).send() {
        Ok(response) => response,
        Err(error) => return output.send(Response::text(error.to_string()).status(502)),
    };
    let kind = response.header("content-type").unwrap_or("text/plain").to_owned();
    let mut body = output.begin(response.status, &kind, &[])?;
    while let Some(piece) = response.read()? {
        if !body.write(piece) {
            break;
        }
    }
    Ok(body.finish())
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
