//! Loading and running through the model's front: where a run is made, and that callers who leave cost
//! nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::engine::Session;
use super::location::Location;
use super::sessions::Sessions;
use super::testing::{UNBATCHED, floats};
use super::*;
use crate::tensor::{Datatype, Extent, Role, Signature, Tensor, TensorSpec};

fn config(name: &str, sessions: usize) -> ModelConfig {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/models").join(name);
    ModelConfig {
        path,
        device: Device::Cpu,
        sessions: Some(sessions),
        threads: Some(1),
        ..ModelConfig::default()
    }
}

fn try_load(name: &str, sessions: usize) -> Result<Arc<Model>, ModelError> {
    let config = config(name, sessions);
    let location = Location::find(&config.path, None)
        .map_err(|reason| ModelError::Load { path: config.path.clone(), reason })?;
    Model::load(&config, location, &Config::default()).map(Arc::new)
}

fn load(name: &str, sessions: usize) -> ModelHandle {
    let model = try_load(name, sessions).unwrap_or_else(|error| panic!("{error}"));
    model.handle(UNBATCHED).unwrap()
}

fn x(value: f32) -> Vec<Tensor> {
    vec![Tensor::new("x".into(), Datatype::Fp32, vec![1], value.to_le_bytes().to_vec().into()).unwrap()]
}

#[test]
fn what_cannot_be_loaded_is_named() {
    let error = |name: &str, sessions| try_load(name, sessions).unwrap_err().to_string();
    assert!(error("missing.onnx", 1).ends_with("missing.onnx`: No such file or directory (os error 2)"));
    assert!(error("", 1).contains("it has several models, `accumulator.onnx`, `add.onnx`, "));
    assert!(error("make.py", 1).contains("make.py`: "));
    assert!(error("add.onnx", 0).ends_with("add.onnx`: instances must be at least 1"));
}

/// How many of `runs` were done at the first poll, so on the thread that polled.
fn in_place(model: &str, runs: usize) -> usize {
    let model = load(model, 1);
    let runtime = Builder::new_current_thread().build().unwrap();
    let mut in_place = 0;
    runtime.block_on(async {
        for _ in 0..runs {
            let mut run = std::pin::pin!(model.infer(x(1.0)));
            if std::future::poll_fn(|context| Poll::Ready(run.as_mut().poll(context).is_ready())).await {
                in_place += 1;
            } else {
                run.await.unwrap();
            }
        }
    });
    in_place
}

#[test]
fn fast_runs_are_made_in_place_and_slow_ones_are_not() {
    // Most and few, not all and none: a busy machine can upset any single run.
    let fast = in_place("identity_fp32.onnx", 1000);
    assert!(500 < fast, "{fast} of 1000");
    let slow = in_place("slow.onnx", 20);
    assert!(slow < 10, "{slow} of 20");
}

#[test]
fn callers_who_hang_up_lose_no_session() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let model = Arc::new(load("slow.onnx", 2));
    assert_eq!((model.model().sessions(), model.model().idle_sessions()), (2, 2));
    runtime.block_on(async {
        let mut callers = JoinSet::new();
        for caller in 0..100 {
            let model = Arc::clone(&model);
            callers.spawn(async move {
                // Before it is served, while it runs, and not at all.
                let patience = Duration::from_millis(caller % 20);
                timeout(patience, model.infer(x(1.0))).await.is_ok()
            });
        }
        callers.join_all().await;
        // Runs whose callers have gone end on their own.
        while model.model().idle_sessions() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(model.infer(x(1.0)).await.is_ok());
    });
}

#[test]
fn an_error_frees_its_session() {
    let model = load("gather.onnx", 1);
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for index in [7i64, 7, 2] {
            let data = index.to_le_bytes().to_vec().into();
            let input = Tensor::new("index".into(), Datatype::Int64, vec![1], data).unwrap();
            let result = model.infer(vec![input]).await;
            assert_eq!(result.is_ok(), index < 3);
            // The runner answers, then gives the session back.
            while model.model().idle_sessions() < 1 {
                tokio::task::yield_now().await;
            }
        }
    });
}

/// A session that doubles what it gets, slowly where its shape is another than before, and says how many rows
/// its runs had.
#[derive(Debug)]
struct Prepared {
    signature: Arc<Signature>,
    runs: Arc<Mutex<Vec<usize>>>,
}

impl Session for Prepared {
    fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, ModelError> {
        let [x] = inputs else { panic!("{inputs:?}") };
        let values = floats(x);
        let last = self.runs.lock().unwrap().last().copied();
        self.runs.lock().unwrap().push(values.len());
        let changed = last.is_some_and(|last| last != values.len());
        thread::sleep(Duration::from_millis(if changed { 50 } else { 1 }));
        if values.contains(&-1.0) || values.len() == 8 && values.contains(&5.0) {
            return Err(ModelError::Run("negative, or too many".to_owned()));
        }
        let doubled: Vec<u8> = values.iter().flat_map(|value| (value * 2.0).to_le_bytes()).collect();
        Ok(vec![Tensor::new("y".into(), Datatype::Fp32, x.shape.clone(), doubled.into()).unwrap()])
    }

    fn prepares_for_shapes(&self) -> bool {
        true
    }
}

#[test]
fn runs_are_padded_where_another_shape_costs_more() {
    let spec = |name: &str| TensorSpec {
        name: name.into(),
        datatype: Datatype::Fp32,
        shape: vec![Extent::Free(None)],
        role: Role::Plain,
    };
    let signature = Arc::new(Signature { inputs: vec![spec("x")], outputs: vec![spec("y")] });
    let runs = Arc::new(Mutex::new(Vec::new()));
    let session = Prepared { signature: Arc::clone(&signature), runs: Arc::clone(&runs) };
    let sessions = Sessions::start(vec![Box::new(session)], signature, None).unwrap();
    let batching = Batching { max_batch: 8, ..UNBATCHED };
    assert_eq!(sessions.best_batch(&batching), Ok(8));
    let client = sessions.queue.open(batching);
    runs.lock().unwrap().clear();
    let runtime = Builder::new_current_thread().build().unwrap();
    let ask = |values: &[f32]| {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let x = Tensor::new("x".into(), Datatype::Fp32, vec![values.len() as u64], data.into()).unwrap();
        runtime.block_on(sessions.queue.submit(client, vec![x]))
    };
    for values in [&[1.0][..], &[2.0], &[3.0, 4.0, 5.0], &[6.0], &[7.0, 8.0]] {
        let prediction = ask(values).unwrap();
        let [y] = prediction.outputs.as_slice() else { panic!("{prediction:?}") };
        let doubled: Vec<f32> = values.iter().map(|value| value * 2.0).collect();
        assert_eq!((y.shape.as_slice(), floats(y)), (&[values.len() as u64][..], doubled));
    }
    // One that fails is told, and the next has an answer. One whose padded run fails is run alone.
    assert_eq!(ask(&[-1.0]).unwrap_err().to_string(), "the model failed: negative, or too many");
    assert_eq!(floats(&ask(&[9.0]).unwrap().outputs[0]), [18.0]);
    assert_eq!(floats(&ask(&[5.0; 5]).unwrap().outputs[0]), [10.0; 5]);
    assert_eq!(*runs.lock().unwrap(), [1, 1, 4, 4, 4, 4, 1, 1, 8, 5]);
    sessions.queue.close();
}
