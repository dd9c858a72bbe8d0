//! Flags, environment and config file to [`app::Config`].
//!
//! Place in the flow: `cli.rs` says what was typed, `main.rs` hands the result to the command.
//! In:   [`Overrides`] from the command line, a function that reads the environment, the config file.
//! Out:  the configuration, or every problem in one report.
//! Invariants: a flag wins over its environment twin, that over the file, that over the default; an empty
//! variable counts as unset. Relative paths of the file start from its folder, all others from the current
//! one. Nothing here opens a socket, loads a model or writes.
//!
//! [`settings`] lists what can be set, each with its reader in `read`; `file` reads TOML; `sources` finds a
//! setting's value. `process`, `endpoint` and what these call put the values together; `defaults` is what
//! comes out of nothing; `problem` is the report.

mod blobs;
mod build;
mod capabilities;
mod connection;
mod defaults;
mod differences;
mod endpoint;
mod ensemble;
mod file;
mod files;
mod gate;
mod inputs;
mod problem;
mod process;
mod read;
mod record;
mod sequences;
pub mod settings;
mod sources;
mod split;
mod store;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::build::{js_engine, libraries};
pub use self::defaults::Defaults;
pub use self::differences::differences;
pub use self::problem::Problems;
pub use self::sources::Overrides;

use self::file::{File, Table};
use self::settings::{self as set, Scope};
use self::sources::{Sources, typed};
use crate::endpoint::config::EndpointConfig;
use crate::telemetry::traces;
use crate::values::{Diagnostic, Env};
use crate::{app, model, plugin, server};

/// The configuration of `host serve`.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn serve(overrides: &Overrides, env: Env<'_>) -> Result<app::Config, Problems> {
    load(overrides, env, Scope::Serve, None)
}

/// The same, with this text in place of the config file's, if there is one.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn serve_text(overrides: &Overrides, env: Env<'_>, text: Option<&str>) -> Result<app::Config, Problems> {
    load(overrides, env, Scope::Serve, text)
}

/// The configuration of `host dev`: that of `host serve`, but handlers may have no component yet, no file of
/// theirs is watched, and callers see the detail of errors.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn dev(overrides: &Overrides, env: Env<'_>) -> Result<app::Config, Problems> {
    let mut config = load(overrides, env, Scope::Dev, None)?;
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
    load(overrides, env, Scope::Run, None)
}

/// The sandbox of commands that take no settings: as the environment says.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn sandbox(env: Env<'_>) -> Result<plugin::Config, Problems> {
    let mut sources = Sources::new(typed(&Overrides::default(), env, Scope::Run), env);
    let config = process::plugin_config(&mut sources, &Table::default());
    sources.judged(config)
}

fn load(
    overrides: &Overrides,
    env: Env<'_>,
    scope: Scope,
    text: Option<&str>,
) -> Result<app::Config, Problems> {
    let typed = typed(overrides, env, scope);
    let (file, problems) = match typed.get(set::CONFIG.flag) {
        Some((place, value)) => files::open(place, Path::new(value.as_str().unwrap_or_default()), text),
        None => (File { complete: true, ..File::default() }, Vec::new()),
    };
    let base = file.path.parent().unwrap_or(Path::new("")).to_owned();
    let mut sources = Sources { base, problems, scope, ..Sources::new(typed, env) };
    // In this order: the files with the server's keys are hidden from every endpoint.
    let server = process::server_config(&mut sources, &file.process);
    let blobs = blobs::place(&mut sources, &file.process);
    let endpoints = endpoints(&mut sources, &file);
    blobs::check(&mut sources, &file, blobs.as_ref(), &endpoints, scope);
    let kv = store::values(&mut sources, &file, &endpoints, scope);
    let jobs = store::jobs(&mut sources, &file, &endpoints, scope);
    let settings = differences::settings(&file, &endpoints);
    let config = app::Config {
        server: server::Config { splits: split::splits(&mut sources, &file, &endpoints), ..server },
        record: record::record(&mut sources, &file.process, &endpoints),
        endpoints,
        plugin: process::plugin_config(&mut sources, &file.process),
        model: model::Config {
            onnxruntime: process::onnxruntime(&mut sources, &file.process),
            tensorflow: process::tensorflow(&mut sources, &file.process),
        },
        logs: process::logs_config(&mut sources, &file.process),
        access_log: process::access_log(&mut sources, &file.process),
        traces: traces::Settings::read(env),
        kv,
        blobs,
        jobs,
        watch_config: sources.get(&set::WATCH_CONFIG, &file.process),
        settings,
    };
    sources.judged(config)
}

/// A path without links; of what is not there yet, where it will be.
fn canonical(path: &Path) -> Option<PathBuf> {
    let found = std::fs::canonicalize(path).ok();
    found.or_else(|| {
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        Some(std::fs::canonicalize(folder).ok()?.join(path.file_name()?))
    })
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
    let hidden: Arc<[PathBuf]> = std::iter::once(&file.path)
        .chain(&file.further)
        .cloned()
        .chain(models)
        .chain(std::mem::take(&mut sources.secret))
        .filter_map(|path| canonical(&path))
        .collect();
    for endpoint in &mut endpoints {
        endpoint.hidden = hidden.clone();
    }
    endpoints
}
