//! Returns from `post_inference` what the body names: every kind of value the seeds' handlers return, and every
//! kind of error. `respond` and `invalid` answer from `pre_inference`.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export, internal, invalid};
use serde_json::json;

struct Values;

export!(Values);

impl Handler for Values {
    fn new() -> Self {
        Values
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        match sample.text()?.into_owned().as_str() {
            "respond" => Err(Response::text("teapot").status(418).into()),
            "invalid" => Err(invalid("bad pre")),
            _ => Ok(guests::body_tensor(sample)),
        }
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, _context: &Context) -> Result<Response> {
        match guests::body_text(&prediction)?.as_str() {
            "null" => Response::json(&()),
            "string" => Response::json("iris-setosa"),
            "int" => Response::json(&3),
            "f32" => Response::json(&0.1f32),
            // What numpy makes of the same float when it becomes JSON: 0.10000000149011612.
            "f64" => Response::json(&f64::from(0.1f32)),
            "list" => Response::json(&(1, 2)),
            "nan" => Response::json(&[f32::NAN, f32::INFINITY, 1.0]),
            "error" => Err(internal("bad post")),
            "accepted" => Ok(Response::json(&json!({"id": 7}))?
                .status(202)
                .header("location", "/jobs/7")
                .header("x-twice", "1")
                .header("x-twice", "2")),
            "empty" => Ok(Response::new(204, "", "")),
            "text" => Ok(Response::text("plain, unquoted")),
            "bytes" => Ok(Response::new(200, "application/octet-stream", [0u8, 159, 146, 150])),
            other => Err(invalid(format!("no value is called `{other}`"))),
        }
    }
}
