//! TLS: certificate and key of a listener, as their files are now.
//!
//! Place in the flow: between a connection's socket and HTTP, see `listen`.
//! In: two PEM files. Out: an encrypted stream that offers HTTP/2 and HTTP/1.1, TLS 1.3 and 1.2.
//! Invariants: what is served has been checked, chain and key belonging together; files that change to
//! something that does not pass leave the old ones in service; nothing here prints what is in a key's file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::file;
use crate::file::stamp::FileStamp;
use crate::text::on_one_line;

/// How often the files are looked at. A change counts once it has held still for as long.
const INTERVAL: Duration = Duration::from_millis(200);
/// The protocols that clients may choose of, best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Where certificate and key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The chain in PEM, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its private key in PEM, not encrypted.
    pub key: PathBuf,
}

/// Why certificate and key cannot be served. The text is for the operator and names the file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum TlsError {
    #[error(
        "cannot read `{path}`: {cause}\n  hint: `--tls-cert` and `--tls-key` name files that the host may read"
    )]
    Read { path: String, cause: std::io::Error },
    #[error(
        "`{path}` holds no certificate in PEM\n  hint: give the chain, `-----BEGIN CERTIFICATE-----` and so on, the \
         server's own first"
    )]
    NoCertificate { path: String },
    #[error(
        "`{path}` holds no private key in PEM that is not encrypted\n  hint: `openssl pkey -in FILE -out KEY` takes the \
         password off"
    )]
    NoKey { path: String },
    #[error(
        "the key `{key}` is not that of the first certificate in `{certificate}`\n  hint: give the pair as it was issued"
    )]
    Mismatch { certificate: String, key: String },
    #[error(
        "cannot serve `{certificate}`: {cause}\n  hint: give a certificate and a key as a browser would take them"
    )]
    Refused { certificate: String, cause: rustls::Error },
}

/// A listener's certificate and key.
pub struct Tls {
    files: Files,
    /// The stamps of the files when they were read last.
    stamps: [FileStamp; 2],
    current: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub async fn load(files: &Files) -> Result<Tls, TlsError> {
        // Taken before the files are read: what lands in between is noticed.
        let stamps = stamps(files).await;
        let current = ArcSwap::from(read(files).await?);
        Ok(Tls { files: files.clone(), stamps, current })
    }

    /// The handshake of one connection.
    ///
    /// # Errors
    /// The client speaks no TLS, none that both know, or went away.
    pub async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.current.load_full()).accept(stream).await
    }

    /// Follows the files for ever; drop the future to stop. Connections that are open keep the certificate
    /// they began with.
    pub async fn follow(&self) {
        let (mut served, mut last) = (self.stamps, self.stamps);
        loop {
            tokio::time::sleep(INTERVAL).await;
            let now = stamps(&self.files).await;
            if now == served || now != last {
                last = now;
                continue;
            }
            // Taken or refused, these versions of the files have had their chance.
            served = now;
            match read(&self.files).await {
                Ok(new) => {
                    self.current.store(new);
                    tracing::info!(path = %self.files.certificate.display(), "certificate and key loaded again");
                }
                Err(error) => {
                    let error = on_one_line(&error);
                    tracing::error!("new certificate or key refused, the old ones go on serving: {error}");
                }
            }
        }
    }
}

async fn stamps(files: &Files) -> [FileStamp; 2] {
    [FileStamp::of(&files.certificate).await, FileStamp::of(&files.key).await]
}

async fn read(files: &Files) -> Result<Arc<ServerConfig>, TlsError> {
    let shown = |path: &Path| path.display().to_string();
    let (certificate, key) = (shown(&files.certificate), shown(&files.key));
    let bytes = async |path: &Path| {
        file::read_async(path, file::TEXT).await.map_err(|cause| TlsError::Read { path: shown(path), cause })
    };
    let chain = bytes(&files.certificate).await?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, PemError>>()
        .ok()
        .filter(|chain: &Vec<_>| !chain.is_empty())
        .ok_or_else(|| TlsError::NoCertificate { path: certificate.clone() })?;
    // The cause is not told: it might quote the file.
    let private = PrivateKeyDer::from_pem_slice(&bytes(&files.key).await?)
        .map_err(|_| TlsError::NoKey { path: key.clone() })?;
    let refused = |cause| match cause {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::Mismatch { certificate: certificate.clone(), key: key.clone() }
        }
        cause => TlsError::Refused { certificate: certificate.clone(), cause },
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(refused)?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_that_hold_nothing_of_the_kind_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let text = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let nothing = text("nothing.pem", "secret words\n");
        let broken = text("broken.pem", "-----BEGIN CERTIFICATE-----\n*secret*\n-----END CERTIFICATE-----\n");
        let absent = folder.path().join("absent.pem");
        for (certificate, expected) in
            [(&nothing, "no certificate"), (&broken, "no certificate"), (&absent, "cannot read")]
        {
            let files = Files { certificate: certificate.clone(), key: nothing.clone() };
            let error = Tls::load(&files).await.err().unwrap().to_string();
            assert!(error.contains(expected) && error.contains("hint: "), "{error}");
            assert!(error.contains(certificate.to_str().unwrap()) && !error.contains("secret"), "{error}");
        }
    }
}
