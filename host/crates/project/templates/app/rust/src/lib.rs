//! Names irises: one, or several while the caller watches, or several while the caller does not wait.
//!
//! - `GET /` says what there is;
//! - `POST /classify` takes `{"measurements": [5.2, 3.6, 1.4, 0.3]}`, in centimetres;
//! - `POST /stream` takes `{"flowers": [[…], …]}` and sends an event for each;
//! - `POST /jobs` takes the same, answers at once, and works after that.

use std::sync::LazyLock;

use modelhost_guest::app::{Event, Json, Output, Router, Sent};
use modelhost_guest::{Handler, Metadata, Response, Result, Tensor, handler, internal, models};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The endpoint's `metadata` in modelhost.toml; filled by `init`.
#[derive(Default, Deserialize)]
struct App {
    labels: Vec<String>,
}

static ROUTES: LazyLock<Router<App>> = LazyLock::new(|| {
    Router::new().get("/", describe).post("/classify", classify).post("/stream", stream).post("/jobs", job)
});

#[derive(Deserialize)]
#[serde(expecting = "an object with `measurements`")]
struct Flower {
    measurements: [f32; 4],
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `flowers`")]
struct Flowers {
    flowers: Vec<[f32; 4]>,
}

#[derive(Serialize)]
struct Name {
    label: String,
    probability: f32,
}

fn describe(app: &mut App) -> Json<Value> {
    Json(json!({"model": models::names().first(), "labels": app.labels}))
}

fn classify(app: &mut App, Json(flower): Json<Flower>) -> Result<Json<Name>> {
    Ok(Json(app.name(&flower.measurements)?))
}

/// Sends each event while the next one is made.
fn stream(app: &mut App, Json(flowers): Json<Flowers>, output: Output) -> Result<Sent> {
    let mut events = output.events()?;
    for flower in flowers.flowers {
        if !events.send(&Event::json(&app.name(&flower)?)?) {
            break;
        }
    }
    Ok(events.finish())
}

/// Answers, then works; what it prints is in the log, with the request's id.
fn job(app: &mut App, Json(flowers): Json<Flowers>, output: Output) -> Result<Sent> {
    let sent = output.send(Response::json(&json!({"started": true}))?)?;
    for flower in flowers.flowers {
        println!("{}", app.name(&flower)?.label);
    }
    Ok(sent)
}

impl App {
    /// Asks the model.
    fn name(&self, measurements: &[f32; 4]) -> Result<Name> {
        let outputs = models::infer("", &[Tensor::new("input", [1, 4], measurements)])?;
        let probabilities = Tensor::named(&outputs, "probabilities")?.values::<f32>()?;
        let best = self.labels.iter().zip(probabilities.iter()).max_by(|a, b| a.1.total_cmp(b.1));
        let (label, probability) = best.ok_or_else(|| internal("the model's output is empty"))?;
        Ok(Name { label: label.clone(), probability: *probability })
    }
}

#[handler]
impl Handler for App {
    /// Runs once, when the handler is loaded.
    fn init(&mut self, metadata: &Metadata) -> Result<()> {
        *self = metadata.parse()?;
        Ok(())
    }

    fn router() -> Option<&'static Router<App>> {
        Some(&ROUTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use modelhost_guest::{Context, app};

    fn answer(path: &str, body: &str) -> String {
        models::answer_with(|_, _| Ok(vec![Tensor::new("probabilities", [1, 2], &[0.25f32, 0.75])]));
        let mut app = App { labels: vec!["a".into(), "b".into()] };
        let request = Context::builder().method("POST").path(path).body("application/json", body);
        app::answer(&mut app, request).unwrap().text().to_owned()
    }

    #[test]
    fn one_flower_is_named() {
        let expected = r#"{"label":"b","probability":0.75}"#;
        assert_eq!(answer("/classify", r#"{"measurements": [5.2, 3.6, 1.4, 0.3]}"#), expected);
    }

    #[test]
    fn several_are_named_one_after_another() {
        let body = r#"{"flowers": [[5.2, 3.6, 1.4, 0.3], [5.2, 3.6, 1.4, 0.3]]}"#;
        let expected = "data: {\"label\":\"b\",\"probability\":0.75}\n\n".repeat(2);
        assert_eq!(answer("/stream", body), expected);
    }
}
