//! The server of `host dev`: endpoints whose handlers are being written.
//!
//! Place in the flow: `commands/dev.rs` builds a project and tells each outcome here.
//! In: a [`Build`]. Out: what it has made is served, or the error is shown beside what there was.
//! Invariant: a build that fails changes no answer of an endpoint but for a header that tells of the error.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::reload::Read;
use super::{App, Config};
use crate::rollout::history::Origin;
use crate::server::Served;
use crate::server::development::Development;

/// The outcome of building the project.
pub struct Build {
    /// The handler does not build: why.
    pub error: Option<String>,
    /// Told when requests see the outcome: the build's error, or that of loading what it has made.
    pub served: oneshot::Sender<Result<(), String>>,
}

impl App {
    /// Opens the sockets; requests are told that there is no handler until one is built.
    ///
    /// # Errors
    /// As [`App::build`], but for models and handlers.
    pub async fn develop(config: Config) -> anyhow::Result<App> {
        App::open(config, Some(Development::default())).await
    }

    /// Serves the outcome of a build.
    pub(super) async fn built(&mut self, build: Build, read: &impl Read) {
        let outcome = match build.error {
            None => self.load_built(read).await,
            Some(error) => {
                // The component of an earlier build, if there is one.
                if self.served.endpoints.is_empty() && read(None).is_ok_and(|config| is_complete(&config)) {
                    let _ = self.load_built(read).await;
                }
                Err(error)
            }
        };
        self.show(outcome.as_ref().err().map(|error| error.as_str().into()));
        // The builder may have ended.
        let _ = build.served.send(outcome);
    }

    async fn load_built(&mut self, read: &impl Read) -> Result<(), String> {
        let config = read(None).inspect_err(|error| tracing::error!("{error}"))?;
        self.reload(config, Origin::Dev).await
    }

    /// Shows the error of the last build, or that there is none.
    fn show(&mut self, error: Option<Arc<str>>) {
        let before = self.served.development.clone().unwrap_or_default();
        let builds = before.builds + u64::from(error.is_none());
        let next = Served { development: Some(Development { builds, error }), ..Served::clone(&self.served) };
        self.served = Arc::new(next);
        if self.served.endpoints.is_empty() {
            self.listeners.load(&self.served);
        } else if let Err(error) = self.listeners.take_over(&self.served) {
            tracing::error!("{error:#}");
        }
    }
}

/// Whether every handler has a component.
fn is_complete(config: &Config) -> bool {
    config.endpoints.iter().all(|endpoint| endpoint.plugin.as_ref().is_none_or(|plugin| plugin.is_file()))
}
