//! A core module as nothing but code: its type, and what has to stay with the component.
//!
//! Place in the flow: inside the splitter. In: a module's bytes. Out: its code as a module, that module's
//! type, and a second module with the memory and the globals that the first one imports, if it had its own.
//! Invariants: no byte of the code changes, and no index in it: imports come first in each index space, and
//! what moves was all that came after them.

use std::borrow::Cow;

use wasm_encoder::reencode::{Reencode as _, RoundtripReencoder};
use wasm_encoder::{
    Encode as _, EntityType, ExportKind, ExportSection, GlobalType, MemoryType, Module, ModuleType,
    RawSection, SectionId, TableType,
};
use wasmparser::{
    BinaryReader, CompositeInnerType, ConstExpr, Data, DataKind, Export, ExternalKind, FromReader, Global,
    Imports, Operator, RecGroup, SectionLimited, Table, TypeRef,
};

/// The module that memory and globals are imported from.
pub(super) const STATE: &str = "modelhost:state";
const MEMORY: &str = "memory";
/// The magic number and the version of a component, and of a module.
pub(super) const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const MODULE: &[u8] = b"\0asm\x01\0\0\0";
/// Most sections that are looked at: what tools make has some dozens.
const MOST_SECTIONS: usize = 1024;
/// Most types, imports, functions and exports of a valid module.
const MOST_ITEMS: u32 = 1_000_000;
/// Most tables and globals of a module that is taken out, each of which an instance has in the host's memory.
const MOST_TABLES: u32 = 16;
const MOST_GLOBALS: u32 = 4096;

const TYPE: u8 = SectionId::Type as u8;
const IMPORT: u8 = SectionId::Import as u8;
const FUNCTION: u8 = SectionId::Function as u8;
const TABLE: u8 = SectionId::Table as u8;
const MEMORIES: u8 = SectionId::Memory as u8;
const GLOBAL: u8 = SectionId::Global as u8;
const EXPORT: u8 = SectionId::Export as u8;
const CODE: u8 = SectionId::Code as u8;
const DATA: u8 = SectionId::Data as u8;
const DATA_COUNT: u8 = SectionId::DataCount as u8;
const TAG: u8 = SectionId::Tag as u8;

/// A section of a module or a component.
pub(super) struct Section<'a> {
    pub(super) id: u8,
    pub(super) contents: &'a [u8],
}

impl<'a> Section<'a> {
    /// Its entries, if they are not more than a valid module has.
    fn items<T: FromReader<'a>>(&self) -> Option<SectionLimited<'a, T>> {
        let items = SectionLimited::new(BinaryReader::new(self.contents, 0)).ok()?;
        (items.count() <= MOST_ITEMS).then_some(items)
    }

    /// The section as it is.
    pub(super) fn raw(&self) -> RawSection<'a> {
        RawSection { id: self.id, data: self.contents }
    }
}

/// The outermost sections of what begins with `header`.
pub(super) fn sections<'a>(bytes: &'a [u8], header: &[u8]) -> Option<Vec<Section<'a>>> {
    let mut reader = BinaryReader::new(bytes.strip_prefix(header)?, 0);
    let mut sections = Vec::new();
    while !reader.eof() {
        if sections.len() == MOST_SECTIONS {
            return None;
        }
        let id = reader.read_u8().ok()?;
        let length = usize::try_from(reader.read_var_u32().ok()?).ok()?;
        sections.push(Section { id, contents: reader.read_bytes(length).ok()? });
    }
    Some(sections)
}

/// The code of a module.
pub(super) struct Code<'a> {
    /// As a module.
    pub(super) bytes: Cow<'a, [u8]>,
    pub(super) r#type: ModuleType,
    /// The module that it imports from [`STATE`].
    pub(super) state: Option<Vec<u8>>,
}

impl<'a> Code<'a> {
    /// The code of a module; `None` if it cannot be had alone, or is not worth it.
    /// A module with a memory of its own has at least `interpreter` bytes of code.
    pub(super) fn of(module: &'a [u8], interpreter: usize) -> Option<Code<'a>> {
        let sections = sections(module, MODULE)?;
        // Each is there once, as has to be: what is put together again shows no repetition.
        let is_twice = |section: &Section<'_>| {
            section.id != SectionId::Custom as u8
                && sections.iter().filter(|other| other.id == section.id).count() > 1
        };
        if sections.iter().any(is_twice) {
            return None;
        }
        let mut spaces = Spaces::read(&sections)?;
        let has_state = spaces.own_memories + spaces.data > 0 || spaces.has_own_variables;
        if !has_state {
            return Some(Code { bytes: module.into(), r#type: spaces.module_type(&sections)?, state: None });
        }
        let is_movable = spaces.own_memories == 1
            && spaces.memories.len() == 1
            && spaces.are_globals_plain
            && spaces.is_data_plain
            && spaces.code >= interpreter;
        if !is_movable {
            return None;
        }
        let memory = *spaces.memories.first()?;
        spaces.r#type.import(STATE, MEMORY, EntityType::Memory(memory));
        let own = spaces.globals.split_off(spaces.imported_globals);
        for (number, global) in own.iter().enumerate() {
            spaces.r#type.import(STATE, &number.to_string(), EntityType::Global(*global));
        }
        spaces.globals.extend(&own);
        let bytes = code(&sections, memory, &own)?;
        Some(Code {
            bytes: bytes.into(),
            r#type: spaces.module_type(&sections)?,
            state: Some(state(&sections, own.len())?),
        })
    }
}

/// The index spaces of a module.
#[derive(Default)]
struct Spaces {
    r#type: ModuleType,
    functions: Vec<u32>,
    tables: Vec<TableType>,
    memories: Vec<MemoryType>,
    globals: Vec<GlobalType>,
    imported_globals: usize,
    own_memories: u32,
    /// Whether it has globals of its own that change.
    has_own_variables: bool,
    /// Whether its own globals begin with numbers.
    are_globals_plain: bool,
    data: u32,
    /// Bytes.
    code: usize,
    /// Whether all data lies in the memory from the beginning, at places that are numbers.
    is_data_plain: bool,
}

impl Spaces {
    fn read(sections: &[Section<'_>]) -> Option<Spaces> {
        let mut spaces = Spaces { are_globals_plain: true, is_data_plain: true, ..Spaces::default() };
        for section in sections {
            spaces.add(section)?;
        }
        Some(spaces)
    }

    fn add(&mut self, section: &Section<'_>) -> Option<()> {
        let mut same = RoundtripReencoder;
        match section.id {
            TYPE => {
                for group in section.items::<RecGroup>()? {
                    let group = group.ok()?;
                    for r#type in group.types() {
                        let composite = &r#type.composite_type;
                        let CompositeInnerType::Func(function) = &composite.inner else { return None };
                        let is_plain = r#type.is_final && r#type.supertype_idx.is_none() && !composite.shared;
                        if !is_plain || group.is_explicit_rec_group() {
                            return None;
                        }
                        self.r#type.ty().func_type(&same.func_type(function.clone()).ok()?);
                    }
                }
            }
            IMPORT => {
                for import in section.items::<Imports<'_>>()?.into_imports() {
                    let import = import.ok()?;
                    let entity = same.entity_type(import.ty).ok()?;
                    match (import.ty, entity) {
                        (TypeRef::Func(_), EntityType::Function(r#type)) => self.functions.push(r#type),
                        (_, EntityType::Table(table)) => self.tables.push(table),
                        (_, EntityType::Memory(memory)) => self.memories.push(memory),
                        (_, EntityType::Global(global)) => self.globals.push(global),
                        _ => return None,
                    }
                    self.r#type.import(import.module, import.name, entity);
                }
                self.imported_globals = self.globals.len();
            }
            FUNCTION => {
                for r#type in section.items::<u32>()? {
                    self.functions.push(r#type.ok()?);
                }
            }
            TABLE => {
                let tables = section.items::<Table<'_>>()?;
                if tables.count() > MOST_TABLES {
                    return None;
                }
                for table in tables {
                    self.tables.push(same.table_type(table.ok()?.ty).ok()?);
                }
            }
            MEMORIES => {
                for memory in section.items::<wasmparser::MemoryType>()? {
                    self.memories.push(same.memory_type(memory.ok()?).ok()?);
                    self.own_memories += 1;
                }
            }
            GLOBAL => {
                let globals = section.items::<Global<'_>>()?;
                if globals.count() > MOST_GLOBALS {
                    return None;
                }
                for global in globals {
                    let global = global.ok()?;
                    self.globals.push(same.global_type(global.ty).ok()?);
                    self.has_own_variables |= global.ty.mutable;
                    self.are_globals_plain &= is_number(&global.init_expr);
                }
            }
            DATA => {
                for data in section.items::<Data<'_>>()? {
                    self.data += 1;
                    let data = data.ok()?;
                    self.is_data_plain &= match &data.kind {
                        DataKind::Active { memory_index, offset_expr } => {
                            *memory_index == 0 && is_number(offset_expr)
                        }
                        // What a snapshot has in the place of data that were active.
                        DataKind::Passive => data.data.is_empty(),
                    };
                }
            }
            CODE => self.code = section.contents.len(),
            TAG => return None,
            _ => {}
        }
        Some(())
    }

    /// The module's type: all that is imported, and what it exports.
    fn module_type(mut self, sections: &[Section<'_>]) -> Option<ModuleType> {
        for export in sections.iter().find(|section| section.id == EXPORT)?.items::<Export<'_>>()? {
            let export = export.ok()?;
            let index = usize::try_from(export.index).ok()?;
            let entity = match export.kind {
                ExternalKind::Func => EntityType::Function(*self.functions.get(index)?),
                ExternalKind::Table => EntityType::Table(*self.tables.get(index)?),
                ExternalKind::Memory => EntityType::Memory(*self.memories.get(index)?),
                ExternalKind::Global => EntityType::Global(*self.globals.get(index)?),
                _ => return None,
            };
            self.r#type.export(export.name, entity);
        }
        Some(self.r#type)
    }
}

/// Whether an expression is a number that stands there.
fn is_number(expression: &ConstExpr<'_>) -> bool {
    let mut operators = expression.get_operators_reader();
    let number = operators.read();
    matches!(
        number,
        Ok(Operator::I32Const { .. }
            | Operator::I64Const { .. }
            | Operator::F32Const { .. }
            | Operator::F64Const { .. }
            | Operator::V128Const { .. })
    ) && matches!(operators.read(), Ok(Operator::End))
}

/// The module that imports `memory` and `globals` in place of having them.
fn code(sections: &[Section<'_>], memory: MemoryType, globals: &[GlobalType]) -> Option<Vec<u8>> {
    let mut added = Vec::new();
    let mut import = |name: &str, entity: EntityType| {
        STATE.encode(&mut added);
        name.encode(&mut added);
        entity.encode(&mut added);
    };
    import(MEMORY, EntityType::Memory(memory));
    for (number, global) in globals.iter().enumerate() {
        import(&number.to_string(), EntityType::Global(*global));
    }
    let mut module = Module::new();
    let mut has_imports = false;
    for section in sections {
        match section.id {
            MEMORIES | GLOBAL | DATA | DATA_COUNT => {}
            IMPORT => {
                has_imports = true;
                let mut reader = BinaryReader::new(section.contents, 0);
                let count = reader.read_var_u32().ok()? + u32::try_from(globals.len()).ok()? + 1;
                let mut joined = Vec::with_capacity(section.contents.len() + added.len() + 1);
                count.encode(&mut joined);
                joined.extend_from_slice(section.contents.get(reader.current_position()..)?);
                joined.extend_from_slice(&added);
                module.section(&RawSection { id: IMPORT, data: &joined });
            }
            _ => {
                module.section(&section.raw());
            }
        }
    }
    has_imports.then(|| module.finish())
}

/// The module that has the memory and `globals` globals, and exports them.
fn state(sections: &[Section<'_>], globals: usize) -> Option<Vec<u8>> {
    let mut exports = ExportSection::new();
    exports.export(MEMORY, ExportKind::Memory, 0);
    for number in 0..globals {
        exports.export(&number.to_string(), ExportKind::Global, u32::try_from(number).ok()?);
    }
    let mut module = Module::new();
    for id in [MEMORIES, GLOBAL, EXPORT, DATA] {
        match sections.iter().find(|section| section.id == id) {
            _ if id == EXPORT => module.section(&exports),
            Some(section) => module.section(&section.raw()),
            None => continue,
        };
    }
    Some(module.finish())
}
