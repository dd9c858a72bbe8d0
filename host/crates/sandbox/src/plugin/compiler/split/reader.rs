//! The functions through which the state of an instance is read.
//!
//! Place in the flow: at the end of the splitter. In: a component whose state was taken out of it. Out: the
//! sections that are added to it: a function that tells memory and variables, as an export that its instances
//! have for the host, and the same of the components inside it.
//! Invariants: nothing that is there changes, for all of it comes last; until the host calls it, the function
//! does nothing.

use wasm_encoder::{
    Alias, BlockType, CanonicalFunctionSection, CanonicalOption, CodeSection, Component,
    ComponentAliasSection, ComponentExportKind, ComponentExportSection, ComponentTypeSection,
    ComponentValType, EntityType, ExportKind, ExportSection, Function, FunctionSection, ImportSection,
    InstanceSection, MemArg, Module, ModuleArg, ModuleSection, PrimitiveValType, TypeSection, ValType,
};

use super::counts::Counts;
use super::state::{MEMORY, STATE, State};

/// The beginning of the function's name; a number follows.
const NAME: &str = "modelhost-state-x";
const READ: &str = "read";
/// Bits of a page.
const PAGE: i32 = 16;
/// Bytes before the variables: where memory and variables lie, and how many there are.
const HEAD: u64 = 16;

/// The name of the function that tells the state with this number.
pub(in crate::plugin) fn reader_name(number: usize) -> String {
    format!("{NAME}{number}")
}

/// Adds the function for the state with this number, whose instance is the component's first.
pub(super) fn add_reader(
    component: &mut Component,
    counts: &Counts,
    state: &State<'_>,
    number: usize,
) -> Option<()> {
    component.section(&ModuleSection(&reader(state)?));
    let mut instances = InstanceSection::new();
    instances.instantiate(counts.core_modules, [(STATE, ModuleArg::Instance(0))]);
    component.section(&instances);
    let mut aliases = ComponentAliasSection::new();
    for (instance, kind, name) in
        [(0, ExportKind::Memory, MEMORY), (counts.core_instances, ExportKind::Func, READ)]
    {
        aliases.alias(Alias::CoreInstanceExport { instance, kind, name });
    }
    component.section(&aliases);
    let mut types = ComponentTypeSection::new();
    let [bytes, variables] = [PrimitiveValType::U8, PrimitiveValType::U64].map(|of| {
        types.defined_type().list(of);
        ComponentValType::Type(counts.types + types.len() - 1)
    });
    types.defined_type().tuple([bytes, variables]);
    let both = ComponentValType::Type(counts.types + types.len() - 1);
    types.function().params([("", ComponentValType::Primitive(PrimitiveValType::U8)); 0]).result(Some(both));
    component.section(&types);
    let mut functions = CanonicalFunctionSection::new();
    let memory = CanonicalOption::Memory(counts.core_memories);
    functions.lift(counts.core_functions, counts.types + types.len() - 1, [memory]);
    component.section(&functions);
    export(component, number, counts.functions);
    Some(())
}

/// Passes the functions on that instances inside the component have: for each state its number and the
/// instance.
pub(super) fn pass_on(
    component: &mut Component,
    counts: &Counts,
    readers: impl Iterator<Item = (usize, u32)>,
) {
    // Each alias and each export is one more.
    for ((number, instance), function) in readers.zip((counts.functions..).step_by(2)) {
        let mut aliases = ComponentAliasSection::new();
        let (kind, name) = (ComponentExportKind::Func, reader_name(number));
        aliases.alias(Alias::InstanceExport { instance, kind, name: &name });
        component.section(&aliases);
        export(component, number, function);
    }
}

fn export(component: &mut Component, number: usize, function: u32) {
    let mut exports = ComponentExportSection::new();
    exports.export(reader_name(number).as_str(), ComponentExportKind::Func, function, None);
    component.section(&exports);
}

/// A module with a function that writes the variables behind the memory, and where both are; it gives the
/// place of that.
fn reader(state: &State<'_>) -> Option<Module> {
    let (mut types, mut imports) = (TypeSection::new(), ImportSection::new());
    types.ty().function([], [ValType::I32]);
    imports.import(STATE, MEMORY, EntityType::Memory(state.memory()?));
    let variables: Vec<_> = state.variables().collect();
    let count = u64::try_from(variables.len()).ok()?;
    let pages = (HEAD + 8 * count).div_ceil(1 << PAGE);
    let mut function = Function::new([(1, ValType::I32)]);
    let place = |offset: u64, align: u32| MemArg { offset, align, memory_index: 0 };
    {
        let mut code = function.instructions();
        code.i32_const(i32::try_from(pages).ok()?).memory_grow(0).local_tee(0);
        code.i32_const(-1).i32_eq().if_(BlockType::Empty).unreachable().end();
        code.local_get(0).i32_const(PAGE).i32_shl().local_set(0);
        // From 0 to the end that was.
        code.local_get(0).i32_const(0).i32_store(place(0, 2));
        code.local_get(0).local_get(0).i32_store(place(4, 2));
        code.local_get(0).local_get(0).i32_const(HEAD as i32).i32_add().i32_store(place(8, 2));
        code.local_get(0).i32_const(i32::try_from(count).ok()?).i32_store(place(12, 2));
    }
    for (number, (name, r#type)) in (0..).zip(&variables) {
        imports.import(STATE, name, EntityType::Global(*r#type));
        let mut code = function.instructions();
        code.local_get(0).global_get(number);
        match r#type.val_type {
            ValType::I32 => code.i64_extend_i32_u(),
            ValType::I64 => &mut code,
            ValType::F32 => code.i32_reinterpret_f32().i64_extend_i32_u(),
            ValType::F64 => code.i64_reinterpret_f64(),
            ValType::V128 | ValType::Ref(_) => return None,
        };
        code.i64_store(place(HEAD + 8 * u64::from(number), 3));
    }
    function.instructions().local_get(0).end();
    let (mut functions, mut exports, mut code) =
        (FunctionSection::new(), ExportSection::new(), CodeSection::new());
    functions.function(0);
    exports.export(READ, ExportKind::Func, 0);
    code.function(&function);
    let mut module = Module::new();
    module.section(&types).section(&imports).section(&functions).section(&exports).section(&code);
    Some(module)
}
