//! Against servers of the tests, by names whose addresses change from one lookup to the next.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use http_body_util::{BodyExt as _, Empty};

use super::*;

/// A server at this address that counts its connections, and writes `answer` for each request.
fn serve(address: &str, answer: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::<AtomicUsize>::default();
    let counted = connections.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).is_ok_and(|length| length > 0) {
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    (port, connections)
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
/// A body that stops in the middle.
const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe";

fn to(outbound: &Outbound, url: &str, patience: Patience) -> impl Future<Output = Sent> + use<> {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    outbound.send(Request::get(url).body(body).unwrap(), patience)
}

type Sent = Result<Response<Body>, OutboundError>;

fn rules(entries: &[String]) -> Rules {
    Rules(entries.iter().map(|entry| Rule::parse(entry).unwrap()).collect())
}

/// A name that leads to one address when it is looked at and to another when it is connected to leads nowhere
/// but where it may: it is resolved once, and that is where the connection goes.
#[tokio::test]
async fn a_connection_goes_to_the_address_that_was_looked_at() {
    static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
    /// One address more with each lookup, the first ones in front.
    fn rebinding(host: &str) -> io::Result<Vec<SocketAddr>> {
        assert!(["rebinding.example", "inner.example"].contains(&host), "{host}");
        let all = ["169.254.169.254:0", "127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0", "127.0.0.2:0"];
        let known = LOOKUPS.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(all.into_iter().take(known).map(|address| address.parse().unwrap()).collect())
    }
    let (port, forbidden) = serve("127.0.0.1:0", HELLO);
    let (_, allowed) = serve(&format!("127.0.0.2:{port}"), HELLO);
    let listed = [format!("http://*.example:{port}"), "127.0.0.2/32".to_owned()];
    let outbound = Outbound::with(rules(&listed), rebinding, trust::none());
    let url = format!("http://rebinding.example:{port}/");
    for known in 1..=4 {
        let sent = to(&outbound, &url, Patience::default()).await;
        assert_eq!(sent.err(), Some(OutboundError::Prohibited), "with {known} addresses");
        assert_eq!(LOOKUPS.load(Ordering::SeqCst), known, "one lookup a connection");
    }
    let sent = to(&outbound, &url, Patience::default()).await.unwrap();
    assert_eq!(sent.into_body().collect().await.unwrap().to_bytes(), "hello");
    assert_eq!((forbidden.load(Ordering::SeqCst), allowed.load(Ordering::SeqCst)), (0, 1));
}

#[tokio::test]
async fn a_request_holds_its_place_to_the_end_of_its_response() {
    let (port, _) = serve("127.0.0.1:0", HELLO);
    let url = format!("http://127.0.0.1:{port}/");
    let outbound = Outbound::new(rules(&[format!("http://127.0.0.1:{port}")])).await.unwrap();
    let mut open = Vec::new();
    for _ in 0..CONCURRENCY {
        open.push(to(&outbound, &url, Patience::default()).await.unwrap());
    }
    assert_eq!(to(&outbound, &url, Patience::default()).await.err(), Some(OutboundError::TooMany));
    let read = open.pop().unwrap().into_body().collect().await.unwrap();
    assert_eq!(read.to_bytes(), "hello");
    let another = to(&outbound, &url, Patience::default()).await.unwrap();
    assert_eq!(to(&outbound, &url, Patience::default()).await.err(), Some(OutboundError::TooMany));
    drop((open, another));
    assert!(to(&outbound, &url, Patience::default()).await.is_ok());
}

#[tokio::test]
async fn a_response_that_does_not_come_is_not_waited_for() {
    let soon = Some(Duration::from_millis(50));
    let patience = Patience { first_byte: soon, between_bytes: soon };
    let (port, _) = serve("127.0.0.1:0", "");
    let (half, _) = serve("127.0.0.1:0", HALF);
    let listed = [format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{half}")];
    let outbound = Outbound::new(rules(&listed)).await.unwrap();
    let sent = to(&outbound, &format!("http://127.0.0.1:{port}/"), patience).await;
    assert_eq!(sent.err(), Some(OutboundError::TimedOut));
    let sent = to(&outbound, &format!("http://127.0.0.1:{half}/"), patience).await.unwrap();
    let error = sent.into_body().collect().await.unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&OutboundError::TimedOut), "{error}");
}
