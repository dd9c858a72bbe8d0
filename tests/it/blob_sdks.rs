//! Objects that handlers in Python keep by their SDK's `blobs`, and by Potassium's store.
//!
//! In: a project of a template, built by the host, and a host with a store.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::clients::finished;
use e2e::{Host, host_binary};
use serde_json::{Value, json};

/// Runs the host in `folder` to success.
fn done(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new(host_binary());
    command.args(arguments).current_dir(folder);
    finished(&mut command, &format!("host {arguments:?}"));
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

#[test]
fn python_keeps_objects_and_so_does_potassiums_store() {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), &["new", "keeper", "--lang", "python", "--template", "app"]);
    let project = folder.path().join("keeper");
    fs::write(project.join("app.py"), PYTHON).unwrap();
    let world = fs::read_to_string(project.join("wit/world.wit")).unwrap();
    let with_blobs = world.replacen("{\n", "{\n    include modelhost:handler/blob-imports@0.1.0;\n", 1);
    fs::write(project.join("wit/world.wit"), with_blobs).unwrap();
    done(&project, &["build"]);

    let plugin = project.join("handler.wasm").display().to_string();
    let store = folder.path().join("objects").display().to_string();
    let arguments = ["--plugin", &plugin, "--blobs-store", &store, "--blobs", "default", "--blobs", "other"];
    let arguments = [&arguments[..], &["--blob-size", "20MiB", "--pre-timeout", "60s"]].concat();
    let host = Host::serve(&arguments);
    let ask = |host: &Host, orders: Value| {
        let reply = host.post("/orders", orders.to_string());
        assert_eq!(reply.status, 200, "{orders}: {}", reply.text());
        reply.json()
    };
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
        (
            json!([["kept", "k"], ["keep", "k", {"v": [1]}], ["kept", "k"], ["names"]]),
            json!([null, null, {"v": [1]}, []]),
        ),
    ] {
        assert_eq!(ask(&host, orders.clone()), expected, "{orders}");
    }
    drop(host);
    // What `init` has written is gone with it; what a request has written stays, and its ttl does nothing.
    let host = Host::serve(&arguments);
    assert_eq!(ask(&host, json!([["kept", "k"], ["names"]])), json!([{"v": [1]}, []]));
}
