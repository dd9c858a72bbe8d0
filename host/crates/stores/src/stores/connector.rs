//! A connection to a Redis: made, watched, and made again when it is lost.
//!
//! Place in the flow: below `link.rs`, which keeps several to a server, and `cluster.rs`, which asks nodes
//! for each other. In: an address, user and password, a script. Out: a connection on which the script is
//! loaded, or the reason why there is none; the nodes of a cluster.
//! Invariants: a connection that hangs is closed; with each failure the pause before the next try grows, up
//! to a limit. Reasons name no address; logs do, without the password.

use std::error::Error as StdError;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError, Value, cmd};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::reason::{self, ConnectError};
use super::slot::{Address, Slots};
use super::{OpenError, Purpose, RedisPlace};
use crate::time::since_1970;
use crate::trust;

/// How often an idle connection is tried.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// The pause after the first failure to connect, and the longest one.
pub(super) const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(3));

/// Makes connections to one server.
pub(super) struct Connector {
    pub(super) place: RedisPlace,
    pub(super) purpose: &'static Purpose,
    /// Whether it is one of a cluster's nodes.
    pub(super) is_node: bool,
    /// The connections live on it. The call that is a node's first one may come from a runtime that ends.
    pub(super) runtime: Handle,
    /// User, password and database.
    settings: RedisConnectionInfo,
    tls: Option<TlsConnector>,
    /// The source of the script.
    script: &'static str,
    /// Whether its absence is in the log.
    is_missed: AtomicBool,
    /// Whether the log says already of which setting it warns; of one node for all of a cluster.
    is_warned: Arc<AtomicBool>,
}

/// A connection.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) redis: MultiplexedConnection,
    /// The name of the script that is loaded.
    pub(super) script: Arc<str>,
    /// Closes it.
    pub(super) broken: Arc<Notify>,
}

#[derive(Clone)]
pub(super) enum State {
    /// It is made for the first time.
    New,
    /// It is made anew after it was lost.
    Connecting,
    Up(Connection),
    /// And why.
    Down(&'static str),
}

/// TCP, or TLS on it.
type Stream = Box<dyn Pipe>;

trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

/// The beginning of a connection.
struct Greeting {
    /// The name of the script that is loaded.
    script: Arc<str>,
    /// Whether the server is a node of a cluster; `None` if it does not say so.
    is_node: Option<bool>,
}

impl Connector {
    /// To the server that the configuration names, on the current runtime.
    pub(super) async fn new(
        place: &RedisPlace,
        script: &'static str,
        purpose: &'static Purpose,
    ) -> Result<Connector, OpenError> {
        let tls = tls(place).await.map_err(|why| OpenError {
            place: place.to_string(),
            why,
            hint: "the system has to have certificates that it trusts",
        })?;
        Ok(Connector {
            place: place.clone(),
            purpose,
            is_node: false,
            runtime: Handle::current(),
            settings: place.settings(),
            tls,
            script,
            is_missed: AtomicBool::new(false),
            is_warned: Arc::default(),
        })
    }

    /// To another node of its cluster, as to this one.
    pub(super) fn to(&self, address: &Address) -> Connector {
        Connector {
            place: RedisPlace { host: address.host.clone(), port: address.port, ..self.place.clone() },
            purpose: self.purpose,
            is_node: true,
            runtime: self.runtime.clone(),
            settings: self.settings.clone(),
            tls: self.tls.clone(),
            script: self.script,
            is_missed: AtomicBool::new(false),
            is_warned: self.is_warned.clone(),
        }
    }

    /// Keeps one connection, for ever.
    pub(super) async fn keep(&self, state: &watch::Sender<State>) {
        let mut pause = PAUSES.0;
        loop {
            let why = match self.connected(state).await {
                // It was there for a while.
                Ok(why) => {
                    pause = PAUSES.0;
                    state.send_replace(State::Connecting);
                    why.to_owned()
                }
                Err(error) => {
                    state.send_replace(State::Down(error.reason()));
                    error.detail().to_owned()
                }
            };
            if !self.is_missed.swap(true, Ordering::Relaxed) {
                tracing::error!(store = %self.place, "{} cannot be used: {why}", self.name());
            }
            // Hosts that lost it together do not come back together.
            sleep(pause.mul_f64(0.5 + jitter())).await;
            pause = longer(pause);
        }
    }

    /// In logs, which say the address beside it.
    pub(super) fn name(&self) -> String {
        let part = if self.is_node { "a node of " } else { "" };
        format!("{part}{}", self.purpose.store)
    }

    /// Connects, and drives the connection until it is lost: for that reason.
    async fn connected(&self, state: &watch::Sender<State>) -> Result<&'static str, ConnectError> {
        let limit = self.place.timeout;
        let opened = timeout(limit, self.open()).await.unwrap_or_else(|_| Err(late(limit)));
        let (mut redis, driver) = opened?;
        let mut driver = pin!(driver);
        let Greeting { script, is_node } = tokio::select! {
            biased;
            () = &mut driver => return Err(closed()),
            greeting = timeout(limit, self.greet(&mut redis)) => {
                greeting.unwrap_or_else(|_| Err(late(limit)))?
            }
        };
        if is_node == Some(true) && !self.is_node {
            return Err(reason::has_become_a_cluster());
        }
        let broken = Arc::new(Notify::new());
        state.send_replace(State::Up(Connection { redis: redis.clone(), script, broken: broken.clone() }));
        if self.is_missed.swap(false, Ordering::Relaxed) {
            tracing::info!(store = %self.place, "{} can be used again", self.name());
        }
        Ok(tokio::select! {
            () = &mut driver => "the connection was lost",
            () = broken.notified() => "it did not answer in time, or takes no writes",
            () = heartbeat(redis, limit) => "it did not answer in time",
        })
    }

    /// Connects once, and lets go: the nodes of its cluster, `None` if it is one server.
    pub(super) async fn look(&self, limit: Duration) -> Result<Option<Slots>, ConnectError> {
        let looked = async {
            let (mut redis, driver) = self.open().await?;
            tokio::select! {
                biased;
                looked = self.nodes(&mut redis) => looked,
                () = driver => Err(closed()),
            }
        };
        timeout(limit, looked).await.unwrap_or_else(|_| Err(late(limit)))
    }

    async fn nodes(&self, redis: &mut MultiplexedConnection) -> Result<Option<Slots>, ConnectError> {
        match self.greet(redis).await?.is_node {
            Some(true) => slots(redis, &self.place.host).await.map(Some),
            Some(false) => Ok(None),
            // It may be a proxy, which knows neither question.
            None => Ok(slots(redis, &self.place.host).await.ok().filter(|slots| slots.covered > 0)),
        }
    }

    /// A connection with user, password and database, and the future that drives it.
    async fn open(&self) -> Result<(MultiplexedConnection, impl Future<Output = ()> + Send), ConnectError> {
        let place = &self.place;
        let absent =
            |error: io::Error| ConnectError::Failed(reason::ABSENT, format!("no connection: {error}"));
        let stream = TcpStream::connect((place.host.as_str(), place.port)).await.map_err(absent)?;
        stream.set_nodelay(true).map_err(absent)?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let stream: Stream = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = ServerName::try_from(place.host.clone()).map_err(|_| refused_name())?;
                Box::new(tls.connect(name, stream).await.map_err(|error| certificate(&error))?)
            }
        };
        let made = MultiplexedConnection::new_with_config(&self.settings, stream, config).await;
        made.map_err(|error| reason::refusal(&error))
    }

    /// Loads the script, and looks at what Redis says of itself.
    async fn greet(&self, redis: &mut MultiplexedConnection) -> Result<Greeting, ConnectError> {
        let load = cmd("SCRIPT").arg("LOAD").arg(self.script).query_async(redis).await;
        let script = match load.map_err(|error| reason::refusal(&error))? {
            Value::BulkString(name) => String::from_utf8_lossy(&name).into_owned(),
            Value::SimpleString(name) => name,
            _ => return Err(reason::unreadable()),
        };
        // A user without rights below the prefix would be refused all that it asks later. Removes nothing:
        // no key has this name. A node of a cluster that has not its slot looks at the rights first.
        let own = format!("{}:", self.place.prefix);
        let touched: Result<Value, RedisError> = cmd("DEL").arg(own).query_async(redis).await;
        if let Err(error) = touched
            && error.code() == Some("NOPERM")
        {
            return Err(reason::refusal(&error));
        }
        // A user may be forbidden to ask.
        let info: Result<Value, RedisError> = cmd("INFO").query_async(redis).await;
        let mut is_node = None;
        if let Ok(Value::BulkString(info)) = info {
            let told = reason::info(&String::from_utf8_lossy(&info), self.purpose)?;
            is_node = Some(told.is_node);
            if !self.is_warned.swap(true, Ordering::Relaxed) {
                for warning in told.warnings {
                    tracing::warn!(store = %self.place, "{warning}");
                }
            }
        }
        Ok(Greeting { script: script.into(), is_node })
    }
}

/// The nodes of a cluster, as the one at the host `asked` says them on this connection.
pub(super) async fn slots(redis: &mut MultiplexedConnection, asked: &str) -> Result<Slots, ConnectError> {
    let told: Result<Value, RedisError> = cmd("CLUSTER").arg("SLOTS").query_async(redis).await;
    let told = told.map_err(|error| reason::untold(&error))?;
    Slots::read(told, asked).ok_or_else(reason::unreadable)
}

/// Ends when an answer is late.
async fn heartbeat(mut redis: MultiplexedConnection, limit: Duration) {
    loop {
        sleep(HEARTBEAT).await;
        match timeout(limit, cmd("PING").query_async::<Value>(&mut redis)).await {
            Ok(Ok(_)) => {}
            _ => return,
        }
    }
}

pub(super) fn late(limit: Duration) -> ConnectError {
    let detail = format!("no answer within {}", humantime::format_duration(limit));
    ConnectError::Failed(reason::LATE, detail)
}

fn closed() -> ConnectError {
    ConnectError::Failed(reason::LOST, "it closed the connection".to_owned())
}

pub(super) fn longer(pause: Duration) -> Duration {
    (pause * 2).min(PAUSES.1)
}

/// From 0 to 1, by chance enough.
fn jitter() -> f64 {
    let nanos = since_1970(SystemTime::now());
    f64::from(nanos.subsec_nanos() % 1000) / 1000.0
}

/// The TLS side of a connection, if it is wanted.
async fn tls(place: &RedisPlace) -> Result<Option<TlsConnector>, String> {
    if !place.tls {
        return Ok(None);
    }
    let config = trust::tls().await.map_err(|error| error.to_string())?;
    Ok(Some(TlsConnector::from(config)))
}

fn refused_name() -> ConnectError {
    ConnectError::Refused(
        "no certificate can be for its name".to_owned(),
        "write the name that is in the certificate: `rediss://cache.example.com`",
    )
}

/// The error of a handshake that failed.
fn certificate(error: &io::Error) -> ConnectError {
    let is_of_tls = error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
    if !is_of_tls {
        return ConnectError::Failed(reason::ABSENT, format!("no connection: {error}"));
    }
    let why = error.get_ref().map(|inner| inner as &dyn StdError).map(ToString::to_string);
    ConnectError::Refused(
        format!("no TLS: {}", why.unwrap_or_default()),
        "the certificate has to be one that the system trusts, `SSL_CERT_FILE=ca.pem` names others, and for \
         this host; without TLS the address begins with `redis://`",
    )
}
