//! Works without a model, on JSON objects, as Inferless's handlers do: `{"prompt": "hi", "times": 2}` becomes
//! `{"out": "hi!hi!"}`. Says what it takes. `times` is optional; without it the answer says so with `"once": true`.

use modelhost_guest::{Context, Datatype, Handler, Input, Response, Result, Sample, Tensor, export};
use serde::Deserialize;
use serde_json::json;

struct Greet {
    times: Option<i32>,
}

export!(Greet: pre_inference, post_inference, input_schema);

#[derive(Deserialize)]
struct Greeting {
    prompt: String,
    times: Option<i32>,
}

impl Handler for Greet {
    fn new() -> Self {
        Greet { times: None }
    }

    fn pre_inference(&mut self, sample: Sample, _: &Context) -> Result<Vec<Tensor>> {
        let greeting: Greeting = sample.json()?;
        self.times = greeting.times;
        Ok(vec![Tensor::from_bytes("prompt", [1], [greeting.prompt.as_str()])])
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, _: &Context) -> Result<Response> {
        let prompt = Tensor::named(&prediction, "prompt")?.strings()?.concat();
        let times = usize::try_from(self.times.unwrap_or(1)).unwrap_or(0);
        let out = format!("{prompt}!").repeat(times);
        match self.times {
            Some(_) => Response::json(&json!({ "out": out })),
            None => Response::json(&json!({ "out": out, "once": true })),
        }
    }

    fn input_schema() -> Vec<Input> {
        vec![
            Input::new("prompt", Datatype::Bytes, [1]).example("hi").description("what to say"),
            Input::new("times", Datatype::Int32, [1]).example(2).optional(),
        ]
    }
}
