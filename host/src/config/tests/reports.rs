//! Configurations that are wrong in; the exact report out.

use super::Folder;

/// File, what is given besides, the lines of the report.
const REPORTS: &[(&str, &[&str], &[&str])] = &[
    (
        "[[endpoint]]\nmodel = 'm.onnx'\n[endpoint.gate]\nsamples = -1\nredact = ['a b', 7]\ntolerance = 'x'\nignore = '/~'\n\
         mismatches = 2\nslowdown = 0.5\nmemory = true\ntimeout = 5\ngolden = 'project/note.txt.d'",
        &[],
        &[
            "modelhost.toml:4: `endpoint.gate.samples`: `-1` is not a count; hint: write a whole number from 0 to 10000",
            "modelhost.toml:5: `endpoint.gate.redact`: `a b` is neither a path nor a header's name; hint: write paths that \
             begin with `/`, such as `/predictions/*/took`, or names of headers",
            "modelhost.toml:6: `endpoint.gate.tolerance`: `x` is not a number; hint: write a number from 0 to 1000000",
            "modelhost.toml:7: `endpoint.gate.ignore`: in a path, `~` is written `~0` and a `/` within a key `~1`; hint: write \
             paths that begin with `/`, such as `/predictions/*/took`, or names of headers",
            "modelhost.toml:8: `endpoint.gate.mismatches`: `2` is out of range; hint: write a number from 0 to 1",
            "modelhost.toml:9: `endpoint.gate.slowdown`: `0.5` is out of range; hint: write a number from 1 to 1000",
            "modelhost.toml:10: `endpoint.gate.memory`: expected a number, found a boolean; hint: write a number from 1 to 1000",
            "modelhost.toml:11: `endpoint.gate.timeout`: `5` has no unit; hint: write `\"5s\"` for seconds, `\"5ms\"` for \
             milliseconds",
            "modelhost.toml:12: `endpoint.gate.golden`: there is no `DIR/project/note.txt.d`; hint: check the path; a relative \
             one starts from the folder of the config file",
        ],
    ),
    (
        "endpoint = [{ model = 'm.onnx' }, 7]",
        &[],
        &[
            "modelhost.toml:1: `endpoint`: is not a list of tables; hint: write `[[endpoint]]`, in double brackets",
        ],
    ),
    (
        "[[endpoint]]\nname = 'a'\nmodel = 'm.onnx'\n[[split]]\npath = '/a'\nendpoints = { a = 1 }\n\
         [[split]]\npath = '/b'\nendpoints = { aa = 1 }\n[[split]]\npath = 'c'\nendpoints = { a = 0 }\n\
         [[split]]\nsticky = 'x-user'\n[[split]]\npath = '/v2/x'\nendpoints = {}\nweights = 1",
        &[],
        &[
            "modelhost.toml:5: `split.path`: an endpoint or another split has the path `/a` too; hint: give it a path of its own",
            "modelhost.toml:9: `split.endpoints`: there is no endpoint `aa`; hint: did you mean `a`?",
            "modelhost.toml:11: `split.path`: `c` does not start with `/`; hint: did you mean `/c`?",
            "modelhost.toml:12: `split.endpoints`: the weight of `a` is none; hint: write `{ a = 90, b = 10 }`: endpoints by \
             name, each with a whole number from 1 to 1000000",
            "modelhost.toml:13: `split`: has no `path`; hint: write `path = \"/both\"`",
            "modelhost.toml:13: `split`: has no `endpoints`; hint: write `endpoints = { a = 90, b = 10 }`",
            "modelhost.toml:14: `split.sticky`: `x-user` names no header; hint: write `header:NAME`",
            "modelhost.toml:16: `split.path`: `/v2` is the server's own; hint: choose another path, such as `/models/v2/x`",
            "modelhost.toml:17: `split.endpoints`: is not a table of endpoints; hint: write `{ a = 90, b = 10 }`: endpoints by \
             name, each with a whole number from 1 to 1000000",
            "modelhost.toml:18: `split.weights`: unknown key; hint: known here are `path`, `endpoints` and `sticky`",
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
         [endpoint.batchin]\nmax_batch = 16\n[sever]\nlisten = ''",
        &[],
        &[
            "modelhost.toml:2: `endpoint.plugn`: unknown key; hint: did you mean `plugin`?",
            "modelhost.toml:5: `endpoint.limits.memori`: unknown key; hint: did you mean `memory`?",
            "modelhost.toml:6: `endpoint.limits.zzz`: unknown key; hint: known here are `background_timeout`, `blob_bytes`, `blob_count`, `blob_size`, `body`, `body_rate`, `body_timeout`, `concurrency`, `init_timeout`, `job_attempts`, `job_bytes`, `job_concurrency`, `job_depth`, `job_keep`, `job_queue`, `job_submissions`, `job_timeout`, \
             `kv_bytes`, `kv_entries`, `kv_value`, `memory`, `model_runs`, `output`, `post_timeout`, `pre_timeout`, `project`, `queue`, `request_timeout`, `sequence_idle`, `sequence_memory`, `sequences`, `series`, `socket_idle`, `socket_message`, `socket_rate`, `sockets`, `stream_timeout`, `tensor_memory`, `tensors`, `wall_timeout`, `webhook_attempts`, `webhook_timeout` and `weight`",
            "modelhost.toml:7: `endpoint.batchin`: unknown key; hint: did you mean `batching`?",
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
        "[[endpoint]]\nname = 'a'\nmodel = 'm.onnx'\n[[endpoint]]\nname = 'b'\nmodel = 'm.onnx'\npaths = ['/b', '/a']\n\
         [[endpoint]]\nname = 'c'\nmodel = 'm.onnx'\npaths = ['/x', '/y', '/x']\n\
         [[endpoint]]\nname = 'd'\nmodel = 'm.onnx'\npaths = ['/v2']\n[[split]]\npath = '/b'\nendpoints = { a = 1 }",
        &[],
        &[
            "modelhost.toml:7: `endpoint.paths`: another endpoint has the path `/a`, which this one would answer; hint: leave \
             it out of `paths`, or give that endpoint another path",
            "modelhost.toml:11: `endpoint.paths`: `/x` is listed twice; hint: leave one out",
            "modelhost.toml:15: `endpoint.paths`: `/v2` stays the server's; hint: leave it out",
            "modelhost.toml:17: `split.path`: an endpoint or another split has the path `/b` too; hint: give it a path of its own",
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
        "[[endpoint]]\nname = 'a'\nmodels = { b = { path = 'm.onnx' }, c = { path = 'm.onnx' } }\n[[endpoint]]\nname = \
         'a.b'\nmodel = 'm.onnx'",
        &[],
        &[
            "modelhost.toml: endpoint `a.b` and model `a.b` could not be told apart; hint: give one of them another \
           name",
        ],
    ),
    (
        "[[endpoint]]\nname = 'a'\nprotocols = ['grpc']\npaths = ['/v1/a']\njobs = 'on'\nplugin = 'h.wasm'\n\
         [[split]]\npath = '/s'\nendpoints = { a = 1 }\n[jobs]\nstore = 'jobs.redb'",
        &[],
        &[
            "modelhost.toml:4: `endpoint.paths`: is for an endpoint that HTTP reaches; hint: add `http` to `protocols`, or \
             leave it out",
            "modelhost.toml:5: `endpoint.jobs`: is for an endpoint that HTTP reaches; hint: add `http` to `protocols`, or \
             leave it out",
            "modelhost.toml:9: `split.endpoints`: `a` is not reached by HTTP; hint: add `http` to its `protocols`",
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
            "modelhost.toml:3: `endpoint.plugin`: is a folder; hint: give the `.wasm` file that the build wrote into it",
            "modelhost.toml:4: `endpoint.project`: is a file; hint: give the folder that holds it",
            "modelhost.toml:5: `endpoint.metadata`: there is no `DIR/no.json`; hint: check the path; a relative one \
             starts from the folder of the config file",
            "modelhost.toml:6: `endpoint.onnxruntime`: unknown key; hint: known here are `allow_outbound`, `bare_tensors`, `batching`, \
             `blobs`, `body`, `breaker`, `ensemble`, `env`, `gate`, `input`, `isolation`, `jobs`, `keep_model`, `keys`, `kv`, `limits`, `metadata`, `model`, `models`, `name`, \
             `network`, `on_fault`, `path`, `paths`, `plugin`, `project`, `protocols`, `readiness`, `record_share`, `response_cache`, `response_headers`, \
             `reuse_instances`, `smoke`, `tracker`, `watch` and `webhook_secrets`",
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
            "modelhost.toml:5: `endpoint.isolation`: `requests` is not one of `worker` or `request`; hint: did you \
             mean `request`?",
            "modelhost.toml:6: `endpoint.watch`: `yes` is neither true nor false; hint: write `true` or `false`",
            "modelhost.toml:7: `endpoint.env`: `NOT_THERE` is not set in the environment of the host; hint: set it, \
             or write `NOT_THERE=value`",
        ],
    ),
    (
        "[[endpoint]]\nmodels = { 'a b' = 'm.onnx', b = 'no.onnx' }\nplugin = 'h.wasm'\n[[endpoint]]\nmodel = 'm.onnx'\n\
         models.a = { path = 'm.onnx' }\n[[endpoint]]\nmodels.a = { signature_key = 'x', verson = 2 }\n\
         name = 'c'\n[[endpoint]]\nplugin = 'other.wasm'\nmodel.device = 'cpu'\n[[endpoint]]\n\
         models.b = { threads = 2 }\nbatching = { wait = 'ever', max_batch = 0 }",
        &["instance-memory 1MiB"],
        &[
            "--instance-memory: describes one endpoint, and `modelhost.toml` has 5; hint: set `endpoint.limits.memory` in \
             the file",
            "modelhost.toml:2: `endpoint.models.a b`: `a b` is not a name; hint: write at most 64 letters, digits, \
             `-`, `_` and `.`, and begin with a letter or a digit",
            "modelhost.toml:2: `endpoint.models.b`: there is no `DIR/no.onnx`; hint: check the path; a relative one \
             starts from the folder of the config file",
            "modelhost.toml:6: `endpoint.models`: `model` is set too; hint: keep one of `model` and `models`",
            "modelhost.toml:8: `endpoint.models.a.verson`: unknown key; hint: did you mean `version`?",
            "modelhost.toml:12: `endpoint.model.device`: describes a model that is not there; hint: set `path` \
             beside it",
            "modelhost.toml:14: `endpoint.models.b`: is a model without a path; hint: set `path`",
            "modelhost.toml:15: `endpoint.batching.max_batch`: `0` is out of range; hint: write a whole number from \
             1 to 10000",
            "modelhost.toml:15: `endpoint.batching.wait`: `ever` is not one of `busy` or `always`; hint: write \
             `busy` or `always`",
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
             also per module, as in `info,host::rollout=debug`",
            "modelhost.toml:1: `log`: expected a table, found a string; hint: its keys are `access`, \
             `access_file`, `access_share`, `format` and `level`",
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
    // What an input lacks is said in Inferless's words.
    (
        "[[endpoint]]\nmodel = 'm.onnx'\n[endpoint.input.a]\nshape = [1]\nexample = 1\n[endpoint.input.b]\n\
         datatype = 'INT8'\nexample = 1\n[endpoint.input.c]\ndatatype = 'INT8'\nshape = 1\nexample = 1\n\
         [endpoint.input.d]\ndatatype = 'INT8'\nshape = [1]\n[endpoint.input.e]\nrequired = false",
        &[],
        &[
            "modelhost.toml:3: `endpoint.input.a`: Data type not specified for input --> a; hint: set `datatype`, \
             such as `\"STRING\"`, `\"INT32\"` or `\"FP32\"`",
            "modelhost.toml:6: `endpoint.input.b`: shape not specified for input --> b; hint: set `shape`; `[1]` is \
             a single value, `[-1]` a list",
            "modelhost.toml:11: `endpoint.input.c.shape`: shape not specified as a list for input --> c; hint: write \
             a list of whole numbers, -1 for any: `[1]`, `[-1, 4]`",
            "modelhost.toml:13: `endpoint.input.d`: example not specified for input --> d; hint: set `example`; it \
             is tried before the endpoint serves",
            "modelhost.toml:16: `endpoint.input.e`: Data type not specified for input --> e; hint: set `datatype`, \
             such as `\"STRING\"`, `\"INT32\"` or `\"FP32\"`",
        ],
    ),
    (
        "[[endpoint]]\nmodel = 'm.onnx'\n[endpoint.input]\na = 1\n\
         width = { datatype = 'int8', shape = [1], example = 768 }\n\
         c = { datatype = 'FP23', shape = [1], example = 1 }\n\
         d = { datatype = 'float', shape = [1], example = 1 }\n\
         e = { datatype = 'FP32', shape = [-2], example = [] }\n\
         f = { datatype = 'FP32', shape = [-1, 2], example = [[1, 2], [3]] }\n\
         g = { datatype = 'STRING', shape = [1], example = 7 }\n\
         h = { dtype = 'STRING', shape = ['1'], example = 'x' }\n\
         i = { datatype = 'FP32', shape = [1], example = nan, required = 'no', description = 1 }\n\
         '' = { datatype = 'FP32', shape = [1], example = 1 }\n\
         [[endpoint]]\nplugin = 'h.wasm'\ninput = 3",
        &[],
        &[
            "modelhost.toml:4: `endpoint.input.a`: is not a table; hint: write `[endpoint.input.a]` with `datatype`, \
             `shape`, `required`, `example` and `description`",
            "modelhost.toml:5: `endpoint.input.width.example`: the example does not fit: input `width`: 768 is out \
             of range for INT8; hint: write a value of this datatype and shape, or change those",
            "modelhost.toml:6: `endpoint.input.c.datatype`: `FP23` is not a datatype; hint: did you mean `FP32`?",
            "modelhost.toml:7: `endpoint.input.d.datatype`: `float` is not a datatype; hint: write `BOOL`, `UINT8`, \
             `UINT16`, `UINT32`, `UINT64`, `INT8`, `INT16`, `INT32`, `INT64`, `FP16`, `BF16`, `FP32`, `FP64`, \
             `BYTES` or `STRING`",
            "modelhost.toml:8: `endpoint.input.e.shape`: input `e`: a shape is at most 32 extents of 0 and more, or \
             -1; hint: write a list of whole numbers, -1 for any",
            "modelhost.toml:9: `endpoint.input.f.example`: the example does not fit: input `f`: element 1: a list of \
             1 where the ones before have 2; hint: write a value of this datatype and shape, or change those",
            "modelhost.toml:10: `endpoint.input.g.example`: the example does not fit: input `g`: cannot convert 7 to \
             BYTES; hint: write a value of this datatype and shape, or change those",
            "modelhost.toml:11: `endpoint.input.h.dtype`: unknown key; hint: known here are `datatype`, `shape`, \
             `required`, `example` and `description`",
            "modelhost.toml:11: `endpoint.input.h.shape`: shape not specified as a list for input --> h; hint: write \
             a list of whole numbers, -1 for any: `[1]`, `[-1, 4]`",
            "modelhost.toml:12: `endpoint.input.i.required`: `no` is neither true nor false; hint: write `true` or \
             `false`",
            "modelhost.toml:12: `endpoint.input.i.example`: JSON has no `NaN`; hint: write a finite number, or a \
             string",
            "modelhost.toml:12: `endpoint.input.i.description`: expected a string, found an integer; hint: put the \
             value in double quotes",
            "modelhost.toml:13: `endpoint.input.`: `` cannot be an input's name; hint: choose another name",
            "modelhost.toml:16: `endpoint.input`: is not a table; hint: write `[endpoint.input.NAME]`",
        ],
    ),
    // The path that follows from a name is judged as one that is given.
    (
        "[[endpoint]]\nname = 'metrics'\nmodel = 'm.onnx'",
        &[],
        &[
            "modelhost.toml:2: `endpoint.name`: `/metrics` is the server's own; hint: choose another path, such as \
          `/models/metrics`",
        ],
    ),
    (
        "[[endpoint]]\nname = 'docs'\nmodel = 'm.onnx'\n[[endpoint]]\nname = 'openapi.json'\nmodel = 'm.onnx'",
        &[],
        &[
            "modelhost.toml:2: `endpoint.name`: `/docs` is the server's own; hint: choose another path, such as \
          `/models/docs`",
            "modelhost.toml:5: `endpoint.name`: `/openapi.json` is the server's own; hint: choose another path, such as \
          `/models/openapi.json`",
        ],
    ),
    (
        "[[endpoint]]\nname = 'v1'\nmodel = 'm.onnx'\n[[endpoint]]\nname = 'a'\npath = '/_k/x'\nmodel = 'm.onnx'\n\
         [[endpoint]]\nname = 'b'\npath = '/__status__'\nmodel = 'm.onnx'",
        &[],
        &[
            "modelhost.toml:2: `endpoint.name`: `/v1` is the server's own; hint: choose another path, such as `/models/v1`",
            "modelhost.toml:6: `endpoint.path`: `/_k` is the server's own; hint: choose another path, such as \
             `/models/_k/x`",
            "modelhost.toml:10: `endpoint.path`: `/__status__` is the server's own; hint: choose another path, such as \
             `/models/__status__`",
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
fn nothing_of_a_granted_variable_is_shown() {
    let folder = Folder::new();
    for (given, what) in [
        ("KEY=a,secret", "item 2 is not set in the environment of the host"),
        ("secret=1,secret=2", "item 2 is granted twice"),
    ] {
        let given = format!("MODELHOST_ENV {given}");
        let report = folder.serve(&["model DIR/m.onnx", &given]).unwrap_err();
        assert!(report.contains(&format!("MODELHOST_ENV: {what}; hint: ")), "{report}");
        assert!(!report.contains("secret"), "{report}");
    }
}

#[test]
fn errors_of_syntax_come_with_the_problems_of_flags() {
    let folder = Folder::new();
    let report = folder.report("[[endpoint]]\nmodel = m.onnx\nname = 'a'\nname = 'b'", &["listen 8000"]);
    let places: Vec<&str> =
        report.lines().skip(1).map(|line| line.trim().split(": ").next().unwrap()).collect();
    assert_eq!(places, ["--listen", "modelhost.toml:2", "modelhost.toml:4"], "{report}");
    let report = folder.report("[[endpoint]]\nprotocols = ['http',\nmodel = 'm.onnx'\nname = 'a'", &[]);
    let expected =
        "modelhost.toml:3: unclosed array, expected `]`; hint: close the bracket that is open here";
    assert_eq!(report, format!("1 problem in the configuration\n  {expected}"));
    let report = folder.serve(&["config DIR/none.toml"]).unwrap_err();
    assert!(
        report.starts_with("1 problem in the configuration\n  --config: there is no `DIR/none.toml`"),
        "{report}"
    );
}
