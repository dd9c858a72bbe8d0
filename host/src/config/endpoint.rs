//! One endpoint: its values to a [`deploy::EndpointConfig`].
//!
//! Place in the flow: `config.rs` calls it once for each endpoint.
//! In:   the endpoint's table of the file (empty without one) and, through [`Sources`], flags and variables.
//! Out:  an endpoint. Where a value was bad the default stands in, so that the rest is judged too; the problem
//!       recorded in [`Sources`] keeps such an endpoint from ever being served.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::file::Table;
use super::problem::Complaint;
use super::read::{self, Given, Metadata, Reading};
use super::settings::{self as set, Setting};
use super::{Sources, inputs};
use crate::arrivals::Pace;
use crate::deploy::OnFault;
use crate::deploy::breaker::Policy;
use crate::model::{Batching, Device, ModelConfig, Wait};
use crate::plugin::{Isolation, Network};
use crate::request::Protocol;
use crate::{deploy, pipeline, plugin};

/// What the model of an endpoint with one model is called where a name is needed.
const ONLY_MODEL: &str = "default";
const NAME_HINT: &str =
    "write at most 64 letters, digits, `-`, `_` and `.`, and begin with a letter or a digit";
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const MILLISECOND: Duration = Duration::from_millis(1);
/// Far longer than any request, far shorter than what the clock's arithmetic could overflow on.
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) fn endpoint(sources: &mut Sources<'_>, table: &Table) -> deploy::EndpointConfig {
    let plugin = sources.read(&set::PLUGIN, table, read::path);
    let models = models(sources, table);
    let has_model = sources.has(&set::MODEL, table) || !table.models.is_empty();
    if !sources.has(&set::PLUGIN, table) && !has_model && !table.faulty {
        let complaint = match &table.place {
            None => Complaint::new("nothing to serve", "give `--model`, `--plugin`, both, or `--config`"),
            Some(file) if file.line == 0 => {
                Complaint::new("no endpoint", "add `[[endpoint]]` with `model`, `plugin` or both")
            }
            Some(_) => Complaint::new("has neither model nor handler", "set `model`, `plugin` or both"),
        };
        sources.complain(table.place.clone(), complaint);
    }
    existing_file(sources, &set::PLUGIN, table, plugin.as_deref());
    if plugin
        .as_deref()
        .is_some_and(|path| path.extension().is_some_and(|kind| kind == "onnx" || kind == "pb"))
    {
        let complaint =
            Complaint::new("is a model", "give it with `--model`, and the handler, a `.wasm` file, here");
        sources.complain(sources.place(&set::PLUGIN, table), complaint);
    }

    let first_model = models.first().map(|(_, model)| model.path.as_path());
    let stem = [plugin.as_deref(), first_model].into_iter().flatten().find_map(Path::file_stem);
    let name = sources
        .read(&set::NAME, table, name)
        .unwrap_or_else(|| stem.map_or_else(|| "endpoint".to_owned(), |stem| tame(&stem.to_string_lossy())));
    let path = sources.read(&set::PATH, table, path).unwrap_or_else(|| format!("/{name}"));
    if !sources.has(&set::PATH, table)
        && let Some(complaint) = reserved(&path)
    {
        let place = sources.place(&set::NAME, table).or_else(|| table.place.clone());
        sources.complain(place, complaint);
    }

    let project = sources.read(&set::PROJECT, table, read::path);
    if let Some(folder) = project.as_deref().filter(|folder| !folder.is_dir()) {
        let complaint = match folder.is_file() {
            true => Complaint::new("is a file", "give the folder that holds it"),
            false => missing(folder, sources.is_in_file(&set::PROJECT, table)),
        };
        sources.complain(sources.place(&set::PROJECT, table), complaint);
    }

    let env = sources.env;
    deploy::EndpointConfig {
        metadata: metadata(sources, table),
        env: sources.read(&set::ENV, table, |given| read::variables(given, env)).unwrap_or_default(),
        response_headers: sources
            .read(&set::RESPONSE_HEADER, table, read::response_headers)
            .unwrap_or_default()
            .into(),
        isolation: sources
            .read(
                &set::ISOLATION,
                table,
                read::choice(&[("worker", Isolation::Worker), ("request", Isolation::Request)]),
            )
            .unwrap_or_default(),
        network: sources
            .read(&set::NETWORK, table, read::choice(&[("none", Network::None), ("stub", Network::Stub)]))
            .unwrap_or_default(),
        watch: sources.read(&set::WATCH, table, read::switch).unwrap_or(true),
        keys: super::edge::keys(sources, &set::KEY, table),
        record_share: sources
            .read(&set::RECORD_SHARE, table, super::record::share)
            .unwrap_or(deploy::record::Share::ALL),
        keep_model: sources.read(&set::KEEP_MODEL, table, read::switch).unwrap_or(false),
        smoke: sources.read(&set::SMOKE, table, read::switch).unwrap_or(true),
        protocols: sources
            .read(&set::PROTOCOLS, table, read::protocols)
            .unwrap_or_else(|| Protocol::ALL.map(|(_, protocol)| protocol).to_vec())
            .into(),
        bare_tensors: sources.read(&set::BARE_TENSORS, table, read::switch).unwrap_or(false),
        on_fault: sources
            .read(
                &set::ON_FAULT,
                table,
                read::choice(&[("error", OnFault::Error), ("bypass", OnFault::Bypass)]),
            )
            .unwrap_or_default(),
        breaker: breaker(sources, table),
        gate: super::gate::gate(sources, table),
        schema: inputs::schema(sources, table).map(Arc::new),
        limits: limits(sources, table),
        batching: batching(sources, table),
        name,
        path,
        plugin,
        project,
        // `config.rs` knows, once every endpoint is read.
        hidden: Vec::new(),
        models,
    }
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
        sources.complain(place, Complaint::new("names one model, and the endpoint has several", hint));
    }
    let mut models = Vec::new();
    for (name, table) in &table.models {
        if *name != tame(name) {
            let complaint = Complaint::new(format!("`{name}` is not a name"), NAME_HINT);
            sources.complain(table.place.clone(), complaint);
        }
        if sources.has(&set::MODEL, table) {
            models.extend(model(sources, table).map(|model| (name.clone(), model)));
        } else if !table.faulty {
            sources.complain(table.place.clone(), Complaint::new("is a model without a path", "set `path`"));
        }
    }
    models
}

fn model(sources: &mut Sources<'_>, table: &Table) -> Option<ModelConfig> {
    let device = sources.read(&set::DEVICE, table, device).unwrap_or_default();
    let device_memory =
        sources.read(&set::DEVICE_MEMORY, table, read::size_or_none(MIB..=1024 * GIB)).flatten();
    let instances = sources.read(&set::INSTANCES, table, read::count_or_auto(1..=256)).flatten();
    let threads = sources.read(&set::THREADS, table, read::count_or_auto(1..=1024)).flatten();
    let version = sources.read(&set::MODEL_VERSION, table, read::count(0..=usize::MAX));
    let signature_key = sources.read(&set::SIGNATURE_KEY, table, read::text);
    if !sources.has(&set::MODEL, table) {
        if let Some(entry) = table.first_under("endpoint.model.").filter(|_| !table.faulty) {
            let complaint = Complaint::new("describes a model that is not there", "set `path` beside it");
            sources.complain(Some(entry.place.clone()), complaint);
        }
        return None;
    }
    let path = sources.read(&set::MODEL, table, read::path)?;
    if !path.exists() {
        let complaint = missing(&path, sources.is_in_file(&set::MODEL, table));
        sources.complain(sources.place(&set::MODEL, table), complaint);
    }
    let version = version.map(|version| version as u64);
    Some(ModelConfig { path, version, signature_key, device, device_memory, instances, threads })
}

fn batching(sources: &mut Sources<'_>, table: &Table) -> Batching {
    let defaults = Batching::default();
    let waits = read::choice(&[("busy", Wait::Busy), ("always", Wait::Always)]);
    let batching = Batching {
        max_batch: sources
            .read(&set::MAX_BATCH, table, read::count(1..=10_000))
            .unwrap_or(defaults.max_batch),
        max_delay: sources
            .read(&set::MAX_DELAY, table, read::duration(Duration::ZERO..=DAY))
            .unwrap_or(defaults.max_delay),
        wait: sources.read(&set::BATCH_WAIT, table, waits).unwrap_or(defaults.wait),
        trust_rows: sources.read(&set::TRUST_ROWS, table, read::switch).unwrap_or(defaults.trust_rows),
    };
    let others = [&set::MAX_DELAY, &set::BATCH_WAIT, &set::TRUST_ROWS];
    if !sources.has(&set::MAX_BATCH, table)
        && let Some(place) = others.into_iter().find_map(|setting| sources.place(setting, table))
    {
        let complaint = Complaint::new("says how to batch, and batching is off", "set `max_batch` too");
        sources.complain(Some(place), complaint);
    }
    batching
}

fn breaker(sources: &mut Sources<'_>, table: &Table) -> Option<Policy> {
    let defaults = Policy::DEFAULT;
    let faults = sources.read(&set::BREAKER_FAULTS, table, read::thousandths_or_off).flatten();
    let mut duration = |setting| sources.read(setting, table, read::duration(MILLISECOND..=DAY));
    let (window, pause) = (duration(&set::BREAKER_WINDOW), duration(&set::BREAKER_PAUSE));
    let min = sources.read(&set::BREAKER_MIN, table, read::count(1..=1_000_000));
    let others = [&set::BREAKER_WINDOW, &set::BREAKER_MIN, &set::BREAKER_PAUSE];
    if !sources.has(&set::BREAKER_FAULTS, table)
        && let Some(place) = others.into_iter().find_map(|setting| sources.place(setting, table))
    {
        let complaint = Complaint::new("describes a breaker that is off", "set `faults` too, such as 0.5");
        sources.complain(Some(place), complaint);
    }
    faults.map(|faults| Policy {
        faults,
        window: window.unwrap_or(defaults.window),
        min: min.map_or(defaults.min, |min| min as u64),
        pause: pause.unwrap_or(defaults.pause),
    })
}

fn limits(sources: &mut Sources<'_>, table: &Table) -> pipeline::Limits {
    let defaults = pipeline::Limits::default();
    let mut size = |setting: &Setting, range| sources.read(setting, table, read::size(range));
    // A 32-bit guest cannot address more, and cannot do without one page.
    let memory = size(&set::MEMORY, 64 * KIB..=4 * GIB);
    let output = size(&set::OUTPUT, KIB..=GIB);
    let body = size(&set::BODY, KIB..=GIB);
    let rate = size(&set::BODY_RATE, 1..=GIB);
    let project = size(&set::PROJECT_SIZE, KIB..=64 * GIB);
    let mut timeout = |setting: &Setting| sources.read(setting, table, read::duration(MILLISECOND..=DAY));
    let pre_timeout = timeout(&set::PRE_TIMEOUT);
    let post_timeout = timeout(&set::POST_TIMEOUT);
    let init_timeout = timeout(&set::INIT_TIMEOUT);
    let request_timeout = timeout(&set::REQUEST_TIMEOUT);
    let body_timeout = timeout(&set::BODY_TIMEOUT);
    let wall_timeout =
        sources.read(&set::WALL_TIMEOUT, table, read::duration_or_auto(MILLISECOND..=DAY)).flatten();
    let concurrency = sources.read(&set::CONCURRENCY, table, read::count(1..=10_000));
    let queue = sources.read(&set::QUEUE, table, read::count(0..=1_000_000));

    let bytes =
        |size: Option<u64>, default| size.map_or(default, |size| usize::try_from(size).unwrap_or(default));
    pipeline::Limits {
        body: bytes(body, defaults.body),
        pace: Pace {
            timeout: body_timeout.unwrap_or(defaults.pace.timeout),
            rate: rate.unwrap_or(defaults.pace.rate),
        },
        concurrency: concurrency.unwrap_or(defaults.concurrency),
        queue: queue.unwrap_or(defaults.queue),
        request_timeout: request_timeout.unwrap_or(defaults.request_timeout),
        plugin: plugin::Limits {
            memory: bytes(memory, defaults.plugin.memory),
            output: bytes(output, defaults.plugin.output),
            pre_timeout: pre_timeout.unwrap_or(defaults.plugin.pre_timeout),
            post_timeout: post_timeout.unwrap_or(defaults.plugin.post_timeout),
            init_timeout: init_timeout.unwrap_or(defaults.plugin.init_timeout),
            wall_timeout,
            project: project.unwrap_or(defaults.plugin.project),
        },
    }
}

fn metadata(sources: &mut Sources<'_>, table: &Table) -> Arc<str> {
    let json = match sources.read(&set::METADATA, table, read::metadata) {
        None => "null".to_owned(),
        Some(Metadata::Json(json)) => json,
        Some(Metadata::File(file)) => {
            let json = match crate::file::text(&file) {
                Ok(text) => read::json_text(&text),
                Err(_) if !file.exists() => Err(missing(&file, sources.is_in_file(&set::METADATA, table))),
                Err(error) => Err(super::unreadable(&file, &error)),
            };
            json.unwrap_or_else(|complaint| {
                sources.complain(sources.place(&set::METADATA, table), complaint);
                "null".to_owned()
            })
        }
    };
    json.into()
}

/// Complains if `file` is not one.
pub(super) fn existing_file(
    sources: &mut Sources<'_>,
    setting: &Setting,
    table: &Table,
    file: Option<&Path>,
) {
    let Some(file) = file.filter(|file| !file.is_file()) else { return };
    let is_handler = setting.flag == set::PLUGIN.flag;
    let complaint = match (file.is_dir(), file.exists()) {
        (true, _) if is_handler => {
            Complaint::new("is a folder", "give the `.wasm` file that the build wrote into it")
        }
        (true, _) => Complaint::new("is a folder", "give a file"),
        (_, true) => Complaint::new("is not a regular file", "give a file that can be read more than once"),
        (_, false) => missing(file, sources.is_in_file(setting, table)),
    };
    sources.complain(sources.place(setting, table), complaint);
}

pub(super) fn missing(path: &Path, in_file: bool) -> Complaint {
    let base = if in_file { "the folder of the config file" } else { "the current folder" };
    Complaint::new(
        format!("there is no `{}`", path.display()),
        format!("check the path; a relative one starts from {base}"),
    )
}

fn device(given: &Given<'_>) -> Reading<Device> {
    let typed = read::text(given)?;
    let number = |text: &str| text.parse().map(Device::Cuda).ok();
    let device = match typed.as_str() {
        "auto" => Some(Device::Auto),
        "cpu" => Some(Device::Cpu),
        "cuda" => Some(Device::Cuda(0)),
        text => text.strip_prefix("cuda:").and_then(number),
    };
    device.ok_or_else(|| {
        Complaint::new(format!("`{typed}` is not a device"), "write `auto`, `cpu`, `cuda` or `cuda:N`")
    })
}

fn name(given: &Given<'_>) -> Reading<String> {
    let name = read::text(given)?;
    if name == tame(&name) {
        return Ok(name);
    }
    Err(Complaint::new(format!("`{name}` is not a name"), NAME_HINT))
}

/// `text` as a name: in metrics, logs and URLs without any escape.
fn tame(text: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String =
        text.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).chars().map(allowed).take(64).collect();
    if name.is_empty() { "endpoint".to_owned() } else { name }
}

pub(super) fn path(given: &Given<'_>) -> Reading<String> {
    let path = read::text(given)?;
    let Some(rest) = path.strip_prefix('/') else {
        let hint = format!("did you mean `/{path}`?");
        return Err(Complaint::new(format!("`{path}` does not start with `/`"), hint));
    };
    if let Some(complaint) = reserved(&path) {
        return Err(complaint);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:@".contains(&byte);
    let is_segment = |text: &str| !["", ".", ".."].contains(&text) && text.bytes().all(allowed);
    if rest.is_empty() || rest.split('/').all(is_segment) {
        return Ok(path);
    }
    Err(Complaint::new(
        format!("`{path}` is not a path"),
        "between single `/`, write letters, digits and `-`, `_`, `.`, `~`, `:`, `@`; end without `/`",
    ))
}

/// Whether the server itself answers at `path` or below it.
fn reserved(path: &str) -> Option<Complaint> {
    const OURS: [&str; 9] =
        ["metrics", "healthz", "v1", "v2", "admin", "_k", "__status__", "docs", "openapi.json"];
    let first = path.split('/').nth(1).unwrap_or_default();
    OURS.contains(&first).then(|| {
        Complaint::new(
            format!("`/{first}` is the server's own"),
            format!("choose another path, such as `/models{path}`"),
        )
    })
}
