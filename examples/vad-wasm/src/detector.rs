//! Windows of audio to probabilities of speech, by Silero's model.
//!
//! In:  512 samples. Out: how likely there is speech in them, given all before.
//! The model's memory stays with the host: the `stateN` of one run is the `state` of the next.

use modelhost_guest::models::{self, Resident};
use modelhost_guest::{Result, Tensor, internal};

use crate::RATE;

/// Samples of a window.
pub const WINDOW: usize = 512;
/// Samples of the window before, which the model sees again.
const CONTEXT: usize = 64;

pub struct Detector {
    state: Resident,
    rate: Resident,
    /// The context, then the window.
    input: [f32; CONTEXT + WINDOW],
}

impl Detector {
    pub fn new() -> Result<Detector> {
        let state = Resident::new(&Tensor::new("", [2, 1, 128], &[0.0_f32; 256]))?;
        let rate = Resident::new(&Tensor::new("", [], &[i64::from(RATE)]))?;
        Ok(Detector { state, rate, input: [0.0; CONTEXT + WINDOW] })
    }

    pub fn probability(&mut self, window: &[f32; WINDOW]) -> Result<f32> {
        self.input.copy_within(WINDOW.., 0);
        self.input.iter_mut().skip(CONTEXT).zip(window).for_each(|(place, sample)| *place = *sample);
        let input = Resident::new(&Tensor::new("", [1, self.input.len() as u64], &self.input))?;
        let inputs = [("input", &input), ("state", &self.state), ("sr", &self.rate)];
        let mut outputs = models::run("", &inputs)?;
        self.state = outputs.take("stateN")?;
        let output = outputs.take("output")?.read("output")?;
        let probability = output.values::<f32>()?.first().copied();
        probability.ok_or_else(|| internal("the model's output is empty"))
    }
}
