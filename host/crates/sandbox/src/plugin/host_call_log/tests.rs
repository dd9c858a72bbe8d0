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

/// A call of the host, and what it does.
type Case<'a> = (&'a str, &'a dyn Fn(&HostCallLog));

/// The texts that a handler gives count as bodies do: beyond the budget nothing is kept, and what is asked is
/// answered all the same.
#[test]
fn names_and_heads_are_kept_within_the_budget() {
    use crate::jobs::handler::{JobCall, JobOp, JobRequest};
    use crate::kv::{KvCall, KvOp};
    use crate::outbound::{OutboundAnswer, OutboundCall};
    use crate::request::exchange::kept::KEPT;

    const LONG: usize = 1 << 20;
    let long = "x".repeat(LONG);
    let kept = |log: &HostCallLog| {
        log.model_calls().len() + log.outbound().len() + log.own.lock().capabilities.len()
    };
    let tensor = |name: &str| {
        let (datatype, data) = (crate::tensor::Datatype::Uint8, bytes::Bytes::from_static(b"x"));
        Tensor::new(name.into(), datatype, vec![1], data).unwrap()
    };
    let head = || OutboundCall { url: long.clone(), ..OutboundCall::default() };
    let job = |webhook: Option<String>, headers| {
        let op = JobOp::Submit(Box::new(JobRequest { webhook, headers, ..JobRequest::default() }));
        JobCall { op, answer: None }
    };
    let value = |op| KvCall { bucket: "b".to_owned(), op, answer: None };
    let cases: [Case<'_>; 8] = [
        ("a model", &|log| drop(log.model_called(&long, &[]))),
        ("an input", &|log| drop(log.model_called("m", &[tensor(&long)]))),
        ("a URL", &|log| drop(log.sent(head()))),
        ("a response", &|log| {
            let headers = vec![("x".to_owned(), long.clone())];
            let sent = log.sent(OutboundCall::default());
            let body = bytes::Bytes::new();
            log.answered(
                sent.number,
                OutboundAnswer::Response { status: 200, headers, body, is_whole: true },
            );
        }),
        ("a key", &|log| drop(log.called(value(KvOp::Get { key: long.clone() })))),
        ("a cursor", &|log| {
            let (prefix, cursor) = (String::new(), Some(long.clone()));
            drop(log.called(value(KvOp::Keys { prefix, cursor, skip: 0, limit: 1 })));
        }),
        ("a webhook", &|log| drop(log.called(job(Some(long.clone()), Vec::new())))),
        ("headers", &|log| {
            let headers = vec![(String::new(), String::new()); LONG / size_of::<(String, String)>()];
            drop(log.called(job(None, headers)));
        }),
    ];
    for (what, call) in cases {
        let log = HostCallLog::of_calls(None);
        for _ in 0..2 * KEPT / LONG {
            call(&log);
        }
        assert!(log.budget().is_spent() && log.budget().used() <= KEPT, "{what}");
        let calls = kept(&log);
        assert!(calls > 0 && calls <= KEPT / LONG + 1, "{what}: {calls} calls are kept");
    }
    // Small ones in great number, too.
    let log = HostCallLog::of_calls(None);
    for _ in 0..KEPT / 32 {
        drop(log.called(value(KvOp::Get { key: "k".to_owned() })));
    }
    assert!(kept(&log) < KEPT / 64, "{} calls are kept", kept(&log));
}
