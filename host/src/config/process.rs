//! The settings of the process: its listeners, the sandbox that handlers share, the engines' libraries, logs.
//!
//! Place in the flow: `config.rs` calls it once. In: the file's tables outside `[[endpoint]]`. Out: the
//! configurations of `server`, `plugin`, `model` and `telemetry`.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::file::Table;
use super::settings::{self as set, Setting};
use super::sources::Sources;
use super::{connection, files};
use crate::telemetry::{access_log, logs};
use crate::values::Diagnostic;
use crate::{plugin, server};

pub(super) fn server_config(sources: &mut Sources<'_>, table: &Table) -> server::Config {
    let config = server::Config {
        listen: sources.get(&set::LISTEN, table),
        admin_listen: sources.get(&set::ADMIN_LISTEN, table),
        grpc_listen: sources.get(&set::GRPC_LISTEN, table),
        model_control: sources.get(&set::MODEL_CONTROL, table),
        shared_memory: sources.get(&set::SHARED_MEMORY, table),
        metrics_on_main: sources.get(&set::METRICS_ON_MAIN, table),
        all_metrics: sources.get(&set::METRICS, table),
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

pub(super) fn plugin_config(sources: &mut Sources<'_>, table: &Table) -> plugin::Config {
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

pub(super) fn onnxruntime(sources: &mut Sources<'_>, table: &Table) -> Option<PathBuf> {
    let library = sources.get(&set::ONNXRUNTIME_LIB, table);
    files::existing_file(sources, &set::ONNXRUNTIME_LIB, table, library.as_deref());
    library
}

pub(super) fn tensorflow(sources: &mut Sources<'_>, table: &Table) -> Option<PathBuf> {
    let folder = sources.get(&set::TENSORFLOW_LIB, table)?;
    if !folder.is_dir() {
        let diagnostic = files::missing(&folder, sources.is_in_file(&set::TENSORFLOW_LIB, table));
        sources.report(sources.place(&set::TENSORFLOW_LIB, table), diagnostic);
    }
    Some(folder)
}

pub(super) fn logs_config(sources: &mut Sources<'_>, table: &Table) -> logs::Config {
    logs::Config { format: sources.get(&set::LOG_FORMAT, table), filter: sources.get(&set::LOG_LEVEL, table) }
}

/// The access log; `None` if there is none.
pub(super) fn access_log(sources: &mut Sources<'_>, table: &Table) -> Option<access_log::Config> {
    let format = sources.get(&set::ACCESS_LOG, table);
    let file = sources.get(&set::ACCESS_LOG_FILE, table);
    let share = sources.get(&set::ACCESS_LOG_SHARE, table);
    Some(access_log::Config { format: format?, file, share })
}
