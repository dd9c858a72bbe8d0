//! What the sandbox costs: a call, a copy, an instance, a fresh request.
//!
//! Place in the flow: `cargo bench -p host --bench sandbox`, which `make bench` runs after the load.
//! In:  the iris example's component and the end-to-end tests' guests `echo` and `normalise`, already built.
//! Out: a table of medians on standard output.
//!
//! Everything goes through the crate's own [`Plugin`], so a figure is what a request pays in that stage, deadlines
//! and checks included. Time is wall-clock on one thread; the median over many short batches leaves out what else
//! the machine was doing. Nothing is compared with a limit.
#![expect(clippy::print_stdout, reason = "the table is this program's output")]

use std::ffi::c_void;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use host::config::Defaults;
use host::plugin::{
    Binary, Config, HandlerConfig, InstanceSource, Isolation, Limits, Network, Outcome, Plugin, Sandbox,
    StagedCall,
};
use host::request::{Form, Input, PlainHead, Request};
use host::telemetry::metrics::Metrics;
use host::tensor::{Datatype, Tensor};
use tokio::runtime::Handle;

/// The host's allocator, see its `main.rs`.
#[used]
static MALLOC: unsafe extern "C" fn(usize) -> *mut c_void = libmimalloc_sys::mi_malloc;

/// The seeds' first flower.
const FLOWER: &[u8] = br#"{"sepal_length":5.2,"sepal_width":3.6,"petal_length":1.4,"petal_width":0.3}"#;
/// Bytes of an image, 224 × 224 pixels of three colours, and of the FP32 tensor made of it.
const PIXELS: usize = 3 * 224 * 224;
const TENSOR: usize = PIXELS * 4;
/// Batches each measurement takes, and about how long one is.
const BATCHES: usize = 101;
const BATCH: Duration = Duration::from_millis(5);

const INSTANCES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let sandbox = Sandbox::new(&Config::defaults(), INSTANCES)?;
    let iris = load(&sandbox, "iris-wasm", Isolation::Worker, "null").await?;
    let fresh = load(&sandbox, "iris-wasm", Isolation::Request, "null").await?;
    let echo = load(&sandbox, "tests/echo", Isolation::Worker, "null").await?;
    let image = load(&sandbox, "tests/normalise", Isolation::Request, "null").await?;
    let prepared = |metadata| load(&sandbox, "tests/prepared", Isolation::Request, metadata);
    let bare = prepared("[]").await?;
    let table = prepared(r#"["table:8388608"]"#).await?;
    let large_table = prepared(r#"["table:33554432"]"#).await?;

    let flower = request(FLOWER);
    let label = tensor("label", Datatype::Int64, vec![1], 0i64.to_le_bytes().to_vec())?;
    let row = [0.9819308f32, 0.018069265, 1.7372557e-8];
    let row = tensor("probabilities", Datatype::Fp32, vec![1, 3], bytemuck::cast_slice(&row).to_vec())?;
    let prediction = [label, row.clone()];
    let bytes = vec![7u8; TENSOR];
    let large = [tensor("image", Datatype::Uint8, vec![TENSOR as u64], bytes.clone())?, row];
    let large_request = request(&bytes);
    let pixels = request(&[7u8; PIXELS]);
    let empty = request(b"");

    println!("{:<64} {:>10} {:>10} {:>10}", "sandbox, one thread, µs", "median", "least", "p90");
    let mut lease = iris.checkout(&flower, None, InstanceSource::ByIsolation).await?;
    measure("call: iris pre-inference, warm", async || next(lease.call(&flower, StagedCall::Pre).await))
        .await?;
    measure("call: iris post-inference, warm", async || {
        answer(lease.call(&flower, StagedCall::Post(&prediction)).await)
    })
    .await?;
    lease.finish();
    measure("request, isolation = worker: lend, pre, post, finish", async || {
        serve(&iris, &flower, &prediction).await
    })
    .await?;
    measure("instantiate and drop", async || {
        fresh.checkout(&flower, None, InstanceSource::ByIsolation).await?.finish();
        Ok(())
    })
    .await?;
    measure("request, isolation = request: instantiate, pre, post, drop", async || {
        serve(&fresh, &flower, &prediction).await
    })
    .await?;

    for (plugin, isolation) in [(&iris, "worker"), (&fresh, "request")] {
        let name = format!("isolation = {isolation}, while another thread does the same");
        beside(plugin, &prediction, measure(&name, async || serve(plugin, &flower, &prediction).await))
            .await?;
    }
    measure("the same with an image handler: 150,528 bytes to FP32", async || {
        serve(&image, &pixels, &prediction).await
    })
    .await?;
    for (plugin, state) in [(&bare, "nothing"), (&table, "8 MiB"), (&large_table, "32 MiB")] {
        measure(&format!("instantiate and drop after `init` left {state}"), async || {
            plugin.checkout(&empty, None, InstanceSource::ByIsolation).await?.finish();
            Ok(())
        })
        .await?;
        measure(&format!("request, isolation = request, after `init` left {state}"), async || {
            let mut lease = plugin.checkout(&empty, None, InstanceSource::ByIsolation).await?;
            answer(lease.call(&empty, StagedCall::Pre).await)?;
            lease.finish();
            Ok(())
        })
        .await?;
    }
    let cache = tempfile::tempdir()?;
    let config = Config { cache_dir: Some(cache.path().join("cache")), ..Config::default() };
    let cached = Sandbox::new(&config, INSTANCES)?;
    let (bytes_of_iris, config) =
        (read("iris-wasm")?, handler_config("iris-wasm", Isolation::Worker, "null")?);
    let mut times = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let start = Instant::now();
        let plugin = Plugin::load(&cached, Binary::new(bytes_of_iris.clone()), config.clone()).await?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        // The time that it takes to drop it counts for no caller.
        drop(plugin);
    }
    report("load iris, compiled and in the cache, to its first instance", times);

    let mut buffer = vec![0u8; TENSOR];
    measure("602,112 bytes: plain memcpy", async || {
        black_box(&mut buffer).copy_from_slice(black_box(&bytes));
        Ok(())
    })
    .await?;
    let mut lease = iris.checkout(&flower, None, InstanceSource::ByIsolation).await?;
    measure("602,112 bytes: into the guest (iris post-inference beside it)", async || {
        answer(lease.call(&flower, StagedCall::Post(&large)).await)
    })
    .await?;
    lease.finish();
    let mut lease = echo.checkout(&large_request, None, InstanceSource::ByIsolation).await?;
    measure("602,112 bytes: into the guest and out again (echo)", async || {
        next(lease.call(&large_request, StagedCall::Pre).await)
    })
    .await?;
    lease.finish();
    Ok(())
}

/// Times `operation` in [`BATCHES`] batches and prints what one takes.
async fn measure(name: &str, mut operation: impl AsyncFnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    // The first calls fault pages in and fill caches; they also say how many make a batch.
    let warm_up = Instant::now();
    let mut calls = 0u32;
    while warm_up.elapsed() < BATCH * 4 {
        operation().await.with_context(|| name.to_owned())?;
        calls += 1;
    }
    let calls = (calls / 4).max(1);
    let mut batches = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..calls {
            operation().await.with_context(|| name.to_owned())?;
        }
        batches.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls));
    }
    report(name, batches);
    Ok(())
}

/// Awaits `measured` while another thread serves requests as fast as it can.
async fn beside(
    plugin: &Plugin,
    prediction: &[Tensor],
    measured: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let (ended, runtime) = (AtomicBool::new(false), Handle::current());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let request = request(FLOWER);
            while !ended.load(Ordering::Relaxed) {
                runtime.block_on(serve(plugin, &request, prediction))?;
            }
            anyhow::Ok(())
        });
        let measured = tokio::task::block_in_place(|| runtime.block_on(measured));
        ended.store(true, Ordering::Relaxed);
        other.join().unwrap_or_else(|_| bail!("the other thread panicked"))?;
        measured
    })
}

/// Prints what [`BATCHES`] took, in microseconds.
fn report(name: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let at = |rank: usize| times.get(rank).copied().unwrap_or(f64::NAN);
    println!("{name:<64} {:>10.2} {:>10.2} {:>10.2}", at(BATCHES / 2), at(0), at(BATCHES * 9 / 10));
}

/// Loads `target/components/NAME.wasm` with the default limits.
async fn load(sandbox: &Sandbox, name: &str, isolation: Isolation, metadata: &str) -> anyhow::Result<Plugin> {
    Ok(Plugin::load(sandbox, Binary::new(read(name)?), handler_config(name, isolation, metadata)?).await?)
}

fn read(name: &str) -> anyhow::Result<Bytes> {
    let path = component(name);
    let bytes = std::fs::read(&path).with_context(|| {
        format!(
            "cannot read `{}`\nhint: run `make build` and `scripts/build-guests.sh tests`",
            path.display()
        )
    })?;
    Ok(bytes.into())
}

fn handler_config(name: &str, isolation: Isolation, metadata: &str) -> anyhow::Result<HandlerConfig> {
    Ok(HandlerConfig {
        endpoint: name.into(),
        metadata: metadata.into(),
        env: Vec::new(),
        network: Network::default(),
        project: None,
        hidden: Arc::default(),
        limits: Limits::defaults(),
        isolation,
        reuse_instances: false,
        hides_credentials: false,
        key_headers: Arc::default(),
        response_headers: [].into(),
        kv: None,
        kv_calls: None,
        jobs: None,
        blobs: None,
        blob_calls: None,
        schema: None,
        instances: Metrics::new()?.endpoint(name).instances,
    })
}

/// One request without the model: the pipeline's use of a handler.
async fn serve(plugin: &Plugin, request: &Arc<Request>, prediction: &[Tensor]) -> anyhow::Result<()> {
    let mut lease = plugin.checkout(request, None, InstanceSource::ByIsolation).await?;
    next(lease.call(request, StagedCall::Pre).await)?;
    answer(lease.call(request, StagedCall::Post(prediction)).await)?;
    lease.finish();
    Ok(())
}

fn component(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/components").join(name).with_extension("wasm")
}

/// What a call of a handler came to.
type Called = Option<Result<Outcome<Vec<Tensor>>, host::error::RequestError>>;

/// The handler made tensors; anything else is a fault of this benchmark or the handler.
fn next(called: Called) -> anyhow::Result<()> {
    match called.context("the handler has no such function")?? {
        Outcome::Next(tensors) => {
            black_box(tensors);
            Ok(())
        }
        Outcome::Respond(response) => bail!("the handler responded with {}", response.status),
    }
}

/// The handler answered 200.
fn answer(called: Called) -> anyhow::Result<()> {
    match called.context("the handler has no such function")?? {
        Outcome::Respond(response) if response.status == 200 => {
            black_box(response.body);
            Ok(())
        }
        Outcome::Respond(response) => bail!("the handler answered {}", response.status),
        Outcome::Next(_) => bail!("the handler made tensors"),
    }
}

fn request(body: &[u8]) -> Arc<Request> {
    Arc::new(Request {
        id: "bench".into(),
        head: Box::new(PlainHead::post("/", "application/json")),
        input: Input::Body(Bytes::copy_from_slice(body), Form::Plain),
        model: None,
        arrived: Instant::now(),
        deadline: Instant::now() + Duration::from_secs(3600),
        debug: false,
        body_limit: body.len(),
        memory: host::memory::Account::default(),
    })
}

fn tensor(name: &str, datatype: Datatype, shape: Vec<u64>, data: Vec<u8>) -> anyhow::Result<Tensor> {
    Ok(Tensor::new(name.into(), datatype, shape, data.into())?)
}
