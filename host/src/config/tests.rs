//! Config files, flags and variables in; the configuration, or the exact report, out.

use std::fs;

use super::*;
use crate::plugin::Isolation;

/// A folder with what a configuration may name. In every text of a test, `DIR` stands for its path.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        for file in ["m.onnx", "h.wasm", "other.wasm", "lib.so", "project/note.txt"] {
            folder.write(file, "");
        }
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
        let mut env = BTreeMap::from([("HOME".to_owned(), "/home/me".to_owned())]);
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

    /// Where `config` differs from a server of `m.onnx` alone: the lines of its `Debug` from first to last change.
    fn changed(&self, config: &app::Config) -> String {
        let text = |config: &app::Config| self.unfill(&format!("{config:#?}"));
        let (before, after) = (text(&self.serve(&["model DIR/m.onnx"]).unwrap()), text(config));
        let same = before.lines().zip(after.lines()).take_while(|(old, new)| old == new).count();
        let tail = before.lines().rev().zip(after.lines().rev()).take_while(|(old, new)| old == new).count();
        let changed = after.lines().count().saturating_sub(same + tail);
        after.lines().skip(same).take(changed).map(str::trim).collect::<Vec<_>>().join(" ")
    }
}

/// Flag, its text, the same in TOML, what changes.
const SPELLINGS: &[(&str, &str, &str, &str)] = &[
    ("name", "iris", "\"iris\"", r#"name: "iris", path: "/iris","#),
    ("path", "/a/b", "\"/a/b\"", r#"path: "/a/b","#),
    ("watch", "false", "false", "watch: false,"),
    ("plugin", "DIR/h.wasm", "\"h.wasm\"", r#"name: "h", path: "/h", plugin: Some( "DIR/h.wasm", ),"#),
    ("project", "DIR/project", "\"project\"", r#"project: Some( "DIR/project", ),"#),
    ("metadata", "{\"a\":1}", "{ a = 1 }", r#"metadata: "{\"a\":1}","#),
    ("env", "A=1 HOME", "['A=1', 'HOME']", r#"env: [ ( "A", "1", ), ( "HOME", "/home/me", ), ],"#),
    ("isolation", "request", "\"request\"", "isolation: Request,"),
    ("network", "stub", "\"stub\"", "network: Stub,"),
    ("model", "DIR/m.onnx", "\"m.onnx\"", ""),
    ("device", "cuda:1", "\"cuda:1\"", "device: Cuda( 1, ),"),
    ("instances", "2", "2", "instances: Some( 2, ),"),
    ("threads", "3", "3", "threads: Some( 3, ),"),
    ("onnxruntime-lib", "DIR/lib.so", "\"lib.so\"", r#"onnxruntime: Some( "DIR/lib.so", ),"#),
    ("memory", "1MiB", "1048576", "memory: 1048576,"),
    ("pre-timeout", "20ms", "\"20ms\"", "pre_timeout: 20ms,"),
    ("post-timeout", "1m", "\"1m\"", "post_timeout: 60s,"),
    ("output", "2MB", "\"2MB\"", "output: 2000000,"),
    ("project-size", "1GiB", "\"1GiB\"", "project: 1073741824,"),
    ("request-timeout", "1m 30s", "\"1m 30s\"", "request_timeout: 90s,"),
    ("body", "4096", "4096", "body: 4096,"),
    ("concurrency", "1", "1", "concurrency: 1,"),
    ("queue", "0", "0", "queue: 0,"),
    ("listen", "0.0.0.0:80", "\"0.0.0.0:80\"", "listen: 0.0.0.0:80,"),
    ("admin-listen", "[::1]:0", "\"[::1]:0\"", "admin_listen: [::1]:0,"),
    ("metrics-on-main", "false", "false", "metrics_on_main: false,"),
    ("cors-allow-origin", "none", "\"none\"", "cors_allow_origin: None,"),
    ("debug", "true", "true", "debug: true,"),
    ("drain-timeout", "0s", "\"0s\"", "drain_timeout: 0ns,"),
    ("log-format", "json", "\"json\"", "format: Json,"),
    ("log-level", "warn,host=debug", "\"warn,host=debug\"", r#"filter: "warn,host=debug","#),
    ("cache-dir", "DIR/cache", "\"cache\"", r#""DIR/cache","#),
];

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
    assert_eq!(missing, ["config"], "a setting without a line in SPELLINGS");
}

#[test]
fn a_default_in_the_list_is_the_default_in_the_code() {
    let folder = Folder::new();
    let plain = folder.serve(&["model DIR/m.onnx"]).unwrap();
    for setting in settings::ALL {
        if ["name", "path", "onnxruntime-lib", "cache-dir"].contains(&setting.flag)
            || setting.default.is_empty()
        {
            continue; // Derived from something else, or none.
        }
        let explicit = folder.serve(&["model DIR/m.onnx", &format!("{} {}", setting.flag, setting.default)]);
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

        [[endpoint]]
        plugin = "other.wasm"
        env = { A = "1", B = "" }
        models.main = "m.onnx"

        [plugin]
        cache_dir = "none"
        "#,
    );
    let config = folder.serve(&["config DIR/c.toml"]).unwrap();
    let dir = folder.0.path();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let model =
        |device| model::ModelConfig { path: dir.join("m.onnx"), device, instances: None, threads: None };
    let limits = crate::pipeline::Limits::default();
    let iris = deploy::EndpointConfig {
        name: "iris".into(),
        path: "/flowers/iris".into(),
        plugin: Some(dir.join("h.wasm")),
        project: Some(dir.join(".")),
        model: Some(model(model::Device::Cpu)),
        metadata: r#"{"deep":{"x":1.5},"labels":["setosa","versicolor"],"since":"2020-01-02"}"#.into(),
        env: vec![pair("HOME", "/home/me"), pair("TOKEN", "a=b")],
        network: plugin::Network::None,
        isolation: Isolation::Request,
        watch: false,
        limits: crate::pipeline::Limits {
            plugin: plugin::Limits {
                memory: 32 << 20,
                pre_timeout: Duration::from_millis(250),
                ..limits.plugin.clone()
            },
            ..limits.clone()
        },
    };
    let other = deploy::EndpointConfig {
        name: "other".into(),
        path: "/other".into(),
        plugin: Some(dir.join("other.wasm")),
        project: None,
        model: Some(model(model::Device::Auto)),
        metadata: "null".into(),
        env: vec![pair("A", "1"), pair("B", "")],
        network: plugin::Network::None,
        isolation: Isolation::Worker,
        watch: true,
        limits,
    };
    assert_eq!(
        config,
        app::Config {
            server: server::Config::default(),
            endpoints: vec![iris, other],
            plugin: plugin::Config { cache_dir: None },
            model: model::Config { onnxruntime: None },
            logs: logs::Config::default(),
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
    folder.write("my model (v2).onnx", "");
    folder.write(".hidden.wasm", "");
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
    let given =
        ["plugin DIR/h.wasm", "MODELHOST_LISTEN nonsense", "MODELHOST_CONFIG none.toml", "memory 1MiB"];
    let config = folder.load(Scope::Run, &given).unwrap();
    assert_eq!(config.endpoints[0].limits.plugin.memory, 1 << 20);
    assert_eq!(config.server, server::Config::default());
    let problem = folder.load(Scope::Run, &["MODELHOST_MEMORY lots"]).unwrap_err();
    assert_eq!(
        problem,
        "2 problems in the configuration\n  \
         command line: nothing to serve; hint: give `--model`, `--plugin`, both, or `--config`\n  \
         MODELHOST_MEMORY: `lots` is not a size; hint: write a number of bytes, or a number with a unit, such as `64MiB`"
    );
}

/// File, what is given besides, the lines of the report.
const REPORTS: &[(&str, &[&str], &[&str])] = &[
    (
        "endpoint = [{ model = 'm.onnx' }, 7]",
        &[],
        &[
            "modelhost.toml:1: `endpoint`: is not a list of tables; hint: write `[[endpoint]]`, in double brackets",
        ],
    ),
    ("", &[], &["modelhost.toml: no endpoint; hint: add `[[endpoint]]` with `model`, `plugin` or both"]),
    (
        "[[endpoint]]\nname = 'a'",
        &[],
        &["modelhost.toml:1: `endpoint`: has neither model nor handler; hint: set `model`, `plugin` or both"],
    ),
    (
        "[endpoint]\nmodel = 'm.onnx'\nqueue = 1",
        &[],
        &[
            "modelhost.toml:1: `endpoint`: is not a list of tables; hint: write `[[endpoint]]`, in double brackets",
            "modelhost.toml:3: `endpoint.queue`: unknown key; hint: did you mean `endpoint.limits.queue`?",
        ],
    ),
    (
        "[[endpoint]]\nplugn = 'h.wasm'\nmodel = 'm.onnx'\n[endpoint.limits]\nmemori = 1\nzzz = 2\n\
         [endpoint.batching]\nmax_batch = 16\n[sever]\nlisten = ''",
        &[],
        &[
            "modelhost.toml:2: `endpoint.plugn`: unknown key; hint: did you mean `plugin`?",
            "modelhost.toml:5: `endpoint.limits.memori`: unknown key; hint: did you mean `memory`?",
            "modelhost.toml:6: `endpoint.limits.zzz`: unknown key; hint: known here are `body`, `concurrency`, \
             `memory`, `output`, `post_timeout`, `pre_timeout`, `project`, `queue` and `request_timeout`",
            "modelhost.toml:7: `endpoint.batching`: unknown key; hint: this version does not batch; remove the table",
            "modelhost.toml:9: `sever`: unknown key; hint: did you mean `server`?",
        ],
    ),
    (
        "[[endpoint]]\nmodel = 'm.onnx'\n[endpoint.limits]\nmemory = '64 MB?'\noutput = -1\nbody = '9GiB'\n\
         pre_timeout = 5\npost_timeout = '5'\nrequest_timeout = '0s'\nconcurrency = 0\nqueue = true\nproject = 1.5",
        &[],
        &[
            "modelhost.toml:4: `endpoint.limits.memory`: `64 MB?` is not a size; hint: write a number of bytes, or a \
             number with a unit, such as `64MiB`",
            "modelhost.toml:5: `endpoint.limits.output`: `-1` is not a size; hint: write a number of bytes, or a \
             number with a unit, such as `64MiB`",
            "modelhost.toml:6: `endpoint.limits.body`: `9GiB` is too much; hint: the most is `1GiB`",
            "modelhost.toml:7: `endpoint.limits.pre_timeout`: `5` has no unit; hint: write `\"5s\"` for seconds, \
             `\"5ms\"` for milliseconds",
            "modelhost.toml:8: `endpoint.limits.post_timeout`: `5` has no unit; hint: write `5s` for seconds, `5ms` \
             for milliseconds",
            "modelhost.toml:9: `endpoint.limits.request_timeout`: `0s` is too little; hint: the least is `1ms`",
            "modelhost.toml:10: `endpoint.limits.concurrency`: `0` is out of range; hint: write a whole number from \
             1 to 10000",
            "modelhost.toml:11: `endpoint.limits.queue`: expected a whole number, found a boolean; hint: write a \
             whole number from 0 to 1000000",
            "modelhost.toml:12: `endpoint.limits.project`: expected a size, found a float; hint: write a number of \
             bytes, or a number with a unit, such as `64MiB`",
        ],
    ),
    (
        "[[endpoint]]\nmodel = 'm.onnx'\n[[endpoint]]\nmodel = 'm.onnx'\n[[endpoint]]\nname = 'b'\npath = '/m'\n\
         plugin = 'h.wasm'",
        &[],
        &[
            "modelhost.toml:3: `endpoint`: another endpoint has the name `m` too; hint: give each endpoint a `name` \
             of its own",
            "modelhost.toml:7: `endpoint.path`: another endpoint has the path `/m` too; hint: give each endpoint a \
             `path` of its own",
        ],
    ),
    (
        "[[endpoint]]\nmodel = 'no.onnx'\nplugin = 'project'\nproject = 'h.wasm'\nmetadata = '@no.json'\n\
         onnxruntime = 'lib.so'",
        &["onnxruntime-lib DIR/no.so"],
        &[
            "--onnxruntime-lib: there is no `DIR/no.so`; hint: check the path; a relative one starts from the \
             current folder",
            "modelhost.toml:2: `endpoint.model`: there is no `DIR/no.onnx`; hint: check the path; a relative one \
             starts from the folder of the config file",
            "modelhost.toml:3: `endpoint.plugin`: is a folder; hint: give a file",
            "modelhost.toml:4: `endpoint.project`: is a file; hint: give the folder that holds it",
            "modelhost.toml:5: `endpoint.metadata`: there is no `DIR/no.json`; hint: check the path; a relative one \
             starts from the folder of the config file",
            "modelhost.toml:6: `endpoint.onnxruntime`: unknown key; hint: known here are `env`, `isolation`, \
             `limits`, `metadata`, `model`, `name`, `network`, `path`, `plugin`, `project` and `watch`",
        ],
    ),
    (
        "[[endpoint]]\nname = 'a b'\npath = 'iris'\nmodel = { path = 'project', device = 'gpu', threads = 0 }\n\
         isolation = 'requests'\nwatch = 'yes'\nenv = ['NOT_THERE', 'A=1']\nmetadata = nan",
        &["MODELHOST_METADATA {a: 1}"],
        &[
            "MODELHOST_METADATA: is not JSON: key must be a string at line 1 column 2; hint: write JSON, such as \
             `{\"labels\": [\"a\", \"b\"]}`, or `@` and the path of a file that holds it",
            "modelhost.toml:2: `endpoint.name`: `a b` is not a name; hint: write at most 64 letters, digits, `-`, \
             `_` and `.`, and begin with a letter or a digit",
            "modelhost.toml:3: `endpoint.path`: `iris` does not start with `/`; hint: did you mean `/iris`?",
            "modelhost.toml:4: `endpoint.model.device`: `gpu` is not a device; hint: write `auto`, `cpu`, `cuda` or \
             `cuda:N`",
            "modelhost.toml:4: `endpoint.model.threads`: `0` is out of range; hint: write a whole number from 1 to \
             1024",
            "modelhost.toml:4: `endpoint.model.path`: is a folder; hint: give an ONNX file; SavedModel folders are \
             not supported",
            "modelhost.toml:5: `endpoint.isolation`: `requests` is not one of `worker` or `request`; hint: did you \
             mean `request`?",
            "modelhost.toml:6: `endpoint.watch`: `yes` is neither true nor false; hint: write `true` or `false`",
            "modelhost.toml:7: `endpoint.env`: `NOT_THERE` is not set in the environment of the host; hint: set it, \
             or write `NOT_THERE=value`",
        ],
    ),
    (
        "[[endpoint]]\nmodels = { a = 'm.onnx', b = 'm.onnx' }\nplugin = 'h.wasm'\n[[endpoint]]\nmodel = 'm.onnx'\n\
         models.a = { path = 'm.onnx' }\n[[endpoint]]\nmodels.a = { path = 'm.onnx', signature_key = 'x' }\n\
         name = 'c'\n[[endpoint]]\nplugin = 'other.wasm'\nmodel.device = 'cpu'",
        &["memory 1MiB"],
        &[
            "--memory: describes one endpoint, and `modelhost.toml` has 4; hint: set `endpoint.limits.memory` in \
             the file",
            "modelhost.toml:2: `endpoint.models`: has 2 models, an endpoint serves one; hint: give each model an \
             `[[endpoint]]` of its own",
            "modelhost.toml:6: `endpoint.models.a`: `model` is set too; hint: keep one of `model` and `models`",
            "modelhost.toml:8: `endpoint.models.a.signature_key`: unknown key; hint: it selects a signature of a \
             SavedModel; an ONNX model has one, so remove it",
            "modelhost.toml:12: `endpoint.model.device`: describes a model that is not there; hint: set `path` \
             beside it",
        ],
    ),
    (
        "log = 'json'\n[server]\nlisten = ':80'\nadmin_listen = 'example.com:1'\ncors_allow_origin = 'example.com'\n\
         drain_timeout = 'soon'\ndebug = 1\n[[endpoint]]\nmodel = 7\npath = '/v2/models'\n[[endpoint]]\n\
         plugin = 'h.wasm'\npath = '/a//b'\nenv = ['A=1', 'A=2']",
        &["log-level inof", "log-format jsn"],
        &[
            "--log-format: `jsn` is not one of `text` or `json`; hint: did you mean `json`?",
            "--log-level: `inof` is not a log filter; hint: write `off`, `error`, `warn`, `info`, `debug` or `trace`, \
             also per module, as in `info,host::deploy=debug`",
            "modelhost.toml:1: `log`: expected a table, found a string; hint: its keys are `format` and `level`",
            "modelhost.toml:3: `server.listen`: `:80` is not an address; hint: did you mean `127.0.0.1:80`? \
             `0.0.0.0:80` listens on every interface",
            "modelhost.toml:4: `server.admin_listen`: `example.com:1` is not an address; hint: write an IP address \
             and a port, such as `127.0.0.1:8000` or `[::1]:8000`",
            "modelhost.toml:5: `server.cors_allow_origin`: `example.com` is not an origin; hint: write one origin \
             without a path, such as `https://example.com`, or `*`, or `none`",
            "modelhost.toml:6: `server.drain_timeout`: `soon` is not a duration; hint: write a number with a unit, \
             such as `500ms`, `30s` or `1m`",
            "modelhost.toml:7: `server.debug`: expected true or false, found an integer; hint: write `true` or \
             `false`",
            "modelhost.toml:9: `endpoint.model`: expected a string, found an integer; hint: put the value in double \
             quotes",
            "modelhost.toml:10: `endpoint.path`: `/v2` is the server's own; hint: choose another path, such as \
             `/models/v2/models`",
            "modelhost.toml:13: `endpoint.path`: `/a//b` is not a path; hint: between single `/`, write letters, \
             digits and `-`, `_`, `.`, `~`, `:`, `@`; end without `/`",
            "modelhost.toml:14: `endpoint.env`: `A` is granted twice; hint: remove one of them",
        ],
    ),
    (
        "[server]\nlisten = '0.0.0.0:8001'\n[[endpoint]]\nmodel = 'm.onnx'",
        &[],
        &[
            "modelhost.toml:2: `server.listen`: endpoints and administration would both listen on port 8001; hint: \
          choose different ports with `--listen` and `--admin-listen`",
        ],
    ),
];

#[test]
fn all_problems_come_in_one_report() {
    let folder = Folder::new();
    for (file, given, lines) in REPORTS {
        let problems = if lines.len() == 1 { "problem" } else { "problems" };
        let expected = format!("{} {problems} in the configuration\n  {}", lines.len(), lines.join("\n  "));
        assert_eq!(folder.report(file, given), expected, "\n{file}");
    }
}

#[test]
fn errors_of_syntax_come_with_the_problems_of_flags() {
    let folder = Folder::new();
    let report = folder.report("[[endpoint]]\nmodel = m.onnx\nname = 'a'\nname = 'b'", &["listen 8000"]);
    let places: Vec<&str> =
        report.lines().skip(1).map(|line| line.trim().split(": ").next().unwrap()).collect();
    assert_eq!(places, ["--listen", "modelhost.toml:2", "modelhost.toml:4"], "{report}");
    let report = folder.serve(&["config DIR/none.toml"]).unwrap_err();
    assert!(
        report.starts_with("1 problem in the configuration\n  --config: there is no `DIR/none.toml`"),
        "{report}"
    );
}
