//! What a gate has found, and what it comes to.
//!
//! In:   a row for each sample. Out: a verdict in one line, for the caller of the swap; all of it as JSON,
//! for the admin listener and `host diff --json`.

use std::fmt;
use std::time::Instant;

use serde::Serialize;

use crate::capture::compare::Difference;
use crate::endpoint::config::GateConfig;
use crate::error::Code;
use crate::pipeline::report::Usage;
use crate::values::Ratio;

/// Samples that differ of which a refusal tells.
const TOLD: usize = 3;
/// Differences of one sample of which a refusal tells.
const TOLD_OF_ONE: usize = 2;
/// Samples that differ of which a shortened report and the log tell.
pub(super) const REPORTED: usize = 16;
/// Fewer samples than this say nothing about time.
const LEAST_TIMED: usize = 5;
/// A handler that is slower by less is not slower: clocks and caches weigh as much.
const LEAST_SLOWER_US: f64 = 20.0;

const DIFFERS: &str = "fix the handler, or say what may differ: `--gate-ignore`, `--gate-tolerance`, `--gate-mismatches`; \
     for one order `modelhost swap` takes `--ignore`, `--tolerance`, `--mismatches`, `--accept-differences`";
const SLOWER: &str = "fix the handler, or allow it more: `--gate-slowdown`";
const LARGER: &str = "fix the handler, or allow it more: `--gate-memory`";
const NO_TIME: &str = "give it more time: `--gate-timeout`";

/// The findings of a gate.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Samples there were.
    pub samples: usize,
    /// Those that were compared.
    pub compared: usize,
    /// Those that could not be: the old handler fails on them, or their model is another.
    pub skipped: usize,
    /// Of those that were compared, those that are answered otherwise.
    pub differing: usize,
    /// Of those that were compared, those on which both handlers fail alike.
    pub failing: usize,
    /// Whether time ran out before all were compared.
    pub out_of_time: bool,
    /// Samples that both handlers answered, which the two below are about.
    pub timed: usize,
    /// Median time and most memory of the old handler.
    pub old: Option<RunCost>,
    /// The same of the new one.
    pub new: Option<RunCost>,
    /// One row a sample; only the first that differ, if it has been [shortened](Report::shortened).
    pub results: Vec<Row>,
}

/// The time and memory of a handler for a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RunCost {
    /// Microseconds in the handler's functions, and in checking what they make.
    pub time_us: f64,
    /// Bytes of memory of its instance.
    pub memory: usize,
}

impl From<Usage> for RunCost {
    fn from(usage: Usage) -> RunCost {
        // A tenth of a microsecond is the most that can be measured.
        RunCost { time_us: (usage.time.as_secs_f64() * 1e7).round() / 10.0, memory: usage.memory }
    }
}

/// One sample.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its name.
    pub sample: String,
    /// Whether a file says what has to be answered.
    pub expected: bool,
    /// Why it was not compared, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// The differences; empty if there are none.
    pub differences: Vec<Difference>,
    /// The error that both handlers end with, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The old handler's cost, if it answered.
    pub old: Option<RunCost>,
    /// The new one's cost, if it answered.
    pub new: Option<RunCost>,
}

impl RunCost {
    /// Another run of the same. The first one warmed it; of the others the fastest was disturbed least.
    pub(super) fn again(&mut self, run: RunCost, is_first: bool) {
        self.time_us = if is_first { run.time_us } else { self.time_us.min(run.time_us) };
        self.memory = self.memory.max(run.memory);
    }
}

impl Row {
    /// A sample of which nothing is known yet.
    pub(super) fn of(sample: String, expected: bool) -> Row {
        Row { sample, expected, skipped: None, differences: Vec::new(), failed: None, old: None, new: None }
    }

    /// A sample that should have been compared and could not be: it counts as one that differs.
    pub(super) fn untried(self, code: Code) -> Row {
        let untried = Difference::became("the run", "an answer", format!("`{}`, no run at all", code.name()));
        Row { differences: vec![untried], old: None, new: None, ..self }
    }

    /// A sample that is not to be compared.
    pub(super) fn skipped(self, why: String) -> Row {
        Row { skipped: Some(why), old: None, new: None, ..self }
    }

    /// On one line, with so many of the differences.
    fn told(&self, most: usize) -> String {
        let told: Vec<String> = self.differences.iter().take(most).map(ToString::to_string).collect();
        let more = match self.differences.len().saturating_sub(most) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let expected = if self.expected { " is not answered as expected" } else { "" };
        format!("{}{expected}: {}{more}", self.sample, told.join("; "))
    }
}

/// On one line.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(usize::MAX))
    }
}

impl Report {
    /// Adds what became of one more sample.
    pub(super) fn add(&mut self, row: Row) {
        match row.skipped {
            Some(_) => self.skipped += 1,
            None => self.compared += 1,
        }
        self.differing += usize::from(!row.differences.is_empty());
        self.failing += usize::from(row.failed.is_some());
        self.results.push(row);
    }

    /// No more samples come, for there are none or it is later than `until`.
    pub(super) fn finish(&mut self, until: Instant) {
        self.out_of_time = self.compared + self.skipped < self.samples && Instant::now() >= until;
        let both: Vec<(RunCost, RunCost)> =
            self.results.iter().filter_map(|row| row.old.zip(row.new)).collect();
        self.timed = both.len();
        self.old = middle(both.iter().map(|(old, _)| *old));
        self.new = middle(both.iter().map(|(_, new)| *new));
    }

    /// The samples that are answered otherwise.
    pub fn differing(&self) -> impl Iterator<Item = &Row> {
        self.results.iter().filter(|row| !row.differences.is_empty())
    }

    /// Without what is not read: only the first samples that differ.
    #[must_use]
    pub fn shortened(mut self) -> Report {
        self.results.retain(|row| !row.differences.is_empty());
        self.results.truncate(REPORTED);
        self
    }

    /// Whether the new handler may be published.
    ///
    /// # Errors
    /// Why not, on one line, and what to do about it.
    pub(super) fn verdict(&self, config: &GateConfig) -> Result<(), (String, &'static str)> {
        let reasons = [self.too_different(config), self.too_slow(config), self.too_large(config)];
        let reasons: Vec<(String, &'static str)> = reasons.into_iter().flatten().collect();
        match reasons.first() {
            None => Ok(()),
            Some((_, hint)) => {
                let texts: Vec<&str> = reasons.iter().map(|(text, _)| text.as_str()).collect();
                Err((texts.join("; and "), hint))
            }
        }
    }

    fn too_different(&self, config: &GateConfig) -> Option<(String, &'static str)> {
        if self.compared == 0 && self.out_of_time {
            let text = format!("within {:?} none of {} samples was compared", config.timeout, self.samples);
            return Some((text, NO_TIME));
        }
        if Ratio::of(self.differing as u64, self.compared as u64) <= config.mismatches {
            return None;
        }
        let told: Vec<String> = self.differing().take(TOLD).map(|row| row.told(TOLD_OF_ONE)).collect();
        let verb = if self.differing == 1 { "differs" } else { "differ" };
        let allowed = match config.mismatches {
            Ratio::ZERO => String::new(),
            share => format!(" (a share of {share} may)"),
        };
        let time =
            if self.out_of_time { format!(", then {:?} were over", config.timeout) } else { String::new() };
        let (differing, compared) = (self.differing, self.compared);
        let text = format!("{differing} of {compared} samples {verb}{allowed}{time}, {}", told.join(", "));
        Some((text, DIFFERS))
    }

    fn too_slow(&self, config: &GateConfig) -> Option<(String, &'static str)> {
        let (old, new) = self.old.zip(self.new)?;
        let factor = config.slowdown.filter(|_| self.timed >= LEAST_TIMED)?;
        let is_slow = new.time_us > old.time_us * factor && new.time_us - old.time_us > LEAST_SLOWER_US;
        is_slow.then(|| {
            let (old, new) = (old.time_us, new.time_us);
            let text = format!(
                "it takes {new:.1} µs in place of {old:.1} µs for a request, more than {factor} times as long (median of {})",
                self.timed
            );
            (text, SLOWER)
        })
    }

    fn too_large(&self, config: &GateConfig) -> Option<(String, &'static str)> {
        let (old, new) = self.old.zip(self.new)?;
        let factor = config.memory?;
        (new.memory as f64 > old.memory as f64 * factor).then(|| {
            let (old, new) = (readable(old.memory), readable(new.memory));
            (format!("it takes {new} in place of {old} of memory, more than {factor} times as much"), LARGER)
        })
    }
}

/// On one line.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} samples compared", self.compared, self.samples)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        if self.out_of_time {
            f.write_str(" before the time was over")?;
        }
        write!(f, ", {} {}", self.differing, if self.differing == 1 { "differs" } else { "differ" })?;
        if self.failing > 0 {
            write!(f, ", {} {} with both", self.failing, if self.failing == 1 { "fails" } else { "fail" })?;
        }
        if let Some((old, new)) = self.old.zip(self.new) {
            write!(
                f,
                "; {:.1} µs and {}, were {:.1} µs and {}",
                new.time_us,
                readable(new.memory),
                old.time_us,
                readable(old.memory)
            )?;
        }
        if self.timed < LEAST_TIMED {
            write!(f, "; too few to judge time: {} of {LEAST_TIMED}", self.timed)?;
        }
        Ok(())
    }
}

/// Median time and most memory.
fn middle(taken: impl Iterator<Item = RunCost>) -> Option<RunCost> {
    let taken: Vec<RunCost> = taken.collect();
    let mut times: Vec<f64> = taken.iter().map(|taken| taken.time_us).collect();
    times.sort_by(f64::total_cmp);
    let time_us = *times.get(times.len() / 2)?;
    let memory = taken.iter().map(|taken| taken.memory).max()?;
    Some(RunCost { time_us, memory })
}

/// `1.1 MiB`
pub fn readable(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
