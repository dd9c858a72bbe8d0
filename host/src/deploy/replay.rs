//! Runs recorded requests again, without a model.
//!
//! Place in the flow: `host replay`, offline. In: a component and [`Recording`]s, which anybody may have made. Out: whether the
//! handler does the very same again, and if not, in what.
//!
//! The handler is called as it was then, on a fresh instance, with the recorded clocks, random bytes and headers. What it
//! makes for the model is compared; the model's recorded answer goes to `post-inference`; what comes of that is compared.
//! What the host made of a request without the handler, JSON from tensors and the other way round, is taken as recorded.
//!
//! Invariants: sizes and times of a recording are cut to what a configuration may say; nothing that it names is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::compare::{Bounds, Difference, compare};
use super::record::format::{Flaw, Recording, Sent, read_tensors};
use crate::error::{Code, RequestError, Stage};
use crate::pipeline::{debug, respond, verify};
use crate::plugin::tape::{Divergence, Tape};
use crate::plugin::{Binary, Facts, Isolation, Lease, Limits, LoadError, Network, Outcome, Plugin, Sandbox};
use crate::request::{Output, PlainHead, Request};
use crate::telemetry::metrics::Instances;
use crate::tensor::{Signature, Tensor};
use crate::text;

/// How long a call may take, unless the recorded one was cut off: the machine may be slower than the one before.
const PATIENCE: Duration = Duration::from_secs(60);
/// The bounds of the settings of the same names.
const MEMORY: (usize, usize) = (64 << 10, 4 << 30);
const OUTPUT: (usize, usize) = (1 << 10, 1 << 30);
const PROJECT: u64 = 64 << 30;

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
    failed: Option<(Facts, Flaw)>,
}

/// What a replay came to.
#[derive(Debug)]
pub struct Replayed {
    /// The recorded endpoint.
    pub endpoint: String,
    /// Whether it went as recorded.
    pub verdict: Verdict,
    /// What is not as it was then: the component, its project.
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
    Recording(Flaw),
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

impl From<Flaw> for ReplayError {
    fn from(flaw: Flaw) -> ReplayError {
        ReplayError::Recording(flaw)
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
    pub async fn replay(&mut self, recording: Recording) -> Result<Replayed, ReplayError> {
        let Recording {
            endpoint, handler, request, signature, sample, drawn, model, answer, outcome, ..
        } = recording;
        let recorded = outcome.outcome()?;
        let of_handler = |stage| matches!(stage, Stage::PreInference | Stage::PostInference);
        let cut =
            recorded.as_ref().err().is_some_and(|error| is_out_of_time(error) && of_handler(error.stage));
        let facts = self.facts(&handler, cut)?;
        let plugin = self.load(facts).await?;

        let notes = notes(&plugin, &handler);
        let verdict = |verdict| Ok(Replayed { endpoint, verdict, notes });
        let functions: Vec<&str> = plugin.stages().functions().collect();
        if handler.functions != functions {
            let shown = |functions: &[&str]| format!("`{}`", functions.join("`, `"));
            // Others than the contract's are nobody's.
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
        let asked = drawn.calls.iter().any(|call| call.function.starts_with("pre-inference"));
        if recorded.is_ok() && outputs.is_none() && (inputs.is_some() || !asked) {
            return Err("holds an answer, and nothing of what came before it".to_owned().into());
        }
        let run = Run {
            called: drawn.calls.iter().map(|call| call.function.clone()).collect(),
            tape: Arc::new(Tape::recorded(drawn, cut)),
            request: Arc::new(replayed(request)?),
            signature: signature.map(|signature| signature.signature()).transpose()?.map(Arc::new),
            sample: tensors(sample)?,
            inputs,
            outputs,
            answer: tensors(answer)?,
            bounds: &self.bounds,
        };
        let differences = run.differences(&plugin, &recorded).await;
        verdict(match run.tape.divergence() {
            Some(divergence) => Verdict::Diverged(divergence),
            None => match differences {
                Ok(none) if none.is_empty() => Verdict::Same,
                Ok(differences) => Verdict::Differs(differences),
                Err(divergence) => Verdict::Diverged(divergence),
            },
        })
    }

    fn facts(&self, handler: &super::record::format::Handler, cut: bool) -> Result<Facts, Flaw> {
        let time = |milliseconds| match cut {
            true => Duration::from_millis(milliseconds).clamp(Duration::from_millis(1), PATIENCE),
            false => PATIENCE,
        };
        let network =
            [Network::None, Network::Stub].into_iter().find(|known| known.name() == handler.network);
        Ok(Facts {
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
            },
            isolation: Isolation::Request,
            hides_credentials: false,
            response_headers: handler.response_headers.clone().into(),
            schema: None,
            instances: self.instances.clone(),
        })
    }

    async fn load(&mut self, facts: Facts) -> Result<Arc<Plugin>, ReplayError> {
        if let Some(plugin) = self.loaded.as_ref().filter(|plugin| alike(plugin.facts(), &facts)) {
            return Ok(plugin.clone());
        }
        if let Some((_, flaw)) = self.failed.as_ref().filter(|(failed, _)| alike(failed, &facts)) {
            return Err(flaw.clone().into());
        }
        match Plugin::load(&self.sandbox, self.component.clone(), facts.clone()).await {
            Ok(plugin) => Ok(self.loaded.insert(Arc::new(plugin)).clone()),
            Err(error) => {
                let error = ReplayError::Component(error);
                self.failed = Some((facts, error.to_string()));
                Err(error)
            }
        }
    }
}

/// Whether what a recording says that the component was given is the same.
fn alike(one: &Facts, other: &Facts) -> bool {
    one.metadata == other.metadata
        && one.network == other.network
        && one.response_headers == other.response_headers
        && one.limits == other.limits
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

/// One request on its way again.
struct Run<'a> {
    /// The functions that were called.
    called: Vec<String>,
    tape: Arc<Tape>,
    request: Arc<Request>,
    signature: Option<Arc<Signature>>,
    sample: Option<Vec<Tensor>>,
    /// What the model got.
    inputs: Option<Vec<Tensor>>,
    /// What it answered.
    outputs: Option<Vec<Tensor>>,
    answer: Option<Vec<Tensor>>,
    bounds: &'a Bounds,
}

type Handled = Result<Output, RequestError>;

impl Run<'_> {
    fn called(&self, function: &str) -> bool {
        self.called.iter().any(|called| called == function)
    }

    /// What is not as `recorded`.
    ///
    /// # Errors
    /// The handler wants something else of the model than was recorded.
    async fn differences(&self, plugin: &Plugin, recorded: &Handled) -> Result<Vec<Difference>, Divergence> {
        let lent = plugin.lend_taped(&self.request, self.signature.as_ref(), &self.tape).await;
        let mut lease = match lent {
            Ok(lease) => lease,
            Err(error) => return Ok(self.judged(recorded, &Err(error))),
        };
        match self.pre_inference(&mut lease).await {
            None => {}
            Some(Ok(Outcome::Next(inputs))) => self.wanted(recorded, inputs)?,
            Some(Ok(Outcome::Respond(response))) => {
                return Ok(self.judged(recorded, &Ok(Output::Response(response))));
            }
            Some(Err(error)) => return Ok(self.judged(recorded, &Err(error))),
        }
        // The model failed, or took too long: the rest is no handler's.
        let Some(outputs) = &self.outputs else { return Ok(Vec::new()) };
        if self.called("post-inference") {
            let response =
                lease.post_inference(&self.request, outputs).await.unwrap_or_else(|| Err(not_called()));
            let response = response.and_then(|response| respond::checked(response, Stage::PostInference));
            return Ok(self.judged(recorded, &response.map(Output::Response)));
        }
        if self.called("post-inference-tensors") {
            let made = lease.post_inference_tensors(&self.request, outputs).await;
            return Ok(match made.unwrap_or_else(|| Err(not_called())) {
                Ok(Outcome::Next(tensors)) => match &self.answer {
                    Some(answer) => compare(
                        &Ok(Output::Tensors(answer.clone())),
                        &Ok(Output::Tensors(tensors)),
                        self.bounds,
                    ),
                    None => self.judged(recorded, &Ok(Output::Tensors(tensors))),
                },
                Ok(Outcome::Respond(response)) => {
                    let response = respond::checked(response, Stage::PostInference);
                    self.judged(recorded, &response.map(Output::Response))
                }
                Err(error) => self.judged(recorded, &Err(error)),
            });
        }
        Ok(Vec::new())
    }

    /// The handler's part before the model; `None` if it has none.
    async fn pre_inference(
        &self,
        lease: &mut Lease<'_>,
    ) -> Option<Result<Outcome<Vec<Tensor>>, RequestError>> {
        const STAGE: Stage = Stage::PreInference;
        let made = if self.called("pre-inference") {
            lease.pre_inference(&self.request).await?
        } else if self.called("pre-inference-tensors") {
            let brought = match &self.request.input {
                crate::request::Input::Tensors(input) => input.tensors.as_slice(),
                crate::request::Input::Body(..) => &[],
            };
            lease.pre_inference_tensors(&self.request, self.sample.as_deref().unwrap_or(brought)).await?
        } else {
            return None;
        };
        Some(match made {
            Ok(Outcome::Respond(response)) => respond::checked(response, STAGE).map(Outcome::Respond),
            Ok(Outcome::Next(tensors)) => match &self.signature {
                Some(signature) => verify::inputs(tensors, signature)
                    .map(Outcome::Next)
                    .map_err(|message| RequestError::new(Code::PluginBadOutput, STAGE, message)),
                None => Ok(Outcome::Next(tensors)),
            },
            Err(error) => Err(error),
        })
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
        Err(Divergence { function: self.called.get(1).cloned().unwrap_or_default(), what })
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

/// Never seen: the component has the functions that the recorded one had.
fn not_called() -> RequestError {
    RequestError::new(Code::Internal, Stage::PostInference, "the handler lacks a function that was called")
}

/// As the handler is to see it.
fn replayed(sent: Sent) -> Result<Request, Flaw> {
    let arrived = Instant::now();
    Ok(Request {
        id: sent.id.into(),
        body_limit: sent.body_limit.clamp(OUTPUT.0, OUTPUT.1),
        input: sent.input.input()?,
        // What a handler asks of other headers is answered by the tape.
        head: Box::new(PlainHead {
            method: sent.method,
            path: sent.path,
            query: sent.query,
            headers: vec![("content-type".to_owned(), sent.content_type)],
        }),
        model: None,
        arrived,
        deadline: arrived + 3 * PATIENCE,
        debug: false,
    })
}
