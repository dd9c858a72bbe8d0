//! The admin address of a running server, as its clients see it: `host swap`, `status`, `history`, `logs`,
//! `trial`.
//!
//! In: an address, and where its key is. Out: answers as JSON; what the server refuses as an error, with a
//! hint where the cause is the address or the key.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use ureq::Agent;
use ureq::http::uri::Authority;
use ureq::http::{Request, Response, StatusCode, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::cli;
use crate::commands::environment;
use crate::error::Code;
use crate::file;

/// Longest answer of a server that is read.
const LONGEST_ANSWER: u64 = 16 << 20;

/// The address that was given, without a slash at its end.
///
/// # Errors
/// It is none, or it has more: a password would be shown, and a path means another server.
fn address(given: &str) -> anyhow::Result<&str> {
    let uri = given.parse::<Uri>().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    let is_plain = |uri: &Uri| uri.path() == "/" && uri.query().is_none();
    let wrong = match (&uri, authority) {
        _ if authority.map_or(given, Authority::as_str).contains('@') => "has a user",
        _ if given.contains('#') => "has a fragment",
        (Some(uri), Some(authority)) if matches!(uri.scheme_str(), Some("http" | "https")) => {
            match port(authority, 0) {
                None => "has no port from 0 to 65535",
                Some(_) if is_plain(uri) => return Ok(given.trim_end_matches('/')),
                Some(_) => "has a path or a query",
            }
        }
        _ => "is no URL",
    };
    let user = given.rsplit_once('@').filter(|_| wrong == "has a user");
    let shown = match user {
        Some((before, host)) => match before.split_once("://") {
            Some((scheme, _)) => format!("{scheme}://{host}"),
            None => host.to_owned(),
        },
        None => given.to_owned(),
    };
    bail!("`{shown}` {wrong}\n  hint: `--admin http://HOST:PORT`")
}

/// The port of an address, or of its scheme; `None` if what is written there is none.
pub(super) fn port(authority: &Authority, default: u16) -> Option<u16> {
    let written = authority.as_str().rsplit('@').next();
    if written == Some(authority.host()) { Some(default) } else { authority.port_u16() }
}

/// The path of an endpoint; a name that is none leads nowhere else.
pub(super) fn endpoint_path(name: &str) -> String {
    format!("/admin/v1/endpoints/{}", utf8_percent_encode(name, NON_ALPHANUMERIC))
}

/// A client of one server.
pub(super) struct Client {
    agent: Agent,
    /// As the user gave it: scheme, host, port.
    address: String,
    key: Option<String>,
}

impl Client {
    /// A client that waits for an answer as long as `patience`.
    ///
    /// # Errors
    /// The address is none, or the key or the certificate cannot be read.
    pub(super) fn new(server: &cli::Admin, patience: Duration) -> anyhow::Result<Client> {
        let address = address(&server.admin)?.to_owned();
        let mut tls = TlsConfig::builder();
        if let Some(path) = &server.ca {
            let pem = file::read(path, file::TEXT).with_context(|| cannot_read(path))?;
            let certificate = Certificate::from_pem(&pem).with_context(|| format!("`{}`", path.display()))?;
            tls = tls.root_certs(RootCerts::new_with_certs(&[certificate]));
        }
        let config = Agent::config_builder()
            .tls_config(tls.build())
            .timeout_global(Some(patience))
            // What a server refuses, it gives the reason of.
            .http_status_as_error(false)
            // An order goes to the address that was given.
            .proxy(None)
            .max_redirects(0)
            .build();
        let key = server.key.clone().or_else(|| environment("MODELHOST_ADMIN_KEY"));
        let key = key.map(|source| first_key(&source)).transpose()?;
        Ok(Client { agent: Agent::new_with_config(config), address, key })
    }

    /// The answer to `GET` of a path.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send("GET", path, &[], Vec::new())
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// The server cannot be reached, it refuses, or it is none.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: Vec<u8>,
    ) -> anyhow::Result<Value> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if !body.is_empty() {
            // A server that refuses by the head alone says so, rather than hang up on what is being sent.
            request = request.header("expect", "100-continue");
        }
        let request = request.body(body).context("cannot make the request")?;
        let response = self.agent.run(request).map_err(|error| {
            let reason = match error {
                ureq::Error::Io(error) => error.to_string(),
                other => other.to_string(),
            };
            let hint = if reason.contains("CaUsedAsEndEntity") {
                "the certificate is one of an authority; make it with `-addext \
                 basicConstraints=critical,CA:FALSE`"
                    .to_owned()
            } else if reason.contains("certificate") {
                "`--ca FILE` names the certificate to trust, or that of the authority behind it".to_owned()
            } else if reason.contains("http parse fail") {
                "it may speak TLS: `--admin https://HOST:PORT`".to_owned()
            } else {
                let program = cli::program();
                format!(
                    "is the server running? Give its admin address, which `{program} serve` prints, with \
                     `--admin`"
                )
            };
            anyhow!("cannot reach the admin address {}: {reason}\n  hint: {hint}", self.address)
        })?;
        answer(response)
    }
}

fn answer(mut response: Response<ureq::Body>) -> anyhow::Result<Value> {
    let status = response.status();
    let text = response.body_mut().with_config().limit(LONGEST_ANSWER).read_to_string();
    let text = text.context("the answer of the server cannot be read")?;
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    if status.is_success() && !answer.is_null() {
        return Ok(answer);
    }
    let error = answer.get("error").and_then(Value::as_str);
    let hint = match status {
        StatusCode::UNAUTHORIZED => "\n  hint: `--key @FILE` or `--key env:NAME`".to_owned(),
        StatusCode::NOT_FOUND if error.is_some_and(|error| error.starts_with("there is no endpoint ")) => {
            format!("\n  hint: `{} status` lists the endpoints", cli::program())
        }
        // Both addresses answer so while the server starts.
        _ if answer.get("code").and_then(Value::as_str) == Some(Code::NotReady.name()) => {
            "\n  hint: the server is starting: try again".to_owned()
        }
        // Only the address of the endpoints says at which stage.
        _ if answer.get("stage").is_some() => {
            "\n  hint: `--admin` is the address that the host prints as `admin on`; this is the endpoints'"
                .to_owned()
        }
        _ => String::new(),
    };
    match error {
        Some(error) => bail!("{error}{hint}"),
        None => bail!("the server answers {status}\n  hint: is `--admin` the admin address of a host?"),
    }
}

/// The first key of `@FILE` or `env:NAME`: what the server's own `--admin-key` is given.
fn first_key(source: &str) -> anyhow::Result<String> {
    let text = match (source.strip_prefix('@'), source.strip_prefix("env:")) {
        (Some(path), _) => {
            let path = Path::new(path);
            let key = file::read(path, file::TEXT).with_context(|| cannot_read(path))?;
            String::from_utf8(key).context("the file with the key is no text")?
        }
        (None, Some(name)) => environment(name).with_context(|| format!("variable `{name}` is not set"))?,
        // Perhaps the key itself: it is not repeated.
        (None, None) => bail!("`--key` names no source of a key\n  hint: `@FILE` or `env:NAME`"),
    };
    let mut keys = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    keys.next().map(str::to_owned).context("there is no key where `--key` says")
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read `{}`", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port_and_no_password_is_shown() {
        for (given, expected) in [
            ("http://127.0.0.1:8001/", Ok("http://127.0.0.1:8001")),
            ("https://models.example.com", Ok("https://models.example.com")),
            ("http://[::1]:8001", Ok("http://[::1]:8001")),
            ("http://[::1]", Ok("http://[::1]")),
            ("http://user:pw@127.0.0.1:1/x?y", Err("`http://127.0.0.1:1/x?y` has a user")),
            ("user:p w@127.0.0.1", Err("`127.0.0.1` has a user")),
            ("http://127.0.0.1:1/@x", Err("`http://127.0.0.1:1/@x` has a path or a query")),
            ("http://127.0.0.1:1#x", Err("`http://127.0.0.1:1#x` has a fragment")),
            ("http://127.0.0.1:1/x", Err("`http://127.0.0.1:1/x` has a path or a query")),
            ("http://127.0.0.1:1?x", Err("`http://127.0.0.1:1?x` has a path or a query")),
            ("http://127.0.0.1:99999", Err("`http://127.0.0.1:99999` has no port from 0 to 65535")),
            ("foo", Err("`foo` is no URL")),
            ("127.0.0.1:8001", Err("`127.0.0.1:8001` is no URL")),
            ("ftp://127.0.0.1", Err("`ftp://127.0.0.1` is no URL")),
        ] {
            let found = address(given).map_err(|error| error.to_string());
            let expected = expected.map_err(|error| format!("{error}\n  hint: `--admin http://HOST:PORT`"));
            assert_eq!(found, expected, "{given}");
        }
    }
}
