//! The configuration that is served, orders to serve another one, and what became of them.
//!
//! Place in the flow: `app.rs` carries orders out, one after the other, and notes here what they came to; the
//! admin listener takes orders and tells of them. In: orders. Out: attempts, each with its plan.
//! Invariants: what is remembered is bounded; no value of a setting is kept, only a hash that tells it from
//! another one.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use crate::rollout::history::Origin;

/// Attempts that are remembered.
const MOST: usize = 50;
/// Orders that wait for their turn.
const WAITING: usize = 16;
/// Endpoints that an attempt which is remembered names, of each kind.
const NAMED: usize = 100;

/// The settings that a configuration sets, by which one is told from another.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The config file; `None` without one.
    pub file: Option<PathBuf>,
    /// SHA-256 of what the files say; empty without a file.
    pub digest: String,
    /// The settings outside of endpoints.
    pub process: Fingerprint,
    /// Those of each endpoint, by its name.
    pub endpoints: HashMap<String, Fingerprint>,
}

/// Says nothing that the configuration beside it does not say.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Settings")
    }
}

/// Keys, each with a hash of its value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprint(Vec<(Box<str>, u64)>);

impl Fingerprint {
    /// The fingerprint of keys with their values as texts.
    pub fn of(values: impl IntoIterator<Item = (String, String)>) -> Fingerprint {
        let hashed = |(key, value): (String, String)| {
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            (key.into_boxed_str(), hasher.finish())
        };
        let mut values: Vec<_> = values.into_iter().map(hashed).collect();
        values.sort_unstable();
        Fingerprint(values)
    }

    /// The keys that are set here or there only, or to something else; in their order.
    pub fn changes(&self, other: &Fingerprint) -> Vec<String> {
        let only = |of: &Fingerprint, not_in: &Fingerprint| -> Vec<String> {
            let of = of.0.iter().filter(|it| not_in.0.binary_search(it).is_err());
            of.map(|(key, _)| key.to_string()).collect()
        };
        let mut keys = only(self, other);
        keys.extend(only(other, self));
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// The differences of a configuration from the one that is served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Endpoints that are new.
    pub added: Vec<String>,
    /// Endpoints that are replaced.
    pub changed: Vec<Changed>,
    /// Endpoints that go.
    pub removed: Vec<String>,
    /// Whether other splits are served.
    pub splits: bool,
    /// Settings of the process that are others, which takes a restart.
    pub restart: Vec<String>,
}

/// An endpoint that is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Its name.
    pub endpoint: String,
    /// The settings that are others; none if it is the content of a file that a setting names.
    pub settings: Vec<String>,
}

impl Plan {
    /// The plan that leads from one set of settings to another.
    pub fn between(before: &Settings, after: &Settings) -> Plan {
        let mut plan = Plan { restart: before.process.changes(&after.process), ..Plan::default() };
        for (name, settings) in &after.endpoints {
            match before.endpoints.get(name) {
                None => plan.added.push(name.clone()),
                Some(before) if before == settings => {}
                Some(before) => {
                    let settings = before.changes(settings);
                    plan.changed.push(Changed { endpoint: name.clone(), settings });
                }
            }
        }
        let goes = |name: &&String| !after.endpoints.contains_key(*name);
        plan.removed.extend(before.endpoints.keys().filter(goes).cloned());
        plan.sorted()
    }

    /// The plan with its names in order.
    pub fn sorted(mut self) -> Plan {
        self.added.sort_unstable();
        self.changed.sort_unstable_by(|one, other| one.endpoint.cmp(&other.endpoint));
        self.removed.sort_unstable();
        self
    }

    /// Whether nothing that is served changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty() && !self.splits
    }

    /// No more names than are remembered.
    fn cut(mut self) -> Plan {
        self.added.truncate(NAMED);
        self.changed.truncate(NAMED);
        self.removed.truncate(NAMED);
        self
    }
}

/// The source of a configuration.
#[derive(Debug)]
pub enum ConfigSource {
    /// The files, as they are now.
    Files,
    /// This text, in place of that of the config file.
    Text(String),
}

/// An order to serve another configuration.
#[derive(Debug)]
pub struct ConfigOrder {
    /// The configuration.
    pub source: ConfigSource,
    /// Its source.
    pub origin: Origin,
    /// Whether endpoints that stay take handler and models as their files are now.
    pub reload: bool,
    /// Whether only the plan is wanted.
    pub dry_run: bool,
    /// Whether the text is to be in the config file, too.
    pub persist: bool,
    /// Only if this is the digest of the configuration that is served.
    pub expected: Option<String>,
    /// Why, in the caller's words.
    pub note: Option<Arc<str>>,
    /// The name of the key that the order came with.
    pub by: Option<Arc<str>>,
    /// Told what it came to.
    pub answer: Option<oneshot::Sender<ConfigAttempt>>,
}

impl ConfigOrder {
    /// An order to take the files as they are now.
    pub fn by(origin: Origin) -> ConfigOrder {
        ConfigOrder {
            source: ConfigSource::Files,
            origin,
            reload: false,
            dry_run: false,
            persist: false,
            expected: None,
            note: None,
            by: None,
            answer: None,
        }
    }
}

/// The outcome of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfigOutcome {
    /// It is served.
    Applied,
    /// It was served already.
    Unchanged,
    /// Only a plan was asked for.
    Planned,
    /// It is served, but an endpoint that stays could not take its handler or models anew.
    Incomplete,
    /// Nothing has changed.
    Refused,
}

/// One attempt to serve another configuration.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigAttempt {
    /// When it ended: Unix time in seconds.
    pub at: u64,
    /// The source of the request for it.
    pub origin: Origin,
    /// The name of the key that the order came with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The caller's reason, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    /// The outcome.
    pub outcome: ConfigOutcome,
    /// SHA-256 of the configuration; `None` if it could not be read.
    pub digest: Option<String>,
    /// The changes.
    #[serde(flatten)]
    pub plan: Plan,
    /// The step that refused it: `order`, `config`, `load`, `persist`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'static str>,
    /// The problem, if there was one.
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// The configuration that is served, as the admin listener knows it.
#[derive(Debug, Clone)]
pub struct Configuration {
    orders: mpsc::Sender<ConfigOrder>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    digest: String,
    attempts: VecDeque<Arc<ConfigAttempt>>,
}

impl Configuration {
    /// A configuration to which orders can be given, and where they come out.
    pub fn new(settings: &Settings) -> (Configuration, mpsc::Receiver<ConfigOrder>) {
        let (orders, taken) = mpsc::channel(WAITING);
        let state = State { digest: settings.digest.clone(), ..State::default() };
        (Configuration { orders, state: Arc::new(Mutex::new(state)) }, taken)
    }

    /// Gives an order; `false` if too many wait, or the process goes away.
    pub fn give(&self, order: ConfigOrder) -> bool {
        self.orders.try_send(order).is_ok()
    }

    /// Whether no order is carried out any more.
    pub fn is_closed(&self) -> bool {
        self.orders.is_closed()
    }

    /// SHA-256 of the configuration that is served; empty without a file.
    pub fn digest(&self) -> String {
        self.state().digest.clone()
    }

    /// The attempts that are remembered, the latest first.
    pub fn attempts(&self) -> Vec<Arc<ConfigAttempt>> {
        self.state().attempts.iter().rev().cloned().collect()
    }

    /// Notes what an order came to.
    pub fn note(&self, attempt: ConfigAttempt) {
        let mut state = self.state();
        if let (Some(digest), true) = (&attempt.digest, attempt.outcome != ConfigOutcome::Refused) {
            state.digest.clone_from(digest);
        }
        if state.attempts.len() == MOST {
            state.attempts.pop_front();
        }
        state.attempts.push_back(Arc::new(ConfigAttempt { plan: attempt.plan.cut(), ..attempt }));
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(endpoints: &[(&str, &[(&str, &str)])], process: &[(&str, &str)]) -> Settings {
        let of = |pairs: &[(&str, &str)]| {
            Fingerprint::of(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())))
        };
        let endpoints = endpoints.iter().map(|(name, pairs)| ((*name).to_owned(), of(pairs))).collect();
        Settings { process: of(process), endpoints, ..Settings::default() }
    }

    #[test]
    fn a_plan_names_what_is_new_another_or_gone_and_the_settings() {
        let before =
            settings(&[("a", &[("path", "/a"), ("model", "m")]), ("b", &[]), ("c", &[])], &[("x", "1")]);
        let after = settings(
            &[("d", &[]), ("a", &[("path", "/b"), ("plugin", "p"), ("model", "m")]), ("c", &[])],
            &[("x", "2")],
        );
        let plan = Plan::between(&before, &after);
        let changed = Changed { endpoint: "a".into(), settings: vec!["path".into(), "plugin".into()] };
        let expected = Plan {
            added: vec!["d".into()],
            changed: vec![changed],
            removed: vec!["b".into()],
            splits: false,
            restart: vec!["x".into()],
        };
        assert_eq!(plan, expected);
        assert!(Plan::between(&before, &before).is_empty());
    }

    #[test]
    fn attempts_and_what_they_name_are_bounded() {
        let (configuration, orders) = Configuration::new(&Settings::default());
        for n in 0..=MOST as u64 {
            let added = (0..NAMED + 1).map(|n| n.to_string()).collect();
            configuration.note(ConfigAttempt {
                at: n,
                origin: Origin::Signal,
                by: None,
                note: None,
                outcome: if n == 0 { ConfigOutcome::Applied } else { ConfigOutcome::Refused },
                digest: Some(n.to_string()),
                plan: Plan { added, ..Plan::default() },
                step: None,
                error: None,
                duration_ms: 0,
            });
        }
        let attempts = configuration.attempts();
        assert_eq!((attempts.len(), attempts[0].at, attempts[MOST - 1].at), (MOST, MOST as u64, 1));
        assert_eq!(attempts[0].plan.added.len(), NAMED);
        assert_eq!(configuration.digest(), "0", "what was refused is not served");
        let given = (0..=WAITING).filter(|_| configuration.give(ConfigOrder::by(Origin::Admin))).count();
        assert_eq!((given, configuration.is_closed()), (WAITING, false));
        drop(orders);
        assert!(configuration.is_closed() && !configuration.give(ConfigOrder::by(Origin::Admin)));
    }
}
