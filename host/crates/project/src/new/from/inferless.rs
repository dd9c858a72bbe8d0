//! An Inferless app: `app.py` with a class that has `initialize` and `infer`, and `input_schema.py`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::plan::{Plan, env_value, toml};
use super::python::Definition;
use super::report::Report;
use super::tree::Tree;

const SCHEMA: &str = "input_schema.py";
/// Where clients of the Open Inference Protocol call a model; `{}` is its name.
const CALLS: [&str; 2] = ["/v2/models/{}", "/v2/models/{}/versions/1"];
const RUNTIME: [&str; 3] = ["inferless-runtime-config.yaml", "inferless-runtime.yaml", "inferless.yaml"];

/// The module and its class: `app.py`, or another file at the top, or the one that was named.
pub(super) fn entry(tree: &Tree) -> Option<(String, String)> {
    let class = |path: &str| {
        let definitions = tree.source(path).ok()?.definitions();
        // By its name, or by a decorator: `@app.load`.
        let with = |name: &str, mark: &str| -> HashSet<&str> {
            let is_it = |it: &&Definition| {
                it.name == name || it.decorators.iter().any(|decorator| decorator.ends_with(mark))
            };
            definitions.iter().filter(is_it).filter_map(|it| it.class.as_deref()).collect()
        };
        let (infer, load) = (with("infer", ".infer"), with("initialize", ".load"));
        let mut classes = definitions.iter().filter(|it| it.is_class).map(|it| it.name.as_str());
        let found = classes.find(|name| infer.contains(name) && load.contains(name))?;
        Some((path.to_owned(), found.to_owned()))
    };
    if let Some(named) = &tree.named {
        return class(named);
    }
    let mut files: Vec<&str> = tree.at_top(".py").collect();
    files.sort_by_key(|path| *path != "app.py");
    files.into_iter().find_map(class)
}

/// # Errors
/// A file that cannot be read.
pub(super) fn plan(tree: &Tree, entry: &(String, String), report: &mut Report) -> Result<Plan, String> {
    let (file, class) = entry;
    let mut plan = Plan::new("an Inferless app", "");
    let schema = if tree.has(SCHEMA) { Some(tree.source(SCHEMA)?) } else { None };
    let says = |flag: &str| {
        let all = schema.iter().flat_map(|source| source.statements.iter());
        let is_it = |code: &str| code.split([' ', ':', '=']).next() == Some(flag);
        all.filter(|it| is_it(&it.code)).map(|it| it.code.clone()).next()
    };
    let number = |flag: &str| says(flag)?.split_once('=')?.1.trim().parse::<u64>().ok();
    let batch = number("BATCH_SIZE").filter(|size| *size > 0);
    let is_stream = says("IS_STREAMING_OUTPUT").is_some_and(|code| code.ends_with("True"));
    if is_stream {
        plan.includes = vec!["application", "operations-handler"];
        plan.exports = vec!["init"];
        plan.named_paths = calls(&["infer", "generate", "generate_stream"]);
        let hint =
            "events are sent at the model's paths, `generate_stream` and `infer`, and at the endpoint's own";
        report.check(SCHEMA, "`IS_STREAMING_OUTPUT`", hint);
    } else if let Some(size) = batch {
        plan.includes = vec!["application", "operations-handler", "batch-handler"];
        plan.exports = vec!["init"];
        let delay = number("BATCH_WINDOW").unwrap_or(500);
        plan.batching(["max_requests", "request_delay"], size, delay);
        plan.named_paths = calls(&["infer", "generate"]);
        let hint = "`max_requests` and `request_delay` of `[endpoint.batching]`: `infer` gets a list of dicts by a `POST` to the \
                    model's `infer`, or to the endpoint's path";
        report.check(SCHEMA, "`BATCH_SIZE`", hint);
    } else {
        plan.exports = vec!["init", "pre-inference", "post-inference"];
        let is_marked = tree.text(file)?.contains("@inferless.request");
        if tree.has(SCHEMA) || is_marked {
            plan.exports.push("input-schema");
        }
    }
    let own = file == "app.py";
    let module = if own { String::new() } else { plan.import(tree, file).1 };
    let from = if own { String::new() } else { format!("from {module} import {class}  # noqa: E402\n") };
    let (import, schema_of) =
        if tree.has(SCHEMA) { ("import input_schema  # noqa: E402\n", ", input_schema") } else { ("", "") };
    let name = if plan.named_paths.is_empty() { "" } else { ", name=\"{}\"" };
    let serve = format!(
        "{import}{from}from modelhost_guest import inferless  # noqa: E402\n\ninferless.serve({class}, __name__{schema_of}{name})\n"
    );
    plan.entry = if own { format!("\n\n# Added by `modelhost new --from`.\n{serve}") } else { serve };
    plan.own = own.then(|| file.clone());
    plan.left_out = RUNTIME.iter().map(|file| (*file).to_owned()).collect();
    plan.left_out.extend(["requirements.txt", "README.md", "input.json", "output.json"].map(str::to_owned));
    if tree.has("requirements.txt") {
        plan.requirements_of(&tree.text("requirements.txt")?, "requirements.txt");
    }
    for file in RUNTIME.iter().filter(|file| tree.has(file)) {
        runtime(tree, file, &mut plan, report)?;
    }
    if tree.has("input.json") && schema.is_none() {
        report.decide("input.json", "inputs in the form before input_schema.py", "write input_schema.py");
    }
    plan.concurrency(batch.filter(|_| !is_stream).unwrap_or(1));
    let text = if tree.has(SCHEMA) { tree.text(SCHEMA)? } else { String::new() };
    plan.sample = Some(example(&text));
    Ok(plan)
}

/// The paths of these operations on a model.
fn calls(verbs: &[&str]) -> Vec<String> {
    CALLS.iter().flat_map(|model| verbs.iter().map(move |verb| format!("{model}/{verb}"))).collect()
}

/// The runtime's file: packages, and what a system installs.
fn runtime(tree: &Tree, file: &str, plan: &mut Plan, report: &mut Report) -> Result<(), String> {
    let config = tree.yaml(file)?;
    for node in config.at(&["build", "python_packages"]).map(|it| it.items()).unwrap_or_default() {
        plan.requirements.extend(node.text().map(|text| (text, format!("{file}:{}", node.line))));
    }
    for key in ["system_packages", "run"] {
        if let Some(node) = config.at(&["build", key]).filter(|it| !it.items().is_empty()) {
            let hint = "there are no programs and libraries of a system in the sandbox";
            report.decide(&format!("{file}:{}", node.line), format!("`build.{key}`"), hint);
        }
    }
    let env = config.at(&["env"]).map(|it| it.members()).unwrap_or_default();
    if !env.is_empty() {
        let values = env.iter().map(|(name, node)| env_value(name, node)).collect();
        plan.set("env", toml(&Value::Array(values)));
    }
    for key in ["secrets", "volume"] {
        if let Some(node) = config.at(&["configuration", key]).or_else(|| config.at(&[key])) {
            let hint = "`env = [\"NAME\"]` grants a variable, `project = \"DIR\"` a folder at /mnt/project";
            report.decide(&format!("{file}:{}", node.line), format!("`{key}`"), hint);
        }
    }
    Ok(())
}

/// The examples of required inputs of `INPUT_SCHEMA`, if it is written as a literal.
fn example(text: &str) -> Value {
    let schema = text.split_once("INPUT_SCHEMA").and_then(|(_, rest)| literal(rest.split_once('=')?.1));
    let mut body = Map::new();
    for (name, said) in schema.as_ref().and_then(Value::as_object).into_iter().flatten() {
        let is_one = said.get("shape").is_none_or(|shape| *shape == serde_json::json!([1]));
        let example = match said.get("example") {
            Some(Value::Array(items)) => match items.as_slice() {
                [one] if is_one => Some(one),
                _ => said.get("example"),
            },
            other => other,
        };
        if let Some(example) = example.filter(|_| said.get("required") != Some(&Value::Bool(false))) {
            body.insert(name.clone(), example.clone());
        }
    }
    Value::Object(body)
}

/// A literal of Python at the beginning of a text.
fn literal(text: &str) -> Option<Value> {
    let (mut json, mut quote) = (String::new(), None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(_), '\\') => match chars.next()? {
                '\'' => json.push('\''),
                other => json.extend(['\\', other]),
            },
            (Some(open), c) if c == open => {
                quote = None;
                json.push('"');
            }
            (Some(_), '"') => json.push_str("\\\""),
            (None, '"' | '\'') => {
                quote = Some(c);
                json.push('"');
            }
            (None, '#') => while chars.next().is_some_and(|c| c != '\n') {},
            // A comma may be the last one.
            (None, ']' | '}') => {
                json.truncate(json.trim_end_matches([',', ' ', '\n', '\r', '\t']).len());
                json.push(c);
            }
            (None, 'T' | 'F' | 'N') => json.push(c.to_ascii_lowercase()),
            (None, 'o') if json.ends_with('n') => json.push_str("ull"),
            (None, 'n' | 'e') if json.ends_with("null") => {}
            (_, c) => json.push(c),
        }
    }
    serde_json::Deserializer::from_str(&json).into_iter::<Value>().next()?.ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn examples_of_a_schema_make_a_body() {
        let text = "INPUT_SCHEMA = {\n    'prompt': {\n        'datatype': 'STRING',\n        'shape': [1],\n        \
                    'example': [\"it's\"],\n    },\n    \"n\": {\n        'example': [1, 2]\n    },\n    'flag': {\n 'example': [True]\n},\n'last': {\n'required': False,\n'example': [1]\n}\n}\n";
        assert_eq!(example(text), json!({"prompt": "it's", "n": [1, 2], "flag": true}));
        assert_eq!(example("x = 1"), json!({}));
        let text = "INPUT_SCHEMA = {'a': {'shape': [-1], 'example': ['True story',],}, # of b\n 'b': {'shape': [1], 'example': [None]}, \
                    'c': {'example': ['say \"hi\" \\'x\\'']}}\nBATCH_SIZE = 3\n";
        assert_eq!(example(text), json!({"a": ["True story"], "b": null, "c": "say \"hi\" 'x'"}));
    }
}
