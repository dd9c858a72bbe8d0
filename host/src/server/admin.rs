//! The operator's listener: health, metrics, what is deployed; behind a key of its own, if there is one.
//!
//! Place in the flow: beside it, on a thread and runtime of its own, so that it answers while every worker is
//! busy.
//!
//! | method and path | answer |
//! |---|---|
//! | `GET /healthz`, `/v2/health/live`, `/v2/health/ready`, `/metrics` | as on the main listener |
//! | `/v2/…`, but for inference | as on the main listener; orders to load and unload are always taken |
//! | `/admin/v1/endpoints…` | what is deployed, and orders to deploy something else: [`endpoints`], [`trial`] |
//! | `/admin/v1/config…` | what became of the last configurations, and orders to serve another: [`configuration`] |
//! | `GET /admin/v1/logs` | the last lines of the log: [`logs`] |
//! | `GET /`, `/page/…` | the operator's page: [`page`] |

mod configuration;
mod endpoints;
mod guard;
mod logs;
mod page;
mod parameters;
mod timelines;
mod trial;

use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::ORIGIN;
use axum::middleware::{self, Next};
use axum::{Extension, Router};
use tokio::sync::oneshot;

use super::browser;
use super::head::{Operator, credentials};
use super::http::{HttpService, health, loading, method_not_allowed, not_found, refuse, v2};
use super::listen::{self, ConnectionConfig, Limits};
use super::served::Served;
use super::switch::ServiceSwitch;
use crate::drain::Drain;
use crate::error::Code;

use self::endpoints::Uploads;
pub use self::timelines::Timelines;

/// Connections of operators and their tools: enough for all, and within the files that are left beside those
/// of the endpoints.
const MAX_CONNECTIONS: usize = 256;
/// How long the last answers may take to be read, connections that come meanwhile included.
const FAREWELL: Duration = Duration::from_millis(300);

/// Serves the admin listener on its own thread until `stop` is dropped or sent: a client that asks during the
/// start or the drain gets an answer.
///
/// # Errors
/// The operating system refuses a thread, a runtime or the socket.
pub fn spawn(
    listener: std::net::TcpListener,
    switch: Arc<ServiceSwitch>,
    connections: ConnectionConfig,
    timelines: Arc<Timelines>,
    stop: oneshot::Receiver<()>,
) -> std::io::Result<JoinHandle<()>> {
    let limits = Limits { max_connections: MAX_CONNECTIONS, ..(*connections.limits).clone() };
    let connections = ConnectionConfig { limits: Arc::new(limits), ..connections };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => return tracing::error!("cannot serve the admin listener: {error}"),
            };
            let drain = Drain::default();
            let mut serving = pin!(listen::serve(listener, switch, drain.clone(), connections));
            tokio::select! {
                () = &mut serving => {}
                () = timelines.follow() => {}
                // Sent or dropped: both mean stop. What has been carried out is told.
                _ = stop => {
                    drain.begin();
                    let _ = tokio::time::timeout(FAREWELL, serving).await;
                }
            }
        });
    })
}

/// The service while everything is loading.
pub fn loading(served: &Arc<Served>) -> HttpService {
    guarded(loading::router(page::router(), served, true), served)
}

/// The service from then on, whose endpoints `timelines` follows.
pub fn service(served: &Arc<Served>, timelines: &Arc<Timelines>) -> HttpService {
    timelines.set_served(served);
    guarded(router(served).layer(Extension(timelines.clone())), served)
}

/// The service, behind its [`guard`].
fn guarded(router: Router<Arc<Served>>, served: &Arc<Served>) -> HttpService {
    let guard = async |State(served): State<Arc<Served>>, request: Request, next: Next| {
        let path = request.uri().path();
        if health::is_open(path) {
            return next.run(request).await;
        }
        let (mut parts, body) = request.into_parts();
        let forbidden = |text: String| browser::refused(StatusCode::FORBIDDEN, "forbidden", text);
        if let Err(name) = guard::is_addressed_here(&parts, &served.config.admin_hosts) {
            return forbidden(format!(
                "`{name}` is not known as a name of this host: ask by its address, or name it in `server.admin_hosts`"
            ));
        }
        let path = parts.uri.path();
        // A link to the page may stand anywhere.
        if path != page::PATH && browser::is_from_another_site(&parts.headers) {
            return forbidden("pages of other sites are not answered".to_owned());
        }
        // The page itself holds nothing, and asks for the key.
        if !page::is_open(path) && !served.config.admin_keys.admit(|| credentials(&parts.headers)) {
            let message = "the administration requires a key: send `authorization: Bearer KEY`";
            return refuse(Code::Unauthorized, message.to_owned(), &served, &parts.headers);
        }
        // For the routes it is a tool of the operator, as every request without `Origin`.
        if guard::is_own_page(&parts) {
            parts.headers.remove(ORIGIN);
        }
        let mut request = Request::from_parts(parts, body);
        request.extensions_mut().insert(Operator);
        next.run(request).await
    };
    let router = router.layer(middleware::from_fn_with_state(served.clone(), guard));
    HttpService::of(router.with_state(served.clone()))
}

fn router(served: &Arc<Served>) -> Router<Arc<Served>> {
    let mut router = Router::new();
    for (path, methods) in health::methods(served, true) {
        router = router.route(path, methods.with_state(()));
    }
    router
        .merge(v2::router(v2::Orders::Accepted))
        .merge(endpoints::router())
        .merge(trial::router())
        .merge(configuration::router())
        .merge(page::router())
        .route("/admin/v1/logs", logs::methods())
        .layer(Extension(Arc::new(Uploads::new())))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
}
