//! What is recorded is given again, in bounds, and another way is a divergence.

use super::*;

const CLOCK: &str = "the wall clock";

fn clock(draw: &HostCallResult) -> Option<u64> {
    if let HostCallResult::WallClock(seconds, _) = draw { Some(*seconds) } else { None }
}

fn recorded_calls() -> RecordedCalls {
    let log = HostCallLog::blank();
    log.enter(START, None);
    log.enter("pre-inference", None);
    log.note(HostCallResult::WallClock(7, 5));
    log.note(HostCallResult::Random(vec![1, 2]));
    assert_eq!(log.header("X-User", || Some("ann".to_owned())).as_deref(), Some("ann"));
    log.recorded_calls().unwrap()
}

#[test]
fn what_is_recorded_is_given_again() {
    let text = serde_json::to_string(&recorded_calls()).unwrap();
    assert_eq!(
        text,
        r#"{"calls":[{"function":"start"},{"function":"pre-inference","draws":[{"wall-clock":[7,5]},{"random":"AQI="}]}],"headers":{"x-user":"ann"}}"#
    );
    let log = HostCallLog::replay(serde_json::from_str(&text).unwrap(), false, Answers::default());
    log.enter(START, None);
    log.enter("pre-inference", None);
    assert_eq!(log.next(CLOCK, clock).unwrap(), Some(7));
    assert_eq!(log.header("x-USER", || None).as_deref(), Some("ann"));
    assert_eq!(log.divergence(), None);
    assert!(log.next(CLOCK, clock).is_err());
    let divergence = log.divergence().unwrap().to_string();
    assert_eq!(divergence, "in pre-inference: asks for the wall clock where the recording has random bytes");
}

#[test]
fn the_end_of_a_tape_is_a_divergence_or_the_cut() {
    for cut in [false, true] {
        let log = HostCallLog::replay(
            RecordedCalls { calls: Vec::new(), ..recorded_calls() },
            cut,
            Answers::default(),
        );
        log.enter(START, None);
        assert!(log.next(CLOCK, clock).is_err());
        assert!(log.divergence().is_some(), "a call that was never made");

        let log = HostCallLog::replay(recorded_calls(), cut, Answers::default());
        log.enter(START, None);
        let error = log.next(CLOCK, clock).unwrap_err();
        assert!(!error.is::<DeadlineExceeded>(), "a later call was reached");

        let log = HostCallLog::replay(recorded_calls(), cut, Answers::default());
        log.enter(START, None);
        log.enter("pre-inference", None);
        log.next("", |_| Some(())).unwrap();
        log.next("", |_| Some(())).unwrap();
        let error = log.next(CLOCK, clock).unwrap_err();
        assert_eq!((error.is::<DeadlineExceeded>(), log.divergence().is_none()), (cut, cut));
    }
    let log = HostCallLog::replay(recorded_calls(), false, Answers::default());
    log.enter(START, None);
    log.enter("post-inference", None);
    let text = log.divergence().unwrap().to_string();
    assert_eq!(text, "in post-inference: is called where the recording has pre-inference");
    assert_eq!(
        HostCallLog::replay(recorded_calls(), false, Answers::default()).header("cookie", || unreachable!()),
        None
    );
}

#[test]
fn a_tape_is_bounded() {
    let log = HostCallLog::blank();
    log.enter(START, None);
    for _ in 0..LONGEST {
        log.note(HostCallResult::MonotonicClock(1));
    }
    assert_eq!(log.recorded_calls(), None);
    assert!(log.lock().recorded.calls[0].draws.len() <= LONGEST / DRAW_COST);
}
