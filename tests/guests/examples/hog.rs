//! Eats memory until it is refused more, in one of two ways:
//!
//! - `hog`: as most programs do, which is to abort when an allocation fails;
//! - `ask`: politely, by giving back what it got and answering `{"mebibytes": 57}`.
//!
//! Any other body: like `echo`.

use modelhost_guest::{Context, Error, Handler, Response, Result, Sample, Tensor, export};
use serde_json::json;

const MEBIBYTE: usize = 1 << 20;

struct Hog;

export!(Hog);

impl Handler for Hog {
    fn new() -> Self {
        Hog
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let mut eaten = Vec::new();
        match &*sample.text()? {
            "hog" => loop {
                // Not zeroes: an allocator may have those for nothing.
                eaten.push(std::hint::black_box(vec![1u8; MEBIBYTE]));
            },
            "ask" => loop {
                let mut bite = Vec::new();
                if bite.try_reserve_exact(MEBIBYTE).is_err() {
                    let mebibytes = eaten.len();
                    // The answer needs memory too.
                    drop(eaten);
                    return Err(Error::Respond(Response::json(&json!({"mebibytes": mebibytes}))?));
                }
                bite.resize(MEBIBYTE, 1u8);
                eaten.push(bite);
            },
            _ => Ok(guests::body_tensor(sample)),
        }
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        guests::echo(&guests::body_text(&prediction)?, context)
    }
}
