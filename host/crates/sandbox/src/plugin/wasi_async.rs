//! WASI 0.3 but for `wasi:http`: clocks, random numbers and standard streams, and what of it is denied.
//!
//! Place in the flow: linked for components that export `wasi:http/handler`; `grants.rs` asks which of a
//! component's imports are denied. Languages import files and terminals by WASI 0.2 to this day, so that of
//! those of 0.3 there is nothing to be found: no folder, no socket, no terminal.
//! In: an interface that a component imports. Out: functions that say so, in the words of the interface.
//! Invariant: what a guest asks for here is counted and noted as where it asks by WASI 0.2.

use wasmtime::Engine;
use wasmtime::component::types::{ComponentInstance, ComponentItem, Type};
use wasmtime::component::{Component, Linker, ResourceType, Val};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksCtxView, WasiClocksView as _};
use wasmtime_wasi::p3::bindings::{cli, clocks, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomCtx};

use super::names::parts;
use super::state::State;
use crate::request::dependencies::Dependency;

/// Packages and parts of them whose interfaces are denied.
const DENIED: [&str; 3] = ["wasi:filesystem/", "wasi:sockets/", "wasi:cli/terminal-"];
/// Versions of them that are WASI 0.3.
const VERSION: &str = "0.3.";
/// The case of an error that says why.
const REASON: &str = "access-denied";

/// A resource that no guest ever gets.
struct Nothing;

/// Links what is not denied.
pub(super) fn link(l: &mut Linker<State>) -> wasmtime::Result<()> {
    clocks::monotonic_clock::add_to_linker::<_, WasiClocks>(l, clock)?;
    clocks::system_clock::add_to_linker::<_, WasiClocks>(l, clock)?;
    random::random::add_to_linker::<_, WasiRandom>(l, randomness)?;
    random::insecure::add_to_linker::<_, WasiRandom>(l, randomness)?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(l, randomness)?;
    cli::environment::add_to_linker::<_, WasiCli>(l, State::cli)?;
    cli::exit::add_to_linker::<_, WasiCli>(l, State::cli)?;
    cli::stdin::add_to_linker::<_, WasiCli>(l, State::cli)?;
    cli::stdout::add_to_linker::<_, WasiCli>(l, State::cli)?;
    cli::stderr::add_to_linker::<_, WasiCli>(l, State::cli)
}

fn clock(state: &mut State) -> WasiClocksCtxView<'_> {
    state.depends_on(Dependency::Clock);
    state.count_host_call();
    state.clocks()
}

fn randomness(state: &mut State) -> &mut WasiRandomCtx {
    state.depends_on(Dependency::Random);
    state.randomness()
}

/// The interfaces that a component imports and is denied.
pub(super) fn denied(component: &Component, engine: &Engine) -> Vec<(String, ComponentInstance)> {
    let ty = component.component_type();
    let imports = ty.imports(engine).filter_map(|(name, import)| {
        let is_denied = parts(name).1.starts_with(VERSION) && DENIED.iter().any(|of| name.starts_with(of));
        match import.ty {
            ComponentItem::ComponentInstance(interface) if is_denied => Some((name.to_owned(), interface)),
            _ => None,
        }
    });
    imports.collect()
}

/// Links an interface whose functions give nothing.
pub(super) fn deny(
    linker: &mut Linker<State>,
    name: &str,
    interface: &ComponentInstance,
    engine: &Engine,
) -> wasmtime::Result<()> {
    let mut instance = linker.instance(name)?;
    for (name, export) in interface.exports(engine) {
        match export.ty {
            ComponentItem::Resource(_) => {
                instance.resource(name, ResourceType::host::<Nothing>(), |_, _| Ok(()))?;
            }
            ComponentItem::ComponentFunc(function) if function.async_() => {
                instance.func_new_concurrent(name, |_, ty, _, results| {
                    let denied = ty.results().zip(results).try_for_each(|(ty, result)| nothing(&ty, result));
                    Box::pin(std::future::ready(denied))
                })?;
            }
            ComponentItem::ComponentFunc(_) => {
                instance.func_new(name, |_, ty, _, results| {
                    ty.results().zip(results).try_for_each(|(ty, result)| nothing(&ty, result))
                })?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes a result the one that says that there is nothing.
///
/// # Errors
/// Its type has no value for that.
fn nothing(ty: &Type, result: &mut Val) -> wasmtime::Result<()> {
    *result = match ty {
        Type::List(_) => Val::List(Vec::new()),
        Type::Option(_) => Val::Option(None),
        Type::Result(ty) => match ty.err() {
            Some(Type::Variant(error)) if error.cases().any(|case| case.name == REASON) => {
                Val::Result(Err(Some(Box::new(Val::Variant(REASON.to_owned(), None)))))
            }
            _ => wasmtime::bail!("there is nothing that this function could be called for"),
        },
        _ => wasmtime::bail!("there is nothing that this function could be called for"),
    };
    Ok(())
}
