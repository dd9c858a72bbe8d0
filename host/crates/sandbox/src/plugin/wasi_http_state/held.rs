//! Memory of the host that a guest holds by handles of `wasi:http`: headers, and heads of requests and
//! responses.
//!
//! Place in the flow: [`super`] looks now and then when the guest calls `wasi:http`; what a look has
//! found the next call of the host by the guest asks. In: the table of the guest's handles. Out: whether
//! they hold too much. Each set of headers has a limit of its own; this one is of all of them together.
//! Invariant: what handles share counts once.

use std::collections::HashSet;

use http::HeaderMap;
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::FieldMap;
use wasmtime_wasi_http::p2::body::HostFutureTrailers;
use wasmtime_wasi_http::p2::types::{
    HostFutureIncomingResponse, HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse,
};
use wasmtime_wasi_http::p3;

/// Most bytes of headers and heads that an instance may hold.
const MOST: usize = 32 << 20;
/// Calls from one look to the next. Each may add as much as a set of headers may have.
const CALLS: u32 = 64;
/// The cost of a header in a map beside its text.
const EACH: usize = size_of::<http::HeaderName>() + size_of::<http::HeaderValue>() + 32;

/// Looks at what an instance holds.
#[derive(Default)]
pub(in crate::plugin) struct Held {
    calls: u32,
    is_too_much: bool,
}

impl Held {
    /// The guest calls `wasi:http`.
    pub(in crate::plugin) fn called(&mut self, table: &mut ResourceTable) {
        self.calls += 1;
        if self.calls >= CALLS {
            self.calls = 0;
            self.is_too_much = bytes(table) > MOST;
        }
    }

    /// The thing that there is too much of, as an error says it.
    pub(in crate::plugin) fn excess(&self) -> Option<String> {
        self.is_too_much.then(|| format!("headers of more than {MOST} bytes"))
    }
}

/// The bytes of all headers and heads behind these handles.
fn bytes(table: &mut ResourceTable) -> usize {
    let mut seen = HashSet::new();
    let mut of = |headers: &HeaderMap| {
        let is_counted = headers.is_empty() || !seen.insert(std::ptr::from_ref(headers));
        if is_counted { 0 } else { of_headers(headers) }
    };
    let mut sum = 0_usize;
    for entry in table.iter_mut() {
        let (headers, texts): (Option<&HeaderMap>, usize) = if let Some(fields) = entry.downcast_ref() {
            let fields: &FieldMap = fields;
            (Some(fields), 0)
        } else if let Some(HostOutgoingRequest { headers, authority, path_with_query, .. }) =
            entry.downcast_ref()
        {
            let texts = [authority, path_with_query].map(|text| text.as_ref().map_or(0, String::len));
            (Some(headers), texts.iter().sum())
        } else if let Some(HostOutgoingResponse { headers, .. }) = entry.downcast_ref() {
            (Some(headers), 0)
        } else if let Some(HostIncomingResponse { headers, .. }) = entry.downcast_ref() {
            (Some(headers), 0)
        } else if let Some(HostFutureIncomingResponse::Ready(Ok((response, _)))) = entry.downcast_ref() {
            (Some(response.headers()), 0)
        } else if let Some(HostFutureTrailers::Done(Ok(Some(trailers)))) = entry.downcast_ref() {
            (Some(trailers), 0)
        } else if let Some(p3::Request { headers, path_with_query, .. }) = entry.downcast_ref() {
            (Some(headers), path_with_query.as_ref().map_or(0, |path| path.as_str().len()))
        } else if let Some(p3::Response { headers, .. }) = entry.downcast_ref() {
            (Some(headers), 0)
        } else {
            (None, 0)
        };
        sum = sum.saturating_add(texts).saturating_add(headers.map_or(0, &mut of));
    }
    sum
}

fn of_headers(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + EACH).sum()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn fields(length: usize) -> HeaderMap {
        let value = HeaderValue::from_bytes(&vec![b'v'; length]).unwrap();
        HeaderMap::from_iter([(HeaderName::from_static("x-wide"), value)])
    }

    #[test]
    fn what_handles_share_counts_once_and_too_much_is_told_at_the_next_look() {
        let (mut table, mut hooks) = (ResourceTable::new(), super::super::Http::new(None).hooks);
        let shared = FieldMap::new_immutable(&mut hooks, fields(1 << 20));
        for _ in 0..100 {
            table.push(shared.clone()).unwrap();
        }
        let of_one = (1 << 20) + "x-wide".len() + EACH;
        assert_eq!(bytes(&mut table), of_one);
        let mut held = Held::default();
        for _ in 0..MOST / of_one {
            let headers = FieldMap::new_immutable(&mut hooks, fields(1 << 20));
            table.push(HostIncomingResponse { status: 200, headers, body: None }).unwrap();
        }
        let mut looks = (0..2 * CALLS).map(|_| {
            held.called(&mut table);
            held.excess()
        });
        assert!(looks.by_ref().take(CALLS as usize - 1).all(|it| it.is_none()));
        assert_eq!(looks.next().flatten().as_deref(), Some("headers of more than 33554432 bytes"));
    }
}
