//! The runtime of QuickJS with what is a handler's own in it.
//!
//! In: the runtime's module, which imports three functions from `handler`; the tables of a world. Out: one
//! module that imports and exports what the world says. Those three functions are made here, as are the
//! exports, each of which leaves its arguments in `frame` and calls `dispatch`.
//! Invariant: the runtime's code stays as it is, but for the numbers of functions.

use std::collections::HashMap;
use std::convert::Infallible;

use anyhow::{Context as _, anyhow};
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    BlockType, CodeSection, DataCountSection, DataSection, ExportKind, ExportSection, Function,
    FunctionSection, ImportSection, InstructionSink, MemArg, Module, SectionId, TypeSection, ValType,
};
use wasmparser::{
    CodeSectionReader, CustomSectionReader, DataSectionReader, ExportSectionReader, ExternalKind,
    FunctionSectionReader, ImportSectionReader, Parser, Payload, TypeRef, TypeSectionReader,
};
use wit_parser::abi::WasmType;

use super::tables::{CoreFunction, Tables};

/// The module that the runtime imports the handler's own from, and the names there.
const HANDLER: &str = "handler";
const OWN: [&str; 3] = ["call", "length", "copy"];
/// The runtime's exports for the functions that are made here.
const DISPATCH: &str = "dispatch";
const POST_RETURN: &str = "post_return";
const FRAME: &str = "frame";

/// The module of a handler.
///
/// # Errors
/// The runtime is not one.
pub(super) fn linked(runtime: &[u8], tables: &Tables) -> anyhow::Result<Vec<u8>> {
    let mut linking = Linking::of(runtime, tables).context("the runtime of QuickJS is unusable")?;
    let mut module = Module::new();
    linking
        .parse_core_module(&mut module, Parser::new(0), runtime)
        .map_err(|error| anyhow!("the runtime of QuickJS is unusable: {error}"))?;
    Ok(module.finish())
}

struct Linking<'a> {
    tables: &'a Tables,
    /// The new number of each function of the runtime.
    functions: HashMap<u32, u32>,
    types: u32,
    /// The number of the first import that is the handler's.
    first_import: u32,
    /// The number of the segment of data with the tables.
    segment: u32,
    /// How many functions there are before those that are made here.
    before: u32,
    dispatch: u32,
    post_return: u32,
    frame: u32,
}

impl<'a> Linking<'a> {
    fn of(runtime: &[u8], tables: &'a Tables) -> anyhow::Result<Linking<'a>> {
        let mut linking = Linking {
            tables,
            functions: HashMap::new(),
            types: 0,
            first_import: 0,
            segment: 0,
            before: 0,
            dispatch: 0,
            post_return: 0,
            frame: 0,
        };
        let (mut old, mut new) = (0, 0);
        let mut own = HashMap::new();
        let mut exported = HashMap::new();
        for payload in Parser::new(0).parse_all(runtime) {
            match payload? {
                Payload::TypeSection(types) => linking.types = types.count(),
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        let import = import?;
                        if !matches!(import.ty, TypeRef::Func(_)) {
                            continue;
                        }
                        if import.module == HANDLER {
                            own.insert(import.name.to_owned(), old);
                        } else {
                            linking.functions.insert(old, new);
                            new += 1;
                        }
                        old += 1;
                    }
                    linking.first_import = new;
                    new += tables.imports.len() as u32;
                }
                Payload::FunctionSection(functions) => {
                    for _ in 0..functions.count() {
                        linking.functions.insert(old, new);
                        (old, new) = (old + 1, new + 1);
                    }
                }
                Payload::DataSection(data) => linking.segment = data.count(),
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        exported.insert(export.name.to_owned(), export.index);
                    }
                }
                _ => {}
            }
        }
        linking.before = new;
        for (at, name) in (0..).zip(OWN) {
            let import = own.get(name).with_context(|| format!("it has no import `{name}`"))?;
            linking.functions.insert(*import, new + at);
        }
        let number = |name: &str| exported.get(name).copied().with_context(|| format!("it has no `{name}`"));
        linking.dispatch = linking.moved(number(DISPATCH)?);
        linking.post_return = linking.moved(number(POST_RETURN)?);
        linking.frame = number(FRAME)?;
        Ok(linking)
    }

    fn moved(&self, function: u32) -> u32 {
        self.functions.get(&function).copied().unwrap_or(function)
    }

    /// The types of what is made here: the three functions', the imports', the exports', that of what frees.
    fn add_types(&self, types: &mut TypeSection) {
        let (i32, none) = (ValType::I32, []);
        types.ty().function([i32, i32], none);
        types.ty().function(none, [i32]);
        types.ty().function([i32], none);
        for edge in self.edges() {
            let signature = &edge.signature;
            types.ty().function(signature.params.iter().map(value), signature.results.iter().map(value));
        }
    }

    fn edges(&self) -> impl Iterator<Item = &'a CoreFunction> + use<'a> {
        self.tables.imports.iter().chain(&self.tables.exports)
    }

    fn export_type(&self, at: usize) -> u32 {
        self.types + (OWN.len() + self.tables.imports.len() + at) as u32
    }

    fn call(&self) -> Function {
        let mut function = Function::new([]);
        let imports = &self.tables.imports;
        let mut code = function.instructions();
        for _ in imports {
            code.block(BlockType::Empty);
        }
        if !imports.is_empty() {
            let depths: Vec<u32> = (0..imports.len() as u32).collect();
            code.local_get(0).br_table(depths.clone(), depths.last().copied().unwrap_or(0));
        }
        for (number, edge) in (self.first_import..).zip(imports) {
            code.end();
            let results = &edge.signature.results;
            if !results.is_empty() {
                code.local_get(1);
            }
            for (at, of) in (0..).zip(&edge.signature.params) {
                code.local_get(1);
                load(&mut code, of, at);
            }
            code.call(number);
            if let Some(result) = results.first() {
                store(&mut code, result, 0);
            }
            code.return_();
        }
        code.unreachable().end();
        function
    }

    fn add_code(&self, code: &mut CodeSection) {
        code.function(&self.call());
        let length = self.tables.bytes.len() as i32;
        let mut function = Function::new([]);
        function.instructions().i32_const(length).end();
        code.function(&function);
        let mut function = Function::new([]);
        let segment = self.segment;
        function.instructions().local_get(0).i32_const(0).i32_const(length).memory_init(0, segment).end();
        code.function(&function);
        for (number, edge) in (0..).zip(&self.tables.exports) {
            let mut function = Function::new([]);
            let mut code_of = function.instructions();
            for (at, of) in (0..).zip(&edge.signature.params) {
                code_of.global_get(self.frame).local_get(at);
                store(&mut code_of, of, at);
            }
            code_of.i32_const(number).call(self.dispatch);
            if let Some(result) = edge.signature.results.first() {
                code_of.global_get(self.frame);
                load(&mut code_of, result, 0);
            }
            code_of.end();
            code.function(&function);
        }
        let mut function = Function::new([]);
        function.instructions().call(self.post_return).end();
        code.function(&function);
    }
}

impl Reencode for Linking<'_> {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error> {
        Ok(self.moved(function))
    }

    fn parse_custom_section(&mut self, _: &mut Module, _: CustomSectionReader<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        given: TypeSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_type_section(self, types, given)?;
        self.add_types(types);
        Ok(())
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        given: ImportSectionReader<'_>,
    ) -> Result<(), Error> {
        for import in given.into_imports() {
            let import = import?;
            if import.module != HANDLER {
                utils::parse_import(self, imports, import)?;
            }
        }
        for (of, edge) in (self.types + OWN.len() as u32..).zip(&self.tables.imports) {
            imports.import(&edge.module, &edge.name, wasm_encoder::EntityType::Function(of));
        }
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        given: FunctionSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_function_section(self, functions, given)?;
        for of in 0..OWN.len() as u32 {
            functions.function(self.types + of);
        }
        for at in 0..self.tables.exports.len() {
            functions.function(self.export_type(at));
        }
        // What frees a result takes its address, as `copy` takes one.
        functions.function(self.types + 2);
        Ok(())
    }

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        given: ExportSectionReader<'_>,
    ) -> Result<(), Error> {
        for export in given {
            let export = export?;
            if export.kind != ExternalKind::Func || ![DISPATCH, POST_RETURN].contains(&export.name) {
                utils::parse_export(self, exports, export)?;
            }
        }
        let first = self.before + OWN.len() as u32;
        let post_return = first + self.tables.exports.len() as u32;
        for (number, edge) in (first..).zip(&self.tables.exports) {
            exports.export(&edge.name, ExportKind::Func, number);
            if let Some(name) = &edge.post_return {
                exports.export(name, ExportKind::Func, post_return);
            }
        }
        Ok(())
    }

    fn intersperse_section_hook(
        &mut self,
        module: &mut Module,
        _after: Option<SectionId>,
        before: Option<SectionId>,
    ) -> Result<(), Error> {
        if before == Some(SectionId::Code) {
            module.section(&DataCountSection { count: self.segment + 1 });
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        given: CodeSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_code_section(self, code, given)?;
        self.add_code(code);
        Ok(())
    }

    fn parse_data_section(
        &mut self,
        data: &mut DataSection,
        given: DataSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_data_section(self, data, given)?;
        data.passive(self.tables.bytes.iter().copied());
        Ok(())
    }
}

fn value(of: &WasmType) -> ValType {
    match of {
        WasmType::I64 | WasmType::PointerOrI64 => ValType::I64,
        WasmType::F32 => ValType::F32,
        WasmType::F64 => ValType::F64,
        _ => ValType::I32,
    }
}

fn slot(at: u32, align: u32) -> MemArg {
    MemArg { offset: u64::from(at) * 8, align, memory_index: 0 }
}

/// Loads a value from the slots whose address is on the stack.
fn load(code: &mut InstructionSink<'_>, of: &WasmType, at: u32) {
    match value(of) {
        ValType::I64 => code.i64_load(slot(at, 3)),
        ValType::F32 => code.f32_load(slot(at, 2)),
        ValType::F64 => code.f64_load(slot(at, 3)),
        _ => code.i32_load(slot(at, 2)),
    };
}

/// Stores a value in the slots whose address is on the stack below it.
fn store(code: &mut InstructionSink<'_>, of: &WasmType, at: u32) {
    match value(of) {
        ValType::I64 => code.i64_store(slot(at, 3)),
        ValType::F32 => code.f32_store(slot(at, 2)),
        ValType::F64 => code.f64_store(slot(at, 3)),
        _ => code.i64_extend_i32_u().i64_store(slot(at, 3)),
    };
}
