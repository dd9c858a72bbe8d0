//! Tests of whole projects that are brought over.

use super::*;

/// Brings over a project of these files: the new folder, modelhost.toml, the report without backticks.
fn migrated(files: &[(&str, &str)]) -> (tempfile::TempDir, String, String) {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (path, text) in files {
        put(old.path(), path, text).unwrap();
    }
    read(old.path(), None).unwrap().write(new.path(), "mine").unwrap();
    let text = |file: &str| fs::read_to_string(new.path().join(file)).unwrap();
    let (config, report) = (text(CONFIG), text("MIGRATION.md").replace('`', ""));
    (new, config, report)
}

const MODEL: &str = "class Model:\n    def predict(self, x):\n        return 1\n";

#[test]
fn files_do_not_take_the_places_of_others() {
    let truss = [
        ("config.yaml", "model_name: x\n"),
        ("model/model.py", "import app\nimport shared\nclass Model:\n    pass\n"),
        ("packages/app.py", "old = 1\n"),
        ("packages/README.md", "old"),
        ("packages/shared.py", "one = 1\n"),
        ("shared.py", "other = 1\n"),
        ("wit/world.wit", "old"),
        ("wit/deps/a.wit", "old"),
    ];
    let (folder, _, report) = migrated(&truss);
    for line in [
        "| packages/app.py | left out: the new project has its own app.py |",
        "| packages/README.md | left out: the new project has its own README.md |",
        "| shared.py | left out: shared.py comes of another file |",
        "| wit | left out: the new project has its own wit |",
    ] {
        assert_eq!(report.matches(line).count(), 1, "{line}\n{report}");
    }
    let text = |path: &str| fs::read_to_string(folder.path().join(path));
    assert_eq!(text("shared.py").unwrap(), "one = 1\n");
    assert!(text("app.py").unwrap().starts_with("\"\"\"Serves") && text("wit/world.wit").is_err());
}

#[test]
fn settings_are_those_that_the_host_takes() {
    let reads = "class Model:\n    def __init__(self, **kw):\n        self.c = kw[\"config\"]\n";
    let api = "- name: a\n  kind: AsyncAPI\n  handler: {type: python, path: ./src/my-api/pred.py}\n  networking: {endpoint: /v2/x}\n";
    let onnx = "- name: a\n  predictor: {type: onnx, path: app.py, models: {dir: s3://b/}}\n";
    let classes = "class PythonPredictor:\n    pass\nclass ONNXPredictor:\n    pass\n";
    let handler =
        "from .helper import x\nclass Handler:\n    def handle_async(self, payload):\n        return x\n";
    for (files, parts, reported, there) in [
        (
            vec![("config.yaml", "model_name: x\nbig: 18446744073709551615\n"), ("model/model.py", reads)],
            vec!["metadata = { big = 1.8446744073709552e19, model_name = \"x\" }"],
            vec!["| config.yaml | the configuration |"],
            vec![],
        ),
        (
            vec![
                (
                    "config.yaml",
                    "runtime: {predict_concurrency: \"200000\", streaming_read_timeout: 0.5}\nsecrets: [key]\n",
                ),
                ("model/model.py", MODEL),
                ("data/a/model.onnx", ""),
                ("data/b/model.onnx", ""),
                ("data/\u{f6} 1.onnx", ""),
            ],
            vec![
                "concurrency = 10000\n",
                "stream_timeout = \"1s\"",
                "models.a-model = { path = \"data/a/model.onnx\" }",
                "models.b-model = ",
                "models.1 = ",
                "env = [\"TRUSS_SECRET_key\"]",
            ],
            vec!["the secret key"],
            vec![],
        ),
        (
            vec![
                ("cortex.yaml", api),
                ("src/my-api/pred.py", handler),
                ("src/my-api/helper.py", "x = 1\n"),
                ("settings.yaml", "a: 1\n"),
            ],
            vec!["path = \"/models/v2/x\"", "project = \"project\""],
            vec!["| cortex.yaml:4 | /v2/x is a path of the server's own |"],
            vec!["src/my_api/pred.py", "src/my_api/helper.py", "project/settings.yaml"],
        ),
        (
            vec![("cortex.yaml", onnx), ("app.py", classes), ("handler.py", "")],
            vec![],
            vec!["| cortex.yaml:2 | the models of s3://b/ |"],
            vec!["handler_.py"],
        ),
        (
            vec![(
                "banana-app.py",
                "from potassium import *\nx = Potassium(\"x\", experimental_num_workers = 4)\n@x.handler()\ndef f(c, r): pass\n",
            )],
            vec!["concurrency = 4"],
            vec![],
            vec!["banana_app.py"],
        ),
    ] {
        let (folder, config, report) = migrated(&files);
        assert!(parts.iter().all(|part| config.contains(part)), "{parts:?}\n{config}");
        assert!(reported.iter().all(|line| report.contains(line)), "{reported:?}\n{report}");
        assert!(there.iter().all(|path| folder.path().join(path).is_file()), "{there:?}");
        if files.iter().any(|(_, text)| *text == classes) {
            let entry = fs::read_to_string(folder.path().join(ENTRY)).unwrap();
            assert!(entry.contains("from handler_ import ONNXPredictor"), "{entry}");
        }
    }
}

#[test]
fn webhooks_of_potassium_are_sent_by_a_library() {
    let include = "    include modelhost:outbound/imports@0.1.0;\n";
    // The imports, a definition, the body of the handler, and the line that is told.
    for (imported, defined, called, told) in [
        ("from potassium import Potassium, send_webhook", "pass", "send_webhook(1)", Some(6)),
        ("from potassium import Potassium, send_webhook as hook", "pass", "hook(1)", Some(6)),
        ("from potassium import Potassium, send_webhook", "pass", "later(send_webhook, 1)", Some(6)),
        ("from potassium import Potassium, send_webhook", "pass", "pass", Some(1)),
        ("from potassium import *", "pass", "send_webhook(1)", Some(6)),
        ("import potassium; from potassium import Potassium", "pass", "potassium.send_webhook(1)", Some(6)),
        ("import potassium as p; from potassium import Potassium", "pass", "p.send_webhook(1)", Some(6)),
        (
            "from potassium import Potassium; from potassium.hooks import send_webhook",
            "pass",
            "send_webhook(1)",
            Some(6),
        ),
        ("from potassium import *", "pass", "pass", None),
        ("from potassium import *", "class C:\n  def send_webhook(c, url): pass", "send_webhook(1)", Some(7)),
        ("from potassium import *", "def send_webhook(url): pass", "send_webhook(1)", None),
        ("from potassium import *; from mine import send_webhook", "pass", "send_webhook(1)", None),
        ("from potassium import Potassium", "def send_webhook(url): pass", "send_webhook(1)", None),
        ("from potassium import Potassium", "from mine import send_webhook", "send_webhook(1)", None),
        ("from potassium import Potassium", "pass", "c.send_webhook(1)", None),
        ("from potassium import *", "pass", "c.send_webhook(1)", None),
        (
            "import potassium; from potassium import Potassium",
            "pass",
            "send_webhook(1); c.potassium.send_webhook(1)",
            None,
        ),
    ] {
        let text = format!(
            "{imported}\napp = Potassium(\"x\")\n{defined}\n@app.handler()\ndef f(c, r):\n    {called}\n"
        );
        let (_, config, report) = migrated(&[("app.py", &text)]);
        assert_eq!(
            config.ends_with("\n\n[build]\nwith = [\"outbound\"]\n"),
            told.is_some(),
            "{text}{config}"
        );
        let lines: Vec<&str> = report.lines().filter(|line| line.contains("| send_webhook |")).collect();
        match told {
            None => assert!(lines.is_empty(), "{text}{report}"),
            Some(line) => {
                let expected = format!(
                    "| app.py:{line} | send_webhook | list its receiver at the endpoint in modelhost.toml, allow_outbound = ["
                );
                assert!(lines.len() == 1 && lines[0].contains(&expected), "{text}{report}");
            }
        }
        let old = tempfile::tempdir().unwrap();
        put(old.path(), "app.py", &text).unwrap();
        assert_eq!(read(old.path(), None).unwrap().world().contains(include), told.is_some(), "{text}");
    }
}

#[test]
fn files_of_a_truss_stand_for_it() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "config.yaml", "model_module_dir: ./m\n").unwrap();
    put(folder.path(), "m/model.py", MODEL).unwrap();
    put(folder.path(), "m/other.py", MODEL).unwrap();
    for (file, is_one) in [("config.yaml", true), ("m/model.py", true), ("m/other.py", false), ("", true)] {
        assert_eq!(read(&folder.path().join(file), None).is_ok(), is_one, "{file}");
    }
    assert!(read(folder.path(), Some("a")).err().unwrap().starts_with("`--api` names an API of Cortex, and"));
    fs::remove_file(folder.path().join("m/model.py")).unwrap();
    put(folder.path(), "config.yaml", "trt_llm: {a: 1}\n").unwrap();
    assert!(
        read(folder.path(), None).err().unwrap().starts_with("config.yaml: a Truss of `trt_llm`, without")
    );
    put(folder.path(), "model/model.py", "").unwrap();
    fs::write(folder.path().join("model/model.py"), b"\xe9").unwrap();
    assert!(read(folder.path(), None).err().unwrap().ends_with("it is not UTF-8\n  hint: save it as UTF-8"));
}

#[test]
fn inferless_classes_that_batch_or_stream_have_the_paths_of_their_clients() {
    let app = "class InferlessPythonModel:\n    def initialize(self):\n        pass\n\n    def infer(self, inputs):\n        return []\n";
    for (flag, verbs) in [
        ("BATCH_SIZE = 4", ["infer", "generate"].as_slice()),
        ("IS_STREAMING_OUTPUT = True", &["infer", "generate", "generate_stream"]),
        ("X = 1", &[]),
    ] {
        let schema = format!("INPUT_SCHEMA = {{}}\n{flag}\n");
        let (folder, config, _) = migrated(&[("app.py", app), ("input_schema.py", &schema)]);
        let of = ["", "/versions/1"].into_iter();
        let paths: Vec<String> = of
            .flat_map(|of| verbs.iter().map(move |verb| format!("\"/v2/models/mine{of}/{verb}\"")))
            .collect();
        let line = format!("paths = [{}]\n", paths.join(", "));
        assert_eq!(config.contains(&line), !verbs.is_empty(), "{line}{config}");
        let entry = fs::read_to_string(folder.path().join(ENTRY)).unwrap();
        assert_eq!(entry.contains("__name__, input_schema, name=\"mine\")"), !verbs.is_empty(), "{entry}");
    }
}

#[test]
fn packages_variables_and_models_are_told_by_their_names() {
    let model = "import os\nfrom slugify import slugify\nimport jwt, emoji\nimport onnxruntime as ort\n\nMODE = os.environ.get(\"MODE\", \"slow\")\n\n\n\
                 class Model:\n    def load(self):\n        self.session = ort.InferenceSession(\"model/net.onnx\")\n\n    \
                 def predict(self, x):\n        import csv\n        self.seen = x\n";
    let (_, config, report) = migrated(&[
        ("config.yaml", "model_name: x\nenvironment_variables:\n  MODE: fast\nrequirements:\n- PyJWT==2\n"),
        ("model/model.py", model),
        ("model/net.onnx", ""),
    ]);
    for line in [
        "| config.yaml:3 | the variable MODE |",
        "| model/model.py:7 | the environment, read at the top of the module |",
        "| model/model.py:3 | slugify is no module of the project and no requirement | name python-slugify, its package, in",
        "| model/model.py:4 | emoji is no module of the project and no requirement | name its package in",
        "| config.yaml:5 | PyJWT, in requirements.txt |",
        "loads model/net.onnx, which is models.net in modelhost.toml |",
        "| csv imported in a function |",
        "| self.seen is written in predict |",
    ] {
        assert!(report.contains(line), "{line}\n{report}");
    }
    assert!(
        config.contains("models.net = { path = \"model/net.onnx\" }") && !config.contains("models.NAME"),
        "{config}"
    );
}

/// Seconds of this thread that a project with this text as its source costs.
fn cost(file: &str, text: &str) -> f64 {
    let old = tempfile::tempdir().unwrap();
    if file == "model/model.py" {
        put(old.path(), "config.yaml", "model_name: x\n").unwrap();
    }
    put(old.path(), file, text).unwrap();
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let costs = (0..3).map(|_| {
        let new = tempfile::tempdir().unwrap();
        let begun = now();
        read(old.path(), None).unwrap().write(new.path(), "mine").unwrap();
        now() - begun
    });
    costs.fold(f64::INFINITY, f64::min)
}

/// Eight times as many names take eight times as long, not sixty-four.
#[test]
fn work_grows_with_the_text() {
    const FEW: usize = 1000;
    let each = |count: usize, of: &dyn Fn(usize) -> String| (0..count).map(of).collect::<String>();
    let list = |count: usize| each(count, &|at| format!("a{at}, "));
    type Text<'a> = &'a dyn Fn(usize) -> String;
    let shapes: [(&str, &str, Text<'_>); 9] = [
        ("names of a native package", "model/model.py", &|count| {
            format!("from torch import {}b\n{MODEL}{}", list(count), each(count, &|at| format!("a{at}()\n")))
        }),
        ("names of a pure package", "model/model.py", &|count| {
            format!("from emoji import {}b\n{MODEL}", list(count))
        }),
        ("names that the SDK has not", "model/model.py", &|count| {
            format!(
                "from fastapi import {}b\n{MODEL}{}",
                list(count),
                each(count, &|at| format!("a{at}()\n"))
            )
        }),
        ("one name again and again", "model/model.py", &|count| {
            format!("{}{MODEL}", each(count, &|_| "from torch import a\na()\n".to_owned()))
        }),
        ("imports in one block", "model/model.py", &|count| {
            format!(
                "try:\n{}except ImportError:\n    pass\n{MODEL}",
                each(count, &|at| format!("    import a{at}\n"))
            )
        }),
        ("imports in a function", "model/model.py", &|count| {
            format!("{MODEL}\ndef f():\n{}", each(count, &|at| format!("    import a{at}\n")))
        }),
        ("a long dotted name", "model/model.py", &|count| {
            format!("import a{}\n{MODEL}", ".a".repeat(8 * count))
        }),
        ("models and files", "model/model.py", &|count| {
            format!("{MODEL}{}", each(count, &|at| format!("m{at} = torch.load(\"a\"); open(\"b\")\n")))
        }),
        ("names of Potassium", "app.py", &|count| {
            let aliases = each(count, &|at| format!("import potassium as p{at}\np{at}.send_webhook(1)\n"));
            format!(
                "from potassium import *\n{aliases}x = Potassium(\"x\")\n@x.handler()\ndef f(c, r):\n    pass\n"
            )
        }),
    ];
    for (shape, file, text) in shapes {
        let (few, many) = (cost(file, &text(FEW)), cost(file, &text(8 * FEW)));
        assert!(many < 24.0 * few, "{shape}: {few} s, of eight times as many {many} s");
    }
}
