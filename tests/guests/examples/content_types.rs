//! Reads the body by its content type and says what it found: the fields of a form, the parts of one with files, text. Any
//! other bytes come back as they are.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::{Value, json};

struct Echo;

export!(Echo: pre_inference);

impl Handler for Echo {
    fn new() -> Self {
        Echo
    }

    fn pre_inference(&mut self, sample: Sample, _: &Context) -> Result<Vec<Tensor>> {
        let essence = sample.content_type.split(';').next().unwrap_or_default();
        let response = match essence {
            "application/json" => Response::json(&json!({ "json": sample.json::<Value>()? }))?,
            "application/x-www-form-urlencoded" => Response::json(&json!({ "form": sample.form()? }))?,
            "multipart/form-data" => {
                let part = |part: &modelhost_guest::Part<'_>| {
                    json!({
                        "name": part.name, "filename": part.filename, "content_type": part.content_type,
                        "bytes": part.body,
                    })
                };
                Response::json(&json!({ "parts": sample.multipart()?.iter().map(part).collect::<Vec<_>>() }))?
            }
            "text/plain" => Response::text(sample.text()?),
            _ => Response::new(200, "application/octet-stream", sample.body),
        };
        Err(response.into())
    }
}
