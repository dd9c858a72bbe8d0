//! State is kept, bounded, and given up, without a model.

use super::*;
use crate::tensor::Datatype;

const LIMITS: SequenceLimits = SequenceLimits { most: 2, bytes: 16, idle: Duration::from_secs(60) };

fn spec(name: &str, shape: &[&str]) -> TensorSpec {
    let extent = |extent: &&str| match extent.parse() {
        Ok(fixed) => Extent::Fixed(fixed),
        Err(_) if extent.is_empty() => Extent::Free(None),
        Err(_) => Extent::Free(Some((*extent).into())),
    };
    let shape = shape.iter().map(extent).collect();
    TensorSpec { name: name.into(), datatype: Datatype::Fp32, shape, role: Role::Plain }
}

fn model(state: &[&str]) -> Arc<Signature> {
    Arc::new(Signature {
        inputs: vec![spec("state_in", state), spec("x", &["N", "2"])],
        outputs: vec![spec("y", &["N", "2"]), spec("state_out", state)],
    })
}

fn sequences(state: &[&str], limits: SequenceLimits) -> Sequences {
    let pairs = [("state_out".to_owned(), "state_in".to_owned())];
    Sequences::new(&model(state), &pairs, limits).unwrap().unwrap()
}

fn tensor(name: &str, shape: &[u64], values: &[f32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::new(name.into(), Datatype::Fp32, shape.to_vec(), data.into()).unwrap()
}

fn call(id: u64, start: bool, end: bool) -> SequenceCall {
    SequenceCall { id: Some(SequenceId::Unsigned(id)), start, end }
}

/// A request whose model adds `x` to the state of one pair: the state that it was given, and the answer.
async fn ask(all: &Sequences, call: &SequenceCall, x: f32) -> Result<(Vec<u64>, f32), String> {
    let text = |error: ModelError| error.to_string();
    let mut turn = all.turn(Some(call)).await.map_err(text)?;
    let inputs = turn.inputs(vec![tensor("x", &[1, 2], &[x, x])]).map_err(text)?;
    assert_eq!(inputs.iter().map(|tensor| &*tensor.name).collect::<Vec<_>>(), ["state_in", "x"]);
    let kept = inputs[0].data.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes));
    let sum = tensor("state_out", &[1, 2], &[kept + x, kept + x]);
    let outputs = turn.outputs(vec![tensor("y", &[1, 2], &[kept + x, 0.0]), sum]).map_err(text)?;
    let [y] = outputs.as_slice() else { panic!("{} outputs", outputs.len()) };
    Ok((inputs[0].shape.clone(), f32::from_le_bytes(*y.data.first_chunk().unwrap())))
}

const NO_START: &str = "must specify the START flag";

#[tokio::test]
async fn sequences_have_their_own_state() {
    let all = sequences(&["N", "2"], LIMITS);
    assert_eq!(all.signature().inputs.len() + all.signature().outputs.len(), 2);
    for (id, start, end, x, expected) in [
        (1, true, false, 1.0, 1.0),
        (2, true, false, 10.0, 10.0),
        (1, false, false, 2.0, 3.0),
        (2, false, true, 5.0, 15.0),
        (1, false, false, 4.0, 7.0),
        // Begun anew.
        (1, true, false, 1.0, 1.0),
        (1, false, true, 1.0, 2.0),
        // First and last at once, which takes no place.
        (3, true, true, 8.0, 8.0),
    ] {
        assert_eq!(ask(&all, &call(id, start, end), x).await.unwrap().1, expected, "{id}");
    }
    for id in [1, 2, 3, 4] {
        assert!(ask(&all, &call(id, false, false), 1.0).await.unwrap_err().contains(NO_START));
    }
    assert!(all.turn(None).await.err().unwrap().to_string().contains("correlation ID"));
    assert_eq!(all.bytes.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn the_number_is_bounded_and_nobody_makes_way() {
    let all = sequences(&["N", "2"], LIMITS);
    for id in [1, 2] {
        ask(&all, &call(id, true, false), 1.0).await.unwrap();
    }
    let refused = ask(&all, &call(3, true, false), 1.0).await.unwrap_err();
    assert_eq!(refused, "2 sequences are running, and there may be no more");
    assert_eq!(ask(&all, &call(1, false, true), 1.0).await.unwrap().1, 2.0);
    ask(&all, &call(3, true, false), 1.0).await.unwrap();
    assert_eq!(ask(&all, &call(2, false, false), 1.0).await.unwrap().1, 2.0);
}

#[tokio::test]
async fn bytes_are_bounded() {
    let all = sequences(&["N", "2"], SequenceLimits { bytes: 8, ..LIMITS });
    ask(&all, &call(1, true, false), 1.0).await.unwrap();
    let refused = ask(&all, &call(2, true, false), 1.0).await.unwrap_err();
    assert_eq!(refused, "the state of all sequences may take 8 bytes; this one has ended");
    assert!(ask(&all, &call(2, false, false), 1.0).await.unwrap_err().contains(NO_START));
    assert_eq!(ask(&all, &call(1, false, true), 1.0).await.unwrap().1, 2.0);
    ask(&all, &call(2, true, false), 1.0).await.unwrap();
    // What is refused keeps no place.
    let larger = sequences(&["1000000", "1000000"], SequenceLimits { most: 1, ..LIMITS });
    for id in [1, 2] {
        assert!(ask(&larger, &call(id, true, false), 1.0).await.unwrap_err().contains("may take 16 bytes"));
        assert!(ask(&larger, &call(id, false, false), 1.0).await.unwrap_err().contains(NO_START));
    }
}

#[tokio::test]
async fn the_initial_state_takes_room_while_the_model_runs() {
    // The extent is the caller's, who sends no data.
    let input = |rows| vec![tensor("x", &[rows, 0], &[])];
    let all = sequences(&["N", "2"], LIMITS);
    let [one, two, three] = [1, 2, 3].map(|id| call(id, true, true));
    let mut first = all.turn(Some(&one)).await.unwrap();
    assert_eq!(first.inputs(input(2)).unwrap()[0].data.len(), 16);
    for rows in [1, 1 << 40, u64::MAX] {
        let mut second = all.turn(Some(&two)).await.unwrap();
        let refused = second.inputs(input(rows)).unwrap_err().to_string();
        assert!(refused.starts_with("the state of all sequences may take 16 bytes"), "{rows}: {refused}");
    }
    assert_eq!(all.bytes.load(Ordering::Relaxed), 16);
    drop(first);
    assert_eq!(all.bytes.load(Ordering::Relaxed), 0);
    // It becomes the room of the state, which may be smaller or larger.
    for (rows, expected) in [(2, 8), (1, 8), (0, 8)] {
        let mut turn = all.turn(Some(&three)).await.unwrap();
        turn.inputs(input(rows)).unwrap();
        let state =
            turn.state_of(&[tensor("y", &[1, 2], &[0.0; 2]), tensor("state_out", &[1, 2], &[0.0; 2])]);
        assert_eq!(state.unwrap().room.bytes, expected, "{rows}");
        drop(turn);
        assert_eq!(all.bytes.load(Ordering::Relaxed), 0, "{rows}");
    }
}

#[tokio::test]
async fn room_of_idle_sequences_is_had_back_and_that_of_others_is_not() {
    let idle = Duration::from_millis(200);
    let all = sequences(&["N", "2"], SequenceLimits { most: 10, idle, ..LIMITS });
    for id in [1, 2] {
        ask(&all, &call(id, true, false), 1.0).await.unwrap();
    }
    let full = ask(&all, &call(3, true, false), 1.0).await.unwrap_err();
    assert!(full.contains("may take 16 bytes"), "{full}");
    // One runs all the while, and is not idle.
    let held = call(1, false, false);
    let mut turn = all.turn(Some(&held)).await.unwrap();
    let inputs = turn.inputs(vec![tensor("x", &[1, 2], &[0.0; 2])]).unwrap();
    std::thread::sleep(idle * 2);
    ask(&all, &call(3, true, false), 1.0).await.unwrap();
    assert!(ask(&all, &call(2, false, false), 1.0).await.unwrap_err().contains(NO_START));
    let outputs =
        vec![tensor("y", &[1, 2], &[0.0; 2]), Tensor { name: "state_out".into(), ..inputs[0].clone() }];
    turn.outputs(outputs).unwrap();
    assert_eq!(ask(&all, &call(1, false, true), 1.0).await.unwrap().1, 2.0);
}

#[tokio::test]
async fn idle_ones_are_looked_for_once_in_a_while() {
    let all = sequences(&["N", "2"], SequenceLimits { most: 1, ..LIMITS });
    ask(&all, &call(1, true, false), 1.0).await.unwrap();
    let swept = || all.running().swept;
    assert_eq!(swept(), None);
    ask(&all, &call(2, true, false), 1.0).await.unwrap_err();
    let first = swept();
    assert!(first.is_some());
    for _ in 0..100 {
        ask(&all, &call(2, true, false), 1.0).await.unwrap_err();
    }
    assert!(swept() == first || first.unwrap().elapsed() >= SWEEP_INTERVAL);
}

#[tokio::test]
async fn what_is_idle_has_ended() {
    let all = sequences(&["N", "2"], SequenceLimits { idle: Duration::ZERO, ..LIMITS });
    for id in [1, 2, 3] {
        ask(&all, &call(id, true, false), 1.0).await.unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(ask(&all, &call(3, false, false), 1.0).await.unwrap_err().contains(NO_START));
    // One that is used is not idle, however long that takes.
    let held = call(4, true, false);
    let turn = all.turn(Some(&held)).await.unwrap();
    std::thread::sleep(Duration::from_millis(1));
    let next = call(4, false, false);
    let mut waiting = std::pin::pin!(ask(&all, &next, 1.0));
    let no_time = tokio::time::timeout(Duration::from_millis(10), &mut waiting).await;
    assert!(no_time.is_err(), "{no_time:?}");
    // A run that fails leaves the state as it was.
    drop(turn);
    assert_eq!(waiting.await.unwrap().1, 1.0);
}

#[tokio::test]
async fn the_initial_state_is_zeros() {
    for (shape, expected) in [
        (&["N", "2"][..], vec![1, 2]),
        (&["", "2"], vec![1, 2]),
        (&["1", "past", "2"], vec![1, 0, 2]),
        (&["M"], vec![1]),
        (&[], vec![]),
    ] {
        let all = sequences(shape, LIMITS);
        let call = SequenceCall { end: true, ..call(1, true, true) };
        assert_eq!(ask(&all, &call, 1.0).await.unwrap().0, expected, "{shape:?}");
    }
}

#[test]
fn states_are_named_rightly() {
    let model = model(&["N", "2"]);
    let new = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs.iter().map(|(out, to)| ((*out).to_owned(), (*to).to_owned())).collect();
        Sequences::new(&model, &pairs, LIMITS).map(|all| all.is_some())
    };
    assert_eq!(new(&[]), Ok(false));
    assert_eq!(new(&[("state_out", "state_in")]), Ok(true));
    for (pairs, expected) in [
        (&[("z", "x")][..], "state: the model has no output `z` that could be state"),
        (&[("y", "z")], "state: the model has no input `z` that could be state"),
        (&[("y", "x"), ("y", "state_in")], "state: `y` or `state_in` is named twice"),
        (&[("y", "x"), ("state_out", "x")], "state: `state_out` or `x` is named twice"),
    ] {
        assert_eq!(new(pairs).unwrap_err(), expected);
    }
}

#[test]
fn parameters_of_sequences_are_read() {
    let id = |text: &str| SequenceCall::of(text).map(|call| call.and_then(|call| call.id));
    assert_eq!(id(r#"{"priority":1}"#), Ok(None));
    for nothing in ["0", r#""""#, "null", "0,\"sequence_start\":true"] {
        assert_eq!(id(&format!(r#"{{"sequence_id":{nothing}}}"#)), Ok(None), "{nothing}");
    }
    assert_eq!(id(r#"{"sequence_start":true}"#), Ok(None));
    assert_eq!(id(r#"{"sequence_id":18446744073709551615}"#), Ok(Some(SequenceId::Unsigned(u64::MAX))));
    assert_eq!(id(r#"{"sequence_id":-1}"#), Ok(Some(SequenceId::Signed(-1))));
    assert_eq!(id(r#"{"sequence_id":"7"}"#), Ok(Some(SequenceId::Text("7".to_owned()))));
    let list = format!("[[7],{}8]", "0,".repeat(1 << 18));
    for wrong in ["1.5", "-9223372036854775809", "true", "[]", "{\"a\":1}", &list, "1,\"sequence_end\":1"] {
        let error = id(&format!(r#"{{"sequence_id":{wrong}}}"#)).unwrap_err();
        assert!(error.starts_with("`sequence_id` is a number or a text"), "{error}");
    }
    let long = format!(r#"{{"sequence_id":"{}"}}"#, "x".repeat(129));
    assert_eq!(id(&long).unwrap_err(), "`sequence_id` has 129 bytes, more than 128");
    let call =
        SequenceCall::of(r#"{"sequence_id":5,"sequence_start":true,"sequence_end":true}"#).unwrap().unwrap();
    assert!(call.start && call.end);
}
