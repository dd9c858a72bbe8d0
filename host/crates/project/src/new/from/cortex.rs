//! A Cortex project: `cortex.yaml` and a handler (`pre_inference`, `post_inference`), a predictor or a
//! `class Handler`.
//!
//! Read are the forms of 0.8 to 0.35: `request_handler` beside a model, blocks `onnx`, `tensorflow` and
//! `predictor`, and `handler`.

use serde_json::{Value, json};

use super::plan::{Plan, env_value, toml};
use super::python::Definition;
use super::report::Report;
use super::tree::{Tree, local};
use super::yaml::Node;
use crate::program::is_the_servers;

pub(super) const SYSTEM: &str = "a Cortex project";
pub(super) const CONFIG: &str = "cortex.yaml";
/// Classes by the versions' names, and the engines of those of one.
const CLASSES: [(&str, &str); 4] = [
    ("PythonPredictor", "python"),
    ("ONNXPredictor", "onnx"),
    ("TensorFlowPredictor", "tensorflow"),
    ("Handler", ""),
];
/// The folder with the files that a handler may read.
const PROJECT: &str = "project";
/// Endings of files with weights, beside the model that they belong to.
const WEIGHTS: [&str; 4] = [".bin", ".data", ".weight", ".bias"];

/// The configuration of a folder, or the one that was named.
pub(super) fn config(tree: &Tree) -> Option<String> {
    match &tree.named {
        Some(named) => Some(named.clone()).filter(|it| it.ends_with(".yaml") || it.ends_with(".yml")),
        None => tree.has(CONFIG).then(|| CONFIG.to_owned()),
    }
}

/// One API of the configuration.
struct Api<'a> {
    file: &'a str,
    node: &'a Node,
    /// The block with the handler; the API itself in the oldest form.
    block: &'a Node,
    /// `python`, `onnx` or `tensorflow`.
    engine: &'static str,
    /// The deployment around it, up to 0.17.
    deployment: Option<String>,
    kind: String,
}

impl<'a> Api<'a> {
    fn of(file: &'a str, node: &'a Node, deployment: Option<&String>) -> Option<Api<'a>> {
        let engine = |name: &str| match name {
            "onnx" => "onnx",
            "tensorflow" => "tensorflow",
            _ => "python",
        };
        let kind = node.text_at(&["kind"]).unwrap_or_else(|| "RealtimeAPI".to_owned());
        let made = |block: &'a Node, engine: &'static str| {
            Some(Api { file, node, block, engine, deployment: deployment.cloned(), kind: kind.clone() })
        };
        for name in ["onnx", "tensorflow"] {
            if let Some(block) = node.at(&[name]) {
                return made(block, engine(name));
            }
        }
        for name in ["handler", "predictor"] {
            if let Some(block) = node.at(&[name]) {
                return made(block, engine(&block.text_at(&["type"]).unwrap_or_default()));
            }
        }
        let model = node.text_at(&["model"])?;
        made(node, if model.ends_with(".onnx") { "onnx" } else { "tensorflow" })
    }

    fn name(&self) -> String {
        self.node.text_at(&["name"]).unwrap_or_else(|| "api".to_owned())
    }

    /// Its kind, in messages.
    fn shown(&self) -> &str {
        if self.kind.ends_with("API") { &self.kind } else { "API" }
    }

    fn place(&self, node: &Node) -> String {
        format!("{}:{}", self.file, node.line)
    }
}

/// # Errors
/// A file that cannot be read, an API that does not exist, or one that does not serve HTTP.
pub(super) fn plan(
    tree: &Tree,
    file: &str,
    wanted: Option<&str>,
    report: &mut Report,
) -> Result<Plan, String> {
    let root = tree.yaml(file)?;
    let alone = std::slice::from_ref(&root);
    let items = if root.items().is_empty() { alone } else { root.items() };
    let is_deployment = |node: &&Node| node.text_at(&["kind"]).as_deref() == Some("deployment");
    let deployment = items.iter().find(is_deployment).and_then(|node| node.text_at(&["name"]));
    let apis: Vec<Api<'_>> =
        items.iter().filter_map(|node| Api::of(file, node, deployment.as_ref())).collect();
    let is_served =
        |api: &&Api<'_>| matches!(api.kind.as_str(), "api" | "RealtimeAPI" | "SyncAPI" | "AsyncAPI");
    let found = match wanted {
        Some(wanted) => apis.iter().find(|api| api.name() == wanted),
        None => apis.iter().find(is_served),
    };
    let Some(api) = found.filter(is_served) else {
        let names: Vec<String> = apis.iter().filter(is_served).map(Api::name).collect();
        return Err(format!(
            "{file}: there is no API with a handler for HTTP{}\n  hint: `--api NAME` names one of a RealtimeAPI or AsyncAPI; there are {}",
            wanted.map(|it| format!(" named `{it}`")).unwrap_or_default(),
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        ));
    };
    for other in apis.iter().filter(|other| other.node.line != api.node.line) {
        let hint = match is_served(&other) {
            true => format!("`--api {}` brings it over into a project of its own", other.name()),
            false => "`jobs = \"batch\"` of an endpoint takes lists of items (docs/jobs.md)".to_owned(),
        };
        report.check(&other.place(other.node), format!("the {} `{}`", other.shown(), other.name()), hint);
    }
    for node in items.iter().filter(|node| node.text_at(&["kind"]).as_deref() == Some("TrafficSplitter")) {
        let hint = "`splits` or a trial of modelhost shares traffic (docs/swaps.md)";
        report.decide(&api.place(node), "a TrafficSplitter", hint);
    }
    let mut plan = Plan::new(SYSTEM, "");
    source(tree, api, &mut plan, report)?;
    model(tree, api, &mut plan, report);
    settings(api, &mut plan, report);
    let left = ["requirements.txt", "README.md", "sample.json", "expectations.yaml", file];
    plan.left_out.extend(left.map(str::to_owned));
    plan.left_out.extend(tree.at_top(".yaml").filter(|it| it.starts_with("cortex")).map(str::to_owned));
    let pip = api.block.text_at(&["dependencies", "pip"]).unwrap_or_else(|| "requirements.txt".to_owned());
    let pip = local(&pip);
    if tree.has(pip) {
        plan.requirements_of(&tree.text(pip)?, pip);
        plan.left_out.push(pip.to_owned());
    }
    project(tree, &mut plan, report);
    let sample =
        if tree.has("sample.json") { serde_json::from_str(&tree.text("sample.json")?).ok() } else { None };
    plan.sample = Some(sample.unwrap_or_else(|| json!({})));
    Ok(plan)
}

/// The files that a handler found in /mnt/project are there.
fn project(tree: &Tree, plan: &mut Plan, report: &mut Report) {
    let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let is_model = |path: &str| {
        let mut values = plan.models.iter().flat_map(|(_, keys)| keys).map(|(_, it)| it.trim_matches('"'));
        let is_of =
            |it: &str| path.strip_prefix(it).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        // Weights beside a model are parts of it.
        let beside = |model: &str| model.ends_with(".onnx") && folder(model) == folder(path);
        let is_part =
            WEIGHTS.iter().any(|end| path.ends_with(end)) && tree.files.iter().any(|(it, _)| beside(it));
        path.contains(".onnx") || is_part || values.any(is_of)
    };
    let files = tree.files.iter().map(|(path, _)| path).filter(|path| !path.ends_with(".py"));
    let files = files.filter(|path| !plan.left_out.contains(path) && !is_model(path));
    let files: Vec<_> = files.map(|path| (path.clone(), format!("{PROJECT}/{path}"))).collect();
    if !files.is_empty() && tree.named.is_none() {
        plan.set("project", toml(&PROJECT.into()));
        report.done(PROJECT, "the files that are no sources", "`project`: read-only at /mnt/project");
        // Before the folder of the handler, which may go elsewhere.
        plan.moved.splice(0..0, files);
    }
}

/// The handler's file: what it defines says what serves it.
fn source(tree: &Tree, api: &Api<'_>, plan: &mut Plan, report: &mut Report) -> Result<(), String> {
    let named = ["path", "request_handler"].iter().find_map(|key| api.block.text_at(&[key]));
    let Some(path) = named.or_else(|| api.node.text_at(&["request_handler"])) else {
        return Err(format!("{}: the API `{}` names no handler", api.place(api.node), api.name()));
    };
    let path = local(&path);
    if !tree.has(path) {
        return Err(format!("{}: there is no file `{path}`", api.place(api.block)));
    }
    let definitions = tree.source(path)?.definitions();
    let (target, module) = plan.import(tree, path);
    let defines =
        |name: &str| definitions.iter().any(|it| !it.is_class && it.class.is_none() && it.name == name);
    let is_legacy = api.node.at(&["request_handler"]).is_some();
    let title = format!("\"\"\"Serves {target}.\"\"\"\n\n");
    if defines("pre_inference") || defines("post_inference") {
        for (name, export) in [("pre_inference", "pre-inference"), ("post_inference", "post-inference")] {
            if defines(name) {
                plan.exports.push(export);
            }
        }
        let more = if api.engine == "tensorflow" { ", \"tensorflow\"" } else { ", \"onnx\"" };
        let more = if is_legacy { format!("{more}, legacy=True") } else { more.to_owned() };
        plan.entry = format!(
            "{title}import {module} as handler\nfrom modelhost_guest import cortex\n\ncortex.handlers(handler, __name__{more})\n"
        );
        return Ok(());
    }
    plan.includes = vec!["application", "operations-handler"];
    plan.exports = vec!["init"];
    // Up to 0.16 a text was written as JSON.
    let mut texts = if api.deployment.is_some() { ", texts=\"json\"" } else { "" }.to_owned();
    if is_batched(api) {
        texts += ", batch=True";
        plan.includes.push("batch-handler");
    }
    if let Some(class) = class(&definitions, api.engine) {
        let has =
            |name: &str| definitions.iter().any(|it| it.class.as_deref() == Some(class) && it.name == name);
        for (method, hint) in [
            (
                "handle_batch",
                "a handler is called for one item: `jobs = \"batch\"` takes the list (docs/jobs.md)",
            ),
            ("on_job_complete", "there is no such hook: a webhook tells the end of a job (docs/jobs.md)"),
            ("post_predict", "work after the answer is `@app.background` of modelhost_guest"),
            ("load_model", "models are loaded by the host: `models.infer(tensors, \"NAME\")`"),
        ] {
            if has(method) {
                report.decide(&target, format!("`{method}`"), hint);
            }
        }
        plan.entry = format!(
            "{title}from {module} import {class}\nfrom modelhost_guest import cortex\n\ncortex.predictor({class}, __name__, client=\"{}\"{texts})\n",
            api.engine
        );
    } else if defines("predict") {
        plan.entry = format!(
            "{title}import {module} as predictor\nfrom modelhost_guest import cortex\n\ncortex.predictor(predictor, __name__{texts})\n"
        );
    } else {
        return Err(format!(
            "{path}: there is neither `pre_inference`, `post_inference` or `predict`, nor a class {}",
            CLASSES.map(|(name, _)| format!("`{name}`")).join(", ")
        ));
    }
    Ok(())
}

/// Whether its handler is given several requests at once; of other engines runs of the model are joined.
fn is_batched(api: &Api<'_>) -> bool {
    api.engine == "python" && api.block.at(&["server_side_batching"]).is_some()
}

/// The class that serves requests: that of the engine first.
fn class<'a>(definitions: &'a [Definition], engine: &str) -> Option<&'a str> {
    let mut classes = definitions.iter().filter(|it| it.is_class).map(|it| it.name.as_str());
    let has = |class: &str| {
        let mut own = definitions.iter().filter(|it| it.class.as_deref() == Some(class));
        own.any(|it| it.name == "predict" || it.name.starts_with("handle_"))
    };
    let of = |wanted: Option<&str>| {
        let is_it = |name: &&str| {
            CLASSES.iter().any(|(known, of)| known == name && wanted.is_none_or(|wanted| wanted == *of))
        };
        classes.clone().find(is_it)
    };
    let known = of(Some(engine)).or_else(|| of(None));
    known.or_else(|| classes.find(|name| has(name)))
}

/// The models that the host loads in place of the client that a class gets.
fn model(tree: &Tree, api: &Api<'_>, plan: &mut Plan, report: &mut Report) {
    let block = api.block;
    let mut found: Vec<(String, &Node)> = Vec::new();
    for path in
        [["model"].as_slice(), &["model_path"], &["models", "path"], &["multi_model_reloading", "path"]]
    {
        found.extend(block.at(path).map(|node| (String::new(), node)));
    }
    for list in [["models"].as_slice(), &["models", "paths"], &["multi_model_reloading", "paths"]] {
        for node in block.at(list).map(Node::items).unwrap_or_default() {
            let path = node.at(&["path"]).or_else(|| node.at(&["model_path"]));
            found.extend(path.map(|path| (node.text_at(&["name"]).unwrap_or_default(), path)));
        }
    }
    for key in ["models", "multi_model_reloading"] {
        let Some(node) = block.at(&[key, "dir"]) else { continue };
        let folder = node.text().unwrap_or_default();
        let is_below = |path: &str| path.strip_prefix(local(&folder)).is_some_and(|it| it.starts_with('/'));
        let below = |path: &str| is_below(path) && path.ends_with(".onnx");
        if !tree.files.iter().any(|(path, _)| below(path)) {
            let hint =
                "put each here, and name it in modelhost.toml: `models.NAME = { path = \"NAME.onnx\" }`";
            report.decide(&api.place(node), format!("the models of `{folder}`"), hint);
        }
    }
    for (name, node) in found {
        let Some(given) = node.text() else { continue };
        let path = local(&given);
        let is_there = tree.has(path) || tree.has_folder(path);
        if api.engine == "python" {
            let hint = "export it to ONNX, `models.NAME = { path = \"model.onnx\" }` in modelhost.toml, and call `models.infer`";
            report.decide(&api.place(node), format!("the model `{path}` of a handler in Python"), hint);
            continue;
        }
        let file = path.rsplit('/').next().filter(|_| !is_there).unwrap_or(path);
        let mut keys = vec![("path".to_owned(), toml(&Value::from(file)))];
        for key in ["signature_key", "tf_signature_key"] {
            keys.extend(block.text_at(&[key]).map(|it| ("signature_key".to_owned(), toml(&Value::from(it)))));
        }
        if is_there {
            report.done(&api.place(node), format!("the model `{path}`"), "`model` in modelhost.toml");
        } else {
            let hint = format!("put it here as `{file}`, which modelhost.toml names");
            report.decide(&api.place(node), format!("the model `{path}`"), hint);
        }
        plan.models.push((name, keys));
    }
}

fn settings(api: &Api<'_>, plan: &mut Plan, report: &mut Report) {
    let (node, block) = (api.node, api.block);
    let given = node.at(&["networking", "endpoint"]).or_else(|| node.at(&["endpoint"]));
    let path = given.and_then(Node::text).unwrap_or_else(|| match &api.deployment {
        Some(deployment) => format!("/{deployment}/{}", api.name()),
        None => format!("/{}", api.name()),
    });
    let mut path = format!("/{}", path.trim_matches('/'));
    if path.split('/').nth(1).is_some_and(is_the_servers) {
        let hint = format!("clients call `/models{path}`, or choose another `path` in modelhost.toml");
        report.decide(
            &api.place(given.unwrap_or(node)),
            format!("`{path}` is a path of the server's own"),
            hint,
        );
        path.insert_str(0, "/models");
    }
    plan.set("path", toml(&Value::from(path.as_str())));
    report.done(&api.place(node), format!("the API `{}`", api.name()), format!("`path = \"{path}\"`"));
    for key in ["config", "metadata"] {
        if let Some(config) = block.at(&[key]) {
            plan.set("metadata", toml(&config.json()));
            report.done(&api.place(config), format!("`{key}`"), "`metadata`");
        }
    }
    let env = block.at(&["env"]).map(Node::members).unwrap_or_default();
    if !env.is_empty() {
        plan.set("env", toml(&env.iter().map(|(name, value)| env_value(name, value)).collect()));
    }
    if let Some(tracker) = node.at(&["tracker"]).or_else(|| node.at(&["monitoring"])) {
        // Of an application only a handler's own metrics could count.
        if plan.includes.is_empty() {
            plan.set("tracker", toml(&tracker.json()));
            report.done(&api.place(tracker), "the tracker", "`tracker`: metrics of what is predicted");
        } else {
            let hint = "answers of an application are not counted; a handler around a model has `tracker`";
            report.check(&api.place(tracker), "the tracker", hint);
        }
    }
    if api.kind == "AsyncAPI" {
        plan.set("jobs", "\"async\"".to_owned());
        plan.tables.push_str("\n[jobs]\nstore = \"jobs.redb\"\n");
        report.done(&api.place(node), "AsyncAPI", "`jobs = \"async\"` and `[jobs] store`");
    }
    let count = |key: &str| block.number(&[key]).unwrap_or(1).max(1);
    // Those of a batch are in flight together.
    let batch =
        block.number(&["server_side_batching", "max_batch_size"]).filter(|_| is_batched(api)).unwrap_or(1);
    let concurrency = count("processes_per_replica").saturating_mul(count("threads_per_process")).max(batch);
    plan.concurrency(concurrency);
    if let Some(queue) = node.number(&["autoscaling", "max_replica_concurrency"]) {
        plan.limit("queue", queue.min(1_000_000).to_string());
    }
    if let Some(batching) = block.at(&["server_side_batching"]) {
        let delay = batching.text_at(&["batch_interval"]).as_deref().and_then(milliseconds).unwrap_or(0);
        match (api.engine, batching.number(&["max_batch_size"])) {
            ("python", Some(size)) => {
                plan.batching(["max_requests", "request_delay"], size, delay);
                let hint =
                    "`max_requests` and `request_delay` of `[endpoint.batching]`: `predict` gets lists";
                report.done(&api.place(batching), "`server_side_batching`", hint);
            }
            ("onnx" | "tensorflow", Some(size)) => {
                plan.batching(["max_batch", "max_delay"], size, delay);
                let hint =
                    "`[endpoint.batching]`: runs of the model are joined; `predict` still gets one request";
                report.check(&api.place(batching), "`server_side_batching`", hint);
            }
            _ => {
                let hint = "`predict` gets one request; batches are made of the runs of a model, by `[endpoint.batching]`";
                report.decide(&api.place(batching), "`server_side_batching`", hint);
            }
        }
    }
    if let Some(compute) = node.at(&["compute"]) {
        let hint = if compute.at(&["gpu"]).is_some() {
            "`device = \"cuda\"` at the model (docs/gpu.md); the handler's own limit is `limits.memory`"
        } else {
            "models are outside the handler; its own limits are `limits.memory` and `limits.pre_timeout`"
        };
        report.check(&api.place(compute), "`compute`", hint);
    }
    for (key, hint) in [
        ("autoscaling", "replicas are the matter of what starts this host"),
        ("update_strategy", "a new handler takes over without a gap (docs/swaps.md)"),
    ] {
        if let Some(found) = node.at(&[key]) {
            report.check(&api.place(found), format!("`{key}`"), hint);
        }
    }
    for key in ["protobuf_path", "python_path", "image", "tensorflow_serving_image"] {
        if let Some(found) = block.at(&[key]) {
            let hint = match key {
                "protobuf_path" => {
                    "services of your own over gRPC are not served; Open Inference Protocol is"
                }
                "python_path" => "copy the folder's modules to the top of this project",
                _ => "there are no images: the component is what runs",
            };
            report.decide(&api.place(found), format!("`{key}`"), hint);
        }
    }
}

/// A duration of Cortex, `0.1s`, `100ms` or `1m`.
fn milliseconds(text: &str) -> Option<u64> {
    let units = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)];
    let (number, unit) = units.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))?;
    let value = number.trim().parse::<f64>().ok()? * unit;
    (0.0..1e9).contains(&value).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, expected) in [
            ("0.1s", Some(100)),
            ("100ms", Some(100)),
            ("2s", Some(2000)),
            ("1m", Some(60_000)),
            ("1h", Some(3_600_000)),
            ("1d", None),
            ("-1s", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }
}
