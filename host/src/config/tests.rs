//! Config files, flags and variables in; the configuration, or the exact report, out.

mod blobs;
mod connection;
mod record;
mod reports;
mod spellings;
mod store;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use self::spellings::{GATE_SPELLINGS, SPELLINGS};
use super::*;
use crate::plugin::Isolation;
use crate::schema::{Input, Schema};
use crate::server::compat::job_dialects::JOB_MODES;
use crate::tensor::Datatype;
use crate::values::Ratio;

/// A folder with what a configuration may name. In every text of a test, `DIR` stands for its path.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        for file in ["m.onnx", "h.wasm", "other.wasm", "lib.so", "project/note.txt", "golden/a.json"] {
            folder.write(file, "");
        }
        folder.write("keys", "# ours\nfirst\nsecond\n");
        folder.write("meta.json", " {\"from\": \"file\"}\n");
        folder
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.fill(text)).unwrap();
    }

    fn fill(&self, text: &str) -> String {
        text.replace("DIR", self.0.path().to_str().unwrap())
    }

    fn unfill(&self, text: &str) -> String {
        text.replace(self.0.path().to_str().unwrap(), "DIR")
    }

    /// The only place in this file that calls the API. Flags and variables (in capitals) are `NAME TEXT`.
    fn load(&self, scope: Scope, given: &[&str]) -> Result<app::Config, String> {
        let mut overrides = Overrides::default();
        let mut env = std::collections::BTreeMap::from([("HOME".to_owned(), "/home/me".to_owned())]);
        for given in given {
            let (name, text) = given.split_once(' ').unwrap();
            match settings::ALL.iter().find(|setting| setting.flag == name) {
                Some(setting) if setting.flag == "env" => {
                    overrides.set(setting, text.split(' ').map(str::to_owned).collect());
                }
                Some(setting) => overrides.set(setting, vec![self.fill(text)]),
                None => {
                    env.insert(name.to_owned(), self.fill(text));
                }
            }
        }
        let env = |name: &str| env.get(name).cloned();
        let config = match scope {
            Scope::Serve => serve(&overrides, &env),
            Scope::Dev => dev(&overrides, &env),
            Scope::Run => run(&overrides, &env),
        };
        config.map_err(|problems| self.unfill(&problems.to_string()))
    }

    fn serve(&self, given: &[&str]) -> Result<app::Config, String> {
        self.load(Scope::Serve, given)
    }

    /// The report on `file` and what is given besides.
    fn report(&self, file: &str, given: &[&str]) -> String {
        self.write("modelhost.toml", file);
        self.serve(&[&["config DIR/modelhost.toml"], given].concat())
            .map(|_| "no problem")
            .unwrap_err()
            .replace("DIR/modelhost.toml", "modelhost.toml")
    }

    /// Where `config` differs from a server of `m.onnx` alone: the lines of its `Debug` from first to last
    /// change.
    fn changed(&self, config: &app::Config) -> String {
        let text = |config: &app::Config| {
            let mut config = config.clone();
            // Follows from where the rest stands.
            config.endpoints.iter_mut().for_each(|endpoint| endpoint.hidden = Arc::default());
            self.unfill(&format!("{config:#?}"))
        };
        let (before, after) = (text(&self.serve(&["model DIR/m.onnx"]).unwrap()), text(config));
        let same = before.lines().zip(after.lines()).take_while(|(old, new)| old == new).count();
        let tail = before.lines().rev().zip(after.lines().rev()).take_while(|(old, new)| old == new).count();
        let changed = after.lines().count().saturating_sub(same + tail);
        after.lines().skip(same).take(changed).map(str::trim).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn every_setting_can_be_given_as_flag_variable_and_key() {
    let folder = Folder::new();
    let mut missing: Vec<&str> = settings::ALL.iter().map(|setting| setting.flag).collect();
    for (flag, text, toml, expected) in SPELLINGS {
        missing.retain(|other| other != flag);
        let setting = settings::ALL.iter().find(|setting| setting.flag == *flag).unwrap();
        let path = if *flag == "model" { "" } else { "model.path = 'm.onnx'" };
        let (process, endpoint) = match setting.key.strip_prefix("endpoint.") {
            Some(key) => (String::new(), format!("{key} = {toml}")),
            None => (format!("{} = {toml}", setting.key), String::new()),
        };
        folder.write("c.toml", &format!("{process}\n[[endpoint]]\n{path}\n{endpoint}"));
        let variable =
            format!("{} {}", setting.variable(), text.replace(' ', if *flag == "env" { "," } else { " " }));
        let spellings: [&[&str]; 3] = [
            &["model DIR/m.onnx", &format!("{flag} {text}")],
            &["model DIR/m.onnx", &variable],
            &["config DIR/c.toml"],
        ];
        for given in spellings {
            let config = folder.serve(given).unwrap();
            assert_eq!(folder.changed(&config), *expected, "{given:?}");
        }
    }
    // The first names the file; the next mean something only together with `breaker.faults` and `max_batch`,
    // then with each other, then with `record`; those of the gate with `gate-samples`.
    missing.retain(|flag| !GATE_SPELLINGS.iter().any(|(other, ..)| other == flag));
    // Buckets need a place.
    missing.retain(|flag| *flag != "kv");
    let problem = folder.serve(&["model DIR/m.onnx", "kv a"]).unwrap_err();
    assert!(
        problem.contains("has buckets, and there is no store for them; hint: give `--kv-store FILE|URL`, or `[kv]` with `store = \"FILE\"` or the address of a Redis"),
        "{problem}"
    );
    folder.write("c.toml", "kv.store = 'values'\n[[endpoint]]\nmodel = 'm.onnx'\nkv = ['shared/b']");
    for given in [&["model DIR/m.onnx", "kv shared/b", "kv-store DIR/values"][..], &["config DIR/c.toml"]] {
        let config = folder.serve(given).unwrap();
        assert_eq!(config.endpoints[0].capabilities.kv.buckets, ["shared/b"], "{given:?}");
    }
    let problem = folder.serve(&["model DIR/m.onnx", "kv-store DIR/values", "kv ../a"]).unwrap_err();
    assert!(problem.contains("`../a` is not a bucket's name: letters"), "{problem}");
    // See `tests/store.rs`, `tests/blobs.rs` and `tests/record.rs`.
    missing.retain(|flag| !["kv-password", "kv-prefix", "kv-timeout"].contains(flag));
    missing.retain(|flag| !flag.starts_with("blobs") && !flag.starts_with("access-log-"));
    // Jobs need one too.
    missing.retain(|flag| !["jobs", "jobs-password", "jobs-prefix", "jobs-timeout"].contains(flag));
    let problem = folder.serve(&["model DIR/m.onnx", "jobs on"]).unwrap_err();
    assert!(
        problem.contains("has jobs, and there is no store for them; hint: give `--jobs-store FILE|URL`, or `[jobs]` with `store = \"FILE\"` or the address of a Redis"),
        "{problem}"
    );
    folder.write("c.toml", "jobs.store = 'jobs'\n[[endpoint]]\nmodel = 'm.onnx'\njobs = 'async'");
    let flags = &["model DIR/m.onnx", "jobs async", "jobs-store DIR/jobs"][..];
    for given in [flags, &["config DIR/c.toml"]] {
        assert_eq!(folder.serve(given).unwrap().endpoints[0].jobs.mode, JOB_MODES[2].1, "{given:?}");
    }
    let other = "[[endpoint]]\nmodel = 'm.onnx'\nname = 'other'\npath = '/m/jobs/x'";
    let text = "jobs.store = 'jobs'\n[[endpoint]]\nmodel = 'm.onnx'\njobs = 'on'";
    folder.write("c.toml", &format!("{text}\n{other}"));
    let problem = folder.serve(&["config DIR/c.toml"]).unwrap_err();
    assert!(problem.contains("`/m/jobs/x` is where the jobs of endpoint `m` are; hint: give"), "{problem}");
    let together = [
        "breaker-window",
        "breaker-min",
        "breaker-pause",
        "tracker-key",
        "response-cache-ttl",
        "response-cache-headers",
        "response-cache-allow",
        "max-delay",
        "batch-wait",
        "trust-rows",
        "request-delay",
    ];
    let tls = ["tls-cert", "tls-key", "tls-admin"];
    let expected = [&["config"], &together[..], &tls, &["record-size"]].concat();
    assert_eq!(missing, expected, "a setting without a line in SPELLINGS");
    for (alone, key) in
        [("breaker-window 1s", "window"), ("breaker-min 7", "min"), ("breaker-pause 1m", "pause")]
    {
        let problem = folder.serve(&["model DIR/m.onnx", alone]).unwrap_err();
        assert!(
            problem.contains("a breaker that is off") && problem.contains("hint: set `faults` too"),
            "{problem}"
        );
        let both = folder.serve(&["model DIR/m.onnx", "breaker-faults 1", alone]).unwrap();
        assert!(folder.changed(&both).contains(&format!("{key}: ")), "{alone}");
    }
    for (alone, expected) in [
        ("response-cache-ttl 1m", "ttl: Some( 60s, ),"),
        ("response-cache-headers Accept-Language", "\"accept-language\", \"content-type\","),
        ("response-cache-allow random", "allowed: Dependencies( 2, ),"),
    ] {
        let problem = folder.serve(&["model DIR/m.onnx", alone]).unwrap_err();
        assert!(problem.contains("a response cache that is off"), "{problem}");
        let both = folder.serve(&["model DIR/m.onnx", "response-cache 1MiB", alone]).unwrap();
        assert!(folder.changed(&both).contains(expected), "{alone}: {}", folder.changed(&both));
    }
    let problem = folder.serve(&["model DIR/m.onnx", "response-cache 1MiB", "response-cache-allow headers"]);
    assert!(problem.unwrap_err().contains("name the headers in `response_cache.headers`"));
    let problem = folder.serve(&["model DIR/m.onnx", "tracker-key label"]).unwrap_err();
    assert!(
        problem.contains("a prediction of no kind") && problem.contains("hint: set `tracker."),
        "{problem}"
    );
    let tracked = ["model DIR/m.onnx", "tracker-model-type classification", "tracker-key /labels/0"];
    let tracked = folder.changed(&folder.serve(&tracked).unwrap());
    assert!(tracked.contains(r#"key: [ "labels", "0", ], kind: Classification,"#), "{tracked}");
    for (flag, text, toml, expected) in GATE_SPELLINGS {
        let key = flag.strip_prefix("gate-").unwrap().replace('-', "_");
        folder.write(
            "c.toml",
            &format!("[[endpoint]]\nmodel = 'm.onnx'\n[endpoint.gate]\nsamples = 9\n{key} = {toml}"),
        );
        let flags = ["model DIR/m.onnx", "gate-samples 9", &format!("{flag} {text}")];
        for given in [&flags[..], &["config DIR/c.toml"]] {
            let config = folder.serve(given).unwrap();
            let changed = folder.changed(&config);
            assert!(changed.contains("samples: 9,") && changed.contains(expected), "{given:?}: {changed}");
        }
        let problem = folder.serve(&["model DIR/m.onnx", &format!("{flag} {text}")]).unwrap_err();
        assert!(problem.contains("nothing to judge by"), "{problem}");
    }
    for (alone, key) in
        [("max-delay 5ms", "max_delay"), ("batch-wait always", "wait"), ("trust-rows true", "trust_rows")]
    {
        let problem = folder.serve(&["model DIR/m.onnx", alone]).unwrap_err();
        assert!(
            problem.contains("batching is off") && problem.contains("hint: set `max_batch` too"),
            "{problem}"
        );
        let both = folder.serve(&["model DIR/m.onnx", "max-batch 2", alone]).unwrap();
        assert!(folder.changed(&both).contains(&format!("{key}: ")), "{alone}");
    }
    let problem = folder.serve(&["model DIR/m.onnx", "request-delay 5ms"]).unwrap_err();
    assert!(problem.contains("batching of requests is off"), "{problem}");
    let both = folder.serve(&["model DIR/m.onnx", "max-requests 2", "request-delay 5ms"]).unwrap();
    assert!(folder.changed(&both).contains("max_batch: 2, max_delay: 5ms,"), "{}", folder.changed(&both));
}

#[test]
fn a_default_in_the_list_is_the_default_in_the_code() {
    let folder = Folder::new();
    let plain = folder.serve(&["model DIR/m.onnx"]).unwrap();
    for setting in settings::ALL {
        if [
            "name",
            "path",
            "protocol",
            "model-version",
            "signature-key",
            "onnxruntime-lib",
            "tensorflow-lib",
            "cache-dir",
            "body-media-types",
            "tracker-key",
            // Of a bucket alone, see the tests of `blobs`.
            "blobs-region",
            "blobs-addressing",
            "blobs-credentials",
            "blobs-timeout",
        ]
        .contains(&setting.flag)
            || setting.default.is_empty()
        {
            continue; // Derived from something else, or none.
        }
        let explicit = format!("{} {}", setting.flag, setting.default);
        let with = match setting.flag {
            "max-delay" | "batch-wait" | "trust-rows" => "max-batch 1",
            "request-delay" => "max-requests 1",
            flag if flag.starts_with("breaker-") => "breaker-faults off",
            flag if flag.starts_with("gate-") => "gate-samples 0",
            "response-cache-ttl" => "response-cache off",
            _ => "queue 256",
        };
        let explicit = folder.serve(&["model DIR/m.onnx", with, &explicit]);
        assert_eq!(explicit.as_ref(), Ok(&plain), "{}", setting.flag);
    }
    assert_eq!(plain.plugin.cache_dir.as_deref(), Some(Path::new("/home/me/.cache/modelhost")));
    let xdg = folder.serve(&["model DIR/m.onnx", "XDG_CACHE_HOME /x"]).unwrap();
    assert_eq!(xdg.plugin.cache_dir.as_deref(), Some(Path::new("/x/modelhost")));
    assert_eq!(folder.serve(&["model DIR/m.onnx", "cache-dir none"]).unwrap().plugin.cache_dir, None);
}

#[test]
fn a_flag_wins_over_its_variable_that_over_the_file_that_over_the_default() {
    let folder = Folder::new();
    folder.write("c.toml", "server.listen = '1.1.1.1:1'\n[[endpoint]]\nmodel = 'm.onnx'\nlimits.queue = 1");
    let seen = |given: &[&str]| {
        let config = folder.serve(&[&["config DIR/c.toml"], given].concat()).unwrap();
        (config.server.listen.to_string(), config.endpoints[0].limits.queue)
    };
    let pair = |listen: &str, queue| (listen.to_owned(), queue);
    assert_eq!(seen(&[]), pair("1.1.1.1:1", 1));
    assert_eq!(seen(&["MODELHOST_LISTEN 2.2.2.2:2", "MODELHOST_QUEUE 2"]), pair("2.2.2.2:2", 2));
    assert_eq!(seen(&["MODELHOST_QUEUE 2", "queue 3", "listen 3.3.3.3:3"]), pair("3.3.3.3:3", 3));
    assert_eq!(seen(&["MODELHOST_QUEUE ", "MODELHOST_LISTEN "]), pair("1.1.1.1:1", 1), "empty is unset");
}

#[test]
fn the_file_of_the_contract_means_what_it_says() {
    let folder = Folder::new();
    folder.write(
        "c.toml",
        r#"
        [[endpoint]]
        name     = "iris"
        path     = "/flowers/iris"
        plugin   = "h.wasm"
        project  = "."
        model    = { path = "m.onnx", device = "cpu", instances = "auto" }
        metadata = { labels = ["setosa", "versicolor"], since = 2020-01-02, deep = { x = 1.5 } }
        env      = ["HOME", "TOKEN=a=b"]
        isolation = "request"
        watch    = false

        [endpoint.limits]
        memory = "32MiB"
        pre_timeout = "250ms"

        [endpoint.input.rows]
        datatype = "fp32"
        shape = [-1, 4]
        example = [[5.2, 3.6, 1.4, 0.3]]
        description = "petals"

        [endpoint.input.name]
        datatype = "STRING"
        required = false

        [[endpoint]]
        plugin = "other.wasm"
        env = { A = "1", B = "", C = { file = "secret" } }
        record_share = 0.5
        smoke = false
        models.main = "m.onnx"
        models.an-older-one = { path = "m.onnx", device = "cpu", version = 1 }
        batching = { max_batch = 4, max_delay = "200ms", wait = "always" }

        [plugin]
        cache_dir = "none"
        "#,
    );
    folder.write("secret", "from a file\n");
    let config = folder.serve(&["config DIR/c.toml"]).unwrap();
    let dir = folder.0.path();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let model = |name: &str, device, version| {
        let path = dir.join("m.onnx");
        (name.to_owned(), model::ModelConfig { path, device, version, ..model::ModelConfig::default() })
    };
    let limits = crate::pipeline::Limits::default();
    let hidden: Arc<[PathBuf]> = ["c.toml", "m.onnx", "m.onnx", "m.onnx", "secret"]
        .map(|file| dir.join(file).canonicalize().unwrap())
        .into();
    let input = |name: &str, datatype, shape, example: Option<serde_json::Value>, description: &str| Input {
        name: name.into(),
        datatype,
        shape,
        required: example.is_some(),
        example,
        description: description.into(),
    };
    let example = serde_json::json!([[5.2, 3.6, 1.4, 0.3]]);
    let schema = Schema {
        inputs: vec![
            input("rows", Datatype::Fp32, vec![-1, 4], Some(example), "petals"),
            input("name", Datatype::Bytes, vec![1], None, ""),
        ],
    };
    // What the file does not set is as without it.
    let plain = folder.serve(&["plugin DIR/h.wasm"]).unwrap().endpoints.remove(0);
    let iris = EndpointConfig {
        name: "iris".into(),
        path: "/flowers/iris".into(),
        plugin: Some(dir.join("h.wasm")),
        project: Some(dir.join(".")),
        hidden: hidden.clone(),
        models: vec![model("default", model::Device::Cpu, None)],
        metadata: r#"{"deep":{"x":1.5},"labels":["setosa","versicolor"],"since":"2020-01-02"}"#.into(),
        env: vec![pair("HOME", "/home/me"), pair("TOKEN", "a=b")],
        isolation: Isolation::Request,
        watch: false,
        record_share: Ratio::ONE,
        schema: Some(Arc::new(schema)),
        raw_body: None,
        smoke: true,
        limits: crate::pipeline::Limits {
            plugin: plugin::Limits {
                memory: 32 << 20,
                pre_timeout: Duration::from_millis(250),
                ..limits.plugin.clone()
            },
            ..limits.clone()
        },
        ..plain.clone()
    };
    let other = EndpointConfig {
        name: "other".into(),
        path: "/other".into(),
        plugin: Some(dir.join("other.wasm")),
        project: None,
        hidden,
        models: vec![
            model("main", model::Device::Auto, None),
            model("an-older-one", model::Device::Cpu, Some(1)),
        ],
        batching: model::Batching {
            max_batch: 4,
            max_delay: Duration::from_millis(200),
            wait: model::Wait::Always,
            trust_rows: false,
        },
        metadata: "null".into(),
        env: vec![pair("A", "1"), pair("B", ""), pair("C", "from a file")],
        isolation: Isolation::Worker,
        watch: true,
        record_share: Ratio::new(0.5).unwrap(),
        schema: None,
        raw_body: None,
        smoke: false,
        limits,
        ..plain
    };
    let (first, second) = (&config.endpoints[0].hidden, &config.endpoints[1].hidden);
    assert!(Arc::ptr_eq(first, second), "a list for each would be as long as there are endpoints");
    assert_eq!(
        config,
        app::Config {
            server: server::Config::default(),
            endpoints: vec![iris, other],
            plugin: plugin::Config::defaults(),
            model: model::Config::default(),
            logs: crate::telemetry::logs::Config::defaults(),
            access_log: None,
            traces: crate::telemetry::traces::Settings::default(),
            kv: None,
            blobs: None,
            jobs: None,
            ..config.clone()
        }
    );
}

#[test]
fn metadata_comes_in_every_form() {
    let folder = Folder::new();
    let metadata =
        |given: &str| folder.serve(&["model DIR/m.onnx", given]).unwrap().endpoints[0].metadata.to_string();
    assert_eq!(metadata("metadata  {\"a\": [1, 1e400]} "), "{\"a\": [1, 1e400]}", "kept as written");
    assert_eq!(metadata("MODELHOST_METADATA @DIR/meta.json"), "{\"from\": \"file\"}");
    let in_file = |toml: &str| {
        folder.write("c.toml", &format!("[[endpoint]]\nmodel = 'm.onnx'\nmetadata = {toml}"));
        folder.serve(&["config DIR/c.toml"]).unwrap().endpoints[0].metadata.to_string()
    };
    assert_eq!(in_file("'@meta.json'"), "{\"from\": \"file\"}");
    assert_eq!(in_file("'text'"), "\"text\"");
    assert_eq!(in_file("[true, -1]"), "[true,-1]");
}

#[test]
fn a_name_follows_from_the_file_and_a_path_from_the_name() {
    let folder = Folder::new();
    ["my model (v2).onnx", ".hidden.wasm"].iter().for_each(|name| folder.write(name, ""));
    let seen = |given: &[&str]| {
        let endpoint = folder.serve(given).unwrap().endpoints.remove(0);
        format!("{} {}", endpoint.name, endpoint.path)
    };
    assert_eq!(seen(&["model DIR/m.onnx"]), "m /m");
    assert_eq!(seen(&["model DIR/m.onnx", "plugin DIR/h.wasm"]), "h /h");
    assert_eq!(seen(&["model DIR/my model (v2).onnx"]), "my-model--v2- /my-model--v2-");
    assert_eq!(seen(&["plugin DIR/.hidden.wasm"]), "hidden /hidden");
    assert_eq!(seen(&["model DIR/m.onnx", "name a.b", "path /"]), "a.b /");
}

#[test]
fn run_reads_only_what_concerns_one_call() {
    let folder = Folder::new();
    let given = [
        "plugin DIR/h.wasm",
        "MODELHOST_LISTEN nonsense",
        "MODELHOST_CONFIG none.toml",
        "instance-memory 1MiB",
    ];
    let config = folder.load(Scope::Run, &given).unwrap();
    assert_eq!(config.endpoints[0].limits.plugin.memory, 1 << 20);
    assert_eq!(config.server, server::Config::default());
    let problem = folder.load(Scope::Run, &["MODELHOST_INSTANCE_MEMORY lots"]).unwrap_err();
    assert_eq!(
        problem,
        "2 problems in the configuration\n  \
         command line: nothing to run; hint: give `--model`, `--plugin` or both\n  \
         MODELHOST_INSTANCE_MEMORY: `lots` is not a size; hint: write a number of bytes, or a number with a unit, such as `64MiB`"
    );
}
