//! The parameters of a trial, one row each: its name, the form and the default of its value, its reader, and
//! its line of the reference.
//!
//! In: parameters by name, as text. Out: a [`TrialSpec`], checked before anything is loaded, or which
//! parameter is wrong and what was expected.

use std::time::Duration;

use super::canary::Limits;
use super::spec::{Mode, TrialSpec};
use crate::bucketing::Sticky;
use crate::endpoint::config::Bounds;
use crate::json::path::Pattern;
use crate::values::{
    Diagnostic, Hint, ParseResult, Ratio, RawValue, Reader, choice, count, duration, number, ratio,
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

const MODES: [(&str, Mode); 2] = [("shadow", Mode::Shadow), ("canary", Mode::Canary)];

impl TrialSpec {
    /// Reads parameters. Without any, a tenth of the requests is shadowed; a canary has three steps of a
    /// minute.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn parse<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<TrialSpec, String> {
        let spec = TrialSpec {
            mode: Mode::Shadow,
            steps: Vec::new(),
            step_time: None,
            sticky: None,
            concurrency: 2,
            compare: false,
            bounds: Bounds::default(),
            limits: Limits::default(),
        };
        let mut draft = Draft { spec, share: None, of_canary: None };
        for (name, value) in parameters {
            draft.set(name, value)?;
        }
        let Draft { mut spec, share, of_canary } = draft;
        match (spec.mode, of_canary, share) {
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

/// A parameter as it is given.
struct RawParameter<'a> {
    name: &'a str,
    value: &'a str,
}

impl RawParameter<'_> {
    fn read<T>(&self, reader: impl Reader<T>) -> Result<T, String> {
        let read = reader.read(&RawValue::of(self.value));
        read.map_err(|diagnostic| diagnostic.of_parameter(self.name, self.value))
    }
}

/// A spec in the making.
struct Draft {
    spec: TrialSpec,
    share: Option<Ratio>,
    /// A parameter that only a canary has.
    of_canary: Option<&'static str>,
}

impl Draft {
    /// Sets one parameter.
    ///
    /// # Errors
    /// Unknown parameter, or value out of range.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some(row) = PARAMETERS.iter().find(|row| row.name == name) else {
            return Err(format!("unknown parameter `{name}={value}`: {}", expected()));
        };
        if row.only_canary {
            self.of_canary = Some(row.name);
        }
        (row.set)(self, &RawParameter { name, value })
    }
}

/// A parameter of a trial.
struct Parameter {
    name: &'static str,
    /// The form of a value.
    form: &'static str,
    /// Whether only a canary has it.
    only_canary: bool,
    /// Its default, in Markdown; empty if there is none.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference, which a test writes"))]
    default: &'static str,
    /// Its meaning, in Markdown.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference, which a test writes"))]
    meaning: &'static str,
    set: fn(&mut Draft, &RawParameter<'_>) -> Result<(), String>,
}

/// The rows; a macro, so that a row reads as a row.
macro_rules! parameters {
    ($(
        $name:literal = $form:literal, $only_canary:literal, $default:literal,
        |$draft:ident, $given:ident| $set:expr,
        $meaning:literal;
    )*) => {
        [$(Parameter {
            name: $name,
            form: $form,
            only_canary: $only_canary,
            default: $default,
            meaning: $meaning,
            set: |$draft, $given| {
                $set;
                Ok(())
            },
        }),*]
    };
}

const PARAMETERS: [Parameter; 15] = parameters! {
    "mode" = "shadow|canary", false, "`shadow`",
        |draft, given| draft.spec.mode = given.read(choice(&MODES))?,
        "`shadow` or `canary`.";
    "share" = "SHARE", false, "`0.1` of a shadow",
        |draft, given| draft.share = Some(given.read(read_share)?),
        "More than 0, at most 1. Held until an order.";
    "steps" = "SHARE,…", true, "`0.05,0.25,1`",
        |draft, given| draft.spec.steps = given.read(read_steps)?,
        "Of a canary without `share`: shares, one after the other, each larger than the one before.";
    "step_time" = "TIME", true, "`60s`",
        |draft, given| draft.spec.step_time = Some(given.read(read_step_time)?),
        "How long each step is held; longer, if the candidate has not had `min_requests` in it.";
    "sticky" = "header:NAME", false, "by chance",
        |draft, given| draft.spec.sticky = Some(Sticky::parse(given.value)?),
        "`header:NAME`: requests with the same value are on the same side. A larger share takes no request back. \
         Requests without the header are drawn.";
    "concurrency" = "N", false, "`2`",
        |draft, given| draft.spec.concurrency = given.read(count(1..=MOST_CONCURRENT))?,
        "Shadows at a time, 1 to 64, and never more than `limits.concurrency`.";
    "tolerance" = "N", false, "`1e-6`",
        |draft, given| draft.spec.bounds.tolerance = given.read(number(0.0..=1e6))?,
        "How far numbers may be apart, absolutely or in relation to the larger one.";
    "ignore" = "PLACE", false, "",
        |draft, given| ignore(draft, given)?,
        "A place that is not compared, as a JSON Pointer in which `*` stands for any one key or index, or a header's \
         name; once or more.";
    "compare" = "true|false", true, "`false`",
        |draft, given| draft.spec.compare = given.read(switch)?,
        "Of a canary: the current handler shadows what the candidate answers.";
    "min_requests" = "N", true, "`50`",
        |draft, given| draft.spec.limits.min_requests = given.read(count(1..=MOST))?,
        "Answers of the candidate, in each step, before its failures and times count. What leaves no doubt ends it \
         before: ten failures of ten, or from two seconds on answers that nearly all come late.";
    "max_errors" = "SHARE", true, "`0.01`",
        |draft, given| draft.spec.limits.max_errors = given.read(ratio())?,
        "How much larger its share of failures (status 500 and above) may be than the current handler's.";
    "max_faults" = "N", true, "`0`",
        |draft, given| draft.spec.limits.max_faults = given.read(count(0..=MOST))?,
        "Traps, exceeded limits of memory and time, invalid outputs.";
    "max_slowdown" = "FACTOR", true, "`2`",
        |draft, given| draft.spec.limits.max_slowdown = given.read(number(1.0..=1000.0))?,
        "How many times the current handler's time it may take: by the median, and by the 99th percentile from 500 \
         requests of each on. Less than 100 µs or 5 ms later is not slower.";
    "max_mismatches" = "N", true, "`0`",
        |draft, given| draft.spec.limits.max_mismatches = given.read(count(0..=MOST))?,
        "Answers that differ, with `compare`.";
    // Read with the order, before its trial is.
    "note" = "TEXT", false, "", |_draft, _given| {}, "As of any order.";
};

/// The names of all parameters with the forms of their values.
fn expected() -> String {
    let named = |only_canary| {
        let rows = PARAMETERS.iter().filter(move |row| row.only_canary == only_canary);
        rows.map(|row| format!("`{}={}`", row.name, row.form)).collect::<Vec<_>>().join(", ")
    };
    format!("there are {}; and for a canary {}", named(false), named(true))
}

fn ignore(draft: &mut Draft, given: &RawParameter<'_>) -> Result<(), String> {
    let ignored = &mut draft.spec.bounds.ignore;
    if ignored.len() >= MOST_IGNORED {
        return Err(format!("`ignore`: there are at most {MOST_IGNORED}"));
    }
    ignored.push(Pattern::parse(given.value)?);
    Ok(())
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
    use crate::reference;

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

    #[test]
    fn the_reference_has_the_rows_of_the_parameters() {
        let row = |row: &Parameter| {
            let default = if row.default.is_empty() { " ".to_owned() } else { format!(" {} ", row.default) };
            format!("| `{}` |{default}| {} |", row.name, row.meaning)
        };
        let start = "| parameter | default | meaning |\n|---|---|---|\n";
        reference::hold(start, "\n\n", PARAMETERS.iter().map(row));
    }

    #[test]
    fn defaults_are_what_they_are_said_to_be() {
        let mut count = 0;
        for row in &PARAMETERS {
            let Some(default) = row.default.split('`').nth(1) else { continue };
            let mode = ("mode", if row.only_canary { "canary" } else { "shadow" });
            let said = TrialSpec::parse([mode, (row.name, default)]).unwrap();
            assert_eq!(said, TrialSpec::parse([mode]).unwrap(), "{}", row.name);
            count += 1;
        }
        assert_eq!(count, 12);
    }
}
