//! Flags, environment and config file to [`app::Config`].
//!
//! Place in the flow: `cli.rs` says what was typed, `main.rs` hands the result to the command.
//! In:   [`Overrides`] from the command line, a function that reads the environment, the config file.
//! Out:  the configuration, or every problem in one report.
//! Invariants: a flag wins over its environment twin, that over the file, that over the default; an empty
//! variable counts as unset. Relative paths of the file start from its folder, all others from the current
//! one. Nothing here opens a socket, loads a model or writes.
//!
//! [`settings`] lists what can be set, with the reader of each; `file` reads TOML; `endpoint`, `inputs`,
//! `gate`, `split`, `build`, `connection` and [`serve`] put the values together; `defaults` is what comes
//! out of nothing; `problem` is the report.

mod blobs;
mod build;
mod connection;
mod defaults;
mod endpoint;
mod ensemble;
mod file;
mod gate;
mod inputs;
mod problem;
mod read;
mod record;
mod sequences;
pub mod settings;
mod split;
mod store;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::build::{JsEngine, js_engine, libraries};
pub use self::problem::Problems;

use self::file::{File, Table};
use self::problem::{Place, Problem};
use self::settings::{self as set, Kind, Row, Scope, Setting};
use crate::endpoint::config::EndpointConfig;
use crate::telemetry::logs;
use crate::values::{Diagnostic, Env, Origin, RawValue};
use crate::{app, model, plugin, server};

/// The command line: texts as typed, not judged yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides(BTreeMap<&'static str, Vec<String>>);

impl Overrides {
    /// Notes the values of `setting`'s flag; only a [`Kind::List`] may have more than one.
    pub fn set(&mut self, setting: &'static Setting, values: Vec<String>) {
        self.0.insert(setting.flag, values);
    }
}

/// The configuration of `host serve`.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn serve(overrides: &Overrides, env: Env<'_>) -> Result<app::Config, Problems> {
    load(overrides, env, Scope::Serve)
}

/// The configuration of `host dev`: that of `host serve`, but handlers may have no component yet, no file of
/// theirs is watched, and callers see the detail of errors.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn dev(overrides: &Overrides, env: Env<'_>) -> Result<app::Config, Problems> {
    let mut config = load(overrides, env, Scope::Dev)?;
    config.endpoints.iter_mut().for_each(|endpoint| endpoint.watch = false);
    config.server.debug = true;
    Ok(config)
}

/// The configuration of `host run`: exactly one endpoint, no config file; what concerns the server is
/// default.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn run(overrides: &Overrides, env: Env<'_>) -> Result<app::Config, Problems> {
    load(overrides, env, Scope::Run)
}

/// The sandbox of commands that take no settings: as the environment says.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn sandbox(env: Env<'_>) -> Result<plugin::Config, Problems> {
    let mut sources = Sources::new(typed(&Overrides::default(), env, Scope::Run), env);
    let config = plugin_config(&mut sources, &Table::default());
    sources.judged(config)
}

fn load(overrides: &Overrides, env: Env<'_>, scope: Scope) -> Result<app::Config, Problems> {
    let typed = typed(overrides, env, scope);
    let (file, problems) = match typed.get(set::CONFIG.flag) {
        Some((place, value)) => open(place, Path::new(value.as_str().unwrap_or_default())),
        None => (File { complete: true, ..File::default() }, Vec::new()),
    };
    let base = file.path.parent().unwrap_or(Path::new("")).to_owned();
    let mut sources = Sources { base, problems, scope, ..Sources::new(typed, env) };
    // In this order: the files with the server's keys are hidden from every endpoint.
    let server = server_config(&mut sources, &file.process);
    let blobs = blobs::place(&mut sources, &file.process);
    let endpoints = endpoints(&mut sources, &file);
    blobs::check(&mut sources, &file, blobs.as_ref(), &endpoints, scope);
    let kv = store::values(&mut sources, &file, &endpoints, scope);
    let jobs = store::jobs(&mut sources, &file, &endpoints, scope);
    let config = app::Config {
        server: server::Config { splits: split::splits(&mut sources, &file, &endpoints), ..server },
        record: record::record(&mut sources, &file.process, &endpoints),
        endpoints,
        plugin: plugin_config(&mut sources, &file.process),
        model: model::Config {
            onnxruntime: onnxruntime(&mut sources, &file.process),
            tensorflow: tensorflow(&mut sources, &file.process),
        },
        logs: logs_config(&mut sources, &file.process),
        kv,
        blobs,
        jobs,
    };
    sources.judged(config)
}

/// The config file at `path`, which `place` asks for.
fn open(place: &Place, path: &Path) -> (File, Vec<Problem>) {
    let diagnostic = match crate::file::text(path) {
        Ok(text) => return file::parse(path, &text),
        Err(_) if !path.exists() => endpoint::missing(path, false),
        Err(error) => unreadable(path, &error),
    };
    (File::default(), vec![diagnostic.at(place.clone())])
}

/// A path without links; of what is not there yet, where it will be.
fn canonical(path: &Path) -> Option<PathBuf> {
    let found = std::fs::canonicalize(path).ok();
    found.or_else(|| {
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        Some(std::fs::canonicalize(folder).ok()?.join(path.file_name()?))
    })
}

/// Whether an endpoint of this name would be at one of the server's own paths.
pub fn is_the_servers(name: &str) -> bool {
    read::reserved(&format!("/{name}")).is_some()
}

fn unreadable(path: &Path, error: &std::io::Error) -> Diagnostic {
    let message = format!("cannot read `{}`: {error}", path.display());
    Diagnostic::new(message, "give a text file that the host may read")
}

fn endpoints(sources: &mut Sources<'_>, file: &File) -> Vec<EndpointConfig> {
    if !file.complete {
        // What seems to be missing may well be there.
        return Vec::new();
    }
    let nothing = Table::empty(file.place());
    let tables = if file.endpoints.is_empty() { std::slice::from_ref(&nothing) } else { &file.endpoints };
    if tables.len() > 1 {
        for setting in set::ALL.iter().filter(|setting| setting.of_endpoint()) {
            if let Some((place, _)) = sources.typed.remove(setting.flag) {
                let message =
                    format!("describes one endpoint, and `{}` has {}", file.path.display(), tables.len());
                let hint = format!("set `{}` in the file", setting.key);
                sources.report(Some(place), Diagnostic::new(message, hint));
            }
        }
    }
    let mut endpoints: Vec<EndpointConfig> = Vec::new();
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for table in tables {
        let endpoint = endpoint::endpoint(sources, table);
        let taken = |setting, what: &str| {
            let place = sources.place(setting, table).or_else(|| table.place.clone());
            let message = format!("another endpoint has the {what} too");
            (place, Diagnostic::new(message, format!("give each endpoint a `{}` of its own", setting.flag)))
        };
        let is_new_name = names.insert(endpoint.name.clone());
        let is_new_path = paths.insert(endpoint.path.clone());
        let clash = match (is_new_name, is_new_path) {
            // The path follows from the name, so this is one problem, not two.
            (false, _) => Some(taken(&set::NAME, &format!("name `{}`", endpoint.name))),
            (true, false) => Some(taken(&set::PATH, &format!("path `{}`", endpoint.path))),
            (true, true) => None,
        };
        if let Some((place, diagnostic)) = clash {
            sources.report(place, diagnostic);
        }
        endpoints.push(endpoint);
    }
    for (endpoint, table) in endpoints.iter().zip(tables) {
        let of_another = |path: &&String| **path != endpoint.path && paths.contains(*path);
        if let Some(path) = endpoint.paths.iter().find(of_another) {
            let place = sources.place(&set::PATHS, table).or_else(|| table.place.clone());
            let message = format!("another endpoint has the path `{path}`, which this one would answer");
            sources.report(
                place,
                Diagnostic::new(message, "leave it out of `paths`, or give that endpoint another path"),
            );
        }
    }
    // Clients call a model of several `ENDPOINT.MODEL`, which another endpoint may be called as well.
    for endpoint in &endpoints {
        let models = endpoint.model_names();
        let models = if models.len() > 1 { models.as_slice() } else { &[] };
        for name in models.iter().map(|model| format!("{}.{model}", endpoint.name)) {
            if names.contains(&name) {
                let message = format!("endpoint `{name}` and model `{name}` could not be told apart");
                sources.report(file.place(), Diagnostic::new(message, "give one of them another name"));
            }
        }
    }
    // One endpoint's project may hold another's model or keys, and the config file the secrets of all.
    let models = endpoints.iter().flat_map(|endpoint| &endpoint.models);
    let models = models.flat_map(|(_, model)| model::location::onnx_files(&model.path));
    let hidden: Arc<[PathBuf]> = std::iter::once(file.path.clone())
        .chain(models)
        .chain(std::mem::take(&mut sources.secret))
        .filter_map(|path| canonical(&path))
        .collect();
    for endpoint in &mut endpoints {
        endpoint.hidden = hidden.clone();
    }
    endpoints
}

fn server_config(sources: &mut Sources<'_>, table: &Table) -> server::Config {
    let config = server::Config {
        listen: sources.get(&set::LISTEN, table),
        admin_listen: sources.get(&set::ADMIN_LISTEN, table),
        grpc_listen: sources.get(&set::GRPC_LISTEN, table),
        model_control: sources.get(&set::MODEL_CONTROL, table),
        shared_memory: sources.get(&set::SHARED_MEMORY, table),
        metrics_on_main: sources.get(&set::METRICS_ON_MAIN, table),
        docs: sources.get(&set::DOCS, table),
        cors_allow_origin: sources.get(&set::CORS_ALLOW_ORIGIN, table),
        debug: sources.get(&set::DEBUG, table),
        drain_timeout: sources.get(&set::DRAIN_TIMEOUT, table),
        memory: sources.get(&set::SERVER_MEMORY, table),
        tls: connection::tls(sources, table),
        tls_admin: connection::tls_admin(sources, table),
        admin_keys: connection::keys(sources, &set::ADMIN_KEY, table),
        admin_hosts: sources.get(&set::ADMIN_HOST, table),
        connections: connection::limits(sources, table),
        splits: Vec::new(),
    };
    let main: (_, &Setting, _) = (config.listen, &set::LISTEN, "endpoints");
    let admin: (_, &Setting, _) = (config.admin_listen, &set::ADMIN_LISTEN, "administration");
    let mut listeners = vec![main, admin];
    if let Some(grpc) = config.grpc_listen {
        listeners.push((grpc, &set::GRPC_LISTEN, "gRPC"));
    }
    for (index, later) in listeners.iter().enumerate() {
        for earlier in listeners.iter().take(index).filter(|earlier| same_address(earlier.0, later.0)) {
            let given = [later.1, earlier.1].map(|setting| sources.place(setting, table));
            let diagnostic = Diagnostic::new(
                format!("{} and {} would both listen on port {}", earlier.2, later.2, later.0.port()),
                format!("choose different ports with `--{}` and `--{}`", earlier.1.flag, later.1.flag),
            );
            sources.report(given.into_iter().flatten().next(), diagnostic);
        }
    }
    config
}

/// Whether binding both would fail: the same port, and an address that one of them covers for the other.
fn same_address(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && covers
}

fn plugin_config(sources: &mut Sources<'_>, table: &Table) -> plugin::Config {
    plugin::Config {
        instances: sources.get(&set::PLUGIN_INSTANCES, table),
        cache_dir: cache_dir(sources, table),
        cache_size: sources.get(&set::CACHE_SIZE, table),
    }
}

fn cache_dir(sources: &mut Sources<'_>, table: &Table) -> Option<PathBuf> {
    let chosen = sources.get(&set::CACHE_DIR, table);
    let dir = chosen.unwrap_or_else(|| {
        let folder = |name| (sources.env)(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
        Some(cache.join("modelhost"))
    });
    // The cache's path must not depend on the current folder.
    dir.map(|dir| std::path::absolute(&dir).unwrap_or(dir))
}

fn onnxruntime(sources: &mut Sources<'_>, table: &Table) -> Option<PathBuf> {
    let library = sources.get(&set::ONNXRUNTIME_LIB, table);
    endpoint::existing_file(sources, &set::ONNXRUNTIME_LIB, table, library.as_deref());
    library
}

fn tensorflow(sources: &mut Sources<'_>, table: &Table) -> Option<PathBuf> {
    let folder = sources.get(&set::TENSORFLOW_LIB, table)?;
    if !folder.is_dir() {
        let diagnostic = endpoint::missing(&folder, sources.is_in_file(&set::TENSORFLOW_LIB, table));
        sources.report(sources.place(&set::TENSORFLOW_LIB, table), diagnostic);
    }
    Some(folder)
}

fn logs_config(sources: &mut Sources<'_>, table: &Table) -> logs::Config {
    logs::Config { format: sources.get(&set::LOG_FORMAT, table), filter: sources.get(&set::LOG_LEVEL, table) }
}

/// The values of flags and variables, by the flag's name, each with its place.
type Typed = BTreeMap<&'static str, (Place, toml::Value)>;

fn typed(overrides: &Overrides, env: Env<'_>, scope: Scope) -> Typed {
    let mut typed = Typed::new();
    for setting in set::ALL.iter().filter(|setting| setting.applies_to(scope)) {
        let place = |text| Place { line: 0, text };
        let list = matches!(setting.kind, Kind::List(_));
        let given = match overrides.0.get(setting.flag) {
            Some(values) => Some((place(format!("--{}", setting.flag)), values.clone())),
            None => env(&setting.variable()).filter(|value| !value.is_empty()).map(|value| {
                let values = if list { value.split(',').map(str::to_owned).collect() } else { vec![value] };
                (place(setting.variable()), values)
            }),
        };
        if let Some((place, mut values)) = given {
            let value = match list {
                true => values.into(),
                false => values.pop().unwrap_or_default().into(),
            };
            typed.insert(setting.flag, (place, value));
        }
    }
    typed
}

/// Where values come from, and what was wrong with them so far.
struct Sources<'a> {
    typed: Typed,
    env: Env<'a>,
    /// The config file's folder.
    base: PathBuf,
    problems: Vec<Problem>,
    /// Files that hold keys.
    secret: Vec<PathBuf>,
    /// The command that they are for.
    scope: Scope,
}

impl<'a> Sources<'a> {
    fn new(typed: Typed, env: Env<'a>) -> Sources<'a> {
        let (base, scope) = (PathBuf::new(), Scope::Serve);
        Sources { typed, env, base, problems: Vec::new(), secret: Vec::new(), scope }
    }

    /// The configuration that was read, unless something was wrong with it.
    fn judged<T>(self, config: T) -> Result<T, Problems> {
        if self.problems.is_empty() { Ok(config) } else { Err(Problems::new(self.problems)) }
    }

    /// The value of `row`. Where it is set wrongly, that is recorded, and the default stands in.
    fn get<T: Clone>(&mut self, row: &'static Row<T>, table: &Table) -> T {
        let (place, raw) = match (self.typed.get(row.flag), table.get(row.key)) {
            (Some((place, value)), _) => {
                let origin = if place.text == row.variable() { Origin::Variable } else { Origin::Flag };
                let value = Cow::Borrowed(value);
                (place, RawValue { value, base: Path::new(""), origin, env: self.env })
            }
            (None, Some(entry)) => (&entry.place, self.raw(&entry.value)),
            (None, None) => return row.default(),
        };
        (row.read)(&raw).unwrap_or_else(|diagnostic| {
            let problem = diagnostic.at(place.clone());
            self.problems.push(problem);
            row.default()
        })
    }

    /// A value of the file.
    fn raw<'b>(&'b self, value: &'b toml::Value) -> RawValue<'b> {
        RawValue { value: Cow::Borrowed(value), base: &self.base, origin: Origin::File, env: self.env }
    }

    /// Whether `setting` is set at all, rightly or not.
    fn has(&self, setting: &Setting, table: &Table) -> bool {
        self.place(setting, table).is_some()
    }

    /// Whether `setting` is set outside the config file.
    fn is_typed(&self, setting: &Setting) -> bool {
        self.typed.contains_key(setting.flag)
    }

    /// Whether the value that counts stands in the config file.
    fn is_in_file(&self, setting: &Setting, table: &Table) -> bool {
        !self.typed.contains_key(setting.flag) && table.get(setting.key).is_some()
    }

    /// Where the value that counts is set.
    fn place(&self, setting: &Setting, table: &Table) -> Option<Place> {
        let typed = self.typed.get(setting.flag).map(|(place, _)| place);
        typed.or_else(|| table.get(setting.key).map(|entry| &entry.place)).cloned()
    }

    /// Records a problem; without a place it concerns the command line as a whole.
    fn report(&mut self, place: Option<Place>, diagnostic: Diagnostic) {
        let place = place.unwrap_or_else(|| Place { line: 0, text: "command line".to_owned() });
        self.problems.push(diagnostic.at(place));
    }
}
