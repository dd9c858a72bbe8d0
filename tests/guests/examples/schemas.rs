//! Declares what it takes in whatever way the variable `SCHEMA` names, from sound to hostile; `one` if there is none.
//!
//! Takes `{"word": …}` and answers `{"word": …}`, but for the words `boom` (an internal error), `panic` and `teapot` (418).

use modelhost_guest::{
    Context, Datatype, Handler, Input, Response, Result, Sample, Tensor, export, internal,
};
use serde_json::{Value, json};

struct Schemas {
    word: Value,
}

export!(Schemas: pre_inference, post_inference, input_schema);

impl Handler for Schemas {
    fn new() -> Self {
        Schemas { word: Value::Null }
    }

    #[expect(clippy::panic, reason = "it is what this guest is for")]
    fn pre_inference(&mut self, sample: Sample, _: &Context) -> Result<Vec<Tensor>> {
        let mut body: Value = sample.json()?;
        self.word = body.get_mut("word").map(Value::take).unwrap_or_default();
        match self.word.as_str() {
            Some("boom") => Err(internal("the word is boom\nand it has a second line")),
            Some("panic") => panic!("the test asked for a panic"),
            Some("teapot") => Err(Response::text("teapot").status(418).into()),
            _ => Ok(Vec::new()),
        }
    }

    fn post_inference(&mut self, _: Vec<Tensor>, _: &Context) -> Result<Response> {
        Response::json(&json!({ "word": self.word }))
    }

    #[expect(clippy::panic, reason = "it is what this guest is for")]
    fn input_schema() -> Vec<Input> {
        let word = |example: &str| Input::new("word", Datatype::Bytes, [1]).example(example);
        let raw = |example: String| Input { example: Some(example), ..word("") };
        let kind = std::env::var("SCHEMA").unwrap_or_default();
        match kind.as_str() {
            "none" => Vec::new(),
            "optional" => vec![Input::new("word", Datatype::Bytes, [1]).optional()],
            // Examples that the handler itself does not take.
            "boom" | "panic" | "teapot" => vec![word(&kind)],
            // Declarations that no host should believe.
            "twice" => vec![word("a"), word("b")],
            "shape" => vec![Input::new("word", Datatype::Bytes, [-2]).example("a")],
            "rank" => vec![Input::new("word", Datatype::Bytes, vec![1; 100_000]).example("a")],
            "range" => vec![Input::new("width", Datatype::Int8, [1]).example(768)],
            "json" => vec![raw("{".into())],
            "deep" => vec![raw("[".repeat(100_000))],
            "missing" => vec![Input::new("word", Datatype::Bytes, [1])],
            "name" => vec![Input { name: "a\u{1b}[2Jb\n".into(), ..word("a") }],
            "many" => vec![word("a"); 10_000],
            "large" => vec![word("a").description("x".repeat(2 << 20))],
            "flood" => vec![word("a").description("x".repeat(40 << 20))],
            // Functions that do not come back.
            "trap" => panic!("the test asked for a panic"),
            "spin" => loop {
                std::hint::black_box(&kind);
            },
            "hog" => vec![word("a").description(String::from_utf8_lossy(&vec![b'x'; 200 << 20]))],
            _ => vec![word("one")],
        }
    }
}
