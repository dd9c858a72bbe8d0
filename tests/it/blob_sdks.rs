//! Objects that handlers in Python and JavaScript keep by their SDK's `blobs`, and by Potassium's store.
//!
//! In: projects of a template, built by the host, and a host with a store.

use std::path::{Path, PathBuf};

use e2e::Host;
use e2e::project::application;
use serde_json::json;

/// A project with this program; `config` is its file.
fn built(folder: &Path, language: &str, source: &str, program: &str, config: &str) -> PathBuf {
    application(folder, language, &[(source, program), ("modelhost.toml", config)])
}

/// A host with a store of objects in this folder.
fn serve(plugin: &Path, store: &Path) -> Host {
    let (plugin, store) = (plugin.to_str().unwrap(), store.to_str().unwrap());
    let arguments = ["--plugin", plugin, "--blobs-store", store, "--blobs", "default", "--blobs", "other"];
    let limits = ["--blob-size", "20MiB", "--pre-timeout", "60s", "--instance-memory", "128MiB"];
    Host::serve(&[&arguments[..], &limits].concat())
}

/// Everything that a container does, by one handler. Its orders are the name of an operation and its arguments.
fn keeps(plugin: &Path, store: &Path) {
    let host = serve(plugin, store);
    let large = 9 * 1024 * 1024 + 1;
    for (orders, expected) in [
        (
            json!([["get", "k"], ["set", "k", "grüß"], ["get", "k"], ["size", "k"], ["range", "k", 0, 2]]),
            json!([null, null, "grüß", 6, "gr"]),
        ),
        (
            json!([["size", "none"], ["range", "none", 5, 5], ["range", "k", 5, 5], ["half", "h"]]),
            json!([null, null, "", null]),
        ),
        (
            json!([["fill", "big", large], ["size", "big"], ["verify", "big"]]),
            json!([null, large, [large, large, true]]),
        ),
        (json!([["names"], ["first", 1]]), json!([["big", "k"], 1])),
        (
            json!([["fill", "huge", 30 << 20], ["set", "", "x"], ["not granted"]]),
            json!([
                {"error": "an object of more than 20971520 bytes, `limits.blob_size`"},
                {"error": "a name of 0 bytes, expected 1 to 512"},
                {"error": "the endpoint is granted no container `not granted`"}
            ]),
        ),
        (json!([["delete", "k"], ["names"], ["clear"], ["names"]]), json!([null, ["big"], null, []])),
    ] {
        assert_eq!(host.ask("/orders", &orders), expected, "{orders}");
    }
    // `init` has written an object, which is gone with it, and leaves nothing open.
    host.wait_for_log("instances begin with the memory it left");
    assert_eq!(host.ask("/orders", &json!([["get", "of init"], ["set", "k", "stays"]])), json!([null, null]));
    drop(host);
    assert_eq!(
        serve(plugin, store).ask("/orders", &json!([["get", "k"], ["clear"]])),
        json!(["stays", null])
    );
}

const PYTHON: &str = r#"
from modelhost_guest import App, BlobError, blobs
from modelhost_guest.store import S3Config, Store

app = App()
results = blobs.open()
store = Store(backend="s3", config=S3Config(keys=("id", "key"), bucket="b"), bucket="other")


@app.init
def load(metadata):
    results.set("of init", "x")
    return {"names": results.names()}


@app.handler("/orders")
def orders(request):
    return [done(*order) for order in request.json]


def done(operation, *arguments):
    try:
        value = OPERATIONS[operation](*arguments)
    except BlobError as error:
        return {"error": str(error)}
    return value.decode() if isinstance(value, bytes) else value


def fill(name, size):
    with results.writer(name) as writer:
        for at in range(0, size, 65536):
            writer.write(bytes([at >> 16 & 255]) * min(65536, size - at))


def verify(name):
    reader, at, is_same = results.reader(name), 0, True
    for piece in reader:
        is_same &= piece[0] == at >> 16 & 255
        at += len(piece)
    return [reader.size, at, is_same]


def half(name):
    try:
        with results.writer(name) as writer:
            writer.write("half")
            raise KeyError
    except KeyError:
        return results.get(name)


def size(name):
    info = results.info(name)
    return None if info is None else info.size


OPERATIONS = {
    "get": results.get,
    "range": results.get_range,
    "set": results.set,
    "size": size,
    "names": lambda: sorted(results.names()),
    "first": lambda most: len(results.names(most)),
    "delete": results.delete,
    "clear": results.clear,
    "fill": fill,
    "verify": verify,
    "half": half,
    "not granted": lambda: blobs.open("not granted").get("k"),
    "keep": lambda key, value: store.set(key, value, 1),
    "kept": store.get,
}
"#;

const JAVASCRIPT: &str = r#"
import { App } from "modelhost-guest";
import * as blobs from "modelhost-guest/blobs";

const results = blobs.open();

const app = new App()
  .init(() => results.set("of init", "x"))
  .post("/orders", (request) => request.json().map((order) => done(order) ?? null));

export const { init, operations, respond } = app.exports();

function done([operation, ...given]) {
  try {
    const value = actions[operation](...given);
    return value instanceof Uint8Array ? new TextDecoder().decode(value) : value;
  } catch (error) {
    if (error instanceof blobs.BlobError) return { error: error.message };
    throw error;
  }
}

const actions = {
  get: (name) => results.get(name),
  range: (name, start, end) => results.getRange(name, start, end),
  set: (name, content) => results.set(name, content),
  size: (name) => results.info(name)?.size,
  names: () => results.names().sort(),
  first: (most) => results.names(most).length,
  delete: (name) => results.delete(name),
  clear: () => results.clear(),
  fill(name, size) {
    const writer = results.writer(name);
    const piece = new Uint8Array(65536);
    for (let at = 0; at < size; at += 65536) {
      writer.write(piece.fill((at >> 16) & 255).subarray(0, Math.min(65536, size - at)));
    }
    writer.finish();
  },
  verify(name) {
    const reader = results.reader(name);
    let [at, isSame] = [0, true];
    for (const piece of reader) {
      isSame &&= piece[0] === ((at >> 16) & 255);
      at += piece.length;
    }
    return [reader.size, at, isSame];
  },
  half(name) {
    const writer = results.writer(name);
    writer.write("half");
    writer.abort();
    return results.get(name);
  },
  "not granted": () => blobs.open("not granted").get("k"),
};
"#;

#[test]
fn python_keeps_objects_and_so_does_potassiums_store() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = built(folder.path(), "python", "app.py", PYTHON, "");
    let store = folder.path().join("objects");
    keeps(&plugin, &store);
    let orders = json!([["kept", "k"], ["keep", "k", {"v": [1]}], ["kept", "k"], ["names"]]);
    assert_eq!(serve(&plugin, &store).ask("/orders", &orders), json!([null, null, {"v": [1]}, []]));
    // What a request has written stays, and its ttl does nothing.
    assert_eq!(
        serve(&plugin, &store).ask("/orders", &json!([["kept", "k"], ["names"]])),
        json!([{"v": [1]}, []])
    );
}

#[test]
fn javascript_keeps_objects() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = built(folder.path(), "js", "handler.js", JAVASCRIPT, "");
    keeps(&plugin, &folder.path().join("objects"));
}

#[test]
fn javascript_keeps_objects_on_quickjs() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[build]\nengine = \"quickjs\"\n";
    let plugin = built(folder.path(), "js", "handler.js", JAVASCRIPT, config);
    keeps(&plugin, &folder.path().join("objects"));
}
