//! What a host serves, as a test says it: endpoints, and the configuration file that they make.
//!
//! The only place of the tests that knows how an endpoint is written down. What a test is about it writes itself, as
//! lines of TOML: a misspelt key fails where the host reads it.

use std::fmt;
use std::path::Path;

use crate::{Host, component, model, serve_command};

/// An endpoint of the configuration file.
#[derive(Debug, Clone)]
pub struct Endpoint {
    name: String,
    lines: Vec<String>,
    limits: Vec<String>,
    tables: Vec<String>,
}

impl Endpoint {
    /// An endpoint of this name, with nothing in it.
    pub fn new(name: impl fmt::Display) -> Endpoint {
        Endpoint { name: name.to_string(), lines: Vec::new(), limits: Vec::new(), tables: Vec::new() }
    }

    /// With a guest of the tests as its handler.
    pub fn guest(self, name: &str) -> Endpoint {
        self.plugin(&component(&format!("tests/{name}")))
    }

    /// With the component in this file as its handler.
    pub fn plugin(self, file: &Path) -> Endpoint {
        self.set(format!("plugin = {file:?}"))
    }

    /// With a model of the tests.
    pub fn model(self, name: &str) -> Endpoint {
        self.model_at(&model(name), "")
    }

    /// With the model at this path, loaded with these settings.
    pub fn model_at(self, path: &Path, settings: &str) -> Endpoint {
        self.set(format!("model = {}", with_settings(path, settings)))
    }

    /// With one model of the tests more, under a name.
    pub fn named_model(self, name: &str, model_name: &str, settings: &str) -> Endpoint {
        self.set(format!("models.{name} = {}", with_settings(&model(model_name), settings)))
    }

    /// With further lines of its own table.
    pub fn set(mut self, lines: impl Into<String>) -> Endpoint {
        self.lines.push(lines.into());
        self
    }

    /// With these limits, a comma between them.
    pub fn limits(mut self, limits: &str) -> Endpoint {
        self.limits.extend((!limits.is_empty()).then(|| limits.to_owned()));
        self
    }

    /// With a table within its own: `input.x`, and its lines.
    pub fn table(mut self, name: &str, lines: &str) -> Endpoint {
        self.tables.push(format!("[endpoint.{name}]\n{lines}"));
        self
    }
}

fn with_settings(path: &Path, settings: &str) -> String {
    let comma = if settings.is_empty() { "" } else { ", " };
    format!("{{ path = {path:?}{comma}{settings} }}")
}

/// Its part of the file.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[[endpoint]]\nname = {:?}", self.name)?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if !self.limits.is_empty() {
            writeln!(f, "limits = {{ {} }}", self.limits.join(", "))?;
        }
        self.tables.iter().try_for_each(|table| writeln!(f, "{table}"))
    }
}

/// A configuration file, and the arguments beside it.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    text: String,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Setup {
    /// These endpoints.
    pub fn of(endpoints: impl IntoIterator<Item = Endpoint>) -> Setup {
        Setup::default().endpoints(endpoints)
    }

    /// With these endpoints after the others.
    pub fn endpoints(self, endpoints: impl IntoIterator<Item = Endpoint>) -> Setup {
        endpoints.into_iter().fold(self, Setup::endpoint)
    }

    /// With one endpoint more.
    pub fn endpoint(mut self, endpoint: Endpoint) -> Setup {
        self.text += &endpoint.to_string();
        self
    }

    /// With further tables.
    pub fn tables(mut self, lines: impl fmt::Display) -> Setup {
        self.text += &format!("{lines}\n");
        self
    }

    /// With further arguments.
    pub fn arguments(mut self, arguments: &[&str]) -> Setup {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// With this variable in its environment.
    pub fn variable(mut self, name: &str, value: &str) -> Setup {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The file's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The host that serves it.
    pub fn serve(&self) -> Host {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &self.text).unwrap();
        let config = ["--config", file.path().to_str().unwrap()];
        let mut command = serve_command(&[&config.map(str::to_owned), &self.arguments[..]].concat());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Host::try_start(command)
            .unwrap_or_else(|(status, log)| panic!("the host ended with {status}:\n{log}"))
    }
}
