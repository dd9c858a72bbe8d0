//! `wasi:config`: settings by name, for components that were made for other hosts.
//!
//! Place in the flow: linked by [`grants`](super::grants), called while any function of a handler runs. In: a
//! name. Out: the value of the endpoint's granted variable of that name, else of the top-level member of its
//! metadata.
//! Source: <https://github.com/WebAssembly/wasi-config>, in the drafts that are in use, which differ in the
//! names of interface and error alone.

use serde_json::{Map, Value};
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use super::settings::HandlerConfig;
use super::state::State;

/// Its interfaces, without versions.
pub(super) const INTERFACES: [&str; 2] = ["wasi:config/runtime", "wasi:config/store"];

/// The drafts that are in use: of wasmtime and Spin, and of wasmCloud.
const DRAFTS: [&str; 3] =
    ["wasi:config/store@0.2.0-rc.1", "wasi:config/store@0.2.0-draft", "wasi:config/runtime@0.2.0-draft"];

/// The error of the drafts. Values that are in memory have none.
#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum Error {
    #[component(name = "upstream")]
    Upstream(String),
    #[component(name = "io")]
    Io(String),
}

/// Links all drafts.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    for draft in DRAFTS {
        let mut instance = linker.instance(draft)?;
        instance.func_wrap("get", |store: StoreContextMut<'_, State>, (name,): (String,)| {
            Ok((Ok::<_, Error>(value(&store.data().loaded.config, &name)),))
        })?;
        instance.func_wrap("get-all", |store: StoreContextMut<'_, State>, (): ()| {
            Ok((Ok::<_, Error>(all(&store.data().loaded.config)),))
        })?;
    }
    Ok(())
}

fn value(config: &HandlerConfig, name: &str) -> Option<String> {
    let variable = config.env.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    variable.or_else(|| metadata(config).get(name).map(text))
}

/// The variables, then what of the metadata they do not hide.
fn all(config: &HandlerConfig) -> Vec<(String, String)> {
    let variables = config.env.iter().cloned();
    let is_hidden = |name: &str| config.env.iter().any(|(own, _)| own == name);
    let members = metadata(config).into_iter().filter(|(name, _)| !is_hidden(name));
    variables.chain(members.map(|(name, value)| (name, text(&value)))).collect()
}

/// The members of the endpoint's metadata; none if it is no object.
fn metadata(config: &HandlerConfig) -> Map<String, Value> {
    serde_json::from_str(&config.metadata).unwrap_or_default()
}

/// A string as it is, any other value as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
