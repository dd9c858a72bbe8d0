//! All capabilities: what endpoints, handlers and instances hold of each, and the loops over them.
//!
//! Place in the flow: made of the [list](super::capability_list). `config/` fills [`Settings`], `rollout/`
//! makes [`Grants`] of them; the store of an instance has [`States`]; `grants.rs`, `linkers.rs`, `lease.rs`
//! and `inspect.rs` ask all by one function.
//! Invariants: dispatch is static; what is not granted costs an instance nothing but an empty state.

pub mod blobs;
pub mod config;
pub mod jobs;
pub mod kv;
pub mod metrics;
pub mod models;
pub mod outbound;
#[cfg(test)]
mod tests;

use std::any::Any;

use serde::Serialize;
use wasmtime::component::{Linker, ResourceTable};

pub use self::blobs::Blobs;
pub use self::config::Config;
pub use self::jobs::Jobs;
pub use self::kv::Kv;
pub use self::metrics::Metrics;
pub use self::models::Models;
pub use self::outbound::Outbound;

use super::capability::{Capability, EndpointView, Kernel, View};
use super::capability_list::each_capability;
use super::limits::Limits;
use crate::request::dependencies::Dependencies;

/// The state of an instance, as its capabilities share it.
pub trait Holder: Send + 'static {
    /// The grants, the states, and the parts that all capabilities share.
    fn parts(&mut self) -> (&Grants, &mut States, Kernel<'_>);
}

macro_rules! capabilities {
    ($($name:ident: $capability:ident = $doc:literal
        $(, logs $call:ty as $draw:ident = $call_doc:literal)?;)*) => {
        /// The settings of an endpoint.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $(#[doc = $doc] pub $name: <$capability as Capability>::Settings,)*
        }

        /// The stores of a process.
        #[derive(Clone)]
        pub struct Stores {
            $(#[doc = $doc] pub $name: <$capability as Capability>::Store,)*
        }

        impl Default for Stores {
            /// Those of a process that stores nothing.
            fn default() -> Stores {
                Stores { $($name: $capability::no_store(),)* }
            }
        }

        impl Stores {
            /// Brings those series of an endpoint up to date that are not counted.
            pub fn refresh_metrics(&self, settings: &Settings, endpoint: &EndpointView<'_>) {
                $($capability::refresh_metrics(&settings.$name, endpoint, &self.$name);)*
            }

            /// Whether an endpoint with these settings has what it needs of them to be ready.
            pub fn are_ready(&self, settings: &Settings) -> bool {
                $(if !$capability::is_ready(&settings.$name, &self.$name) {
                    return false;
                })*
                true
            }

            /// Closes them. Takes as long as the disk does.
            pub fn close(&self) {
                $($capability::close(&self.$name);)*
            }
        }

        /// The grants of a handler.
        #[derive(Clone, Default)]
        pub struct Grants {
            $(#[doc = $doc] pub $name: Option<<$capability as Capability>::Granted>,)*
        }

        impl Grants {
            /// Those of an endpoint with these settings.
            ///
            /// # Errors
            /// Something that one of them needs of the system is missing: text for the operator.
            pub async fn new(
                settings: &Settings,
                endpoint: &EndpointView<'_>,
                stores: &Stores,
            ) -> Result<Grants, String> {
                Ok(Grants { $($name: $capability::grant(&settings.$name, endpoint, &stores.$name).await?,)* })
            }

            /// Whether what a handler answers may depend on one.
            pub fn are_asked(&self) -> bool {
                [$($capability::DEPENDENCY.is_some() && self.$name.is_some(),)*].contains(&true)
            }

            /// Those that there are.
            pub(super) fn set(&self) -> Set {
                Set { $($name: $capability::OF_EVERY || self.$name.is_some(),)* }
            }

            /// Whether these let a handler do the same in a replay.
            pub fn are_like(&self, other: &Grants) -> bool {
                $(let $name = match (&self.$name, &other.$name) {
                    (Some(one), Some(other)) => $capability::is_like(one, other),
                    (one, other) => one.is_none() && other.is_none(),
                };)*
                ![$($name,)*].contains(&false)
            }

            /// Most bytes that one call may bring beyond what any call may.
            pub(super) fn most_bytes(&self) -> usize {
                let most = 0;
                $(let most = self.$name.as_ref().map_or(0, $capability::most_bytes).max(most);)*
                most
            }
        }

        /// The states of an instance.
        #[derive(Default)]
        pub struct States {
            $(#[doc = $doc] pub(super) $name: <$capability as Capability>::State,)*
        }

        impl States {
            /// A run begins.
            pub(super) fn begin(&mut self) {
                $($capability::begin(&mut self.$name);)*
            }

            /// A run has ended.
            pub(super) fn end(&mut self) {
                $($capability::end(&mut self.$name);)*
            }

            /// Their own tables of handles.
            pub(super) fn tables(&mut self) -> impl Iterator<Item = &mut ResourceTable> {
                [$($capability::table(&mut self.$name),)*].into_iter().flatten()
            }

            /// Whether the instance may serve again as its guest has left it.
            pub(super) fn are_at_rest(&self, limits: &Limits) -> bool {
                $(if !$capability::is_at_rest(&self.$name, limits) {
                    return false;
                })*
                true
            }
        }

        /// A set of capabilities.
        #[derive(Debug, Clone, Copy, Serialize)]
        pub struct Set {
            $(#[doc = $doc] pub $name: bool,)*
        }

        impl Default for Set {
            /// Those that every handler has.
            fn default() -> Set {
                Set { $($name: $capability::OF_EVERY,)* }
            }
        }

        impl Set {
            /// Those that a component with these imports can use.
            pub(super) fn used_by(imports: &[String]) -> Set {
                Set { $($name: imports.iter().any(|import| $capability::is_used_by(import)),)* }
            }

            /// Whether a handler that is granted these may import this interface, named without its version.
            pub(super) fn has(self, interface: &str) -> bool {
                $(if self.$name && $capability::INTERFACES.contains(&interface) {
                    return true;
                })*
                false
            }

            /// Whether one call may bring as much as a handler may return.
            pub(super) fn bring_output(self) -> bool {
                [$($capability::BRINGS_OUTPUT && self.$name,)*].contains(&true)
            }

            /// The name of each, and what a handler does that uses it.
            pub fn rows(self) -> impl Iterator<Item = (&'static str, &'static str)> {
                let all = [$((self.$name, stringify!($name), $capability::USE),)*];
                all.into_iter().filter(|(has, ..)| *has).map(|(_, name, text)| (name, text))
            }
        }

        /// The kinds of what their answers to `init` depend on.
        pub(super) fn dependencies_of_init() -> Dependencies {
            let all = [$($capability::DEPENDENCY.filter(|_| $capability::ANSWERS_INIT),)*];
            all.into_iter().flatten().collect()
        }

        /// The interfaces that are granted by endpoints, without versions.
        pub(super) fn interfaces() -> impl Iterator<Item = &'static str> {
            [$($capability::INTERFACES,)*].into_iter().flatten().copied()
        }

        /// The hint for a handler to which these interfaces are refused, if one grant is all that it lacks.
        pub(super) fn hint(refused: &[&str]) -> Option<&'static str> {
            $(if refused.iter().all(|interface| $capability::INTERFACES.contains(interface)) {
                return Some($capability::HINT);
            })*
            None
        }

        /// The kind of a handle that a capability has given out.
        pub(super) fn handle(entry: &(dyn Any + Send)) -> Option<&'static str> {
            $(if let Some(kind) = $capability::handle(entry) {
                return Some(kind);
            })*
            None
        }

        /// Links all; without a grant their functions find nothing.
        pub(super) fn link<T: Holder>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
            $($capability::link(linker, |holder: &mut T| {
                let (granted, states, kernel) = holder.parts();
                View { granted: granted.$name.as_ref(), state: &mut states.$name, kernel }
            })?;)*
            Ok(())
        }

        /// Begins the series of an endpoint with these settings, at zero.
        pub fn begin_metrics(settings: &Settings, endpoint: &EndpointView<'_>) {
            $($capability::begin_metrics(&settings.$name, endpoint);)*
        }
    };
}

each_capability!(capabilities);
