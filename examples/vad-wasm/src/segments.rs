//! Probabilities of speech to its segments, while they come.
//!
//! In:  the probability of each window. Out: a boundary as soon as no later window can change it.
//!
//! Segments are those of the package's `get_speech_timestamps` with its defaults: speech begins with a window
//! at `SPEECH` or above, ends with the first window below `SILENCE` if no speech follows for `PAUSE`, lasts
//! longer than `SHORTEST`, and is widened by `PADDING` on both sides. A pause is longer than two paddings, so
//! no two segments meet.

use crate::RATE;

const SPEECH: f32 = 0.5;
const SILENCE: f32 = SPEECH - 0.15;
const SHORTEST: u64 = RATE as u64 * 250 / 1000;
const PAUSE: u64 = RATE as u64 * 100 / 1000;
const PADDING: u64 = RATE as u64 * 30 / 1000;

/// A boundary of speech, and the sample it is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    Start(u64),
    End(u64),
}

#[derive(Default)]
pub struct Segments {
    speech: Option<Speech>,
}

/// A segment that has not ended.
struct Speech {
    start: u64,
    /// Where it ends, unless more speech follows.
    silence: Option<u64>,
    is_told: bool,
}

impl Segments {
    /// The window that begins at this sample.
    pub fn window(&mut self, at: u64, probability: f32) -> Option<Boundary> {
        let Some(speech) = &mut self.speech else {
            if probability >= SPEECH {
                self.speech = Some(Speech { start: at, silence: None, is_told: false });
            }
            return None;
        };
        if probability >= SPEECH {
            speech.silence = None;
        } else if probability < SILENCE {
            let silence = *speech.silence.get_or_insert(at);
            if at - silence >= PAUSE {
                let is_told = speech.is_told;
                self.speech = None;
                return is_told.then_some(Boundary::End(silence + PADDING));
            }
        }
        // From here on it is long enough, however it goes on.
        if !speech.is_told && speech.silence.unwrap_or(at) - speech.start > SHORTEST {
            speech.is_told = true;
            return Some(Boundary::Start(speech.start.saturating_sub(PADDING)));
        }
        None
    }

    /// The audio has ended after so many samples.
    pub fn finish(self, samples: u64) -> impl Iterator<Item = Boundary> {
        let speech = self.speech.filter(|speech| samples - speech.start > SHORTEST);
        let boundaries = speech.map(|speech| {
            let start = Boundary::Start(speech.start.saturating_sub(PADDING));
            [(!speech.is_told).then_some(start), Some(Boundary::End(samples))]
        });
        boundaries.into_iter().flatten().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Boundaries, and the window with which each was certain; those at the end with the window after the
    /// last.
    fn told(probabilities: &[f32], samples: u64) -> Vec<(usize, Boundary)> {
        let mut segments = Segments::default();
        let mut told = Vec::new();
        for (index, probability) in probabilities.iter().enumerate() {
            told.extend(segments.window(512 * index as u64, *probability).map(|it| (index, it)));
        }
        told.extend(segments.finish(samples).map(|it| (probabilities.len(), it)));
        told
    }

    #[test]
    fn a_boundary_is_told_as_soon_as_it_is_certain() {
        use Boundary::{End, Start};
        let windows = |pieces: &[(usize, f32)]| -> Vec<f32> {
            pieces.iter().flat_map(|(count, probability)| vec![*probability; *count]).collect()
        };
        for (pieces, expected) in [
            // Certain once it has lasted longer than 250 ms, and once the pause has lasted 100 ms.
            (&[(2, 0.0), (10, 0.9), (10, 0.0)][..], vec![(10, Start(544)), (16, End(6624))]),
            // At the beginning there is no room for all of the padding.
            (&[(10, 0.9), (10, 0.0)], vec![(8, Start(0)), (14, End(5600))]),
            // Too short, though the pause makes it longer.
            (&[(2, 0.0), (7, 0.9), (10, 0.0)], vec![]),
            // A short pause is none, and between the thresholds nothing changes.
            (&[(9, 0.9), (3, 0.0), (9, 0.9), (5, 0.0)], vec![(8, Start(0)), (25, End(11232))]),
            (&[(9, 0.9), (9, 0.4), (5, 0.0)], vec![(8, Start(0)), (22, End(9696))]),
            (&[(9, 0.9), (1, 0.0), (4, 0.4), (1, 0.0)], vec![(8, Start(0)), (14, End(5088))]),
            // The audio ends with speech, which is short but for the end.
            (&[(2, 0.0), (8, 0.9)], vec![(10, Start(544)), (10, End(5120))]),
            (&[(2, 0.0), (7, 0.9)], vec![]),
        ] {
            let probabilities = windows(pieces);
            assert_eq!(told(&probabilities, 512 * probabilities.len() as u64), expected, "{pieces:?}");
        }
        assert_eq!(told(&[], 0), []);
    }
}
