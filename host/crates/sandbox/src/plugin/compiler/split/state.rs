//! The memory and the variables that instances of a component begin with, as a core module of their own.
//!
//! Place in the flow: inside the splitter, which takes them out of the component's modules; and after `init`,
//! whose memory and variables take the place of the first ones. In: a memory, its data and globals. Out: a
//! module without a function, which exports them.
//! Invariant: nothing but this differs between two handlers with the same interpreter and the same contract,
//! and between the two sides of `init`.

use std::borrow::Cow;
use std::ops::Range;

use wasm_encoder::{
    ConstExpr, Encode as _, EntityType, ExportKind, ExportSection, GlobalSection, GlobalType, Ieee32, Ieee64,
    MemorySection, MemoryType, Module, ModuleType, RawSection, SectionId, ValType,
};
use wasmparser::BinaryReader;

/// The module that the code imports it from.
pub(super) const STATE: &str = "modelhost:state";
pub(super) const MEMORY: &str = "memory";
/// The beginning of the name of an export that says of which frame's instances this is the state; the
/// frame's digest follows, and which states belong together.
const FRAME: &str = "frame ";
/// Most globals of all modules, each of which an instance has in the host's memory.
const MOST_GLOBALS: usize = 4096;
/// The contents of a section without any.
const NO_DATA: &[u8] = &[0];
/// The first byte of a piece of data that lies in the memory from the beginning.
const ACTIVE: u8 = 0;
/// Bytes of memory that are kept or left out together: what the system maps at once.
const BLOCK: usize = 4096;

/// A global, and what it begins with.
pub(super) type Global = (GlobalType, ConstExpr);

/// The memory and the variables that the instances of a component begin with.
pub(in crate::plugin) struct State<'a> {
    /// The pages that each module which imports the memory finds enough.
    least_pages: u64,
    memory: Option<MemoryType>,
    /// The contents of a section of data.
    data: Cow<'a, [u8]>,
    globals: Vec<Global>,
}

impl<'a> State<'a> {
    pub(super) fn new(least_pages: u64) -> State<'a> {
        State { least_pages, memory: None, data: Cow::Borrowed(&[]), globals: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.memory.is_none() && self.globals.is_empty()
    }

    /// Adds the memory and the data in it, and gives its type for those who import it; `None` if there is one
    /// already, or it is of an unusual kind.
    pub(super) fn add_memory(&mut self, memory: MemoryType, data: Cow<'a, [u8]>) -> Option<MemoryType> {
        let is_plain = !memory.memory64 && !memory.shared && memory.page_size_log2.is_none();
        if self.memory.is_some() || !is_plain {
            return None;
        }
        self.memory = Some(memory);
        self.data = data;
        // A module without an instance may ask for more.
        self.least_pages = self.least_pages.min(memory.minimum);
        Some(self.imported(memory))
    }

    /// The same type for all handlers, however much they and `init` have in the memory.
    fn imported(&self, memory: MemoryType) -> MemoryType {
        MemoryType { minimum: self.least_pages, ..memory }
    }

    /// Adds a global, and gives the name that it is imported by.
    pub(super) fn add_global(&mut self, r#type: GlobalType, value: ConstExpr) -> String {
        self.globals.push((r#type, value));
        (self.globals.len() - 1).to_string()
    }

    /// Whether all of it can be read from an instance, and written down.
    pub(super) fn can_be_read(&self) -> bool {
        self.memory.is_some() && self.variables().all(|(_, r#type)| number(r#type.val_type, 0).is_some())
    }

    /// Whether it has no more than a state may have.
    pub(super) fn is_bounded(&self) -> bool {
        self.globals.len() <= MOST_GLOBALS
    }

    /// The memory's type, as it is imported.
    pub(super) fn memory(&self) -> Option<MemoryType> {
        self.memory.map(|memory| self.imported(memory))
    }

    /// The memory's type, as it is.
    pub(super) fn whole_memory(&self) -> Option<MemoryType> {
        self.memory
    }

    /// The contents of a section of data.
    pub(super) fn data(&self) -> &[u8] {
        match self.data.is_empty() {
            true => NO_DATA,
            false => &self.data,
        }
    }

    /// How many pieces of data there are.
    pub(super) fn pieces(&self) -> Option<u32> {
        BinaryReader::new(self.data(), 0).read_var_u32().ok()
    }

    /// All globals.
    pub(super) fn globals(&self) -> impl Iterator<Item = &Global> {
        self.globals.iter()
    }

    /// The globals that change, and the names that they are imported by.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, GlobalType)> {
        let all = self.globals.iter().enumerate();
        all.filter(|(_, (r#type, _))| r#type.mutable)
            .map(|(number, (r#type, _))| (number.to_string(), *r#type))
    }

    /// The type of the module.
    pub(super) fn module_type(&self) -> ModuleType {
        let mut module = ModuleType::new();
        if let Some(memory) = self.memory() {
            module.export(MEMORY, EntityType::Memory(memory));
        }
        for (number, (r#type, _)) in self.globals.iter().enumerate() {
            module.export(&number.to_string(), EntityType::Global(*r#type));
        }
        module
    }

    /// The module, for instances of the frame with this digest. `run` is the same for states that belong
    /// together.
    pub(in crate::plugin) fn module(&self, frame: &str, run: u128) -> Vec<u8> {
        let mut module = Module::new();
        if let Some(memory) = self.memory {
            module.section(MemorySection::new().memory(memory));
        }
        let (mut globals, mut exports) = (GlobalSection::new(), ExportSection::new());
        for (number, (r#type, value)) in (0..).zip(&self.globals) {
            globals.global(*r#type, value);
            exports.export(&number.to_string(), ExportKind::Global, number);
        }
        let constant = GlobalType { val_type: ValType::I32, mutable: false, shared: false };
        exports.export(&format!("{FRAME}{frame} {run:x}"), ExportKind::Global, globals.len());
        globals.global(constant, &ConstExpr::i32_const(0));
        if self.memory.is_some() {
            exports.export(MEMORY, ExportKind::Memory, 0);
        }
        module.section(&globals).section(&exports);
        if self.memory.is_some() {
            module.section(&RawSection { id: SectionId::Data as u8, data: self.data() });
        }
        module.finish()
    }

    /// The state of an instance whose memory and variables are these by now; `None` if there are not as many
    /// variables, or more memory than one may have.
    pub(in crate::plugin) fn after(&self, memory: &[u8], variables: &[u64]) -> Option<State<'static>> {
        let mut values = variables.iter();
        let globals = self.globals.iter().map(|(r#type, value)| {
            let value = match r#type.mutable {
                true => number(r#type.val_type, *values.next()?)?,
                false => value.clone(),
            };
            Some((*r#type, value))
        });
        let globals = globals.collect::<Option<_>>()?;
        let pages = memory.len() as u64 >> 16;
        Some(State {
            least_pages: self.least_pages,
            memory: Some(MemoryType { minimum: pages, ..self.memory? }),
            data: Cow::Owned(data(memory)?),
            globals,
        })
    }
}

/// The frame's digest, and the number of those that belong together, in the name of an export of a state's
/// module, if it is that one.
pub(in crate::plugin) fn frame_in(export: &str) -> Option<(&str, &str)> {
    export.strip_prefix(FRAME)?.split_once(' ')
}

fn number(r#type: ValType, bits: u64) -> Option<ConstExpr> {
    Some(match r#type {
        ValType::I32 => ConstExpr::i32_const((bits as u32).cast_signed()),
        ValType::I64 => ConstExpr::i64_const(bits.cast_signed()),
        ValType::F32 => ConstExpr::f32_const(Ieee32::new(bits as u32)),
        ValType::F64 => ConstExpr::f64_const(Ieee64::new(bits)),
        ValType::V128 | ValType::Ref(_) => return None,
    })
}

/// The contents of a section of data with all of this memory that is not zero, in blocks.
fn data(memory: &[u8]) -> Option<Vec<u8>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (number, block) in memory.chunks(BLOCK).enumerate() {
        if block.iter().all(|byte| *byte == 0) {
            continue;
        }
        let begin = number * BLOCK;
        match runs.last_mut() {
            Some(last) if last.end == begin => last.end += block.len(),
            _ => runs.push(begin..begin + block.len()),
        }
    }
    let mut section = Vec::with_capacity(memory.len());
    runs.len().encode(&mut section);
    for run in runs {
        section.push(ACTIVE);
        let place = u32::try_from(run.start).ok()?;
        ConstExpr::i32_const(place.cast_signed()).encode(&mut section);
        memory.get(run)?.encode(&mut section);
    }
    Some(section)
}

#[cfg(test)]
mod tests {
    use wasmparser::{DataKind, DataSectionReader, Operator};

    use super::*;

    /// The pieces of a section, and where they lie.
    fn pieces(section: &[u8]) -> Vec<(i32, &[u8])> {
        let pieces = DataSectionReader::new(BinaryReader::new(section, 0)).unwrap().into_iter().map(|data| {
            let data = data.unwrap();
            let DataKind::Active { memory_index: 0, offset_expr } = data.kind else { panic!() };
            let Operator::I32Const { value } = offset_expr.get_operators_reader().read().unwrap() else {
                panic!()
            };
            (value, data.data)
        });
        pieces.collect()
    }

    #[test]
    fn blocks_that_are_not_zero_are_kept() {
        let mut memory = vec![0; 10 * BLOCK];
        assert_eq!(pieces(&data(&memory).unwrap()), []);
        for place in [0, 3 * BLOCK - 1, 3 * BLOCK, 9 * BLOCK + 7] {
            memory[place] = 7;
        }
        let section = data(&memory).unwrap();
        let found = pieces(&section);
        let places: Vec<_> = found.iter().map(|(place, piece)| (*place as usize, piece.len())).collect();
        assert_eq!(places, [(0, BLOCK), (2 * BLOCK, 2 * BLOCK), (9 * BLOCK, BLOCK)]);
        for (place, piece) in found {
            assert_eq!(piece, &memory[place as usize..][..piece.len()]);
        }
    }
}
