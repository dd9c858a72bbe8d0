//! The first runs of a model, on made-up inputs: they pay for the engine's first allocations, tell how long a
//! run takes and how large a batch pays off, and find out a model whose outputs do not come back row by row.
//!
//! Flow: while a model is loaded and while a handle is opened; never on the request path.
//! In:   a session. Out: the time of a run, or the size of a batch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use half::{bf16, f16};

use super::batch;
use super::engine::Session;
use super::schedule::Batching;
use crate::tensor::{Datatype, Extent, Role, Signature, Tensor, TensorSpec, element_count};

/// A run this long is not repeated: what the first one cost on top no longer matters.
const LONG: Duration = Duration::from_millis(10);

/// Runs that are fast enough to be repeated.
const RUNS: usize = 10;

/// Runs of each batch size that is tried; the fastest counts.
const TRIALS: usize = 2;

/// The extent that stands in for a free one other than that of the rows when batch sizes are tried: a short
/// sentence, a small image.
const TYPICAL: u64 = 32;

/// The cost of a row in a larger batch, relative to a smaller one, from which on the larger one pays.
const GAIN: f64 = 0.97;

/// Inputs larger than this, in bytes, are not made up.
const TOO_LARGE: usize = 1 << 30;

/// Runs on zeros, with one for every free extent, and says how long a run takes.
///
/// # Errors
/// Text for the log. A model may refuse zeros.
pub fn run(session: &mut dyn Session) -> Result<Duration, String> {
    let inputs = inputs(session.signature(), 1, 1)?;
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
    if signature.required().is_empty() {
        return Err("the model has no input to join requests on".to_owned());
    }
    // A request that gives an optional input shares no run.
    let all = [("input", signature.required()), ("output", &signature.outputs)];
    for (kind, spec) in all.into_iter().flat_map(|(kind, specs)| specs.iter().map(move |spec| (kind, spec))) {
        match spec.shape.first() {
            _ if spec.role == Role::Shapes => {
                return Err(format!("{kind} `{}` belongs to a list, which has no rows", spec.name));
            }
            Some(Extent::Free(_)) => {}
            // Some exporters declare an output for one row: the trial run tells, see `rows_are_shown`.
            Some(Extent::Fixed(1)) if kind == "output" => {}
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

/// The largest batch that pays off, at most as configured, found by running batches of made-up rows. On some
/// models, convolutions on a CPU for one, a row costs the same in any company; joining requests then only
/// makes them wait for each other.
///
/// # Errors
/// Text for the operator: an output does not have a row for each row of input, or mixes them. A model that
/// refuses zeros is given the benefit of the doubt, since runs are checked as well.
pub fn best_batch(session: &mut dyn Session, batching: &Batching) -> Result<usize, String> {
    // A sequence of one token or an image of one pixel would say little about real ones; but a model may not
    // take others.
    let extent = match inputs(session.signature(), 1, TYPICAL) {
        Ok(inputs) if session.run(&inputs).is_ok() => TYPICAL,
        _ => 1,
    };
    rows_are_shown(session, extent)?;
    if !batching.trust_rows {
        rows_are_independent(session, extent)?;
    }
    largest_that_pays(batching.max_batch, |rows| {
        let Ok(inputs) = inputs(session.signature(), rows as u64, extent) else { return Ok(None) };
        let mut fastest: Option<Duration> = None;
        for _ in 0..TRIALS {
            let started = Instant::now();
            match session.run(&inputs) {
                Ok(outputs) => batch::split(&outputs, &[rows]).map(drop)?,
                Err(error) => {
                    tracing::debug!(%error, rows, "a run on zeros failed, so batches are not tried");
                    return Ok(None);
                }
            }
            let time = started.elapsed();
            fastest = Some(fastest.map_or(time, |fastest| fastest.min(time)));
        }
        Ok(fastest)
    })
}

/// Whether an output that is declared for one row has a row for each row of input nevertheless, as LightGBM's
/// `label` of shape `[1]`. A model that refuses zeros is taken at its word.
///
/// # Errors
/// Text for the operator: the output that is fixed.
fn rows_are_shown(session: &mut dyn Session, extent: u64) -> Result<(), String> {
    let signature = Arc::clone(session.signature());
    let is_fixed = |spec: &TensorSpec| spec.shape.first() == Some(&Extent::Fixed(1));
    let Some(fixed) = signature.outputs.iter().position(is_fixed) else { return Ok(()) };
    let outputs = inputs(&signature, 2, extent)
        .and_then(|inputs| session.run(&inputs).map_err(|error| error.to_string()));
    let shown = outputs.is_ok_and(|outputs| {
        let rows =
            |(spec, output): (&TensorSpec, &Tensor)| !is_fixed(spec) || output.shape.first() == Some(&2);
        signature.outputs.iter().zip(&outputs).all(rows)
    });
    match signature.outputs.get(fixed).filter(|_| !shown) {
        Some(spec) => Err(format!("the first extent of output `{}` is fixed at 1", spec.name)),
        None => Ok(()),
    }
}

/// Whether two different requests are answered in a batch as they are alone. A model that sums or sorts along
/// the first axis has a row for each row as well, and would mix its callers' answers.
///
/// # Errors
/// Text for the operator: the output that differs.
fn rows_are_independent(session: &mut dyn Session, extent: u64) -> Result<(), String> {
    let alone = |value: u8| -> Result<Vec<Tensor>, String> {
        let zeros = inputs(session.signature(), 1, extent)?;
        let filled: Option<Vec<Tensor>> = zeros.iter().map(|zeros| fill(zeros, value)).collect();
        filled.ok_or_else(|| "an input cannot be made up".to_owned())
    };
    let (Ok(one), Ok(two)) = (alone(1), alone(2)) else { return Ok(()) };
    let joined = batch::join(&[&one, &two], 0);
    let (Ok(first), Ok(second), Ok(both)) = (session.run(&one), session.run(&two), session.run(&joined))
    else {
        // It may refuse what is made up.
        return Ok(());
    };
    let parts = batch::split(&both, &[1, 1])?;
    for (row, (part, alone)) in parts.iter().zip([&first, &second]).enumerate() {
        for (joined, alone) in part.iter().zip(alone) {
            if !is_close(joined, alone) {
                return Err(format!(
                    "output `{}` of row {} depends on the other rows of its batch (`trust_rows` batches nevertheless)",
                    joined.name,
                    row + 1
                ));
            }
        }
    }
    Ok(())
}

/// A tensor of the shape of `like` with the same element everywhere: `value`, or a text of it.
fn fill(like: &Tensor, value: u8) -> Option<Tensor> {
    let element: Vec<u8> = match like.datatype {
        Datatype::Bool => vec![value % 2],
        Datatype::Fp16 => f16::from_f32(f32::from(value)).to_le_bytes().into(),
        Datatype::Bf16 => bf16::from_f32(f32::from(value)).to_le_bytes().into(),
        Datatype::Fp32 => f32::from(value).to_le_bytes().into(),
        Datatype::Fp64 => f64::from(value).to_le_bytes().into(),
        Datatype::Bytes => vec![1, 0, 0, 0, b'0' + value],
        integer => {
            let mut element = vec![0; integer.size()?];
            *element.first_mut()? = value;
            element
        }
    };
    let data = element.repeat(like.elements());
    Tensor::new(Arc::clone(&like.name), like.datatype, like.shape.clone(), data.into()).ok()
}

/// Whether two tensors are equal but for the rounding of a sum in another order.
fn is_close(one: &Tensor, other: &Tensor) -> bool {
    if one.shape != other.shape || one.datatype != other.datatype {
        return false;
    }
    let (size, tolerance) = match one.datatype {
        Datatype::Fp16 | Datatype::Bf16 => (2, 0.05),
        Datatype::Fp32 => (4, 1e-3),
        Datatype::Fp64 => (8, 1e-6),
        _ => return one.data == other.data,
    };
    let number = |bytes: &[u8]| match one.datatype {
        Datatype::Fp16 => bytes.try_into().map(f16::from_le_bytes).map(f64::from),
        Datatype::Bf16 => bytes.try_into().map(bf16::from_le_bytes).map(f64::from),
        Datatype::Fp32 => bytes.try_into().map(f32::from_le_bytes).map(f64::from),
        _ => bytes.try_into().map(f64::from_le_bytes),
    };
    one.data.chunks_exact(size).zip(other.data.chunks_exact(size)).all(|(one, other)| {
        match (number(one), number(other)) {
            (Ok(one), Ok(other)) => {
                one == other
                    || (one.is_nan() && other.is_nan())
                    || (one - other).abs() <= tolerance * (1.0 + one.abs().max(other.abs()))
            }
            _ => false,
        }
    })
}

/// Doubles the batch as long as a row gets cheaper by it. `time` says what a run of so many rows takes, if it
/// can.
fn largest_that_pays(
    max_batch: usize,
    mut time: impl FnMut(usize) -> Result<Option<Duration>, String>,
) -> Result<usize, String> {
    let (mut best, mut cheapest) = (1, f64::INFINITY);
    let (mut rows, mut in_vain) = (1, 0);
    loop {
        let Some(time) = time(rows)? else { return Ok(max_batch) };
        let row = time.as_secs_f64() / rows as f64;
        if row < cheapest * GAIN {
            (best, cheapest, in_vain) = (rows, row, 0);
        } else {
            in_vain += 1;
        }
        // One size that is no better may be chance.
        if rows >= max_batch || in_vain == 2 {
            return Ok(best);
        }
        rows = (rows * 2).min(max_batch);
    }
}

/// Zeros for every input that has to be given, with `rows` for a free first extent and `extent` for any other
/// free extent.
fn inputs(signature: &Signature, rows: u64, extent: u64) -> Result<Vec<Tensor>, String> {
    let inputs =
        signature.required().iter().map(|spec| zeros(spec, rows, extent)).collect::<Option<Vec<_>>>();
    inputs.ok_or_else(|| "an input is too large to be made up".to_owned())
}

fn zeros(spec: &TensorSpec, rows: u64, extent: u64) -> Option<Tensor> {
    let place = |(place, own): (usize, &Extent)| match own {
        Extent::Fixed(fixed) => *fixed,
        Extent::Free(_) if place == 0 => rows,
        Extent::Free(_) => extent,
    };
    let shape: Vec<u64> = spec.shape.iter().enumerate().map(place).collect();
    // Four zero bytes are an empty element of BYTES.
    let length = element_count(&shape)?.checked_mul(spec.datatype.size().unwrap_or(4))?;
    if length > TOO_LARGE {
        return None;
    }
    Tensor::new(Arc::clone(&spec.name), spec.datatype, shape, vec![0; length].into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The batch chosen if a run takes `fixed` plus `row` for each row, and which sizes were tried.
    fn chosen(max_batch: usize, fixed: u64, row: u64) -> (usize, Vec<usize>) {
        let mut tried = Vec::new();
        let best = largest_that_pays(max_batch, |rows| {
            tried.push(rows);
            Ok(Some(Duration::from_micros(fixed + row * rows as u64)))
        });
        (best.unwrap(), tried)
    }

    #[test]
    fn a_batch_is_as_large_as_pays() {
        // Most of a run is the same for any number of rows: the more the better, to the very limit.
        assert_eq!(chosen(16, 1000, 10), (16, vec![1, 2, 4, 8, 16]));
        assert_eq!(chosen(12, 1000, 10), (12, vec![1, 2, 4, 8, 12]));
        // Every row costs the same: alone.
        assert_eq!(chosen(64, 0, 1000), (1, vec![1, 2, 4]));
        assert_eq!(chosen(64, 10, 1000), (1, vec![1, 2, 4]));
        // Somewhere between.
        assert_eq!(chosen(1000, 300, 1000), (8, vec![1, 2, 4, 8, 16, 32]));
        // A model that cannot be tried does what it is told.
        assert_eq!(largest_that_pays(8, |_| Ok(None)), Ok(8));
        assert_eq!(largest_that_pays(8, |_| Err("rows".to_owned())), Err("rows".to_owned()));
    }
}
