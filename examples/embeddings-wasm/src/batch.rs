//! Texts through the model, texts of like lengths together.
//!
//! Place in the flow: tokens of texts come in, a vector for each goes out, in the same order. A run is one of
//! the endpoint's queue, where it may be joined with those of other requests: for that, tokens are filled up
//! to a multiple of [`STEP`].

use std::collections::VecDeque;

use modelhost_guest::models::{self, Pending, Resident};
use modelhost_guest::{Result, Tensor, internal};

/// Values of a vector.
pub(crate) const SIZE: usize = 384;
/// Most tokens of a text: what the model was trained with.
pub(crate) const LONGEST: usize = 256;
/// Most texts of a run.
const TEXTS: usize = 32;
const STEP: usize = 16;
/// Runs that wait at the same time: one is computed, the next ones are there.
const AHEAD: usize = 4;

/// The vector of each text.
pub(crate) fn vectors(texts: &[Vec<i64>]) -> Result<Vec<Vec<f32>>> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|place| texts.get(*place).map(Vec::len));
    let mut vectors = vec![Vec::new(); texts.len()];
    let mut running: VecDeque<(&[usize], Pending)> = VecDeque::new();
    for places in order.chunks(TEXTS) {
        if running.len() == AHEAD
            && let Some((places, run)) = running.pop_front()
        {
            take(run, places, &mut vectors)?;
        }
        running.push_back((places, start(places, texts)?));
    }
    for (places, run) in running {
        take(run, places, &mut vectors)?;
    }
    Ok(vectors)
}

fn start(places: &[usize], texts: &[Vec<i64>]) -> Result<Pending> {
    let rows = || places.iter().filter_map(|place| texts.get(*place));
    let longest = rows().map(Vec::len).max().unwrap_or_default().next_multiple_of(STEP).min(LONGEST);
    let (mut ids, mut mask) = (Vec::new(), Vec::new());
    for row in rows() {
        let filled = longest - row.len();
        ids.extend(row.iter().copied().chain(std::iter::repeat_n(0, filled)));
        mask.extend(std::iter::repeat_n(1_i64, row.len()).chain(std::iter::repeat_n(0, filled)));
    }
    let shape = [places.len() as u64, longest as u64];
    let tensor = |values: &[i64]| Resident::new(&Tensor::new("", shape, values));
    let (ids, mask) = (tensor(&ids)?, tensor(&mask)?);
    Ok(models::start("", &[("input_ids", &ids), ("attention_mask", &mask)])?)
}

fn take(run: Pending, places: &[usize], vectors: &mut [Vec<f32>]) -> Result<()> {
    let output = run.wait()?.take("sentence_embedding")?.read("")?;
    let values = output.values::<f32>()?;
    if output.shape != [places.len() as u64, SIZE as u64] {
        return Err(internal(format!(
            "the model answers with {:?} for {} texts",
            output.shape,
            places.len()
        )));
    }
    for (place, values) in places.iter().zip(values.chunks(SIZE)) {
        if let Some(vector) = vectors.get_mut(*place) {
            *vector = values.to_vec();
        }
    }
    Ok(())
}
