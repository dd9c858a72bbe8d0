//! Values that handlers in Python and JavaScript keep by their SDK's `kv`, and by Potassium's store; and, of the same handlers,
//! the metrics that they make.
//!
//! In: projects of a template, built by the host, and a host with a store. (A project without `kv` does
//! not import it: in `templates.rs` no bucket is granted, and such an import would refuse the start.)

use std::path::Path;

use e2e::project::application;
use e2e::{Host, wait_until};
use serde_json::{Value, json};

/// What each of these operations of a bucket gave.
fn ask(host: &Host, bucket: &str, orders: &Value) -> Value {
    host.ask("/orders", &json!({ "bucket": bucket, "orders": orders }))
}

/// Everything that a bucket does, by one handler. Its orders are the name of an operation and its arguments.
fn keeps(plugin: &Path, store: &Path) {
    let arguments = ["--plugin", plugin.to_str().unwrap(), "--kv-store", store.to_str().unwrap()];
    let arguments = [&arguments[..], &["--kv", "default", "--kv", "other"]].concat();
    let serve = || Host::serve(&[&arguments[..], &["--kv-entries", "8"]].concat());
    let host = serve();
    for (bucket, orders, expected) in [
        (
            "default",
            json!([
                ["get", "k"],
                ["set", "k", "v"],
                ["get", "k"],
                ["set", "l", "grüß", {"ttl": 60}],
                ["get", "l"]
            ]),
            json!([null, null, "v", null, "grüß"]),
        ),
        (
            "default",
            json!([
                ["get_json", "j"],
                ["set_json", "j", [1, {"a": null}], {"ttl": 60}],
                ["get_json", "j"],
                ["get_json", "k"]
            ]),
            json!([null, null, [1, {"a": null}], {"error": "invalid"}]),
        ),
        ("other", json!([["get", "k"], ["keys"]]), json!([null, []])),
        (
            "default",
            json!([
                ["add", "k", "w", {"ttl": 60}],
                ["add", "m", "w"],
                ["swap", "m", "v", "x"],
                ["swap", "m", "w", "x"],
                ["get", "m"],
                ["swap", "m", null, "y"],
                ["delete", "m"],
                ["swap", "m", null, "y"],
                ["get", "m"]
            ]),
            json!([false, true, false, true, "x", false, null, true, "y"]),
        ),
        (
            "default",
            json!([
                ["increment", "n"],
                ["increment", "n", -5, {"ttl": 60}],
                ["increment", "k"],
                ["get", "n"],
                ["increment", "o", -2, {"ttl": 60}],
                ["increment", "o"],
                ["delete", "o"]
            ]),
            json!([1, -4, {"error": "invalid"}, "-4", -2, -1, null]),
        ),
        (
            "default",
            json!([["keys"], ["keys", "k"], ["set", "", "v"], ["set", "k", "v", {"ttl": -1}]]),
            json!([["j", "k", "l", "m", "n"], ["k"], {"error": "invalid"}, {"error": "invalid"}]),
        ),
        (
            "other",
            json!([["add", "1", ""], ["add", "2", ""], ["add", "3", ""], ["add", "4", ""], ["keys"]]),
            json!([true, true, true, {"error": "limit"}, ["1", "2", "3"]]),
        ),
        ("not granted", json!([["get", "k"]]), json!([{"error": "no-such-bucket"}])),
        // What `init` writes is gone with it.
        ("default", json!([["get", "loads"]]), json!([null])),
    ] {
        assert_eq!(ask(&host, bucket, &orders), expected, "{bucket} {orders}");
    }
    counts(&host);
    // `init` has used a bucket, and leaves it closed.
    host.wait_for_log("instances begin with the memory it left");
    // The memory has what the bucket had: it is not kept for other endpoints, nor for another start.
    drop(host);
    let host = serve();
    host.wait_for_log("`init` has run; instances begin with the memory it left");
    let seen = ask(&host, "default", &json!([["set", "k", "short", {"ttl": 1}], ["get", "k"]]));
    assert_eq!(seen, json!([null, "short"]));
    wait_until("the value to be gone", || ask(&host, "default", &json!([["get", "k"]])) == json!([null]));
}

/// The metrics that the handler has made of all that was asked before, beside what they are.
fn counts(host: &Host) {
    let (text, name) = (host.metrics(), host.endpoints()[0]["name"].as_str().unwrap().to_owned());
    let number = |series: &str| host.metric(&series.replace('@', &format!("endpoint=\"{name}\"")));
    for (series, expected) in [
        (r#"orders_total{@,bucket="default"}"#, 30.0),
        (r#"orders_total{@,bucket="other"}"#, 7.0),
        ("open_orders{@}", 1.0),
        (r#"orders_bucket{@,le="1"}"#, 2.0),
        (r#"orders_bucket{@,le="5"}"#, 7.0),
        ("orders_sum{@}", 38.0),
        ("orders_count{@}", 9.0),
    ] {
        assert_eq!(number(series), expected, "{series}\n{text}");
    }
    for line in [
        "# HELP orders_total Orders by bucket\n# TYPE orders_total counter\n",
        "# HELP open_orders Orders that are being done\n# TYPE open_orders gauge\n",
        "# HELP orders Orders of a request\n# TYPE orders histogram\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("\nloads_total"), "what `init` counts is no client's\n{text}");
}

const PYTHON: &str = r#"
from modelhost_guest import App, KvError, kv
from modelhost_guest.metrics import Counter, Gauge, Histogram
from modelhost_guest.store import RedisConfig, Store

LOADS = Counter("loads", "Calls of init")
ORDERS = Counter("orders_total", "Orders by bucket", ["bucket"])
OPEN = Gauge("open_orders", "Orders that are being done")
LENGTH = Histogram("orders", "Orders of a request", buckets=(1, 5))

app = App()
store = Store(backend="redis", config=RedisConfig(host="redis", port=6379))


@app.init
def load(metadata):
    LOADS.inc()
    return {"loads": kv.open().increment("loads")}


@app.handler("/orders")
def orders(request):
    bucket = kv.open(request.json["bucket"])
    ORDERS.labels(bucket=request.json["bucket"]).inc(len(request.json["orders"]))
    OPEN.set(2)
    OPEN.dec()
    LENGTH.observe(len(request.json["orders"]))
    return [done(bucket, *order) for order in request.json["orders"]]


@app.handler("/store")
def stored(request):
    return [getattr(store, operation)(*arguments) for operation, *arguments in request.json]


def done(bucket, operation, *arguments):
    named = arguments[-1] if arguments and isinstance(arguments[-1], dict) else {}
    try:
        value = getattr(bucket, operation)(*arguments[: len(arguments) - bool(named)], **named)
    except KvError as error:
        return {"error": error.kind}
    return value.decode() if isinstance(value, bytes) else value
"#;

const JAVASCRIPT: &str = r#"
import { App } from "modelhost-guest";
import * as kv from "modelhost-guest/kv";
import { Counter, Gauge, Histogram } from "modelhost-guest/metrics";

const own = kv.open();
const loads = new Counter({ name: "loads", help: "Calls of init" });
const counted = new Counter({ name: "orders_total", help: "Orders by bucket", labelNames: ["bucket"] });
const open = new Gauge({ name: "open_orders", help: "Orders that are being done" });
const length = new Histogram({ name: "orders", help: "Orders of a request", buckets: [1, 5] });

const app = new App()
  .init(() => {
    loads.inc();
    return own.increment("loads");
  })
  .post("/orders", (request) => {
    const [bucket, orders] = request.fields("bucket", "orders");
    counted.inc({ bucket }, orders.length);
    open.set(2);
    open.dec();
    length.observe(orders.length);
    return orders.map((order) => done(kv.open(bucket), order) ?? null);
  });

export const { init, operations, respond } = app.exports();

function done(bucket, [operation, ...given]) {
  try {
    const value = bucket[operation.replace(/_./, (letter) => letter[1].toUpperCase())](...given);
    return value instanceof Uint8Array ? new TextDecoder().decode(value) : value;
  } catch (error) {
    if (error instanceof kv.KvError) return { error: error.kind };
    throw error;
  }
}
"#;

#[test]
fn python_keeps_values_and_so_does_potassiums_store() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = application(folder.path(), "python", &[("app.py", PYTHON)]);
    keeps(&plugin, &folder.path().join("values"));

    // Another host has what the first one left.
    let store = folder.path().join("values").display().to_string();
    let host = Host::serve(&["--plugin", plugin.to_str().unwrap(), "--kv", "default", "--kv-store", &store]);
    assert_eq!(ask(&host, "default", &json!([["get", "l"], ["increment", "n"]])), json!(["grüß", -3]));

    // P21: with a ttl of a second the value is there, and then it is not; what is absent is None.
    let store = folder.path().join("potassium").display().to_string();
    let plugin = plugin.to_str().unwrap();
    let host = Host::serve(&["--plugin", plugin, "--kv", "default", "--kv-store", &store]);
    let stored = |orders: Value| {
        let reply = host.post("/store", orders.to_string());
        assert_eq!(reply.status, 200, "{orders}: {}", reply.text());
        reply.json()
    };
    let seen =
        stored(json!([["get", "absent"], ["set", "k", {"v": [1]}, 1], ["get", "k"], ["set", "l", "v"]]));
    assert_eq!(seen, json!([null, null, {"v": [1]}, null]));
    wait_until("the value to be gone", || stored(json!([["get", "k"]])) == json!([null]));
    assert_eq!(stored(json!([["get", "l"]])), json!(["v"]));
}

#[test]
fn javascript_keeps_values() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = application(folder.path(), "js", &[("handler.js", JAVASCRIPT)]);
    keeps(&plugin, &folder.path().join("values"));
}
