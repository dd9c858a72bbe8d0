//! The key that signs requests to a server of objects, as it is now.
//!
//! Place in the flow: `config/` reads it and says where it came from; `object_store` asks for it before each
//! request. In: files of the operator's, which another program writes anew before the key in them ends. Out:
//! the key. Invariants: no text of this file's holds a secret; a key that cannot be read leaves the one
//! before; the files are read once in [`INTERVAL`], and once in [`PAUSE`] while the server refuses the key,
//! on no worker. What the platform gives out is no part of this: `object_store` keeps it, and renews it
//! in time.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use object_store::azure::{AzureAccessKey, AzureCredential};

use crate::file;

/// How long a key is used before its files are looked at again.
const INTERVAL: Duration = Duration::from_secs(60);
/// The least time between two looks at them where the server refuses the key.
const PAUSE: Duration = Duration::from_millis(500);

/// A key and its secret: of S3 both; of Azure the account's key, of Google the file of a service account, as
/// the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name of the key.
    pub access_key: String,
    /// The key.
    pub secret_key: String,
    /// The token that belongs to a key which does not last.
    pub session_token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_token = self.session_token.is_some();
        f.debug_struct("Credentials").field("has_session_token", &has_token).finish_non_exhaustive()
    }
}

/// The files that the parts of a key were read from; `None` for what is no file and stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CredentialFiles {
    /// Of the name of the key.
    pub access_key: Option<PathBuf>,
    /// Of the key.
    pub secret_key: Option<PathBuf>,
    /// Of the token.
    pub session_token: Option<PathBuf>,
}

impl CredentialFiles {
    fn is_none(&self) -> bool {
        *self == CredentialFiles::default()
    }

    /// The credentials of the files now, `before` for those without one. `None` if one cannot be read.
    fn read(&self, before: &Credentials) -> Option<Credentials> {
        let text = |path: &Option<PathBuf>, before: &str| match path {
            None => Some(before.to_owned()),
            Some(path) => {
                let text = file::text(path).ok()?;
                Some(text.trim().to_owned()).filter(|text| !text.is_empty())
            }
        };
        let token = |before: &String| text(&self.session_token, before);
        Some(Credentials {
            access_key: text(&self.access_key, &before.access_key)?,
            secret_key: text(&self.secret_key, &before.secret_key)?,
            session_token: match &before.session_token {
                Some(before) => Some(token(before)?),
                None => None,
            },
        })
    }
}

/// The key of a store.
pub(super) struct CurrentCredentials {
    now: ArcSwap<Credentials>,
    files: CredentialFiles,
    /// When the files were looked at last.
    looked: Mutex<Instant>,
}

impl CurrentCredentials {
    pub(super) fn new(credentials: Credentials, files: CredentialFiles) -> CurrentCredentials {
        let now = ArcSwap::from_pointee(credentials);
        CurrentCredentials { now, files, looked: Mutex::new(Instant::now()) }
    }

    /// The key to sign the next request by.
    pub(super) async fn current(&self) -> Arc<Credentials> {
        if self.is_due(INTERVAL) {
            self.look().await;
        }
        self.now.load_full()
    }

    /// The server has refused this key. Whether there is another one now.
    pub(super) async fn replaced(&self, refused: &Credentials) -> bool {
        if *self.now.load_full() == *refused && self.is_due(PAUSE) {
            self.look().await;
        }
        *self.now.load_full() != *refused
    }

    /// The key that was used last.
    pub(super) fn used(&self) -> Arc<Credentials> {
        self.now.load_full()
    }

    fn is_due(&self, pause: Duration) -> bool {
        if self.files.is_none() {
            return false;
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = looked.elapsed() >= pause;
        if is_due {
            *looked = Instant::now();
        }
        is_due
    }

    async fn look(&self) {
        let (files, before) = (self.files.clone(), self.now.load_full());
        let found = tokio::task::spawn_blocking({
            let before = before.clone();
            move || files.read(&before)
        });
        match found.await.ok().flatten() {
            Some(found) if found != *before => {
                tracing::info!("the key for the store of objects is another one now");
                self.now.store(Arc::new(found));
            }
            Some(_) => {}
            None => {
                tracing::warn!("the key for the store of objects cannot be read again: the one before stays")
            }
        }
    }
}

impl fmt::Debug for CurrentCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentCredentials").finish_non_exhaustive()
    }
}

/// As S3 is signed to.
#[derive(Debug)]
pub(super) struct ForS3(pub(super) Arc<CurrentCredentials>);

#[async_trait]
impl CredentialProvider for ForS3 {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let Credentials { access_key, secret_key, session_token } = (*self.0.current().await).clone();
        Ok(Arc::new(AwsCredential { key_id: access_key, secret_key, token: session_token }))
    }
}

/// As Azure is signed to.
#[derive(Debug)]
pub(super) struct ForAzure(pub(super) Arc<CurrentCredentials>);

#[async_trait]
impl CredentialProvider for ForAzure {
    type Credential = AzureCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AzureCredential>> {
        let key = AzureAccessKey::try_new(&self.0.current().await.secret_key)?;
        Ok(Arc::new(AzureCredential::AccessKey(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_is_what_its_files_hold_now() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
        let files = CredentialFiles {
            access_key: None,
            secret_key: Some(path("key")),
            session_token: Some(path("token")),
        };
        let first = Credentials {
            access_key: "name".to_owned(),
            secret_key: "one".to_owned(),
            session_token: Some("old".to_owned()),
        };
        let current = CurrentCredentials::new(first.clone(), files);
        let later = || *current.looked.lock().unwrap() = Instant::now().checked_sub(PAUSE).unwrap();
        write("key", "two\n");
        assert!(!current.replaced(&first).await, "looked at just now");
        later();
        assert!(!current.replaced(&first).await, "a part of it cannot be read");
        write("token", " new ");
        later();
        assert!(current.replaced(&first).await);
        let now = current.current().await;
        assert_eq!(
            (&*now.access_key, &*now.secret_key, now.session_token.as_deref()),
            ("name", "two", Some("new"))
        );
        assert!(current.replaced(&first).await, "nothing is read for that");
        write("key", "");
        later();
        assert!(!current.replaced(&now).await);
        write("key", "three");
        *current.looked.lock().unwrap() = Instant::now().checked_sub(INTERVAL).unwrap();
        assert_eq!(current.current().await.secret_key, "three", "without a refusal");
        assert!(!format!("{now:?}").contains("two"));
    }
}
