//! A Prometheus of a test's own, which scrapes a host every second.
//!
//! In: hosts and rules. Out: what it says of them.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::Process;
use crate::{Host, agent, existing, request, root, try_request, wait_until};

/// A running server.
pub struct Prometheus {
    url: String,
    _process: Process,
    _folder: TempDir,
}

impl Prometheus {
    /// One that scrapes this host as the job `modelhost`, with these rules.
    pub fn start(host: &Host, rules: &Path) -> Prometheus {
        let program = existing(root().join("target/tools/prometheus"), "scripts/prometheus.sh");
        let folder = tempfile::tempdir().unwrap();
        let address = host.admin.trim_start_matches("http://");
        let config = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{rules:?}]\n\
             scrape_configs:\n- job_name: modelhost\n  static_configs: [{{ targets: [{address:?}] }}]\n"
        );
        fs::write(&config, text).unwrap();
        // It takes port 0, and does not say which it is then.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--enable-feature=exemplar-storage", "--log.level=error"]);
        let process = Process::start(command.stdout(Stdio::null()));
        let url = format!("http://127.0.0.1:{port}/api/v1");
        let target = format!("{url}/targets");
        let is_up = || {
            let Ok(reply) = try_request(&agent(), "GET", &target, &[], b"") else { return false };
            if reply.status != 200 {
                return false;
            }
            let targets = reply.json()["data"]["activeTargets"].take();
            if let Some(error) = targets[0]["lastError"].as_str().filter(|error| !error.is_empty()) {
                panic!("the scrape fails: {error}");
            }
            targets[0]["health"] == "up"
        };
        wait_until("Prometheus to scrape the host", is_up);
        Prometheus { url, _process: process, _folder: folder }
    }

    /// The answer of its API at this path, with these parameters.
    pub fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        let encoded = |text: &str| -> String {
            text.bytes()
                .map(|byte| match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                    _ => format!("%{byte:02X}"),
                })
                .collect()
        };
        let query: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let reply = request("GET", &format!("{}/{path}?{}", self.url, query.join("&")), &[], b"");
        let mut answer = reply.json();
        assert_eq!(answer["status"], "success", "{path} {parameters:?}: {answer}");
        answer["data"].take()
    }

    /// How many series an expression has now.
    pub fn count(&self, expression: &str) -> usize {
        self.ask("query", &[("query", expression)])["result"].as_array().unwrap().len()
    }
}
