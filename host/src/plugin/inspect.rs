//! What a component is, found out without running it.
//!
//! Place in the flow: `host inspect`. In: a component's bytes. Out: names, versions and sizes for a person or a script.

use std::sync::Arc;

use serde::Serialize;

use super::bindings::{INIT, INPUT_SCHEMA, PACKAGE};
use super::exports::Stages;
use super::{Binary, LoadError, Network, Sandbox, compile, grants};

/// The answer of `host inspect`.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// SHA-256 of the file, in hex.
    pub digest: Arc<str>,
    /// Size of the file in bytes.
    pub bytes: usize,
    /// Size of its machine code in bytes.
    pub compiled_bytes: usize,
    /// Versions of the handler contract it names; one in a sound component.
    pub contract: Vec<String>,
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
    /// Everything it exports.
    pub exports: Vec<String>,
    /// Everything it imports.
    pub imports: Vec<String>,
    /// Why this host would refuse it; `None` if it would not.
    pub refused: Option<String>,
}

/// Compiles and checks a component, runs nothing of it.
///
/// # Errors
/// The bytes are no component. A component this host would refuse is not an error:
/// [`Inspection::refused`] says why.
pub fn inspect(sandbox: &Sandbox, binary: &Binary) -> Result<Inspection, LoadError> {
    let component = compile(sandbox, binary)?;
    let (exports, imports) = grants::names(&component, &sandbox.engine);
    let mut contract: Vec<String> = exports
        .iter()
        .chain(&imports)
        .filter_map(|name| {
            name.strip_prefix(PACKAGE)?.rsplit_once('@').map(|(_, version)| version.to_owned())
        })
        .collect();
    contract.sort();
    contract.dedup();
    let stages = Stages::among(&exports);
    let refused = match grants::check(&component, &sandbox.linkers, Network::None) {
        Ok(_) if stages.any() => None,
        Ok(_) => Some(LoadError::NoHandler.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let image = component.image_range();
    Ok(Inspection {
        digest: binary.digest().clone(),
        bytes: binary.bytes().len(),
        compiled_bytes: (image.end as usize).saturating_sub(image.start as usize),
        contract,
        pre_inference: stages.pre,
        post_inference: stages.post,
        pre_inference_tensors: stages.pre_tensors,
        post_inference_tensors: stages.post_tensors,
        input_schema: exports.iter().any(|name| name == INPUT_SCHEMA),
        init: exports.iter().any(|name| name == INIT),
        exports,
        imports,
        refused,
    })
}
