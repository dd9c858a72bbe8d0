//! The spec of a trial: what an order says of it, checked before anything is loaded.
//!
//! In: parameters by name, as text. Out: [`TrialSpec`], or which parameter is wrong and what was expected.

use std::time::Duration;

use super::canary::Limits;
use crate::draw::Sticky;
use crate::endpoint::config::Bounds;
use crate::json::path::Pattern;
use crate::values::{
    Diagnostic, Hint, ParseResult, Ratio, RawValue, Reader as _, choice, count, duration, number, ratio,
    share_above_zero, switch, text,
};

/// Most steps of a canary.
const MOST_STEPS: usize = 20;
/// Most places that are not compared.
const MOST_IGNORED: usize = 64;
/// Most shadows at a time.
const MOST_CONCURRENT: u64 = 64;
/// Most requests that are counted.
const MOST: u64 = 1_000_000_000;

/// What the candidate does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It sees requests that others answer.
    Shadow,
    /// It answers requests.
    Canary,
}

impl Mode {
    /// Its name in orders, answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Shadow => "shadow",
            Mode::Canary => "canary",
        }
    }
}

/// The spec of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSpec {
    /// What the candidate does.
    pub mode: Mode,
    /// Its share of the requests, more than 0 and at most 1; several, ever larger, one after the other.
    pub steps: Vec<Ratio>,
    /// How long each step is held before the next, and the last before the candidate is published; `None`:
    /// until an order.
    pub step_time: Option<Duration>,
    /// By what requests are drawn; `None`: by chance.
    pub sticky: Option<Sticky>,
    /// Requests that are shadowed at a time. Further samples are dropped.
    pub concurrency: usize,
    /// Whether the current handler shadows the requests that a canary answers.
    pub compare: bool,
    /// What may differ.
    pub bounds: Bounds,
    /// What a canary is held to.
    pub limits: Limits,
}

const MODES: [(&str, Mode); 2] = [("shadow", Mode::Shadow), ("canary", Mode::Canary)];

const EXPECTED: &str = "there are `mode=shadow|canary`, `share=SHARE`, `sticky=header:NAME`, `concurrency=N`, `tolerance=N`, \
     `ignore=PLACE` and `note=TEXT`, and for a canary `steps=SHARE,…`, `step_time=TIME`, `compare=true|false`, `min_requests=N`, \
     `max_errors=SHARE`, `max_faults=N`, `max_slowdown=FACTOR` and `max_mismatches=N`";

impl TrialSpec {
    /// Reads parameters. Without any, a tenth of the requests is shadowed; a canary has three steps of a
    /// minute.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn parse<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<TrialSpec, String> {
        let mut spec = TrialSpec {
            mode: Mode::Shadow,
            steps: Vec::new(),
            step_time: None,
            sticky: None,
            concurrency: 2,
            compare: false,
            bounds: Bounds::default(),
            limits: Limits::default(),
        };
        let (mut share, mut of_canaries) = (None, None);
        for (name, value) in parameters {
            let raw = &RawValue::of(value);
            let wrong = |diagnostic: Diagnostic| diagnostic.of_parameter(name, value);
            match name {
                "mode" => spec.mode = choice(&MODES).read(raw).map_err(wrong)?,
                "share" => share = Some(read_share(raw).map_err(wrong)?),
                "sticky" => spec.sticky = Some(Sticky::parse(value)?),
                "concurrency" => spec.concurrency = count(1..=MOST_CONCURRENT).read(raw).map_err(wrong)?,
                "tolerance" => spec.bounds.tolerance = number(0.0..=1e6).read(raw).map_err(wrong)?,
                "ignore" if spec.bounds.ignore.len() < MOST_IGNORED => {
                    spec.bounds.ignore.push(Pattern::parse(value)?);
                }
                "ignore" => return Err(format!("`ignore`: there are at most {MOST_IGNORED}")),
                of_canary => {
                    let limits = &mut spec.limits;
                    match of_canary {
                        "steps" => spec.steps = read_steps(raw).map_err(wrong)?,
                        "step_time" => spec.step_time = Some(read_step_time(raw).map_err(wrong)?),
                        "compare" => spec.compare = switch(raw).map_err(wrong)?,
                        "min_requests" => limits.min_requests = count(1..=MOST).read(raw).map_err(wrong)?,
                        "max_errors" => limits.max_errors = ratio().read(raw).map_err(wrong)?,
                        "max_faults" => limits.max_faults = count(0..=MOST).read(raw).map_err(wrong)?,
                        "max_slowdown" => {
                            limits.max_slowdown = number(1.0..=1000.0).read(raw).map_err(wrong)?
                        }
                        "max_mismatches" => {
                            limits.max_mismatches = count(0..=MOST).read(raw).map_err(wrong)?
                        }
                        _ => return Err(format!("unknown parameter `{name}={value}`: {EXPECTED}")),
                    }
                    of_canaries = Some(name);
                }
            }
        }
        match (spec.mode, of_canaries, share) {
            (Mode::Shadow, Some(name), _) => {
                return Err(format!("`{name}` is said of a canary: add `mode=canary`"));
            }
            (Mode::Shadow, None, share) => spec.steps = vec![share.unwrap_or(Ratio::percent(10))],
            (Mode::Canary, _, Some(_)) if !spec.steps.is_empty() || spec.step_time.is_some() => {
                return Err("`share` is held until an order, `steps` are not: give one of them".to_owned());
            }
            (Mode::Canary, _, Some(share)) => spec.steps = vec![share],
            (Mode::Canary, _, None) => {
                if spec.steps.is_empty() {
                    spec.steps = [5, 25, 100].map(Ratio::percent).to_vec();
                }
                spec.step_time = spec.step_time.or(Some(Duration::from_secs(60)));
            }
        }
        Ok(spec)
    }
}

/// A share of the requests: more than 0, at most 1.
///
/// # Errors
/// It is none.
pub fn read_share(raw: &RawValue<'_>) -> ParseResult<Ratio> {
    share_above_zero("more than 0 and at most 1").read(raw)
}

/// Shares with commas.
fn read_steps(raw: &RawValue<'_>) -> ParseResult<Vec<Ratio>> {
    let shares = text(raw)?;
    let steps = shares.split(',').map(|share| read_share(&RawValue::of(share.trim())));
    let steps: Option<Vec<Ratio>> = steps.map(Result::ok).collect();
    let is_ascending = |steps: &Vec<Ratio>| steps.array_windows().all(|[one, next]| one < next);
    steps.filter(|steps| is_ascending(steps) && steps.len() <= MOST_STEPS).ok_or_else(|| {
        let expected = format!("at most {MOST_STEPS} shares with commas, each larger than the one before");
        Diagnostic::new(format!("{raw} is no list of steps"), Hint::Write(expected))
    })
}

fn read_step_time(raw: &RawValue<'_>) -> ParseResult<Duration> {
    let expected = || Hint::Write("a time up to 7d, such as `60s`".to_owned());
    let read = duration(Duration::ZERO..=Duration::from_secs(7 * 24 * 3600)).read(raw);
    read.map_err(|diagnostic| Diagnostic { hint: expected(), ..diagnostic })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<TrialSpec, String> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        TrialSpec::parse(pairs.map(|pair| pair.split_once('=').unwrap()))
    }

    #[test]
    fn what_is_not_said_is_what_most_want() {
        for (query, mode, steps, step_time) in [
            ("", Mode::Shadow, vec![0.1], None),
            ("mode=shadow&share=1", Mode::Shadow, vec![1.0], None),
            ("mode=canary", Mode::Canary, vec![0.05, 0.25, 1.0], Some(60)),
            ("mode=canary&share=0.2", Mode::Canary, vec![0.2], None),
            ("steps=0.1, 0.5&mode=canary&step_time=2m", Mode::Canary, vec![0.1, 0.5], Some(120)),
        ] {
            let spec = parse(query).unwrap();
            let steps_found: Vec<f64> = spec.steps.into_iter().map(Ratio::get).collect();
            let found = (spec.mode, steps_found, spec.step_time);
            assert_eq!(found, (mode, steps, step_time.map(Duration::from_secs)), "{query}");
        }
        let all = "mode=canary&share=1&sticky=header:X-A&concurrency=3&compare=true&tolerance=0.5&ignore=/a&ignore=/b/*\
                   &min_requests=1&max_errors=0.5&max_faults=2&max_slowdown=1.5&max_mismatches=7";
        let spec = parse(all).unwrap();
        let limits = Limits {
            min_requests: 1,
            max_errors: Ratio::percent(50),
            max_faults: 2,
            max_slowdown: 1.5,
            max_mismatches: 7,
        };
        assert_eq!((spec.concurrency, spec.compare, spec.limits), (3, true, limits));
        assert_eq!((spec.bounds.tolerance, spec.bounds.ignore.len()), (0.5, 2));
        assert_eq!(spec.sticky.unwrap().header(), "x-a");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (query, expected) in [
            ("mode=both", "`mode=both`: expected `shadow` or `canary`"),
            ("share=0", "`share=0`: expected more than 0 and at most 1"),
            ("share=1.1", "expected more than 0"),
            ("share=NaN", "expected more than 0"),
            ("steps=0.1", "`steps` is said of a canary: add `mode=canary`"),
            ("mode=canary&steps=0.5,0.1", "each larger than the one before"),
            ("mode=canary&steps=", "each larger than the one before"),
            ("mode=canary&steps=0.5&share=0.1", "give one of them"),
            ("mode=canary&step_time=1", "a time up to 7d"),
            ("mode=canary&max_slowdown=0.5", "a number from 1 to 1000"),
            ("mode=canary&max_errors=-1", "a number from 0 to 1"),
            ("mode=canary&compare=yes", "`true` or `false`"),
            ("concurrency=0", "a whole number from 1 to 64"),
            ("sticky=client", "expected `header:NAME`"),
            ("ignore=", "`"),
            ("share_=1", "unknown parameter `share_=1`: there are `mode=shadow|canary`"),
        ] {
            let error = parse(query).unwrap_err();
            assert!(error.contains(expected), "{query}: {error}");
        }
    }
}
