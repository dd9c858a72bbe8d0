//! Connections to a Redis: made, watched, and made again when they are lost.
//!
//! Place in the flow: the stores of values and of jobs send their commands here. In: a command. Out: the
//! reply, or a reason why there is none.
//! Invariants: a command is sent at most once; no call waits for longer than the place's `timeout`, and
//! none at all while Redis cannot be reached; a connection on which something was not answered in time is
//! closed, since nothing behind it would be; as many commands as [`WAITING`] are on their way at once.
//! Texts for handlers name no address; logs do, without the password.

use std::error::Error as StdError;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hyper_rustls::ConfigBuilderExt as _;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value, cmd};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::reason::{self, ConnectError, Effect};
use super::{OpenError, Purpose, RedisPlace, Unavailable};
use crate::throttle::Throttle;
use crate::time::since_1970;

/// Connections.
const CONNECTIONS: usize = 4;
/// Commands on their way at once.
const WAITING: usize = 1024;
/// How often an idle connection is tried.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// The pause after the first failure to connect, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(3));
/// How long the start waits for a Redis that is not there yet.
const START: Duration = Duration::from_secs(10);

/// Connections to one Redis.
pub struct Links {
    links: Vec<watch::Receiver<State>>,
    next: AtomicUsize,
    places: Semaphore,
    timeout: Duration,
    connector: Arc<Connector>,
    /// Of lines about commands that are refused.
    refusals: Throttle,
    /// They end with this.
    _tasks: JoinSet<()>,
}

/// A connection.
#[derive(Clone)]
struct Connection {
    redis: MultiplexedConnection,
    /// The name of the script that is loaded.
    script: Arc<str>,
    /// Closes it.
    broken: Arc<Notify>,
}

/// TCP, or TLS on it.
type Stream = Box<dyn Pipe>;

trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

#[derive(Clone)]
enum State {
    /// For the first time, or anew after it was lost.
    Connecting,
    Up(Connection),
    /// And why.
    Down(&'static str),
}

/// Makes connections.
struct Connector {
    place: RedisPlace,
    /// User, password and database.
    settings: RedisConnectionInfo,
    tls: Option<TlsConnector>,
    /// The source of the script.
    script: &'static str,
    purpose: &'static Purpose,
    /// Whether its absence is in the log.
    is_missed: AtomicBool,
    /// Whether what it lacks is there.
    is_warned: AtomicBool,
}

impl Links {
    /// Connects, and goes on doing so.
    ///
    /// # Errors
    /// Redis is not there, or refuses.
    pub async fn open(
        place: &RedisPlace,
        script: &'static str,
        purpose: &'static Purpose,
    ) -> Result<Links, OpenError> {
        let failed = |why: String, hint| OpenError { place: place.to_string(), why, hint };
        let connector = Arc::new(Connector {
            place: place.clone(),
            settings: place.settings(),
            tls: tls(place)
                .map_err(|why| failed(why, "the system has to have certificates that it trusts"))?,
            script,
            purpose,
            is_missed: AtomicBool::new(false),
            is_warned: AtomicBool::new(false),
        });
        let until = Instant::now() + START;
        let mut pause = PAUSES.0;
        while let Err(error) = connector.try_once().await {
            match error {
                ConnectError::Refused(why, hint) => return Err(failed(why, hint)),
                ConnectError::Failed(_, why) if Instant::now() + pause >= until => {
                    return Err(failed(
                        why,
                        "start Redis first, or correct its address: `redis://HOST:PORT/0`",
                    ));
                }
                ConnectError::Failed(..) => sleep(pause).await,
            }
            pause = longer(pause);
        }
        let mut tasks = JoinSet::new();
        let links = (0..CONNECTIONS).map(|_| {
            let (state, seen) = watch::channel(State::Connecting);
            let connector = connector.clone();
            tasks.spawn(async move { connector.keep(&state).await });
            seen
        });
        Ok(Links {
            links: links.collect(),
            next: AtomicUsize::new(0),
            places: Semaphore::new(WAITING),
            timeout: place.timeout,
            connector,
            refusals: Throttle::default(),
            _tasks: tasks,
        })
    }

    /// Whether there is a connection now.
    pub fn is_up(&self) -> bool {
        self.links.iter().any(|link| matches!(*link.borrow(), State::Up(_)))
    }

    /// Runs the script with what `command` writes behind its name, `EVALSHA SHA` or `EVAL SOURCE`.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn run(&self, script: &str, command: impl Fn(&mut Cmd)) -> Result<Value, Unavailable> {
        let until = Instant::now() + self.timeout;
        let late = |_| Unavailable("Redis is too slow for what is asked of it".to_owned());
        let place = timeout_at(until, self.places.acquire()).await.map_err(late)?;
        let _place = place.map_err(|_| Unavailable("it is closed".to_owned()))?;
        let mut connection = timeout_at(until, self.connection()).await.map_err(late)??;
        let mut named = cmd("EVALSHA");
        command(named.arg(&*connection.script));
        let answered = match timeout_at(until, named.query_async(&mut connection.redis)).await {
            Ok(Err(error)) if error.code() == Some("NOSCRIPT") => {
                let mut whole = cmd("EVAL");
                command(whole.arg(script));
                timeout_at(until, whole.query_async(&mut connection.redis)).await
            }
            other => other,
        };
        match answered {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                let (reason, effect) = reason::reason(&error);
                match effect {
                    // The loss of the connection is told.
                    Effect::Reconnect => connection.broken.notify_one(),
                    Effect::None => self.tell(reason, &error),
                }
                Err(Unavailable(reason.to_owned()))
            }
            Err(_) => {
                connection.broken.notify_one();
                Err(Unavailable(reason::LATE.to_owned()))
            }
        }
    }

    /// Says in the log that Redis refuses a command over a connection that stays: now and then, since every
    /// request may be refused.
    fn tell(&self, reason: &str, error: &RedisError) {
        if self.refusals.is_due() {
            let Connector { place, purpose, .. } = &*self.connector;
            tracing::error!(store = %place, "{} is refused a command: {reason}: {error}", purpose.store);
        }
    }

    /// The reply to any command.
    #[cfg(test)]
    pub async fn ask(&self, command: &[&str]) -> Value {
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
                State::Connecting => comes = comes.or(Some(link)),
                State::Down(reason) => why = reason,
            }
        }
        let mut link = comes.cloned().ok_or_else(|| Unavailable(why.to_owned()))?;
        let settled = link.wait_for(|state| !matches!(state, State::Connecting)).await;
        match settled.as_deref() {
            Ok(State::Up(connection)) => Ok(connection.clone()),
            Ok(State::Down(reason)) => Err(Unavailable((*reason).to_owned())),
            Ok(State::Connecting) | Err(_) => Err(Unavailable(reason::LOST.to_owned())),
        }
    }
}

impl Connector {
    /// Keeps one connection, for ever.
    async fn keep(&self, state: &watch::Sender<State>) {
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
                tracing::error!(store = %self.place, "{} cannot be used: {why}", self.purpose.store);
            }
            // Hosts that lost it together do not come back together.
            sleep(pause.mul_f64(0.5 + jitter())).await;
            pause = longer(pause);
        }
    }

    /// Connects, and drives the connection until it is lost: for that reason.
    async fn connected(&self, state: &watch::Sender<State>) -> Result<&'static str, ConnectError> {
        let limit = self.place.timeout;
        let opened = timeout(limit, self.open()).await.unwrap_or_else(|_| Err(late(limit)));
        let (mut redis, driver) = opened?;
        let mut driver = pin!(driver);
        let script = tokio::select! {
            biased;
            () = &mut driver => return Err(closed()),
            script = timeout(limit, self.greet(&mut redis)) => script.unwrap_or_else(|_| Err(late(limit)))?,
        };
        let broken = Arc::new(Notify::new());
        state.send_replace(State::Up(Connection { redis: redis.clone(), script, broken: broken.clone() }));
        if self.is_missed.swap(false, Ordering::Relaxed) {
            tracing::info!(store = %self.place, "{} can be used again", self.purpose.store);
        }
        Ok(tokio::select! {
            () = &mut driver => "the connection was lost",
            () = broken.notified() => "it did not answer in time, or takes no writes",
            () = heartbeat(redis, limit) => "it did not answer in time",
        })
    }

    /// Connects once, and lets go.
    async fn try_once(&self) -> Result<(), ConnectError> {
        let limit = self.place.timeout;
        let greeted = async {
            let (mut redis, driver) = self.open().await?;
            tokio::select! {
                biased;
                greeted = self.greet(&mut redis) => greeted.map(drop),
                () = driver => Err(closed()),
            }
        };
        timeout(limit, greeted).await.unwrap_or_else(|_| Err(late(limit)))
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

    /// Loads the script, and looks at what Redis says of itself. Gives the script's name.
    async fn greet(&self, redis: &mut MultiplexedConnection) -> Result<Arc<str>, ConnectError> {
        let load = cmd("SCRIPT").arg("LOAD").arg(self.script).query_async(redis).await;
        let script = match load.map_err(|error| reason::refusal(&error))? {
            Value::BulkString(name) => String::from_utf8_lossy(&name).into_owned(),
            Value::SimpleString(name) => name,
            _ => {
                return Err(ConnectError::Failed(
                    reason::LOST,
                    "it does not answer as Redis does".to_owned(),
                ));
            }
        };
        // A user without rights below the prefix would be refused all that it asks later. Removes nothing: no
        // key has this name.
        let own = format!("{}:", self.place.prefix);
        let touched: Result<Value, RedisError> = cmd("DEL").arg(own).query_async(redis).await;
        if let Err(error) = touched
            && error.code() == Some("NOPERM")
        {
            return Err(reason::refusal(&error));
        }
        // A user may be forbidden to ask.
        let info: Result<Value, RedisError> = cmd("INFO").query_async(redis).await;
        if let Ok(Value::BulkString(info)) = info {
            let warnings = reason::info(&String::from_utf8_lossy(&info), self.purpose)?;
            if !self.is_warned.swap(true, Ordering::Relaxed) {
                for warning in warnings {
                    tracing::warn!(store = %self.place, "{warning}");
                }
            }
        }
        Ok(script.into())
    }
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

fn late(limit: Duration) -> ConnectError {
    let detail = format!("no answer within {}", humantime::format_duration(limit));
    ConnectError::Failed(reason::LATE, detail)
}

fn closed() -> ConnectError {
    ConnectError::Failed(reason::LOST, "it closed the connection".to_owned())
}

fn longer(pause: Duration) -> Duration {
    (pause * 2).min(PAUSES.1)
}

/// From 0 to 1, by chance enough.
fn jitter() -> f64 {
    let nanos = since_1970(SystemTime::now());
    f64::from(nanos.subsec_nanos() % 1000) / 1000.0
}

/// The TLS side of a connection, if it is wanted.
fn tls(place: &RedisPlace) -> Result<Option<TlsConnector>, String> {
    if !place.tls {
        return Ok(None);
    }
    let config = rustls::ClientConfig::builder().with_native_roots().map_err(|error| error.to_string())?;
    Ok(Some(TlsConnector::from(Arc::new(config.with_no_client_auth()))))
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
