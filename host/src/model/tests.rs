//! Loading and running through the model's front: where a run is made, and that callers who leave cost
//! nothing.

use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::tensor::Datatype;

fn config(name: &str, sessions: usize) -> ModelConfig {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(name);
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
    model.handle(Batching::default()).unwrap()
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
