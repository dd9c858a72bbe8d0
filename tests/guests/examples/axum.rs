//! An axum application on wstd, which calls the endpoint's models with the SDK.

// Natively its exports have names that no linker takes.
#![cfg(target_family = "wasm")]
#![allow(dead_code, reason = "`main` is what the macro wants, and nothing calls it")]

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use modelhost_guest::{Tensor, models};
use serde::Deserialize;

#[derive(Deserialize)]
struct Pair {
    a: [f32; 2],
    b: [f32; 2],
}

#[wstd_axum::http_server]
fn main() -> Router {
    Router::new().route("/names", get(names)).route("/add", post(add)).route("/together", post(together))
}

async fn names() -> Json<Vec<String>> {
    Json(models::names())
}

async fn add(Json(pair): Json<Pair>) -> Result<Json<Vec<f32>>, (StatusCode, String)> {
    let tensor = |name: &str, values: &[f32]| Tensor::new(name, [2], values);
    let outputs = models::infer("", &[tensor("a", &pair.a), tensor("b", &pair.b)]).map_err(failed)?;
    values(outputs.first())
}

/// Starts a run for each of eight shares, and adds up what they give.
async fn together(Json(pair): Json<Pair>) -> Result<Json<Vec<f32>>, (StatusCode, String)> {
    let resident = |name: &str, values: &[f32]| models::Resident::new(&Tensor::new(name, [2], values));
    let (a, b) = (resident("a", &pair.a).map_err(failed)?, resident("b", &pair.b).map_err(failed)?);
    let started: Result<Vec<_>, _> = (0..8).map(|_| models::start("", &[("a", &a), ("b", &b)])).collect();
    let mut sum = vec![0.0; 2];
    for run in started.map_err(failed)? {
        let output = run.wait().and_then(|mut outputs| outputs.take("sum")?.read("sum")).map_err(failed)?;
        let Json(values) = values(Some(&output))?;
        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    Ok(Json(sum))
}

fn values(tensor: Option<&Tensor>) -> Result<Json<Vec<f32>>, (StatusCode, String)> {
    let tensor = tensor.ok_or_else(|| failed("no output"))?;
    tensor.values::<f32>().map(|values| Json(values.into_owned())).map_err(failed)
}

fn failed(error: impl ToString) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}
