//! `host new --from`: small projects in the form of other systems, brought over, built and asked as their
//! clients ask; what is said of
//! what cannot be brought over.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use e2e::project::lend_packages;
use e2e::{Host, Reply, host_binary};
use serde_json::{Value, json};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(host_binary()).args(arguments).current_dir(folder).output().expect("the host starts")
}

/// Runs the host to success; what it said on stdout.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "host {arguments:?}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// A folder with an old project in `old`.
pub(crate) fn old(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join("old").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn build(project: &Path) {
    lend_packages(project);
    done(project, &["build"]);
}

/// Brings the old project over to `mine`, and builds it.
pub(crate) fn brought(folder: &Path) -> PathBuf {
    let said = done(folder, &["new", "mine", "--from", "old"]);
    assert!(said.starts_with("made mine from a"), "{said}");
    let project = folder.join("mine");
    build(&project);
    project
}

/// The same, and serves it.
pub(crate) fn served(folder: &Path) -> (PathBuf, Host) {
    let project = brought(folder);
    let host = Host::serve(&["--config", project.join("modelhost.toml").to_str().unwrap()]);
    (project, host)
}

fn read(project: &Path, file: &str) -> String {
    fs::read_to_string(project.join(file)).unwrap()
}

/// What a path answers to a body.
fn answers(host: &Host, path: &str, body: &Value, expected: &Value) {
    let reply = host.post(path, body.to_string());
    let found: Value = serde_json::from_str(&reply.text()).unwrap_or_else(|_| json!(reply.text()));
    assert_eq!((reply.status, &found), (200, expected), "{path} {body}");
}

#[test]
fn a_truss_answers_as_it_did() {
    let folder = old(&[
        (
            "config.yaml",
            "model_name: words\nmodel_metadata:\n  example_model_input: {text: a b}\nenvironment_variables:\n  MODE: fast\n\
             runtime:\n  predict_concurrency: 2\nrequirements:\n- pandas\nexternal_package_dirs: []\n",
        ),
        (
            "model/model.py",
            "import asyncio\nimport os\n\nimport pandas as pd\nfrom fastapi import HTTPException, Request\n\nfrom counting import count\n\n\n\
             class Model:\n    def __init__(self, **kwargs):\n        self.said, self.data = kwargs[\"config\"], kwargs[\"data_dir\"]\n\n\
             \x20   def load(self):\n        self.known = (self.data / \"known.txt\").read_text().split()\n\n\
             \x20   def preprocess(self, inputs):\n        if \"text\" not in inputs:\n            raise HTTPException(422, \"no text\")\n        return inputs[\"text\"].split()\n\n\
             \x20   async def predict(self, words, request: Request):\n        import string\n        await asyncio.sleep(0.01)\n\
             \x20       return {\"words\": count(words), \"known\": [it for it in words if it in self.known], \"mode\": os.environ[\"MODE\"],\n\
             \x20               \"name\": self.said[\"model_name\"], \"digits\": string.digits, \"size\": len(await request.body())}\n\n\
             \x20   async def chat_completions(self, inputs):\n        for number in range(inputs[\"n\"]):\n            yield f\"data: {number}\\n\\n\"\n",
        ),
        ("packages/counting.py", "def count(words):\n    return len(words)\n"),
        ("packages/unused.py", "import torch\n"),
        ("data/known.txt", "a c\n"),
    ]);
    let (project, host) = served(folder.path());
    let expected = json!({"words": 2, "known": ["a"], "mode": "fast", "name": "words", "digits": "0123456789", "size": 14});
    for path in ["/v1/models/model:predict", "/"] {
        answers(&host, path, &json!({"text": "a b"}), &expected);
    }
    let refused = host.post("/v1/models/model:predict", "{}");
    assert_eq!((refused.status, refused.json()), (422, json!({"error": "no text"})));
    assert_eq!(host.post("/v1/chat/completions", r#"{"n": 2}"#).text(), "data: 0\n\ndata: 1\n\n");
    assert_eq!(host.get("/v1/models/model").status, 200);
    assert_eq!(read(&project, "sample.json"), "{\n  \"text\": \"a b\"\n}\n");
    let report = read(&project, "MIGRATION.md");
    for part in [
        "`model/model.py:24` | `string` imported in a function | app.py imports it at its end",
        "`config.yaml:5` | the variable `MODE` | `env`: in the environment",
        "`packages/unused.py` | left out",
        "`pandas`, imported and not used",
        "`limits.concurrency = 2`",
    ] {
        assert!(report.contains(part), "`{part}` in\n{report}");
    }
}

#[test]
fn a_potassium_app_answers_as_it_did() {
    let folder = old(&[
        (
            "app.py",
            "import time\nfrom potassium import Potassium, Request, Response, RedisConfig, Store\n\napp = Potassium(\"mine\", experimental_num_workers=1)\n\
             store = Store(backend=\"redis\", config=RedisConfig(host=\"redis\", port=6379))\n\n\n\
             @app.init\ndef init():\n    return {\"n\": 0}\n\n\n\
             @app.handler(\"/\")\ndef handler(context: dict, request: Request) -> Response:\n    context[\"n\"] += 1\n\
             \x20   return Response(json={\"n\": context[\"n\"], \"prompt\": request.json.get(\"prompt\")}, status=200)\n\n\n\
             @app.handler(\"stream\")\ndef stream(context, request):\n    def pieces():\n        for number in range(3):\n            yield f\"{number}\\n\"\n\
             \x20   return Response(body=pieces(), headers={\"Content-Type\": \"text/plain\"})\n\n\n\
             @app.background(\"/later\")\ndef later(context, request):\n    store.set(\"done\", request.json)\n\n\n\
             @app.handler(\"/done\")\ndef done(context, request):\n    return Response(json={\"done\": store.get(\"done\")})\n\n\n\
             if __name__ == \"__main__\":\n    app.serve()\n",
        ),
        ("requirements.txt", "potassium==0.5.0\nflask\n"),
        ("banana_config.json", r#"{"name": "mine", "example_input": {"prompt": "hi"}}"#),
    ]);
    let (project, host) = served(folder.path());
    for n in 1..=2 {
        answers(&host, "/", &json!({"prompt": "hi"}), &json!({"n": n, "prompt": "hi"}));
    }
    let streamed: Reply = host.post("/stream", "{}");
    assert_eq!(
        (streamed.header("content-type"), streamed.text().as_str()),
        (Some("text/plain"), "0\n1\n2\n")
    );
    answers(&host, "/later", &json!([7]), &json!({"started": true}));
    e2e::wait_until("the background work", || host.post("/done", "{}").json() == json!({"done": [7]}));
    assert_eq!(host.post("/", "{").status, 400);
    assert_eq!(read(&project, "sample.json"), "{\n  \"prompt\": \"hi\"\n}\n");
}

#[test]
fn an_inferless_app_answers_as_it_did() {
    let folder = old(&[
        (
            "app.py",
            "import numpy as np\n\n\nclass InferlessPythonModel:\n    def initialize(self):\n        self.greeting = \"hello\"\n\n\
             \x20   def infer(self, inputs):\n        times = inputs.get(\"times\", 1)\n\
             \x20       if \"scores\" in inputs:\n            scores = np.array(inputs[\"scores\"], dtype=np.float32)\n            powers = np.exp(scores - scores.max())\n\
             \x20           return {\"shares\": (powers / powers.sum()).astype(float).round(6).tolist(), \"best\": np.argsort(scores)[::-1][:2].tolist()}\n\
             \x20       return {\"out\": f\"{self.greeting} {inputs['name']}\" * times, \"length\": int(np.array([len(inputs[\"name\"])]).sum())}\n\n\
             \x20   def finalize(self, *args):\n        self.greeting = None\n",
        ),
        (
            "input_schema.py",
            "INPUT_SCHEMA = {\n    \"name\": {\n        \"datatype\": \"STRING\",\n        \"required\": True,\n        \"shape\": [1],\n\
             \x20       \"example\": [\"you\"],\n    },\n    \"times\": {\n        \"datatype\": \"INT64\",\n        \"required\": False,\n\
             \x20       \"shape\": [1],\n        \"example\": [2],\n    },\n\
             \x20   \"scores\": {\n        \"datatype\": \"FP32\",\n        \"required\": False,\n        \"shape\": [-1],\n        \"example\": [0.5],\n    },\n}\n",
        ),
        (
            "inferless-runtime-config.yaml",
            "build:\n  cuda_version: 12.1.1\n  system_packages:\n    - libssl-dev\n  python_packages:\n    - numpy==1.26.0\n",
        ),
    ]);
    let (project, host) = served(folder.path());
    let input = json!({"inputs": [{"name": "name", "shape": [1], "datatype": "BYTES", "data": ["you"]}]});
    let reply = host.post("/v2/models/mine/infer", input.to_string());
    let expected = json!([
        {"name": "out", "datatype": "BYTES", "shape": [1], "data": ["hello you"]},
        {"name": "length", "datatype": "INT64", "shape": [1], "data": [3]},
    ]);
    assert_eq!((reply.status, &reply.json()["outputs"]), (200, &expected), "{}", reply.text());
    answers(
        &host,
        "/",
        &json!({"name": "you", "times": 2}),
        &json!({"out": "hello youhello you", "length": 3}),
    );
    // As natively, in six digits.
    answers(
        &host,
        "/",
        &json!({"name": "you", "scores": [1.5, -0.5, 3.0]}),
        &json!({"shares": [0.17803, 0.024094, 0.797876], "best": [2, 0]}),
    );
    assert_eq!(host.post("/", r#"{"times": 2}"#).status, 400);
    assert_eq!(read(&project, "sample.json"), "{\n  \"name\": \"you\"\n}\n");
    let report = read(&project, "MIGRATION.md");
    assert!(report.contains("| `inferless-runtime-config.yaml:3` | `build.system_packages` |"), "{report}");
    assert!(report.contains("`numpy==1.26.0`, in requirements.txt as `numpy`"), "{report}");
}

/// A Cortex project of each age, with the model that the host has in place of a client.
#[test]
fn cortex_projects_answer_as_they_did() {
    const CONFIG: &str = "- kind: deployment\n  name: iris\n\n- kind: api\n  name: classifier\n";
    const TRACKER: &str = "  tracker:\n    model_type: classification\n";
    let measurements = "[sample[\"sepal_length\"], sample[\"sepal_width\"], sample[\"petal_length\"], sample[\"petal_width\"]]";
    let functions = |rest: &str| {
        format!(
            "import numpy as np\n\nlabels = [\"setosa\", \"versicolor\", \"virginica\"]\n\n\n\
             def pre_inference(sample, {rest}):\n    return {{{}[0].name: np.array({measurements}, dtype=\"float32\")}}\n\n\n\
             def post_inference(prediction, {rest}):\n    return labels[prediction[0][0]]\n",
            rest.split(',').next().unwrap()
        )
    };
    let class = format!(
        "class ONNXPredictor:\n    def __init__(self, onnx_client, config):\n        self.client = onnx_client\n\
         \x20       with open(\"/mnt/project/labels.txt\") as file:\n            self.labels = file.read().split()[: config[\"count\"]]\n\n\
         \x20   def predict(self, payload):\n        sample = payload\n        return self.labels[self.client.predict({measurements})[0][0]]\n"
    );
    let iris = e2e::root().join("examples/iris-wasm/iris.onnx");
    let flower = r#"{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}"#;
    for (config, source, path, expected) in [
        (
            format!("{CONFIG}  model: s3://models/iris.onnx\n  request_handler: my-handler.py\n{TRACKER}"),
            functions("metadata"),
            "/iris/classifier",
            "\"setosa\"",
        ),
        (
            format!("{CONFIG}  onnx:\n    model: s3://models/iris.onnx\n    request_handler: my-handler.py\n"),
            functions("signature, metadata"),
            "/iris/classifier",
            "\"setosa\"",
        ),
        (
            "- name: other\n  kind: BatchAPI\n  handler: {type: python, path: x.py}\n- name: flowers\n  predictor:\n    type: onnx\n\
             \x20   path: my-handler.py\n    model_path: s3://models/iris.onnx\n    config: {count: 3}\n\
             \x20 networking:\n    endpoint: /named\n"
                .to_owned(),
            class,
            "/named",
            "a",
        ),
    ] {
        let folder = old(&[("cortex.yaml", &config), ("my-handler.py", &source), ("sample.json", flower), ("labels.txt", "a b c")]);
        let said = done(folder.path(), &["new", "mine", "--from", "old"]);
        assert!(said.contains("the model `s3://models/iris.onnx`\n    hint: put it here as `iris.onnx`"), "{said}");
        let project = folder.path().join("mine");
        fs::copy(&iris, project.join("iris.onnx")).unwrap();
        build(&project);
        let host = Host::serve(&["--config", project.join("modelhost.toml").to_str().unwrap()]);
        let reply = host.post(path, read(&project, "sample.json"));
        assert_eq!((reply.status, reply.text().as_str()), (200, expected), "{config}");
    }
}

#[test]
fn what_cannot_be_brought_over_is_listed_with_its_place() {
    let folder = old(&[
        (
            "config.yaml",
            "model_name: x\nsecrets:\n  key: null\nsystem_packages:\n- ffmpeg\nresources:\n  accelerator: A10G\n",
        ),
        (
            "model/model.py",
            "import torch\nfrom transformers import (\n    AutoModel,\n)\n\n\nclass Model:\n    def load(self):\n        self.model = torch.load(\"x.pt\")\n\n\
             \x20   def predict(self, inputs):\n        return torch.zeros(1), open(\"x\")\n\n\nMEAN = torch.ones(2) / 255\n",
        ),
    ]);
    let said = done(folder.path(), &["new", "mine", "--from", "old"]);
    for line in [
        "  config.yaml:3: the secret `key`\n    hint: set `TRUSS_SECRET_key`",
        "  config.yaml:4: `system_packages`\n    hint: ",
        "  model/model.py:2: `torch` is native code; used in line 10, 13, 16\n    hint: the model runs in the host",
        "  model/model.py:10: `torch.load` loads a model\n    hint: export it to ONNX",
        "  model/model.py:13: `open` leads to a file\n    hint: put its files into a folder DIR",
    ] {
        assert!(said.contains(line), "{line}\nin\n{said}");
    }
    let project = folder.path().join("mine");
    let model = read(&project, "model/model.py");
    assert!(model.contains("torch.load(\"x.pt\")  # MIGRATE: see MIGRATION.md\n"), "{model}");
    let config = read(&project, "modelhost.toml");
    assert!(config.contains("# models.NAME = { path = \"model.onnx\" }  # model/model.py:10"), "{config}");
    // It can be built; what is not there is said when it is called.
    fs::write(project.join("modelhost.toml"), config.replace("env = ", "# env = ")).unwrap();
    build(&project);
    let refused = run(
        &project,
        &["serve", "--config", "modelhost.toml", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"],
    );
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(
        stderr.contains("`torch.load` is native code") && stderr.contains("model/model.py:10"),
        "{stderr}"
    );
}

#[test]
fn a_project_that_cannot_be_read_is_refused_with_a_hint() {
    let folder = old(&[("main.py", "print(1)\n")]);
    let broken = old(&[("config.yaml", "a: &x 1\n"), ("model/model.py", "class Model:\n    pass\n")]);
    let batch = old(&[("cortex.yaml", "- name: b\n  kind: BatchAPI\n  handler:\n    path: handler.py\n")]);
    let engine = old(&[("config.yaml", "trt_llm:\n  build: {}\n")]);
    let nameless =
        old(&[("config.yaml", "model_class_name: Net\n"), ("model/model.py", "class Model:\n    pass\n")]);
    for (folder, arguments, expected) in [
        (&folder, ["--from", "old"].as_slice(), "error: `old` is no Truss"),
        (&folder, &["--from", "none"], "error: cannot read `none`"),
        (
            &folder,
            &["--from", "old", "--lang", "rust"],
            "error: the argument '--from <DIR>' cannot be used with '--lang",
        ),
        (&nameless, &["--from", "old"], "error: model/model.py: there is no `class Net`"),
        (
            &batch,
            &["--from", "old"],
            "error: cortex.yaml: there is no API with a handler for HTTP\n  hint: `--api NAME`",
        ),
        (
            &batch,
            &["--from", "old", "--api", "b"],
            "error: cortex.yaml: there is no API with a handler for HTTP named `b`\n  hint: `--api NAME` names one of a RealtimeAPI or AsyncAPI; \
             there are none",
        ),
        (
            &engine,
            &["--from", "old"],
            "error: config.yaml: a Truss of `trt_llm`, without `model/model.py`\n  hint: an engine",
        ),
        (&broken, &["--from", "old"], "error: config.yaml:1: `&x 1`: anchors and tags are not read"),
    ] {
        let output = run(folder.path(), &[&["new", "mine"], arguments].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.starts_with(expected), "{stderr}");
        assert!(!folder.path().join("mine").exists());
    }
}
