//! A Redis server of a test's own, which can be stopped and killed.
//!
//! It writes what it answers to its disk first (`appendfsync always`), in a folder that outlives the process.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::process::Process;
use crate::{existing, root, wait_until};

/// Where a store of a test is, as long as this is there: in a file of its host, or in a Redis. What a handler sees is the
/// same.
pub enum Kept {
    /// In a file in this folder.
    File(TempDir),
    /// In this server.
    Redis(Redis),
}

impl Kept {
    /// One of each.
    pub fn each() -> [Kept; 2] {
        [Kept::File(tempfile::tempdir().unwrap()), Kept::Redis(Redis::start(&[]))]
    }

    /// The configuration of a store, `kv` or `jobs`, that is there.
    pub fn store(&self, name: &str) -> String {
        let place = match self {
            Kept::File(folder) => folder.path().join("store.redb").display().to_string(),
            Kept::Redis(redis) => redis.url(),
        };
        format!("[{name}]\nstore = {place:?}")
    }
}

/// A running server.
pub struct Redis {
    process: Process,
    folder: TempDir,
    arguments: Vec<String>,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

impl Redis {
    /// One with these arguments more.
    pub fn start(arguments: &[&str]) -> Redis {
        let mut folder = tempfile::tempdir().unwrap();
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        // Redis takes no port 0, and ends where its port has been taken meanwhile. A node of a cluster ends as well where
        // there is no port 10,000 above it: one free port in five.
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let process = start(&folder, port, &arguments);
            let mut redis = Redis { process, folder, arguments: arguments.clone(), port };
            if redis.answers() {
                return redis;
            }
            folder = redis.folder;
        }
        panic!("Redis does not start with {arguments:?}");
    }

    /// Its address, of database 0.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The configuration of a store in it.
    pub fn store(&self) -> String {
        format!("[kv]\nstore = {:?}", self.url())
    }

    /// The answer to a command, as it comes.
    pub fn ask(&self, command: &str) -> String {
        ask(self.port, command).unwrap()
    }

    /// Sends a signal by its name: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again, with what it has on its disk.
    pub fn restart(&mut self) {
        self.process = start(&self.folder, self.port, &self.arguments);
        assert!(self.answers(), "Redis does not start again at port {}", self.port);
    }

    /// Waits until it answers; false once it has ended.
    fn answers(&mut self) -> bool {
        let is_there = |answer: std::io::Result<String>| {
            answer.is_ok_and(|answer| answer.starts_with("+PONG") || answer.starts_with("-NOAUTH"))
        };
        let plain = !self.arguments.iter().any(|argument| argument == "--tls-port");
        let mut has_ended = false;
        wait_until("Redis to answer", || {
            has_ended = self.process.has_ended();
            has_ended
                || match plain {
                    true => is_there(ask(self.port, "PING")),
                    false => TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
                }
        });
        !has_ended
    }
}

fn start(folder: &TempDir, port: u16, arguments: &[String]) -> Process {
    let program = existing(root().join("target/tools/redis-server"), "scripts/redis.sh");
    let port = port.to_string();
    let is_tls = arguments.iter().any(|argument| argument == "--tls-port");
    let arguments = arguments.iter().map(|argument| if argument == "PORT" { &port } else { argument });
    let mut command = Command::new(program);
    command
        .current_dir(folder.path())
        .args(["--port", if is_tls { "0" } else { &port }, "--bind", "127.0.0.1", "--save", ""])
        .args(["--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning"])
        .args(arguments);
    Process::start(command.stdout(Stdio::null()))
}

fn ask(port: u16, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut answer = vec![0; 1 << 16];
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(answer.get(..length).unwrap_or_default()).into_owned())
}
