//! A Truss: `config.yaml` and a `class Model`.

use std::path::Path;

use serde_json::Value;

use super::plan::{Plan, env_value, toml};
use super::report::Report;
use super::tree::{Tree, local};
use super::yaml::{self, Kind, Node};
use crate::file;

pub(super) const CONFIG: &str = "config.yaml";
/// Paths of OpenAI's clients, and the methods that serve them.
const METHODS: [(&str, &str); 5] = [
    ("chat_completions", "/v1/chat/completions"),
    ("completions", "/v1/completions"),
    ("embeddings", "/v1/embeddings"),
    ("messages", "/v1/messages"),
    ("responses", "/v1/responses"),
];
/// Where Truss's clients open a WebSocket.
const WEBSOCKET: &str = "/v1/websocket";
/// Keys that say nothing to this host.
const IGNORED: [&str; 22] = [
    "apply_library_patches",
    "bundled_packages_dir",
    "cache_internal",
    "data_dir",
    "description",
    "examples_filename",
    "input_type",
    "live_reload",
    "model_class_filename",
    "model_class_name",
    "model_framework",
    "model_metadata",
    "model_module_dir",
    "model_name",
    "model_type",
    "python_version",
    "requirements",
    "requirements_file",
    "secrets",
    "spec_version",
    "environment_variables",
    "use_local_src",
];

/// Engines that serve without a class, and advice.
const ENGINES: [(&str, &str); 2] = [
    ("docker_server", "a server of its own: write its routes with `App` of modelhost_guest"),
    ("trt_llm", "an engine of its own: see examples/decoder-wasm for a decoder on ONNX"),
];

/// The folder of a Truss that one of its files stands for, else the path itself.
pub(super) fn folder(path: &Path) -> &Path {
    let is_its = |above: &&Path| {
        let config = file::text(&above.join(CONFIG)).ok().and_then(|text| yaml::read(&text).ok());
        let module = config.map(|config| above.join(module_file(&config))).filter(|module| module.is_file());
        module.is_some_and(|module| path == module || path == above.join(CONFIG))
    };
    match path.ancestors().skip(1).take(3).find(is_its) {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        above => above.unwrap_or(path),
    }
}

/// Why a Truss without a class is not brought over, if it is one.
pub(super) fn refusal(tree: &Tree) -> Option<String> {
    let config = tree.has(CONFIG).then(|| tree.yaml(CONFIG).ok())??;
    let (key, hint) = ENGINES.iter().find(|(key, _)| config.at(&[key]).is_some())?;
    Some(format!("{CONFIG}: a Truss of `{key}`, without `{}`\n  hint: {hint}", module_file(&config)))
}

/// Whether a folder is a Truss with a class.
pub(super) fn is_one(tree: &Tree) -> bool {
    tree.has(CONFIG)
        && tree.yaml(CONFIG).map_or(tree.has("model/model.py"), |config| tree.has(&module_file(&config)))
}

fn folder_of(config: &Node, key: &str, default: &str) -> String {
    local(&config.text_at(&[key]).unwrap_or_else(|| default.to_owned())).to_owned()
}

/// The file with the class.
fn module_file(config: &Node) -> String {
    let file = folder_of(config, "model_class_filename", "model.py");
    match folder_of(config, "model_module_dir", "model").as_str() {
        "" | "." => file,
        folder => format!("{folder}/{file}"),
    }
}

/// # Errors
/// A file that cannot be read, or a class that is not there.
pub(super) fn plan(tree: &Tree, report: &mut Report) -> Result<Plan, String> {
    let config = tree.yaml(CONFIG)?;
    let file = module_file(&config);
    let class = config.text_at(&["model_class_name"]).unwrap_or_else(|| "Model".to_owned());
    let definitions = tree.source(&file)?.definitions();
    if !definitions.iter().any(|it| it.is_class && it.name == class) {
        return Err(format!(
            "{file}: there is no `class {class}`\n  hint: `model_class_name` in {CONFIG} names it"
        ));
    }
    let has =
        |method: &str| definitions.iter().any(|it| it.class.as_ref() == Some(&class) && it.name == method);
    let mut plan = Plan::new("a Truss", "model");
    let (_, module) = plan.import(tree, &file);
    plan.exports = vec!["init"];
    plan.includes = vec!["application", "operations-handler"];
    plan.entry = format!(
        "\"\"\"Serves the Truss's `class {class}`.\"\"\"\n\nfrom {module} import {class}\nfrom modelhost_guest import truss\n\ntruss({class}, __name__)\n"
    );
    plan.left_out = vec![CONFIG.to_owned(), "requirements.txt".to_owned(), "README.md".to_owned()];
    let packages = folder_of(&config, "bundled_packages_dir", "packages");
    if tree.has_folder(&packages) {
        report.done(&packages, "bundled packages", "the folder of the project, where modules are found");
        plan.moved.push((packages, String::new()));
    }
    let data = folder_of(&config, "data_dir", "data");
    if tree.has_folder(&data) {
        plan.set("project", toml(&Value::String(data.clone())));
        report.done(
            &format!("{CONFIG}, `data_dir`"),
            format!("`{data}`"),
            "`project`: read-only at /mnt/project, `data_dir` of the class",
        );
    }

    // The endpoint is `model`, so that the host's own `GET /v1/models/model` is its readiness.
    let mut paths = vec!["/v1/models/model:predict", "/v1/models/model:predict_binary"];
    paths.extend(METHODS.iter().filter(|(method, _)| has(method)).map(|(_, path)| *path));
    if has("websocket") {
        plan.includes.push("websocket-handler");
        paths.push(WEBSOCKET);
        report.done(&file, "`websocket`", "as it is, at the path that its clients open");
    }
    plan.set("paths", toml(&paths.iter().map(|path| Value::from(*path)).collect()));
    if has("is_healthy") {
        plan.set("readiness", "\"/v1/models/model\"".to_owned());
    }
    if has("setup_environment") {
        report.decide(
            &file,
            "`setup_environment`",
            "call it in `load`: the environment does not change while a handler serves",
        );
    }
    // `kwargs["config"]` has it in a text, and a class may leave it to another.
    let reads = |path: &str| tree.text(path).is_ok_and(|it| it.contains("config") || it.contains("**"));
    if !config.members().is_empty() && tree.sources().any(reads) {
        plan.set("metadata", toml(&without(&config.json(), &["secrets", "requirements"])));
        report.done(CONFIG, "the configuration", "`metadata`, `config` of the class");
    }
    requirements(tree, &config, &mut plan)?;
    environment(&config, &mut plan, report);
    runtime(&config, &mut plan, report);
    resources(&config, report);
    others(&config, report);
    let example = config.at(&["model_metadata", "example_model_input"]).map(Node::json);
    plan.sample = Some(example.unwrap_or_else(|| serde_json::json!({})));
    Ok(plan)
}

fn without(value: &Value, keys: &[&str]) -> Value {
    let mut value = value.clone();
    if let Value::Object(members) = &mut value {
        members.retain(|key, value| !keys.contains(&key.as_str()) && !value.is_null());
    }
    value
}

fn requirements(tree: &Tree, config: &Node, plan: &mut Plan) -> Result<(), String> {
    for line in config.at(&["requirements"]).map(Node::items).unwrap_or_default() {
        plan.requirements.extend(line.text().map(|text| (text, format!("{CONFIG}:{}", line.line))));
    }
    let file = folder_of(config, "requirements_file", "requirements.txt");
    if tree.has(&file) {
        plan.requirements_of(&tree.text(&file)?, &file);
        plan.left_out.push(file);
    }
    Ok(())
}

fn environment(config: &Node, plan: &mut Plan, report: &mut Report) {
    let mut env = Vec::new();
    for (name, node) in config.at(&["environment_variables"]).map(Node::members).unwrap_or_default() {
        let place = format!("{CONFIG}:{}", node.line);
        report.done(&place, format!("the variable `{name}`"), "`env`: in the environment from `load` on");
        env.push(env_value(name, node));
    }
    let secrets = config.at(&["secrets"]);
    let members = secrets.map(Node::members).unwrap_or_default().iter();
    let items = secrets.map(Node::items).unwrap_or_default().iter();
    let listed = items.filter_map(|node| Some((node.text()?, node)));
    for (name, node) in members.map(|(name, node)| (name.clone(), node)).chain(listed) {
        let variable = format!("TRUSS_SECRET_{name}");
        let hint = format!(
            "set `{variable}` where the server starts, or `env = {{ {variable} = {{ file = \"PATH\" }} }}` in modelhost.toml"
        );
        report.decide(&format!("{CONFIG}:{}", node.line), format!("the secret `{name}`"), hint);
        env.push(Value::from(variable));
    }
    if !env.is_empty() {
        plan.set("env", toml(&Value::Array(env)));
    }
}

fn runtime(config: &Node, plan: &mut Plan, report: &mut Report) {
    let place = |key: &str| {
        let line = config.at(&["runtime", key]).map_or(0, |node| node.line);
        format!("{CONFIG}:{line}")
    };
    let concurrency = config.number(&["runtime", "predict_concurrency"]).unwrap_or(1).clamp(1, 10_000);
    plan.concurrency(concurrency);
    if concurrency > 1 {
        report.done(
            &place("predict_concurrency"),
            "`predict_concurrency`",
            format!("`limits.concurrency = {concurrency}`"),
        );
    }
    if let Some(seconds) = config.number(&["runtime", "streaming_read_timeout"]) {
        let seconds = seconds.clamp(1, 24 * 60 * 60);
        plan.limit("stream_timeout", format!("\"{seconds}s\""));
        report.done(
            &place("streaming_read_timeout"),
            "`streaming_read_timeout`",
            format!("`limits.stream_timeout = \"{seconds}s\"`"),
        );
    }
    for (key, node) in config.at(&["runtime"]).map(Node::members).unwrap_or_default() {
        if config.at(&["runtime", key]).is_none() {
            continue;
        }
        match key.as_str() {
            "predict_concurrency"
            | "streaming_read_timeout"
            | "enable_tracing_data"
            | "enable_debug_logs" => {}
            "transport" => report.decide(
                &place(key),
                "`transport`",
                "HTTP is served, and WebSockets by the class's `websocket`",
            ),
            "egress_restrictions" => {
                report.decide(
                    &place(key),
                    "`egress_restrictions`",
                    "`allow_outbound` lists what may be reached; by default nothing",
                );
            }
            _ if node.kind == Kind::Map(Vec::new()) => {}
            _ => report.check(
                &place(key),
                format!("`runtime.{key}`"),
                "see limits and health in docs/reference.md",
            ),
        }
    }
}

fn resources(config: &Node, report: &mut Report) {
    let at = |key: &str| {
        config.at(&["resources", key]).map(|node| (format!("{CONFIG}:{}", node.line), node.text()))
    };
    if let Some((place, Some(accelerator))) = at("accelerator") {
        report.check(
            &place,
            format!("the accelerator `{accelerator}`"),
            "`device = \"cuda\"` at the model in modelhost.toml (docs/gpu.md)",
        );
    }
    if let Some((place, Some(memory))) = at("memory") {
        report.check(
            &place,
            format!("{memory} of memory"),
            "models are outside the handler; its own limit is `limits.memory`",
        );
    }
}

/// Keys that have no place here.
fn others(config: &Node, report: &mut Report) {
    for (key, node) in config.members() {
        let place = format!("{CONFIG}:{}", node.line);
        let is_empty = node.members().is_empty()
            && node.items().is_empty()
            && node.text().is_none_or(|it| it == "false");
        if is_empty || IGNORED.contains(&key.as_str()) || matches!(key.as_str(), "runtime" | "resources") {
            continue;
        }
        match key.as_str() {
            "external_data" => report.decide(
                &place,
                "`external_data`",
                "put the files into the project's folder: nothing is fetched at the start",
            ),
            "model_cache" | "hf_cache" | "weights" => {
                report.decide(
                    &place,
                    format!("`{key}`"),
                    "export the model to ONNX and name its file in modelhost.toml",
                );
            }
            "external_package_dirs" => {
                report.decide(&place, "`external_package_dirs`", "copy the packages into this folder")
            }
            "system_packages" | "base_image" | "build_commands" => {
                report.decide(
                    &place,
                    format!("`{key}`"),
                    "there are no programs and libraries of a system in the sandbox",
                );
            }
            _ => match ENGINES.iter().find(|(engine, _)| engine == key) {
                Some((_, hint)) => report.decide(&place, format!("`{key}`"), *hint),
                None => report.check(&place, format!("`{key}`"), "it has no counterpart in modelhost.toml"),
            },
        }
    }
}
