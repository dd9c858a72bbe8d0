//! What a guest may import, and the check that it imports nothing else.
//!
//! Place in the flow: [`check`] runs at load, before any guest code; [`link`] takes one of the
//! [linkers](super::linkers) that were made at start. Granted: the handler contract, clocks, random numbers,
//! standard streams (stdout and stderr go to the log, stdin is empty), the environment variables of the
//! endpoint, and a file system that holds the project and nothing else. Capabilities that the endpoint grants
//! ([the list](super::capability_list)). Under [`Network::Stub`] also sockets,
//! every one of whose calls is denied. To applications, which export `respond`, `wasi:http/incoming-handler`,
//! `wasi:http/handler` or `websocket`: their request and its response, WebSockets, sockets of the system,
//! which are denied too, and `wasi:http`, by which requests go out only to where the operator says. Not
//! granted: anything unknown.
//! Invariants: what is not granted is not linked, so a check that missed it would still not let it run (but
//! for capabilities, whose functions find nothing then); no guest ever reaches a network.

use wasmtime::component::InstancePre;

use super::bindings::{HANDLER, INCOMING_HANDLER, INTERFACES, PACKAGE, RESPOND, WEBSOCKET};
use super::compiled::Compiled;
use super::load_error::LoadError;
use super::names::{is_same, parts};
use super::outline::Outline;
use super::runtime::Runtime;
use super::settings::{HandlerConfig, Network};
use super::state::State;
use super::{capabilities, versions, wasi_async};
use crate::text::similar;

/// Every interface a guest may import beside those of capabilities, without versions.
const GRANTED: [&str; 21] = [
    "modelhost:handler/types",
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
];

const GRANT_HINT: &str = "build the handler without it; wit/README.md lists what is granted";
const STUB_HINT: &str = "handlers have no network; a language runtime that imports sockets without using them \
    (Python's does) loads with `--network stub`, which denies every call";

/// The grants of one endpoint, beyond what all handlers get.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Granted {
    /// The network that it sees.
    pub(super) network: Network,
    /// The capabilities that it has.
    pub(super) capabilities: capabilities::Set,
}

impl Granted {
    /// By its configuration.
    pub(super) fn to(config: &HandlerConfig) -> Granted {
        Granted { network: config.network, capabilities: config.grants.set() }
    }
}

/// The interfaces that [`Network::Stub`] adds.
const SOCKETS: [&str; 7] = [
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

/// Imports of applications, since those that any toolchain makes have all of it, used or not.
const HTTP: [&str; 2] = ["wasi:http/outgoing-handler", "wasi:http/types"];

/// Imports that WASI 0.3 adds.
const OF_WASI_0_3: [&str; 5] = [
    "wasi:cli/types",
    "wasi:clocks/system-clock",
    "wasi:clocks/types",
    "wasi:http/client",
    "wasi:sockets/types",
];

/// Imports that make sense in applications only.
const OF_APPLICATIONS: [&str; 3] =
    ["modelhost:handler/request", "modelhost:handler/streaming", "modelhost:handler/websockets"];

/// An interface name in its parts: `modelhost:handler/types@0.1.0`.
struct Interface<'a> {
    /// `modelhost:handler`
    package: &'a str,
    /// `modelhost:handler/types`
    unversioned: &'a str,
}

impl<'a> Interface<'a> {
    fn parse(name: &'a str) -> Interface<'a> {
        let (unversioned, _version) = parts(name);
        let package = unversioned.split_once('/').map_or(unversioned, |(package, _)| package);
        Interface { package, unversioned }
    }
}

/// Whether it is of the contract's package, and not of this version of it.
fn is_unknown(interface: &Interface<'_>) -> bool {
    let mut known = GRANTED.into_iter().chain(OF_APPLICATIONS).chain(capabilities::interfaces());
    interface.package == PACKAGE && !known.any(|known| known == interface.unversioned)
}

/// Checks contract version, imports and exports, by their names alone.
///
/// # Errors
/// [`LoadError`] that names the version, or every import which is not granted; or there is no function of the
/// contract.
pub(super) fn check(outline: &Outline, granted: Granted) -> Result<(), LoadError> {
    let Granted { network, capabilities } = granted;
    if !outline.is_whole {
        // What the compiler says of it is what is wrong with it.
        return Ok(());
    }
    if let Some(error) = versions::refused(outline) {
        return Err(error);
    }
    // A misspelt one would never be called, and nothing would say so.
    if let Some(found) = outline.exports.iter().find(|name| {
        Interface::parse(name).package == PACKAGE && !INTERFACES.iter().any(|own| is_same(name, own))
    }) {
        if let Some(error) = versions::added(found) {
            return Err(error);
        }
        let hint = match similar(found, INTERFACES) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`modelhost inspect` shows what it exports".to_owned(),
        };
        return Err(LoadError::Unknown { found: found.clone(), hint });
    }
    let is_application = outline.stages().serves_by_itself();
    let is_refused = |name: &&String| {
        let name = Interface::parse(name).unversioned;
        let is_granted = GRANTED.contains(&name)
            || SOCKETS.contains(&name) && (network == Network::Stub || is_application)
            || OF_APPLICATIONS.contains(&name) && is_application
            || HTTP.contains(&name) && is_application
            || OF_WASI_0_3.contains(&name) && outline.is_concurrent()
            || capabilities.has(name);
        !is_granted
    };
    let refused: Vec<String> = outline.imports.iter().filter(is_refused).cloned().collect();
    if !refused.is_empty() {
        let unknown = |name: &&String| is_unknown(&Interface::parse(name));
        if let Some(error) = refused.iter().find(unknown).and_then(|name| versions::added(name)) {
            return Err(error);
        }
        let interfaces: Vec<&str> = refused.iter().map(|name| Interface::parse(name).unversioned).collect();
        if let Some(hint) = capabilities::hint(&interfaces) {
            return Err(LoadError::Import { refused, hint });
        }
        let only_sockets = refused.iter().all(|name| SOCKETS.contains(&Interface::parse(name).unversioned));
        return Err(LoadError::Import { refused, hint: if only_sockets { STUB_HINT } else { GRANT_HINT } });
    }
    if outline.stages().any() { Ok(()) } else { Err(LoadError::NoHandler) }
}

/// Links a component with what it is granted.
///
/// # Errors
/// [`LoadError::Link`]: an import has the name of what is granted, and another type.
pub(super) fn link(
    compiled: &Compiled,
    runtime: &Runtime,
    granted: Granted,
) -> Result<InstancePre<State>, LoadError> {
    let (component, linkers) = (&*compiled.component, &runtime.linkers);
    let linker = match granted.network {
        _ if granted.capabilities.outbound => &linkers.application,
        _ if [RESPOND, INCOMING_HANDLER, HANDLER, WEBSOCKET]
            .iter()
            .any(|name| component.get_export_index(None, name).is_some()) =>
        {
            &linkers.application
        }
        Network::None => &linkers.none,
        Network::Stub => &linkers.stub,
    };
    let denied = wasi_async::denied(component, &runtime.engine);
    let mut modules = compiled.modules().peekable();
    if modules.peek().is_none() && denied.is_empty() {
        return linker.instantiate_pre(component).map_err(LoadError::Link);
    }
    let mut linker = linker.clone();
    for (name, module) in modules {
        linker.root().module(&name, module).map_err(LoadError::Link)?;
    }
    for (name, interface) in denied {
        wasi_async::deny(&mut linker, &name, &interface, &runtime.engine).map_err(LoadError::Link)?;
    }
    linker.instantiate_pre(component).map_err(LoadError::Link)
}
