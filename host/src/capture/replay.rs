//! Runs recorded requests again, without a model.
//!
//! Place in the flow: `host replay`, offline. In: a component and [`Recording`]s, which are untrusted. Out:
//! whether the handler does the very same again, and if not, in what.
//!
//! The program of a run is the same as of a request; its plan has a log that answers every host call as
//! recorded: clocks, random bytes, headers, models, other servers. Afterwards what the handler made for
//! models and others is compared, and what it made of their answers. What the host made of a request without
//! the handler, JSON from tensors and the other way round, is taken as recorded.
//!
//! Invariants: sizes and times of a recording are cut to what a configuration may say; nothing that it names
//! is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::compare::{self, Difference, compare};
use super::exchanges;
use super::record::format::calls::{ModelCall, NamedModel, Outbound as RecordedOutbound};
use super::record::format::{FormatError, Recording, Sent, SentInput, read_tensors};
use crate::endpoint::config::Bounds;
use crate::error::{Code, RequestError, Stage};
use crate::model_access::HandlerModelCall;
use crate::pipeline::models::Models;
use crate::pipeline::plan::{HostCalls, RunPlan};
use crate::pipeline::report::RunReport;
use crate::pipeline::{Pipeline, debug};
use crate::plugin::host_call_log::{Answers, Divergence, HostCallLog, ReplayedCalls};
use crate::plugin::{Binary, HandlerConfig, Isolation, Limits, LoadError, Network, Plugin, Sandbox};
use crate::request::exchange::Client;
use crate::request::{Caller, Output, PlainHead, Request};
use crate::telemetry::metrics::Instances;
use crate::tensor::{Signature, Tensor};
use crate::text;

/// How long a call may take, unless the recorded one was cut off: the machine may be slower than the one
/// before.
const PATIENCE: Duration = Duration::from_secs(60);
/// The bounds of the settings of the same names.
const MEMORY: (usize, usize) = (64 << 10, 4 << 30);
const OUTPUT: (usize, usize) = (1 << 10, 1 << 30);
const PROJECT: u64 = 64 << 30;
const TENSORS: usize = 1 << 20;
/// The time beside its CPU time that a run has whose recording was cut off.
const SPARE: Duration = Duration::from_secs(5);

/// One component, and what it is replayed with.
pub struct Replayer {
    sandbox: Sandbox,
    component: Binary,
    project: Option<PathBuf>,
    bounds: Bounds,
    instances: Instances,
    /// As the last recording wanted it; most want the same.
    loaded: Option<Arc<Plugin>>,
    /// With what it could not be loaded last, and why: that takes as long every time.
    failed: Option<(HandlerConfig, FormatError)>,
}

/// The result of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// The recorded endpoint.
    pub endpoint: String,
    /// Whether it went as recorded.
    pub verdict: Verdict,
    /// The conditions that have changed since then: the component, its project.
    pub notes: Vec<String>,
}

/// Whether a handler did the same again.
#[derive(Debug)]
pub enum Verdict {
    /// It did.
    Same,
    /// It said something else.
    Differs(Vec<Difference>),
    /// It asked for something else, so that there is nothing to go on with.
    Diverged(Divergence),
}

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording.
    #[error("{0}")]
    Recording(FormatError),
    /// The component, with what the recording says it was given; on one line.
    #[error("the component {}", text::on_one_line(.0))]
    Component(#[from] LoadError),
}

impl ReplayError {
    /// Why the component can replay none at all.
    pub fn of_component(&self) -> Option<&LoadError> {
        match self {
            ReplayError::Component(error) if error.is_final() => Some(error),
            _ => None,
        }
    }
}

impl From<FormatError> for ReplayError {
    fn from(reason: FormatError) -> ReplayError {
        ReplayError::Recording(reason)
    }
}

impl Replayer {
    /// For a component that sees `project`, if that is some.
    pub fn new(
        sandbox: Sandbox,
        component: Binary,
        project: Option<PathBuf>,
        bounds: Bounds,
        instances: Instances,
    ) -> Replayer {
        Replayer { sandbox, component, project, bounds, instances, loaded: None, failed: None }
    }

    /// Runs one recorded request again.
    ///
    /// # Errors
    /// [`ReplayError`]: nothing is known about the handler.
    pub async fn replay(&mut self, mut recording: Recording) -> Result<Replayed, ReplayError> {
        let capabilities = recording.take_calls();
        let Recording {
            endpoint,
            handler,
            request,
            signature,
            sample,
            drawn,
            model,
            models,
            model_calls,
            outbound,
            answer,
            outcome,
            ..
        } = recording;
        let recorded = outcome.outcome()?;
        let of_handler = |stage| matches!(stage, Stage::PreInference | Stage::PostInference);
        let cut =
            recorded.as_ref().err().is_some_and(|error| is_out_of_time(error) && of_handler(error.stage));
        let config = self.config(&handler, cut)?;
        let plugin = self.load(config).await?;
        if plugin.is_concurrent() {
            let reason = "is not for this component: no recording holds the order in which the tasks of \
                          `wasi:http` 0.3 go on";
            return Err(reason.to_owned().into());
        }

        let notes = notes(&plugin, &handler);
        let verdict = |verdict| Ok(Replayed { endpoint, verdict, notes });
        let functions: Vec<&str> = plugin.stages().functions().collect();
        if handler.functions != functions {
            let shown = |functions: &[&str]| format!("`{}`", functions.join("`, `"));
            // Tensors that the contract does not name belong to no side.
            let known = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            let then: Vec<&str> = handler.functions.iter().map(String::as_str).filter(known).collect();
            let change = format!("{} became {}", shown(&then), shown(&functions));
            return verdict(Verdict::Differs(vec![Difference { place: "functions".to_owned(), change }]));
        }

        let tensors = |tensors: Option<Vec<_>>| tensors.map(read_tensors).transpose();
        let (inputs, outputs) = match model {
            Some(model) => (Some(read_tensors(model.inputs)?), tensors(model.outputs)?),
            None => (None, None),
        };
        let called = |function| drawn.calls.iter().any(|call| call.function == function);
        let prepared = called("pre-inference") || called("pre-inference-tensors");
        let application = plugin.stages().application;
        if recorded.is_ok() && outputs.is_none() && (inputs.is_some() || !prepared) && application.is_none() {
            return Err("holds an answer, and nothing of what came before it".to_owned().into());
        }
        let run = Run {
            function: drawn.calls.get(1).map(|call| call.function.clone()).unwrap_or_default(),
            answered: called("post-inference") || called("post-inference-tensors"),
            failed: outputs.is_none(),
            prepared,
            inputs: inputs.clone(),
            answer: tensors(answer)?,
            bounds: &self.bounds,
        };
        let answers = Answers {
            signature: signature.map(|signature| signature.signature()).transpose()?.map(Arc::new),
            // What the host made of a body is taken as recorded: for the handler, or without one for the
            // model.
            sample: tensors(sample)?.or(inputs.filter(|_| !prepared)),
            outputs,
            models: models.into_iter().map(named).collect::<Result<_, _>>()?,
            model_calls: model_calls.into_iter().map(ModelCall::call).collect::<Result<_, _>>()?,
            outbound: outbound.into_iter().map(RecordedOutbound::call).collect::<Result<_, _>>()?,
            capabilities,
        };
        let pipeline = Pipeline {
            plugin: Some(plugin),
            models: Models::default(),
            schema: None,
            raw_body: None,
            bare_tensors: !called("pre-inference"),
            batches: None,
        };
        let log = Arc::new(HostCallLog::replay(drawn, cut, answers));
        let plan = RunPlan { calls: HostCalls::Replay(log.clone()), ..RunPlan::isolated() };
        let time = if cut { milliseconds(handler.pre_timeout_ms) + SPARE } else { 3 * PATIENCE };
        let deadline = Instant::now() + time;
        let (request, client) = match application {
            Some(_) => exchange(request, deadline)?,
            None => (replayed(request, Instant::now() + 3 * PATIENCE)?, None),
        };
        let request = Arc::new(request);
        let mut report = RunReport::begin(request.arrived, &plan);
        let outcome = exchanges::run(&pipeline, &request, client, deadline, &plan, &mut report).await;
        log.settle().await;
        let ended = run.asked(&log).and_then(|()| match log.divergence() {
            Some(divergence) => Err(divergence),
            None => run.differences(&log, &recorded, outcome),
        });
        verdict(match ended {
            Ok(none) if none.is_empty() => Verdict::Same,
            Ok(differences) => Verdict::Differs(differences),
            Err(divergence) => Verdict::Diverged(divergence),
        })
    }

    fn config(
        &self,
        handler: &super::record::format::Handler,
        cut: bool,
    ) -> Result<HandlerConfig, FormatError> {
        let time = |of| if cut { milliseconds(of) } else { PATIENCE };
        let network =
            [Network::None, Network::Stub].into_iter().find(|known| known.name() == handler.network);
        Ok(HandlerConfig {
            endpoint: "replay".into(),
            metadata: handler.metadata.get().into(),
            network: network.ok_or("has a `network` that this host does not know")?,
            env: Vec::new(),
            project: self.project.clone(),
            hidden: Arc::default(),
            limits: Limits {
                memory: handler.memory.clamp(MEMORY.0, MEMORY.1),
                output: handler.output.clamp(OUTPUT.0, OUTPUT.1),
                pre_timeout: time(handler.pre_timeout_ms),
                post_timeout: time(handler.post_timeout_ms),
                init_timeout: PATIENCE,
                wall_timeout: None,
                project: PROJECT,
                stream_timeout: PATIENCE,
                background_timeout: PATIENCE,
                tensors: handler.tensors.min(TENSORS),
                tensor_memory: handler.tensor_memory.min(MEMORY.1),
                model_runs: handler.model_runs,
                weight: 1,
            },
            isolation: Isolation::Request,
            reuse_instances: false,
            hides_credentials: false,
            key_headers: Arc::default(),
            response_headers: handler.response_headers.clone().into(),
            grants: handler.grants(self.sandbox.stores()),
            schema: None,
            instances: self.instances.clone(),
        })
    }

    async fn load(&mut self, config: HandlerConfig) -> Result<Arc<Plugin>, ReplayError> {
        if let Some(plugin) = self.loaded.as_ref().filter(|plugin| alike(plugin.config(), &config)) {
            return Ok(plugin.clone());
        }
        if let Some((_, reason)) = self.failed.as_ref().filter(|(failed, _)| alike(failed, &config)) {
            return Err(reason.clone().into());
        }
        match Plugin::load(&self.sandbox, self.component.clone(), config.clone()).await {
            Ok(plugin) => Ok(self.loaded.insert(Arc::new(plugin)).clone()),
            Err(error) => {
                let error = ReplayError::Component(error);
                self.failed = Some((config, error.to_string()));
                Err(error)
            }
        }
    }
}

/// Whether what a recording says that the component was given is the same.
fn alike(one: &HandlerConfig, other: &HandlerConfig) -> bool {
    one.metadata == other.metadata
        && (one.network, &one.limits) == (other.network, &other.limits)
        && one.response_headers == other.response_headers
        && one.grants.are_like(&other.grants)
}

fn notes(plugin: &Plugin, handler: &super::record::format::Handler) -> Vec<String> {
    let mut notes = Vec::new();
    if handler.digest != **plugin.digest() {
        notes.push("another component than the recorded one".to_owned());
    }
    match (&handler.project, plugin.project_digest()) {
        (Some(_), None) => {
            notes.push("the recorded handler saw project files; give them with `--project`".to_owned())
        }
        (Some(then), Some(now)) if then != now => {
            notes.push("other project files than the recorded ones".to_owned())
        }
        (None, Some(_)) => notes.push("the recorded handler saw no project files".to_owned()),
        _ => {}
    }
    notes
}

/// The result of a recorded run.
struct Run<'a> {
    /// The function that was called first.
    function: String,
    /// Whether the handler made the answer.
    answered: bool,
    /// Whether the model failed, or was not asked.
    failed: bool,
    /// Whether the handler made the model's inputs.
    prepared: bool,
    /// The inputs of the model.
    inputs: Option<Vec<Tensor>>,
    /// The tensors of its answer.
    answer: Option<Vec<Tensor>>,
    bounds: &'a Bounds,
}

type Handled = Result<Output, RequestError>;

impl Run<'_> {
    /// The differences from `recorded`.
    ///
    /// # Errors
    /// The handler wants something else of the model than was recorded.
    fn differences(
        &self,
        log: &HostCallLog,
        recorded: &Handled,
        replayed: Handled,
    ) -> Result<Vec<Difference>, Divergence> {
        let Some(call) = log.model_call() else { return Ok(self.judged(recorded, &replayed)) };
        if self.prepared {
            self.wanted(recorded, call.inputs)?;
        }
        // The model failed, or no function of the handler came after it: the rest is no handler's.
        if self.failed || !self.answered {
            return Ok(Vec::new());
        }
        Ok(match (log.answer().map(|tensors| Ok(Output::Tensors(tensors))), &self.answer) {
            (Some(now), Some(then)) => compare(&Ok(Output::Tensors(then.clone())), &now, self.bounds),
            (Some(now), None) => self.judged(recorded, &now),
            (None, _) => self.judged(recorded, &replayed),
        })
    }

    /// Compares what the handler has asked of models and sent to others by itself.
    ///
    /// # Errors
    /// The first call that is another.
    fn asked(&self, log: &HostCallLog) -> Result<(), Divergence> {
        let diverged = |what: String, differences: &[Difference]| {
            let shown: Vec<String> = differences.iter().map(Difference::to_string).collect();
            let what = format!("{what}: {}", shown.join("; "));
            Err(Divergence { function: self.function.clone(), what })
        };
        let ReplayedCalls { model_calls, outbound } = log.replayed();
        for (now, then) in model_calls {
            let tensors = |call: HandlerModelCall| Ok(Output::Tensors(call.inputs));
            let model = debug::cut(&now.model, 64);
            let differences = compare(&tensors(then), &tensors(now), self.bounds);
            if !differences.is_empty() {
                return diverged(format!("asks the model `{model}` something else"), &differences);
            }
        }
        for (now, then) in outbound {
            let differences = compare::outbound::one(&then, &now, self.bounds);
            if !differences.is_empty() {
                let shown = debug::cut(&now.shown(), 120);
                return diverged(format!("sends something else in `{shown}`"), &differences);
            }
        }
        Ok(())
    }

    /// Compares what the handler wants of the model.
    fn wanted(&self, recorded: &Handled, inputs: Vec<Tensor>) -> Result<(), Divergence> {
        let inputs = Ok(Output::Tensors(inputs));
        let differences = match &self.inputs {
            Some(then) => compare(&Ok(Output::Tensors(then.clone())), &inputs, self.bounds),
            None => compare(recorded, &inputs, self.bounds),
        };
        let shown: Vec<String> = differences.iter().map(Difference::to_string).collect();
        if shown.is_empty() {
            return Ok(());
        }
        let what =
            format!("makes other tensors, to which the model's answer is not known: {}", shown.join("; "));
        Err(Divergence { function: self.function.clone(), what })
    }

    /// Compares the end.
    fn judged(&self, recorded: &Handled, replayed: &Handled) -> Vec<Difference> {
        if let (Err(old), Err(new)) = (recorded, replayed) {
            if is_out_of_time(old) && is_out_of_time(new) && old.stage == new.stage {
                return Vec::new();
            }
            // The words are the handler's, and all that the caller gets.
            if old.code == Code::InvalidInput && new.code == old.code && old.message != new.message {
                let change =
                    format!("{:?} became {:?}", debug::cut(&old.message, 200), debug::cut(&new.message, 200));
                return vec![Difference { place: "error".to_owned(), change }];
            }
        }
        compare(recorded, replayed, self.bounds)
    }
}

fn is_out_of_time(error: &RequestError) -> bool {
    matches!(error.code, Code::PluginTimeout | Code::RequestTimeout)
}

/// A limit of a recording that was cut off.
fn milliseconds(of: u64) -> Duration {
    Duration::from_millis(of).clamp(Duration::from_millis(1), PATIENCE)
}

fn named(model: NamedModel) -> Result<(Arc<str>, Arc<Signature>), FormatError> {
    Ok((model.name.into(), Arc::new(model.signature.signature()?)))
}

/// As an application is to see it.
fn exchange(sent: Sent, deadline: Instant) -> Result<(Request, Option<Client>), FormatError> {
    let SentInput::Body(body) = sent.input else {
        return Err("holds tensors, which no application gets".to_owned());
    };
    let mut headers = sent.headers;
    if headers.is_empty() && !sent.content_type.is_empty() {
        headers.push(("content-type".to_owned(), sent.content_type));
    }
    let head = PlainHead { method: sent.method, path: sent.path, query: sent.query, headers };
    let limit = sent.body_limit.clamp(OUTPUT.0, OUTPUT.1);
    let (request, client) = exchanges::made(head, body.bytes(), sent.secure, &sent.id, deadline, limit);
    Ok((request, Some(client)))
}

/// As the handler is to see it.
fn replayed(sent: Sent, deadline: Instant) -> Result<Request, FormatError> {
    Ok(Request {
        id: sent.id.into(),
        trace: None,
        caller: Caller::Client,
        body_limit: sent.body_limit.clamp(OUTPUT.0, OUTPUT.1),
        memory: Default::default(),
        input: sent.input.input()?,
        // What a handler asks of other headers is answered by the log.
        head: Box::new(PlainHead {
            method: sent.method,
            path: sent.path,
            query: sent.query,
            headers: vec![("content-type".to_owned(), sent.content_type)],
        }),
        model: None,
        arrived: Instant::now(),
        deadline,
        debug: false,
    })
}
