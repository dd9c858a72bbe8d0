//! One endpoint: its values to a [`EndpointConfig`].
//!
//! Place in the flow: `config.rs` calls it once for each endpoint.
//! In:   the endpoint's table of the file (empty without one) and, through [`Sources`], flags and variables.
//! Out:  an endpoint. Where a value was bad the default stands in, so that the rest is judged too; the
//!       problem recorded in [`Sources`] keeps such an endpoint from ever being served.

use std::path::Path;
use std::sync::Arc;

use super::file::Table;
use super::files::{existing_file, missing, unreadable};
use super::inputs;
use super::read::{self, Granted, Metadata, NAME_HINT, reserved, tame};
use super::settings::{self as set, Scope, Setting};
use super::sources::Sources;
use crate::arrivals::BodyRate;
use crate::endpoint::breaker::Policy;
use crate::endpoint::config::{CacheConfig, EndpointConfig, TrackerConfig};
use crate::jobs::Mode;
use crate::model::{Batching, ModelConfig, Wait};
use crate::request::Protocol;
use crate::request::socket::SocketLimits;
use crate::schema::raw_body::{RawBody, RawExample};
use crate::values::Diagnostic;
use crate::{jobs, pipeline, plugin};

/// The name of the model of an endpoint with one model, where a name is needed.
const ONLY_MODEL: &str = "default";

pub(super) fn endpoint(sources: &mut Sources<'_>, table: &Table) -> EndpointConfig {
    let plugin = sources.get(&set::PLUGIN, table);
    let models = models(sources, table);
    let has_model = sources.has(&set::MODEL, table) || !table.models.is_empty();
    if !sources.has(&set::PLUGIN, table) && !has_model && !table.faulty {
        let diagnostic = match &table.place {
            None if sources.scope == Scope::Run => {
                Diagnostic::new("nothing to run", "give `--model`, `--plugin` or both")
            }
            None => Diagnostic::new("nothing to serve", "give `--model`, `--plugin`, both, or `--config`"),
            Some(file) if file.line == 0 => {
                Diagnostic::new("no endpoint", "add `[[endpoint]]` with `model`, `plugin` or both")
            }
            Some(_) => Diagnostic::new("has neither model nor handler", "set `model`, `plugin` or both"),
        };
        sources.report(table.place.clone(), diagnostic);
    }
    let is_built = |path: &&Path| sources.scope != Scope::Dev || path.exists();
    existing_file(sources, &set::PLUGIN, table, plugin.as_deref().filter(is_built));
    if plugin
        .as_deref()
        .is_some_and(|path| path.extension().is_some_and(|kind| kind == "onnx" || kind == "pb"))
    {
        let diagnostic =
            Diagnostic::new("is a model", "give it with `--model`, and the handler, a `.wasm` file, here");
        sources.report(sources.place(&set::PLUGIN, table), diagnostic);
    }

    let first_model = models.first().map(|(_, model)| model.path.as_path());
    let stem = [plugin.as_deref(), first_model].into_iter().flatten().find_map(Path::file_stem);
    let name = sources
        .get(&set::NAME, table)
        .unwrap_or_else(|| stem.map_or_else(|| "endpoint".to_owned(), |stem| tame(&stem.to_string_lossy())));
    let path = sources.get(&set::PATH, table).unwrap_or_else(|| format!("/{name}"));
    if !sources.has(&set::PATH, table)
        && let Some(diagnostic) = reserved(&path)
    {
        let place = sources.place(&set::NAME, table).or_else(|| table.place.clone());
        sources.report(place, diagnostic);
    }

    let project = sources.get(&set::PROJECT, table);
    if let Some(folder) = project.as_deref().filter(|folder| !folder.is_dir()) {
        let diagnostic = match folder.is_file() {
            true => Diagnostic::new("is a file", "give the folder that holds it"),
            false => missing(folder, sources.is_in_file(&set::PROJECT, table)),
        };
        sources.report(sources.place(&set::PROJECT, table), diagnostic);
    }

    let limits = limits(sources, table);
    let (paths, jobs) = (sources.get(&set::PATHS, table), jobs(sources, table));
    let of_http: [(&Setting, bool); 2] =
        [(&set::PATHS, !paths.is_empty()), (&set::JOBS, jobs.mode != Mode::Off)];
    EndpointConfig {
        metadata: metadata(sources, table),
        env: variables(sources, table),
        paths,
        readiness: sources.get(&set::READINESS, table),
        response_headers: sources.get(&set::RESPONSE_HEADER, table).into(),
        capabilities: super::capabilities::settings(sources, table),
        jobs,
        isolation: sources.get(&set::ISOLATION, table),
        reuse_instances: sources.get(&set::REUSE_INSTANCES, table),
        network: sources.get(&set::NETWORK, table),
        watch: sources.get(&set::WATCH, table),
        keys: super::connection::keys(sources, &set::KEY, table),
        record_share: sources.get(&set::RECORD_SHARE, table),
        keep_model: sources.get(&set::KEEP_MODEL, table),
        smoke: sources.get(&set::SMOKE, table),
        protocols: protocols(sources, table, of_http).into(),
        bare_tensors: sources.get(&set::BARE_TENSORS, table),
        on_fault: sources.get(&set::ON_FAULT, table),
        breaker: breaker(sources, table),
        response_cache: response_cache(sources, table),
        tracker: tracker(sources, table),
        gate: super::gate::gate(sources, table),
        schema: inputs::schema(sources, table).map(Arc::new),
        raw_body: raw_body(sources, table, limits.body).map(Arc::new),
        request_batching: request_batching(sources, table, limits.concurrency),
        limits,
        ensemble: super::ensemble::ensemble(sources, table, &models),
        batching: batching(sources, table),
        name,
        path,
        plugin,
        project,
        // `config.rs` knows, once every endpoint is read.
        hidden: Arc::default(),
        models,
    }
}

/// The protocols that reach the endpoint. Reports those of `of_http`, with whether they are in use, that need
/// another.
fn protocols(sources: &mut Sources<'_>, table: &Table, of_http: [(&Setting, bool); 2]) -> Vec<Protocol> {
    let protocols = sources.get(&set::PROTOCOLS, table);
    if !protocols.contains(&Protocol::Http) {
        for (setting, _) in of_http.into_iter().filter(|(_, is_used)| *is_used) {
            let place = sources.place(setting, table);
            let hint = "add `http` to `protocols`, or leave it out";
            sources.report(place, Diagnostic::new("is for an endpoint that HTTP reaches", hint));
        }
    }
    protocols
}

/// The endpoint's models by name, in the order of the file.
fn models(sources: &mut Sources<'_>, table: &Table) -> Vec<(String, ModelConfig)> {
    if table.models.is_empty() {
        let only = model(sources, table).map(|model| (ONLY_MODEL.to_owned(), model));
        return only.into_iter().collect();
    }
    if table.models.len() > 1 && sources.is_typed(&set::MODEL) {
        let place = sources.place(&set::MODEL, table);
        let hint = "leave it out, or give the path in the file";
        sources.report(place, Diagnostic::new("names one model, and the endpoint has several", hint));
    }
    let mut models = Vec::new();
    for (name, table) in &table.models {
        if *name != tame(name) {
            let diagnostic = Diagnostic::new(format!("`{name}` is not a name"), NAME_HINT);
            sources.report(table.place.clone(), diagnostic);
        }
        if sources.has(&set::MODEL, table) {
            models.extend(model(sources, table).map(|model| (name.clone(), model)));
        } else if !table.faulty {
            sources.report(table.place.clone(), Diagnostic::new("is a model without a path", "set `path`"));
        }
    }
    models
}

fn model(sources: &mut Sources<'_>, table: &Table) -> Option<ModelConfig> {
    let path = sources.get(&set::MODEL, table);
    let model = ModelConfig {
        path: path.clone().unwrap_or_default(),
        version: sources.get(&set::MODEL_VERSION, table),
        others: sources.get(&set::MODEL_VERSIONS, table).saturating_sub(1),
        watch: sources.get(&set::WATCH_MODEL, table),
        signature_key: sources.get(&set::SIGNATURE_KEY, table),
        labels: sources.get(&set::LABELS, table),
        state: sources.get(&set::STATE, table),
        device: sources.get(&set::DEVICE, table),
        device_memory: sources.get(&set::DEVICE_MEMORY, table),
        sessions: sources.get(&set::INSTANCES, table),
        threads: sources.get(&set::THREADS, table),
    };
    if !sources.has(&set::MODEL, table) {
        if let Some(entry) = table.first_under("endpoint.model.").filter(|_| !table.faulty) {
            let diagnostic = Diagnostic::new("describes a model that is not there", "set `path` beside it");
            sources.report(Some(entry.place.clone()), diagnostic);
        }
        return None;
    }
    let path = path?;
    if !path.exists() {
        let diagnostic = missing(&path, sources.is_in_file(&set::MODEL, table));
        sources.report(sources.place(&set::MODEL, table), diagnostic);
    } else if path.extension().is_some_and(|kind| kind == "wasm") {
        let diagnostic = Diagnostic::new("is a handler", "give it with `--plugin`, and the model here");
        sources.report(sources.place(&set::MODEL, table), diagnostic);
    }
    Some(model)
}

/// How requests share runs.
pub(super) fn batching(sources: &mut Sources<'_>, table: &Table) -> Batching {
    let others: [&Setting; 3] = [&set::MAX_DELAY, &set::BATCH_WAIT, &set::TRUST_ROWS];
    if !sources.has(&set::MAX_BATCH, table)
        && let Some(place) = others.into_iter().find_map(|setting| sources.place(setting, table))
    {
        let diagnostic = Diagnostic::new("says how to batch, and batching is off", "set `max_batch` too");
        sources.report(Some(place), diagnostic);
    }
    Batching {
        max_batch: sources.get(&set::MAX_BATCH, table),
        max_delay: sources.get(&set::MAX_DELAY, table),
        wait: sources.get(&set::BATCH_WAIT, table),
        trust_rows: sources.get(&set::TRUST_ROWS, table),
    }
}

/// How requests share calls of the handler.
fn request_batching(sources: &mut Sources<'_>, table: &Table, concurrency: usize) -> Batching {
    let max_batch = sources.get(&set::MAX_REQUESTS, table);
    let max_delay = sources.get(&set::REQUEST_DELAY, table);
    if max_batch > concurrency {
        let message = format!("no batch would ever be full: `limits.concurrency` is {concurrency}");
        let place = sources.place(&set::MAX_REQUESTS, table);
        sources.report(place, Diagnostic::new(message, "raise `limits.concurrency`, or lower this"));
    }
    if !sources.has(&set::MAX_REQUESTS, table)
        && let Some(place) = sources.place(&set::REQUEST_DELAY, table)
    {
        let hint = "set `max_requests` too";
        sources
            .report(Some(place), Diagnostic::new("says how to batch, and batching of requests is off", hint));
    }
    Batching { max_batch, max_delay, wait: Wait::Always, trust_rows: false }
}

fn breaker(sources: &mut Sources<'_>, table: &Table) -> Option<Policy> {
    let others: [&Setting; 3] = [&set::BREAKER_WINDOW, &set::BREAKER_MIN, &set::BREAKER_PAUSE];
    if !sources.has(&set::BREAKER_FAULTS, table)
        && let Some(place) = others.into_iter().find_map(|setting| sources.place(setting, table))
    {
        let diagnostic = Diagnostic::new("describes a breaker that is off", "set `faults` too, such as 0.5");
        sources.report(Some(place), diagnostic);
    }
    let faults = sources.get(&set::BREAKER_FAULTS, table);
    let window = sources.get(&set::BREAKER_WINDOW, table);
    let min = sources.get(&set::BREAKER_MIN, table);
    let pause = sources.get(&set::BREAKER_PAUSE, table);
    faults.map(|faults| Policy { faults, window, min, pause })
}

/// The answers that are kept.
fn response_cache(sources: &mut Sources<'_>, table: &Table) -> Option<CacheConfig> {
    let others: [&Setting; 3] =
        [&set::RESPONSE_CACHE_TTL, &set::RESPONSE_CACHE_HEADERS, &set::RESPONSE_CACHE_ALLOW];
    if !sources.has(&set::RESPONSE_CACHE, table)
        && let Some(place) = others.into_iter().find_map(|setting| sources.place(setting, table))
    {
        let hint = "set `response_cache.size` too, such as \"64MiB\"";
        sources.report(Some(place), Diagnostic::new("describes a response cache that is off", hint));
    }
    let ttl = sources.get(&set::RESPONSE_CACHE_TTL, table);
    let mut headers = sources.get(&set::RESPONSE_CACHE_HEADERS, table);
    let allowed = sources.get(&set::RESPONSE_CACHE_ALLOW, table).into_iter().collect();
    // The key has it in any case.
    headers.push("content-type".to_owned());
    let size = sources.get(&set::RESPONSE_CACHE, table);
    size.map(|size| CacheConfig { size, ttl, headers: headers.into(), allowed })
}

/// The predictions that are counted.
fn tracker(sources: &mut Sources<'_>, table: &Table) -> Option<TrackerConfig> {
    let (key, kind) = (sources.get(&set::TRACKER_KEY, table), sources.get(&set::TRACKER_MODEL_TYPE, table));
    if kind.is_none()
        && let Some(place) = sources.place(&set::TRACKER_KEY, table)
    {
        let hint = "set `tracker.model_type` too: `classification` or `regression`";
        sources.report(Some(place), Diagnostic::new("names a prediction of no kind", hint));
    }
    kind.map(|kind| TrackerConfig { key, kind })
}

/// The jobs of an endpoint.
fn jobs(sources: &mut Sources<'_>, table: &Table) -> jobs::Config {
    jobs::Config {
        mode: sources.get(&set::JOBS, table),
        concurrency: sources.get(&set::JOB_CONCURRENCY, table),
        quota: jobs::Quota {
            queue: sources.get(&set::JOB_QUEUE, table),
            bytes: sources.get(&set::JOB_BYTES, table),
        },
        keep: sources.get(&set::JOB_KEEP, table),
        attempts: sources.get(&set::JOB_ATTEMPTS, table),
        timeout: sources.get(&set::JOB_TIMEOUT, table),
        submissions: sources.get(&set::JOB_SUBMISSIONS, table),
        depth: sources.get(&set::JOB_DEPTH, table),
        webhooks: jobs::WebhookConfig {
            secrets: super::connection::webhook_secrets(sources, table),
            attempts: sources.get(&set::WEBHOOK_ATTEMPTS, table),
            timeout: sources.get(&set::WEBHOOK_TIMEOUT, table),
        },
    }
}

/// The limits of a request, and of its handler.
pub(super) fn limits(sources: &mut Sources<'_>, table: &Table) -> pipeline::Limits {
    pipeline::Limits {
        body: sources.get(&set::BODY, table),
        body_rate: BodyRate {
            timeout: sources.get(&set::BODY_TIMEOUT, table),
            rate: sources.get(&set::BODY_RATE, table),
        },
        concurrency: sources.get(&set::CONCURRENCY, table),
        queue: sources.get(&set::QUEUE, table),
        request_timeout: sources.get(&set::REQUEST_TIMEOUT, table),
        sockets: SocketLimits {
            open: sources.get(&set::SOCKETS, table),
            message: sources.get(&set::SOCKET_MESSAGE, table),
            rate: sources.get(&set::SOCKET_RATE, table),
            idle: sources.get(&set::SOCKET_IDLE, table),
        },
        sequences: super::sequences::limits(sources, table),
        plugin: handler_limits(sources, table),
    }
}

/// The limits of a handler.
pub(super) fn handler_limits(sources: &mut Sources<'_>, table: &Table) -> plugin::Limits {
    plugin::Limits {
        memory: sources.get(&set::MEMORY, table),
        output: sources.get(&set::OUTPUT, table),
        pre_timeout: sources.get(&set::PRE_TIMEOUT, table),
        post_timeout: sources.get(&set::POST_TIMEOUT, table),
        init_timeout: sources.get(&set::INIT_TIMEOUT, table),
        stream_timeout: sources.get(&set::STREAM_TIMEOUT, table),
        background_timeout: sources.get(&set::BACKGROUND_TIMEOUT, table),
        tensors: sources.get(&set::TENSORS, table),
        tensor_memory: sources.get(&set::TENSOR_MEMORY, table),
        model_runs: sources.get(&set::MODEL_RUNS, table),
        weight: sources.get(&set::WEIGHT, table),
        wall_timeout: sources.get(&set::WALL_TIMEOUT, table),
        project: sources.get(&set::PROJECT_SIZE, table),
    }
}

/// The granted variables. Those that are in files are read, without the line's end, and the files hidden
/// from every project.
fn variables(sources: &mut Sources<'_>, table: &Table) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (name, granted) in sources.get(&set::ENV, table) {
        let value = match granted {
            Granted::Value(value) => Ok(value),
            Granted::File(path) => {
                sources.secret.push(path.clone());
                match crate::file::text(&path) {
                    Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
                    Err(_) if !path.exists() => Err(missing(&path, true)),
                    Err(error) => Err(unreadable(&path, &error)),
                }
            }
        };
        match value {
            Ok(value) => variables.push((name, value)),
            Err(diagnostic) => {
                let place = sources.place(&set::ENV, table);
                let message = format!("`{name}`: {}", diagnostic.message);
                sources.report(place, Diagnostic { message, ..diagnostic });
            }
        }
    }
    variables
}

fn metadata(sources: &mut Sources<'_>, table: &Table) -> Arc<str> {
    let json = match sources.get(&set::METADATA, table) {
        Metadata::Json(json) => json,
        Metadata::File(file) => {
            let json = match crate::file::text(&file) {
                Ok(text) => read::json_text(&text),
                Err(_) if !file.exists() => Err(missing(&file, sources.is_in_file(&set::METADATA, table))),
                Err(error) => Err(unreadable(&file, &error)),
            };
            json.unwrap_or_else(|diagnostic| {
                sources.report(sources.place(&set::METADATA, table), diagnostic);
                "null".to_owned()
            })
        }
    };
    json.into()
}

/// The files that a body has to be one of, if it is one.
fn raw_body(sources: &mut Sources<'_>, table: &Table, limit: usize) -> Option<RawBody> {
    let mut media_types = sources.get(&set::BODY_MEDIA_TYPES, table);
    let file = sources.get(&set::BODY_EXAMPLE, table);
    if let Some(input) = table.inputs.first().filter(|_| file.is_some() || !media_types.is_empty()) {
        let hint = "leave out `body` or `input`";
        let diagnostic = Diagnostic::new("declares the inputs of a body that is a file", hint);
        sources.report(input.1.place.clone(), diagnostic);
    }
    existing_file(sources, &set::BODY_EXAMPLE, table, file.as_deref());
    let read = |file: &Path| crate::file::read(file, limit as u64);
    let example = file.as_deref().filter(|file| file.is_file()).and_then(|file| match read(file) {
        Ok(body) => {
            Some(RawExample { media_type: crate::file::media_type(file).to_owned(), body: body.into() })
        }
        Err(error) => {
            sources.report(sources.place(&set::BODY_EXAMPLE, table), unreadable(file, &error));
            None
        }
    });
    if media_types.is_empty() {
        // What the example is.
        media_types.extend(example.iter().map(|example| example.media_type.clone()));
    }
    let raw_body = RawBody { media_types, example };
    if let Some(RawExample { media_type, .. }) = &raw_body.example
        && !raw_body.takes(media_type)
    {
        let diagnostic = Diagnostic::new(
            format!("is `{media_type}` by its extension, which is none of the `media_types`"),
            "add the type, or give another file",
        );
        sources.report(sources.place(&set::BODY_EXAMPLE, table), diagnostic);
    }
    (!raw_body.media_types.is_empty()).then_some(raw_body)
}
