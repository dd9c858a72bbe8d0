//! What the instances inside a component add to the memory that compiling it takes.
//!
//! Place in the flow: part of the estimate. In: the sections of a component and what the validator knows of
//! them. Out: bytes.
//! The compiler follows every instantiation: a component that is instantiated twice is made twice, and so are
//! those inside it. Each call between two of them gets code that moves its values.
//! Invariant: each section is read once, however often what it says is instantiated.

use std::collections::HashMap;

use wasmparser::component_types::{ComponentDefinedType, ComponentDefinedTypeId, ComponentValType};
use wasmparser::types::TypesRef;
use wasmparser::{
    BinaryReaderError, CanonicalFunction, ComponentAlias, ComponentExternalKind, ComponentInstance,
    ComponentOuterAliasKind, ComponentTypeRef, Instance, Payload, Validator,
};

/// Bytes that each form of a function takes in any case, and keeps until its component is done.
pub(super) const EACH: u64 = 7 << 10;
/// Bytes for a name that leads to something: an argument, an export, an alias, an import of a core module.
const NAMED: u64 = 256;
/// Bytes for each value that a call to another component moves.
const VALUE: u64 = 500;

/// Reads a component.
#[derive(Default)]
pub(super) struct Instances {
    /// The components that are being read, the outermost first.
    open: Vec<Nested>,
    in_module: bool,
    /// Of the whole component, once it has been read.
    bytes: u64,
    values: Values,
}

/// A component that is being read.
#[derive(Default)]
struct Nested {
    /// The cost of an instance of each component that it knows.
    components: Vec<u64>,
    /// The cost of an instance of itself.
    bytes: u64,
}

impl Nested {
    fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn component(&self, index: u32) -> u64 {
        let index = usize::try_from(index).ok();
        index.and_then(|index| self.components.get(index)).copied().unwrap_or(u64::MAX)
    }
}

impl Instances {
    /// The cost of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds what the validator has just accepted.
    ///
    /// # Errors
    /// Those of the text.
    pub(super) fn add(
        &mut self,
        payload: &Payload<'_>,
        validator: &Validator,
    ) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::ModuleSection { .. } => self.in_module = true,
            Payload::Version { .. } if !self.in_module => self.open.push(Nested::default()),
            Payload::End(_) if self.in_module => self.in_module = false,
            Payload::End(_) => {
                let bytes = self.open.pop().unwrap_or_default().bytes;
                match self.open.last_mut() {
                    Some(outer) => outer.components.push(bytes),
                    None => self.bytes = bytes,
                }
            }
            Payload::ComponentAliasSection(aliases) => {
                for alias in aliases.clone() {
                    self.alias(&alias?);
                }
            }
            _ if self.in_module => {}
            payload => {
                let (Some(nested), Some(types)) = (self.open.last_mut(), validator.types(0)) else {
                    return Ok(());
                };
                nested.section(payload, types, &mut self.values)?;
            }
        }
        Ok(())
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) {
        let known = match *alias {
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                let outer = usize::try_from(count).ok().and_then(|count| self.open.iter().rev().nth(count));
                Some(outer.map_or(u64::MAX, |outer| outer.component(index)))
            }
            // Which one it is would have to be followed through the instances.
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => Some(u64::MAX),
            _ => None,
        };
        if let Some(nested) = self.open.last_mut() {
            nested.components.extend(known);
            nested.add(NAMED);
        }
    }
}

impl Nested {
    fn section(
        &mut self,
        payload: &Payload<'_>,
        types: TypesRef<'_>,
        values: &mut Values,
    ) -> Result<(), BinaryReaderError> {
        match payload {
            // Each is a piece of code that leads from one side to the other.
            Payload::ComponentCanonicalSection(functions) => {
                for function in functions.clone() {
                    self.add(EACH);
                    if let CanonicalFunction::Lower { func_index, .. } = function? {
                        self.add(values.of_call(types, func_index).saturating_mul(VALUE));
                    }
                }
            }
            Payload::InstanceSection(instances) => {
                for instance in instances.clone() {
                    match instance? {
                        Instance::Instantiate { module_index, args } => {
                            let module = types.get(types.module_at(module_index));
                            let imports = module.map_or(0, |module| module.imports.len());
                            self.add(EACH);
                            self.add((args.len() + imports) as u64 * NAMED);
                        }
                        Instance::FromExports(exports) => self.add(exports.len() as u64 * NAMED),
                    }
                }
            }
            Payload::ComponentInstanceSection(instances) => {
                for instance in instances.clone() {
                    match instance? {
                        ComponentInstance::Instantiate { component_index, args } => {
                            self.add(EACH);
                            self.add(args.len() as u64 * NAMED);
                            self.add(self.component(component_index));
                        }
                        ComponentInstance::FromExports(exports) => self.add(exports.len() as u64 * NAMED),
                    }
                }
            }
            Payload::ComponentImportSection(imports) => {
                for import in imports.clone() {
                    self.add(NAMED);
                    // It is not said here which one is given.
                    if let ComponentTypeRef::Component(_) = import?.ty {
                        self.components.push(u64::MAX);
                    }
                }
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports.clone() {
                    let export = export?;
                    self.add(NAMED);
                    if export.kind == ComponentExternalKind::Component {
                        self.components.push(self.component(export.index));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// How many values one of a type is made of.
#[derive(Default)]
struct Values(HashMap<ComponentDefinedTypeId, u64>);

impl Values {
    /// The values of a function's parameters and result.
    fn of_call(&mut self, types: TypesRef<'_>, function: u32) -> u64 {
        let Some(function) = types.get(types.component_function_at(function)) else { return 0 };
        let parameters = function.params.iter().map(|(_, r#type)| r#type);
        self.sum(types, parameters.chain(&function.result))
    }

    fn sum<'a>(&mut self, types: TypesRef<'_>, parts: impl IntoIterator<Item = &'a ComponentValType>) -> u64 {
        parts.into_iter().fold(0, |sum, part| sum.saturating_add(self.of(types, *part)))
    }

    /// Types are nested at most a hundred deep, which the validator has checked.
    fn of(&mut self, types: TypesRef<'_>, r#type: ComponentValType) -> u64 {
        use ComponentDefinedType as Type;
        let ComponentValType::Type(id) = r#type else { return 1 };
        if let Some(known) = self.0.get(&id) {
            return *known;
        }
        let inner = match types.get(id) {
            Some(Type::Record(record)) => self.sum(types, record.fields.values()),
            Some(Type::Variant(variant)) => {
                let cases = variant.cases.len() as u64;
                cases.saturating_add(self.sum(types, variant.cases.values().filter_map(|it| it.ty.as_ref())))
            }
            Some(Type::Tuple(tuple)) => self.sum(types, &tuple.types),
            Some(Type::List { element, .. } | Type::FixedLengthList { element, .. }) => {
                self.of(types, *element)
            }
            Some(Type::Map { key, value, .. }) => self.sum(types, [key, value]),
            Some(Type::Option { ty, .. }) => self.of(types, *ty),
            Some(Type::Result { ok, err, .. }) => self.sum(types, ok.iter().chain(err)),
            Some(Type::Enum(names) | Type::Flags(names)) => names.len() as u64,
            _ => 0,
        };
        let all = inner.saturating_add(1);
        self.0.insert(id, all);
        all
    }
}
