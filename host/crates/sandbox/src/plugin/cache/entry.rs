//! What an entry of the cache is of.
//!
//! Place in the flow: who wants compiled code says here what it is made of; the cache adds the engine it is
//! made for. In: a component, and for code that begins where `init` ended everything that `init` was given.
//! Out: the entry's name, and the lock if it needs one.
//! Invariants: entries of the same name hold code that behaves the same; no name and no lock tells what it
//! was made of.

use super::lock::Lock;
use crate::plugin::binary::Binary;
use crate::plugin::settings::HandlerConfig;

/// The key of an entry, without the engine that it is compiled for.
pub(in crate::plugin) struct Entry {
    pub(super) name: blake3::Hash,
    /// For code with memory that may hold secrets.
    pub(super) lock: Option<Lock>,
}

impl Entry {
    /// A component as it is.
    pub(in crate::plugin) fn of(binary: &Binary) -> Entry {
        Entry { name: blake3::hash(binary.digest().as_bytes()), lock: None }
    }

    /// A core module that components have in common, by its digest.
    pub(in crate::plugin) fn of_module(digest: &str) -> Entry {
        let name = blake3::derive_key("modelhost 2026-11-25 name of a shared module", digest.as_bytes());
        Entry { name: name.into(), lock: None }
    }

    /// A frame, the component around what components have in common and their states, by its digest.
    pub(in crate::plugin) fn of_frame(digest: &str) -> Entry {
        let name = blake3::derive_key("modelhost 2026-11-28 name of a frame", digest.as_bytes());
        Entry { name: name.into(), lock: None }
    }

    /// The state with this number, of a component whose frame is kept apart.
    pub(in crate::plugin) fn state(&self, number: usize) -> Entry {
        let given = [self.name.as_bytes().as_slice(), &number.to_le_bytes()].concat();
        let name = blake3::derive_key("modelhost 2026-11-28 name of a state", &given);
        Entry { name: name.into(), lock: self.lock.clone() }
    }

    /// A component that begins where its `init` ended: under this config, with the project of this digest.
    pub(in crate::plugin) fn after_init(
        binary: &Binary,
        config: &HandlerConfig,
        project: Option<&str>,
    ) -> Entry {
        let (version, env) = (env!("CARGO_PKG_VERSION"), &config.env);
        let (network, memory) = (config.network.name(), config.limits.memory);
        // As a value it would need escapes to be another one's equal.
        let given = (version, &**binary.digest(), &*config.metadata, project, network, memory, env);
        let given = serde_json::json!(given).to_string();
        let derived = |purpose| blake3::derive_key(purpose, given.as_bytes());
        Entry {
            name: derived("modelhost 2026-11-23 name of code after init").into(),
            // What is granted by variables is often a secret.
            lock: (!env.is_empty())
                .then(|| Lock::new(derived("modelhost 2026-11-23 lock of code after init"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::plugin::tests::config;
    use crate::plugin::{HandlerConfig, Network};

    #[test]
    fn everything_that_init_is_given_is_in_the_name() {
        let binary = Binary::new("a component");
        let env = |pairs: &[(&str, &str)]| HandlerConfig {
            env: pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            ..config()
        };
        let mut small = config();
        small.limits.memory = 1;
        let entries = [
            Entry::of(&binary),
            Entry::of_module(binary.digest()),
            Entry::of_frame(binary.digest()),
            Entry::of(&binary).state(0),
            Entry::of(&binary).state(1),
            Entry::after_init(&binary, &config(), None),
            Entry::after_init(&Binary::new("another component"), &config(), None),
            Entry::after_init(&binary, &config(), Some("")),
            Entry::after_init(&binary, &config(), Some("a project")),
            Entry::after_init(&binary, &HandlerConfig { metadata: "1".into(), ..config() }, None),
            Entry::after_init(&binary, &HandlerConfig { network: Network::Stub, ..config() }, None),
            Entry::after_init(&binary, &small, None),
            Entry::after_init(&binary, &env(&[("A", "1")]), None),
            Entry::after_init(&binary, &env(&[("A", "2")]), None),
            Entry::after_init(&binary, &env(&[("A", "1"), ("B", "2")]), None),
            Entry::after_init(&binary, &env(&[("A", "1\",\"B"), ("", "2")]), None),
        ];
        let names: HashSet<_> = entries.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), entries.len());
        let again = Entry::after_init(&binary, &env(&[("A", "1")]), None);
        assert!(names.contains(&again.name));
        let locked = entries.iter().filter(|entry| entry.lock.is_some()).count();
        assert_eq!(locked, 4, "those with variables");
    }
}
