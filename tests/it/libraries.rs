//! Libraries, put into handlers by `host build`: the library for pictures in each language that has it, against the
//! pixels that Pillow has made of the same files; those for texts, tensors and requests (`libraries/`); and a library that is not
//! the project's own.
//!
//! In: projects of the template `iris`, with another handler: one of the texts here, or of the files beside the modules. The
//! cases are those of `guest-sdk/library/image/pictures`.

mod outbound;
mod tensors;
mod tokenizers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use e2e::clients::finished;
use e2e::project::{lend_crates, lend_packages};
use e2e::{Host, Reply, component, host_binary, path_with_tools, root};
use serde_json::{Value, json};

fn host(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(host_binary());
    lend_crates(&mut command).args(arguments).current_dir(folder).env("PATH", path_with_tools());
    command
}

/// What a build that fails says.
fn fails(project: &Path) -> String {
    let Output { status, stderr, .. } = host(project, &["build"]).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{stderr}");
    stderr.split_once("error: ").expect("an error").1.to_owned()
}

/// A project whose handler is this one.
fn project(folder: &Path, language: &str, source: &str, program: &str) -> PathBuf {
    finished(&mut host(folder, &["new", "pictures", "--lang", language]), "host new");
    let project = folder.join("pictures");
    lend_packages(&project);
    fs::write(project.join(source), program).unwrap();
    project
}

fn with(project: &Path, libraries: &[&str]) {
    configure(project, libraries, "");
}

/// The same, and the handler sees the project's files.
fn with_files(project: &Path, libraries: &[&str]) {
    configure(project, libraries, "project = \".\"\n");
}

fn configure(project: &Path, libraries: &[&str], more: &str) {
    let text = format!(
        "[build]
with = {libraries:?}

[[endpoint]]
name = \"pictures\"
plugin = \"handler.wasm\"
network = \"stub\"
{more}limits = {{ memory = \"128MiB\", concurrency = 1 }}
"
    );
    fs::write(project.join("modelhost.toml"), text).unwrap();
}

fn picture(name: &str) -> Vec<u8> {
    let path = root().join("guest-sdk/library/image/pictures").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pixels that Pillow made.
fn expected(name: &str) -> (String, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(picture(name))).read_info().unwrap();
    let mut values = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut values).unwrap();
    values.truncate(frame.buffer_size());
    (format!("[1,{},{},{}]", frame.height, frame.width, frame.color_type.samples()), values)
}

/// Sends a file, with the preparation that the handler is to make.
fn ask(host: &Host, file: &[u8], preparation: &Value) -> Reply {
    let preparation = preparation.to_string();
    host.request("POST", "/", &[("content-type", "image/any"), ("x-preparation", &preparation)], file)
}

/// Every case of the library, by a handler that prepares as the header says, and answers with shape and bytes.
fn prepares_as_pillow_does(host: &Host) {
    let cases: Value = serde_json::from_slice(&picture("cases.json")).unwrap();
    for case in cases.as_array().unwrap() {
        let mut preparation = json!({ "layout": "pixels", "datatype": "UINT8" });
        for key in ["size", "fit", "filter", "colours"] {
            if let Some(value) = case.get(key) {
                preparation[key] = value.clone();
            }
        }
        let reply = ask(host, &picture(case["file"].as_str().unwrap()), &preparation);
        assert_eq!(reply.status, 200, "{case}: {}", reply.text());
        let (shape, values) = expected(case["expected"].as_str().unwrap());
        assert_eq!(reply.header("x-shape"), Some(shape.as_str()), "{case}");
        let differences = reply.body.iter().zip(&values).map(|(one, other)| one.abs_diff(*other));
        let most = differences.max().unwrap();
        // In its own size a JPEG with fewer colours than pixels differs at a few edges.
        let limit = if case["size"].is_null() { 8 } else { 3 };
        assert!(most <= limit && reply.body.len() == values.len(), "{case}: {most} of 255 from Pillow's");
    }
}

/// A JPEG whose head says another size.
fn of_size(file: &[u8], extent: u16) -> Vec<u8> {
    let mut changed = file.to_vec();
    let frame = changed.windows(2).position(|pair| matches!(pair, [0xff, 0xc0 | 0xc2])).unwrap();
    let [high, low] = extent.to_be_bytes();
    changed[frame + 5..frame + 9].copy_from_slice(&[high, low, high, low]);
    changed
}

/// Hostile files are the caller's fault, and the next request is served.
fn refuses_what_is_no_picture(host: &Host) {
    let jpeg = picture("jpeg.jpg");
    let size = json!({ "size": [8, 8], "datatype": "UINT8" });
    for (what, file, said) in [
        ("text", b"no picture".to_vec(), "no JPEG, PNG or WebP file"),
        ("half a file", jpeg[..jpeg.len() / 2].to_vec(), "a broken JPEG file: it is cut off"),
        (
            "a size beyond the limit",
            of_size(&jpeg, 65535),
            "a picture of 65535 by 65535, expected at most 16777216 pixels",
        ),
        // Of a progressive one all coefficients are kept: 150 MB.
        (
            "a size beyond the memory",
            of_size(&picture("jpeg-progressive.jpg"), 4090),
            "no memory for a picture of 4090 by 4090",
        ),
    ] {
        let reply = ask(host, &file, &size);
        let text = reply.error(400, "invalid_input", "pre_inference");
        assert!(text.contains(said), "{what}: {text}");
        let reply = ask(host, &jpeg, &size);
        assert_eq!((reply.status, reply.body.len()), (200, 192), "after {what}: {}", reply.text());
    }
    // The caller cannot know that the handler has too little; the operator is told.
    host.wait_for_log("more than its 134217728 bytes of memory, and answered without; hint: `limits.memory`");
    // An instance whose memory requests have filled serves no more: none of these lacks what others took.
    for at in 0..24 {
        let reply = ask(host, &jpeg, &json!({ "size": [700, 700], "datatype": "FP32" }));
        let got = (reply.status, reply.body.len());
        assert_eq!(got, (200, 700 * 700 * 12), "picture {at}");
    }
    // What the handler says wrongly is not the caller's.
    ask(host, &jpeg, &json!({ "mean": [0.5] })).error(500, "plugin_error", "pre_inference");
}

const PYTHON: &str = r#"
import json

from modelhost_guest import Response, image, post_inference, pre_inference


@pre_inference
def prepare(sample, context):
    return image.tensor(sample.body, **json.loads(context.header("x-preparation")))


@post_inference
def answer(tensors):
    tensor = tensors[0]
    shape = json.dumps(tensor.shape, separators=(",", ":"))
    return Response(bytes(tensor.data), headers={"x-shape": shape})
"#;

const JAVASCRIPT: &str = r#"
import { Response, handler } from "modelhost-guest";
import { prepare } from "modelhost-guest/image";

export const { preInference, postInference } = handler({
  preInference: (sample, context) => prepare(sample.body, JSON.parse(context.header("x-preparation"))).tensor,
  postInference([tensor]) {
    return new Response(tensor.data, { headers: { "x-shape": JSON.stringify(tensor.shape) } });
  },
});
"#;

const RUST: &str = r#"
//! Pictures to bytes, as a header says.

use modelhost_guest::image::{Colours, Filter, Fit, Layout, Preparation};
use modelhost_guest::{Context, Datatype, Handler, Response, Result, Sample, Tensor, export, internal};

struct Pictures;

export!(Pictures: pre_inference, post_inference);

impl Handler for Pictures {
    fn new() -> Self {
        Pictures
    }

    fn pre_inference(&mut self, sample: Sample, context: &Context) -> Result<Vec<Tensor>> {
        let said: serde_json::Value = serde_json::from_str(&context.header("x-preparation").unwrap_or_default())?;
        let mut preparation = Preparation::new()
            .fit(match said["fit"].as_str() {
                Some("cover") => Fit::Cover,
                Some("contain") => Fit::Contain,
                _ => Fit::Stretch,
            })
            .filter(match said["filter"].as_str() {
                Some("nearest") => Filter::Nearest,
                Some("box") => Filter::Box,
                Some("bicubic") => Filter::Bicubic,
                Some("lanczos") => Filter::Lanczos,
                _ => Filter::Bilinear,
            })
            .colours(if said["colours"] == "grey" { Colours::Grey } else { Colours::Rgb })
            .layout(if said["layout"] == "pixels" { Layout::Pixels } else { Layout::Planes })
            .datatype(if said["datatype"] == "FP32" { Datatype::Fp32 } else { Datatype::Uint8 });
        if let Some([columns, rows]) = said["size"].as_array().map(Vec::as_slice) {
            let extent = |value: &serde_json::Value| value.as_u64().unwrap_or_default() as u32;
            preparation = preparation.size(extent(columns), extent(rows));
        }
        if let Some(mean) = said["mean"].as_array() {
            preparation = preparation.mean(vec![0.5; mean.len()]);
        }
        Ok(vec![preparation.picture(&sample.body)?.tensor])
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, _: &Context) -> Result<Response> {
        let tensor = prediction.into_iter().next().ok_or_else(|| internal("no tensor"))?;
        let shape = serde_json::to_string(&tensor.shape)?;
        Ok(Response::new(200, "application/octet-stream", tensor.data).header("x-shape", shape))
    }
}
"#;

#[test]
fn pictures_in_python() {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), "python", "app.py", PYTHON);
    with(&project, &[]);
    assert_eq!(
        fails(&project),
        "the handler imports `modelhost:image/images@0.1.0`, which no library exports\n  hint: `[build]` with \
         `with = [\"image\"]` in modelhost.toml puts the component in that exports it\n"
    );
    with(&project, &["imgae"]);
    assert_eq!(fails(&project), "there is no library `imgae`\n  hint: did you mean `image`?\n");
    served_with_image(&project);
}

#[test]
fn pictures_in_javascript() {
    let folder = tempfile::tempdir().unwrap();
    served_with_image(&project(folder.path(), "js", "handler.js", JAVASCRIPT));
}

#[test]
fn pictures_in_rust() {
    let folder = tempfile::tempdir().unwrap();
    served_with_image(&project(folder.path(), "rust", "src/lib.rs", RUST));
}

#[test]
fn pictures_in_go() {
    let folder = tempfile::tempdir().unwrap();
    let program = include_str!("libraries/go/pictures.go");
    let project = project(folder.path(), "go", "handler.go", program);
    with(&project, &[]);
    assert!(fails(&project).contains("`with = [\"image\"]` in modelhost.toml puts the component in"));
    served_with_image(&project);
}

#[test]
fn pictures_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let program = include_str!("libraries/c/pictures.c");
    served_with_image(&project(folder.path(), "c", "src/handler.c", program));
}

#[test]
fn pictures_in_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let program = include_str!("libraries/cpp/pictures.cpp");
    served_with_image(&project(folder.path(), "cpp", "src/handler.cpp", program));
}

#[test]
fn pictures_in_zig() {
    let folder = tempfile::tempdir().unwrap();
    let program = include_str!("libraries/zig/pictures.zig");
    served_with_image(&project(folder.path(), "zig", "src/handler.zig", program));
}

fn served_with_image(project: &Path) {
    component("library/image");
    with(project, &["image"]);
    finished(&mut host(project, &["build"]), "host build");
    let host = Host::serve(&["--config", project.join("modelhost.toml").to_str().unwrap()]);
    prepares_as_pillow_does(&host);
    refuses_what_is_no_picture(&host);
}

#[test]
fn a_library_of_somebody_else_and_one_that_is_not_needed() {
    let folder = tempfile::tempdir().unwrap();
    let program = r#"
from modelhost_guest import Answer, Response, init, post_inference, pre_inference
from wit_world.imports import slugs

first = []


@init
def ready():
    first.append(slugs.slug("See how they run", 7))


@pre_inference
def prepare(sample):
    raise Answer(Response(f"{first}, {slugs.slug(sample.text, 12)}"))


@post_inference
def answer(tensors):
    return None
"#;
    let project = project(folder.path(), "python", "app.py", program);
    with(&project, &["./slug.wasm", "image"]);
    let told = fails(&project);
    assert!(told.starts_with("app.py:3: `wit_world.imports` has no `slugs`: "), "{told}");
    let interface = project.join("wit/deps/slug");
    fs::create_dir_all(&interface).unwrap();
    let world = "package my:handler;\n\nworld app {\n    include modelhost:handler/handler@0.1.0;\n    export \
                 modelhost:handler/init@0.1.0;\n    include example:slug/imports@0.1.0;\n}\n";
    fs::write(project.join("wit/world.wit"), world).unwrap();
    fs::copy(root().join("examples/slug-library/wit/slug.wit"), interface.join("slug.wit")).unwrap();
    fs::copy(component("library/slug-library"), project.join("slug.wasm")).unwrap();
    let built = host(&project, &["build"]).output().unwrap();
    let stderr = String::from_utf8(built.stderr).unwrap();
    assert!(built.status.success(), "{stderr}");
    let left_out = "warning: the handler imports nothing of library `image`, which is left out\n";
    assert!(stderr.contains(left_out), "{stderr}");
    let host = Host::serve(&["--config", project.join("modelhost.toml").to_str().unwrap()]);
    let reply = host.post("/", "Three blind mice");
    assert_eq!((reply.status, reply.text().as_str()), (200, "['see-how'], three-blind"));
    // The library's memory is copied with the handler's.
    host.wait_for_log("instances begin with the memory it left");
}
