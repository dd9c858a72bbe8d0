//! `host dev`: serves a handler project while it is being written.
//!
//! Place in the flow: `serve` and `build` together. A thread looks at the project's files, builds when they
//! have changed, and hands the outcome to the server (`app/development.rs`), which serves it or shows the
//! error.
//! In:  the project's folder with its modelhost.toml. Out: as `serve`, then a line for every build.
//! Invariants: listens on the loopback only: errors of builds name files of the author's; a build that is out
//! of date is ended, and so is the one that runs when the command ends.

mod sources;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::{mpsc, oneshot};

use self::sources::{MOST, Sources};
use crate::app::{self, App, Build, ReloadReason};
use crate::blobs;
use crate::cli;
use crate::commands::build::{Interrupted, Project, Remedy, SETTINGS};
use crate::commands::signals::stop;
use crate::commands::{Failure, environment, project_config, runtime, say, start_logs};
use crate::config;
use crate::config::settings::{self, Setting};
use crate::stores::Place;
use crate::text::on_one_line;

/// How often the files are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the command.
///
/// # Errors
/// The folder is no project, a bad configuration, or an address that is taken.
pub fn dev(arguments: &cli::Dev) -> Result<(), Failure> {
    let project = Project::open(&arguments.folder, SETTINGS)?;
    let mut overrides = project_config(&arguments.folder)?;
    let mut set = |setting: &'static Setting, value: &Option<String>| {
        value.iter().for_each(|value| overrides.set(setting, vec![value.clone()]));
    };
    set(&settings::LISTEN, &arguments.listen);
    set(&settings::ADMIN_LISTEN, &arguments.admin_listen);
    let config = config::dev(&overrides, &environment)?;
    let server = &config.server;
    let addresses = [Some(server.listen), Some(server.admin_listen), server.grpc_listen];
    only_loopback(addresses.into_iter().flatten())?;

    let _logs = start_logs(&config.logs)?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let stop = pin!(stop()?);
        let (models, stores) = (models(&config), stores(&config));
        let app = App::develop(config).await?;
        for line in app.announcement() {
            say(&line)?;
        }
        let (tell, changes) = mpsc::channel(1);
        let builds = Builds::start(project, models, stores, tell)?;
        let read = |_: Option<&str>| {
            config::dev(&overrides, &environment).map_err(|problems| on_one_line(&problems))
        };
        let ended = app.run(stop, changes, read).await;
        builds.end();
        ended
    });
    runtime.shutdown_background();
    Ok(outcome?)
}

fn only_loopback(mut addresses: impl Iterator<Item = SocketAddr>) -> Result<(), Failure> {
    if let Some(address) = addresses.find(|address| !address.ip().is_loopback()) {
        let text = format!(
            "`dev` does not listen on {address}: it shows errors of builds, with files of yours
  hint: a loopback address such as 127.0.0.1, or `{} serve`",
            cli::program()
        );
        return Err(Failure::Input(text));
    }
    Ok(())
}

fn models(config: &app::Config) -> Vec<PathBuf> {
    let models = config.endpoints.iter().flat_map(|endpoint| &endpoint.models);
    models.map(|(_, model)| model.path.clone()).collect()
}

/// The files and folders that the server writes.
fn stores(config: &app::Config) -> Vec<PathBuf> {
    let places = [&config.kv, &config.jobs].into_iter().flatten();
    let files = places.filter_map(|place| if let Place::File(file) = place { Some(file) } else { None });
    let objects = match &config.blobs {
        Some(blobs::Place::Folder(folder)) => Some(folder),
        _ => None,
    };
    let recordings = config.record.as_ref().map(|record| &record.folder);
    let cache = config.plugin.cache_dir.as_ref();
    files.chain(objects).chain(recordings).chain(cache).cloned().collect()
}

/// The thread that builds.
struct Builds {
    ended: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Builds {
    fn start(
        project: Project,
        models: Vec<PathBuf>,
        stores: Vec<PathBuf>,
        tell: mpsc::Sender<ReloadReason>,
    ) -> anyhow::Result<Builds> {
        let ended = Arc::<AtomicBool>::default();
        let flag = ended.clone();
        let thread = thread::Builder::new().name("dev".to_owned());
        let thread = thread.spawn(move || {
            let seen = Sources::of(&project.folder, &models, &stores);
            rounds(project, seen, &tell, &flag);
        });
        Ok(Builds { ended, thread: thread.context("cannot start the thread that builds")? })
    }

    /// Ends the build that runs, if there is one.
    fn end(self) {
        self.ended.store(true, Ordering::Relaxed);
        // It has nothing to say.
        let _ = self.thread.join();
    }
}

/// Builds whenever the files have changed.
fn rounds(
    mut project: Project,
    mut seen: Sources,
    tell: &mpsc::Sender<ReloadReason>,
    ended: &Arc<AtomicBool>,
) {
    if seen.is_partial() {
        report(&format!(
            "warning: the project has more than {MOST} files, and changes of the others are not seen; a folder \
             whose name begins with a dot is left out"
        ));
    }
    let mut has_built = false;
    // Once a handler starts only if it is built whole, so are the next ones.
    let (mut is_whole, mut stays_whole) = (false, false);
    loop {
        let is_ended = || ended.load(Ordering::Relaxed);
        let started = Instant::now();
        let (before, flag) = (seen.clone(), ended.clone());
        project = project.interrupted_if(move || flag.load(Ordering::Relaxed) || before.is_outdated());
        let outcome = match (has_built && !seen.needs_build, is_whole || stays_whole) {
            (false, true) => project.build().map(Some),
            (false, false) => project.build_quickly().map(Some),
            (true, _) => Ok(None),
        };
        if is_ended() {
            return;
        }
        if outcome.as_ref().is_err_and(|error| error.is::<Interrupted>()) {
            (has_built, is_whole) = (false, false);
            // What has changed may be as it was again.
            seen = seen.changed().unwrap_or(seen);
            continue;
        }
        let (error, built) = match outcome {
            Ok(built) => (None, built),
            Err(error) => (Some(format!("{error:#}")), None),
        };
        has_built = error.is_none();
        // Once: what is loaded wrongly is in the log, by the server.
        error.iter().for_each(|error| report(&format!("error: {error}")));
        let (served, outcome) = oneshot::channel();
        if tell.blocking_send(ReloadReason::Built(Build { error, served })).is_err() {
            return;
        }
        match outcome.blocking_recv() {
            Ok(Ok(())) => {
                stays_whole |= is_whole;
                let took = started.elapsed().as_secs_f64();
                let built = built.map_or_else(|| "read again".to_owned(), |built| built.to_string());
                // A reader that has gone does not end the server.
                let _ = say(&format!("{built}, served after {took:.1} s"));
            }
            Ok(Err(error)) if built.is_some_and(|built| built.is_quick) => {
                let remedy = project.remedy(&error).unwrap_or(Remedy::Whole);
                if remedy != Remedy::None {
                    (has_built, is_whole) = (false, remedy == Remedy::Whole);
                    continue;
                }
            }
            Ok(Err(_)) => {}
            // The server has ended.
            Err(_) => return,
        }
        is_whole = false;
        seen = loop {
            if is_ended() {
                return;
            }
            match seen.changed() {
                Some(changed) => break changed,
                None => thread::sleep(POLL_INTERVAL),
            }
        };
    }
}

/// Writes to stderr what concerns the author.
fn report(text: &str) {
    // The page and the answers say it too.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_builds_are_shown_on_the_loopback_only() {
        let loopback = ["127.0.0.1:80", "[::1]:80"].map(|text| text.parse().unwrap());
        assert!(only_loopback(loopback.into_iter()).is_ok());
        for open in ["0.0.0.0:80", "10.1.2.3:80", "[::]:80"] {
            assert!(only_loopback([open.parse().unwrap()].into_iter()).is_err(), "{open}");
        }
    }
}
