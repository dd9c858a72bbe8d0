//! Compiles components, within bounds of memory.
//!
//! Place in the flow: below the compile cache, for what is not in it. In: a component's bytes. Out: its code, or what of it would take too
//! much memory to compile.
//! The compiler's memory cannot be limited, and grows faster than the code: with the values that are alive at each branch of a function or
//! that its calls move, and with the machine code that some operators stand for.
//! So it is estimated first, from the text of every function; a component that needs too much is refused, and those that are compiled at the
//! same time wait for each other. The factors are measured, see docs/decisions; for code that compilers write the estimate is two to
//! three times what is used.
//! Invariant: of estimated memory no more than [`MOST`] is in use at any time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};

use rayon::ThreadPool;
use wasmparser::{FuncType, FunctionBody, Operator, Parser, Payload, TypeRef};
use wasmtime::Engine;
use wasmtime::component::Component;

/// Estimated bytes that all compilations may take together, and so one of them.
const MOST: u64 = 3 << 30;
/// Functions that are compiled at the same time, in the whole process.
const THREADS: usize = 8;
/// Bytes that a function takes in any case, and keeps until its component is done.
const EACH: u64 = 7 << 10;
/// Bytes for each byte of a function's text while it is compiled.
const TEXT: u64 = 650;
/// Bytes for each local at each branch.
const LIVE: u64 = 55;
/// Bytes for each value that a call takes or leaves.
const MOVED: u64 = 700;
/// Bytes for a call.
const CALL: u64 = 3 << 10;
/// Bytes for a loop, which looks at the time, and for a call by a table, which looks at the type.
const CHECKED: u64 = 24 << 10;
/// Bytes for an operator on a table or on much memory: calls, and the checks before them.
const BULK: u64 = 72 << 10;
/// Most parameters and results of a function together (WebAssembly JavaScript Interface, "Implementation-defined limits"); of one whose
/// type cannot be read.
const MOST_VALUES: u64 = 2000;

/// Why a component is not compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TooCostly {
    estimate: u64,
    functions: u64,
    /// The function that takes most of it.
    largest: Function,
}

impl fmt::Display for TooCostly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let Function { number, text, locals, branches, .. } = self.largest;
        write!(
            f,
            "compiling it would take about {} MiB of memory, more than {}: it has {} functions, and function {number} alone {text} bytes, \
             {locals} locals and {branches} branches",
            mebibytes(self.estimate),
            mebibytes(MOST),
            self.functions,
        )
    }
}

impl std::error::Error for TooCostly {}

/// What makes a function dear.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    /// Bytes; first, because functions are ordered by it.
    estimate: u64,
    /// Counted through all modules of the component, from 0.
    number: u64,
    text: u64,
    locals: u64,
    branches: u64,
}

impl Function {
    /// `own`: values that it takes and leaves; `widest`: most that a function or block of its module may.
    fn of(number: u64, own: u64, widest: u64, body: &FunctionBody<'_>) -> Function {
        let text = body.range().len() as u64;
        let declared = body.get_locals_reader().into_iter().flatten().map_while(Result::ok);
        let locals = declared.fold(own, |sum, (count, _)| sum.saturating_add(u64::from(count)));
        // One that cannot be read is refused by the compiler, after it was begun.
        let Seen { branches, calls, operators } =
            look(body).unwrap_or(Seen { branches: text, calls: text, operators: 0 });
        let live = locals.saturating_add(widest).saturating_mul(branches).saturating_mul(LIVE);
        let moved = calls.saturating_mul(CALL + widest.saturating_mul(MOVED));
        let estimate =
            text.saturating_mul(TEXT).saturating_add(live).saturating_add(moved).saturating_add(operators);
        Function { estimate, number, text, locals, branches }
    }
}

/// What of a function's text costs more than its bytes.
#[derive(Default)]
struct Seen {
    /// Where control may come from or go to.
    branches: u64,
    calls: u64,
    /// Bytes that operators take which stand for much machine code.
    operators: u64,
}

fn look(body: &FunctionBody<'_>) -> wasmparser::Result<Seen> {
    let mut seen = Seen::default();
    for operator in body.get_operators_reader()? {
        match operator? {
            Operator::Loop { .. } => {
                seen.branches += 1;
                seen.operators += CHECKED;
            }
            Operator::Block { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::BrOnNull { .. }
            | Operator::BrOnNonNull { .. }
            | Operator::TryTable { .. } => seen.branches += 1,
            Operator::BrTable { targets } => seen.branches += u64::from(targets.len()) + 1,
            Operator::Call { .. } | Operator::ReturnCall { .. } => seen.calls += 1,
            Operator::CallIndirect { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::CallRef { .. }
            | Operator::ReturnCallRef { .. } => {
                seen.calls += 1;
                seen.operators += CHECKED;
            }
            Operator::MemoryCopy { .. }
            | Operator::MemoryFill { .. }
            | Operator::MemoryInit { .. }
            | Operator::MemoryGrow { .. }
            | Operator::DataDrop { .. }
            | Operator::TableCopy { .. }
            | Operator::TableFill { .. }
            | Operator::TableInit { .. }
            | Operator::TableGrow { .. }
            | Operator::TableGet { .. }
            | Operator::TableSet { .. }
            | Operator::ElemDrop { .. }
            | Operator::RefFunc { .. } => seen.operators += BULK,
            _ => {}
        }
    }
    Ok(seen)
}

/// The memory that compiling takes at its height, in bytes.
///
/// # Errors
/// It is too much; the text of a component that cannot be read is the compiler's to refuse.
fn estimate(bytes: &[u8]) -> Result<u64, TooCostly> {
    let (mut functions, mut kept, mut largest) = (0_u64, 0_u64, BinaryHeap::new());
    let mut modules = vec![Module::default()];
    for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
        let Some(module) = modules.last_mut() else { break };
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                modules.push(Module::default())
            }
            Payload::End(_) => drop(modules.pop()),
            Payload::TypeSection(types) => {
                let types = types.into_iter_err_on_gc_types();
                let values = |r#type: FuncType| (r#type.params().len() + r#type.results().len()) as u64;
                module.values.extend(types.map(|r#type| r#type.map_or(MOST_VALUES, values)));
            }
            Payload::ImportSection(imports) => {
                let is_function = |it: &wasmparser::Import<'_>| matches!(it.ty, TypeRef::Func(_));
                functions += imports.into_imports().flatten().filter(is_function).count() as u64;
            }
            Payload::FunctionSection(types) => module.functions = types.into_iter().flatten().collect(),
            // Each is a piece of code that leads from one side to the other.
            Payload::ComponentCanonicalSection(canonical) => functions += u64::from(canonical.count()),
            Payload::CodeSectionEntry(body) => {
                let own = module.values_of_next();
                largest.push(Reverse(Function::of(functions, own, module.widest(), &body)));
                functions += 1;
                kept = kept.saturating_add(own.saturating_mul(MOVED));
                if largest.len() > THREADS {
                    largest.pop();
                }
            }
            _ => {}
        }
    }
    let together = largest.iter().map(|function| function.0.estimate);
    let estimate = together.fold(functions.saturating_mul(EACH).saturating_add(kept), u64::saturating_add);
    match estimate <= MOST {
        true => Ok(estimate),
        false => {
            let largest = largest.into_iter().map(|function| function.0).max().unwrap_or_default();
            Err(TooCostly { estimate, functions, largest })
        }
    }
}

/// A module that is being read.
#[derive(Default)]
struct Module {
    /// What functions take and leave, by the number of a type.
    values: Vec<u64>,
    /// The types of its functions.
    functions: Vec<u32>,
    next: usize,
    widest: u64,
}

impl Module {
    fn values_of_next(&mut self) -> u64 {
        let r#type = self.functions.get(self.next).and_then(|r#type| usize::try_from(*r#type).ok());
        self.next += 1;
        r#type.and_then(|r#type| self.values.get(r#type)).copied().unwrap_or(MOST_VALUES)
    }

    fn widest(&mut self) -> u64 {
        // Types come before code: found once.
        if self.next == 1 {
            self.widest = self.values.iter().copied().max().unwrap_or_default();
        }
        self.widest
    }
}

/// What all compilations of the process take.
static TAKEN: Mutex<u64> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

/// So much of [`MOST`] for one of them.
struct Taken(u64);

impl Taken {
    /// Waits until there is as much left.
    fn take(bytes: u64) -> Taken {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_too_much = |taken: &mut u64| taken.saturating_add(bytes) > MOST;
        let mut taken = GIVEN_BACK.wait_while(taken, is_too_much).unwrap_or_else(PoisonError::into_inner);
        *taken += bytes;
        Taken(bytes)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        GIVEN_BACK.notify_all();
    }
}

/// The compiler's threads: no more of them than functions were estimated to be compiled at the same time.
static POOL: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|n| format!("compiler-{n}"));
    pool.build().map_err(|error| tracing::warn!("the compiler has no threads of its own: {error}")).ok()
});

/// Compiles a component. Takes up to seconds of this thread, and of others.
///
/// # Errors
/// [`TooCostly`], or the compiler's.
pub(super) fn compile(engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Component> {
    let _taken = Taken::take(estimate(bytes).map_err(wasmtime::Error::from)?);
    match &*POOL {
        Some(pool) => pool.install(|| Component::from_binary(engine, bytes)),
        None => Component::from_binary(engine, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component of one module with this text.
    fn component(module: &str) -> Vec<u8> {
        wat::parse_str(format!("(component (core module {module}))")).unwrap()
    }

    #[test]
    fn what_is_dear_is_found() {
        let locals = |count| "(local i32)".repeat(count);
        let branches = |count: usize| "block local.get 0 br_if 0 end ".repeat(count);
        for (module, expected) in [
            (format!("(func (param i32) {})", branches(10)), None),
            // Neither of them alone.
            (format!("(func (param i32) {})", branches(50_000)), None),
            (format!("(func (param i32) {})", locals(40_000)), None),
            (
                format!("(func (param i32) {} {})", locals(1000), branches(50_000)),
                Some("function 0 alone 350005 bytes, 1001 locals and 100000 branches"),
            ),
            // Machine code that a few bytes stand for.
            (format!("(func {})", "loop end ".repeat(200_000)), Some("function 0 alone 600002 bytes")),
            (
                format!(
                    "(memory 1) (func {})",
                    "i32.const 0 i32.const 0 i32.const 0 memory.copy ".repeat(50_000)
                ),
                Some("function 0 alone 500002 bytes"),
            ),
            // Values that go from call to call.
            (
                format!(
                    "(func $f (param {0}) (result {0}) unreachable) (func (param {0}) (result {0}) unreachable {1})",
                    "i32 ".repeat(900),
                    "call $f ".repeat(5000)
                ),
                Some("function 1 alone 10003 bytes"),
            ),
            // Parameters are locals too.
            (
                format!("(func) (func (param {}) {})", "i32 ".repeat(1000), branches(60_000)),
                Some("1000 locals and 120000 branches"),
            ),
        ] {
            let found = estimate(&component(&module)).map_err(|error| error.to_string());
            match expected {
                None => assert!(found.is_ok(), "{found:?}"),
                Some(expected) => assert!(found.as_ref().unwrap_err().contains(expected), "{found:?}"),
            }
        }
        let many = estimate(&component(&"(func)".repeat(500_000))).unwrap_err().to_string();
        assert!(many.contains("it has 500000 functions"), "{many}");
    }

    #[test]
    fn compilations_wait_for_each_other() {
        let first = Taken::take(MOST);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(Taken::take(1)));
            assert!(!second.is_finished());
            drop(first);
            second.join().unwrap();
        });
    }
}
