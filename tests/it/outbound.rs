//! Requests that handlers send: to what is listed, and to nothing else.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use e2e::tls::issue;
use e2e::{Host, component, host, serve_command};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A server on a port of its own, with or without TLS, that counts connections and answers every request alike.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn start(answer: &'static str, tls: Option<Arc<ServerConfig>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::<AtomicUsize>::default();
        let counted = connections.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                let (mut stream, tls) = (stream.unwrap(), tls.clone());
                thread::spawn(move || match tls {
                    None => serve(&mut stream, answer),
                    Some(config) => {
                        serve(&mut StreamOwned::new(ServerConnection::new(config).unwrap(), stream), answer);
                    }
                });
            }
        });
        Server { port, connections }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Answers one request after another.
fn serve(stream: &mut (impl std::io::Read + std::io::Write), answer: &str) {
    let mut head = Vec::new();
    let mut byte = [0];
    while stream.read_exact(&mut byte).is_ok() {
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    }
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
const ELSEWHERE: &str = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";

/// The application, which may reach these places.
fn with(allowed: &[String], variables: &[(&str, &str)]) -> Host {
    let plugin = component("tests/application").display().to_string();
    let mut arguments = vec!["--plugin".to_owned(), plugin];
    for place in allowed {
        arguments.extend(["--allow-outbound".to_owned(), place.clone()]);
    }
    let mut command = serve_command(&arguments);
    command.envs(variables.iter().copied());
    Host::try_start(command).unwrap_or_else(|(status, log)| panic!("{status}: {log}"))
}

/// What came of a handler's request.
fn fetch(host: &Host, url: &str) -> String {
    host.get(&format!("/fetch?{url}")).text()
}

#[test]
fn requests_go_to_listed_places_alone() {
    let (server, moved) = (Server::start(HELLO, None), Server::start(ELSEWHERE, None));
    let (port, elsewhere) = (server.port, moved.port);
    let listed = [
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{elsewhere}"),
        format!("http://localhost:{port}"),
        // Names of this machine, as a resolver reads them.
        format!("http://2130706433:{port}"),
        format!("http://127.1:{port}"),
        "http://169.254.169.254".to_owned(),
    ];
    // A proxy that no one is to be asked for.
    let host =
        with(&listed[..5], &[("http_proxy", "http://127.0.0.1:1"), ("HTTP_PROXY", "http://127.0.0.1:1")]);
    assert_eq!(fetch(&host, &format!("http://127.0.0.1:{port}/a")), "200 hello Ok(5)");
    assert_eq!(fetch(&host, &format!("http://localhost:{port}/a")), "200 hello Ok(5)");
    assert_eq!(fetch(&host, &format!("http://127.0.0.1:{elsewhere}/a")), "302  Ok(0)");
    let before = server.connections();
    assert!(before > 0);
    for (url, error) in [
        (format!("http://127.0.0.2:{port}"), "HttpRequestDenied"),
        (format!("https://127.0.0.1:{port}"), "HttpRequestDenied"),
        ("http://127.0.0.1:1".to_owned(), "HttpRequestDenied"),
        (host.url.clone(), "HttpRequestDenied"),
        ("http://169.254.169.254/latest".to_owned(), "HttpRequestDenied"),
        (format!("http://2130706433:{port}"), "DestinationIpProhibited"),
        (format!("http://127.1:{port}"), "DestinationIpProhibited"),
    ] {
        assert_eq!(fetch(&host, &url), format!("ErrorCode::{error}"), "{url}");
    }
    assert_eq!(server.connections(), before);
    // A network that is listed may be reached by listed names.
    let network = ["127.0.0.0/8".to_owned(), format!("http://2130706433:{port}")];
    let host = with(&network, &[]);
    assert_eq!(fetch(&host, &format!("http://2130706433:{port}/a")), "200 hello Ok(5)");
    assert_eq!(fetch(&host, &format!("http://127.0.0.1:{port}/a")), "ErrorCode::HttpRequestDenied");
}

/// What readiness asks of an application, it answers as it answers a client: it may ask its upstream.
#[test]
fn an_application_that_asks_its_upstream_is_ready_when_that_answers() {
    let server = Server::start(HELLO, None);
    let plugin = component("tests/application").display().to_string();
    let (place, readiness) =
        (format!("http://127.0.0.1:{}", server.port), format!("/upstream/{}", server.port));
    for (allowed, status) in [(&*place, 200), ("http://127.0.0.1:1", 503)] {
        let host =
            Host::serve(&["--plugin", &plugin, "--readiness", &readiness, "--allow-outbound", allowed]);
        for path in ["/v2/health/ready", "/readyz"] {
            assert_eq!(host.get(path).status, status, "{path} with {allowed}");
        }
    }
    assert!(server.connections() > 0);
}

#[test]
fn tls_trusts_what_the_system_trusts() {
    let (certificate, key) = issue();
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(certificate.as_bytes()).map(|it| it.unwrap()).collect();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
        .unwrap();
    let server = Server::start(HELLO, Some(Arc::new(config)));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, certificate).unwrap();
    let place = format!("https://localhost:{}", server.port);
    let trusting = with(std::slice::from_ref(&place), &[("SSL_CERT_FILE", file.to_str().unwrap())]);
    assert_eq!(fetch(&trusting, &format!("{place}/a")), "200 hello Ok(5)");
    // One that trusts another.
    std::fs::write(&file, issue().0).unwrap();
    let other = with(std::slice::from_ref(&place), &[("SSL_CERT_FILE", file.to_str().unwrap())]);
    assert_eq!(fetch(&other, &format!("{place}/a")), "ErrorCode::TlsCertificateError");
}

#[test]
fn a_list_that_cannot_be_meant_is_refused() {
    let plugin = component("tests/application").display().to_string();
    for (entry, says) in [
        ("hooks.example.com", "does not begin with `http://` or `https://`"),
        ("https://hooks.example.com/path", "has more than scheme, host and port"),
    ] {
        let output = host(&["serve", "--plugin", &plugin, "--allow-outbound", entry]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(says) && text.contains("hint:"), "{entry}: {text}");
    }
    let output = host(&["inspect", &plugin]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("outbound") && text.contains("application"), "{text}");
}
