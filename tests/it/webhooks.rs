//! What applications send with the SDK: webhooks, signed and sent again, and requests of any kind.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::{Host, component, serve_command, wait_until};
use ring::hmac;
use serde_json::{Value, json};

pub const SECRET: &str = "whsec_dGVsbCBub2JvZHk=";

/// One request as it came.
#[derive(Clone)]
pub struct Request {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub arrived: Instant,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value).unwrap_or_else(|| panic!("no `{name}` in {:?}", self.headers))
    }
}

/// A server that answers with these, one after another, the last one for ever; an empty one breaks the
/// connection off.
pub struct Receiver {
    pub url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Receiver {
    pub fn start(answers: &'static [&'static str]) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Vec<Request>>>::default();
        let kept = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut lines = Vec::new();
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
                        break;
                    }
                    lines.push(line.trim_end().to_owned());
                }
                let Some((line, headers)) = lines.split_first() else { continue };
                let headers: Vec<(String, String)> = headers
                    .iter()
                    .filter_map(|header| header.split_once(": "))
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                let body = body(&mut reader, &headers);
                let mut seen = kept.lock().unwrap();
                let answer = answers[seen.len().min(answers.len() - 1)];
                seen.push(Request { line: line.clone(), headers, body, arrived: Instant::now() });
                drop(seen);
                (&stream).write_all(answer.as_bytes()).unwrap();
            }
        });
        Receiver { url, seen }
    }

    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// All requests, once there are so many.
    pub fn wait_for(&self, count: usize) -> Vec<Request> {
        wait_until(&format!("{count} requests"), || self.seen().len() >= count);
        self.seen()
    }
}

/// The signature is that of Standard Webhooks, with [`SECRET`].
pub fn assert_signed(request: &Request) {
    let (id, second) = (request.header("webhook-id"), request.header("webhook-timestamp"));
    let signed = [format!("{id}.{second}.").as_bytes(), &request.body].concat();
    let signature = request.header("webhook-signature").strip_prefix("v1,").unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"tell nobody");
    hmac::verify(&key, &signed, &STANDARD.decode(signature).unwrap()).unwrap();
}

/// By `content-length` alone, as simple receivers read: a body in chunks is none.
fn body(reader: &mut impl std::io::BufRead, headers: &[(String, String)]) -> Vec<u8> {
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    body
}

/// Guests of either version of `wasi:http` that write a body and say nothing of its length.
#[test]
fn a_body_that_is_written_at_once_has_a_length() {
    for guest in ["tests/application", "tests/concurrent"] {
        let receiver = Receiver::start(&[OK]);
        let plugin = component(guest).display().to_string();
        let arguments = ["--plugin", &plugin, "--name", "app", "--allow-outbound", &receiver.url];
        let host = Host::try_start(serve_command(&arguments));
        let host = host.unwrap_or_else(|(status, log)| panic!("{status}: {log}"));
        let told = host.get(&format!("/app/post?{}/hook", receiver.url)).text();
        assert!(told.starts_with("200 ok"), "{guest}: {told}");
        let [request] = &receiver.wait_for(1)[..] else { panic!("one request is sent once") };
        assert_eq!(
            (request.line.as_str(), &*request.body),
            ("POST /hook HTTP/1.1", &b"one, two"[..]),
            "{guest}"
        );
    }
}

/// The application, which may reach this place and has the secret.
fn with(allowed: &str) -> Host {
    let plugin = component("tests/webhook").display().to_string();
    let arguments = ["--plugin", &plugin, "--name", "app", "--allow-outbound", allowed, "--env"];
    let mut arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
    arguments.push(format!("WEBHOOK_SECRET={SECRET}"));
    Host::try_start(serve_command(&arguments)).unwrap_or_else(|(status, log)| panic!("{status}: {log}"))
}

pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
pub const BUSY: &str = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
pub const GONE: &str = "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// P20.
#[test]
fn a_webhook_arrives_as_json_and_the_handler_goes_on_without_it() {
    let receiver = Receiver::start(&[OK]);
    let host = with(&receiver.url);
    let hook = |url: &str, value: &Value| {
        host.post("/app/hook", json!({"url": url, "value": value}).to_string()).json()["is_sent"].take()
    };
    let url = format!("{}/hook?a=b", receiver.url);
    assert_eq!(hook(&url, &json!({"output": 1})), true);
    let [request] = &receiver.wait_for(1)[..] else { panic!("one request is sent once") };
    assert_eq!(request.line, "POST /hook?a=b HTTP/1.1");
    assert_eq!(
        (request.header("content-type"), &*request.body),
        ("application/json", &br#"{"output":1}"#[..])
    );
    assert!(request.headers.iter().all(|(name, _)| !name.starts_with("webhook-")), "{:?}", request.headers);
    // More than a stream of WASI takes at once.
    let long = json!("x".repeat(100_000));
    assert_eq!(hook(&url, &long), true);
    assert_eq!(receiver.wait_for(2)[1].body, long.to_string().into_bytes());
    // Refused by the network, and by the list.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (place, warning) in [
        (format!("http://{nobody}"), "the request failed"),
        ("http://127.0.0.1:1".to_owned(), "`allow_outbound` does not list where the request goes"),
        ("ftp://127.0.0.1".to_owned(), "does not begin with `http://` or `https://`"),
    ] {
        let host = with(&format!("http://{nobody}"));
        let asked = json!({"url": place, "value": 1}).to_string();
        assert_eq!(host.post("/app/hook", asked).json(), json!({"is_sent": false}), "{place}");
        host.wait_for_log(warning);
    }
}

/// T34's webhook.
#[test]
fn a_webhook_is_signed_and_sent_again_after_the_response() {
    let receiver = Receiver::start(&[BUSY, "", BUSY, OK]);
    let host = with(&receiver.url);
    let told = json!({"url": receiver.url, "value": {"output": [1, 2]}, "attempts": 5, "is_signed": true});
    assert_eq!(host.post("/app/later", told.to_string()).json(), json!({"started": true}));
    let requests = receiver.wait_for(4);
    for request in &requests {
        assert_eq!(request.header("webhook-id"), requests[0].header("webhook-id"), "one message, sent often");
        assert_signed(request);
    }
    let pauses: Vec<u128> =
        requests.windows(2).map(|pair| (pair[1].arrived - pair[0].arrived).as_millis()).collect();
    assert!(pauses[0] >= 40 && pauses[1] >= 80 && pauses[2] >= 160, "{pauses:?}");
    // The next message is another one.
    host.post("/app/later", told.to_string());
    let next = receiver.wait_for(5);
    assert_ne!(next[4].header("webhook-id"), next[0].header("webhook-id"));
    assert!(!host.log().contains(SECRET) && !host.log().contains("dGVsbCBub2JvZHk"));
}

#[test]
fn what_no_attempt_can_mend_is_tried_once_and_told() {
    let receiver = Receiver::start(&[GONE]);
    let host = with(&receiver.url);
    let told = |value: Value| json!({"url": receiver.url, "value": value, "attempts": 5}).to_string();
    host.post("/app/later", told(json!(1)));
    host.wait_for_log("the receiver answered with status 410");
    let counted = "modelhost_requests_total{endpoint=\"app\",outcome=\"plugin_error\"} 1";
    wait_until("the failure to be counted", || host.metrics().contains(counted));
    assert_eq!(receiver.seen().len(), 1);
    // A body that is no order is refused before anything is said to have started.
    host.post("/app/later", "{}").error(400, "invalid_input", "pre_inference");
}

#[test]
fn any_request_is_sent_and_its_response_read_in_pieces() {
    const PIECES: &str = "HTTP/1.1 418 Teapot\r\ncontent-type: text/x-mine\r\nlocation: /other\r\n\
                          transfer-encoding: chunked\r\nconnection: close\r\n\r\n\
                          3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n";
    let receiver = Receiver::start(&[PIECES]);
    let host = with(&receiver.url);
    let fetch = |url: &str| host.post("/app/fetch", json!({"url": url, "value": "x"}).to_string());
    let reply = fetch(&format!("{}/here", receiver.url));
    assert_eq!(
        (reply.status, reply.header("content-type"), reply.text().as_str()),
        (418, Some("text/x-mine"), "onetwo")
    );
    let request = &receiver.wait_for(1)[0];
    assert_eq!((request.line.as_str(), request.header("x-mine")), ("PUT /here HTTP/1.1", "1"));
    // A server that says nothing has half a second.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http://{}", silent.local_addr().unwrap());
    let host = with(&place);
    let reply = host.post("/app/fetch", json!({"url": place, "value": "x"}).to_string());
    assert_eq!((reply.status, reply.text().as_str()), (502, "there was no answer in time"));
}
