//! `wasi:http/outgoing-handler`: what sends requests in a component.

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions,
    Scheme, http_error_code,
};
use wasip2::io::streams::{InputStream, StreamError};

use super::{OutboundError, Request, Response, Result};

/// Most bytes that a stream takes at once, as WASI says.
const WRITE: usize = 4096;
/// Most bytes that are read at once.
const READ: u64 = 64 << 10;

/// Handles to one body. In the order in which they have to go.
#[derive(Debug)]
pub struct Body {
    stream: InputStream,
    _body: IncomingBody,
    _response: IncomingResponse,
}

impl Body {
    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        match self.stream.blocking_read(READ) {
            Ok(piece) => Ok(Some(piece)),
            Err(StreamError::Closed) => Ok(None),
            Err(StreamError::LastOperationFailed(failed)) => {
                Err(http_error_code(&failed).map_or_else(broken_off, error))
            }
        }
    }
}

pub fn send(request: &Request) -> Result<Response> {
    let (sent, options) = (head(request)?, options(request));
    let body = sent.body().map_err(|()| invalid("a header does not fit the body"))?;
    let response = outgoing_handler::handle(sent, Some(options)).map_err(error)?;
    // A receiver that wants no more of it has answered; what it said counts.
    let _ = write(&body, &request.body);
    let _ = OutgoingBody::finish(body, None);
    response.subscribe().block();
    let response = response.get().and_then(std::result::Result::ok);
    let response = response.ok_or_else(|| unexpected("its response"))?.map_err(error)?;
    let text = |(name, value): (String, Vec<u8>)| Some((name, String::from_utf8(value).ok()?));
    let headers = response.headers().entries().into_iter().filter_map(text).collect();
    let body = response.consume().map_err(|()| unexpected("its body"))?;
    let stream = body.stream().map_err(|()| unexpected("its body"))?;
    let status = response.status();
    Ok(Response { status, headers, body: Body { stream, _body: body, _response: response } })
}

pub fn random() -> u64 {
    wasip2::random::random::get_random_u64()
}

fn head(request: &Request) -> Result<OutgoingRequest> {
    let (is_secure, authority, path) = request.target()?;
    let headers = Fields::from_list(&request.sent_headers());
    let headers = headers.map_err(|_| invalid("a header cannot be sent"))?;
    let sent = OutgoingRequest::new(headers);
    let path = match path {
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    let no_url = |()| invalid("the URL or the method is none");
    sent.set_method(&method(&request.method)).map_err(no_url)?;
    sent.set_scheme(Some(&if is_secure { Scheme::Https } else { Scheme::Http })).map_err(no_url)?;
    sent.set_authority(Some(authority)).map_err(no_url)?;
    sent.set_path_with_query(Some(&path)).map_err(no_url)?;
    Ok(sent)
}

fn options(request: &Request) -> RequestOptions {
    let options = RequestOptions::new();
    let most = u64::try_from(request.timeout.as_nanos()).ok();
    // A host that has one of these clocks only says so here, and the others hold.
    let _ = options.set_connect_timeout(most);
    let _ = options.set_first_byte_timeout(most);
    let _ = options.set_between_bytes_timeout(most);
    options
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "PATCH" => Method::Patch,
        "OPTIONS" => Method::Options,
        other => Method::Other(other.to_owned()),
    }
}

fn write(body: &OutgoingBody, bytes: &[u8]) -> std::result::Result<(), StreamError> {
    let Ok(stream) = body.write() else { return Ok(()) };
    bytes.chunks(WRITE).try_for_each(|piece| stream.blocking_write_and_flush(piece))
}

fn invalid(text: &str) -> OutboundError {
    OutboundError::Invalid(text.to_owned())
}

fn broken_off() -> OutboundError {
    OutboundError::Failed("the response broke off".to_owned())
}

fn unexpected(what: &str) -> OutboundError {
    OutboundError::Failed(format!("{what} was taken before"))
}

fn error(code: ErrorCode) -> OutboundError {
    match code {
        ErrorCode::HttpRequestDenied => OutboundError::Denied,
        ErrorCode::DestinationIpProhibited => OutboundError::Prohibited,
        ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::HttpResponseTimeout => OutboundError::TimedOut,
        ErrorCode::HttpRequestUriInvalid | ErrorCode::HttpRequestUriTooLong => {
            invalid("the URL is none that a request can be sent to, or too long")
        }
        ErrorCode::HttpRequestMethodInvalid => invalid("the method is none"),
        ErrorCode::HttpRequestBodySize(_) | ErrorCode::HttpRequestLengthRequired => {
            invalid("the body has another length than its header says, or is too long")
        }
        ErrorCode::HttpRequestHeaderSectionSize(_)
        | ErrorCode::HttpRequestHeaderSize(_)
        | ErrorCode::HttpRequestTrailerSectionSize(_)
        | ErrorCode::HttpRequestTrailerSize(_) => invalid("the headers are too long"),
        ErrorCode::HttpResponseIncomplete => broken_off(),
        other => OutboundError::Failed(format!("{other:?}")),
    }
}
