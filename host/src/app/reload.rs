//! Another configuration in place of the one that is served, while it serves.
//!
//! Place in the flow: `app.rs` takes orders one after the other, of a signal, the admin listener or the watch
//! of the files, and has them carried out here.
//! In: an order, and how to read the configuration. Out: other endpoints are served, and what the order came
//! to is noted.
//! Invariants: a configuration is taken as a whole or not at all; endpoints that are the same in it are not
//! touched, unless the order says that they take handler and models anew; one that was refused changes
//! nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::registry::Changes;
use super::{App, Config, ReloadReason};
use crate::blocking;
use crate::file::replacement::{self, Replacement};
use crate::rollout::deploy_request::DeployRequest;
use crate::rollout::deployment::Deployment;
use crate::rollout::history::Origin;
use crate::server::configuration::{
    Changed, ConfigAttempt, ConfigOrder, ConfigOutcome, ConfigSource, Plan, Settings,
};
use crate::telemetry::metrics::ReloadOutcome;
use crate::text::{cut, listed, on_one_line};
use crate::time::{milliseconds, unix_seconds};

/// How to read the configuration: with this text in place of the config file's, if there is one.
pub(super) trait Read: Fn(Option<&str>) -> Result<Config, String> {}
impl<F: Fn(Option<&str>) -> Result<Config, String>> Read for F {}

/// Why an order was not carried out: the step, and what was wrong.
type Refusal = (&'static str, String);

impl App {
    pub(super) async fn take(&mut self, change: ReloadReason, read: &impl Read) {
        match change {
            ReloadReason::Built(build) => self.built(build, read).await,
            ReloadReason::Reload => {
                let order = ConfigOrder { reload: true, ..ConfigOrder::by(Origin::Signal) };
                tracing::info!("reloading: configuration, handlers and models as their files are now");
                self.configure(order, read).await;
            }
            ReloadReason::Order(order) => self.configure(order, read).await,
        }
    }

    /// Carries an order out, and tells what it came to.
    async fn configure(&mut self, mut order: ConfigOrder, read: &impl Read) {
        let started = Instant::now();
        let answer = order.answer.take();
        let mut attempt = ConfigAttempt {
            at: 0,
            origin: order.origin,
            by: order.by.clone(),
            note: order.note.clone(),
            outcome: ConfigOutcome::Refused,
            digest: None,
            plan: Plan::default(),
            step: None,
            error: None,
            duration_ms: 0,
        };
        if let Err((step, error)) = self.carry_out(&order, read, &mut attempt).await {
            tracing::error!(
                origin = order.origin.name(),
                "not reloaded, what there was goes on serving: {error}"
            );
            (attempt.step, attempt.error) = (Some(step), Some(cut(error)));
        }
        attempt.at = unix_seconds(SystemTime::now());
        attempt.duration_ms = milliseconds(started.elapsed());
        if attempt.outcome != ConfigOutcome::Planned {
            self.served.metrics.reloads.note(match attempt.outcome {
                ConfigOutcome::Applied => ReloadOutcome::Applied,
                ConfigOutcome::Incomplete => ReloadOutcome::Incomplete,
                ConfigOutcome::Refused => ReloadOutcome::Refused,
                ConfigOutcome::Unchanged | ConfigOutcome::Planned => ReloadOutcome::Unchanged,
            });
            self.served.configuration.note(attempt.clone());
        }
        if let Some(answer) = answer {
            // The caller may have gone.
            let _ = answer.send(attempt);
        }
    }

    async fn carry_out(
        &mut self,
        order: &ConfigOrder,
        read: &impl Read,
        attempt: &mut ConfigAttempt,
    ) -> Result<(), Refusal> {
        let found = self.served.configuration.digest();
        if let Some(expected) = order.expected.as_ref().filter(|expected| **expected != found) {
            return Err((
                "order",
                format!("the configuration that is served is `{found}`, not `{expected}`"),
            ));
        }
        let text = match &order.source {
            ConfigSource::Files => None,
            ConfigSource::Text(text) => Some(text.as_str()),
        };
        let mut config = read(text).map_err(|error| ("config", error))?;
        let settings = std::mem::take(&mut config.settings);
        attempt.digest = Some(settings.digest.clone());
        attempt.plan = self.plan(&config, &settings).await;
        if order.dry_run {
            attempt.outcome = ConfigOutcome::Planned;
            return Ok(());
        }
        let written = match (text, &settings.file) {
            (Some(text), Some(file)) if order.persist => {
                let written = blocking::off_worker(|| written(file, text));
                Some((written.map_err(|error| cannot_persist(file, &error))?, file.clone()))
            }
            _ => None,
        };
        if !attempt.plan.restart.is_empty() {
            let others = self.config.process_changes(&config).join(", ");
            tracing::warn!("the configuration of {others} has changed: that takes a restart");
        }
        let stayed: Vec<Arc<Deployment>> =
            if order.reload { self.served.endpoints.to_vec() } else { Vec::new() };
        let names = config.endpoints.iter().map(|endpoint| &endpoint.name);
        let is_empty =
            attempt.plan.is_empty() && names.eq(self.served.endpoints.iter().map(|it| &it.config.name));
        if !is_empty {
            self.change(config).await.map_err(|error| ("load", error))?;
        } else {
            tracing::info!("the endpoints are the same");
        }
        self.settings = settings;
        attempt.outcome = if is_empty { ConfigOutcome::Unchanged } else { ConfigOutcome::Applied };
        if let Some((written, file)) = written
            && let Err(error) = blocking::off_worker(|| put(written))
        {
            let (step, error) = cannot_persist(&file, &error);
            tracing::error!("{error}");
            (attempt.outcome, attempt.step, attempt.error) =
                (ConfigOutcome::Incomplete, Some(step), Some(error));
        }
        let errors = self.reload_those_of(&stayed, order.origin).await;
        if !errors.is_empty() {
            (attempt.outcome, attempt.step, attempt.error) =
                (ConfigOutcome::Incomplete, Some("load"), Some(cut(errors.join("\n"))));
        }
        Ok(())
    }

    /// Takes the configuration as it is now, as far as it says what is served; then every handler and model
    /// of the endpoints that stay, as their files are now.
    ///
    /// # Errors
    /// The parts that could not be loaded; they are logged too.
    pub(super) async fn reload(&mut self, config: Config, origin: Origin) -> Result<(), String> {
        let stayed: Vec<Arc<Deployment>> = self.served.endpoints.to_vec();
        self.change(config).await.inspect_err(|error| {
            tracing::error!("not reloaded, what there was goes on serving: {error}");
        })?;
        let errors = self.reload_those_of(&stayed, origin).await;
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }

    /// Serves the endpoints of this configuration.
    async fn change(&mut self, config: Config) -> Result<(), String> {
        let changed = self.serve(config.endpoints, config.server.splits).await;
        let Changes { added, replaced, removed } =
            changed.map_err(|error| on_one_line(&format!("{error:#}")))?;
        let [added, replaced, removed] = [added, replaced, removed].map(|names| listed(&names));
        tracing::info!(added, replaced, removed, "other endpoints are served");
        Ok(())
    }

    /// Has those of these endpoints that are still served take handler and models anew; the errors of those
    /// that cannot.
    async fn reload_those_of(&self, stayed: &[Arc<Deployment>], origin: Origin) -> Vec<String> {
        let mut errors = Vec::new();
        for deployment in stayed {
            let now = self.served.endpoints.named(&deployment.config.name);
            if !now.is_some_and(|now| Arc::ptr_eq(now, deployment)) {
                continue;
            }
            if let Err(error) = deployment.reload(&DeployRequest::by(origin)).await {
                let error = on_one_line(&error);
                tracing::error!(endpoint = %deployment.config.name,
                    "not reloaded, what there was goes on serving: {error}");
                errors.push(error);
            }
        }
        errors
    }

    /// The changes from what is served to this configuration.
    async fn plan(&self, config: &Config, settings: &Settings) -> Plan {
        let Changes { added, replaced, removed } = self.registry.changes(&config.endpoints).await;
        let changed = |endpoint: String| {
            let of = |settings: &Settings| settings.endpoints.get(&endpoint).cloned().unwrap_or_default();
            Changed { settings: of(&self.settings).changes(&of(settings)), endpoint }
        };
        let others = self.config.process_changes(config);
        // By their keys where the file says so, else by what they are about.
        let keys = self.at_start.changes(&settings.process);
        let restart = match others.is_empty() || keys.is_empty() {
            true => others.into_iter().map(str::to_owned).collect(),
            false => keys,
        };
        let splits = self.served.config.splits != config.server.splits;
        Plan { added, changed: replaced.into_iter().map(changed).collect(), removed, splits, restart }
            .sorted()
    }
}

/// Writes what is to be in the config file, which a link may lead to.
fn written(file: &Path, text: &str) -> io::Result<(Replacement, PathBuf)> {
    let file = std::fs::canonicalize(file)?;
    Ok((Replacement::write(&file, text.as_bytes())?, file))
}

/// Puts it in the file's place.
fn put((replacement, file): (Replacement, PathBuf)) -> io::Result<()> {
    replacement.put()?;
    // Where the file system cannot say that the name is on the disk, the file is there all the same.
    let _ = replacement::settle(&file);
    Ok(())
}

fn cannot_persist(file: &Path, error: &io::Error) -> Refusal {
    let hint = "give the order without `persist`, and change the file where it comes from";
    ("persist", format!("cannot write `{}`: {error}; hint: {hint}", file.display()))
}
