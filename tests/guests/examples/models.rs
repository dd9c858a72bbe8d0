//! Calls models by itself, as the body says: `{"do": …}`; answers with what came of it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a guest of tests, which sees what it is sent"
)]

use modelhost_guest::models::{self, ModelError, Resident};
use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::{Value, json};

struct Models;

export!(Models: pre_inference);

impl Handler for Models {
    fn new() -> Self {
        Models
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let order: Value = sample.json()?;
        let number = |name: &str| order[name].as_u64().unwrap_or(1);
        let model = order["model"].as_str().unwrap_or_default();
        let pair = |name: &str, first: f32| Tensor::new(name, [2], &[first, first + 1.0]);
        let answer = match order["do"].as_str().unwrap_or_default() {
            "names" => json!(models::names()),
            "describe" => told(models::describe(model).map(|it| it.inputs.len())),
            "infer" => told(
                models::infer(model, &[pair("a", 1.0), pair("b", 10.0)])
                    .map(|outputs| outputs[0].values::<f32>().unwrap().into_owned()),
            ),
            "wrong" => told(models::infer(model, &[pair("a", 1.0)]).map(|outputs| outputs.len())),
            // A sum that never leaves the host until it is done: a + b, + b, + b …
            "chain" => told(chain(model, number("times"))),
            "rows" => told(rows()),
            "together" => told(together(model, number("times"))),
            "drop" => {
                let a = Resident::new(&pair("a", 1.0)).unwrap();
                for _ in 0..number("times") {
                    drop(models::start(model, &[("x", &a)]));
                }
                json!("dropped")
            }
            "hold" => {
                let held: Vec<_> =
                    (0..number("times")).map_while(|_| Resident::new(&pair("a", 1.0)).ok()).collect();
                json!([held.len(), told(Resident::new(&pair("a", 1.0)).map(|_| "one more"))])
            }
            "large" => told(
                Resident::new(&Tensor::new("x", [number("times")], &vec![0_u8; number("times") as usize]))
                    .map(|resident| resident.size()),
            ),
            "runs" => {
                let inputs = [pair("a", 1.0), pair("b", 10.0)];
                let done = (0..number("times")).take_while(|_| models::infer(model, &inputs).is_ok()).count();
                json!(done)
            }
            other => json!(format!("cannot `{other}`")),
        };
        Err(Response::json(&answer)?.into())
    }
}

fn told<T: serde::Serialize>(outcome: std::result::Result<T, ModelError>) -> Value {
    match outcome {
        Ok(value) => json!({"ok": value}),
        Err(error) => json!({"error": format!("{error:?}")}),
    }
}

fn chain(model: &str, times: u64) -> std::result::Result<Vec<f32>, ModelError> {
    let mut sum = Resident::new(&Tensor::new("a", [2], &[0.0_f32, 1.0]))?;
    let step = Resident::new(&Tensor::new("b", [2], &[1.0_f32, 2.0]))?;
    for _ in 0..times {
        sum = models::run_for(model, &[("a", &sum), ("b", &step)], &["sum"])?.take("sum")?;
    }
    Ok(sum.read("sum")?.values::<f32>().unwrap().into_owned())
}

fn rows() -> std::result::Result<Value, ModelError> {
    let all = Resident::new(&Tensor::new("x", [3, 2], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0]))?;
    let last = all.rows(1, 2)?.reshape(&[4])?;
    let part = all.read_range(8, 8)?;
    Ok(json!({
        "last": last.read("x")?.values::<f32>().unwrap().into_owned(),
        "part": part,
        "shape": last.shape(),
        "beyond": told(all.rows(2, 2).map(|_| ())),
        "other": told(all.reshape(&[5]).map(|_| ())),
    }))
}

fn together(model: &str, times: u64) -> std::result::Result<usize, ModelError> {
    let x = Resident::new(&Tensor::new("x", [1], &[0.001_f32]))?;
    let begun: std::result::Result<Vec<_>, _> =
        (0..times).map(|_| models::start(model, &[("x", &x)])).collect();
    let mut done = 0;
    for pending in begun? {
        pending.wait()?;
        done += 1;
    }
    Ok(done)
}
