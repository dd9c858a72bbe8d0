//! The certificates that this system trusts, for all connections that the host opens with TLS.
//!
//! Place in the flow: handlers' requests, webhooks, objects in a bucket and values in a Redis; nothing else
//! verifies a server. Out: one TLS configuration of the process.
//! Invariants: the certificates are read and parsed once, when TLS is first wanted, and on no worker of a
//! runtime: there are hundreds, in a file of 200 kB or a folder. A failure is not kept.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;

use crate::file;

/// The configuration, once it has been wanted.
static SHARED: OnceCell<Arc<ClientConfig>> = OnceCell::const_new();

/// The process's way to verify servers.
///
/// # Errors
/// The system's certificates cannot be read, or there are none.
pub async fn tls() -> io::Result<Arc<ClientConfig>> {
    let read = || async {
        let read = tokio::task::spawn_blocking(|| {
            let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
            if let Some(certificates) = variable("SSL_CERT_FILE") {
                look_at(Path::new(&certificates)).map_err(|error| named("SSL_CERT_FILE", &error))?;
            }
            if let Some(folders) = variable("SSL_CERT_DIR") {
                look_into(&folders).map_err(|error| named("SSL_CERT_DIR", &error))?;
            }
            let config = ClientConfig::builder().with_native_roots()?;
            Ok(Arc::new(config.with_no_client_auth()))
        });
        read.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    };
    SHARED.get_or_try_init(read).await.cloned()
}

/// Looks at a file of certificates before a library reads it whole: it is a regular one, and not too large.
fn look_at(path: &Path) -> io::Result<()> {
    let length = file::open(path).and_then(|file| Ok(file.metadata()?.len()));
    let why = match length {
        Ok(length) if length > file::TEXT => format!("it has {length} bytes, more than {}", file::TEXT),
        Ok(_) => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{}`: {why}", path.display())))
}

/// The same of all that is in these folders, but for folders and links that lead nowhere.
fn look_into(folders: &OsStr) -> io::Result<()> {
    let entries =
        std::env::split_paths(folders).filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.exists() && !path.is_dir()).try_for_each(|path| look_at(&path))
}

fn named(variable: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{error}, as `{variable}` says"))
}

/// One that trusts no server.
pub fn none() -> Arc<ClientConfig> {
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
    Arc::new(config.with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn certificates_are_read_once_for_all() {
        let (one, other) = tokio::join!(tls(), tls());
        let (one, other) = (one.unwrap(), other.unwrap());
        assert!(Arc::ptr_eq(&one, &other));
        assert!(Arc::ptr_eq(&one, &tls().await.unwrap()));
        assert!(!Arc::ptr_eq(&one, &none()));
    }

    #[test]
    fn what_is_no_file_of_certificates_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        std::fs::File::create(&path).unwrap().set_len(50 << 30).unwrap();
        for (path, expected) in [
            (&*path, "it has 53687091200 bytes, more than 16777216"),
            (Path::new("/dev/zero"), "it is a device, not a regular file"),
            (&*folder.path().join("none"), "No such file or directory"),
        ] {
            let error = look_at(path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let in_folder = |folder: &Path| look_into(folder.as_os_str()).map_err(|error| error.to_string());
        assert!(in_folder(folder.path()).unwrap_err().contains("ca.pem`: it has 53687091200 bytes"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        std::fs::create_dir(folder.path().join("more")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        assert_eq!(in_folder(folder.path()), Ok(()));
        assert_eq!(in_folder(Path::new("/nowhere")), Ok(()));
    }
}
