//! The world of a handler in Python, of its sources.

use std::path::Path;
use std::process::Output;

use anyhow::Context as _;
use serde_json::Value;

use super::super::Project;
use super::super::python::NO_PYTHON;
use super::{World, check_exports, exports, imports};

/// The script that finds what the sources export and import.
const SURFACE: &str = include_str!("../../../dev/python/world.py");
const SOURCE: &str = "app.py";
const HINT: &str =
    "decorate one, by `@pre_inference`, `@post_inference` or a route such as `@app.get(\"/\")`";
/// The exports that are given a request, of which `request.is_disconnected` asks.
const SERVING: [&str; 3] = ["respond", "respond-all", "websocket"];

/// The world of a project, by the Python of its environment.
///
/// # Errors
/// A source is no Python, imports a name that the SDK does not have, or there is no function to call.
pub(in super::super) fn world(project: &Project, environment: &Path) -> anyhow::Result<World> {
    if let Some(own) = World::own(project)? {
        return Ok(own);
    }
    let mut python = project.command(environment.join("bin/python"));
    let found = project.finish(python.args(["-c", SURFACE]), NO_PYTHON, str::to_owned)?;
    let (exports, imports) = surface(&found)?;
    World::of_sources(project, &exports, imports.iter().map(String::as_str))
}

/// The exports and imports that the script has found.
fn surface(found: &Output) -> anyhow::Result<(Vec<&'static str>, Vec<String>)> {
    let found: Value =
        serde_json::from_slice(&found.stdout).context("cannot read what the sources import")?;
    let names = |key: &str| -> Vec<&str> {
        found.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let defined = names("exports");
    let exports = exports(|name| defined.contains(&name));
    check_exports(SOURCE, &exports, HINT)?;
    let mut used = names("uses");
    if exports.iter().any(|name| SERVING.contains(name)) && !used.contains(&"request") {
        used.push("request");
    }
    let imports = used.into_iter().map(imports).collect::<anyhow::Result<Vec<_>>>()?.concat();
    Ok((exports, imports))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// The exports and imports of a project with these files, or what is wrong.
    fn found(files: &[(&str, &str)]) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../guest-sdk/python");
        let mut python = Command::new("python3");
        python.args(["-c", SURFACE]).current_dir(folder.path()).env("PYTHONPATH", sdk);
        let output = python.output().unwrap();
        if !output.status.success() {
            return Err(String::from_utf8(output.stderr).unwrap());
        }
        let (exports, imports) = surface(&output).map_err(|error| error.to_string())?;
        let imports = imports.iter().map(|name| name.split(['/', '@']).nth(1).unwrap());
        Ok(format!("{}; {}", exports.join(" "), imports.collect::<Vec<_>>().join(" ")))
    }

    #[test]
    fn a_world_is_what_the_sources_define_and_import() {
        let app = "from modelhost_guest import App\napp = App()\n@app.get('/')\ndef f(request): return 1\n";
        for (source, expected) in [
            (
                "from modelhost_guest import init, pre_inference, kv\n@init\ndef a(): pass\n@pre_inference\ndef \
                 b(sample): pass",
                "init pre-inference; kv",
            ),
            (
                "import modelhost_guest as m\n@m.post_inference\ndef a(t): m.image.tensor(t, 8)",
                "post-inference; images",
            ),
            (
                "from modelhost_guest import *\n@pre_inference_tensors\ndef a(t): return jobs.submit('/')",
                "pre-inference-tensors; jobs",
            ),
            (
                "from modelhost_guest import input_schema as i, post_inference as p\ni()\np(print)",
                "input-schema \
             post-inference; ",
            ),
            (app, "respond operations; request"),
            (
                &format!("{app}@app.init\ndef g(): pass\n@app.batch('/b')\ndef h(r): return r"),
                "init respond \
             respond-all operations; request",
            ),
            (
                "from modelhost_guest import App, blobs as b\nit = App('x')\n@it.websocket('/')\nasync def f(s): \
              b.open()",
                "websocket; types container blobstore request",
            ),
            (
                "from modelhost_guest import App\nclass My(App): pass\ndef make():\n  app = My()\n  @app.post('/')\n  def \
              f(r): pass\n  return app\nmake()",
                "respond operations; request",
            ),
            (
                "from modelhost_guest.potassium import Potassium, send_webhook\napp = Potassium()\n\
              @app.handler()\ndef f(c, r): pass",
                "respond operations; requests request",
            ),
            (
                "from modelhost_guest.store import Store\nfrom modelhost_guest import websocket\n@websocket\ndef \
              f(s): pass",
                "websocket; types container blobstore kv request",
            ),
            (
                "from modelhost_guest.store import Store\nfrom modelhost_guest import pre_inference\n\
              @pre_inference\ndef f(s): Store('s3', bucket='b')",
                "pre-inference; types container blobstore",
            ),
            (
                "from modelhost_guest import pre_inference as p, store\n@p\ndef f(s): store.Store()",
                "pre-inference; kv",
            ),
            (
                "from modelhost_guest import pre_inference as p, store\n@p\ndef f(b): store.Store(backend=b)",
                "pre-inference; types container blobstore kv",
            ),
            (
                "from modelhost_guest import pre_inference as p\nfrom modelhost_guest.metrics import Counter\np(print)",
                "pre-inference; metrics",
            ),
            ("from wit_world.imports import kv, types\nclass PreInference:\n  pass", "pre-inference; kv"),
            ("from routes import *\nfrom parts import work", "pre-inference websocket; tokenizers request"),
            ("import parts.work", "websocket; tokenizers request"),
            (
                "from modelhost_guest import truss\n@truss\nclass Model:\n  async def websocket(self, ws): pass",
                "init respond operations websocket; request",
            ),
            (
                "from shared import app\n@app.get('/')\ndef f(r): return {}.get('a')",
                "respond operations; request",
            ),
            (
                "from typing import TYPE_CHECKING\nfrom routes import *\nif TYPE_CHECKING:\n  from modelhost_guest \
              import kv",
                "pre-inference; ",
            ),
        ] {
            let files = [
                ("app.py", source),
                ("routes.py", "from modelhost_guest import pre_inference\n@pre_inference\ndef f(s): pass"),
                ("shared.py", "from modelhost_guest import App\napp = App()"),
                ("unused.py", "from modelhost_guest import init, jobs\n@init\ndef f(): pass"),
                ("parts/__init__.py", ""),
                ("parts/work.py", "from .deep import f\n"),
                (
                    "parts/deep.py",
                    "from modelhost_guest import websocket\nimport modelhost_guest.tokenizer\n@websocket\ndef f(s): \
                     pass",
                ),
            ];
            assert_eq!(found(&files).as_deref(), Ok(expected), "{source}");
        }
    }

    #[test]
    fn what_the_sdk_does_not_have_is_named_with_its_place() {
        for (source, expected) in [
            (
                "from modelhost_guest import kvv",
                "app.py:1: `modelhost_guest` has no `kvv`\n  hint: did you mean `kv`?",
            ),
            (
                "import modelhost_guest as m\n\nm.pre_infrence(print)",
                "app.py:3: `modelhost_guest` has no `pre_infrence`\n  hint: did you mean `pre_inference`?",
            ),
            (
                "from modelhost_guest.jobs import sumbit",
                "app.py:1: `modelhost_guest.jobs` has no `sumbit`\n  hint: did you mean `submit`?",
            ),
            (
                "from modelhost_guest import kv\nkv.opne('a')",
                "app.py:2: `modelhost_guest.kv` has no `opne`\n  hint: did you mean `open`?",
            ),
            (
                "from modelhost_guest import xyzzy",
                "app.py:1: `modelhost_guest` has no `xyzzy`\n  hint: modelhost-guest/",
            ),
            ("from wit_world.imports import slugs", "app.py:1: `wit_world.imports` has no `slugs`: "),
            ("def f(:\n  pass", "SyntaxError: invalid syntax (app.py:1)"),
            (
                "from modelhost_guest import init\n@init\ndef f(): pass",
                "app.py has no function that the host calls",
            ),
        ] {
            let told = found(&[("app.py", source)]).unwrap_err();
            assert!(told.starts_with(expected), "{source}: {told}");
        }
    }
}
