//! A server of a test's own that speaks S3's protocol and checks signatures. It can be stopped and killed, and forgets its
//! objects then.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::Process;
use crate::tls::Pair;
use crate::{existing, root};

/// The server's one key, which is its name as well.
pub const KEY: &str = "one-key";
/// The server's one bucket.
pub const BUCKET: &str = "objects";

/// A running server.
pub struct S3 {
    process: Process,
    folder: TempDir,
    tls: Vec<PathBuf>,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

impl S3 {
    /// One with an empty bucket.
    pub fn start() -> S3 {
        S3::of(Vec::new())
    }

    /// The same over TLS, with this certificate.
    pub fn over_tls(pair: &Pair) -> S3 {
        S3::of(vec![pair.certificate.clone(), pair.key.clone()])
    }

    fn of(tls: Vec<PathBuf>) -> S3 {
        let (process, port) = start(0, &tls);
        S3 { process, folder: tempfile::tempdir().unwrap(), tls, port }
    }

    /// The configuration of a store in it, below this prefix, with this key.
    pub fn store(&self, prefix: &str, secret_key: &str) -> String {
        let key = self.folder.path().join("access-key");
        std::fs::write(&key, KEY).unwrap();
        let secret = self.folder.path().join(format!("secret-{secret_key}"));
        std::fs::write(&secret, format!("{secret_key}\n")).unwrap();
        let scheme = if self.tls.is_empty() { "http" } else { "https" };
        format!(
            "[blobs]\nstore = \"s3://{BUCKET}/{prefix}\"\nserver = \"{scheme}://127.0.0.1:{}\"\ntimeout = \"20s\"\n\
             access_key = \"@{}\"\nsecret_key = \"@{}\"",
            self.port,
            key.display(),
            secret.display()
        )
    }

    /// Sends a signal by its name: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again, with an empty bucket.
    pub fn restart(&mut self) {
        (self.process, self.port) = start(self.port, &self.tls);
    }
}

/// Starts it, and waits until it is there: at this port, or at the free one that it says it has.
fn start(port: u16, tls: &[PathBuf]) -> (Process, u16) {
    let python = existing(root().join("target/venv/bin/python"), "scripts/s3.sh");
    let mut command = Command::new(python);
    command.arg(root().join("tests/s3/server.py")).args([&port.to_string(), BUCKET, KEY, KEY]).args(tls);
    let mut process = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut lines = BufReader::new(process.stdout()).lines();
    let port = lines.find_map(|line| line.ok()?.strip_prefix("ready ")?.parse().ok());
    (process, port.expect("the S3 server has ended; hint: run `scripts/s3.sh` first"))
}
