//! The core modules that a component has in common with others, apart from it.
//!
//! Place in the flow: before a component is compiled, see [`super::super::engine`]. In: a component's bytes.
//! Out: its large modules that are nothing but code, which are compiled once for all components that have
//! them; and the component that imports them in their place.
//! A handler in an interpreted language is its interpreter, which all handlers of the language share, and
//! memory that has the sources in it. componentize-py makes modules of code apart from the memory, which are
//! taken as they are; SpiderMonkey is one module with its memory, from which `split/module.rs` takes it away.
//! A handler with libraries is a component of components, of which each is split, see `split/nested.rs`.
//! Invariants: both parts together do what the component does; what a module has that is not code stays with
//! the component, so that who has the module learns nothing of a handler; a component of an unusual form is
//! left whole.

mod module;
mod nested;

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
    ComponentTypeRef as Imported, Instance, InstanceSectionReader,
};

use self::module::{COMPONENT, Code, STATE, Section, sections};
use self::nested::Nested;
use crate::text::hex;

/// From which size on modules are taken out.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// Bytes of a module without a memory of its own.
    library: usize,
    /// Bytes of the code of one that has a memory. What users write is smaller, and would gain nothing: each
    /// version of it is different.
    interpreter: usize,
}

const SIZES: Sizes = Sizes { library: 128 << 10, interpreter: 6 << 20 };
/// The beginning of the names that shared modules are imported by; a digest follows.
const PREFIX: &str = "shared-module-x";

/// Most modules that are taken out of one component. An instance has each of them at most once, so that what
/// it takes of the host stays within bounds, although wasmtime does not count it with the component's.
const MOST_MODULES: usize = 8;

const CORE_MODULE: u8 = ComponentSectionId::CoreModule as u8;
const CORE_INSTANCE: u8 = ComponentSectionId::CoreInstance as u8;
const CORE_TYPE: u8 = ComponentSectionId::CoreType as u8;
const NESTED: u8 = ComponentSectionId::Component as u8;
const INSTANCE: u8 = ComponentSectionId::Instance as u8;
const EXPORT: u8 = ComponentSectionId::Export as u8;
const ALIAS: u8 = ComponentSectionId::Alias as u8;
const IMPORT: u8 = ComponentSectionId::Import as u8;

/// A component in two parts.
pub(in crate::plugin) struct Split {
    /// The component that imports the modules.
    pub(in crate::plugin) rest: Vec<u8>,
    /// Its imports of modules.
    pub(in crate::plugin) modules: Vec<SharedModule>,
}

/// A module that is nothing but code.
pub(in crate::plugin) struct SharedModule {
    /// SHA-256 in hex.
    pub(in crate::plugin) digest: String,
    pub(in crate::plugin) bytes: Vec<u8>,
    r#type: ModuleType,
}

/// The name that the module with this digest is imported by.
pub(in crate::plugin) fn import_name(digest: &str) -> String {
    format!("{PREFIX}{digest}")
}

/// The digest of the module that is imported by this name, if it is one of those.
pub(in crate::plugin) fn digest_in(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)
}

/// Takes the modules out of a component that are worth it; `None` if it has none, or is of an unusual form.
/// What comes out has yet to be validated.
pub(in crate::plugin) fn split(component: &[u8]) -> Option<Split> {
    split_by(component, SIZES)
}

fn split_by(component: &[u8], sizes: Sizes) -> Option<Split> {
    split_level(component, sizes, true)
}

/// As [`split_by`]; those inside it are split if it is the outermost and has no modules beside them.
fn split_level(component: &[u8], sizes: Sizes, is_outermost: bool) -> Option<Split> {
    if component.len() < sizes.library {
        return None;
    }
    let sections = sections(component, COMPONENT)?;
    let has_modules = sections.iter().any(|section| matches!(section.id, CORE_MODULE | CORE_INSTANCE));
    let mut splitter = Splitter::new(sizes, is_outermost && !has_modules);
    for section in &sections {
        splitter.add(section)?;
    }
    let is_split = !splitter.modules.is_empty()
        && splitter.states.iter().all(|state| state.is_used)
        && splitter.nested.is_complete();
    is_split.then(|| Split { rest: splitter.rest.finish(), modules: splitter.modules })
}

/// The memory and globals of a module, which become a module of their own.
struct State {
    /// The index of the module that was.
    of: u32,
    bytes: Vec<u8>,
    /// The index of its instance, once there is one.
    instance: u32,
    /// The instance of the module has it.
    is_used: bool,
}

struct Splitter {
    sizes: Sizes,
    rest: Component,
    modules: Vec<SharedModule>,
    states: Vec<State>,
    /// The modules that were taken out, and whether an instance of each was seen.
    shared: Vec<(u32, bool)>,
    nested: Nested,
    /// The sizes of the original's index spaces so far.
    core_modules: u32,
    core_instances: u32,
    core_types: u32,
    /// The first module and the first instance whose index is higher than in the original, by the number of
    /// states; `None` before the first instance.
    added_from: Option<(u32, u32)>,
}

impl Splitter {
    fn new(sizes: Sizes, splits_nested: bool) -> Splitter {
        Splitter {
            sizes,
            rest: Component::new(),
            modules: Vec::new(),
            states: Vec::new(),
            shared: Vec::new(),
            nested: Nested::new(splits_nested),
            core_modules: 0,
            core_instances: 0,
            core_types: 0,
            added_from: None,
        }
    }

    fn add(&mut self, section: &Section<'_>) -> Option<()> {
        match section.id {
            CORE_MODULE => return self.module(section),
            CORE_INSTANCE => return self.instances(section.contents),
            // Indices of core types and modules would be others in these.
            CORE_TYPE => return None,
            NESTED => return self.component(section),
            INSTANCE => return self.component_instances(section),
            EXPORT => self.exports(section.contents)?,
            ALIAS => return self.aliases(section),
            IMPORT => {
                let imports =
                    ComponentImportSectionReader::new(BinaryReader::new(section.contents, 0)).ok()?;
                for import in imports {
                    match import.ok()?.ty {
                        Imported::Module(_) => return None,
                        Imported::Component(_) => self.nested.are_named_otherwise()?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        self.copy(section);
        Some(())
    }

    fn copy(&mut self, section: &Section<'_>) {
        self.rest.section(&section.raw());
    }

    fn module(&mut self, section: &Section<'_>) -> Option<()> {
        let index = self.core_modules;
        self.core_modules += 1;
        // A state would come too late for an instance that there is.
        let is_worth_it = section.contents.len() >= self.sizes.library
            && self.added_from.is_none()
            && self.modules.len() < MOST_MODULES;
        let code = is_worth_it.then(|| Code::of(section.contents, self.sizes.interpreter)).flatten();
        let Some(Code { bytes, r#type, state }) = code else {
            self.copy(section);
            return Some(());
        };
        let digest = hex(&Sha256::digest(&bytes));
        // Each name is imported once.
        if self.modules.iter().any(|module| module.digest == digest) {
            self.copy(section);
            return Some(());
        }
        self.import(SharedModule { digest, bytes: bytes.into_owned(), r#type });
        self.shared.push((index, false));
        if let Some(bytes) = state {
            self.states.push(State { of: index, bytes, instance: 0, is_used: false });
        }
        Some(())
    }

    fn import(&mut self, module: SharedModule) {
        let mut types = CoreTypeSection::new();
        types.ty().module(&module.r#type);
        let mut imports = ComponentImportSection::new();
        imports.import(import_name(&module.digest).as_str(), ComponentTypeRef::Module(self.core_types));
        self.core_types += 1;
        self.rest.section(&types).section(&imports);
        self.modules.push(module);
    }

    /// The instances of the states come before all others.
    fn instances(&mut self, contents: &[u8]) -> Option<()> {
        let mut instances = InstanceSection::new();
        if self.added_from.is_none() {
            self.added_from = Some((self.core_modules, self.core_instances));
            for (state, number) in self.states.iter_mut().zip(0..) {
                self.rest.section(&RawSection { id: CORE_MODULE, data: &state.bytes });
                instances.instantiate(self.core_modules + number, [("", ModuleArg::Instance(0)); 0]);
                state.instance = self.core_instances + number;
            }
        }
        for instance in InstanceSectionReader::new(BinaryReader::new(contents, 0)).ok()? {
            self.core_instances += 1;
            match instance.ok()? {
                Instance::Instantiate { module_index, args } => {
                    let mut args: Vec<_> = (args.iter())
                        .map(|arg| {
                            (Cow::Borrowed(arg.name), ModuleArg::Instance(self.instance_index(arg.index)))
                        })
                        .collect();
                    let shared = self.shared.iter_mut().find(|(module, _)| *module == module_index);
                    if shared.is_some_and(|(_, has_instance)| std::mem::replace(has_instance, true)) {
                        return None;
                    }
                    if let Some(state) = self.states.iter_mut().find(|state| state.of == module_index) {
                        state.is_used = true;
                        args.push((Cow::Borrowed(STATE), ModuleArg::Instance(state.instance)));
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

    /// The place of what was at this one.
    fn moved(&self, index: u32, added_from: Option<u32>) -> u32 {
        let states = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        if added_from.is_some_and(|first| index >= first) { index.saturating_add(states) } else { index }
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

impl Reencode for Splitter {
    type Error = std::convert::Infallible;
}

impl ReencodeComponent for Splitter {
    fn module_index(&mut self, index: u32) -> u32 {
        self.moved(index, self.added_from.map(|(module, _)| module))
    }

    fn instance_index(&mut self, index: u32) -> u32 {
        self.moved(index, self.added_from.map(|(_, instance)| instance))
    }
}

#[cfg(test)]
pub(in crate::plugin) mod tests {
    use wasmparser::{Validator, WasmFeatures};

    use super::*;

    const ALL: Sizes = Sizes { library: 0, interpreter: 0 };

    /// The same of a component of any size.
    pub(in crate::plugin) fn split_small(component: &[u8]) -> Option<Split> {
        split_by(component, ALL)
    }

    /// An interpreter with `text` in its memory and `number` in a variable, and a library. Each call of `get`
    /// adds 3 to the variable, and gives the sum of it and of the text's first byte.
    pub(in crate::plugin) fn handler(text: &str, number: u32) -> Vec<u8> {
        wat::parse_str(handler_text(text, number)).unwrap()
    }

    /// The same inside a component, as a build with libraries makes it, beside one that is small.
    pub(in crate::plugin) fn nested_handler(text: &str, number: u32) -> Vec<u8> {
        wat::parse_str(nesting(&handler_text(text, number), "")).unwrap()
    }

    fn nesting(handler: &str, more: &str) -> String {
        let handler = handler.replacen("(component", "(component $handler", 1);
        format!(
            r#"(component
              (component $library)
              (instance (instantiate $library))
              {handler}
              (instance $it (instantiate $handler))
              (alias export $it "get" (func $get))
              (export "get" (func $get))
              {more})"#
        )
    }

    fn handler_text(text: &str, number: u32) -> String {
        format!(
            r#"(component
              (core module $interpreter
                (import "library" "add" (func $add (param i32 i32) (result i32)))
                (memory (export "memory") 1)
                (global $variable (mut i32) (i32.const {number}))
                (global $constant i32 (i32.const 3))
                (data (i32.const 8) "{text}")
                (func (export "get") (result i32)
                  (global.set $variable (call $add (global.get $variable) (global.get $constant)))
                  (call $add (global.get $variable) (i32.load8_u (i32.const 8)))))
              (core module $library
                (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
              (core instance $library (instantiate $library))
              (core instance $interpreter (instantiate $interpreter (with "library" (instance $library))))
              (core module $last (import "interpreter" "get" (func (result i32)))
                (export "get" (func 0)))
              (core instance $last (instantiate $last (with "interpreter" (instance $interpreter))))
              (func (export "get") (result u32) (canon lift (core func $last "get"))))"#
        )
    }

    fn is_valid(bytes: &[u8]) -> bool {
        Validator::new_with_features(WasmFeatures::all()).validate_all(bytes).is_ok()
    }

    #[test]
    fn code_is_the_same_whatever_is_in_the_memory() {
        let [first, second] = [handler("a", 1), handler("bc", 2)].map(|bytes| split_by(&bytes, ALL).unwrap());
        let digests = |split: &Split| split.modules.iter().map(|it| it.digest.clone()).collect::<Vec<_>>();
        assert_eq!(digests(&first), digests(&second));
        assert_eq!(first.modules.len(), 2, "the last one comes after the first instance");
        assert_ne!(first.rest, second.rest);
        for split in [first, second] {
            assert!(is_valid(&split.rest));
            assert!(split.modules.iter().all(|module| is_valid(&module.bytes)));
        }
    }

    #[test]
    fn modules_of_components_inside_are_those_of_components_alone() {
        let whole = nested_handler("a", 1);
        let [alone, inside] = [&handler("a", 1), &whole].map(|bytes| split_by(bytes, ALL).unwrap());
        let digests = |split: &Split| split.modules.iter().map(|it| it.digest.clone()).collect::<Vec<_>>();
        assert_eq!(digests(&alone), digests(&inside));
        assert!(is_valid(&inside.rest));
        for (name, more) in [
            ("a second instance", "(instance (instantiate $handler))"),
            ("it is exported", r#"(export "handler" (component $handler))"#),
            ("it is named inside another", "(component (alias outer 1 $handler (component)))"),
            ("it is given away", r#"(instance (export "c" (component $handler)))"#),
            (
                "an alias of it",
                r#"(component $c (export "c" (component $d)) (component $d))
                (instance $i (instantiate $c)) (alias export $i "c" (component))"#,
            ),
        ] {
            let component = wat::parse_str(nesting(&handler_text("a", 1), more)).unwrap();
            assert!(split_by(&component, ALL).is_none(), "{name}");
        }
        // One with modules of its own is left as it is, and so is a second one with the same modules.
        let own = wat::parse_str(nesting(&handler_text("a", 1), "(core module)")).unwrap();
        assert!(split_by(&own, ALL).is_none());
        let twice =
            nesting(&handler_text("a", 1), &handler_text("a", 1).replacen("(component", "(component $b", 1));
        let split = split_by(&wat::parse_str(twice).unwrap(), ALL).unwrap();
        assert_eq!(digests(&split), digests(&alone));
        assert!(is_valid(&split.rest));
        for end in 0..whole.len() {
            let _ = split_by(&whole[..end], ALL);
            let mut changed = whole.clone();
            changed[end] ^= 0x41;
            let _ = split_by(&changed, ALL);
        }
    }

    #[test]
    fn small_handlers_are_left_whole() {
        assert!(split(&handler("a", 1)).is_none());
        let libraries = Sizes { interpreter: usize::MAX, ..ALL };
        assert_eq!(split_by(&handler("a", 1), libraries).unwrap().modules.len(), 1);
    }

    #[test]
    fn unusual_forms_are_left_whole_and_broken_ones_harm_nothing() {
        let module =
            r#"(core module $m (import "x" "f" (func)) (memory (export "m") 1) (data (i32.const 0) "x"))"#;
        let given = r#"(with "x" (instance $x))"#;
        let with = |text: &str| {
            let x = r#"(core module $f (func (export "f"))) (core instance $x (instantiate $f))"#;
            wat::parse_str(format!("(component {module} {x} {text})")).unwrap()
        };
        let once = format!("(core instance (instantiate $m {given}))");
        assert!(split_by(&with(&once), ALL).is_some());
        for (name, component) in [
            ("a type of its own", with("(core type (func))")),
            ("two instances", with(&once.repeat(2))),
            ("no instance", with("")),
            ("an imported module", with(r#"(import "m" (core module))"#)),
            ("a module of another's", with(&format!("{once} (component (alias outer 1 $m (core module)))"))),
            ("a module that is exported", with(&format!(r#"{once} (export "m" (core module $m))"#))),
            (
                "a module that is given away",
                with(&format!(
                    r#"{once} (component $c (import "m" (core module (export "f" (func)))))
                    (instance (instantiate $c (with "m" (core module $f))))"#
                )),
            ),
            ("two instances of a library", with(&format!("{once} (core instance (instantiate $f))"))),
            (
                "more globals than any tool makes",
                wat::parse_str(format!(
                    r#"(component (core module (func (export "f")) {}))"#,
                    "(global i32 (i32.const 1))".repeat(5000)
                ))
                .unwrap(),
            ),
            ("the header of something else", [b"\0asm\x0e\0\x01\0", &with(&once)[8..]].concat()),
            ("more sections than any tool makes", [with(&once), b"\0\x01\0".repeat(2000)].concat()),
        ] {
            assert!(split_by(&component, ALL).is_none(), "{name}");
        }
        let whole = handler("a", 1);
        for end in 0..whole.len() {
            let _ = split_by(&whole[..end], ALL);
            let mut changed = whole.clone();
            changed[end] ^= 0x41;
            let _ = split_by(&changed, ALL);
        }
    }
}
