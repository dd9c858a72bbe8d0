//! The W3C trace context of a request: `traceparent` and `tracestate`.
//!
//! In: the values of the two headers, which any client may have written. Out: the context, and its text.
//! Invariants: a `traceparent` that the specification forbids counts as absent, and `tracestate` with it;
//! what is kept of `tracestate` is a valid list of at most [`MEMBERS`] members and [`LONGEST_STATE`] bytes.

use std::fmt;

use super::random;

/// The headers of a context.
pub const TRACEPARENT: &str = "traceparent";
/// See [`TRACEPARENT`].
pub const TRACESTATE: &str = "tracestate";

/// Most members of a `tracestate`: one with more is dropped.
const MEMBERS: usize = 32;
/// Most bytes of a `tracestate` that are kept.
pub const LONGEST_STATE: usize = 512;
/// Members longer than this are the first to be left out of a `tracestate` that is too long.
const LONG_MEMBER: usize = 128;

/// The only flag of version 00: whether the caller records.
const SAMPLED: u8 = 1;

/// The id of a trace: 16 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span: 8 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SpanId(pub [u8; 8]);

impl TraceId {
    /// A new one.
    pub fn random() -> TraceId {
        TraceId(((u128::from(random()) << 64) | u128::from(random())).max(1).to_be_bytes())
    }

    /// The lower half, by which the ratio of traces is sampled: every server decides the same.
    pub(super) fn low(self) -> u64 {
        // Cuts the upper half off.
        u128::from_be_bytes(self.0) as u64
    }
}

impl SpanId {
    /// A new one.
    pub fn random() -> SpanId {
        SpanId(random().max(1).to_be_bytes())
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A span as others are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace that the span is part of.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Whether the trace is recorded.
    pub sampled: bool,
    /// The `tracestate`, if there is one.
    pub state: Option<Box<str>>,
}

impl TraceContext {
    /// Reads the headers of a request, each line of a header as it came.
    pub fn read<'a>(
        mut parents: impl Iterator<Item = &'a [u8]>,
        states: impl Iterator<Item = &'a [u8]>,
    ) -> Option<TraceContext> {
        let (parent, another) = (parents.next()?, parents.next());
        let (trace, span, sampled) = traceparent(parent).filter(|_| another.is_none())?;
        Some(TraceContext { trace, span, sampled, state: tracestate(states) })
    }

    /// The value of `traceparent` for a request that the span sends, written as version 00.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace, self.span, if self.sampled { SAMPLED } else { 0 })
    }
}

/// Trace, span and whether it is sampled, of a `traceparent` (W3C Trace Context, section 3.2).
fn traceparent(text: &[u8]) -> Option<(TraceId, SpanId, bool)> {
    let text = std::str::from_utf8(text).ok()?.trim_matches([' ', '\t']);
    let mut fields = text.split('-');
    let version = number(fields.next()?, 2)?;
    let trace = number(fields.next()?, 32).filter(|&id| id != 0)?;
    let span = number(fields.next()?, 16).filter(|&id| id != 0)?;
    let flags = number(fields.next()?, 2)?;
    // Later versions may have further fields; 255 is no version.
    if version == 0xff || (version == 0 && fields.next().is_some()) {
        return None;
    }
    let span = u64::try_from(span).ok()?;
    let sampled = flags & u128::from(SAMPLED) != 0;
    Some((TraceId(trace.to_be_bytes()), SpanId(span.to_be_bytes()), sampled))
}

/// A number of exactly so many hexadecimal digits in lower case.
fn number(text: &str, digits: usize) -> Option<u128> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let fits = text.len() == digits && text.bytes().all(is_hex);
    if fits { u128::from_str_radix(text, 16).ok() } else { None }
}

/// The members of all lines as one list, without those that do not fit; `None` if one of them is not valid.
fn tracestate<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Box<str>> {
    let mut members: Vec<&str> = Vec::new();
    for line in lines {
        for member in std::str::from_utf8(line).ok()?.split(',') {
            let member = member.trim_matches([' ', '\t']);
            if member.is_empty() {
                continue;
            }
            let (key, value) = member.split_once('=')?;
            let is_known = |own: &&str| own.split_once('=').is_some_and(|(known, _)| known == key);
            if members.len() == MEMBERS || !is_key(key) || !is_value(value) || members.iter().any(is_known) {
                return None;
            }
            members.push(member);
        }
    }
    let length = |members: &[&str]| members.iter().map(|member| member.len() + 1).sum::<usize>();
    // Section 3.3.1.5: long ones first, then from the end.
    while length(&members) > LONGEST_STATE + 1 {
        let long = members.iter().rposition(|member| member.len() > LONG_MEMBER);
        members.remove(long.unwrap_or(members.len().saturating_sub(1)));
    }
    (!members.is_empty()).then(|| members.join(",").into())
}

/// Whether a member may have this key (section 3.3.1.3.1).
fn is_key(key: &str) -> bool {
    let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/');
    let is_part = |part: &str, longest: usize| part.len() <= longest && part.bytes().all(is_inner);
    let begins = |part: &str| part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    match key.split_once('@') {
        None => begins(key) && is_part(key, 256),
        Some((tenant, system)) => {
            begins(tenant) && is_part(tenant, 241) && begins(system) && is_part(system, 14)
        }
    }
}

/// Whether a member may have this value (section 3.3.1.3.2).
fn is_value(value: &str) -> bool {
    (1..=256).contains(&value.len()) && value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(parents: &[&str], states: &[&str]) -> Option<TraceContext> {
        let bytes = |lines: &[&str]| lines.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>();
        let (parents, states) = (bytes(parents), bytes(states));
        TraceContext::read(parents.iter().map(Vec::as_slice), states.iter().map(Vec::as_slice))
    }

    #[test]
    fn a_context_is_read_and_written() {
        let context = read(&[PARENT], &["a=1, b@c=2", "", "d=3 4 ,"]).unwrap();
        assert_eq!(context.traceparent(), PARENT);
        assert_eq!(context.state.as_deref(), Some("a=1,b@c=2,d=3 4"));
        let unsampled = read(&[&PARENT.replace("-01", "-02")], &[]).unwrap();
        assert_eq!((unsampled.sampled, unsampled.state), (false, None));
        // Later versions, with fields of their own.
        for later in [PARENT.replacen("00-", "cc-", 1), PARENT.replacen("00-", "01-", 1) + "-more"] {
            assert_eq!(read(&[&later], &[]).map(|context| context.sampled), Some(true), "{later}");
        }
    }

    #[test]
    fn what_is_malformed_is_absent() {
        let zeros = |digits| "0".repeat(digits);
        for parent in [
            String::new(),
            PARENT.to_uppercase(),
            format!("{PARENT}-more"),
            PARENT.replacen("00-", "ff-", 1),
            PARENT.replacen("00-", "0-", 1),
            PARENT.replacen("00-", "+0-", 1),
            PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &zeros(32)),
            PARENT.replace("00f067aa0ba902b7", &zeros(16)),
            PARENT.replace("4bf9", "4bg9"),
            PARENT.replace("-01", "-1"),
            PARENT.replace("-01", ""),
            PARENT.replace('-', ""),
            "é".repeat(50),
            "-".repeat(100_000),
        ] {
            assert_eq!(read(&[&parent], &["a=1"]), None, "{parent:.80}");
        }
        assert_eq!(read(&[PARENT, PARENT], &[]), None);
        assert_eq!(read(&[], &["a=1"]), None);
        assert_eq!(TraceContext::read([&b"\xff"[..]].into_iter(), [].into_iter()), None);
    }

    #[test]
    fn a_state_is_valid_and_bounded_or_dropped() {
        let state = |text: &str| read(&[PARENT], &[text]).unwrap().state;
        for bad in [
            "a",
            "=1",
            "a=",
            "A=1",
            "a=1,a=2",
            "a=b=c",
            "@a=1",
            "a@=1",
            "a=\u{7f}",
            "é=1",
            &"k=1,".repeat(33),
            &format!("{}=1", "k".repeat(257)),
            &format!("k={}", "v".repeat(257)),
            &"x".repeat(100_000),
        ] {
            assert_eq!(state(bad), None, "{bad:.80}");
        }
        let many = |members: usize, value: usize| {
            let value = "v".repeat(value);
            (0..members).map(|n| format!("k{n}={value}")).collect::<Vec<_>>().join(",")
        };
        assert_eq!(state(&many(33, 1)), None);
        // One long member goes before twenty short ones.
        let kept = state(&format!("long={},{}", "v".repeat(200), many(20, 12))).unwrap();
        assert_eq!(&*kept, many(20, 12));
        let kept = state(&many(32, 30)).unwrap();
        assert!(kept.len() <= LONGEST_STATE && kept.starts_with("k0=") && many(32, 30).starts_with(&*kept));
        assert_eq!(state(&many(2, 254)).unwrap().len(), 257);
    }
}
