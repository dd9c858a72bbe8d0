//! Says whether a text is friendly.
//!
//! In:   `{"text": "A great film"}`.
//! Out:  `{"label": "positive", "score": 0.99, "unknown": []}`.
//!
//! The model takes `[texts, words]` numbers of words and gives `[texts, 2]` scores.

use std::collections::BTreeMap;

use modelhost_guest::{
    Context, Datatype, Handler, Input, Response, Result, Sample, Tensor, handler, internal, invalid,
};
use serde::{Deserialize, Serialize};

const VOCABULARY: &str = include_str!("../vocabulary.json");
const LABELS: [&str; 2] = ["negative", "positive"];

/// What a request's body holds.
#[derive(Deserialize)]
struct Request {
    text: String,
}

/// What the response's body holds.
#[derive(Serialize)]
struct Answer<'a> {
    label: &'a str,
    score: f32,
    unknown: Vec<String>,
}

struct Sentiment {
    numbers: BTreeMap<String, i64>,
}

/// The words of a text, in lower case.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

#[handler]
impl Handler for Sentiment {
    fn new() -> Self {
        let words: Vec<String> = serde_json::from_str(VOCABULARY).unwrap_or_default();
        Sentiment { numbers: words.into_iter().zip(0..).collect() }
    }

    /// Held against every request before a function here runs; the example is tried when the handler is loaded.
    fn input_schema() -> Vec<Input> {
        vec![Input::new("text", Datatype::Bytes, [1]).example("A great film").description("what to judge")]
    }

    /// From the text to the numbers of its words; 0 is one that the model does not know.
    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let request: Request = sample.json()?;
        let number = |word: &String| self.numbers.get(word).copied().unwrap_or(0);
        let numbers: Vec<i64> = words(&request.text).iter().map(number).collect();
        if numbers.is_empty() {
            return Err(invalid("`text` has no words"));
        }
        Ok(vec![Tensor::new("ids", [1, numbers.len() as u64], &numbers)])
    }

    /// From the scores to the label; the request is at hand again.
    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        let scores = prediction.first().ok_or_else(|| internal("the model has no output"))?.values::<f32>()?;
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let (index, score) = best.ok_or_else(|| internal("the model's output is empty"))?;
        let label = LABELS.get(index).ok_or_else(|| internal("more scores than labels"))?;
        let request: Request = context.sample().json()?;
        let unknown = words(&request.text).into_iter().filter(|word| !self.numbers.contains_key(word));
        Response::json(&Answer { label, score: *score, unknown: unknown.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_numbers() {
        let mut sentiment = Sentiment::new();
        let great = sentiment.numbers["great"];
        let sample = Sample::new("application/json", r#"{"text": "Great, zzz!"}"#);
        let tensors = sentiment.pre_inference(sample, &Context::builder().build());
        assert_eq!(tensors, Ok(vec![Tensor::new("ids", [1, 2], &[great, 0])]));
    }

    #[test]
    fn the_larger_score_is_the_label() {
        let context = Context::builder().body("application/json", r#"{"text": "great zzz"}"#).build();
        let outputs = vec![Tensor::new("scores", [1, 2], &[0.25f32, 0.75])];
        let response = Sentiment::new().post_inference(outputs, &context).unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(answer, serde_json::json!({"label": "positive", "score": 0.75, "unknown": ["zzz"]}));
    }
}
