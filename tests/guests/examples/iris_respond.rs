//! The example of `examples/iris-wasm` as an application: the benchmark's, by `respond`.

use modelhost_guest::app::{IntoReply as _, Json, Reply, Request};
use modelhost_guest::{Handler, Result, Tensor, export, internal, models};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Flower {
    sepal_length: f32,
    sepal_width: f32,
    petal_length: f32,
    petal_width: f32,
}

#[derive(Serialize)]
struct Answer<'a> {
    class_label: &'a str,
    class_index: usize,
    probabilities: &'a [f32],
}

const LABELS: [&str; 3] = ["iris-setosa", "iris-versicolor", "iris-virginica"];

struct Iris;

export!(Iris: respond);

impl Handler for Iris {
    fn new() -> Self {
        Iris
    }

    fn respond(&mut self, request: Request<'_>) -> Result<Reply> {
        let flower: Flower = request.sample.json()?;
        let row = [flower.sepal_length, flower.sepal_width, flower.petal_length, flower.petal_width];
        let prediction = models::infer("", &[Tensor::new("input", [1, 4], &row)])?;
        let rows = prediction.last().ok_or_else(|| internal("the model has no output"))?.rows::<f32>()?;
        let probabilities = rows.first().unwrap_or_default();
        let largest = probabilities.iter().enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a });
        let (class_index, _) = largest.ok_or_else(|| internal("the model's last output is empty"))?;
        let class_label = LABELS.get(class_index).ok_or_else(|| internal("more classes than labels"))?;
        Json(Answer { class_label, class_index, probabilities }).into_reply()
    }
}
