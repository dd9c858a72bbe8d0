//! Keeps objects, as the body says: a list of operations, each a list of its name and arguments. Answers with what came of
//! each. The container is the last one opened.

#![allow(clippy::indexing_slicing, reason = "a guest of tests, which sees what it is sent")]

use std::io::{Read as _, Write as _};

use modelhost_guest::blobs::{BlobError, Container, Reader, Writer};
use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::{Value, json};

struct Blobs;

export!(Blobs: pre_inference);

impl Handler for Blobs {
    fn new() -> Self {
        Blobs
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let orders: Vec<Vec<Value>> = sample.json()?;
        let mut container = None;
        let mut writers = Vec::new();
        let answers: Vec<Value> = orders
            .iter()
            .map(|order| {
                let outcome = match (order[0].as_str(), &container) {
                    (Some("open"), _) => Container::open(text(order, 1)).map(|opened| {
                        container = Some(opened);
                        json!("opened")
                    }),
                    (_, Some(container)) => done(container, &mut writers, order),
                    (_, None) => Ok(json!("no container is open")),
                };
                outcome.unwrap_or_else(|error| json!({"error": error.to_string()}))
            })
            .collect();
        Err(Response::json(&answers)?.into())
    }
}

fn text(order: &[Value], at: usize) -> &str {
    order.get(at).and_then(Value::as_str).unwrap_or_default()
}

/// A pattern whose every part differs from the others.
fn pattern(at: u64) -> u8 {
    u8::try_from((at.wrapping_mul(0x9e37_79b9) >> 13) & 0xff).unwrap_or_default()
}

fn done(container: &Container, writers: &mut Vec<Writer>, order: &[Value]) -> Result<Value, BlobError> {
    let name = text(order, 1);
    let number = |at: usize| order.get(at).and_then(Value::as_u64).unwrap_or_default();
    let shown = |content: Vec<u8>| String::from_utf8_lossy(&content).into_owned();
    Ok(match text(order, 0) {
        "get" => json!(container.get(name)?.map(shown)),
        "range" => json!(container.get_range(name, number(2)..number(3))?.map(shown)),
        "set" => json!(container.set(name, text(order, 2).as_bytes())?),
        // As many bytes as the number says, in pieces of 64 KiB that are never there together.
        "fill" => {
            let mut writer = container.writer(name)?;
            let (mut at, mut piece) = (0, Vec::with_capacity(64 << 10));
            while at < number(2) {
                let end = number(2).min(at + (64 << 10));
                piece.clear();
                piece.extend((at..end).map(pattern));
                writer.write_all(&piece)?;
                at = end;
            }
            json!(writer.finish()?)
        }
        // Reads them likewise, and says how many they are and whether each is as it was written.
        "verify" => {
            let Some(mut reader) = container.reader(name)? else { return Ok(Value::Null) };
            let (mut at, mut is_same, mut piece) = (0_u64, true, vec![0; 64 << 10]);
            loop {
                let length = reader.read(&mut piece)?;
                if length == 0 {
                    break json!([at, is_same]);
                }
                is_same &= piece[..length].iter().zip(at..).all(|(byte, at)| *byte == pattern(at));
                at += length as u64;
            }
        }
        // Begins an object that has no end; with a content, as far as that.
        "begin" => {
            let mut writer = container.writer(name)?;
            writer.write_all(text(order, 2).as_bytes())?;
            writers.push(writer);
            json!(writers.len())
        }
        "end" => json!(writers.pop().map(Writer::finish).transpose()?),
        "many" => {
            for at in 0..number(2) {
                container.set(&format!("{name}{at}"), b"x")?;
            }
            json!(number(2))
        }
        "read-many" => {
            let readers: Result<Vec<Option<Reader>>, BlobError> =
                (0..number(2)).map(|_| container.reader(name)).collect();
            json!(readers?.len())
        }
        // Leaves so many readers open behind the request, in the tables of its instance.
        "leave-open" => {
            for _ in 0..number(2) {
                std::mem::forget(container.reader(name)?);
            }
            json!("open")
        }
        "size" => json!(container.info(name)?.map(|info| info.size)),
        "age" => json!(container.info(name)?.map(|info| info.created > 1_700_000_000)),
        "delete" => json!(container.delete(name)?),
        "clear" => json!(container.clear()?),
        "names" => {
            let mut names = container.names()?;
            names.sort();
            json!(names)
        }
        "count" => json!(container.names()?.len()),
        "first" => json!(container.first_names(usize::try_from(number(1)).unwrap_or_default())?.len()),
        other => json!(format!("cannot `{other}`")),
    })
}
