//! Where values and jobs are kept: what has to fit together.
//!
//! Place in the flow: `config.rs` calls [`values`] and [`jobs`] once for the process.
//! In: values of the configuration, each accepted by its reader. Out: a [`Place`], or diagnostics.
//! Invariant: no diagnostic repeats an address of a Redis, which may hold a password.

use std::time::Duration;

use super::connection;
use super::file::{File, Table};
use super::read::KeySource;
use super::settings::{self as set, Row, Scope, Setting};
use super::sources::Sources;
use crate::endpoint::config::EndpointConfig;
use crate::jobs::Mode;
use crate::stores::Place;
use crate::values::Diagnostic;

/// The settings of one store.
struct StoreSettings {
    store: &'static Row<Option<Place>>,
    password: &'static Row<Vec<KeySource>>,
    prefix: &'static Row<String>,
    timeout: &'static Row<Duration>,
}

static KV: StoreSettings = StoreSettings {
    store: &set::KV_STORE,
    password: &set::KV_PASSWORD,
    prefix: &set::KV_PREFIX,
    timeout: &set::KV_TIMEOUT,
};
static JOBS: StoreSettings = StoreSettings {
    store: &set::JOBS_STORE,
    password: &set::JOBS_PASSWORD,
    prefix: &set::JOBS_PREFIX,
    timeout: &set::JOBS_TIMEOUT,
};

/// Where a store is, with all that belongs to a Redis.
fn place(sources: &mut Sources<'_>, table: &Table, settings: &StoreSettings) -> Option<Place> {
    let mut place = sources.get(settings.store, table);
    let (prefix, timeout) = (sources.get(settings.prefix, table), sources.get(settings.timeout, table));
    let password = connection::secret(sources, settings.password, table);
    let store = settings.store.key;
    // Defaults that are written out say nothing.
    let of_a_redis: [(&Setting, bool); 3] = [
        (settings.password, true),
        (settings.prefix, prefix != settings.prefix.default()),
        (settings.timeout, timeout != settings.timeout.default()),
    ];
    match &mut place {
        Some(Place::Redis(redis)) => {
            (redis.prefix, redis.timeout) = (prefix, timeout);
            if password.is_some() && redis.password.is_some() {
                let message = format!("is there, and so is one in `{store}`");
                let diagnostic = Diagnostic::new(message, "take that one out");
                sources.report(sources.place(settings.password, table), diagnostic);
            }
            redis.password = password.or(redis.password.take());
        }
        _ => {
            for (setting, is_meant) in of_a_redis {
                if let Some(given) = sources.place(setting, table).filter(|_| is_meant) {
                    let hint =
                        format!("give `{store}` the address of one, `redis://HOST:PORT/0`, or leave it out");
                    sources.report(Some(given), Diagnostic::new("is of a Redis, and there is none", hint));
                }
            }
        }
    }
    place
}

/// Where handlers keep values; endpoints that may keep some need a place, but for a run that keeps none.
pub(super) fn values(
    sources: &mut Sources<'_>,
    file: &File,
    endpoints: &[EndpointConfig],
    scope: Scope,
) -> Option<Place> {
    let place = place(sources, &file.process, &KV);
    if place.is_none() && scope != Scope::Run {
        for endpoint in endpoints.iter().filter(|endpoint| !endpoint.capabilities.kv.buckets.is_empty()) {
            let message = format!("endpoint `{}` has buckets, and there is no store for them", endpoint.name);
            let hint =
                "give `--kv-store FILE|URL`, or `[kv]` with `store = \"FILE\"` or the address of a Redis";
            sources.report(file.place(), Diagnostic::new(message, hint));
        }
    }
    place
}

/// Where jobs are kept; endpoints with jobs need a place, and paths below their own for them.
pub(super) fn jobs(
    sources: &mut Sources<'_>,
    file: &File,
    endpoints: &[EndpointConfig],
    scope: Scope,
) -> Option<Place> {
    let place = place(sources, &file.process, &JOBS);
    if scope == Scope::Run {
        return place;
    }
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.jobs.mode != Mode::Off) {
        if place.is_none() {
            let message = format!("endpoint `{}` has jobs, and there is no store for them", endpoint.name);
            let hint =
                "give `--jobs-store FILE|URL`, or `[jobs]` with `store = \"FILE\"` or the address of a Redis";
            sources.report(file.place(), Diagnostic::new(message, hint));
        }
        let paths = endpoint.job_paths();
        let is_within = |path: &str| {
            let is_below = |own: &String| {
                path.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            paths.iter().any(is_below)
        };
        if let Some(other) = endpoints.iter().find(|other| is_within(&other.path)) {
            let message = format!("`{}` is where the jobs of endpoint `{}` are", other.path, endpoint.name);
            let hint = format!("give endpoint `{}` another `path`", other.name);
            sources.report(file.place(), Diagnostic::new(message, hint));
        }
    }
    place
}
