//! The memory that compiling a component takes, estimated from its text.
//!
//! Place in the flow: before every compilation. In: a component's bytes. Out: bytes of memory, or what of the
//! component takes too many.
//! Of a function the compiler keeps, besides its text and machine code, a place for every local and every
//! value of a block in each block of the control flow. The text is read as the validator reads it, so what is
//! counted is what the compiler will see; components inside the component are counted in `instances.rs`.
//! Invariants: nothing here takes more time or memory than validating the component once; the factors are
//! measured, see docs/decisions, and for code that compilers write the estimate is more than what is used.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use wasmparser::{
    BinaryReaderError, BlockType, CompositeInnerType, ElementItems, FuncToValidate, FuncValidator,
    FuncValidatorAllocations, FunctionBody, Operator, Parser, Payload, SubType, TypeRef, ValidPayload,
    Validator, ValidatorResources, WasmFeatures, WasmModuleResources,
};

use super::instances::{EACH, Instances};
use super::{MOST, THREADS};

/// Bytes for each byte of a function's text while it is compiled.
const TEXT: u64 = 700;
/// Bytes for each local at each branch.
const LIVE: u64 = 80;
/// Bytes for each value that a block leaves, a loop or an `else` takes, or the stack holds, at each branch.
const PASSED: u64 = 8;
/// Bytes for each value that a call or a block takes or leaves.
const MOVED: u64 = 700;
/// Bytes for a call.
const CALL: u64 = 3 << 10;
/// Bytes for a loop, which looks at the time, and for a call by a table, which looks at the type.
const CHECKED: u64 = 24 << 10;
/// Bytes for an operator on a table or on much memory: calls, and the checks before them.
const BULK: u64 = 72 << 10;

/// Why a component is not compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plugin) struct TooCostly {
    estimate: u64,
    functions: u64,
    /// Bytes for the instances inside the component.
    instances: u64,
    /// The function that takes most of it.
    largest: Function,
}

impl fmt::Display for TooCostly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let (estimate, most) = (mebibytes(self.estimate), mebibytes(MOST));
        write!(f, "compiling it would take about {estimate} MiB of memory, more than {most}: ")?;
        if self.instances > self.estimate / 2 {
            return match self.instances {
                u64::MAX => write!(f, "its nested components have more instances than can be counted"),
                bytes => {
                    write!(f, "the instances of its nested components alone take {} MiB", mebibytes(bytes))
                }
            };
        }
        let Function { number, text, locals, branches, moved, .. } = self.largest;
        write!(
            f,
            "of {} functions, function {number} alone has {text} bytes, {locals} locals and {branches} \
             branches, and {moved} values that calls and blocks take or leave",
            self.functions
        )
    }
}

impl std::error::Error for TooCostly {}

/// The properties that make a function dear.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    /// Bytes; first, because functions are ordered by it.
    estimate: u64,
    /// Counted through all modules of the component, from 0.
    number: u64,
    text: u64,
    locals: u64,
    /// Where control may come from or go to.
    branches: u64,
    /// Values that its calls and blocks take or leave.
    moved: u64,
}

/// Counts what the operators of a function come to.
struct Work {
    validator: FuncValidator<ValidatorResources>,
    branches: u64,
    /// Values that blocks leave, or that loops and `else` take.
    passed: u64,
    /// Values that calls take or leave.
    moved: u64,
    /// Values on the stack, added up over the branches.
    stacked: u64,
    /// Bytes for operators that stand for much machine code.
    other: u64,
}

impl Work {
    /// Reads one function, and gives the validator's memory back for the next.
    fn of(
        number: u64,
        function: FuncToValidate<ValidatorResources>,
        body: &FunctionBody<'_>,
        allocations: FuncValidatorAllocations,
    ) -> Result<(Function, FuncValidatorAllocations), BinaryReaderError> {
        let (_, own) = values(function.resources.sub_type_at(function.ty));
        let validator = function.into_validator(allocations);
        // Its own results are those of its outermost block.
        let mut work = Work { validator, branches: 1, passed: own, moved: 0, stacked: 0, other: 0 };
        work.validator.read_locals(&mut body.get_binary_reader())?;
        for operator in body.get_operators_reader()?.into_iter_with_offsets() {
            let (operator, offset) = operator?;
            work.validator.op(offset, &operator)?;
            work.add(&operator);
        }
        let (text, locals) = (body.range().len() as u64, work.validator.len_locals().into());
        let Work { branches, passed, stacked, .. } = work;
        let moved = work.moved.saturating_add(passed);
        let parts = [
            text.saturating_mul(TEXT),
            branches.saturating_mul(locals).saturating_mul(LIVE),
            branches.saturating_mul(passed).saturating_add(stacked).saturating_mul(PASSED),
            moved.saturating_mul(MOVED),
            work.other,
        ];
        let estimate = parts.into_iter().fold(0, u64::saturating_add);
        let function =
            Function { estimate, number, text, locals, branches: branches.saturating_sub(1), moved };
        Ok((function, work.validator.into_allocations()))
    }

    fn add(&mut self, operator: &Operator<'_>) {
        match *operator {
            Operator::Block { blockty } => self.block(blockty, 1),
            Operator::If { blockty } => {
                self.block(blockty, 2);
                self.passed += self.values(blockty).0;
            }
            Operator::Loop { blockty } => {
                self.block(blockty, 2);
                self.passed += self.values(blockty).0;
                self.other += CHECKED;
            }
            Operator::TryTable { ref try_table } => {
                self.block(try_table.ty, 1 + try_table.catches.len() as u64);
            }
            Operator::Else
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::BrOnNull { .. }
            | Operator::BrOnNonNull { .. } => self.branch(1),
            Operator::BrTable { ref targets } => self.branch(u64::from(targets.len()) + 1),
            Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                let r#type = self.validator.resources().type_index_of_function(function_index);
                self.call(r#type, CALL);
            }
            Operator::CallIndirect { type_index, .. }
            | Operator::ReturnCallIndirect { type_index, .. }
            | Operator::CallRef { type_index }
            | Operator::ReturnCallRef { type_index } => {
                self.branch(3);
                self.call(Some(type_index), CHECKED);
            }
            Operator::TableGet { .. } | Operator::TableSet { .. } => {
                self.branch(3);
                self.other += BULK;
            }
            Operator::RefFunc { .. }
            | Operator::TableFill { .. }
            | Operator::TableGrow { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. }
            | Operator::ElemDrop { .. }
            | Operator::MemoryGrow { .. }
            | Operator::MemoryFill { .. }
            | Operator::MemoryCopy { .. }
            | Operator::MemoryInit { .. }
            | Operator::DataDrop { .. } => self.other += BULK,
            _ => {}
        }
    }

    fn branch(&mut self, branches: u64) {
        self.branches += branches;
        let height = u64::from(self.validator.operand_stack_height());
        self.stacked = self.stacked.saturating_add(branches * height);
    }

    fn block(&mut self, block: BlockType, branches: u64) {
        self.branch(branches);
        let (takes, leaves) = self.values(block);
        self.moved += takes;
        self.passed += leaves;
    }

    fn values(&self, block: BlockType) -> (u64, u64) {
        match block {
            BlockType::Empty => (0, 0),
            BlockType::Type(_) => (0, 1),
            BlockType::FuncType(r#type) => values(self.validator.resources().sub_type_at(r#type)),
        }
    }

    fn call(&mut self, r#type: Option<u32>, bytes: u64) {
        let r#type = r#type.and_then(|r#type| self.validator.resources().sub_type_at(r#type));
        let (takes, leaves) = values(r#type);
        self.moved += takes + leaves;
        self.other += bytes;
    }
}

/// The values that a function of a type takes, and leaves.
fn values(r#type: Option<&SubType>) -> (u64, u64) {
    match r#type.map(|r#type| &r#type.composite_type.inner) {
        Some(CompositeInnerType::Func(r#type)) => {
            (r#type.params().len() as u64, r#type.results().len() as u64)
        }
        _ => (0, 0),
    }
}

/// The memory that compiling takes at its height, in bytes.
///
/// # Errors
/// It is too much: [`TooCostly`]; or the component is not valid, even with all features that there are.
pub(super) fn estimate(bytes: &[u8]) -> wasmtime::Result<u64> {
    let invalid = |error| wasmtime::Error::from(error).context("failed to parse WebAssembly module");
    read(bytes).map_err(invalid)?.map_err(wasmtime::Error::from)
}

fn read(bytes: &[u8]) -> Result<Result<u64, TooCostly>, BinaryReaderError> {
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let mut allocations = FuncValidatorAllocations::default();
    let mut instances = Instances::default();
    let (mut functions, mut kept, mut largest) = (0_u64, 0_u64, BinaryHeap::new());
    // Uses of a module's functions as values: each function that has one gets a second form, for calls from
    // outside.
    let mut uses = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        let valid = validator.payload(&payload)?;
        instances.add(&payload, &validator)?;
        match payload {
            Payload::ImportSection(imports) => {
                let is_function = |it: &wasmparser::Import<'_>| matches!(it.ty, TypeRef::Func(_));
                functions += imports.into_imports().flatten().filter(is_function).count() as u64;
            }
            Payload::GlobalSection(globals) => uses += u64::from(globals.count()),
            Payload::ExportSection(exports) => uses += u64::from(exports.count()),
            Payload::ElementSection(elements) => {
                for element in elements {
                    uses += u64::from(match element?.items {
                        ElementItems::Functions(items) => items.count(),
                        ElementItems::Expressions(_, items) => items.count(),
                    });
                }
            }
            Payload::CodeSectionStart { count, .. } => {
                kept = kept.saturating_add(std::mem::take(&mut uses).min(count.into()) * EACH);
            }
            _ => {}
        }
        if let ValidPayload::Func(function, body) = valid {
            let (takes, leaves) = values(function.resources.sub_type_at(function.ty));
            kept = kept.saturating_add((takes + leaves).saturating_mul(MOVED));
            let (function, free) = Work::of(functions, function, &body, allocations)?;
            allocations = free;
            functions += 1;
            largest.push(Reverse(function));
            if largest.len() > THREADS {
                largest.pop();
            }
        }
    }
    let together = largest.iter().map(|function| function.0.estimate);
    let together = together.fold(functions.saturating_mul(EACH).saturating_add(kept), u64::saturating_add);
    let instances = instances.bytes();
    let estimate = together.saturating_add(instances);
    Ok(match estimate <= MOST {
        true => Ok(estimate),
        false => {
            let largest = largest.into_iter().map(|function| function.0).max().unwrap_or_default();
            Err(TooCostly { estimate, functions, instances, largest })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component of one module with this text.
    fn module(text: &str) -> String {
        format!("(component (core module {text}))")
    }

    /// Components of which each has two instances of the one before.
    fn doubled(times: usize, innermost: &str) -> String {
        let inner = (0..times).fold(format!("(component $c {innermost})"), |inner, _| {
            format!("(component $c {inner} (instance (instantiate $c)) (instance (instantiate $c)))")
        });
        format!("(component {inner} (instance (instantiate $c)))")
    }

    /// A component that calls a function of another with this parameter, by so many pieces of code.
    fn called(types: &str, parameter: &str, lowered: usize) -> String {
        let memory = |name: &str| {
            format!(
                r#"(core module $m (memory (export "m") 1) (func (export "f") (param i32))
                   (func (export "r") (param i32 i32 i32 i32) (result i32) unreachable))
                   (core instance $m (instantiate $m)) (alias core export $m "m" (core memory $m))
                   (alias core export $m "r" (core func $r)) {name}"#
            )
        };
        let options = "(memory $m) (realloc $r)";
        let lowers = format!("(core func (canon lower (func $f) {options}))").repeat(lowered);
        format!(
            r#"(component
              (component $callee {types} {0}
                (func (export "f") (param "p" {parameter}) (canon lift (core func $f) {options})))
              (component $caller {types} (import "f" (func $f (param "p" {parameter}))) {1} {lowers})
              (instance $callee (instantiate $callee))
              (instance (instantiate $caller (with "f" (func $callee "f")))))"#,
            memory(r#"(alias core export $m "f" (core func $f))"#),
            memory(""),
        )
    }

    #[test]
    fn what_is_dear_is_found() {
        let locals = |count| "(local i32)".repeat(count);
        let branches = |count: usize| "block local.get 0 br_if 0 end ".repeat(count);
        let wide = "i32 ".repeat(1000);
        let types =
            format!("(type $r (func (result {wide}))) (type $w (func (param {wide}) (result {wide})))");
        let many = format!("{types} (func $r (type $r) unreachable) (func $w (type $w) unreachable)");
        let passed =
            |text: &str, times| module(&format!("{many} (func call $r {} unreachable)", text.repeat(times)));
        let operators = |text: &str, times| {
            module(&format!("(memory 1) (table 1 funcref) (func (param i32) {})", text.repeat(times)))
        };
        let chain = |times| "block (param i32) (result i32) local.get 0 br_if 0 end ".repeat(times);
        let copy = "local.get 0 local.get 0 local.get 0 ";
        let tuple = format!("(type $t0 (tuple {}))", "u64 ".repeat(1000));
        let tuples = format!("{tuple} (type $t1 (tuple {}))", "$t0 ".repeat(500));
        let imports = (0..1000).map(|n| format!(r#"(import "" "{n}" (func))"#)).collect::<String>();
        let exports = (0..1000).map(|n| format!(r#"(export "{n}" (func $f))"#)).collect::<String>();
        let instances = |times| {
            format!(
                r#"(core module $f (func (export "f"))) (core instance $f (instantiate $f))
                   (alias core export $f "f" (core func $f)) (core instance $args {exports})
                   (core module $m {imports}) {}"#,
                r#"(core instance (instantiate $m (with "" (instance $args))))"#.repeat(times)
            )
        };
        let core = "(core module $m) (core instance (instantiate $m))";
        let counted = Some("more instances than can be counted");
        let alone = Some("the instances of its nested components alone take");
        for (name, component, expected) in [
            ("branches", module(&format!("(func (param i32) {})", branches(50_000))), None),
            ("locals", module(&format!("(func (param i32) {})", locals(40_000))), None),
            (
                "locals at branches",
                module(&format!("(func (param i32) {} {})", locals(1000), branches(50_000))),
                Some("function 0 alone has 350005 bytes, 1001 locals and 100000 branches"),
            ),
            (
                "parameters at branches",
                module(&format!("(func) (func (param {wide}) {})", branches(60_000))),
                Some("function 1 alone has 420002 bytes, 1000 locals and 120000 branches"),
            ),
            ("functions", module(&"(func)".repeat(500_000)), Some("of 500000 functions")),
            ("functions of no use", module(&"(func)".repeat(250_000)), None),
            (
                "functions in a table",
                module(&format!(
                    "{} (table 1 funcref) (elem func {})",
                    "(func)".repeat(250_000),
                    (0..250_000).map(|n| format!("{n} ")).collect::<String>()
                )),
                Some("of 250000 functions"),
            ),
            ("few results", passed("call $r ", 100), None),
            ("results", passed("call $r ", 6000), Some("function 2 alone")),
            ("arguments", passed("call $w ", 3000), Some("function 2 alone")),
            ("blocks", passed("block (type $w) i32.const 0 br_if 0 end ", 600), Some("function 2 alone")),
            ("loops", passed("loop (type $w) end ", 400), Some("function 2 alone")),
            (
                "values on the stack",
                passed(
                    &format!("{} {}", "call $r ".repeat(10), "block i32.const 0 br_if 0 end ".repeat(30)),
                    100,
                ),
                Some("function 2 alone"),
            ),
            (
                "a value through blocks",
                module(&format!("(func (param i32) (result i32) local.get 0 {})", chain(15_000))),
                Some("30001 values that calls and blocks take or leave"),
            ),
            (
                "through few blocks",
                module(&format!("(func (param i32) (result i32) local.get 0 {})", chain(3000))),
                None,
            ),
            (
                "calls by a table at locals",
                module(&format!(
                    "(table 1 funcref) (func {} {})",
                    locals(1000),
                    "i32.const 0 call_indirect ".repeat(20_000)
                )),
                Some("1000 locals and 60000 branches"),
            ),
            ("calls by a table", operators("local.get 0 call_indirect ", 200_000), Some("function 0 alone")),
            (
                "copies of memory",
                operators(&format!("{copy} memory.copy "), 100_000),
                Some("function 0 alone"),
            ),
            ("a few", operators(&format!("{copy} table.copy "), 10_000), None),
            ("few nested instances", doubled(4, core), None),
            ("nested instances", doubled(20, core), alone),
            ("too many to count", doubled(70, core), counted),
            ("nested components without modules", doubled(20, ""), alone),
            ("few instances", doubled(0, &instances(100)), None),
            ("instances of a module with imports", doubled(5, &instances(500)), alone),
            ("a call of few values", called("", "u32", 100), None),
            ("calls of many values", called(&tuples, "$t1", 20), alone),
        ] {
            let found = estimate(&wat::parse_str(component).unwrap()).map_err(|error| error.to_string());
            match expected {
                None => assert!(found.is_ok(), "{name}: {found:?}"),
                Some(expected) => {
                    assert!(found.as_ref().is_err_and(|it| it.contains(expected)), "{name}: {found:?}")
                }
            }
        }
    }
}
