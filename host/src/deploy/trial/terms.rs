//! The terms of a trial: what an order says of it, judged before anything is loaded.
//!
//! In: parameters by name, as text. Out: [`Terms`], or which parameter is wrong and what was expected.

use std::time::Duration;

use super::canary::Limits;
use crate::deploy::compare::Bounds;
use crate::draw::Sticky;
use crate::json::path::Pattern;

/// Most steps of a canary.
const MOST_STEPS: usize = 20;
/// Most places that are not compared.
const MOST_IGNORED: usize = 64;
/// Most shadows at a time.
const MOST_CONCURRENT: usize = 64;

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

/// The terms of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// What the candidate does.
    pub mode: Mode,
    /// Its share of the requests, more than 0 and at most 1; several, ever larger, one after the other.
    pub steps: Vec<f64>,
    /// How long each step is held before the next, and the last before the candidate is published; `None`: until an order.
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

const EXPECTED: &str = "there are `mode=shadow|canary`, `share=SHARE`, `sticky=header:NAME`, `concurrency=N`, `tolerance=N`, \
     `ignore=PLACE` and `note=TEXT`, and for a canary `steps=SHARE,…`, `step_time=TIME`, `compare=true|false`, `min_requests=N`, \
     `max_errors=SHARE`, `max_faults=N`, `max_slowdown=FACTOR` and `max_mismatches=N`";

impl Terms {
    /// Reads parameters. Without any, a tenth of the requests is shadowed; a canary has three steps of a minute.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn parse<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Terms, String> {
        let mut terms = Terms {
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
            let wrong = |expected: &str| format!("`{name}={value}`: expected {expected}");
            let count = |range: std::ops::RangeInclusive<u64>| {
                let number = value.parse().ok().filter(|number| range.contains(number));
                number.ok_or_else(|| {
                    wrong(&format!("a whole number from {} to {}", range.start(), range.end()))
                })
            };
            let number = |range: std::ops::RangeInclusive<f64>| {
                let number = value.parse().ok().filter(|number| range.contains(number));
                number.ok_or_else(|| wrong(&format!("a number from {} to {}", range.start(), range.end())))
            };
            match name {
                "mode" => {
                    terms.mode = match value {
                        "shadow" => Mode::Shadow,
                        "canary" => Mode::Canary,
                        _ => return Err(wrong("`shadow` or `canary`")),
                    }
                }
                "share" => {
                    share = Some(parse_share(value).ok_or_else(|| wrong("more than 0 and at most 1"))?)
                }
                "sticky" => terms.sticky = Some(Sticky::parse(value)?),
                "concurrency" => {
                    terms.concurrency = usize::try_from(count(1..=MOST_CONCURRENT as u64)?).unwrap_or(1);
                }
                "tolerance" => terms.bounds.tolerance = number(0.0..=1e6)?,
                "ignore" if terms.bounds.ignore.len() < MOST_IGNORED => {
                    terms.bounds.ignore.push(Pattern::parse(value)?);
                }
                "ignore" => return Err(format!("`ignore`: there are at most {MOST_IGNORED}")),
                of_canary => {
                    match of_canary {
                        "steps" => {
                            let steps = parse_steps(value);
                            let expected =
                                || wrong("at most 20 shares with commas, each larger than the one before");
                            terms.steps = steps.ok_or_else(expected)?;
                        }
                        "step_time" => {
                            let time = humantime::parse_duration(value).ok();
                            let time = time.filter(|time| *time <= Duration::from_secs(7 * 24 * 3600));
                            terms.step_time =
                                Some(time.ok_or_else(|| wrong("a time up to 7d, such as `60s`"))?);
                        }
                        "compare" => {
                            let is = value.parse();
                            terms.compare = is.map_err(|_| wrong("`true` or `false`"))?;
                        }
                        "min_requests" => terms.limits.min_requests = count(1..=1_000_000_000)?,
                        "max_errors" => terms.limits.max_errors = number(0.0..=1.0)?,
                        "max_faults" => terms.limits.max_faults = count(0..=1_000_000_000)?,
                        "max_slowdown" => terms.limits.max_slowdown = number(1.0..=1000.0)?,
                        "max_mismatches" => terms.limits.max_mismatches = count(0..=1_000_000_000)?,
                        _ => return Err(format!("unknown parameter `{name}={value}`: {EXPECTED}")),
                    }
                    of_canaries = Some(name);
                }
            }
        }
        match (terms.mode, of_canaries, share) {
            (Mode::Shadow, Some(name), _) => {
                return Err(format!("`{name}` is said of a canary: add `mode=canary`"));
            }
            (Mode::Shadow, None, share) => terms.steps = vec![share.unwrap_or(0.1)],
            (Mode::Canary, _, Some(_)) if !terms.steps.is_empty() || terms.step_time.is_some() => {
                return Err("`share` is held until an order, `steps` are not: give one of them".to_owned());
            }
            (Mode::Canary, _, Some(share)) => terms.steps = vec![share],
            (Mode::Canary, _, None) => {
                if terms.steps.is_empty() {
                    terms.steps = vec![0.05, 0.25, 1.0];
                }
                terms.step_time = terms.step_time.or(Some(Duration::from_secs(60)));
            }
        }
        Ok(terms)
    }
}

/// A share of the requests: more than 0, at most 1.
pub fn parse_share(text: &str) -> Option<f64> {
    text.parse().ok().filter(|share: &f64| *share > 0.0 && *share <= 1.0)
}

fn parse_steps(text: &str) -> Option<Vec<f64>> {
    let steps: Vec<f64> = text.split(',').map(str::trim).map(parse_share).collect::<Option<_>>()?;
    let is_ascending = steps.windows(2).all(|pair| matches!(pair, [one, next] if one < next));
    (is_ascending && steps.len() <= MOST_STEPS).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<Terms, String> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Terms::parse(pairs.map(|pair| pair.split_once('=').unwrap()))
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
            let terms = parse(query).unwrap();
            let found = (terms.mode, terms.steps, terms.step_time);
            assert_eq!(found, (mode, steps, step_time.map(Duration::from_secs)), "{query}");
        }
        let all = "mode=canary&share=1&sticky=header:X-A&concurrency=3&compare=true&tolerance=0.5&ignore=/a&ignore=/b/*\
                   &min_requests=1&max_errors=0.5&max_faults=2&max_slowdown=1.5&max_mismatches=7";
        let terms = parse(all).unwrap();
        let limits =
            Limits { min_requests: 1, max_errors: 0.5, max_faults: 2, max_slowdown: 1.5, max_mismatches: 7 };
        assert_eq!((terms.concurrency, terms.compare, terms.limits), (3, true, limits));
        assert_eq!((terms.bounds.tolerance, terms.bounds.ignore.len()), (0.5, 2));
        assert_eq!(terms.sticky.unwrap().header(), "x-a");
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
