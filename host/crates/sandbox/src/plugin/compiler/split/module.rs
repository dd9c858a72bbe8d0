//! A core module as nothing but code.
//!
//! Place in the flow: inside the splitter. In: a module's bytes. Out: its code as a module, and that module's
//! type. The memory and the globals that it had are imported from the component's state, see `state.rs`; or
//! the module with others in their place.
//! Invariants: no byte of the code changes, and no index in it: imports come first in each index space, and
//! what moves was all that came after them.

use std::borrow::Cow;

use wasm_encoder::reencode::{Reencode as _, RoundtripReencoder};
use wasm_encoder::{
    DataCountSection, DataSection, Encode as _, EntityType, GlobalSection, GlobalType, MemorySection,
    MemoryType, Module, ModuleType, RawSection, SectionId, TableType,
};
use wasmparser::{
    BinaryReader, CompositeInnerType, ConstExpr, Data, DataKind, Export, ExternalKind, FromReader, Global,
    Imports, Operator, RecGroup, SectionLimited, Table, TypeRef,
};

use super::state::{self, MEMORY, STATE, State};

/// The magic number and the version of a component, and of a module.
pub(super) const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const MODULE: &[u8] = b"\0asm\x01\0\0\0";
/// Most sections that are looked at: what tools make has some dozens.
const MOST_SECTIONS: usize = 1024;
/// Most types, imports, functions and exports of a valid module.
const MOST_ITEMS: u32 = 1_000_000;
/// Most tables and globals of a module, each of which an instance has in the host's memory.
const MOST_TABLES: u32 = 16;
const MOST_GLOBALS: u32 = 4096;

const TYPE: u8 = SectionId::Type as u8;
const IMPORT: u8 = SectionId::Import as u8;
const FUNCTION: u8 = SectionId::Function as u8;
const TABLE: u8 = SectionId::Table as u8;
const MEMORIES: u8 = SectionId::Memory as u8;
const GLOBAL: u8 = SectionId::Global as u8;
const EXPORT: u8 = SectionId::Export as u8;
const ELEMENT: u8 = SectionId::Element as u8;
const CODE: u8 = SectionId::Code as u8;
const DATA: u8 = SectionId::Data as u8;
const DATA_COUNT: u8 = SectionId::DataCount as u8;
const START: u8 = SectionId::Start as u8;
const TAG: u8 = SectionId::Tag as u8;

/// The order in which sections come (WebAssembly's binary format, Modules).
const ORDER: [u8; 13] =
    [TYPE, IMPORT, FUNCTION, TABLE, MEMORIES, TAG, GLOBAL, EXPORT, START, ELEMENT, DATA_COUNT, CODE, DATA];

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

/// A core module, read.
pub(super) struct CoreModule<'a> {
    bytes: &'a [u8],
    sections: Vec<Section<'a>>,
    spaces: Spaces,
}

/// The code of a module.
pub(super) struct Code<'a> {
    /// As a module.
    pub(super) bytes: Cow<'a, [u8]>,
    /// That module's type; `None` if it exports nothing.
    pub(super) r#type: Option<ModuleType>,
    /// Whether it imports from [`STATE`].
    pub(super) has_state: bool,
    /// Bytes of its functions; `None` if there is more than code in it.
    pub(super) length: Option<usize>,
}

impl<'a> CoreModule<'a> {
    /// `None` if it has an unusual form.
    pub(super) fn read(bytes: &'a [u8]) -> Option<CoreModule<'a>> {
        let sections = sections(bytes, MODULE)?;
        // Each is there once and in its place, as has to be: what is put together again does not show it.
        let places = sections.iter().filter(|section| section.id != SectionId::Custom as u8);
        let places = places.map(|section| ORDER.iter().position(|id| *id == section.id));
        if !places.collect::<Option<Vec<_>>>()?.is_sorted_by(|one, next| one < next) {
            return None;
        }
        let spaces = Spaces::read(&sections)?;
        Some(CoreModule { bytes, sections, spaces })
    }

    /// Pages that a memory has to have, for this module to import it.
    pub(super) fn least_pages(&self) -> u64 {
        let own = usize::try_from(self.spaces.own_memories).unwrap_or_default();
        let imported = self.spaces.memories.iter().rev().skip(own);
        imported.map(|memory| memory.minimum).max().unwrap_or_default()
    }

    /// Whether something runs as soon as there is an instance.
    pub(super) fn has_start(&self) -> bool {
        self.spaces.has_start
    }

    /// Whether its instances begin with something that changes.
    pub(super) fn has_state(&self) -> bool {
        self.spaces.has_state()
    }

    /// The module whose instances begin with the memory of `state`, if it has one, and with as many of these
    /// globals as it has; what runs as soon as there is an instance is left out.
    pub(super) fn beginning_with<'s>(
        &self,
        state: &State<'_>,
        globals: &mut impl Iterator<Item = &'s state::Global>,
    ) -> Option<Vec<u8>> {
        let (has_state, has_memory) = (self.spaces.has_state(), self.spaces.has_memory());
        let mut before = DataSection::new();
        if self.spaces.has_passive_data {
            before = passive(&self.sections)?;
        }
        let mut module = Module::new();
        for section in &self.sections {
            match section.id {
                START => {}
                // Behind all others.
                DATA if has_memory => {}
                DATA_COUNT if has_memory => {
                    module.section(&DataCountSection { count: before.len() + state.pieces()? });
                }
                MEMORIES if has_memory => {
                    module.section(MemorySection::new().memory(state.whole_memory()?));
                }
                GLOBAL if has_state => {
                    let mut own = GlobalSection::new();
                    for _ in &self.spaces.values {
                        let (r#type, value) = globals.next()?;
                        own.global(*r#type, value);
                    }
                    module.section(&own);
                }
                _ => _ = module.section(&section.raw()),
            }
        }
        if has_memory {
            let data = match before.is_empty() {
                true => Cow::Borrowed(state.data()),
                false => Cow::Owned(joined(&contents(&before)?, state.data())?),
            };
            module.section(&RawSection { id: DATA, data: &data });
        }
        Some(module.finish())
    }

    /// The module without what its instances begin with, which becomes part of `state`; `None` if that cannot
    /// be taken away.
    pub(super) fn code(self, state: &mut State<'a>) -> Option<Code<'a>> {
        let CoreModule { bytes, sections, mut spaces } = self;
        let (has_state, has_memory) = (spaces.has_state(), spaces.has_memory());
        let length = (!spaces.has_passive_data).then_some(spaces.code);
        if !has_state {
            let r#type = spaces.module_type(&sections);
            return Some(Code { bytes: bytes.into(), r#type, has_state, length });
        }
        let is_movable = (has_memory || spaces.own_memories + spaces.data == 0)
            && spaces.are_globals_plain
            && spaces.is_data_plain;
        if !is_movable {
            return None;
        }
        let mut imports = Vec::new();
        if has_memory {
            let data = match spaces.has_passive_data {
                true => Cow::Owned(active(&sections)?),
                false => Cow::Borrowed(data_of(&sections).unwrap_or_default()),
            };
            let memory = state.add_memory(*spaces.memories.first()?, data)?;
            spaces.memories = vec![memory];
            imports.push((MEMORY.to_owned(), EntityType::Memory(memory)));
        }
        let own = spaces.globals.split_off(spaces.imported_globals);
        for (r#type, value) in own.iter().zip(std::mem::take(&mut spaces.values)) {
            imports.push((state.add_global(*r#type, value), EntityType::Global(*r#type)));
        }
        spaces.globals.extend(own);
        for (name, r#type) in &imports {
            spaces.r#type.import(STATE, name, *r#type);
        }
        let passive = spaces.has_passive_data.then(|| passive(&sections)).flatten();
        let bytes = importing(&sections, &imports, passive)?;
        Some(Code { bytes: bytes.into(), r#type: spaces.module_type(&sections), has_state, length })
    }
}

/// The contents of the section of data.
fn data_of<'a>(sections: &[Section<'a>]) -> Option<&'a [u8]> {
    sections.iter().find(|section| section.id == DATA).map(|section| section.contents)
}

/// The pieces of data.
fn pieces<'a>(sections: &[Section<'a>]) -> Option<Vec<Data<'a>>> {
    let section = sections.iter().find(|section| section.id == DATA)?;
    section.items::<Data<'_>>()?.into_iter().collect::<Result<_, _>>().ok()
}

/// Contents of a section with those that lie in the memory from the beginning.
fn active(sections: &[Section<'_>]) -> Option<Vec<u8>> {
    let mut active = DataSection::new();
    for data in pieces(sections)? {
        if let DataKind::Active { .. } = data.kind {
            RoundtripReencoder.parse_data(&mut active, data).ok()?;
        }
    }
    contents(&active)
}

/// The others, and nothing in the place of those, so that each has its number.
fn passive(sections: &[Section<'_>]) -> Option<DataSection> {
    let mut passive = DataSection::new();
    for data in pieces(sections)? {
        match data.kind {
            DataKind::Active { .. } => passive.passive([]),
            DataKind::Passive => passive.passive(data.data.iter().copied()),
        };
    }
    Some(passive)
}

/// The entries of two sections, in one.
fn joined(first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
    let (mut count, mut entries) = (0, Vec::new());
    for contents in [first, second] {
        let mut reader = BinaryReader::new(contents, 0);
        count += reader.read_var_u32().ok()?;
        entries.extend_from_slice(contents.get(reader.current_position()..)?);
    }
    let mut whole = Vec::with_capacity(entries.len() + 5);
    count.encode(&mut whole);
    whole.append(&mut entries);
    Some(whole)
}

/// A section without its length.
fn contents(section: &DataSection) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    section.encode(&mut whole);
    let mut reader = BinaryReader::new(&whole, 0);
    reader.read_var_u32().ok()?;
    let begin = reader.current_position();
    Some(whole.split_off(begin))
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
    /// The values that they begin with.
    values: Vec<wasm_encoder::ConstExpr>,
    has_start: bool,
    data: u32,
    /// Bytes.
    code: usize,
    /// Whether all data that lies in the memory from the beginning has places that are numbers.
    is_data_plain: bool,
    /// Whether there is other data, which code brings into the memory.
    has_passive_data: bool,
}

impl Spaces {
    fn has_state(&self) -> bool {
        self.own_memories + self.data > 0 || self.has_own_variables
    }

    /// Whether its only memory is its own.
    fn has_memory(&self) -> bool {
        self.own_memories == 1 && self.memories.len() == 1
    }

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
                    self.values.push(same.const_expr(global.init_expr).ok()?);
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
                        DataKind::Passive => true,
                    };
                    // What a snapshot has in the place of data that were active is empty.
                    self.has_passive_data |= matches!(data.kind, DataKind::Passive) && !data.data.is_empty();
                }
            }
            CODE => self.code = section.contents.len(),
            START => self.has_start = true,
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

/// The module that has these imports, of [`STATE`], in place of what its instances begin with.
/// `passive`: the data that stays.
fn importing(
    sections: &[Section<'_>],
    imports: &[(String, EntityType)],
    passive: Option<DataSection>,
) -> Option<Vec<u8>> {
    let mut module = Module::new();
    let mut has_imports = false;
    for section in sections {
        let comes_after = !matches!(section.id, TYPE | IMPORT) && section.id != SectionId::Custom as u8;
        if !has_imports && (comes_after || section.id == IMPORT) {
            has_imports = true;
            let (before, count) = match section.id {
                IMPORT => {
                    let mut reader = BinaryReader::new(section.contents, 0);
                    let count = reader.read_var_u32().ok()?;
                    (section.contents.get(reader.current_position()..)?, count)
                }
                _ => (&[][..], 0),
            };
            let mut joined = Vec::new();
            (count + u32::try_from(imports.len()).ok()?).encode(&mut joined);
            joined.extend_from_slice(before);
            for (name, r#type) in imports {
                STATE.encode(&mut joined);
                name.encode(&mut joined);
                r#type.encode(&mut joined);
            }
            module.section(&RawSection { id: IMPORT, data: &joined });
        }
        match (section.id, &passive) {
            (DATA, Some(passive)) => _ = module.section(passive),
            (DATA_COUNT, Some(_)) => _ = module.section(&section.raw()),
            (IMPORT | MEMORIES | GLOBAL | DATA | DATA_COUNT, _) => {}
            _ => _ = module.section(&section.raw()),
        }
    }
    has_imports.then(|| module.finish())
}
