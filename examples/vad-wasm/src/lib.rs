//! Tells where speech begins and ends in audio that is still coming in.
//!
//! Flow: `component` (the request's body, the response's) → [`Listener`] → `detector` (the model) →
//! `segments`.
//! In:   any request with a body: PCM, 16 bit little-endian, one channel, 16,000 samples a second.
//! Out:  server-sent events, each as soon as it is certain: `event: start` and `event: end`, with
//!       `{"sample": 8768, "seconds": 0.548}`.
//!
//! Not an application of the SDK, whose `respond` gets a body when it is complete, but of `wasi:http`, whose
//! bodies stream in both directions. The models are the SDK's all the same.

#[cfg(target_family = "wasm")]
mod component;
mod detector;
mod segments;

use std::fmt;

use modelhost_guest::Result;

use detector::{Detector, WINDOW};
use segments::{Boundary, Segments};

/// Samples a second.
const RATE: u32 = 16_000;
/// Audio after which a stream without events shows that it is alive: `limits.stream_timeout` ends one that
/// does not.
const QUIET: u64 = 10 * RATE as u64;

/// What goes to the client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// A boundary of speech.
    Boundary(Boundary),
    /// Nothing, said aloud.
    Alive,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, sample) = match self {
            Event::Boundary(Boundary::Start(sample)) => ("start", *sample),
            Event::Boundary(Boundary::End(sample)) => ("end", *sample),
            Event::Alive => return f.write_str(":\n\n"),
        };
        let seconds = sample as f64 / f64::from(RATE);
        write!(f, "event: {name}\ndata: {{\"sample\":{sample},\"seconds\":{seconds}}}\n\n")
    }
}

/// One stream of audio.
pub struct Listener {
    detector: Detector,
    segments: Segments,
    /// Bytes that are no whole window yet.
    rest: Vec<u8>,
    samples: u64,
    /// Where in the audio the last event was sent.
    heard_at: u64,
}

impl Listener {
    /// Begins a stream.
    ///
    /// # Errors
    /// The model's.
    pub fn new() -> Result<Listener> {
        let (detector, segments) = (Detector::new()?, Segments::default());
        Ok(Listener { detector, segments, rest: Vec::new(), samples: 0, heard_at: 0 })
    }

    /// Takes the bytes that have come and tells what follows from them.
    ///
    /// # Errors
    /// The model's.
    pub fn hear(&mut self, bytes: &[u8], mut tell: impl FnMut(Event)) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut windows = rest.chunks_exact(2 * WINDOW);
        for window in windows.by_ref() {
            if let Some(boundary) = self.window(window)? {
                self.heard_at = self.samples;
                tell(Event::Boundary(boundary));
            } else if self.samples - self.heard_at >= QUIET {
                self.heard_at = self.samples;
                tell(Event::Alive);
            }
        }
        self.rest = windows.remainder().to_vec();
        Ok(())
    }

    /// Ends the audio.
    ///
    /// # Errors
    /// The model's.
    pub fn finish(mut self, mut tell: impl FnMut(Event)) -> Result<()> {
        let last = std::mem::take(&mut self.rest);
        let boundary = if last.len() < 2 { None } else { self.window(&last)? };
        boundary
            .into_iter()
            .chain(self.segments.finish(self.samples))
            .for_each(|it| tell(Event::Boundary(it)));
        Ok(())
    }

    /// One window of samples; the last may be short.
    fn window(&mut self, bytes: &[u8]) -> Result<Option<Boundary>> {
        let mut samples = [0.0; WINDOW];
        let (pairs, _) = bytes.as_chunks::<2>();
        for (sample, pair) in samples.iter_mut().zip(pairs) {
            *sample = f32::from(i16::from_le_bytes(*pair)) / 32_768.0;
        }
        let boundary = self.segments.window(self.samples, self.detector.probability(&samples)?);
        self.samples += pairs.len() as u64;
        Ok(boundary)
    }
}

#[cfg(test)]
mod tests {
    use modelhost_guest::{Tensor, models};

    use super::*;

    /// A model that hears speech in what is loud, and counts in its state.
    fn serve() {
        models::answer_with(|_, inputs| {
            let input = inputs[0].values::<f32>().unwrap();
            assert_eq!((inputs[0].shape.as_slice(), input.len()), ([1, 576].as_slice(), 576));
            let mut state = inputs[1].values::<f32>().unwrap().into_owned();
            // The context is the end of the window before.
            assert!(state[0] == 0.0 || input[63] == state[1], "{} {}", input[63], state[1]);
            (state[0], state[1]) = (state[0] + 1.0, input[575]);
            let probability = if input[575].abs() > 0.1 { 0.9_f32 } else { 0.1 };
            Ok(vec![
                Tensor::new("output", [1, 1], &[probability]),
                Tensor::new("stateN", [2, 1, 128], &state),
            ])
        });
    }

    /// Pieces of silence and of noise, in windows.
    fn audio(pieces: &[(usize, i16)]) -> Vec<u8> {
        let samples = pieces.iter().flat_map(|(windows, sample)| vec![*sample; windows * WINDOW]);
        samples.flat_map(i16::to_le_bytes).collect()
    }

    fn told(audio: &[u8], piece: usize) -> String {
        let mut listener = Listener::new().unwrap();
        let mut told = String::new();
        for piece in audio.chunks(piece) {
            listener.hear(piece, |event| told += &event.to_string()).unwrap();
        }
        listener.finish(|event| told += &event.to_string()).unwrap();
        told
    }

    #[test]
    fn speech_is_found_however_the_bytes_come() {
        serve();
        let audio = audio(&[(10, 0), (20, 9_000), (10, 0), (3, 9_000), (10, 0), (10, 9_000)]);
        let expected = "event: start\ndata: {\"sample\":4640,\"seconds\":0.29}\n\n\
                        event: end\ndata: {\"sample\":15840,\"seconds\":0.99}\n\n\
                        event: start\ndata: {\"sample\":26656,\"seconds\":1.666}\n\n\
                        event: end\ndata: {\"sample\":32256,\"seconds\":2.016}\n\n";
        for piece in [1, 2, 1023, 1024, 1025, audio.len()] {
            assert_eq!(told(&audio, piece), expected, "in pieces of {piece}");
        }
        // A byte that is half a sample is not heard.
        assert_eq!(told(&[&audio[..], &[1]].concat(), 4096), expected);
    }

    #[test]
    fn a_stream_without_speech_shows_that_it_is_alive() {
        serve();
        assert_eq!(told(&audio(&[(1000, 0)]), 4096), ":\n\n:\n\n:\n\n");
        assert_eq!(told(&[], 1), "");
    }
}
