//! What is recorded is given again, in bounds, and another way is a divergence.

use super::*;

const CLOCK: &str = "the wall clock";

fn clock(draw: &Draw) -> Option<u64> {
    if let Draw::WallClock(seconds, _) = draw { Some(*seconds) } else { None }
}

fn reel() -> Reel {
    let tape = Tape::blank();
    tape.enter(START, None);
    tape.enter("pre-inference", None);
    tape.note(Draw::WallClock(7, 5));
    tape.note(Draw::Random(vec![1, 2]));
    assert_eq!(tape.header("X-User", || Some("ann".to_owned())).as_deref(), Some("ann"));
    tape.reel().unwrap()
}

#[test]
fn what_is_recorded_is_given_again() {
    let text = serde_json::to_string(&reel()).unwrap();
    assert_eq!(
        text,
        r#"{"calls":[{"function":"start"},{"function":"pre-inference","draws":[{"wall-clock":[7,5]},{"random":"AQI="}]}],"headers":{"x-user":"ann"}}"#
    );
    let tape = Tape::recorded(serde_json::from_str(&text).unwrap(), false, Answers::default());
    tape.enter(START, None);
    tape.enter("pre-inference", None);
    assert_eq!(tape.next(CLOCK, clock).unwrap(), Some(7));
    assert_eq!(tape.header("x-USER", || None).as_deref(), Some("ann"));
    assert_eq!(tape.divergence(), None);
    assert!(tape.next(CLOCK, clock).is_err());
    let divergence = tape.divergence().unwrap().to_string();
    assert_eq!(divergence, "in pre-inference: asks for the wall clock where the recording has random bytes");
}

#[test]
fn the_end_of_a_tape_is_a_divergence_or_the_cut() {
    for cut in [false, true] {
        let tape = Tape::recorded(Reel { calls: Vec::new(), ..reel() }, cut, Answers::default());
        tape.enter(START, None);
        assert!(tape.next(CLOCK, clock).is_err());
        assert!(tape.divergence().is_some(), "a call that was never made");

        let tape = Tape::recorded(reel(), cut, Answers::default());
        tape.enter(START, None);
        let error = tape.next(CLOCK, clock).unwrap_err();
        assert!(!error.is::<DeadlineExceeded>(), "a later call was reached");

        let tape = Tape::recorded(reel(), cut, Answers::default());
        tape.enter(START, None);
        tape.enter("pre-inference", None);
        tape.next("", |_| Some(())).unwrap();
        tape.next("", |_| Some(())).unwrap();
        let error = tape.next(CLOCK, clock).unwrap_err();
        assert_eq!((error.is::<DeadlineExceeded>(), tape.divergence().is_none()), (cut, cut));
    }
    let tape = Tape::recorded(reel(), false, Answers::default());
    tape.enter(START, None);
    tape.enter("post-inference", None);
    let text = tape.divergence().unwrap().to_string();
    assert_eq!(text, "in post-inference: is called where the recording has pre-inference");
    assert_eq!(Tape::recorded(reel(), false, Answers::default()).header("cookie", || unreachable!()), None);
}

#[test]
fn a_tape_is_bounded() {
    let tape = Tape::blank();
    tape.enter(START, None);
    for _ in 0..LONGEST {
        tape.note(Draw::MonotonicClock(1));
    }
    assert_eq!(tape.reel(), None);
    assert!(tape.lock().reel.calls[0].draws.len() <= LONGEST / DRAW_COST);
}
