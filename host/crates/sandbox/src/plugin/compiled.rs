//! The code that instances of a component are made from.
//!
//! Place in the flow: [`super::Sandbox`] makes it, or finds it in its cache; `grants.rs` links it. In: a
//! component that was compiled. Out: it, with the modules that it imports.
//! Invariants: of a module that components have in common, and of a frame, there is one copy in the process;
//! with a frame come all the states that it imports.

use std::ops::Range;
use std::sync::Arc;

use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;
use wasmtime::{Engine, Module};

use super::compiler::{ModuleImport, frame_in, import_name, state_name};

/// A component's code.
pub(super) struct Compiled {
    /// The whole of it, or the frame.
    pub(super) component: Arc<Component>,
    /// The modules that it has in common with others, and their digests.
    shared: Vec<(String, Arc<Module>)>,
    /// The states that its instances begin with, by numbers, if the component is a frame.
    states: Vec<Module>,
}

impl Compiled {
    /// One that imports no modules.
    pub(super) fn whole(component: Component) -> Compiled {
        Compiled { component: Arc::new(component), shared: Vec::new(), states: Vec::new() }
    }

    /// The modules that it imports, by name.
    pub(super) fn modules(&self) -> impl Iterator<Item = (String, &Module)> {
        let shared = self.shared.iter().map(|(digest, module)| (import_name(digest), &**module));
        shared.chain((0..).zip(&self.states).map(|(number, module)| (state_name(number), module)))
    }

    /// Bytes that it alone takes, and those that it has in common with others.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let size = |range: Range<*const u8>| (range.end as usize).saturating_sub(range.start as usize);
        let of_all = |modules: &mut dyn Iterator<Item = &Module>| -> usize {
            modules.map(|module| size(module.image_range())).sum()
        };
        let component = size(self.component.image_range());
        match self.states.is_empty() {
            true => (component, 0),
            false => {
                let shared = of_all(&mut self.shared.iter().map(|(_, module)| &**module));
                (of_all(&mut self.states.iter()), component + shared)
            }
        }
    }
}

/// The frame of a component and what it has in common with others, compiled: all but its states.
pub(super) struct Apart {
    /// The frame's.
    pub(super) digest: String,
    pub(super) frame: Arc<Component>,
    /// With their digests.
    pub(super) shared: Vec<(String, Arc<Module>)>,
}

impl Apart {
    /// With the states that it imports, by their numbers.
    pub(super) fn with(&self, states: Vec<Module>) -> Compiled {
        Compiled { component: self.frame.clone(), shared: self.shared.clone(), states }
    }
}

/// The digests of the modules that a frame has in common with others, and how many states it imports.
pub(super) fn parts(frame: &Component, engine: &Engine) -> (Vec<String>, usize) {
    let (mut shared, mut states) = (Vec::new(), 0);
    for (name, import) in frame.component_type().imports(engine) {
        match ModuleImport::of(name).filter(|_| matches!(import.ty, ComponentItem::Module(_))) {
            Some(ModuleImport::Shared(digest)) => shared.push(digest.to_owned()),
            Some(ModuleImport::State) => states += 1,
            None => {}
        }
    }
    (shared, states)
}

/// The digest of the frame that a state is for, and the number that it shares with those that it belongs to.
pub(super) fn frame_of(state: &Module) -> Option<(String, String)> {
    let (digest, run) = state.exports().find_map(|export| frame_in(export.name()))?;
    Some((digest.to_owned(), run.to_owned()))
}
