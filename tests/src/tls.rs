//! Certificates made for a test, and a client that trusts one of them alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::wire::Wire;

/// A certificate and its key, in files of a folder.
pub struct Pair {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A new certificate for this machine and the test's bucket of S3, and its key: PEM texts.
pub fn issue() -> (String, String) {
    let names = ["localhost", "127.0.0.1", "objects.localhost"].map(str::to_owned);
    let CertifiedKey { cert, signing_key }: CertifiedKey<KeyPair> =
        generate_simple_self_signed(names).expect("a certificate");
    (cert.pem(), signing_key.serialize_pem())
}

impl Pair {
    /// Issues a pair into `folder`.
    pub fn in_folder(folder: &Path) -> Pair {
        let pair = Pair { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
        pair.renew();
        pair
    }

    /// Puts a newly issued pair in place of this one, as tools do that issue them: one file after the other.
    pub fn renew(&self) {
        let (certificate, key) = issue();
        fs::write(&self.certificate, certificate).unwrap();
        fs::write(&self.key, key).unwrap();
    }

    /// The flags of `host serve` for it.
    pub fn flags(&self) -> [&str; 4] {
        ["--tls-cert", self.certificate.to_str().unwrap(), "--tls-key", self.key.to_str().unwrap()]
    }

    /// A connection to `https://HOST:PORT`, the handshake done, that trusts the certificate as it is now.
    ///
    /// # Errors
    /// The connection's, or the handshake's.
    pub fn connect(&self, url: &str) -> io::Result<Wire> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.certificate).unwrap()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        Wire::over(url, |socket| {
            let mut stream = StreamOwned::new(client, socket);
            stream.conn.complete_io(&mut stream.sock)?;
            Ok(Box::new(stream))
        })
    }
}
