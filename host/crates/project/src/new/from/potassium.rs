//! A Potassium app: a module with `Potassium(…)` and its decorators.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::plan::Plan;
use super::python::{self, Source, Statement};
use super::report::Report;
use super::tree::Tree;

/// The module with the app: `app.py`, or another file at the top, or the one that was named.
pub(super) fn entry(tree: &Tree) -> Option<String> {
    let is_app = |path: &&str| {
        tree.source(path).is_ok_and(|source| source.with("Potassium(").next().is_some())
            && tree.text(path).is_ok_and(|text| text.contains("potassium"))
    };
    if let Some(named) = &tree.named {
        return Some(named.as_str()).filter(is_app).map(str::to_owned);
    }
    let mut files: Vec<&str> = tree.at_top(".py").collect();
    files.sort_by_key(|path| *path != "app.py");
    files.into_iter().find(is_app).map(str::to_owned)
}

/// # Errors
/// A file that cannot be read, or an app without handlers.
pub(super) fn plan(tree: &Tree, entry: &str, report: &mut Report) -> Result<Plan, String> {
    let source = tree.source(entry)?;
    let definitions = source.definitions();
    let has = |kind: &str| {
        let is_it = |decorator: &String| {
            let name = decorator.split('(').next().unwrap_or_default();
            name.rsplit_once('.').is_some_and(|(_, last)| last == kind)
        };
        definitions.iter().any(|it| it.decorators.iter().any(is_it))
    };
    if !has("handler") && !has("background") {
        return Err(format!("{entry}: no function has `@app.handler` or `@app.background`"));
    }
    let mut plan = Plan::new("a Potassium app", "");
    plan.includes = vec!["application", "operations-handler"];
    if has("init") {
        plan.exports = vec!["init"];
    }
    plan.own_entry(tree, entry);
    plan.left_out = ["requirements.txt", "Dockerfile", "README.md", "setup.py"].map(str::to_owned).to_vec();
    if tree.has("requirements.txt") {
        plan.requirements_of(&tree.text("requirements.txt")?, "requirements.txt");
    }
    let mut workers = 1;
    for (_, statement) in source.with("experimental_num_workers") {
        let given = statement.code.split("experimental_num_workers").nth(1).unwrap_or_default();
        let digits: String =
            given.trim_start_matches(['=', ' ']).chars().take_while(char::is_ascii_digit).collect();
        workers = digits.parse().unwrap_or(1).max(1);
        let place = format!("{entry}:{}", statement.first + 1);
        report.done(&place, "`experimental_num_workers`", format!("`limits.concurrency = {workers}`"));
    }
    plan.concurrency(workers);
    let mut all: Vec<&str> = tree.sources().collect();
    // The old system itself may lie beside an example of it.
    all.retain(|path| {
        *path == entry || (tree.named.is_none() && !path.starts_with("potassium/") && !path.contains("test"))
    });
    for path in all {
        // One that is needed is read again.
        let Ok(source) = tree.source(path) else { continue };
        let place = |line: usize| format!("{path}:{}", line + 1);
        for statement in webhooks(&source) {
            let hint = "list its receiver at the endpoint in modelhost.toml, \
                        `allow_outbound = [\"https://hooks.example.com\"]`; the library `outbound` sends it";
            report.decide(&place(statement.first), "`send_webhook`", hint);
            if !plan.libraries.contains(&"outbound") {
                plan.libraries.push("outbound");
            }
        }
        if let Some((_, statement)) = source.with("Store(").next() {
            let text = tree.text(path)?;
            let is_large = ["\"s3\"", "'s3'"].iter().any(|name| text.contains(name));
            let (include, key, store, kept) = match is_large {
                true => ("blob-imports", "blobs", "[blobs]\nstore = \"objects\"", "objects"),
                false => ("kv-imports", "kv", "[kv]\nstore = \"values.redb\"", "values"),
            };
            if !plan.tables.contains(store) {
                plan.includes.push(include);
                plan.set(key, "[\"default\"]".to_owned());
                plan.tables += &format!("\n{store}\n");
            }
            let done = format!("`{key}` and `[{key}] store`: {kept} are kept by the host");
            report.done(&place(statement.first), "`Store`", done);
        }
    }
    plan.sample = Some(example(tree)?.unwrap_or_else(|| json!({})));
    Ok(plan)
}

/// Statements that use Potassium's `send_webhook`, and not a function of the project's own or a method; that
/// which imports it if nothing else does.
fn webhooks(source: &Source) -> Vec<&Statement> {
    const FUNCTION: &str = "send_webhook";
    // The names of the function, each with the statement that imports it by itself, and those of its module.
    let (mut names, mut modules, mut has_all) = (BTreeMap::new(), HashSet::new(), false);
    for importing in &source.statements {
        has_all |= python::star(&importing.code).is_some_and(is_potassium);
        for name in python::imports(&importing.code).unwrap_or_default() {
            if !is_potassium(&name.module) {
                continue;
            }
            match name.member.as_deref() {
                Some(FUNCTION) => names.extend([(name.bound, Some(importing))]),
                Some(_) => {}
                None => modules.extend([name.bound]),
            }
        }
    }
    if has_all && !is_bound(source, FUNCTION) {
        names.entry(FUNCTION.to_owned()).or_insert(None);
    }
    let is_call = |it: &&Statement| !it.code.starts_with("def ") && !it.code.starts_with("async def ");
    let mut found: Vec<&Statement> = Vec::new();
    for (name, importing) in names {
        let before = found.len();
        found.extend(source.uses(&name).filter(is_call));
        found.extend(importing.filter(|_| found.len() == before));
    }
    let part = format!(".{FUNCTION}");
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let is_of_module = |it: &&Statement| {
        it.code.match_indices(&part).any(|(at, part)| {
            let (before, rest) = it.code.split_at(at);
            let module = before.rsplit(|c| !is_of_name(c)).next().unwrap_or_default();
            let is_attribute = before.strip_suffix(module).is_some_and(|before| before.ends_with('.'));
            let is_longer = rest.get(part.len()..).is_some_and(|rest| rest.starts_with(is_of_name));
            modules.contains(module) && !is_attribute && !is_longer
        })
    };
    found.extend(source.statements.iter().filter(is_of_module).filter(is_call));
    found.sort_by_key(|statement| (statement.first, statement.from));
    found.dedup_by_key(|statement| (statement.first, statement.from));
    found
}

fn is_potassium(module: &str) -> bool {
    module.split('.').next() == Some("potassium")
}

/// Whether a source has a function of this name, which is no method, or imports the name by itself.
fn is_bound(source: &Source, name: &str) -> bool {
    source.definitions().iter().any(|it| it.class.is_none() && it.name == name)
        || source
            .statements
            .iter()
            .filter_map(|it| python::imports(&it.code))
            .flatten()
            .any(|it| it.bound == name)
}

/// `example_input` of `banana_config.json`.
fn example(tree: &Tree) -> Result<Option<Value>, String> {
    const FILE: &str = "banana_config.json";
    if !tree.has(FILE) {
        return Ok(None);
    }
    let config: Option<Value> = serde_json::from_str(&tree.text(FILE)?).ok();
    Ok(config.and_then(|config| config.get("example_input").cloned()))
}
