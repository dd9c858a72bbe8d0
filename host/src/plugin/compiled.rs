//! The code that instances of a component are made from.
//!
//! Place in the flow: [`super::Sandbox`] makes it, or finds it in its cache; `grants.rs` links it. In: a
//! component that was compiled. Out: it, with the modules that it imports.
//! Invariant: of a module that components have in common there is one copy in the process.

use std::ops::Range;
use std::sync::Arc;

use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;
use wasmtime::{Engine, Module};

use super::compiler::digest_in;

/// A component's code.
pub(super) struct Compiled {
    pub(super) component: Component,
    /// The modules that it has in common with others, by the names that it imports them by.
    pub(super) modules: Vec<(String, Arc<Module>)>,
}

impl Compiled {
    /// Bytes that it alone takes, and those that it has in common with others.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let size = |range: Range<*const u8>| (range.end as usize).saturating_sub(range.start as usize);
        let shared = self.modules.iter().map(|(_, module)| size(module.image_range())).sum();
        (size(self.component.image_range()), shared)
    }
}

/// The names and digests of the modules that a component has in common with others.
pub(super) fn shared_modules(component: &Component, engine: &Engine) -> Vec<(String, String)> {
    let imports = component.component_type();
    let modules = imports.imports(engine).filter_map(|(name, import)| {
        let digest = digest_in(name)?.to_owned();
        matches!(import.ty, ComponentItem::Module(_)).then(|| (name.to_owned(), digest))
    });
    modules.collect()
}
