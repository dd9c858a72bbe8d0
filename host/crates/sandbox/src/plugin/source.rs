//! What a handler is loaded from, and its first form: compiled and checked.
//!
//! Place in the flow: [`super::Plugin::load`] makes a [`Source`]; what has no `init` is compiled here as it
//! is, the rest goes through [`super::init`]. In: a component's bytes and the endpoint's config. Out: what
//! instances are made from.
//! Invariant: nothing of the guest runs here.

use std::sync::Arc;

use super::binary::Binary;
use super::compiled::Compiled;
use super::compiler::TooCostly;
use super::component::LoadedComponent;
use super::deadline::LongCallTracker;
use super::engine::Sandbox;
use super::exports::Indices;
use super::grants::{self, Granted};
use super::handler_context::HandlerContext;
use super::headers::LeftOut;
use super::load_error::LoadError;
use super::outline::Outline;
use super::project::ProjectView;
use super::runtime::Runtime;
use super::settings::HandlerConfig;
use crate::throttle::Throttle;

/// The source that a handler is loaded from.
#[derive(Clone)]
pub(super) struct Source {
    sandbox: Sandbox,
    /// The engine that runs it.
    pub(super) runtime: Arc<Runtime>,
    pub(super) binary: Binary,
    pub(super) config: HandlerConfig,
    /// The copy of the project.
    pub(super) project: Option<Arc<ProjectView>>,
    /// Whether the component has `init`.
    pub(super) has_init: bool,
    /// The component's exports and imports.
    outline: Arc<Outline>,
}

impl Source {
    /// Checks what can be checked without compiling, and copies the project.
    pub(super) fn new(sandbox: Sandbox, binary: Binary, config: HandlerConfig) -> Result<Source, LoadError> {
        let outline = outline(&binary)?;
        grants::check(&outline, Granted::to(&config))?;
        let runtime = sandbox.runtime(&outline).map_err(|error| LoadError::Start(error.to_string()))?;
        let has_init = outline.has_init();
        let project = config
            .project
            .as_deref()
            .map(|project| ProjectView::copy(project, &config.hidden, config.limits.project))
            .transpose()?
            .map(Arc::new);
        let outline = Arc::new(outline);
        Ok(Source { sandbox, runtime, binary, config, project, has_init, outline })
    }

    /// The form of `compiled` that instances are made from: the binary as it is, or another form of it.
    pub(super) fn loaded(&self, compiled: Arc<Compiled>) -> Result<LoadedComponent, LoadError> {
        let (pre, exports) = grants::link(&compiled, &self.runtime, Granted::to(&self.config))
            .and_then(|pre| Indices::find(&compiled.component, &pre).map(|exports| (pre, exports)))
            .map_err(|error| error.or_later(&self.outline))?;
        if !exports.stages().any() {
            return Err(LoadError::NoHandler);
        }
        let context = HandlerContext {
            config: self.config.clone(),
            project: self.project.clone(),
            stages: exports.stages(),
            uses: self.outline.uses(),
            long_calls: LongCallTracker::new(self.config.limits.weight),
            refused_memory: Throttle::default(),
            scheduler: self.sandbox.scheduler.clone(),
            handles: self.sandbox.handles,
            holding: self.sandbox.pool.holding(),
            left_out: LeftOut::default(),
        };
        Ok(LoadedComponent {
            pre,
            exports,
            context: Arc::new(context),
            init_in_each: false,
            _compiled: compiled,
        })
    }

    /// The same of the binary as it is.
    pub(super) async fn original(self) -> Result<LoadedComponent, LoadError> {
        blocking(move || self.loaded(compile(&self.runtime, &self.binary)?)).await
    }
}

/// Loads on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    load: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    let loaded = tokio::task::spawn_blocking(load).await;
    loaded.map_err(|error| LoadError::Start(error.to_string()))?
}

/// The exports and imports of a component. Other kinds of file are told apart first: the compiler's own words
/// for them are no help.
pub(super) fn outline(binary: &Binary) -> Result<Outline, LoadError> {
    const MAGIC: &[u8] = b"\0asm";
    const CORE_VERSION: &[u8] = &[1, 0, 0, 0];
    match binary.bytes().strip_prefix(MAGIC) {
        None => Err(LoadError::NotWasm),
        Some(rest) if rest.starts_with(CORE_VERSION) => Err(LoadError::CoreModule),
        Some(_) => Ok(Outline::of(binary.bytes())),
    }
}

/// Compiles a component, or takes it from the cache.
pub(super) fn compile(runtime: &Runtime, binary: &Binary) -> Result<Arc<Compiled>, LoadError> {
    runtime.component(binary).map_err(|error| match error.downcast_ref::<TooCostly>() {
        Some(costly) => LoadError::TooCostly(costly.to_string()),
        None => LoadError::Compile(format!("{error:#}")),
    })
}
