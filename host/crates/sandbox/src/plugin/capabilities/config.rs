//! `wasi:config` as a capability: settings by name, for components that were made for other hosts.
//!
//! Place in the flow: an entry of the list of capabilities, which every handler has; called while any
//! function of a handler runs. In: a name. Out: the value of the endpoint's granted variable of that name,
//! else of the top-level member of its metadata.
//! Source: <https://github.com/WebAssembly/wasi-config>, in the drafts that are in use, which differ in the
//! names of interface and error alone.

use serde_json::{Map, Value};
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

use crate::plugin::capability::{Capability, EndpointView, View};
use crate::request::dependencies::Dependency;

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

/// Settings by name.
pub struct Config;

impl Capability for Config {
    /// The values are those of the endpoint's `env` and `metadata`.
    type Settings = ();
    type Store = ();
    type Granted = ();
    type State = ();
    /// A recording has the metadata, and no variables.
    type Recorded = ();

    const INTERFACES: &'static [&'static str] = &["wasi:config/runtime", "wasi:config/store"];
    const HINT: &'static str = "every handler may read its settings";
    const DEPENDENCY: Option<Dependency> = None;
    const USE: &'static str = "it reads its endpoint's `env` and `metadata` by `wasi:config`";
    const OF_EVERY: bool = true;

    fn no_store() {}

    async fn grant((): &(), _: &EndpointView<'_>, (): &()) -> Result<Option<()>, String> {
        Ok(Some(()))
    }

    fn is_used_by(import: &str) -> bool {
        import.starts_with("wasi:config/")
    }

    fn link<T: Send + 'static>(
        linker: &mut Linker<T>,
        view: fn(&mut T) -> View<'_, Config>,
    ) -> wasmtime::Result<()> {
        for draft in DRAFTS {
            let mut instance = linker.instance(draft)?;
            instance.func_wrap("get", move |mut store: StoreContextMut<'_, T>, (name,): (String,)| {
                Ok((Ok::<_, Error>(view(store.data_mut()).value(&name)),))
            })?;
            instance.func_wrap("get-all", move |mut store: StoreContextMut<'_, T>, (): ()| {
                Ok((Ok::<_, Error>(view(store.data_mut()).all()),))
            })?;
        }
        Ok(())
    }

    fn begin((): &mut ()) {}

    fn recorded(_: Option<&()>) {}

    fn replayed((): &(), (): &()) -> Option<()> {
        Some(())
    }
}

impl View<'_, Config> {
    fn value(&self, name: &str) -> Option<String> {
        let variable = self.kernel.env.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        variable.or_else(|| self.metadata().get(name).map(text))
    }

    /// The variables, then what of the metadata they do not hide.
    fn all(&self) -> Vec<(String, String)> {
        let variables = self.kernel.env.iter().cloned();
        let is_hidden = |name: &str| self.kernel.env.iter().any(|(own, _)| own == name);
        let members = self.metadata().into_iter().filter(|(name, _)| !is_hidden(name));
        variables.chain(members.map(|(name, value)| (name, text(&value)))).collect()
    }

    /// The members of the endpoint's metadata; none if it is no object.
    fn metadata(&self) -> Map<String, Value> {
        serde_json::from_str(self.kernel.metadata).unwrap_or_default()
    }
}

/// A string as it is, any other value as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
