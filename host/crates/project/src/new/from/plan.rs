//! What becomes of an old project: which files, which module, which endpoint.
//!
//! Place in the flow: made by the reader of each system, carried out by `from.rs`.

use serde_json::Value;

use super::tree::Tree;
use super::yaml::Node;

/// Most requests at once, as `limits.concurrency` and `[endpoint.batching]` have it.
const MOST: u64 = 10_000;
/// Words that are no names in Python.
const KEYWORDS: &str = "False None True and as assert async await break class continue def del elif else except finally \
    for from global if import in is lambda nonlocal not or pass raise return try while with yield";

/// A project to be written.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The old project: `a Truss`.
    pub(super) system: &'static str,
    /// The endpoint's name; empty for the project's.
    pub(super) endpoint: &'static str,
    /// The text of `app.py`, or what comes after the old project's own.
    pub(super) entry: String,
    /// Paths of the server that are the endpoint's, with its name in place of `{}`.
    pub(super) named_paths: Vec<String>,
    /// The old file that `app.py` is.
    pub(super) own: Option<String>,
    /// Worlds that the handler's includes, and interfaces that it exports, by the contract's names.
    pub(super) includes: Vec<&'static str>,
    pub(super) exports: Vec<&'static str>,
    /// Libraries that the build puts into the handler, which imports them.
    pub(super) libraries: Vec<&'static str>,
    /// Files and folders of the old project, and where they go; of a folder, with `/` or nothing.
    pub(super) moved: Vec<(String, String)>,
    /// Old files that are not part of the new project.
    pub(super) left_out: Vec<String>,
    /// Lines of requirements, and their places.
    pub(super) requirements: Vec<(String, String)>,
    /// Keys of the endpoint, and their values in TOML.
    pub(super) keys: Vec<(String, String)>,
    pub(super) limits: Vec<(String, String)>,
    /// Tables after the endpoint in modelhost.toml.
    pub(super) tables: String,
    /// Paths of models that are not in the old project: `name` and `path`, `signature_key`.
    pub(super) models: Vec<(String, Vec<(String, String)>)>,
    /// The body of a request.
    pub(super) sample: Option<Value>,
}

impl Plan {
    pub(super) fn new(system: &'static str, endpoint: &'static str) -> Plan {
        Plan { system, endpoint, ..Plan::default() }
    }

    /// A key of the endpoint; the last value counts.
    pub(super) fn set(&mut self, key: &str, value: String) {
        self.keys.retain(|(other, _)| other != key);
        self.keys.push((key.to_owned(), value));
    }

    pub(super) fn limit(&mut self, key: &str, value: String) {
        self.limits.push((key.to_owned(), value));
    }

    /// The models that it names, and their files.
    pub(super) fn model_files(&self) -> impl Iterator<Item = (String, String)> {
        self.models.iter().filter_map(|(name, keys)| {
            let (_, path) = keys.iter().find(|(key, _)| key == "path")?;
            Some((name.clone(), path.trim_matches('"').to_owned()))
        })
    }

    /// Serves so many requests at once.
    pub(super) fn concurrency(&mut self, count: u64) {
        self.limit("concurrency", count.clamp(1, MOST).to_string());
    }

    /// Joins so many requests, or rows of them, after so many milliseconds at the latest: these keys of
    /// `[endpoint.batching]`.
    pub(super) fn batching(&mut self, [most, longest]: [&str; 2], size: u64, milliseconds: u64) {
        let (size, milliseconds) = (size.clamp(1, MOST), milliseconds.min(24 * 60 * 60 * 1000));
        // A table of the endpoint, and those of others follow it.
        let table = format!("\n[endpoint.batching]\n{most} = {size}\n{longest} = \"{milliseconds}ms\"\n");
        self.tables.insert_str(0, &table);
    }

    /// The place and the module of a file that `app.py` imports, by names that Python takes; its folder goes
    /// along.
    pub(super) fn import(&mut self, tree: &Tree, file: &str) -> (String, String) {
        let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
        let folders = folder.split('/').filter(|part| !part.is_empty());
        let to: String = folders.map(|part| identifier(part) + "/").collect();
        let mut stem = identifier(name.trim_end_matches(".py"));
        if to.is_empty() && stem == "app" {
            "handler".clone_into(&mut stem);
        }
        let is_others = |stem: &str| {
            let target = format!("{to}{stem}.py");
            target != file && (tree.has(&target) || tree.has_folder(target.trim_end_matches(".py")))
        };
        while is_others(&stem) {
            stem.push('_');
        }
        let target = format!("{to}{stem}.py");
        if target != file {
            self.moved.push((file.to_owned(), target.clone()));
        }
        if to.trim_end_matches('/') != folder {
            self.moved.push((folder.to_owned(), to.clone()));
        }
        (target, to.replace('/', ".") + &stem)
    }

    /// `app.py` is this file, or takes the exports that it makes.
    pub(super) fn own_entry(&mut self, tree: &Tree, file: &str) {
        if file == "app.py" {
            self.own = Some(file.to_owned());
            return;
        }
        let (file, module) = self.import(tree, file);
        let init = if self.exports.contains(&"init") { "Init, " } else { "" };
        self.entry = format!(
            "\"\"\"Serves {file}.\"\"\"\n\nfrom {module} import {init}Operations, Respond  # noqa: F401\n"
        );
    }

    /// The lines of a requirements.txt.
    pub(super) fn requirements_of(&mut self, text: &str, file: &str) {
        let mut lines = text.lines().enumerate();
        while let Some((at, first)) = lines.next() {
            let mut line = first.trim().to_owned();
            while let Some(begun) = line.strip_suffix('\\') {
                let next = lines.next().map_or("", |(_, next)| next.trim());
                line = format!("{} {next}", begun.trim_end()).trim_end().to_owned();
            }
            // A wheel that is built here has other hashes.
            let line = line.split(" --hash").next().unwrap_or_default().trim();
            if !line.is_empty() && !line.starts_with('#') {
                self.requirements.push((line.to_owned(), format!("{file}:{}", at + 1)));
            }
        }
    }
}

/// A name that Python takes.
fn identifier(text: &str) -> String {
    let mut name = text.replace(|c: char| !(c.is_alphanumeric() || c == '_'), "_");
    if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') || KEYWORDS.split(' ').any(|it| it == name)
    {
        name.insert(0, '_');
    }
    name
}

/// JSON as a value of TOML on one line; members that are null are left out.
pub(super) fn toml(value: &Value) -> String {
    match value {
        Value::Null => "\"\"".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter(|item| !item.is_null()).map(toml).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            let members: Vec<String> =
                members.map(|(key, value)| format!("{} = {}", toml_key(key), toml(value))).collect();
            if members.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", members.join(", ")) }
        }
        // TOML's integers have 64 bits with their sign.
        Value::Number(number) if number.as_i64().is_none() => {
            format!("{:?}", number.as_f64().unwrap_or_default())
        }
        // What JSON escapes in a text, TOML does too.
        scalar => scalar.to_string().replace('\u{7f}', "\\u007f"),
    }
}

/// A key as TOML has it: bare if it can be.
pub(super) fn toml_key(key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if is_bare { key.to_owned() } else { toml(&Value::from(key)) }
}

/// `NAME=VALUE` for an endpoint's `env`.
pub(super) fn env_value(name: &str, node: &Node) -> Value {
    Value::from(format!("{name}={}", node.text().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_written_as_toml() {
        for (value, expected) in [
            (
                json!({"a": 1, "b c": [true, "x\"\n"], "none": null}),
                "{ a = 1, \"b c\" = [true, \"x\\\"\\n\"] }",
            ),
            (json!([]), "[]"),
            (json!({}), "{}"),
            (json!(0.5), "0.5"),
            (json!(u64::MAX), "1.8446744073709552e19"),
        ] {
            assert_eq!(toml(&value), expected);
        }
    }

    #[test]
    fn names_that_python_does_not_take_are_changed() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["my-api/model-v2.py", "my-api/x.py", "handler.py", "class.py"] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let tree = Tree::read(folder.path()).unwrap();
        for (file, target, module, moves) in [
            ("my-api/model-v2.py", "my_api/model_v2.py", "my_api.model_v2", 2),
            ("app.py", "handler_.py", "handler_", 1),
            ("handler.py", "handler.py", "handler", 0),
            ("class.py", "_class.py", "_class", 1),
        ] {
            let mut plan = Plan::default();
            assert_eq!(plan.import(&tree, file), (target.to_owned(), module.to_owned()));
            assert_eq!(plan.moved.len(), moves, "{:?}", plan.moved);
        }
    }

    #[test]
    fn requirements_are_joined_and_lose_their_hashes() {
        let mut plan = Plan::default();
        plan.requirements_of(
            "# all\na==1 \\\n    --hash=sha256:x \\\n    --hash=sha256:y\n    # via b\n\nb[c]>=2\n",
            "r.txt",
        );
        let found: Vec<_> = plan.requirements.iter().map(|(line, place)| format!("{place} {line}")).collect();
        assert_eq!(found, ["r.txt:2 a==1", "r.txt:7 b[c]>=2"]);
    }
}
