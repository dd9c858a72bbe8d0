//! Keeps objects by `wasi:blobstore` itself, as components do that were made for other hosts: in either order of its calls.
//! The body says what to do; answers with what came of it.

#![allow(clippy::indexing_slicing, reason = "a guest of tests, which sees what it is sent")]

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::{Value, json};

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "blob-imports", generate_all });
}

use bindings::wasi::blobstore::blobstore;
use bindings::wasi::blobstore::types::{IncomingValue, ObjectId, OutgoingValue};

struct Blobstore;

export!(Blobstore: pre_inference);

impl Handler for Blobstore {
    fn new() -> Self {
        Blobstore
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let orders: Vec<Vec<String>> = sample.json()?;
        let answer = |order: &Vec<String>| done(order).unwrap_or_else(|error| json!({ "error": error }));
        Err(Response::json(&orders.iter().map(answer).collect::<Vec<_>>())?.into())
    }
}

fn done(order: &[String]) -> Result<Value, String> {
    let id = |at: usize| ObjectId { container: order[at].clone(), object: order[at + 1].clone() };
    Ok(match order[0].as_str() {
        // The content first, then the name; and the other way.
        "content-first" | "name-first" => {
            let container = blobstore::get_container(&order[1])?;
            let value = OutgoingValue::new_outgoing_value();
            if order[0] == "name-first" {
                container.write_data(&order[2], &value)?;
            }
            let body = value.outgoing_value_write_body().map_err(|()| "no body")?;
            for piece in order[3].as_bytes().chunks(3) {
                body.blocking_write_and_flush(piece).map_err(|error| error.to_string())?;
            }
            drop(body);
            if order[0] == "content-first" {
                container.write_data(&order[2], &value)?;
            }
            json!(OutgoingValue::finish(value)?)
        }
        "fill" => {
            let value = OutgoingValue::new_outgoing_value();
            let body = value.outgoing_value_write_body().map_err(|()| "no body")?;
            blobstore::get_container(&order[1])?.write_data(&order[2], &value)?;
            for _ in 0..order[3].parse().map_err(|_| "no number of pieces")? {
                body.blocking_write_and_flush(&[b'x'; 4096]).map_err(|error| error.to_string())?;
            }
            drop(body);
            json!(OutgoingValue::finish(value)?)
        }
        "nameless" => {
            let value = OutgoingValue::new_outgoing_value();
            let body = value.outgoing_value_write_body().map_err(|()| "no body")?;
            let piece = [0; 4096];
            let failed = (0..1000).find(|_| body.blocking_write_and_flush(&piece).is_err());
            drop(body);
            json!([failed.is_some(), OutgoingValue::finish(value).is_err()])
        }
        "twice" => {
            let container = blobstore::get_container(&order[1])?;
            let value = OutgoingValue::new_outgoing_value();
            container.write_data("a", &value)?;
            json!([
                value.outgoing_value_write_body().is_ok(),
                value.outgoing_value_write_body().is_ok(),
                container.write_data("b", &value).is_ok()
            ])
        }
        "get" => {
            let value = blobstore::get_container(&order[1])?.get_data(&order[2], 0, u64::MAX)?;
            let content = IncomingValue::incoming_value_consume_sync(value)?;
            json!(String::from_utf8_lossy(&content))
        }
        "has" => json!(blobstore::get_container(&order[1])?.has_object(&order[2])?),
        "copy" => json!(blobstore::copy_object(&id(1), &id(3))?),
        "move" => json!(blobstore::move_object(&id(1), &id(3))?),
        "create" => json!(blobstore::create_container(&order[1])?.name()?),
        "exists" => json!(blobstore::container_exists(&order[1])?),
        "delete-container" => json!(blobstore::delete_container(&order[1])?),
        "pages" => {
            let listing = blobstore::get_container(&order[1])?.list_objects()?;
            json!([
                listing.read_stream_object_names(2)?.0.len(),
                listing.skip_stream_object_names(1)?,
                listing.read_stream_object_names(1000)?.1
            ])
        }
        other => json!(format!("cannot `{other}`")),
    })
}
