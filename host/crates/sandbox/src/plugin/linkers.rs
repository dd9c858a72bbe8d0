//! What guests may import, linked: one set of linkers for each engine.
//!
//! Place in the flow: made once at start, with the engine; [`grants::link`](super::grants::link) chooses one
//! for a component.
//! Invariant: what is not granted is not linked (but for capabilities, whose functions find nothing then); no
//! guest ever reaches a network.

use wasmtime::Engine;
use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView};
use wasmtime_wasi::p2::bindings as wasi;

use super::state::State;
use super::{bindings, capabilities, wasi_async, wasi_http, wasi_sockets};

/// The way in which an engine runs guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One call at a time: the contract's functions, and `wasi:http` 0.2.
    Sequential,
    /// Tasks that wait for each other, `wasi:http` 0.3: every call costs more.
    Concurrent,
}

/// The linkers of guests of one engine, for each [`Network`](super::settings::Network), and for applications.
pub(super) struct Linkers {
    pub(super) none: Linker<State>,
    pub(super) stub: Linker<State>,
    pub(super) application: Linker<State>,
}

impl Linkers {
    pub(super) fn new(engine: &Engine, kind: Kind) -> wasmtime::Result<Linkers> {
        let none = linker(engine)?;
        let mut stub = none.clone();
        wasi_sockets::link(&mut stub)?;
        let mut application = stub.clone();
        wasi_http::link(&mut application)?;
        let l = &mut application;
        bindings::modelhost::handler::request::add_to_linker::<_, HasSelf<State>>(l, |state| state)?;
        bindings::modelhost::handler::streaming::add_to_linker::<_, HasSelf<State>>(l, |state| state)?;
        bindings::modelhost::handler::websockets::add_to_linker::<_, HasSelf<State>>(l, |state| state)?;
        if kind == Kind::Concurrent {
            wasi_http::concurrent::link(l)?;
            wasi_async::link(l)?;
        }
        Ok(Linkers { none, stub, application })
    }
}

struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}

/// Links what all handlers get, and the capabilities.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::<State>::new(engine);
    let l = &mut linker;
    bindings::modelhost::handler::types::add_to_linker::<_, HasSelf<State>>(l, |state| state)?;

    wasi::io::error::add_to_linker::<_, HasTable>(l, |state| state.ctx().table)?;
    wasi::io::poll::add_to_linker::<_, HasSelf<State>>(l, |state| state)?;
    wasi::io::streams::add_to_linker::<_, HasTable>(l, |state| state.host_call().table)?;
    wasi::clocks::wall_clock::add_to_linker::<_, HasSelf<State>>(l, |state| state)?;
    wasi::clocks::monotonic_clock::add_to_linker::<_, HasSelf<State>>(l, |state| state)?;
    wasi::random::random::add_to_linker::<_, HasSelf<State>>(l, |state| state)?;
    wasi::random::insecure::add_to_linker::<_, HasSelf<State>>(l, |state| state)?;
    wasi::random::insecure_seed::add_to_linker::<_, HasSelf<State>>(l, |state| state)?;
    wasi::cli::exit::add_to_linker::<_, WasiCli>(l, State::cli)?;
    wasi::cli::environment::add_to_linker::<_, WasiCli>(l, State::cli)?;
    wasi::cli::stdin::add_to_linker::<_, WasiCli>(l, State::cli)?;
    wasi::cli::stdout::add_to_linker::<_, WasiCli>(l, State::cli)?;
    wasi::cli::stderr::add_to_linker::<_, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_input::add_to_linker::<_, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_output::add_to_linker::<_, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_stdin::add_to_linker::<_, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_stdout::add_to_linker::<_, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_stderr::add_to_linker::<_, WasiCli>(l, State::cli)?;
    wasi::filesystem::types::add_to_linker::<_, WasiFilesystem>(l, |state| {
        state.host_call();
        state.look_at_listings();
        state.filesystem()
    })?;
    wasi::filesystem::preopens::add_to_linker::<_, WasiFilesystem>(l, State::filesystem)?;
    capabilities::link(l)?;
    Ok(linker)
}
