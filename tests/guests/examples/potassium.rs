//! Potassium's handlers as one component, each by its path; the struct's fields are what Potassium calls the context.
//!
//! - `/some_headers_request` gives the request's headers `a` and `b` back, and its id;
//! - `/some_binary_response` answers bytes;
//! - `/count` counts in the context;
//! - any other with the query `slow` takes 2 s;
//! - any other echoes the JSON body with the id and the context's word, status 201 and a header, or 200 if the query is `ok`.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::{Value, json};

struct App {
    hello: &'static str,
    n: u64,
}

export!(App);

impl Handler for App {
    fn new() -> Self {
        App { hello: "world", n: 0 }
    }

    fn pre_inference(&mut self, sample: Sample, _: &Context) -> Result<Vec<Tensor>> {
        // Potassium takes JSON only.
        sample.json::<Value>()?;
        Ok(Vec::new())
    }

    fn post_inference(&mut self, _: Vec<Tensor>, context: &Context) -> Result<Response> {
        match context.path().as_str() {
            "/some_headers_request" => {
                let answer = json!({ "hello": "some_headers_request", "id": context.request_id() });
                let header = |name| context.header(name).unwrap_or_default();
                Ok(Response::json(&answer)?.header("a", header("a")).header("b", header("b")))
            }
            "/some_binary_response" => Ok(Response::new(200, "application/octet-stream", "hello")),
            "/count" => {
                self.n += 1;
                Response::json(&json!({ "n": self.n }))
            }
            _ => {
                if context.query() == "slow" {
                    std::thread::sleep(std::time::Duration::from_secs(2));
                }
                let echo: Value = context.sample().json()?;
                let answer = json!({ "echo": echo, "id": context.request_id(), "hello": self.hello });
                let status = if context.query() == "ok" { 200 } else { 201 };
                Ok(Response::json(&answer)?.status(status).header("x-a", "b"))
            }
        }
    }
}
