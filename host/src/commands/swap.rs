//! `host swap`: an order to a running server, over its admin address.
//!
//! In: an endpoint and what it is to serve. Out: a line that says what it serves now; exit code 1 with the
//! server's reason if the server refused.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;
use ureq::Agent;
use ureq::http::{Response, StatusCode, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::cli::{self, Tolerance};
use crate::commands::{Failure, environment, say};
use crate::file;
use crate::plugin::Binary;

/// A swap may compile a large component, load a large model, and compare many answers.
const PATIENCE: Duration = Duration::from_secs(600);
/// Longest answer of a server that is read.
const LONGEST_ANSWER: u64 = 4 << 20;

/// Runs the command.
///
/// # Errors
/// The handler cannot be read, the server cannot be reached, or it refuses.
pub fn swap(arguments: &cli::Swap) -> Result<(), Failure> {
    let agent = agent(arguments)?;
    let key = arguments.key.clone().or_else(|| environment("MODELHOST_ADMIN_KEY"));
    let key = key.map(|source| first_key(&source)).transpose()?;
    let is_trial = arguments.shadow.is_some() || arguments.canary.is_some();
    let (method, call, body) = match &arguments.plugin {
        Some(path) if is_trial => ("PUT", "plugin/candidate", read(path)?),
        Some(path) => ("PUT", "plugin", read(path)?),
        None if arguments.promote => ("POST", "plugin/candidate/promote", Vec::new()),
        None if arguments.drop_candidate => ("DELETE", "plugin/candidate", Vec::new()),
        None if arguments.rollback => ("POST", "rollback", Vec::new()),
        None => ("POST", "reload", Vec::new()),
    };
    let mut request = ureq::http::Request::builder().method(method).uri(uri(arguments, call)?);
    if let Some(key) = key {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    if let Some(digest) = &arguments.if_match {
        request = request.header("if-match", format!("\"{digest}\""));
    }
    if !body.is_empty() {
        // A server that refuses by the head alone says so, rather than hang up on what is being sent.
        request = request.header("expect", "100-continue");
    }
    let request = request.body(body).context("cannot make the request")?;
    let admin = &arguments.admin;
    let response = agent.run(request).map_err(|error| {
        anyhow!("cannot reach the admin address {admin}: {error}\n  hint: give it with `--admin`; `modelhost serve` prints it")
    })?;
    Ok(report(&arguments.endpoint, response)?)
}

fn agent(arguments: &cli::Swap) -> anyhow::Result<Agent> {
    let mut tls = TlsConfig::builder();
    if let Some(path) = &arguments.ca {
        let pem = read(path)?;
        let certificate = Certificate::from_pem(&pem).with_context(|| format!("`{}`", path.display()))?;
        tls = tls.root_certs(RootCerts::new_with_certs(&[certificate]));
    }
    let config = Agent::config_builder()
        .tls_config(tls.build())
        .timeout_global(Some(PATIENCE))
        // What a server refuses, it gives the reason of.
        .http_status_as_error(false)
        // An order goes to the address that was given.
        .proxy(None)
        .max_redirects(0)
        .build();
    Ok(Agent::new_with_config(config))
}

fn uri(arguments: &cli::Swap, call: &str) -> anyhow::Result<Uri> {
    let base = arguments.admin.trim_end_matches('/');
    let mut query = form_urlencoded::Serializer::new(String::new());
    for model in &arguments.models {
        query.append_pair("model", model);
    }
    if arguments.persist {
        query.append_pair("persist", "true");
    }
    if let Some(note) = &arguments.note {
        query.append_pair("note", note);
    }
    if let Some(share) = &arguments.shadow {
        query.append_pair("mode", "shadow").append_pair("share", share);
    }
    if let Some(shares) = &arguments.canary {
        // One is held until an order, several are steps.
        let name = if shares.contains(',') { "steps" } else { "share" };
        query.append_pair("mode", "canary").append_pair(name, shares);
    }
    for pattern in &arguments.ignore {
        query.append_pair("ignore", &pattern.to_string());
    }
    if let Some(Tolerance(number)) = arguments.tolerance {
        query.append_pair("tolerance", &number.to_string());
    }
    if let Some(share) = &arguments.mismatches {
        query.append_pair("mismatches", share);
    }
    if arguments.accept_differences {
        query.append_pair("accept_differences", "true");
    }
    for (name, value) in &arguments.terms {
        query.append_pair(name, value);
    }
    let (endpoint, query) = (&arguments.endpoint, query.finish());
    let uri = format!("{base}/admin/v1/endpoints/{endpoint}/{call}?{query}");
    uri.parse().with_context(|| format!("`{uri}` is no URL\n  hint: `--admin http://HOST:PORT`"))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    file::read(path, Binary::LARGEST as u64).with_context(|| format!("cannot read `{}`", path.display()))
}

/// The first key of `@FILE` or `env:NAME`: what the server's own `--admin-key` is given.
fn first_key(source: &str) -> anyhow::Result<String> {
    let text = match (source.strip_prefix('@'), source.strip_prefix("env:")) {
        (Some(path), _) => {
            String::from_utf8(read(Path::new(path))?).context("the file with the key is no text")?
        }
        (None, Some(name)) => environment(name).with_context(|| format!("variable `{name}` is not set"))?,
        // Perhaps the key itself: it is not repeated.
        (None, None) => bail!("`--key` says where no key is to be found\n  hint: `@FILE` or `env:NAME`"),
    };
    let mut keys = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    keys.next().map(str::to_owned).context("there is no key where `--key` says")
}

fn report(endpoint: &str, mut response: Response<ureq::Body>) -> anyhow::Result<()> {
    let status = response.status();
    let text = response.body_mut().with_config().limit(LONGEST_ANSWER).read_to_string();
    let text = text.context("the answer of the server cannot be read")?;
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let value = |key: &str| answer.get(key).unwrap_or(&Value::Null);
    let text = |key: &str| value(key).as_str();
    if !status.is_success() {
        let hint = match status {
            StatusCode::UNAUTHORIZED => "\n  hint: `--key @FILE` or `--key env:NAME`",
            // Only the address of the endpoints says at which stage.
            _ if !value("stage").is_null() => {
                "\n  hint: `--admin` is the address that the host prints as `admin on`; this is the endpoints'"
            }
            _ => "",
        };
        match text("error") {
            Some(error) => bail!("{error}{hint}"),
            None => bail!("the server answers {status}\n  hint: is `--admin` the admin address of a host?"),
        }
    }
    let digest = text("digest").unwrap_or("none");
    if let Some(mode) = text("mode") {
        let share = value("share");
        return say(&format!("{endpoint}: on trial as {mode} with a share of {share}, handler {digest}"));
    }
    say(&format!(
        "{endpoint}: generation {} {}, handler {digest}",
        value("generation"),
        text("outcome").unwrap_or_default()
    ))
}
