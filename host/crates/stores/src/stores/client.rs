//! A Redis as the stores see it: one server, or a cluster of them.
//!
//! Place in the flow: the stores of values and of jobs send their commands here; `link.rs` sends those of
//! one server, `cluster.rs` finds the node. In: a command, and a key of it. Out: the reply, or a reason why
//! there is none.
//! Invariants: a command is run at most once, within the place's `timeout`; all keys of one command have one
//! hash tag; which of the two Redis is, it says at the start.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::{Instant, sleep};

use super::cluster::Cluster;
use super::connector::{Connector, PAUSES, longer};
use super::link::Links;
use super::reason::{self, ConnectError};
use super::{OpenError, Purpose, RedisPlace, Unavailable};

/// How long the start waits for a Redis that is not there yet.
const START: Duration = Duration::from_secs(10);

/// The way to a Redis.
pub struct RedisClient(Servers);

enum Servers {
    One(Links),
    Cluster(Cluster),
}

impl RedisClient {
    /// Connects, and goes on doing so.
    ///
    /// # Errors
    /// Redis is not there, or refuses.
    pub async fn open(
        place: &RedisPlace,
        script: &'static str,
        purpose: &'static Purpose,
    ) -> Result<RedisClient, OpenError> {
        let failed = |why: String, hint| OpenError { place: place.to_string(), why, hint };
        let connector = Arc::new(Connector::new(place, script, purpose).await?);
        let until = Instant::now() + START;
        let mut pause = PAUSES.0;
        loop {
            let error = match connector.look(place.timeout).await {
                Ok(None) => return Ok(RedisClient(Servers::One(Links::start(connector)))),
                Ok(Some(slots)) if slots.is_whole() => {
                    return Ok(RedisClient(Servers::Cluster(Cluster::start(connector, slots))));
                }
                Ok(Some(slots)) => reason::not_whole(slots.covered),
                Err(error) => error,
            };
            match error {
                ConnectError::Refused(why, hint) => return Err(failed(why, hint)),
                ConnectError::Failed(reason, why) if Instant::now() + pause >= until => {
                    return Err(failed(
                        why,
                        if reason == reason::UNASSIGNED {
                            "give each slot a node: `redis-cli --cluster create`, or `--cluster fix`"
                        } else {
                            "start Redis first, or correct its address: `redis://HOST:PORT/0`"
                        },
                    ));
                }
                ConnectError::Failed(..) => sleep(pause).await,
            }
            pause = longer(pause);
        }
    }

    /// Whether there is a connection now; to each node of a cluster that was needed.
    pub fn is_up(&self) -> bool {
        match &self.0 {
            Servers::One(links) => links.is_up(),
            Servers::Cluster(cluster) => cluster.is_up(),
        }
    }

    /// Runs the script with what `command` writes behind its name, `EVALSHA SHA` or `EVAL SOURCE`. `key` is
    /// one of its keys.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn run(
        &self,
        key: &str,
        script: &str,
        command: impl Fn(&mut Cmd),
    ) -> Result<Value, Unavailable> {
        match &self.0 {
            Servers::One(links) => links.run(script, command).await,
            Servers::Cluster(cluster) => cluster.run(key, script, command).await,
        }
    }

    /// The reply of one server to any command.
    #[cfg(test)]
    pub async fn ask(&self, command: &[&str]) -> Value {
        match &self.0 {
            Servers::One(links) => links.ask(command).await,
            Servers::Cluster(_) => unreachable!("a test asks a cluster's nodes itself"),
        }
    }
}
