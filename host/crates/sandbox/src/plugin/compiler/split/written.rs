//! A component that begins with other states than it did, in one piece.
//!
//! Place in the flow: after `init`, for a component that is compiled as a whole. In: the component that was
//! split, and its states by now. Out: the same component with these in the place of the first ones; what
//! runs as soon as there is an instance has run, and is left out.
//! Invariant: a state goes to where the splitter found it, for modules and components come in the same order.

use wasm_encoder::{Component, RawSection};

use super::module::{COMPONENT, CoreModule, Section, sections};
use super::state::State;
use super::{CORE_INSTANCE, CORE_MODULE, NESTED, UNUSUAL};

/// The component with these states.
///
/// # Errors
/// They are not the component's.
pub(in crate::plugin) fn written(component: &[u8], states: &[State<'_>]) -> Result<Vec<u8>, &'static str> {
    outermost(component, states).ok_or(UNUSUAL)
}

fn outermost(component: &[u8], states: &[State<'_>]) -> Option<Vec<u8>> {
    let sections = sections(component, COMPONENT)?;
    let is_flat = sections.iter().any(|section| matches!(section.id, CORE_MODULE | CORE_INSTANCE));
    if is_flat {
        return level(&sections, states.first()?);
    }
    let (mut rest, mut states) = (Component::new(), states.iter());
    for section in &sections {
        let inside = (section.id == NESTED).then(|| stateful(section.contents)).flatten();
        match inside {
            Some(inside) => {
                let data = level(&inside, states.next()?)?;
                rest.section(&RawSection { id: NESTED, data: &data });
            }
            None => _ = rest.section(&section.raw()),
        }
    }
    states.next().is_none().then(|| rest.finish())
}

/// The sections of a component that has a state of its own.
fn stateful(component: &[u8]) -> Option<Vec<Section<'_>>> {
    let sections = sections(component, COMPONENT)?;
    let mut modules = sections.iter().filter(|section| section.id == CORE_MODULE);
    modules
        .any(|module| CoreModule::read(module.contents).is_some_and(|it| it.has_state()))
        .then_some(sections)
}

fn level(sections: &[Section<'_>], state: &State<'_>) -> Option<Vec<u8>> {
    let (mut rest, mut globals) = (Component::new(), state.globals());
    for section in sections {
        match section.id {
            CORE_MODULE => {
                let module = CoreModule::read(section.contents)?.beginning_with(state, &mut globals)?;
                rest.section(&RawSection { id: CORE_MODULE, data: &module });
            }
            _ => _ = rest.section(&section.raw()),
        }
    }
    globals.next().is_none().then(|| rest.finish())
}
