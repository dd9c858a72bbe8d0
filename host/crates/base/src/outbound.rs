//! Requests that handlers send: to the places that the operator has listed, and to no others.
//!
//! Place in the flow: a handler's `wasi:http/outgoing-handler`, see `plugin/wasi_http.rs`. One [`Outbound`]
//! for each loaded handler, with a pool of connections; the certificates are the process's, see `trust`.
//! In: a request. Out: its response, as it comes, or why there is none.
//! Invariants: scheme, host and port are on the list before a name is resolved; a connection goes to an
//! address that was looked at after resolving, so no name server can lead it elsewhere; addresses of this
//! machine, of private networks and of the cloud's metadata are refused unless they are listed themselves. No
//! redirect is followed and no proxy is asked. A request holds its place until the end of its response.

mod body;
mod call;
mod measured;
mod retry_after;
mod rule;
mod traced;
#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use tokio::sync::Semaphore;
use tower_service::Service;

use self::body::Limited;
pub use self::call::{OutboundAnswer, OutboundCall};
pub use self::retry_after::retry_after;
pub use self::rule::{Rule, Rules, UrlError};
pub use self::traced::stamp;
use crate::trust;

/// `user-agent` of the requests that are the server's own.
pub const AGENT: HeaderValue = HeaderValue::from_static(concat!("modelhost/", env!("CARGO_PKG_VERSION")));

/// Most names that are looked up for a handler at the same time; others wait.
const LOOKUPS: usize = 16;
/// Requests of one handler at the same time.
const CONCURRENCY: usize = 64;
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a response may take to begin, and from one piece to the next, unless the handler says less.
const WAIT: Duration = Duration::from_secs(60);

/// A body in pieces, in either direction.
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Why a body has no end; [`OutboundError`] where this side ended it.
pub type BodyError = Box<dyn StdError + Send + Sync>;

/// Why a request has no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// Scheme, host and port are not on the list.
    #[error("the place is not on the list `allow_outbound`")]
    Denied,
    /// The address is not.
    #[error("the address is of this machine or of a private network, and not on the list `allow_outbound`")]
    Prohibited,
    /// The name has no address.
    #[error("the name cannot be resolved")]
    Name,
    /// As many requests as may be are under way.
    #[error("too many requests are under way")]
    TooMany,
    /// Not in time.
    #[error("it took too long")]
    TimedOut,
    /// The certificate is not one that this system trusts, or not of this host.
    #[error("the certificate is refused")]
    Certificate,
    /// There is no connection.
    #[error("there is no connection")]
    Refused,
    /// The connection was there and has failed.
    #[error("the connection has failed")]
    Broken,
}

/// The addresses of a name, as the system knows them.
type Lookup = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// The addresses that the system knows of a host.
fn addresses(host: &str) -> io::Result<Vec<SocketAddr>> {
    Ok((host, 0).to_socket_addrs()?.collect())
}

/// How long a handler waits for a response; by default as long as it may.
#[derive(Debug, Clone, Copy, Default)]
pub struct Patience {
    /// For its head.
    pub first_byte: Option<Duration>,
    /// From one piece of its body to the next.
    pub between_bytes: Option<Duration>,
}

/// How a handler reaches others.
pub struct Outbound {
    rules: Arc<Rules>,
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Body>,
    places: Arc<Semaphore>,
}

impl Outbound {
    /// To the places of these rules, with the certificates that the system trusts.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn new(rules: Rules) -> io::Result<Outbound> {
        Ok(Outbound::with(rules, addresses, trust::tls().await?))
    }

    /// To the places of these rules, without TLS: no certificate is read.
    pub fn without_tls(rules: Rules) -> Outbound {
        Outbound::with(rules, addresses, trust::none())
    }

    /// To no place.
    pub fn nowhere() -> Outbound {
        Outbound::with(Rules::default(), |_| Ok(Vec::new()), trust::none())
    }

    fn with(rules: Rules, lookup: Lookup, tls: Arc<ClientConfig>) -> Outbound {
        let rules = Arc::new(rules);
        let lookups = Arc::new(Semaphore::new(LOOKUPS));
        let mut connector =
            HttpConnector::new_with_resolver(Resolver { rules: rules.clone(), lookup, lookups });
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        let connector = HttpsConnector::from((connector, tls));
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(8)
            .build(connector);
        Outbound { rules, client, places: Arc::new(Semaphore::new(CONCURRENCY)) }
    }

    /// With this many requests at the same time, instead of as many as a handler has.
    #[must_use]
    pub fn with_places(self, places: usize) -> Outbound {
        Outbound { places: Arc::new(Semaphore::new(places)), ..self }
    }

    /// Sends a request. Its response ends with its body; what is dropped of it is not waited for.
    ///
    /// # Errors
    /// [`OutboundError`].
    pub fn send(
        &self,
        request: Request<Body>,
        patience: Patience,
    ) -> impl Future<Output = Result<Response<Body>, OutboundError>> + Send + use<> {
        let checked = self.check(request.uri());
        let sent = checked.map(|()| (self.client.clone(), self.places.clone()));
        async move {
            let (client, places) = sent?;
            let place = places.try_acquire_owned().map_err(|_| OutboundError::TooMany)?;
            let time = |own: Option<Duration>| own.unwrap_or(WAIT).min(WAIT);
            let response = async { client.request(measured::measured(request).await).await };
            let response = tokio::time::timeout(time(patience.first_byte), response).await;
            let response = response.map_err(|_| OutboundError::TimedOut)?.map_err(|error| reason(&error))?;
            let wait = time(patience.between_bytes);
            Ok(response.map(|body| Limited::new(body, wait, place).boxed_unsync()))
        }
    }

    /// Looks at a request's place: all but the addresses of its name.
    fn check(&self, uri: &Uri) -> Result<(), OutboundError> {
        let (scheme, host, port) = rule::place(uri);
        if !self.rules.allows(scheme, host, port) {
            return Err(OutboundError::Denied);
        }
        match host.parse::<IpAddr>() {
            Ok(address) if !self.rules.allows_address(host, address) => Err(OutboundError::Prohibited),
            _ => Ok(()),
        }
    }
}

/// Resolves names to those of their addresses that may be connected to.
#[derive(Clone)]
struct Resolver {
    rules: Arc<Rules>,
    lookup: Lookup,
    lookups: Arc<Semaphore>,
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Resolver { rules, lookup, lookups } = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            // Given back by the lookup, which nothing cuts off, and not by who has asked for it.
            let place = lookups.acquire_owned().await.map_err(io::Error::other)?;
            let found = tokio::task::spawn_blocking({
                let host = host.clone();
                move || {
                    let found = lookup(&host);
                    drop(place);
                    found
                }
            });
            let name_error = |_| io::Error::other(OutboundError::Name);
            let found = found.await.map_err(io::Error::other)?.map_err(name_error)?;
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|address| rules.allows_address(&host, address.ip())).collect();
            if allowed.is_empty() {
                return Err(io::Error::other(OutboundError::Prohibited));
            }
            Ok(allowed.into_iter())
        })
    }
}

/// Finds in a client's error what a handler is told.
fn reason(error: &hyper_util::client::legacy::Error) -> OutboundError {
    let found = std::iter::successors(error.source(), |&cause| match cause.downcast_ref::<io::Error>() {
        // Its source is that of the error within, which is passed over.
        Some(outer) => outer.get_ref().map(|inner| inner as &dyn StdError),
        None => cause.source(),
    })
    .find_map(|cause| match cause.downcast_ref::<OutboundError>() {
        Some(own) => Some(*own),
        None => cause.is::<rustls::Error>().then_some(OutboundError::Certificate),
    });
    found.unwrap_or(if error.is_connect() { OutboundError::Refused } else { OutboundError::Broken })
}
