//! What becomes of an old project: which files, which module, which endpoint.
//!
//! Place in the flow: made by the reader of each system, carried out by `from.rs`.

use serde_json::Value;

use super::yaml::Node;

/// A project to be written.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The old project: `a Truss`.
    pub(super) system: &'static str,
    /// The endpoint's name; empty for the project's.
    pub(super) endpoint: &'static str,
    /// The text of `app.py`, or what comes after the old project's own.
    pub(super) entry: String,
    /// The old file that `app.py` is.
    pub(super) own: Option<String>,
    /// Worlds that the handler's includes, and interfaces that it exports, by the contract's names.
    pub(super) includes: Vec<&'static str>,
    pub(super) exports: Vec<&'static str>,
    /// Folders of the old project and where their files go.
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

    /// Joins so many requests, or rows of them, after so many milliseconds at the latest: these keys of
    /// `[endpoint.batching]`.
    pub(super) fn batching(&mut self, [most, longest]: [&str; 2], size: u64, milliseconds: u64) {
        // A table of the endpoint, and those of others follow it.
        let table = format!("\n[endpoint.batching]\n{most} = {size}\n{longest} = \"{milliseconds}ms\"\n");
        self.tables.insert_str(0, &table);
    }

    /// `app.py` is this file, or takes the exports that it makes.
    pub(super) fn own_entry(&mut self, file: &str) {
        if file == "app.py" {
            self.own = Some(file.to_owned());
            return;
        }
        let module = file.trim_end_matches(".py").replace('/', ".");
        let init = if self.exports.contains(&"init") { "Init, " } else { "" };
        self.entry = format!(
            "\"\"\"Serves {file}.\"\"\"\n\nfrom {module} import {init}Operations, Respond  # noqa: F401\n"
        );
    }

    /// The lines of a requirements.txt.
    pub(super) fn requirements_of(&mut self, text: &str, file: &str) {
        let lines = text.lines().enumerate();
        let placed = lines.map(|(at, line)| (line.trim().to_owned(), format!("{file}:{}", at + 1)));
        self.requirements.extend(placed.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')));
    }
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
        ] {
            assert_eq!(toml(&value), expected);
        }
    }
}
