//! The first runs of a model, on made-up inputs: they pay for the engine's first allocations, tell how long a run takes,
//! and prove that what is joined in a batch comes back row by row.
//!
//! Flow: while a model is loaded and while a lane is opened; never on the request path.
//! In:   a session. Out: the time of a run, or whether batches can be split.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch;
use super::engine::Session;
use crate::tensor::{Extent, Signature, Tensor, TensorSpec, element_count};

/// A run this long is not repeated: what the first one cost on top no longer matters.
const LONG: Duration = Duration::from_millis(10);

/// Runs that are fast enough to be repeated.
const RUNS: usize = 10;

/// Inputs larger than this, in bytes, are not made up.
const TOO_LARGE: usize = 1 << 30;

/// Runs on zeros, with one for every free extent, and says how long a run takes.
///
/// # Errors
/// Text for the log. A model may refuse zeros.
pub fn run(session: &mut dyn Session) -> Result<Duration, String> {
    let inputs = inputs(session.signature(), 1)?;
    let mut run = || -> Result<Duration, String> {
        let started = Instant::now();
        session.run(&inputs).map_err(|error| error.to_string())?;
        Ok(started.elapsed())
    };
    let mut fastest = run()?;
    for _ in 1..RUNS {
        if fastest >= LONG {
            break;
        }
        fastest = fastest.min(run()?);
    }
    Ok(fastest)
}

/// Whether requests to a model can be joined along the first axis, by its signature.
///
/// # Errors
/// Text for the operator: the input or output that has no free first extent.
pub fn can_batch(signature: &Signature) -> Result<(), String> {
    if signature.inputs.is_empty() {
        return Err("the model has no input to join requests on".to_owned());
    }
    let all = [("input", &signature.inputs), ("output", &signature.outputs)];
    for (kind, spec) in all.into_iter().flat_map(|(kind, specs)| specs.iter().map(move |spec| (kind, spec))) {
        match spec.shape.first() {
            Some(Extent::Free(_)) => {}
            Some(Extent::Fixed(extent)) => {
                return Err(format!("the first extent of {kind} `{}` is fixed at {extent}", spec.name));
            }
            // For an output this also stands for an unknown rank: the trial run tells.
            None if kind == "output" => {}
            None => return Err(format!("{kind} `{}` has no first extent", spec.name)),
        }
    }
    Ok(())
}

/// Runs on two rows and on `max_batch` rows, and looks whether every output has as many.
///
/// # Errors
/// Text for the operator. A model that refuses zeros is given the benefit of the doubt, since runs are checked as well.
pub fn try_batches(session: &mut dyn Session, max_batch: usize) -> Result<(), String> {
    for rows in [2, max_batch] {
        let Ok(inputs) = inputs(session.signature(), rows as u64) else { return Ok(()) };
        match session.run(&inputs) {
            Ok(outputs) => batch::split(&outputs, &[rows]).map(drop)?,
            Err(error) => {
                tracing::debug!(%error, rows, "a run on zeros failed, so batches are not tried");
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Zeros for every input, with `rows` for a free first extent and one for any other free extent.
fn inputs(signature: &Signature, rows: u64) -> Result<Vec<Tensor>, String> {
    let inputs = signature.inputs.iter().map(|spec| zeros(spec, rows)).collect::<Option<Vec<_>>>();
    inputs.ok_or_else(|| "an input is too large to be made up".to_owned())
}

fn zeros(spec: &TensorSpec, rows: u64) -> Option<Tensor> {
    let mut shape = spec.smallest_shape();
    if let (Some(Extent::Free(_)), Some(first)) = (spec.shape.first(), shape.first_mut()) {
        *first = rows;
    }
    // Four zero bytes are an empty element of BYTES.
    let length = element_count(&shape)?.checked_mul(spec.datatype.size().unwrap_or(4))?;
    if length > TOO_LARGE {
        return None;
    }
    Tensor::new(Arc::clone(&spec.name), spec.datatype, shape, vec![0; length].into()).ok()
}
