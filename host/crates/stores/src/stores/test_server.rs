//! A Redis server of a unit test's own, and a look at a store's file.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::RedisPlace;

/// Whether a file of redb's was not closed: a bit of the byte after its magic number.
pub(crate) fn has_to_be_recovered(file: &Path) -> bool {
    let mut head = [0; 10];
    File::open(file).unwrap().read_exact(&mut head).unwrap();
    head[9] & 2 != 0
}

/// A server and the folder of its data.
pub(crate) struct Server {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// A server at this port, with its data in this folder.
pub(super) fn redis_server(port: u16, folder: &Path) -> Command {
    let program = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/tools/redis-server"));
    assert!(program.exists(), "`{}` is missing; hint: run `scripts/redis.sh` first", program.display());
    let mut command = Command::new(program);
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--loglevel", "warning"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

impl Server {
    pub(crate) fn start() -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let process = redis_server(port, folder.path()).spawn().unwrap();
        Server { process, port, _folder: folder }
    }

    pub(crate) fn place(&self) -> RedisPlace {
        RedisPlace::parse(&format!("redis://127.0.0.1:{}", self.port)).unwrap()
    }

    /// The answer to a command that has one of a line, without what comes before it.
    pub(crate) fn ask(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut answer = [0; 1 << 12];
        let length = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).trim_end().lines().last().unwrap_or_default().to_owned()
    }
}
