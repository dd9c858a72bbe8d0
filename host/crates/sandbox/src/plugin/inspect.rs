//! What a component is, found out without running it.
//!
//! Place in the flow: `host inspect`. In: a component's bytes. Out: names, versions and sizes for a person or
//! a script.

use std::sync::Arc;

use serde::Serialize;

use super::binary::Binary;
use super::bindings::{PACKAGE, VERSION};
use super::engine::Sandbox;
use super::exports::Indices;
use super::load_error::LoadError;
use super::outline::Outline;
use super::source::{compile, outline};
use super::{capabilities, grants};

/// The answer of `host inspect`.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// SHA-256 of the file, in hex.
    pub digest: Arc<str>,
    /// Size of the file in bytes.
    pub bytes: usize,
    /// Size of its machine code in bytes; `None` if it is refused, and so not compiled.
    pub compiled_bytes: Option<usize>,
    /// How many of them other handlers of its language share: the interpreter; `None` if it is refused.
    pub shared_bytes: Option<usize>,
    /// Versions of the handler contract it names; one in a sound component.
    pub contract: Vec<String>,
    /// The version of the handler contract that this host has.
    pub host_contract: &'static str,
    /// Whether it has `pre-inference`.
    pub pre_inference: bool,
    /// Whether it has `post-inference`.
    pub post_inference: bool,
    /// Whether it has `pre-inference-tensors`.
    pub pre_inference_tensors: bool,
    /// Whether it has `post-inference-tensors`.
    pub post_inference_tensors: bool,
    /// Whether it says what it takes: `input-schema`.
    pub input_schema: bool,
    /// Whether it prepares itself before its first request: `init`.
    pub init: bool,
    /// Whether it serves whole requests by itself, `respond`, `wasi:http/incoming-handler`,
    /// `wasi:http/handler`, or WebSockets alone.
    pub application: bool,
    /// Whether it does so by `wasi:http` 0.3, `wasi:http/handler`, on the engine for that.
    pub concurrent: bool,
    /// Whether it serves WebSockets: `websocket`.
    pub websocket: bool,
    /// Whether it serves nothing else.
    #[serde(skip)]
    pub only_websocket: bool,
    /// The capabilities that it uses, where the endpoint grants them.
    #[serde(flatten)]
    pub capabilities: capabilities::Set,
    /// Everything it exports.
    pub exports: Vec<String>,
    /// Everything it imports.
    pub imports: Vec<String>,
    /// Why this host would refuse it; `None` if it would not.
    pub refused: Option<String>,
}

/// Checks a component, compiles it if it would not be refused before, and runs nothing of it.
///
/// # Errors
/// The bytes are no component. A component this host would refuse is not an error:
/// [`Inspection::refused`] says why.
pub fn inspect(sandbox: &Sandbox, binary: &Binary) -> Result<Inspection, LoadError> {
    let outline = outline(binary)?;
    let Outline { exports, imports, .. } = &outline;
    let mut contract: Vec<String> = exports
        .iter()
        .chain(imports)
        .filter_map(|name| {
            name.strip_prefix(PACKAGE)?.rsplit_once('@').map(|(_, version)| version.to_owned())
        })
        .collect();
    contract.sort();
    contract.dedup();
    let stages = outline.stages();
    let (refused, sizes) = match grants::check(&outline, grants::Granted::default()) {
        Ok(()) => {
            let runtime = sandbox.runtime(&outline).map_err(|error| LoadError::Start(error.to_string()))?;
            let compiled = compile(&runtime, binary)?;
            let linked = grants::link(&compiled, &runtime, grants::Granted::default());
            let refused = linked.and_then(|linked| Indices::find(&compiled.component, &linked));
            (refused.err().map(|error| error.or_later(&outline).to_string()), Some(compiled.sizes()))
        }
        Err(error) => (Some(error.to_string()), None),
    };
    Ok(Inspection {
        digest: binary.digest().clone(),
        bytes: binary.bytes().len(),
        compiled_bytes: sizes.map(|(own, shared)| own + shared),
        shared_bytes: sizes.map(|(_, shared)| shared),
        contract,
        host_contract: VERSION,
        pre_inference: stages.pre,
        post_inference: stages.post,
        pre_inference_tensors: stages.pre_tensors,
        post_inference_tensors: stages.post_tensors,
        input_schema: outline.has_schema(),
        init: outline.has_init(),
        application: stages.is_application(),
        concurrent: outline.is_concurrent(),
        websocket: stages.websocket,
        only_websocket: stages.is_application() && stages.application.is_none(),
        capabilities: outline.uses(),
        exports: outline.exports,
        imports: outline.imports,
        refused,
    })
}
