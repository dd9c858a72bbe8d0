//! Keeps values, as the body says: a list of operations, each a list of its name and arguments. Answers with what came of
//! each. The bucket is the last one opened.

#![allow(clippy::indexing_slicing, reason = "a guest of tests, which sees what it is sent")]

use std::time::Duration;

use modelhost_guest::kv::{Bucket, KvError};
use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::{Value, json};

struct Kv;

export!(Kv: pre_inference);

impl Handler for Kv {
    fn new() -> Self {
        Kv
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let orders: Vec<Vec<Value>> = sample.json()?;
        let mut bucket = None;
        let answers: Vec<Value> = orders
            .iter()
            .map(|order| {
                let outcome = match (order[0].as_str(), &bucket) {
                    (Some("open"), _) => Bucket::open(text(order, 1)).map(|opened| {
                        bucket = Some(opened);
                        json!("opened")
                    }),
                    (_, Some(bucket)) => done(bucket, order),
                    (_, None) => Ok(json!("no bucket is open")),
                };
                outcome.unwrap_or_else(|error| json!({"error": format!("{error:?}")}))
            })
            .collect();
        Err(Response::json(&answers)?.into())
    }
}

fn text(order: &[Value], at: usize) -> &str {
    order.get(at).and_then(Value::as_str).unwrap_or_default()
}

fn done(bucket: &Bucket, order: &[Value]) -> Result<Value, KvError> {
    let key = text(order, 1);
    let number = |at: usize| order.get(at).and_then(Value::as_i64).unwrap_or_default();
    let ttl = |at: usize| order.get(at).and_then(Value::as_u64).map(Duration::from_millis);
    let value = text(order, 2).as_bytes();
    Ok(match text(order, 0) {
        "get" => json!(bucket.get(key)?.map(|value| String::from_utf8_lossy(&value).into_owned())),
        "set" => json!(bucket.set_json(key, &text(order, 2), ttl(3))?),
        "put" => json!(match ttl(3) {
            Some(ttl) => bucket.set_for(key, value, ttl)?,
            None => bucket.set(key, value)?,
        }),
        // As many bytes as the number says.
        "fill" => json!(bucket.set(key, &vec![b'x'; usize::try_from(number(2)).unwrap_or_default()])?),
        // As many keys as the number says.
        "many" => {
            for at in 0..number(2) {
                bucket.set(&format!("{key}{at}"), b"")?;
            }
            json!(number(2))
        }
        "add" => json!(bucket.add(key, value, ttl(3))?),
        "increment" => json!(bucket.increment(key, number(2))?),
        "swap" => json!(bucket.swap(key, order[2].as_str().map(str::as_bytes), text(order, 3).as_bytes())?),
        "delete" => json!(bucket.delete(key)?),
        "keys" => json!(bucket.keys(key)?),
        "page" => {
            let cursor = Some(text(order, 2)).filter(|cursor| !cursor.is_empty());
            json!(bucket.page(key, cursor, u32::try_from(number(3)).unwrap_or_default())?)
        }
        // Until the host has had enough.
        "forever" => loop {
            bucket.get(key)?;
        },
        "open-many" => {
            let opened: Result<Vec<Bucket>, KvError> = (0..number(2)).map(|_| Bucket::open(key)).collect();
            json!(opened?.len())
        }
        other => json!(format!("cannot `{other}`")),
    })
}
