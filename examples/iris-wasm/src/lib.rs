//! Names an iris from four measurements.
//!
//! In:   `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`, in
//! centimetres.
//! Out:  `{"class_label": "iris-setosa", "class_index": 0, "probabilities": [0.98, 0.02, 0.0]}`.
//!
//! The model takes `[rows, 4]` floats; its last output holds one probability for each class.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export, internal};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(expecting = "an object of four measurements")]
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

const BUILT_IN_LABELS: [&str; 3] = ["iris-setosa", "iris-versicolor", "iris-virginica"];

/// The endpoint's `metadata`, if it has any.
#[derive(Deserialize)]
struct Metadata {
    labels: Option<Vec<String>>,
}

struct Iris {
    /// Empty until the first answer; then kept, for an instance belongs to one endpoint and its metadata.
    labels: Vec<String>,
}

export!(Iris);

impl Handler for Iris {
    fn new() -> Self {
        Iris { labels: Vec::new() }
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let flower: Flower = sample.json()?;
        let row = [flower.sepal_length, flower.sepal_width, flower.petal_length, flower.petal_width];
        Ok(vec![Tensor::new("input", [1, 4], &row)])
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        if self.labels.is_empty() {
            let configured = context.metadata::<Option<Metadata>>()?.and_then(|metadata| metadata.labels);
            self.labels = configured.unwrap_or_else(|| BUILT_IN_LABELS.map(String::from).into());
        }
        let rows = prediction.last().ok_or_else(|| internal("the model has no output"))?.rows::<f32>()?;
        let probabilities = rows.first().unwrap_or_default();
        let largest = probabilities.iter().enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a });
        let (class_index, _) = largest.ok_or_else(|| internal("the model's last output is empty"))?;
        let class_label = self.labels.get(class_index).ok_or_else(|| internal("more classes than labels"))?;
        Response::json(&Answer { class_label, class_index, probabilities })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = include_str!("../sample.json");

    #[test]
    fn four_measurements_make_one_row_and_a_missing_one_is_named() {
        let context = Context::builder().build();
        let pre = |body: String| Iris::new().pre_inference(Sample::new("application/json", body), &context);
        assert_eq!(pre(BODY.into()), Ok(vec![Tensor::new("input", [1, 4], &[5.2f32, 3.6, 1.4, 0.3])]));
        let error = pre(BODY.replace("sepal_width", "width")).unwrap_err().to_string();
        assert!(error.starts_with("missing field `sepal_width`"), "{error}");
    }

    #[test]
    fn labels_are_the_endpoints_or_built_in() {
        let context = Context::builder().metadata(serde_json::json!({"labels": ["a", "b", "c"]})).build();
        for (context, label) in [(context, "b"), (Context::builder().build(), "iris-versicolor")] {
            let outputs = vec![Tensor::new("probabilities", [1, 3], &[0.25f32, 0.5, 0.25])];
            let body = Iris::new().post_inference(outputs, &context).unwrap().body;
            let expected =
                format!(r#"{{"class_label":"{label}","class_index":1,"probabilities":[0.25,0.5,0.25]}}"#);
            assert_eq!(String::from_utf8(body).unwrap(), expected);
        }
    }
}
