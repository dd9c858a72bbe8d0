//! What becomes of a canary: it goes on, gets a larger share, is published, or ends.
//!
//! Place in the flow: `trial` asks a few times a second, and at once after a fault.
//! In:   what both sides have done, as plain numbers. Out: a [`Verdict`]. Pure: no clock, no state.
//!
//! Times are compared by the median and the 99th percentile, not by the mean: one hiccup of the machine moves
//! the mean of fifty requests as far as a handler that is slower altogether.
//!
//! Before a step has had [`Limits::min_requests`], a limit ends it if there is no doubt left: if a candidate
//! that keeps the limit came to such figures once in a thousand times, and less.

use std::time::Duration;

use super::figures::Counted;
use crate::values::Ratio;

/// How many requests of each side a 99th percentile is made of, at least.
const FOR_P99: u64 = 500;
/// A median that is later by less than that is no reason to end a trial, for any factor.
const MEDIAN_SLACK: Duration = Duration::from_micros(100);
/// The same for the 99th percentile, which the kernel's scheduler has a say in.
const P99_SLACK: Duration = Duration::from_millis(5);

/// Answers of the candidate before which no share and no time says anything.
const FEWEST: u64 = 10;
/// Answers that came late before there is no doubt that answers do: more than one hiccup holds up.
const FEWEST_LATE: u64 = 10;
/// How long a step is held before times say anything without `min_requests`: the first requests of a
/// candidate may wait for its first instances, and a hiccup is over by then.
const SETTLED: Duration = Duration::from_secs(2);
/// How many standard deviations there are between a figure and a limit where no doubt is left.
const DEVIATIONS: f64 = 3.29;

/// The limits of a canary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Answers of the candidate, in each step, before they say anything that can be doubted. Faults and
    /// mismatches count from the first.
    pub min_requests: u64,
    /// By how much its share of failures may be above the current handler's.
    pub max_errors: Ratio,
    /// Traps and the like.
    pub max_faults: u64,
    /// How many times the current handler's time it may take.
    pub max_slowdown: f64,
    /// Answers that are not what the current handler says, if that is looked at.
    pub max_mismatches: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            min_requests: 50,
            max_errors: Ratio::percent(1),
            max_faults: 0,
            max_slowdown: 2.0,
            max_mismatches: 0,
        }
    }
}

/// Where a canary is.
#[derive(Debug)]
pub struct View<'a> {
    /// All shares that it is to have, one after the other.
    pub steps: &'a [Ratio],
    /// Which of them it has.
    pub step: usize,
    /// How long a step is held; `None`: until an order.
    pub step_time: Option<Duration>,
    /// How long this one has been.
    pub held: Duration,
    /// The candidate's counts in this step.
    pub candidate: &'a Counted,
    /// The current handler's counts in this step.
    pub current: &'a Counted,
    /// The current handler's counts in the whole trial: where the candidate has every request, there is
    /// nothing else.
    pub before: &'a Counted,
    /// Faults of the candidate in the whole trial.
    pub faults: u64,
    /// Answers of the candidate that were not the current handler's, in the whole trial.
    pub mismatches: u64,
}

/// The next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    GoOn,
    /// The next step.
    Grow,
    /// It has passed.
    Publish,
    /// It has not, for this reason.
    End(String),
}

/// Decides.
pub fn evaluate(view: &View<'_>, limits: &Limits) -> Verdict {
    if let Some(reason) = broken(view, limits) {
        return Verdict::End(reason);
    }
    let is_held = view.step_time.is_some_and(|time| view.held >= time);
    if !is_held || view.candidate.requests < limits.min_requests {
        return Verdict::GoOn;
    }
    if view.step + 1 < view.steps.len() { Verdict::Grow } else { Verdict::Publish }
}

/// The limit that is broken.
fn broken(view: &View<'_>, limits: &Limits) -> Option<String> {
    if view.faults > limits.max_faults {
        return Some(format!("{} faults, allowed are {}", view.faults, limits.max_faults));
    }
    if view.mismatches > limits.max_mismatches {
        let (found, most) = (view.mismatches, limits.max_mismatches);
        return Some(format!("{found} answers differ from the current handler's, allowed are {most}"));
    }
    fails(view, limits).or_else(|| is_late(view, limits))
}

/// The limit of failures, if it is broken.
fn fails(view: &View<'_>, limits: &Limits) -> Option<String> {
    let candidate = view.candidate;
    let (rate, beside) = match candidate.requests >= limits.min_requests {
        true => (candidate.error_rate(), current(view, limits).error_rate()),
        false if candidate.requests < FEWEST => return None,
        // What fails for both is neither's doing, in this step or before.
        false => (
            at_least(candidate.errors, candidate.requests),
            view.current.error_rate().max(view.before.error_rate()),
        ),
    };
    (rate > beside + limits.max_errors.get()).then(|| {
        format!(
            "{} of {} requests failed, {:.1} % beside {:.1} % of the current handler's; allowed are {:.1} % more",
            candidate.errors,
            candidate.requests,
            candidate.error_rate() * 100.0,
            beside * 100.0,
            limits.max_errors.get() * 100.0,
        )
    })
}

/// The limit of times, if it is broken.
fn is_late(view: &View<'_>, limits: &Limits) -> Option<String> {
    let (candidate, current) = (view.candidate, current(view, limits));
    let times = [
        ("the median", 0.5, MEDIAN_SLACK, limits.min_requests, FEWEST),
        ("the 99th percentile", 0.99, P99_SLACK, limits.min_requests.max(FOR_P99), FOR_P99),
    ];
    times.into_iter().find_map(|(what, quantile, slack, fewest, beside)| {
        let allowed = |old: Duration| old.mul_f64(limits.max_slowdown).max(old + slack);
        let (new, old) = (candidate.quantile(quantile), current.quantile(quantile));
        let is_broken = match candidate.requests >= fewest {
            true => current.requests >= fewest && new > allowed(old),
            false => {
                let late = candidate.longer_than(allowed(at_most(current, quantile)));
                view.held >= SETTLED
                    && current.requests >= beside
                    && late >= FEWEST_LATE
                    && at_least(late, candidate.requests) > 1.0 - quantile
            }
        };
        is_broken.then(|| {
            format!(
                "{what} of its times is {new:?} beside {old:?}, allowed are {} times that",
                limits.max_slowdown
            )
        })
    })
}

/// The current handler's counts that the candidate's are held against.
fn current<'a>(view: &View<'a>, limits: &Limits) -> &'a Counted {
    if view.current.requests >= limits.min_requests { view.current } else { view.before }
}

/// The time that there is no doubt about: this share of the requests takes no longer.
fn at_most(counted: &Counted, share: f64) -> Duration {
    let deviation = (share * (1.0 - share) / counted.requests.max(1) as f64).sqrt();
    counted.quantile((share + DEVIATIONS * deviation).min(1.0))
}

/// The share that there is no doubt about where so many of a number of requests were such: the lower end of
/// Wilson's interval.
fn at_least(such: u64, of: u64) -> f64 {
    if such == 0 || of == 0 {
        return 0.0;
    }
    let (count, square) = (of as f64, DEVIATIONS * DEVIATIONS);
    let share = such as f64 / count;
    let deviation = (share * (1.0 - share) / count + square / (4.0 * count * count)).sqrt();
    (share + square / (2.0 * count) - DEVIATIONS * deviation) / (1.0 + square / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many requests, of which some failed, that took so many milliseconds each; of every hundredth, ten
    /// times as long.
    fn counted(requests: u64, errors: u64, milliseconds: f64) -> Counted {
        let time = Duration::from_secs_f64(milliseconds / 1e3);
        Counted::of((0..requests).map(|n| (n < errors, if n % 50 == 49 { time * 10 } else { time })))
    }

    fn view<'a>(candidate: &'a Counted, current: &'a Counted) -> View<'a> {
        View {
            steps: &[const { Ratio::percent(10) }, const { Ratio::percent(50) }, Ratio::ONE],
            step: 1,
            step_time: Some(Duration::from_secs(60)),
            held: Duration::from_secs(10),
            candidate,
            current,
            before: current,
            faults: 0,
            mismatches: 0,
        }
    }

    #[test]
    fn it_grows_when_its_time_is_over_and_it_has_been_seen() {
        let (few, enough) = (counted(49, 0, 1.0), counted(50, 0, 1.0));
        for (candidate, step, held, step_time, expected) in [
            (&enough, 1, 59, Some(60), Verdict::GoOn),
            (&few, 1, 3600, Some(60), Verdict::GoOn),
            (&enough, 0, 60, Some(60), Verdict::Grow),
            (&enough, 1, 60, Some(60), Verdict::Grow),
            (&enough, 2, 60, Some(60), Verdict::Publish),
            (&enough, 2, 59, Some(60), Verdict::GoOn),
            // Until an order.
            (&enough, 0, 3600, None, Verdict::GoOn),
        ] {
            let view = View {
                step,
                held: Duration::from_secs(held),
                step_time: step_time.map(Duration::from_secs),
                ..view(candidate, &enough)
            };
            assert_eq!(evaluate(&view, &Limits::default()), expected, "{step} {held} {step_time:?}");
        }
    }

    #[test]
    fn each_limit_ends_it_when_it_is_exceeded_and_not_before() {
        let current = counted(1000, 10, 1.0);
        for (what, candidate, reason) in [
            ("as good", counted(1000, 10, 1.0), None),
            ("one percent more failures", counted(1000, 20, 1.0), None),
            (
                "two percent more",
                counted(1000, 30, 1.0),
                Some("30 of 1000 requests failed, 3.0 % beside 1.0 %"),
            ),
            ("too few to say so", counted(9, 9, 100.0), None),
            ("a few of few", counted(40, 2, 1.0), None),
            ("all slow of few", counted(49, 0, 100.0), Some("the median of its times is 100")),
            ("all of few", counted(50, 50, 1.0), Some("50 of 50 requests failed")),
            ("nearly twice as slow", counted(1000, 0, 1.7), None),
            ("more than twice", counted(1000, 0, 2.5), Some("the median of its times is 2.")),
        ] {
            let verdict = evaluate(&view(&candidate, &current), &Limits::default());
            match (verdict, reason) {
                (Verdict::GoOn, None) => {}
                (Verdict::End(text), Some(reason)) if text.starts_with(reason) => {}
                (verdict, _) => panic!("{what}: {verdict:?}"),
            }
        }
    }

    /// The requests that are left would change nothing.
    #[test]
    fn what_is_beyond_doubt_ends_it_before_it_has_had_its_requests() {
        let (nothing, few, many) = (counted(0, 0, 0.0), counted(12, 0, 1.0), counted(1000, 0, 1.0));
        let (half, failing) = (counted(1000, 500, 1.0), counted(1000, 1000, 1.0));
        let late = |late: u64, of: u64| {
            Counted::of((0..of).map(|n| (false, Duration::from_millis(if n < late { 900 } else { 1 }))))
        };
        for (what, candidate, current, held, ends) in [
            ("all of ten", counted(10, 10, 1.0), &many, 0, true),
            ("all of nine", counted(9, 9, 1.0), &many, 3600, false),
            ("all of ten beside nothing", counted(10, 10, 1.0), &nothing, 0, true),
            ("half of twenty", counted(20, 10, 1.0), &many, 0, true),
            ("one of twenty", counted(20, 1, 1.0), &many, 3600, false),
            ("as the current one", counted(20, 10, 1.0), &half, 3600, false),
            ("all, where all fail", counted(20, 20, 1.0), &failing, 3600, false),
            ("all late", late(20, 20), &many, 2, true),
            ("all late beside a few", late(20, 20), &few, 2, true),
            ("all late beside nothing", late(20, 20), &nothing, 3600, false),
            ("all late at the beginning", late(20, 20), &many, 1, false),
            ("half late", late(10, 20), &few, 3600, false),
            ("a third late, where hardly any is", late(15, 45), &many, 2, true),
            ("three late, where hardly any is", late(3, 45), &many, 3600, false),
        ] {
            let held = Duration::from_secs(held);
            let verdict =
                evaluate(&View { held, step_time: None, ..view(&candidate, current) }, &Limits::default());
            assert_eq!(matches!(verdict, Verdict::End(_)), ends, "{what}: {verdict:?}");
        }
    }

    /// A model that is down fails both; the candidate has more of the requests now.
    #[test]
    fn what_fails_for_both_ends_nothing_early() {
        let (failing, few, before) = (counted(30, 30, 1.0), counted(3, 3, 1.0), counted(900, 3, 1.0));
        let now = View { before: &before, ..view(&failing, &few) };
        assert_eq!(evaluate(&now, &Limits::default()), Verdict::GoOn);
        let lenient = Limits { max_errors: Ratio::ONE, ..Limits::default() };
        assert_eq!(evaluate(&View { current: &before, ..now }, &lenient), Verdict::GoOn);
    }

    #[test]
    fn faults_and_mismatches_count_from_the_first() {
        let (one, current) = (counted(1, 1, 1.0), counted(1000, 0, 1.0));
        for (faults, mismatches, max_faults, max_mismatches, reason) in [
            (1, 0, 0, 0, "1 faults, allowed are 0"),
            (2, 0, 2, 0, ""),
            (3, 0, 2, 0, "3 faults, allowed are 2"),
            (0, 1, 0, 0, "1 answers differ from the current handler's, allowed are 0"),
            (0, 5, 0, 5, ""),
        ] {
            let limits = Limits { max_faults, max_mismatches, ..Limits::default() };
            let verdict = evaluate(&View { faults, mismatches, ..view(&one, &current) }, &limits);
            let expected = if reason.is_empty() { Verdict::GoOn } else { Verdict::End(reason.to_owned()) };
            assert_eq!(verdict, expected);
        }
    }

    #[test]
    fn slow_ones_among_many_are_seen_and_a_hiccup_is_not() {
        let current = counted(1000, 0, 1.0);
        let times = |slow: u64, time: u64| {
            let time = |n| if n < slow { Duration::from_millis(time) } else { Duration::from_millis(1) };
            Counted::of((0..1000).map(|n| (false, time(n))))
        };
        for (slow, time, ends) in [(5, 1000, false), (30, 15, false), (30, 100, true)] {
            let candidate = times(slow, time);
            let verdict = evaluate(&view(&candidate, &current), &Limits::default());
            assert_eq!(matches!(verdict, Verdict::End(_)), ends, "{slow} {time}: {verdict:?}");
        }
        // Three times nearly nothing is nearly nothing.
        let (fast, faster) = (counted(1000, 0, 0.06), counted(1000, 0, 0.02));
        assert_eq!(evaluate(&view(&fast, &faster), &Limits::default()), Verdict::GoOn);
    }

    #[test]
    fn where_the_candidate_has_every_request_it_is_held_to_what_was_before() {
        let (slow, nothing, before) = (counted(100, 0, 9.0), counted(0, 0, 0.0), counted(500, 0, 1.0));
        let last = View { step: 2, before: &before, ..view(&slow, &nothing) };
        assert!(matches!(evaluate(&last, &Limits::default()), Verdict::End(_)));
        let idle = View { before: &nothing, ..last };
        assert_eq!(evaluate(&idle, &Limits::default()), Verdict::GoOn, "nothing to compare it with");
    }
}
