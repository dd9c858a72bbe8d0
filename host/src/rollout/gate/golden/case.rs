//! A case of an application: a request with method, path and headers, and the whole answer to it.
//!
//! Place in the flow: `NAME.request.json` and its `NAME.expected.json`, and `NAME.answer.json` of others,
//! read with the other samples of a folder. In: JSON of the operator's. Out: a [`Sample`], with the answers
//! to the requests that its handler sends to others; an [`ExpectedAnswer`]. The form is in
//! docs/reference.md.
//! Invariant: what a case does not answer is denied: no case sends anything.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::capture::compare::{self, Difference, Outcome};
use crate::capture::samples::{Sample, SampleInput};
use crate::endpoint::config::Bounds;
use crate::error::RequestError;
use crate::json::object::{Object, told};
use crate::json::{base64, special};
use crate::outbound::{OutboundAnswer, OutboundCall, OutboundError};
use crate::plugin::host_call_log::KnownCalls;
use crate::request::{Output, PlainHead, Response, is_json_type};
use crate::text::is_token;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const TYPE: &str = "content-type";

/// A body: a string as it is, any other JSON as JSON; or bytes.
struct Content<'a> {
    body: Option<&'a RawValue>,
    base64: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    method: Option<String>,
    #[serde(default = "root")]
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Box<RawValue>>,
    base64: Option<String>,
    #[serde(default)]
    outbound: Vec<Object<Answered>>,
}

/// The body of a request as it is written, which may have numbers that JSON does not have.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// A request that the handler sends, and the answer that it gets.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answered {
    method: String,
    url: String,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Box<RawValue>>,
    base64: Option<String>,
}

fn root() -> String {
    "/".to_owned()
}

fn ok() -> u16 {
    200
}

/// The answer that a case expects.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedAnswer {
    #[serde(default = "ok")]
    status: u16,
    /// Others are not compared.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl<'a> Content<'a> {
    fn new(body: &'a Option<Box<RawValue>>, base64: &'a Option<String>) -> Content<'a> {
        Content { body: body.as_deref(), base64: base64.as_deref() }
    }

    /// The bytes, and their type if nothing says another; `None` without a body.
    fn bytes(&self, is_json: bool) -> Result<Option<(Bytes, &'static str)>, String> {
        if let Some(text) = self.base64 {
            if self.body.is_some() {
                return Err("has both `body` and `base64`".to_owned());
            }
            let bytes = base64::decode(text).ok_or("`base64` is no base64")?;
            return Ok(Some((bytes.into(), "application/octet-stream")));
        }
        let Some(body) = self.body else { return Ok(None) };
        Ok(Some(match serde_json::from_str::<String>(body.get()) {
            Ok(text) if !is_json => (text.into(), TEXT),
            _ => (Bytes::copy_from_slice(body.get().as_bytes()), JSON),
        }))
    }
}

/// Reads the request of a case.
///
/// # Errors
/// Text that says what is wrong with it.
pub(super) fn sample(name: String, text: &[u8]) -> Result<Sample, String> {
    let text = special::text(text).map_err(|error| error.to_string())?;
    let mut copy = None;
    let found = special::read(text, &mut copy, |text| {
        let Object(request): Object<Request> = serde_json::from_str(text)?;
        serde_json::from_str(text).map(|Written { body }| (request, body))
    });
    let ((request, written), document) = found.map_err(|error| told(&error))?;
    let Request { method, path, mut headers, body, base64, outbound } = request;
    let written = written.map(|body| document.written(body.get()));
    document.check(written)?;
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "`path` is {path:?}, expected one that begins with `/`, other characters than ASCII as `%C3%A9`"
        ));
    }
    check_method(method.as_deref().unwrap_or("GET"))?;
    check_headers(&headers)?;
    let is_type = |name: &String| name.eq_ignore_ascii_case(TYPE);
    let declared = headers.iter().find(|(name, _)| is_type(name)).map(|(_, value)| value.clone());
    let body = Content::new(&body, &base64).bytes(declared.as_deref().is_some_and(is_json_type))?;
    let body = body.map(|(bytes, kind)| match written {
        Some(written) if !document.is_plain() => (Bytes::copy_from_slice(written.as_bytes()), kind),
        _ => (bytes, kind),
    });
    if let Some((_, kind)) = body.as_ref().filter(|_| declared.is_none()) {
        headers.insert(TYPE.to_owned(), (*kind).to_owned());
    }
    let method = method.unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" }.to_owned());
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let head = PlainHead {
        method: method.to_ascii_uppercase(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers: headers.into_iter().collect(),
    };
    let outbound = outbound.into_iter().map(|Object(answered)| answered.call());
    let outbound = outbound.collect::<Result<_, _>>().map_err(|problem| format!("`outbound`: {problem}"))?;
    let known = KnownCalls { outbound, ..KnownCalls::default() };
    let body = body.map(|(body, _)| body).unwrap_or_default();
    let input = SampleInput::Exchange { body, is_secure: false };
    Ok(Sample { name, head, input, model: None, known: Arc::new(known) })
}

fn check_method(method: &str) -> Result<(), String> {
    if is_token(method) {
        Ok(())
    } else {
        Err(format!("`method` is {method:?}, expected one such as `POST`"))
    }
}

fn check_status(status: u16) -> Result<(), String> {
    match (100..=999).contains(&status) {
        true => Ok(()),
        false => Err(format!("`status` is {status}, expected a number from 100 to 999")),
    }
}

/// Names and values as they can be sent, each name once.
fn check_headers(headers: &BTreeMap<String, String>) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for (name, value) in headers {
        if !is_token(name) {
            return Err(format!("`headers`: {name:?} is no name of a header"));
        }
        if !value.bytes().all(|byte| byte == b'\t' || (b' '..0x7f).contains(&byte)) {
            return Err(format!("`headers`: the value of `{name}` is {value:?}, expected visible ASCII"));
        }
        if !names.insert(name.to_ascii_lowercase()) {
            return Err(format!("`headers`: `{name}` is given twice"));
        }
    }
    Ok(())
}

impl Answered {
    fn call(self) -> Result<OutboundCall, String> {
        check_method(&self.method)?;
        check_status(self.status)?;
        check_headers(&self.headers)?;
        let mut headers = self.headers;
        let content = Content::new(&self.body, &self.base64);
        let body = content.bytes(headers.get(TYPE).is_some_and(|kind| is_json_type(kind)))?;
        if let Some((_, kind)) = &body {
            headers.entry(TYPE.to_owned()).or_insert_with(|| (*kind).to_owned());
        }
        let answer = OutboundAnswer::Response {
            status: self.status,
            headers: headers.into_iter().collect(),
            body: body.map(|(body, _)| body).unwrap_or_default(),
            is_whole: true,
        };
        Ok(OutboundCall {
            method: self.method.to_ascii_uppercase(),
            url: self.url,
            answer: Some(answer),
            ..OutboundCall::default()
        })
    }
}

/// How the requests that a handler has sent differ from those that its case answers.
pub(super) fn unanswered(known: &[OutboundCall], sent: &[OutboundCall]) -> Vec<Difference> {
    let place = |number: usize| format!("outbound {}", number + 1);
    let is_denied =
        |call: &OutboundCall| matches!(call.answer, Some(OutboundAnswer::Failed(OutboundError::Denied)));
    let denied = sent.iter().enumerate().filter(|(_, call)| is_denied(call));
    let denied = denied.map(|(number, call)| Difference {
        place: place(number),
        change: format!("the case does not answer `{}`", call.shown()),
    });
    let is_same =
        |one: &OutboundCall, other: &OutboundCall| (&one.method, &one.url) == (&other.method, &other.url);
    let times =
        |call: &OutboundCall, among: &[OutboundCall]| among.iter().filter(|it| is_same(it, call)).count();
    let unsent = known
        .iter()
        .enumerate()
        .filter(|(number, call)| times(call, known.get(..=*number).unwrap_or_default()) > times(call, sent));
    let unsent = unsent.map(|(number, call)| Difference {
        place: place(number),
        change: format!("`{}` is not sent", call.shown()),
    });
    denied.chain(unsent).collect()
}

/// Whether the request is the client's mistake, and not a fault of the handler or the server.
pub fn is_refusal(error: &RequestError) -> bool {
    (400..500).contains(&error.code.http())
}

/// The response that an outcome is to a client: a handler's, or that of a request which is the client's
/// mistake; `None` if it is neither, as a handler's fault is not.
pub(super) fn response(outcome: &Outcome) -> Option<Cow<'_, Response>> {
    let error = match outcome {
        Ok(Output::Response(response)) => return Some(Cow::Borrowed(response)),
        Ok(_) => return None,
        Err(error) => error,
    };
    let body = json!({"error": error.message, "code": error.code.name(), "stage": error.stage.name()});
    is_refusal(error).then(|| {
        Cow::Owned(Response {
            status: error.code.http(),
            content_type: JSON.to_owned(),
            headers: Vec::new(),
            body: body.to_string().into(),
        })
    })
}

impl ExpectedAnswer {
    /// Reads it.
    ///
    /// # Errors
    /// Text that says what is wrong with it.
    pub(super) fn read(text: &[u8]) -> Result<ExpectedAnswer, String> {
        let Object(expected): Object<ExpectedAnswer> =
            serde_json::from_slice(special::without_mark(text)).map_err(|error| told(&error))?;
        check_status(expected.status)?;
        expected.content().bytes(false)?;
        Ok(expected)
    }

    /// The file that expects this answer.
    pub(super) fn of(response: &Response) -> ExpectedAnswer {
        let is_framing = |name: &str| name.eq_ignore_ascii_case("content-length");
        let own = response.headers.iter().filter(|(name, _)| !is_framing(name)).cloned();
        let kind = Some((TYPE.to_owned(), response.content_type.clone()));
        let kind = kind.filter(|(_, kind)| !kind.is_empty());
        let text = std::str::from_utf8(&response.body).ok();
        let body = text.and_then(|text| match is_json_type(&response.content_type) {
            true => RawValue::from_string(text.to_owned()).ok(),
            false => serde_json::value::to_raw_value(text).ok(),
        });
        let base64 = body.is_none().then(|| base64::Base64(&response.body).to_string());
        ExpectedAnswer { status: response.status, headers: own.chain(kind).collect(), body, base64 }
    }

    fn content(&self) -> Content<'_> {
        Content::new(&self.body, &self.base64)
    }

    /// How an outcome differs from it.
    pub(super) fn differences(&self, outcome: &Outcome, bounds: &Bounds) -> Vec<Difference> {
        let mut wanted = Response {
            status: self.status,
            content_type: String::new(),
            headers: Vec::new(),
            body: Bytes::new(),
        };
        let Some(got) = response(outcome) else {
            return compare::compare(&Ok(Output::Response(wanted)), outcome, bounds);
        };
        let (kinds, others): (Vec<_>, Vec<_>) =
            self.headers.iter().partition(|(name, _)| name.eq_ignore_ascii_case(TYPE));
        wanted.content_type =
            kinds.first().map_or_else(|| got.content_type.clone(), |(_, kind)| (*kind).clone());
        wanted.headers = others.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        // It was read before.
        let body = self.content().bytes(is_json_type(&wanted.content_type)).ok().flatten();
        wanted.body = body.map_or_else(|| got.body.clone(), |(body, _)| body);
        let is_named = |name: &str| wanted.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let headers = got.headers.iter().filter(|(name, _)| is_named(name)).cloned().collect();
        let got = Response { headers, ..got.into_owned() };
        compare::compare(&Ok(Output::Response(wanted)), &Ok(Output::Response(got)), bounds)
    }
}
