//! Keeps values by `wasi:keyvalue`, in both drafts, as components do that were made for other hosts. The body says which draft,
//! and what to do; answers with what came of it.

#![allow(clippy::indexing_slicing, reason = "a guest of tests, which sees what it is sent")]

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::{Value, json};

mod draft {
    wit_bindgen::generate!({ path: "../../host/crates/sandbox/wit/keyvalue/draft", world: "imports" });
}

mod draft2 {
    wit_bindgen::generate!({ path: "../../host/crates/sandbox/wit/keyvalue/draft2", world: "imports" });
}

struct KeyValue;

export!(KeyValue: pre_inference);

impl Handler for KeyValue {
    fn new() -> Self {
        KeyValue
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let order: Vec<Value> = sample.json()?;
        let answer = match order[0].as_str() {
            Some("draft") => {
                first(&order[1..]).unwrap_or_else(|error| json!({"error": format!("{error:?}")}))
            }
            _ => second(&order[1..]).unwrap_or_else(|error| json!({"error": format!("{error:?}")})),
        };
        Err(Response::json(&answer)?.into())
    }
}

fn text(order: &[Value], at: usize) -> String {
    order.get(at).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn shown(value: Option<Vec<u8>>) -> Value {
    json!(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
}

/// What both drafts have in common: `[BUCKET, OPERATION, ARGUMENT…]`.
macro_rules! common {
    ($draft:ident, $order:ident, $bucket:ident, $cursor:ident => $given:expr) => {{
        use $draft::wasi::keyvalue::batch;
        let keys: Vec<String> = (2..$order.len()).map(|at| text($order, at)).collect();
        match text($order, 1).as_str() {
            "get" => shown($bucket.get(&keys[0])?),
            "set" => json!($bucket.set(&keys[0], keys[1].as_bytes())?),
            "delete" => json!($bucket.delete(&keys[0])?),
            "exists" => json!($bucket.exists(&keys[0])?),
            "get-many" => {
                let found = batch::get_many(&$bucket, &keys)?.into_iter();
                json!(
                    found
                        .map(|pair| pair.map(|(key, value)| json!([key, shown(Some(value))])))
                        .collect::<Vec<_>>()
                )
            }
            "set-many" => {
                let pairs: Vec<(String, Vec<u8>)> =
                    keys.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone().into_bytes())).collect();
                json!(batch::set_many(&$bucket, &pairs)?)
            }
            "delete-many" => json!(batch::delete_many(&$bucket, &keys)?),
            "list" => {
                let (mut all, mut pages, mut $cursor) = (0, 0, None);
                loop {
                    let page = $bucket.list_keys($given)?;
                    all += page.keys.len();
                    pages += 1;
                    $cursor = page.cursor;
                    if $cursor.is_none() {
                        break json!([all, pages]);
                    }
                }
            }
            "fill" => {
                let pairs: Vec<(String, Vec<u8>)> = (0..$order[2].as_u64().unwrap_or_default())
                    .map(|at| (format!("{at:05}"), Vec::new()))
                    .collect();
                for some in pairs.chunks(1000) {
                    batch::set_many(&$bucket, some)?;
                }
                json!(pairs.len())
            }
            other => json!(format!("cannot `{other}`")),
        }
    }};
}

fn first(order: &[Value]) -> Result<Value, draft::wasi::keyvalue::store::Error> {
    use draft::wasi::keyvalue::{atomics, store};
    let bucket = store::open(&text(order, 0))?;
    Ok(match text(order, 1).as_str() {
        "increment" => {
            json!(atomics::increment(&bucket, &text(order, 2), order[3].as_u64().unwrap_or_default())?)
        }
        _ => common!(draft, order, bucket, cursor => cursor),
    })
}

fn second(order: &[Value]) -> Result<Value, draft2::wasi::keyvalue::store::Error> {
    use draft2::wasi::keyvalue::atomics::{self, Cas, CasError};
    use draft2::wasi::keyvalue::store;
    let bucket = store::open(&text(order, 0))?;
    let key = text(order, 2);
    Ok(match text(order, 1).as_str() {
        "increment" => json!(atomics::increment(&bucket, &key, order[3].as_i64().unwrap_or_default())?),
        // Another one writes in between: the first try fails, and the second has the value as it is then.
        "swap" => {
            let cas = Cas::new(&bucket, &key)?;
            let before = shown(cas.current()?);
            bucket.set(&key, b"in between")?;
            match atomics::swap(cas, b"lost") {
                Err(CasError::CasFailed(again)) => {
                    let seen = shown(again.current()?);
                    let is_swapped = atomics::swap(again, text(order, 3).as_bytes()).is_ok();
                    json!([before, seen, is_swapped])
                }
                other => json!(format!("{other:?}")),
            }
        }
        "hoard" => {
            let mut held = Vec::new();
            loop {
                held.push(Cas::new(&bucket, &key)?);
            }
        }
        _ => common!(draft2, order, bucket, cursor => cursor.as_deref()),
    })
}
