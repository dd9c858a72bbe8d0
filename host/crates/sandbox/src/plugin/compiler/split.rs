//! A component in three parts: what its code has in common with others, the frame around it, and its state.
//!
//! Place in the flow: before a component is compiled, see [`super::super::runtime`]. In: a component's bytes.
//! Out: its large modules without what their instances begin with, each compiled once for all components that
//! have it; the component that imports them in their place, which is the frame; and a module for its memory
//! and variables, which the frame imports too.
//! A handler in an interpreted language is its interpreter and its contract, which all handlers of the
//! language and the contract share, and a memory that has the sources in it: only that is the handler's own.
//! A handler with libraries is a component of components, of which each is split, see `split/nested.rs`.
//! Invariants: the parts together do what the component does; what a module has that is not code is part of
//! the state, so that who has the rest learns nothing of a handler; a component of an unusual form is left
//! whole.

mod counts;
mod module;
mod nested;
mod reader;
mod state;
mod written;

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};
use wasm_encoder::reencode::{Reencode, ReencodeComponent};
use wasm_encoder::{
    Component, ComponentAliasSection, ComponentImportSection, ComponentSectionId, ComponentTypeRef,
    CoreTypeSection, InstanceSection, ModuleArg, ModuleType, RawSection,
};
use wasmparser::{
    BinaryReader, ComponentAlias, ComponentAliasSectionReader, ComponentExportSectionReader,
    ComponentExternalKind, ComponentImportSectionReader, ComponentOuterAliasKind,
    ComponentTypeRef as Imported, Instance, InstanceSectionReader, Operator, Parser, Payload,
};

use self::counts::Counts;
use self::module::{COMPONENT, Code, CoreModule, Section, sections};
use self::nested::Nested;
use self::reader::add_reader;
pub(in crate::plugin) use self::reader::reader_name;
use self::state::STATE;
pub(in crate::plugin) use self::state::{State, frame_in};
pub(in crate::plugin) use self::written::written;
use crate::text::hex;

/// From which size on modules are compiled apart.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// Bytes of a module without memory and variables of its own.
    library: usize,
    /// Bytes of the code of one that has some. What users write is smaller, and would gain nothing: each
    /// version of it is different.
    interpreter: usize,
}

const SIZES: Sizes = Sizes { library: 128 << 10, interpreter: 6 << 20 };
/// The beginning of the names that shared modules are imported by; a digest follows.
const SHARED: &str = "shared-module-x";
/// The same of states; a number follows.
const OWN: &str = "own-state-x";

/// Most modules that are taken out of one component, and most states. An instance has each of them at most
/// once, so that what it takes of the host stays within bounds, although wasmtime does not count their
/// memories and tables with the component's.
const MOST_MODULES: usize = 8;

/// Why a component is left whole.
const UNUSUAL: &str = "the component has an unusual form";

const CORE_MODULE: u8 = ComponentSectionId::CoreModule as u8;
const CORE_INSTANCE: u8 = ComponentSectionId::CoreInstance as u8;
const CORE_TYPE: u8 = ComponentSectionId::CoreType as u8;
const NESTED: u8 = ComponentSectionId::Component as u8;
const INSTANCE: u8 = ComponentSectionId::Instance as u8;
const EXPORT: u8 = ComponentSectionId::Export as u8;
const ALIAS: u8 = ComponentSectionId::Alias as u8;
const IMPORT: u8 = ComponentSectionId::Import as u8;
const TYPE: u8 = ComponentSectionId::Type as u8;
const CANON: u8 = ComponentSectionId::CanonicalFunction as u8;

/// A component in three parts.
pub(in crate::plugin) struct Split<'a> {
    /// The component that imports the modules and the states.
    pub(in crate::plugin) frame: Vec<u8>,
    /// Its imports of modules.
    pub(in crate::plugin) modules: Vec<SharedModule<'a>>,
    /// Its imports of states, by their numbers.
    pub(in crate::plugin) states: Vec<State<'a>>,
    /// Why the states of an instance cannot be read. Without, the frame has for each state a function of the
    /// name [`reader_name`], and nothing else in it changes.
    obstacle: Option<&'static str>,
    /// Whether something runs as soon as there is an instance.
    has_start: bool,
}

impl Split<'_> {
    /// Whether other states can take the place of these: modules are compiled apart, and what runs as soon as
    /// there is an instance would run again.
    pub(in crate::plugin) fn can_begin_otherwise(&self) -> bool {
        !self.modules.is_empty() && !self.has_start
    }
}

/// A module that is nothing but code.
pub(in crate::plugin) struct SharedModule<'a> {
    pub(in crate::plugin) digest: String,
    pub(in crate::plugin) bytes: Cow<'a, [u8]>,
    r#type: ModuleType,
}

/// The name of bytes: SHA-256 in hex.
pub(in crate::plugin) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Whether code in it changes what no state has: entries of tables, and which of its data are left.
pub(in crate::plugin) fn changes_more(bytes: &[u8]) -> wasmparser::Result<bool> {
    for payload in Parser::new(0).parse_all(bytes) {
        let Payload::CodeSectionEntry(function) = payload? else { continue };
        for operator in function.get_operators_reader()? {
            if matches!(
                operator?,
                Operator::TableSet { .. }
                    | Operator::TableGrow { .. }
                    | Operator::TableFill { .. }
                    | Operator::TableCopy { .. }
                    | Operator::TableInit { .. }
                    | Operator::ElemDrop { .. }
                    | Operator::DataDrop { .. }
            ) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The name that the module with this digest is imported by.
pub(in crate::plugin) fn import_name(digest: &str) -> String {
    format!("{SHARED}{digest}")
}

/// The name that the state with this number is imported by.
pub(in crate::plugin) fn state_name(number: usize) -> String {
    format!("{OWN}{number}")
}

/// A module that a frame imports.
pub(in crate::plugin) enum ModuleImport<'a> {
    /// The module with this digest.
    Shared(&'a str),
    /// A state.
    State,
}

impl<'a> ModuleImport<'a> {
    /// `None` if it is the component's own.
    pub(in crate::plugin) fn of(import: &'a str) -> Option<ModuleImport<'a>> {
        match import.strip_prefix(SHARED) {
            Some(digest) => Some(ModuleImport::Shared(digest)),
            None => import.starts_with(OWN).then_some(ModuleImport::State),
        }
    }
}

/// Splits a component; `None` if it has no module that is worth it, or is of an unusual form.
/// What comes out has yet to be validated.
pub(in crate::plugin) fn split(component: &[u8]) -> Option<Split<'_>> {
    split_by(component, SIZES)
}

/// Splits any component whose states can be read from an instance of the frame.
///
/// # Errors
/// Why it cannot be split, or its states not be read.
pub(in crate::plugin) fn split_readable(component: &[u8]) -> Result<Split<'_>, &'static str> {
    let split = split_level(component, SIZES, None).filter(|split| !split.states.is_empty());
    let split = split.ok_or(UNUSUAL)?;
    split.obstacle.map_or(Ok(split), Err)
}

fn split_by(component: &[u8], sizes: Sizes) -> Option<Split<'_>> {
    if component.len() < sizes.library {
        return None;
    }
    let split = split_level(component, sizes, None)?;
    (!split.modules.is_empty() && !split.states.is_empty()).then_some(split)
}

/// As [`split_by`], with what comes out if it has no module that is worth it. `inside`: for a component of
/// the outermost one, the number that its state has.
fn split_level(component: &[u8], sizes: Sizes, inside: Option<usize>) -> Option<Split<'_>> {
    let sections = sections(component, COMPONENT)?;
    let modules = sections.iter().filter(|section| section.id == CORE_MODULE);
    let modules: Vec<_> = modules.map(|section| CoreModule::read(section.contents)).collect::<Option<_>>()?;
    let least_pages = modules.iter().map(CoreModule::least_pages).max().unwrap_or_default();
    let has_core = sections.iter().any(|section| matches!(section.id, CORE_MODULE | CORE_INSTANCE));
    let mut splitter = Splitter {
        sizes,
        number: inside.unwrap_or_default(),
        rest: Component::new(),
        imported: 0,
        shared: Vec::new(),
        state: State::new(least_pages),
        state_at: None,
        states: Vec::new(),
        obstacle: None,
        has_start: false,
        modules: modules.into_iter().map(Some).collect(),
        taken: Vec::new(),
        nested: Nested::new(inside.is_none() && !has_core),
        counts: Counts::default(),
    };
    for section in &sections {
        splitter.add(section)?;
    }
    splitter.finish()
}

/// A module that something was taken of.
struct SplitModule {
    index: u32,
    has_state: bool,
    has_instance: bool,
}

struct Splitter<'a> {
    sizes: Sizes,
    /// The number of the state.
    number: usize,
    rest: Component,
    /// Modules and states that are imported so far.
    imported: u32,
    shared: Vec<SharedModule<'a>>,
    /// The state that its modules begin with.
    state: State<'a>,
    /// The index of its module, once it is imported. Its instance is the first.
    state_at: Option<u32>,
    /// The states of the components inside.
    states: Vec<State<'a>>,
    obstacle: Option<&'static str>,
    has_start: bool,
    /// Those that come yet are there.
    modules: Vec<Option<CoreModule<'a>>>,
    /// In their order.
    taken: Vec<SplitModule>,
    nested: Nested,
    /// Of the original.
    counts: Counts,
}

impl<'a> Splitter<'a> {
    fn add(&mut self, section: &Section<'a>) -> Option<()> {
        match section.id {
            CORE_MODULE => self.module(section)?,
            CORE_INSTANCE => self.instances(section.contents)?,
            // Indices of core types and modules would be others in these.
            CORE_TYPE => return None,
            NESTED => self.component(section)?,
            INSTANCE => self.component_instances(section)?,
            ALIAS => self.aliases(section)?,
            EXPORT => {
                self.exports(section.contents)?;
                self.copy(section);
            }
            IMPORT => {
                self.imports(section.contents)?;
                self.copy(section);
            }
            _ => self.copy(section),
        }
        self.counts.add(section)
    }

    fn copy(&mut self, section: &Section<'_>) {
        self.rest.section(&section.raw());
    }

    fn module(&mut self, section: &Section<'a>) -> Option<()> {
        let index = self.counts.core_modules;
        self.counts.core_modules += 1;
        let module = self.modules.get_mut(usize::try_from(index).ok()?)?.take()?;
        self.has_start |= module.has_start();
        let code = module.code(&mut self.state)?;
        let Code { bytes, r#type, has_state, length } = code;
        // A state would come too late for an instance that there is.
        let is_early = self.counts.core_instances == 0;
        if has_state && !(is_early && self.state.is_bounded()) {
            return None;
        }
        let is_large = section.contents.len() >= self.sizes.library;
        let is_worth_it =
            is_large && length.is_some_and(|length| !has_state || length >= self.sizes.interpreter);
        // Each name is imported once.
        let is_new = |digest: &String| !self.shared.iter().any(|module| module.digest == *digest);
        let is_shared = is_worth_it && is_early && self.shared.len() < MOST_MODULES;
        match (r#type, is_shared.then(|| digest(&bytes)).filter(is_new)) {
            (Some(r#type), Some(digest)) => {
                self.taken.push(SplitModule { index, has_state, has_instance: false });
                self.share(SharedModule { digest, bytes, r#type });
            }
            _ => {
                if has_state {
                    self.taken.push(SplitModule { index, has_state, has_instance: false });
                }
                self.rest.section(&RawSection { id: CORE_MODULE, data: &bytes });
            }
        }
        Some(())
    }

    fn share(&mut self, module: SharedModule<'a>) {
        self.import(&import_name(&module.digest), &module.r#type);
        self.shared.push(module);
    }

    /// Imports a module.
    fn import(&mut self, name: &str, r#type: &ModuleType) {
        let mut types = CoreTypeSection::new();
        types.ty().module(r#type);
        let mut imports = ComponentImportSection::new();
        imports.import(name, ComponentTypeRef::Module(self.imported));
        self.imported += 1;
        self.rest.section(&types).section(&imports);
    }

    /// The instance of the state comes before all others.
    fn instances(&mut self, contents: &[u8]) -> Option<()> {
        let mut instances = InstanceSection::new();
        if self.counts.core_instances == 0 && !self.state.is_empty() {
            let r#type = self.state.module_type();
            self.import(&state_name(self.number), &r#type);
            instances.instantiate(self.counts.core_modules, [("", ModuleArg::Instance(0)); 0]);
            self.state_at = Some(self.counts.core_modules);
        }
        for instance in InstanceSectionReader::new(BinaryReader::new(contents, 0)).ok()? {
            self.counts.core_instances += 1;
            match instance.ok()? {
                Instance::Instantiate { module_index, args } => {
                    let mut args: Vec<_> = (args.iter())
                        .map(|arg| {
                            (Cow::Borrowed(arg.name), ModuleArg::Instance(self.instance_index(arg.index)))
                        })
                        .collect();
                    let place = self.taken.binary_search_by_key(&module_index, |taken| taken.index);
                    if let Some(taken) = place.ok().and_then(|place| self.taken.get_mut(place)) {
                        if std::mem::replace(&mut taken.has_instance, true) {
                            return None;
                        }
                        if taken.has_state {
                            args.push((Cow::Borrowed(STATE), ModuleArg::Instance(0)));
                        }
                    }
                    instances.instantiate(self.module_index(module_index), args);
                }
                Instance::FromExports(exports) => {
                    let exports: Option<Vec<_>> = exports
                        .iter()
                        .map(|export| Some((export.name, self.export_kind(export.kind).ok()?, export.index)))
                        .collect();
                    instances.export_items(exports?);
                }
            }
        }
        self.rest.section(&instances);
        Some(())
    }

    fn imports(&mut self, contents: &[u8]) -> Option<()> {
        for import in ComponentImportSectionReader::new(BinaryReader::new(contents, 0)).ok()? {
            match import.ok()?.ty {
                Imported::Module(_) => return None,
                Imported::Component(_) => self.nested.are_named_otherwise()?,
                _ => {}
            }
        }
        Some(())
    }

    fn aliases(&mut self, section: &Section<'_>) -> Option<()> {
        let read = || ComponentAliasSectionReader::new(BinaryReader::new(section.contents, 0)).ok();
        for alias in read()? {
            match alias.ok()? {
                ComponentAlias::InstanceExport { kind: ComponentExternalKind::Module, .. }
                | ComponentAlias::Outer {
                    kind: ComponentOuterAliasKind::CoreModule | ComponentOuterAliasKind::CoreType,
                    ..
                } => return None,
                ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. }
                | ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, .. } => {
                    self.nested.are_named_otherwise()?;
                }
                _ => {}
            }
        }
        let mut aliases = ComponentAliasSection::new();
        self.parse_component_alias_section(&mut aliases, read()?).ok()?;
        self.rest.section(&aliases);
        Some(())
    }

    fn finish(mut self) -> Option<Split<'a>> {
        let are_used = self.taken.iter().all(|taken| taken.has_instance || !taken.has_state);
        if !are_used || !self.nested.is_complete() {
            return None;
        }
        let (mut obstacle, has_start) = (self.obstacle, self.has_start);
        if self.counts.has_resources {
            obstacle = Some("it has resources, or a library in it has, whose handles are in no memory");
        }
        if self.state_at.is_some() {
            // The state's module and its instance.
            self.counts.core_modules += 1;
            self.counts.core_instances += 1;
            if !self.state.can_be_read() {
                obstacle = obstacle.or(Some(UNUSUAL));
            }
            if obstacle.is_none() {
                add_reader(&mut self.rest, &self.counts, &self.state, self.number)?;
            }
            self.states.push(self.state);
        } else if obstacle.is_none() {
            self.nested.pass_readers_on(&mut self.rest, &self.counts);
        }
        let (frame, modules, states) = (self.rest.finish(), self.shared, self.states);
        Some(Split { frame, modules, states, obstacle, has_start })
    }

    fn exports(&mut self, contents: &[u8]) -> Option<()> {
        for export in ComponentExportSectionReader::new(BinaryReader::new(contents, 0)).ok()? {
            match export.ok()?.kind {
                ComponentExternalKind::Module => return None,
                ComponentExternalKind::Component => self.nested.are_named_otherwise()?,
                _ => {}
            }
        }
        Some(())
    }
}

impl Reencode for Splitter<'_> {
    type Error = std::convert::Infallible;
}

impl ReencodeComponent for Splitter<'_> {
    /// Modules that come after the state's are one further.
    fn module_index(&mut self, index: u32) -> u32 {
        match self.state_at {
            Some(first) if index >= first => index.saturating_add(1),
            _ => index,
        }
    }

    /// The state's comes first.
    fn instance_index(&mut self, index: u32) -> u32 {
        index.saturating_add(self.state_at.is_some().into())
    }
}

#[cfg(test)]
pub(in crate::plugin) mod tests;
