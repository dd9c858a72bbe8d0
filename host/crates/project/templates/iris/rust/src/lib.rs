//! Names an iris from four measurements.
//!
//! In:   `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`, in centimetres.
//! Out:  `{"class_label": "setosa", "class_index": 0, "probabilities": [0.98, 0.02, 0.0]}`.
//!
//! The model takes `[rows, 4]` floats; its last output holds a probability for each class.

use modelhost_guest::{Context, Handler, Metadata, Response, Result, Sample, Tensor, handler, internal};
use serde::{Deserialize, Serialize};

/// What a request's body holds.
#[derive(Deserialize)]
#[serde(expecting = "an object of four measurements")]
struct Flower {
    sepal_length: f32,
    sepal_width: f32,
    petal_length: f32,
    petal_width: f32,
}

/// What the response's body holds.
#[derive(Serialize)]
struct Answer<'a> {
    class_label: &'a str,
    class_index: usize,
    probabilities: &'a [f32],
}

/// The endpoint's `metadata` in modelhost.toml.
#[derive(Default, Deserialize)]
struct Settings {
    labels: Vec<String>,
}

#[derive(Default)]
struct Iris {
    settings: Settings,
}

#[handler]
impl Handler for Iris {
    /// Runs once, when the handler is loaded: for files to read and tables to build.
    fn init(&mut self, metadata: &Metadata) -> Result<()> {
        self.settings = metadata.parse()?;
        Ok(())
    }

    /// From the request to the model's inputs.
    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let flower: Flower = sample.json()?;
        let row = [flower.sepal_length, flower.sepal_width, flower.petal_length, flower.petal_width];
        Ok(vec![Tensor::new("input", [1, 4], &row)])
    }

    /// From the model's outputs to the response.
    fn post_inference(&mut self, prediction: Vec<Tensor>, _context: &Context) -> Result<Response> {
        let rows = prediction.last().ok_or_else(|| internal("the model has no output"))?.rows::<f32>()?;
        let probabilities = rows.first().unwrap_or_default();
        let largest = probabilities.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let (class_index, _) = largest.ok_or_else(|| internal("the model's last output is empty"))?;
        let class_label = self.settings.labels.get(class_index);
        let class_label = class_label.ok_or_else(|| internal("more classes than labels"))?;
        Response::json(&Answer { class_label, class_index, probabilities })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flower_becomes_one_row() {
        let sample = Sample::new("application/json", include_str!("../sample.json"));
        let tensors = Iris::new().pre_inference(sample, &Context::builder().build());
        assert_eq!(tensors, Ok(vec![Tensor::new("input", [1, 4], &[5.2f32, 3.6, 1.4, 0.3])]));
    }

    #[test]
    fn the_largest_probability_names_the_flower() {
        let mut iris = Iris::new();
        iris.init(&Metadata::new(r#"{"labels": ["a", "b"]}"#)).unwrap();
        let outputs = vec![Tensor::new("probabilities", [1, 2], &[0.25f32, 0.75])];
        let response = iris.post_inference(outputs, &Context::builder().build()).unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(answer["class_label"], "b");
    }
}
