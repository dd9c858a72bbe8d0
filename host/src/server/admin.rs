//! The operator's listener: health, metrics, what is deployed.
//!
//! Place in the flow: beside it, on a thread and runtime of its own, so that it answers while every worker is busy.
//!
//! | method and path | answer |
//! |---|---|
//! | `GET /healthz`, `/v2/health/live`, `/v2/health/ready`, `/metrics` | as on the main listener |
//! | `GET /admin/v1/endpoints` | every endpoint: generation, digest, last swap and why it was refused |

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::http::{Site, health, method_not_allowed, not_found};
use super::{Served, listen};

/// Serves the admin listener on its own thread until `stop` is dropped or sent: whoever asks during the drain gets an
/// answer.
///
/// # Errors
/// The operating system refuses a thread, a runtime or the socket.
pub fn spawn(
    listener: std::net::TcpListener,
    served: Arc<Served>,
    stop: oneshot::Receiver<()>,
) -> std::io::Result<JoinHandle<()>> {
    let site = Arc::new(Site::of(router(&served)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => return tracing::error!("cannot serve the admin listener: {error}"),
            };
            tokio::select! {
                () = listen::serve(listener, site, listen::Drain::default()) => {}
                // Sent or dropped: both mean stop.
                _ = stop => {}
            }
        });
    })
}

fn router(served: &Arc<Served>) -> Router {
    let mut router = Router::new();
    for (path, methods) in health::methods(served, true) {
        router = router.route(path, methods.with_state(()));
    }
    router
        .route("/admin/v1/endpoints", get(endpoints).with_state(served.clone()))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .with_state(served.clone())
}

async fn endpoints(State(served): State<Arc<Served>>) -> impl IntoResponse {
    let mut answer: Vec<Value> = Vec::with_capacity(served.endpoints.len());
    for endpoint in &served.endpoints {
        let current = endpoint.current();
        let published = current.published.duration_since(SystemTime::UNIX_EPOCH);
        answer.push(json!({
            "name": endpoint.config.name,
            "path": endpoint.config.path,
            "generation": current.number,
            "digest": current.digest,
            "published": published.map_or(0, |since| since.as_secs()),
            "last_swap": endpoint.last_swap(),
        }));
    }
    Json(json!({ "endpoints": answer }))
}
