//! What was refused in a handler's file, and what served before, for the next start.
//!
//! Place in the flow: a swap that the file asked for says here what it came to; the start asks what is to be
//! made of the file.
//! In: digests, the components of good ones, reasons. Out: a page for each endpoint's file, in the folder of
//! the compile cache, and the last good component beside it.
//! Invariants: what the gate refused does not serve after a restart while the last good version is there,
//! even if the start cannot know of the requests that it was refused for; the other steps are taken again,
//! for what the handler is granted or given may have changed. Nothing here ends a start or a swap.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::DeployError;
use crate::blocking::off_thread;
use crate::endpoint::config::EndpointConfig;
use crate::file;
use crate::pipeline::Pipeline;
use crate::plugin::{Binary, LoadError, Sandbox, Shelf};
use crate::text::{self, hex};

/// Refusals that are remembered, the latest.
const MOST: usize = 16;
/// The end of the name of a page.
const PAGE: &str = ".refused";

/// The memory of one endpoint's file.
pub struct Ledger {
    shelf: Shelf,
    name: String,
    page: Mutex<Page>,
}

/// A page as it is on the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Page {
    /// For a person who looks at it.
    endpoint: String,
    /// SHA-256 of what served last.
    good: Option<String>,
    /// The latest is the last.
    refused: Vec<Refusal>,
}

/// A version that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Refusal {
    digest: String,
    step: String,
    why: String,
}

impl Page {
    fn refusal(&self, digest: &str) -> Option<&Refusal> {
        self.refused.iter().find(|refusal| refusal.digest == digest)
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.forget(&refusal.digest);
        if self.refused.len() == MOST {
            self.refused.remove(0);
        }
        self.refused.push(refusal);
    }

    fn forget(&mut self, digest: &str) {
        self.refused.retain(|refusal| refusal.digest != digest);
    }
}

impl Ledger {
    /// The memory of this endpoint's file; `None` if it has none, or there is no folder to keep it in.
    pub(super) async fn open(config: &EndpointConfig, sandbox: &Sandbox) -> Option<Ledger> {
        let (shelf, handler) = (sandbox.shelf()?, config.plugin.clone()?);
        let (endpoint, reader) = (config.name.clone(), shelf.clone());
        let name = name(&endpoint, &handler);
        let at = name.clone();
        let read = off_thread(move || reader.get(&at, file::TEXT)).await;
        let page = read.and_then(|page| {
            page.map(|page| serde_json::from_slice(&page).map_err(io::Error::from)).transpose()
        });
        let page = page.unwrap_or_else(|error| {
            tracing::warn!(endpoint, "cannot read which handlers were refused, in `{name}`: {error}");
            None
        });
        let page = page.unwrap_or_else(|| Page { endpoint, ..Page::default() });
        Some(Ledger { shelf, name, page: Mutex::new(page) })
    }

    /// Makes the first generation: of what is in the file, or of the last good version if that was refused
    /// and the refusal holds.
    ///
    /// # Errors
    /// Those of `make` for the last version that it was tried with.
    pub(super) async fn first<F>(
        &self,
        found: Binary,
        make: impl Fn(Binary) -> F,
    ) -> Result<Pipeline, DeployError>
    where
        F: std::future::Future<Output = Result<Pipeline, DeployError>>,
    {
        let refusal = self.page().refusal(found.digest()).cloned();
        let Some(Refusal { digest, step, why }) = refusal else {
            let made = make(found.clone()).await?;
            self.good(&found).await;
            return Ok(made);
        };
        let endpoint = self.page().endpoint.clone();
        let good = self.last_good().await;
        let is_gate = step == "gate";
        if !is_gate || good.is_none() {
            match make(found.clone()).await {
                Ok(made) if is_gate => {
                    tracing::warn!(
                        endpoint,
                        plugin.digest = digest,
                        "the gate refused the handler in the file, and no version before it is kept, so it serves: {why}"
                    );
                    return Ok(made);
                }
                Ok(made) => {
                    tracing::info!(
                        endpoint,
                        plugin.digest = digest,
                        "the handler in the file was refused before and passes now: {why}"
                    );
                    self.good(&found).await;
                    return Ok(made);
                }
                Err(error) if good.is_none() => return Err(error),
                Err(_) => {}
            }
        }
        // It is there, or this place is not reached.
        let good = good.unwrap_or(found);
        tracing::warn!(
            endpoint,
            plugin.digest = &**good.digest(),
            refused = digest,
            step,
            "the handler in the file was refused and does not serve, the last good version does: {why}; \
             hint: put another one there, or publish it with `modelhost swap`"
        );
        make(good).await
    }

    /// Whether this is the last version that was in the file and served.
    pub(super) fn is_good(&self, digest: &str) -> bool {
        self.page().good.as_deref() == Some(digest)
    }

    /// Notes that the version in the file serves.
    pub(super) async fn good(&self, handler: &Binary) {
        let (shelf, kept) = (self.shelf.clone(), handler.clone());
        let put = off_thread(move || {
            let name = component(kept.digest());
            if shelf.has(&name) { Ok(()) } else { shelf.put(&name, kept.bytes()) }
        });
        if let Err(error) = put.await {
            let endpoint = &self.page().endpoint;
            tracing::warn!(endpoint, "cannot keep the handler for a start after a refusal: {error}");
        }
        self.change(|page| {
            page.good = Some(handler.digest().to_string());
            page.forget(handler.digest());
        })
        .await;
    }

    /// It serves, wherever it came from.
    pub(super) async fn published(&self, digest: Option<&str>) {
        if let Some(digest) = digest {
            self.change(|page| page.forget(digest)).await;
        }
    }

    /// Notes that the version in the file was refused.
    pub(super) async fn refused(&self, digest: &str, error: &DeployError) {
        if is_of_handler(error) {
            let (digest, step) = (digest.to_owned(), error.step().to_owned());
            let why = text::cut(text::on_one_line(error));
            self.change(|page| page.refuse(Refusal { digest, step, why })).await;
        }
    }

    /// The last good version, as it was.
    async fn last_good(&self) -> Option<Binary> {
        let digest = self.page().good.clone()?;
        let (shelf, name) = (self.shelf.clone(), component(&digest));
        let read = off_thread(move || {
            shelf.has(&name);
            Ok(shelf.get(&name, Binary::LARGEST as u64)?.map(Binary::new))
        });
        read.await.ok().flatten().filter(|binary| **binary.digest() == *digest)
    }

    /// Changes the page, on the disk too if there is anything to remember.
    async fn change(&self, change: impl FnOnce(&mut Page)) {
        let (before, now) = {
            let mut page = self.page();
            let before = page.clone();
            change(&mut page);
            (before, page.clone())
        };
        let (shelf, name) = (self.shelf.clone(), self.name.clone());
        let written = match (before.refused.is_empty(), now.refused.is_empty()) {
            (true, true) => return,
            _ if before == now => return,
            (_, true) => off_thread(move || shelf.remove(&name)).await,
            (_, false) => off_thread(move || shelf.put(&name, &serde_json::to_vec_pretty(&now)?)).await,
        };
        if let Err(error) = written {
            let endpoint = before.endpoint;
            tracing::warn!(endpoint, "cannot note which handlers were refused: {error}");
        }
    }

    fn page(&self) -> MutexGuard<'_, Page> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an error is about the handler itself: nothing else is remembered of it.
fn is_of_handler(error: &DeployError) -> bool {
    match error {
        DeployError::Load { cause, .. } => !matches!(cause, LoadError::Project(_)),
        DeployError::Smoke { .. } | DeployError::Gate { .. } => true,
        _ => false,
    }
}

fn component(digest: &str) -> String {
    format!("{digest}{}", Shelf::HANDLER)
}

/// The page of an endpoint's file. Links on the way to it are not followed: they change with every version
/// where folders are switched.
fn name(endpoint: &str, handler: &Path) -> String {
    let handler = std::path::absolute(handler).unwrap_or_else(|_| handler.to_owned());
    let mut hasher = Sha256::new();
    hasher.update(endpoint);
    hasher.update([0]);
    hasher.update(handler.as_os_str().as_encoded_bytes());
    let digest = hex(&hasher.finalize());
    format!("{digest}{PAGE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(digest: &str) -> Refusal {
        Refusal { digest: digest.to_owned(), step: "gate".to_owned(), why: format!("{digest} is wrong") }
    }

    #[test]
    fn a_page_remembers_the_latest_refusals_once_each() {
        let mut page = Page::default();
        for n in 0..MOST + 3 {
            page.refuse(refusal(&n.to_string()));
        }
        assert_eq!(page.refused.len(), MOST);
        assert_eq!((page.refusal("2"), page.refusal("3")), (None, Some(&refusal("3"))));
        page.refuse(Refusal { step: "init".to_owned(), ..refusal("3") });
        assert_eq!(page.refused.len(), MOST);
        assert_eq!(page.refusal("3").unwrap().step, "init");
        page.forget("3");
        assert_eq!((page.refused.len(), page.refusal("3")), (MOST - 1, None));
    }

    #[test]
    fn a_page_belongs_to_one_endpoint_and_one_path() {
        let names = [("a", "/x/y"), ("a", "/x/z"), ("b", "/x/y"), ("a/", "x/y")];
        let names: Vec<String> = names.map(|(endpoint, path)| name(endpoint, Path::new(path))).to_vec();
        for (n, one) in names.iter().enumerate() {
            assert!(!names[..n].contains(one), "{n}");
        }
        assert_eq!(name("a", Path::new("/x/./y")), names[0]);
    }
}
