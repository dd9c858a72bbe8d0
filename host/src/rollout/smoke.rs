//! The smoke test: the example of the input schema, sent through handler and model before a generation
//! serves.
//!
//! Place in the flow: at the start, before a new handler or model is published, and in `host check`.
//! In:   a pipeline that is not published yet. Out: how long the answers took, or the first one that was
//!       none.
//!
//! The example is sent as a JSON body, or as the file that it is, and as tensors too if the handler takes
//! those. A response of status 400 and above is a failure. Without an example, and while the model that
//! requests go to by themselves is not loaded, nothing is sent.
//! Invariant: it counts as no client's request. It is an [isolated](RunPlan::isolated) run, on an instance
//! that no request gets after, and no metric of requests counts it; in the log its id is [`ID`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::deployment::Deployment;
use super::error::DeployError;
use crate::endpoint::config::EndpointConfig;
use crate::error::{RequestError, Stage};
use crate::pipeline::Pipeline;
use crate::pipeline::debug;
use crate::pipeline::plan::RunPlan;
use crate::pipeline::report::RunReport;
use crate::request::{Caller, Form, Input, Output, PlainHead, Request, TensorInput};
use crate::schema::check;

/// The request id in the log, and in what the handler is told.
pub const ID: &str = "smoke-test";

/// An example that was answered.
#[derive(Debug)]
pub struct Passed {
    /// The form in which it was sent: `body` or `tensors`.
    pub form: &'static str,
    /// From the sending to the answer.
    pub took: Duration,
    /// How long each stage took, in the order of the flow.
    pub stages: Vec<(Stage, Duration)>,
}

impl Deployment {
    /// Sends the example to the current generation. Empty if there was nothing to send.
    ///
    /// # Errors
    /// [`DeployError::Smoke`].
    pub async fn smoke(&self) -> Result<Vec<Passed>, DeployError> {
        run(&self.config, &self.current().pipeline).await
    }
}

/// Sends the example through `pipeline`.
pub(super) async fn run(config: &EndpointConfig, pipeline: &Pipeline) -> Result<Vec<Passed>, DeployError> {
    let example = pipeline.schema.as_ref().and_then(|schema| Some((schema, schema.example()?)));
    let unloaded = pipeline.models.0.first().is_some_and(|named| named.handle.is_none());
    let is_sent = !unloaded && !pipeline.is_application();
    if let Some(example) =
        pipeline.raw_body.as_ref().and_then(|raw_body| raw_body.example.as_ref()).filter(|_| is_sent)
    {
        let input = Input::Body(example.body.clone(), Form::Plain);
        return Ok(vec![
            tried(config, pipeline, &example.media_type, ("body", input), "the example's file").await?,
        ]);
    }
    let Some((schema, example)) = example.filter(|_| is_sent) else { return Ok(Vec::new()) };
    let body = bytes::Bytes::from(example.to_string());
    let mut inputs = vec![("body", Input::Body(body.clone(), Form::Plain))];
    // The example fits, or the schema would not serve.
    if pipeline.plugin.as_ref().is_some_and(|plugin| plugin.stages().pre_tensors)
        && let Ok(tensors) = check::body_tensors(schema, &body)
    {
        inputs.push(("tensors", Input::Tensors(TensorInput::new(tensors, None))));
    }
    let mut passed = Vec::new();
    for input in inputs {
        passed.push(tried(config, pipeline, "application/json", input, &debug::text(&body)).await?);
    }
    Ok(passed)
}

/// Sends an example in one form; `shown` is the example, for an error.
async fn tried(
    config: &EndpointConfig,
    pipeline: &Pipeline,
    media_type: &str,
    (form, input): (&'static str, Input),
    shown: &str,
) -> Result<Passed, DeployError> {
    let sent = send(config, pipeline, media_type, form, input).await;
    let one = sent.map_err(|reason| DeployError::Smoke {
        endpoint: config.name.clone(),
        reason: format!("sent as {form} ({shown}): {reason}"),
    })?;
    tracing::info!(endpoint = %config.name, request.id = ID, form, duration_us = one.took.as_micros(),
        "smoke test: the example is answered");
    Ok(one)
}

async fn send(
    config: &EndpointConfig,
    pipeline: &Pipeline,
    media_type: &str,
    form: &'static str,
    input: Input,
) -> Result<Passed, String> {
    let arrived = Instant::now();
    let request = Arc::new(Request {
        id: ID.into(),
        trace: None,
        caller: Caller::Client,
        head: Box::new(PlainHead::post(&config.path, media_type)),
        input,
        model: None,
        arrived,
        deadline: arrived + config.limits.request_timeout,
        debug: false,
        body_limit: config.limits.body,
        memory: crate::memory::Account::default(),
    });
    let plan = RunPlan::isolated();
    let mut report = RunReport::unqueued(arrived, &plan);
    let outcome = pipeline.run(&request, &plan, &mut report).await;
    match outcome.map_err(RequestError::from) {
        Ok(Output::Response(response)) if response.status >= 400 => {
            Err(format!("status {} {}", response.status, debug::text(&response.body)))
        }
        Ok(_) => Ok(Passed { form, took: report.elapsed(), stages: report.durations().collect() }),
        Err(error) => Err(reason(&error)),
    }
}

/// On one line: a handler's own words may have several.
fn reason(error: &RequestError) -> String {
    let detail = error.detail.as_deref().and_then(|detail| detail.lines().next());
    let detail = detail.map(|detail| format!(" ({})", debug::text(detail.as_bytes()))).unwrap_or_default();
    format!("{} in {}: {error}{detail}", error.code.name(), error.stage)
}
