//! When the statements of a source run, and how long what they write is kept: in both a handler differs from
//! a server's process.
//!
//! The top of a module runs while the component is built, without the variables of the endpoint. What is
//! imported in a function is looked for when it is called, and has to be in the component by then. An
//! instance has its own objects, and begins anew.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::python::{Definition, Source, Statement, has_word, imports};
use super::super::report::Report;

/// Methods that run before the first request.
const SETUP: [&str; 5] = ["__init__", "load", "initialize", "setup", "setup_environment"];
/// Methods that serve requests, of the classes of all systems.
const SERVING: [&str; 14] = [
    "preprocess",
    "predict",
    "postprocess",
    "chat_completions",
    "completions",
    "embeddings",
    "messages",
    "responses",
    "websocket",
    "is_healthy",
    "infer",
    "handle_post",
    "handle_get",
    "handle_async",
];
/// Calls of an object's methods that change it.
const CHANGES: [&str; 12] = [
    "append",
    "extend",
    "insert",
    "pop",
    "popleft",
    "appendleft",
    "remove",
    "clear",
    "update",
    "setdefault",
    "add",
    "discard",
];

/// Reports where the top of the module reads the environment.
pub(super) fn environment(source: &Source, placed: &dyn Fn(usize) -> String, report: &mut Report) {
    for (at, Statement { first, code, .. }) in source.statements.iter().enumerate() {
        let is_read = imports(code).is_none() && reads_environment(code);
        if !is_read || source.is_in_function(at) || is_of_main(source, at) {
            continue;
        }
        let hint = "it is empty while the component is built, when this line runs: read it in `load`, `init` or a \
                    function that they call";
        report.decide(&placed(*first), "the environment, read at the top of the module", hint);
    }
}

fn reads_environment(code: &str) -> bool {
    let all = code.matches("environ").count() + code.matches("getenv").count();
    let is_named = code.contains("os.environ")
        || code.contains("os.getenv")
        || has_word(code, "environ")
        || has_word(code, "getenv");
    // What only sets a variable: `os.environ["A"] = "1"`, `os.environ.setdefault("A", "1")`.
    let rest = code.strip_prefix("del ").unwrap_or(code);
    let rest = rest.strip_prefix("os.").unwrap_or(rest).strip_prefix("environ");
    let sets = rest.is_some_and(|rest| {
        let is_call = [".setdefault(", ".update(", ".pop("].iter().any(|call| rest.starts_with(call));
        let is_item = rest.starts_with("[\"\"] =") || (code.starts_with("del ") && rest.starts_with('['));
        is_call || is_item
    });
    is_named && all > usize::from(sets)
}

/// Whether a statement stands in `if __name__ == "__main__":`, which does not run here.
fn is_of_main(source: &Source, at: usize) -> bool {
    let mut around = source.parent(at);
    while let Some(above) = around {
        if source.statements.get(above).is_some_and(|it| it.code.starts_with("if __name__ ==")) {
            return true;
        }
        around = source.parent(above);
    }
    false
}

/// Reports what is imported in functions.
pub(super) fn late(
    modules: &BTreeMap<usize, Vec<String>>,
    placed: &dyn Fn(usize) -> String,
    report: &mut Report,
) {
    for (line, modules) in modules {
        let named = |module: &String| format!("`{module}`");
        let shown: Vec<String> = modules.iter().take(3).map(named).collect();
        let more = if modules.len() > shown.len() { ", …" } else { "" };
        let hint = "app.py imports it at its end, so that it is in the component; what it imports itself when it is \
                    first used is not: import it at the top of the file";
        report.decide(&placed(*line), format!("{}{more} imported in a function", shown.join(", ")), hint);
    }
}

/// Reports what is written while requests are served, and kept in an object, a context or a module.
pub(super) fn state(source: &Source, placed: &dyn Fn(usize) -> String, report: &mut Report) {
    let definitions = source.definitions();
    let owners = owners(source, &definitions);
    let served = served(source, &definitions, &owners);
    let mut known = HashSet::new();
    for (at, statement) in source.statements.iter().enumerate() {
        let Some(owner) = owners.get(at).copied().flatten().and_then(|number| definitions.get(number)) else {
            continue;
        };
        let written = match (&owner.class, context(owner)) {
            (Some(class), _) if served.contains(&(class.as_str(), owner.name.as_str())) => {
                written(&statement.code, owner.parameters.first().map_or("self", String::as_str))
            }
            (None, Some(context)) => item(&statement.code, context).map(|()| vec![context.to_owned()]),
            _ => None,
        };
        let globals = statement
            .code
            .strip_prefix("global ")
            .map(|names| names.split(", ").map(str::to_owned).collect());
        for name in written.or(globals).unwrap_or_default() {
            if known.insert((owner.class.clone(), name.clone())) {
                let hint = "an instance has its own and begins anew, and there may be several: `kv` keeps values for \
                            all (docs/values.md)";
                let what = format!("`{name}` is written in `{}`", owner.name);
                report.check(&placed(statement.first), what, hint);
            }
        }
    }
}

/// Of each statement, the function of the module or the method of a class that it is in, by its number.
fn owners(source: &Source, definitions: &[Definition]) -> Vec<Option<usize>> {
    let by_line: HashMap<usize, usize> =
        definitions.iter().enumerate().filter(|(_, it)| !it.is_class).map(|(at, it)| (it.line, at)).collect();
    let mut owners: Vec<Option<usize>> = Vec::with_capacity(source.statements.len());
    for at in 0..source.statements.len() {
        let owner = source.parent(at).and_then(|above| {
            let outer = owners.get(above).copied().flatten();
            outer.or_else(|| by_line.get(&source.statements.get(above)?.first).copied())
        });
        owners.push(owner);
    }
    owners
}

/// The methods that a request reaches, by their classes: those that serve, and those that they call.
fn served<'a>(
    source: &Source,
    definitions: &'a [Definition],
    owners: &[Option<usize>],
) -> HashSet<(&'a str, &'a str)> {
    let methods: HashMap<(&str, &str), usize> = definitions
        .iter()
        .enumerate()
        .filter_map(|(at, it)| Some(((it.class.as_deref()?, it.name.as_str()), at)))
        .collect();
    let mut statements: HashMap<usize, Vec<&Statement>> = HashMap::new();
    for (statement, owner) in source.statements.iter().zip(owners) {
        statements.entry(owner.unwrap_or(usize::MAX)).or_default().push(statement);
    }
    let is_serving = |it: &Definition| {
        SERVING.contains(&it.name.as_str())
            || it.decorators.iter().any(|decorator| decorator.ends_with(".infer"))
    };
    let mut open: Vec<usize> =
        methods.values().copied().filter(|at| definitions.get(*at).is_some_and(is_serving)).collect();
    let mut found = HashSet::new();
    while let Some(at) = open.pop() {
        let Some(definition) = definitions.get(at) else { continue };
        let Some(class) = definition.class.as_deref() else { continue };
        if SETUP.contains(&definition.name.as_str()) || !found.insert((class, definition.name.as_str())) {
            continue;
        }
        for statement in statements.get(&at).into_iter().flatten() {
            let called = statement.code.split("self.").skip(1);
            open.extend(called.filter_map(|rest| methods.get(&(class, name(rest))).copied()));
        }
    }
    found
}

/// The parameter of Potassium's handlers that is the context.
fn context(function: &Definition) -> Option<&str> {
    let marks = [".handler(", ".background("];
    let is_handler = function.decorators.iter().any(|it| marks.iter().any(|mark| it.contains(mark)));
    let [context, _request, ..] = function.parameters.as_slice() else { return None };
    Some(context.as_str()).filter(|_| is_handler)
}

/// Attributes of an object that a statement writes.
fn written(code: &str, object: &str) -> Option<Vec<String>> {
    let of = format!("{object}.");
    if let Some(target) = target(code) {
        let own = target.split(',').filter_map(|it| it.trim().trim_start_matches('(').strip_prefix(&of));
        let names: Vec<String> =
            own.map(name).filter(|it| !it.is_empty()).map(|it| format!("{of}{it}")).collect();
        return Some(names).filter(|names| !names.is_empty());
    }
    let rest = code.strip_prefix("del ").unwrap_or(code).strip_prefix(&of)?;
    let attribute = name(rest);
    let (_, call) = rest.get(attribute.len()..)?.split('(').next()?.rsplit_once('.').unwrap_or_default();
    let is_change = code.starts_with("del ") || CHANGES.iter().any(|it| name(call) == *it);
    is_change.then(|| vec![format!("{of}{attribute}")])
}

/// Whether a statement writes a member of an object, or an attribute.
fn item(code: &str, object: &str) -> Option<()> {
    let target = target(code)?.strip_prefix(object)?;
    target.starts_with(['[', '.']).then_some(())
}

/// The target of an assignment, before its `=`.
fn target(code: &str) -> Option<&str> {
    let (mut depth, mut before) = (0_usize, ' ');
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '=' if depth == 0 => {
                let is_compared =
                    code.get(at + 1..)?.starts_with('=') || matches!(before, '=' | '!' | '<' | '>');
                let is_shift = code.get(..at)?.ends_with("<<") || code.get(..at)?.ends_with(">>");
                return if is_compared && !is_shift { None } else { code.get(..at) };
            }
            _ => {}
        }
        before = c;
    }
    None
}

/// The name at the beginning of a text.
fn name(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new::from::report::Topic;

    fn found(text: &str, find: fn(&Source, &dyn Fn(usize) -> String, &mut Report)) -> Vec<String> {
        let mut report = Report::default();
        find(&Source::read(text), &|line| (line + 1).to_string(), &mut report);
        report.findings.iter().map(|it| format!("{} {}", it.place, it.what)).collect()
    }

    #[test]
    fn the_environment_is_told_where_the_top_of_a_module_reads_it() {
        for (code, is_told) in [
            ("A = os.environ[\"A\"]", true),
            ("A = os.environ.get(\"A\", \"b\")", true),
            ("A = os.getenv(\"A\")", true),
            ("A = environ[\"A\"]", true),
            ("if getenv(\"A\"):\n    pass", true),
            ("class C:\n    a = os.environ.get(\"A\")", true),
            ("def f(a=os.environ.get(\"A\")):\n    pass", true),
            ("os.environ[\"A\"] = os.environ[\"B\"]", true),
            ("os.environ[\"A\"] = \"1\"", false),
            ("os.environ.setdefault(\"A\", \"1\")", false),
            ("del os.environ[\"A\"]", false),
            ("def f():\n    return os.environ[\"A\"]", false),
            ("class C:\n    def f(self):\n        return os.getenv(\"A\")", false),
            ("if __name__ == \"__main__\":\n    print(os.environ)", false),
            ("from os import environ", false),
            ("import os", false),
            ("environment = 1", false),
            ("x = \"os.environ\"", false),
        ] {
            assert_eq!(!found(code, environment).is_empty(), is_told, "{code}");
        }
        assert_eq!(
            found("import os\n\nA = os.getenv(\"A\")\n", environment),
            ["3 the environment, read at the top of the module"]
        );
    }

    #[test]
    fn state_is_told_where_a_request_writes_it() {
        let text = "count = 0\n\n\nclass Model:\n    def __init__(self):\n        self.made = 1\n\n    def load(self):\n        self._open()\n\n\
                    \x20   def _open(self):\n        self.opened = 1\n\n    def predict(self, inputs):\n        self.seen += 1\n        self.seen += 1\n\
                    \x20       self.cache[inputs] = 1\n        self.a, self.b = 1, 2\n        if self.x == 1 or self.y <= 2:\n            self.log.append(1)\n\
                    \x20       self._note(x=1)\n        return self.made\n\n    def _note(self, x):\n        global count\n        self.notes = x\n\n\n\
                    class Helper:\n    def run(self):\n        self.ran = 1\n\n\n@app.handler(\"/\")\ndef handle(context, request):\n    context[\"n\"] += 1\n    context[\"n\"] == 1\n";
        assert_eq!(
            found(text, state),
            [
                "15 `self.seen` is written in `predict`",
                "17 `self.cache` is written in `predict`",
                "18 `self.a` is written in `predict`",
                "18 `self.b` is written in `predict`",
                "20 `self.log` is written in `predict`",
                "25 `count` is written in `_note`",
                "26 `self.notes` is written in `_note`",
                "36 `context` is written in `handle`",
            ]
        );
        let mut report = Report::default();
        state(&Source::read(text), &|line| line.to_string(), &mut report);
        assert!(report.findings.iter().all(|it| it.topic == Topic::Check));
    }

    #[test]
    fn targets_are_what_is_assigned_to() {
        for (code, expected) in [
            ("self.a = 1", Some("self.a ")),
            ("self.a += 1", Some("self.a +")),
            ("self.a <<= 1", Some("self.a <<")),
            ("self.a[f(x=1)] = 1", Some("self.a[f(x=1)] ")),
            ("self.a == 1", None),
            ("self.a <= 1", None),
            ("f(a=1)", None),
        ] {
            assert_eq!(target(code), expected, "{code}");
        }
    }
}
