//! The requests of `object_store`, sent by the client that handlers' requests go through.
//!
//! Place in the flow: between `object_store`, which signs requests, reads documents and sends requests again,
//! and [`Outbound`], which has the rules, the certificates and the connections of this process. In: a
//! request. Out: a response with a status of 2xx, or a [`Failure`] in an error whose kind says whether it is
//! sent again. Invariants: requests go to the server of the configuration and to those that give out its
//! credentials; no answer is waited for longer than the configured time; the content of an object comes in
//! pieces, and all else is read up to [`LONGEST`] bytes; a page that is no listing is no empty one, and what
//! is listed has a name that an object of this program's may have.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_RANGE, RANGE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Frame;
use http_body_util::BodyExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};

use super::failure::Failure;
use crate::outbound::{Body, BodyError, Outbound, OutboundError, Patience};

/// Longest document that is read: a page of a listing has a few hundred bytes for each of its keys.
const LONGEST: usize = 4 << 20;

/// The way to the servers of one store.
#[derive(Clone)]
pub(super) struct Wire(Arc<WireState>);

struct WireState {
    outbound: Outbound,
    /// Of the store itself.
    server: Option<(String, u16)>,
    timeout: Duration,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl HttpConnector for Wire {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Wire {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_safe = request.method() != Method::POST;
        let failure = match self.send(request).await {
            Ok(response) => return Ok(response),
            Err((failure, after)) => {
                // Where the server has said when to come again.
                if failure.is_transient() && after < self.0.timeout {
                    tokio::time::sleep(after).await;
                }
                failure
            }
        };
        Err(failure.into_error(is_safe))
    }
}

/// A failure, and when to come again.
type Refusal = (Failure, Duration);

fn at_once(failure: Failure) -> Refusal {
    (failure, Duration::ZERO)
}

impl Wire {
    /// To the store at this origin.
    pub(super) fn new(outbound: Outbound, origin: &Uri, timeout: Duration) -> Wire {
        Wire(Arc::new(WireState { outbound, server: server(origin), timeout }))
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, Refusal> {
        let WireState { outbound, server, timeout } = &*self.0;
        let is_streamed = is_content(&request, server.as_ref());
        let is_head = request.method() == Method::HEAD;
        let listing = Listing::of(&request);
        let range = request.headers().get(RANGE).cloned();
        let patience = Patience { first_byte: Some(*timeout), between_bytes: Some(*timeout) };
        let request = request.map(|body| body.map_err(|error| Box::new(error) as BodyError).boxed_unsync());
        let response =
            outbound.send(request, patience).await.map_err(|error| at_once(Failure::Silent(error)))?;
        let (mut head, body) = response.into_parts();
        let status = head.status.as_u16();
        if !head.status.is_success() {
            let text = self.text(body).await.unwrap_or_default();
            return Err((Failure::Refused { status, code: code(&text) }, retry_after(&head.headers)));
        }
        if let Some(range) = range.filter(|_| status == 200) {
            let content_range = whole(&range, &head.headers).map_err(at_once)?;
            head.status = StatusCode::PARTIAL_CONTENT;
            head.headers.insert(CONTENT_RANGE, content_range);
        }
        if is_head || is_streamed {
            let body = HttpResponseBody::new(Content(Mutex::new(body)));
            return Ok(Response::from_parts(head, body));
        }
        let text = self.text(body).await.map_err(at_once)?;
        if is_error(&text) {
            // It begins well and does not end so.
            return Err(at_once(Failure::Refused { status, code: code(&text) }));
        }
        let text = match listing {
            Some(listing) => listing.checked(&text).map_err(at_once)?,
            None => text,
        };
        Ok(Response::from_parts(head, text.into()))
    }

    /// All of a document.
    async fn text(&self, mut body: Body) -> Result<String, Failure> {
        let all = async {
            let mut bytes = Vec::new();
            while let Some(frame) = body.frame().await {
                let piece = frame.map_err(|_| cut_off())?.into_data().unwrap_or_default();
                if bytes.len() + piece.len() > LONGEST {
                    return Err(Failure::Unexpected(format!("a document of more than {LONGEST} bytes")));
                }
                bytes.extend_from_slice(&piece);
            }
            String::from_utf8(bytes).map_err(|_| Failure::Unexpected("no text".to_owned()))
        };
        let timed_out = |_| Failure::Silent(OutboundError::TimedOut);
        tokio::time::timeout(self.0.timeout, all).await.map_err(timed_out)?
    }
}

/// Host and port of a URL.
fn server(uri: &Uri) -> Option<(String, u16)> {
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    uri.host().map(|host| (host.to_ascii_lowercase(), port))
}

/// Whether an object's content is asked for, of this server.
fn is_content<T>(request: &Request<T>, of: Option<&(String, u16)>) -> bool {
    let uri = request.uri();
    request.method() == Method::GET && uri.query().is_none() && server(uri).as_ref() == of
}

fn cut_off() -> Failure {
    Failure::Unexpected("it was cut off".to_owned())
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

/// The range of a response that is all of an object although a range was asked for, which some servers send
/// where the object is within the range.
fn whole(asked: &HeaderValue, headers: &HeaderMap) -> Result<HeaderValue, Failure> {
    let size = headers.get(http::header::CONTENT_LENGTH);
    let size = size.and_then(|size| size.to_str().ok()?.parse::<u64>().ok());
    let last = asked.to_str().ok().and_then(|asked| asked.strip_prefix("bytes=0-"));
    let last = last.map(|last| last.parse::<u64>().unwrap_or(u64::MAX));
    match (size, last) {
        // No range can say that.
        (Some(0), Some(_)) => Err(Failure::Refused { status: 416, code: String::new() }),
        (Some(size), Some(last)) if size <= last.saturating_add(1) => {
            let text = format!("bytes 0-{}/{size}", size - 1);
            HeaderValue::from_str(&text).map_err(|_| cut_off())
        }
        _ => Err(Failure::Unexpected("more than the range".to_owned())),
    }
}

/// Whether a document says that something is wrong.
fn is_error(document: &str) -> bool {
    let document = document.trim_start();
    let declared = document.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>"));
    declared.map_or(document, |(_, document)| document.trim_start()).starts_with("<Error>")
}

/// The server's code for what is wrong; what does not look like one is none.
fn code(document: &str) -> String {
    let code = texts(document, "Code").next().unwrap_or_default();
    let is_code = code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_code { code.to_owned() } else { String::new() }
}

/// The texts in the elements of this name, none of which has another one within.
fn texts<'a>(document: &'a str, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = document;
    std::iter::from_fn(move || {
        let (text, after) = rest.split_once(&open)?.1.split_once(&close)?;
        rest = after;
        Some(text)
    })
}

/// The elements of a page of a listing.
struct Listing {
    page: &'static str,
    object: &'static str,
    name: &'static str,
}

impl Listing {
    /// The one that is asked for, if one is.
    fn of<T>(request: &Request<T>) -> Option<Listing> {
        let query = request.uri().query().filter(|_| request.method() == Method::GET)?;
        let mut parameters = query.split('&');
        parameters.find_map(|parameter| match parameter {
            "list-type=2" => Some(Listing { page: "ListBucketResult", object: "Contents", name: "Key" }),
            "comp=list" => Some(Listing { page: "EnumerationResults", object: "Blob", name: "Name" }),
            _ => None,
        })
    }

    /// The page with the objects that may be this program's. `object_store` refuses the whole page for a name
    /// such as `a//b`, and takes the folders of other tools, `a/`, for objects.
    fn checked(&self, document: &str) -> Result<String, Failure> {
        // A proxy's page, or half a listing, would be an empty container.
        let is_page = document.contains(&format!("<{}", self.page))
            && document.trim_end().ends_with(&format!("</{}>", self.page));
        if !is_page {
            return Err(Failure::Unexpected("no listing".to_owned()));
        }
        let (open, close) = (format!("<{}>", self.object), format!("</{}>", self.object));
        let (mut page, mut rest) = (String::with_capacity(document.len()), document);
        while let Some((before, (object, after))) =
            rest.split_once(&open).and_then(|(before, after)| Some((before, after.split_once(&close)?)))
        {
            page += before;
            if texts(object, self.name).next().is_some_and(is_key) {
                page.extend([&open, object, &close]);
            }
            rest = after;
        }
        Ok(page + rest)
    }
}

/// Whether an object of this program's may have this key.
fn is_key(key: &str) -> bool {
    let is_tame = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:=".contains(&byte);
    key.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_tame))
}

/// An object's content on its way.
struct Content(Mutex<Body>);

impl http_body::Body for Content {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let body = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let failed = |_| HttpError::new(HttpErrorKind::Interrupted, cut_off());
        Pin::new(body).poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(failed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_program_are_listed_and_only_listings_are() {
        let page = |objects: &str| {
            format!("<?xml version=\"1.0\"?><ListBucketResult>{objects}</ListBucketResult>\n")
        };
        let object = |key: &str| format!("<Contents><Key>{key}</Key><Size>5</Size></Contents>");
        let request = Request::get("http://a/b?prefix=p&list-type=2").body(()).unwrap();
        let listing = Listing::of(&request).unwrap();
        let all: String = ["p/a", "p/", "p//b", "p/=2E./c", "../d", "p/&lt;", "p/ä"].map(object).concat();
        let own = [object("p/a"), object("p/=2E./c")].concat();
        assert_eq!(listing.checked(&page(&all)), Ok(page(&own)));
        assert_eq!(listing.checked(&page("")), Ok(page("")));
        for document in
            ["", "<html>a proxy's page</html>", "<ListBucketResult><Contents><Size>6</Size></Contents>"]
        {
            assert_eq!(
                listing.checked(document),
                Err(Failure::Unexpected("no listing".to_owned())),
                "{document}"
            );
        }
        for (method, uri) in [("GET", "/b/k"), ("POST", "/b?comp=list"), ("GET", "/b?uploadId=comp=list")] {
            assert!(
                Listing::of(&Request::builder().method(method).uri(uri).body(()).unwrap()).is_none(),
                "{uri}"
            );
        }
    }

    /// A URL may have lost its scheme's port on the way.
    #[test]
    fn only_content_of_the_stores_own_is_read_without_end() {
        let of = server(&Uri::from_static("http://Store:80"));
        for (method, uri, expected) in [
            ("GET", "http://store/fleet/objects/k", true),
            ("GET", "http://store:80/k", true),
            ("GET", "https://store/k", false),
            ("GET", "http://store:81/k", false),
            ("GET", "http://store/k?comp=list", false),
            ("PUT", "http://store/k", false),
            ("GET", "http://169.254.169.254/latest", false),
        ] {
            let request = Request::builder().method(method).uri(uri).body(()).unwrap();
            assert_eq!(is_content(&request, of.as_ref()), expected, "{method} {uri}");
        }
    }

    #[test]
    fn an_object_that_is_given_whole_is_the_range_if_it_is_within() {
        let whole = |asked: &'static str, size: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from_static(size));
            whole(&HeaderValue::from_static(asked), &headers).ok()
        };
        assert_eq!(whole("bytes=0-6", "7").unwrap(), "bytes 0-6/7");
        assert_eq!(whole("bytes=0-", "7").unwrap(), "bytes 0-6/7");
        for (asked, size) in [("bytes=0-5", "7"), ("bytes=1-6", "7"), ("bytes=0-6", "0"), ("bytes=0-6", "x")]
        {
            assert_eq!(whole(asked, size), None, "{asked} {size}");
        }
    }
}
