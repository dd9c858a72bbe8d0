//! Connections to one Redis, over which commands are sent.
//!
//! Place in the flow: below `client.rs` for one server, below `cluster.rs` for each node of a cluster. In: a
//! command. Out: the reply, or a reason why there is none.
//! Invariants: a command is sent at most once; no call waits for longer than the place's `timeout`, and
//! none at all while Redis cannot be reached; a connection on which something was not answered in time is
//! closed, since nothing behind it would be; as many commands as [`WAITING`] are on their way at once.
//! Texts for handlers name no address; logs do, without the password.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value, cmd, pipe};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::Unavailable;
use super::connector::{self, Connection, Connector, State};
use super::reason::{self, ConnectError, Effect};
use super::slot::{Redirect, Slots};
use crate::throttle::Throttle;

/// Connections.
const CONNECTIONS: usize = 4;
/// Commands on their way at once.
const WAITING: usize = 1024;

/// Connections to one server.
pub(super) struct Links {
    links: Vec<watch::Receiver<State>>,
    next: AtomicUsize,
    places: Semaphore,
    connector: Arc<Connector>,
    /// Of lines about commands that are refused.
    refusals: Throttle,
    /// They end with this.
    _tasks: JoinSet<()>,
}

/// The reason why a server has not answered a command.
pub(super) enum Failure {
    /// Another try would come to the same.
    Refused(Unavailable),
    /// The server cannot be used: in a cluster another one may have its slots now.
    Away(Unavailable),
    /// A node of a cluster has not run it.
    Redirected(Redirect),
}

impl From<Failure> for Unavailable {
    fn from(failure: Failure) -> Unavailable {
        match failure {
            Failure::Refused(why) | Failure::Away(why) => why,
            Failure::Redirected(_) => Unavailable(reason::ELSEWHERE.to_owned()),
        }
    }
}

impl Links {
    /// Begins to connect, and goes on doing so.
    pub(super) fn start(connector: Arc<Connector>) -> Links {
        let (mut tasks, runtime) = (JoinSet::new(), connector.runtime.clone());
        let links = (0..CONNECTIONS).map(|_| {
            let (state, seen) = watch::channel(State::New);
            let connector = connector.clone();
            tasks.spawn_on(async move { connector.keep(&state).await }, &runtime);
            seen
        });
        Links {
            links: links.collect(),
            next: AtomicUsize::new(0),
            places: Semaphore::new(WAITING),
            connector,
            refusals: Throttle::default(),
            _tasks: tasks,
        }
    }

    /// Whether there is a connection now.
    pub(super) fn is_up(&self) -> bool {
        self.links.iter().any(|link| matches!(*link.borrow(), State::Up(_)))
    }

    /// Whether there is no connection though each was tried.
    pub(super) fn is_lost(&self) -> bool {
        self.links.iter().all(|link| matches!(*link.borrow(), State::Connecting | State::Down(_)))
    }

    /// Runs the script with what `command` writes behind its name, `EVALSHA SHA` or `EVAL SOURCE`.
    pub(super) async fn run(&self, script: &str, command: impl Fn(&mut Cmd)) -> Result<Value, Unavailable> {
        let until = Instant::now() + self.connector.place.timeout;
        Ok(self.attempt(until, false, script, &command).await?)
    }

    /// The same, until then; `is_asking` if a node was named by `ASK`.
    pub(super) async fn attempt(
        &self,
        until: Instant,
        is_asking: bool,
        script: &str,
        command: &impl Fn(&mut Cmd),
    ) -> Result<Value, Failure> {
        let slow = || Unavailable("Redis is too slow for what is asked of it".to_owned());
        let place = timeout_at(until, self.places.acquire()).await.map_err(|_| Failure::Refused(slow()))?;
        let _place = place.map_err(|_| Failure::Refused(Unavailable("it is closed".to_owned())))?;
        let connected = timeout_at(until, self.connection()).await.map_err(|_| Failure::Away(slow()))?;
        let mut connection = connected.map_err(Failure::Away)?;
        let mut named = cmd("EVALSHA");
        command(named.arg(&*connection.script));
        let answered = match timeout_at(until, send(&mut connection.redis, named, is_asking)).await {
            Ok(Err(error)) if error.code() == Some("NOSCRIPT") => {
                let mut whole = cmd("EVAL");
                command(whole.arg(script));
                timeout_at(until, send(&mut connection.redis, whole, is_asking)).await
            }
            other => other,
        };
        let error = match answered {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => {
                connection.broken.notify_one();
                return Err(Failure::Away(Unavailable(reason::LATE.to_owned())));
            }
        };
        if self.connector.is_node
            && let Some(redirect) = Redirect::of(&error, &self.connector.place.host)
        {
            return Err(Failure::Redirected(redirect));
        }
        let (reason, effect) = reason::reason(&error);
        let why = Unavailable(reason.to_owned());
        Err(match effect {
            // The loss of the connection is told.
            Effect::Reconnect => {
                connection.broken.notify_one();
                Failure::Away(why)
            }
            Effect::Elsewhere => {
                self.tell(reason, &error);
                Failure::Away(why)
            }
            Effect::None => {
                self.tell(reason, &error);
                Failure::Refused(why)
            }
        })
    }

    /// The nodes of the cluster that it is one of, over a connection that is there.
    pub(super) async fn slots(&self, limit: Duration) -> Result<Slots, ConnectError> {
        let told = async {
            let connected = self.connection().await;
            let mut connection =
                connected.map_err(|Unavailable(why)| ConnectError::Failed(reason::LOST, why))?;
            connector::slots(&mut connection.redis, &self.connector.place.host).await
        };
        timeout(limit, told).await.unwrap_or_else(|_| Err(connector::late(limit)))
    }

    /// Says in the log that Redis refuses a command over a connection that stays: now and then, since every
    /// request may be refused.
    fn tell(&self, reason: &str, error: &RedisError) {
        if self.refusals.is_due() {
            let (place, name) = (&self.connector.place, self.connector.name());
            tracing::error!(store = %place, "{name} is refused a command: {reason}: {error}");
        }
    }

    /// The reply to any command.
    #[cfg(test)]
    pub(super) async fn ask(&self, command: &[&str]) -> Value {
        let mut named = Cmd::new();
        named.arg(command);
        let mut connection = self.connection().await.unwrap();
        named.query_async(&mut connection.redis).await.unwrap()
    }

    /// One that is up; else one that is being made, when it is.
    async fn connection(&self) -> Result<Connection, Unavailable> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut comes = None;
        let mut why = reason::LOST;
        for at in 0..self.links.len() {
            let Some(link) = self.links.get((first.wrapping_add(at)) % self.links.len()) else { break };
            match &*link.borrow() {
                State::Up(connection) => return Ok(connection.clone()),
                State::New | State::Connecting => comes = comes.or(Some(link)),
                State::Down(reason) => why = reason,
            }
        }
        let mut link = comes.cloned().ok_or_else(|| Unavailable(why.to_owned()))?;
        let settled = link.wait_for(|state| !matches!(state, State::New | State::Connecting)).await;
        match settled.as_deref() {
            Ok(State::Up(connection)) => Ok(connection.clone()),
            Ok(State::Down(reason)) => Err(Unavailable((*reason).to_owned())),
            Ok(State::New | State::Connecting) | Err(_) => Err(Unavailable(reason::LOST.to_owned())),
        }
    }
}

/// Sends a command, with `ASKING` before it if that is wanted: in one piece, since it is of the next command
/// on the connection only.
async fn send(redis: &mut MultiplexedConnection, command: Cmd, is_asking: bool) -> Result<Value, RedisError> {
    if !is_asking {
        return command.query_async(redis).await;
    }
    let mut both = pipe();
    both.cmd("ASKING").add_command(command);
    let mut last = Value::Nil;
    for answer in redis.send_packed_commands(&both, 0, 2).await? {
        last = answer.extract_error()?;
    }
    Ok(last)
}
