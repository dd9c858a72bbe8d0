//! Components inside a component, such as a handler and the libraries that it was built with.
//!
//! Place in the flow: inside the splitter of the outermost component. In: its sections of components and of
//! their instances. Out: each component without its state, if it has one that can be taken out, and without
//! the modules that are worth it, importing them; the outermost one imports the same ones, and gives them to
//! its instance.
//! Invariants: a module is given to one instance; a component that is anything but a definition with one
//! instance leaves the whole as it was.

use wasm_encoder::reencode::ReencodeComponent as _;
use wasm_encoder::{Component, ComponentExportKind, ComponentInstanceSection, RawSection};
use wasmparser::{
    BinaryReader, ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentInstanceSectionReader,
    ComponentOuterAliasKind, Parser, Payload,
};

use super::counts::Counts;
use super::module::Section;
use super::reader::pass_on;
use super::{MOST_MODULES, NESTED, Splitter, UNUSUAL, import_name, split_level, state_name};

/// The components inside the outermost one.
pub(super) struct Nested {
    /// Whether they are split.
    are_split: bool,
    /// By their indices.
    components: Vec<Member>,
}

/// A component inside another.
#[derive(Default)]
struct Member {
    /// The modules and the state that it imports since it was split: their names, and their indices in the
    /// outermost one.
    modules: Vec<(String, u32)>,
    /// The number of its state, if it has one.
    state: Option<usize>,
    /// The index of its instance, once there is one.
    instance: Option<u32>,
}

impl Nested {
    pub(super) fn new(are_split: bool) -> Nested {
        Nested { are_split, components: Vec::new() }
    }

    fn any_is_split(&self) -> bool {
        self.components.iter().any(|member| !member.modules.is_empty())
    }

    /// There are components that are no definitions, or are used for more than an instance: none is split;
    /// `None` if one has been.
    pub(super) fn are_named_otherwise(&mut self) -> Option<()> {
        self.are_split = false;
        (!self.any_is_split()).then_some(())
    }

    /// Each component that was split has an instance.
    pub(super) fn is_complete(&self) -> bool {
        self.components.iter().all(|member| member.modules.is_empty() || member.instance.is_some())
    }

    /// The functions that tell the states become the outermost one's.
    pub(super) fn pass_readers_on(&self, component: &mut Component, counts: &Counts) {
        let readers = self.components.iter().filter_map(|member| member.state.zip(member.instance));
        pass_on(component, counts, readers);
    }
}

impl<'a> Splitter<'a> {
    /// A component of this one.
    pub(super) fn component(&mut self, section: &Section<'a>) -> Option<()> {
        match named_around(section.contents) {
            Named::Nothing => {}
            Named::Components => self.nested.are_named_otherwise()?,
            Named::Modules => return None,
        }
        let number = self.states.len();
        let split = self.nested.are_split.then(|| split_level(section.contents, self.sizes, Some(number)));
        let split = split.flatten().filter(|split| {
            let is_there = |digest: &str| self.shared.iter().any(|module| module.digest == digest);
            self.shared.len() + split.modules.len() <= MOST_MODULES
                && number + split.states.len() <= MOST_MODULES
                && !split.modules.iter().any(|module| is_there(&module.digest))
        });
        let mut member = Member::default();
        match split {
            Some(split) if !(split.modules.is_empty() && split.states.is_empty()) => {
                for module in split.modules {
                    member.modules.push((import_name(&module.digest), self.imported));
                    self.share(module);
                }
                for state in split.states {
                    let name = state_name(number);
                    member.modules.push((name.clone(), self.imported));
                    member.state = Some(number);
                    self.import(&name, &state.module_type());
                    self.states.push(state);
                }
                self.obstacle = self.obstacle.or(split.obstacle);
                self.has_start |= split.has_start;
                self.rest.section(&RawSection { id: NESTED, data: &split.frame });
            }
            split => {
                // Nothing of it is in a state.
                let is_inert = match &split {
                    Some(split) => split.obstacle.is_none() && !split.has_start,
                    None => is_inert(section.contents),
                };
                if !is_inert {
                    self.obstacle = Some(UNUSUAL);
                }
                self.copy(section);
            }
        }
        self.nested.components.push(member);
        Some(())
    }

    /// Instances of components; to one that was split its modules are given.
    pub(super) fn component_instances(&mut self, section: &Section<'_>) -> Option<()> {
        let read = || ComponentInstanceSectionReader::new(BinaryReader::new(section.contents, 0)).ok();
        let mut instances = ComponentInstanceSection::new();
        for (instance, place) in read()?.into_iter().zip(self.counts.instances..) {
            match instance.ok()? {
                ComponentInstance::Instantiate { component_index, args } => {
                    for arg in &args {
                        self.is_given(arg.kind)?;
                    }
                    let mut all: Vec<(&str, ComponentExportKind, u32)> = (args.iter())
                        .map(|arg| (arg.name, self.component_export_kind(arg.kind), arg.index))
                        .collect();
                    let index = usize::try_from(component_index).ok()?;
                    if let Some(member) = self.nested.components.get_mut(index) {
                        if !member.modules.is_empty() && member.instance.replace(place).is_some() {
                            return None;
                        }
                        let modules = member.modules.iter();
                        all.extend(
                            modules.map(|(name, index)| (name.as_str(), ComponentExportKind::Module, *index)),
                        );
                    }
                    instances.instantiate(component_index, all);
                }
                ComponentInstance::FromExports(exports) => {
                    for export in &exports {
                        self.is_given(export.kind)?;
                    }
                    instances.export_items(
                        exports
                            .iter()
                            .map(|it| (it.name.name, self.component_export_kind(it.kind), it.index))
                            .collect::<Vec<_>>(),
                    );
                }
            }
        }
        // As it was, where nothing is added.
        match self.nested.any_is_split() {
            true => _ = self.rest.section(&instances),
            false => self.copy(section),
        }
        Some(())
    }

    /// Something of this kind becomes part of an instance.
    fn is_given(&mut self, kind: ComponentExternalKind) -> Option<()> {
        match kind {
            ComponentExternalKind::Module => None,
            ComponentExternalKind::Component => self.nested.are_named_otherwise(),
            _ => Some(()),
        }
    }
}

/// Whether a component has neither modules nor functions of its own, as those that only name types.
fn is_inert(component: &[u8]) -> bool {
    Parser::new(0).parse_all(component).all(|payload| {
        !matches!(payload, Ok(Payload::ModuleSection { .. } | Payload::ComponentCanonicalSection(_)) | Err(_))
    })
}

/// The definitions around a component that it uses, by their kind.
enum Named {
    Nothing,
    Components,
    /// Modules or core types, or it cannot be read.
    Modules,
}

fn named_around(component: &[u8]) -> Named {
    let mut named = Named::Nothing;
    for payload in Parser::new(0).parse_all(component) {
        let aliases = match payload {
            Ok(Payload::ComponentAliasSection(aliases)) => aliases,
            Ok(_) => continue,
            Err(_) => return Named::Modules,
        };
        for alias in aliases {
            match alias {
                Ok(ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, .. }) => {
                    named = Named::Components;
                }
                Ok(ComponentAlias::Outer {
                    kind: ComponentOuterAliasKind::CoreModule | ComponentOuterAliasKind::CoreType,
                    ..
                })
                | Err(_) => return Named::Modules,
                Ok(_) => {}
            }
        }
    }
    named
}
