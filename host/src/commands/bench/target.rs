//! What is measured: the server of a URL, or one that is started for a project.
//!
//! In: a URL or a folder, as typed. Out: the request to send, and a server that ends with the measurement.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};

use super::client::{Sample, is_success, once};
use crate::cli::{self, program};
use crate::commands::admin::port;
use crate::commands::{CONFIG, Failure, environment};
use crate::config::{self, Overrides, settings};
use crate::file;

const SAMPLE: &str = "sample.json";

/// A server, and the request for it.
pub(super) struct Target {
    /// As typed.
    pub(super) name: String,
    pub(super) request: Sample,
    /// Ends when dropped.
    _server: Option<Server>,
}

impl Target {
    /// The target that was typed.
    ///
    /// # Errors
    /// It is neither, it has no such endpoint, or there is no body.
    pub(super) fn open(typed: &str, arguments: &cli::Bench) -> Result<Target, Failure> {
        if typed.contains("://") {
            let body = arguments.body.as_deref().map(read).transpose()?;
            let request = sample(typed, body, arguments)?;
            return Ok(Target { name: typed.to_owned(), request, _server: None });
        }
        let folder = Path::new(typed);
        let config = folder.join(CONFIG);
        if !config.is_file() {
            // A password is not shown.
            let shown = typed.rsplit_once('@').map_or(typed, |(_, host)| host);
            let text = format!(
                "`{shown}` is neither a URL nor a folder with a {CONFIG}\n  hint: {} bench http://HOST:PORT/ENDPOINT",
                program()
            );
            return Err(Failure::Input(text));
        }
        let path = path(&config, arguments.endpoint.as_deref())?;
        let sample_file = folder.join(SAMPLE);
        let body = match &arguments.body {
            Some(file) => read(file)?,
            None if sample_file.is_file() => read(&sample_file)?,
            None => {
                let text =
                    format!("`{typed}` has no {SAMPLE}\n  hint: `--body FILE` is the body of the requests");
                return Err(Failure::Input(text));
            }
        };
        let server = Server::start(&config)?;
        let request = sample(&format!("{}{path}", server.url), Some(body), arguments)?;
        Ok(Target { name: typed.to_owned(), request, _server: Some(server) })
    }

    /// Sends the first request.
    ///
    /// # Errors
    /// It is not answered, or not with success: that is nothing to measure.
    pub(super) async fn first(&self, patience: Duration) -> anyhow::Result<()> {
        let name = &self.name;
        let answered = tokio::time::timeout(patience, once(&self.request)).await;
        let answered = answered.map_err(|_| anyhow!("{name} does not answer within {patience:?}"))?;
        let (status, body) = answered.map_err(|error| {
            anyhow!("cannot reach {name}: {error}\n  hint: is the server running? `{} serve`", program())
        })?;
        if !is_success(status) {
            let body = String::from_utf8_lossy(&body);
            let hint = "`--body FILE` is the body of the requests, `--header` adds a header";
            bail!("{name} answers {status}: {}\n  hint: {hint}", body.trim());
        }
        Ok(())
    }
}

/// The path of the endpoint to measure.
fn path(config: &Path, endpoint: Option<&str>) -> Result<String, Failure> {
    let mut overrides = Overrides::default();
    overrides.set(&settings::CONFIG, vec![config.display().to_string()]);
    let config = config::serve(&overrides, &environment)?;
    let names: Vec<&str> = config.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
    let found = match (endpoint, config.endpoints.as_slice()) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(name), all) => all.iter().find(|endpoint| endpoint.name == name),
    };
    found.map(|endpoint| endpoint.path.clone()).ok_or_else(|| {
        Failure::Input(format!("which endpoint?\n  hint: `--endpoint`, one of {}", names.join(", ")))
    })
}

fn read(path: &Path) -> anyhow::Result<Bytes> {
    let body = file::read(path, 1 << 30);
    body.map(Bytes::from).with_context(|| format!("cannot read `{}`", path.display()))
}

/// The request for a URL: `POST` if there is a body.
fn sample(url: &str, body: Option<Bytes>, arguments: &cli::Bench) -> Result<Sample, Failure> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@')) {
        // A password is not shown.
        let text = format!("`{scheme}://…` has a user\n  hint: `--header 'authorization: …'` sends one");
        return Err(Failure::Input(text));
    }
    let wrong = |why: &str| Failure::Input(format!("`{url}` {why}\n  hint: http://HOST:PORT/ENDPOINT"));
    let uri: Uri = url.parse().map_err(|_| wrong("is no URL"))?;
    if uri.scheme_str() != Some("http") {
        return Err(wrong("is not http: `bench` speaks no TLS"));
    }
    let authority = uri.authority().ok_or_else(|| wrong("has no host"))?;
    let port = port(authority, 80).ok_or_else(|| wrong("has no port from 0 to 65535"))?;
    let address = format!("{}:{port}", authority.host());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let host = HeaderValue::try_from(authority.as_str()).map_err(|_| wrong("has no plain host"))?;
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let mut request = Request::new(Full::new(body.clone().unwrap_or_default()));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().map_err(|_| wrong("has no path"))?;
    let headers = request.headers_mut();
    headers.insert(HOST, host);
    if body.is_some() {
        let content_type = HeaderValue::try_from(&arguments.content_type);
        headers.insert(CONTENT_TYPE, content_type.map_err(|_| wrong("cannot have this media type"))?);
    }
    for (name, value) in &arguments.headers {
        let (name, value) = (HeaderName::try_from(name), HeaderValue::try_from(value));
        let (Ok(name), Ok(value)) = (name, value) else { return Err(wrong("cannot have this header")) };
        headers.insert(name, value);
    }
    Ok(Sample { address, request })
}

/// A server of its own process; ended when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts one on free ports.
    fn start(config: &Path) -> anyhow::Result<Server> {
        let executable = env::current_exe().context("cannot find out where this program is")?;
        let mut command = Command::new(executable);
        command.arg("serve").arg("--config").arg(config);
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "warn"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("the server has no output")?;
        let mut server = Server { child, url: String::new() };
        let line = BufReader::new(stdout).lines().next().transpose()?.unwrap_or_default();
        // What is wrong with it, it has said.
        let url = line.strip_prefix("listening on ").context("the server does not start")?;
        server.url = url.to_owned();
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
