//! HTTP/2's frames as they pass a connection's socket (RFC 9113, section 4.1), and which of them are too
//! many.
//!
//! Place in the flow: [`Socket`](super::socket::Socket) shows every byte that it reads or writes. In: bytes,
//! and what the client's requests have earned. Out: whether a client of HTTP/2 is to be sent away with
//! `ENHANCE_YOUR_CALM`.
//! A frame that brings no part of a body costs the server work and its client nothing: settings, pings,
//! priorities, window updates, resets, empty data, heads of streams that are refused. Each takes one from the
//! connection's allowance, which grows with time, with each request and with each piece of an answer: a
//! client that acknowledges what it takes, or ends what it began, never comes near the end of it.
//! Invariants: a connection of HTTP/1 pays for this with one branch a read; one of HTTP/2 with a step a
//! frame.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::client::Client;

/// All that a client of HTTP/2 begins with (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes before a frame's payload.
const HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// A frame of data with less than this is no useful part of a body.
const SMALLEST_PART: usize = 64;

/// Frames that a client may send beyond what it earns, and how many more each second.
const ALLOWANCE: i64 = 1024;
const EACH_SECOND: u128 = 500;
/// Frames that a request earns: its head, trailers, settings of its stream, and its end.
pub(super) const EARNED_BY_A_REQUEST: u64 = 16;
/// Frames that a piece of an answer earns, of 16 KiB at most: most clients acknowledge each twice.
pub(super) const EARNED_BY_A_PIECE: u64 = 10;
/// Frames after which others have their turn.
const RUN: u32 = 128;

/// The head of a frame.
struct FrameHead {
    length: usize,
    kind: u8,
    stream: u32,
}

/// A position in a stream of frames.
#[derive(Default)]
pub(super) struct FrameWalk {
    head: [u8; HEAD],
    /// Bytes of the head that are there.
    had: usize,
    /// Bytes of the payload that are still to come.
    left: usize,
}

impl FrameWalk {
    /// Whether the next byte begins a frame.
    pub(super) fn is_between(&self) -> bool {
        self.had == 0 && self.left == 0
    }

    /// Goes on by these bytes.
    pub(super) fn pass(&mut self, bytes: &[u8]) {
        self.heads(bytes, |_| {});
    }

    fn heads(&mut self, mut bytes: &[u8], mut seen: impl FnMut(&FrameHead)) {
        loop {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            if bytes.is_empty() {
                return;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(HEAD - self.had));
            if let Some(head) = self.head.get_mut(self.had..self.had + part.len()) {
                head.copy_from_slice(part);
            }
            self.had += part.len();
            bytes = rest;
            if self.had == HEAD {
                let [a, b, c, kind, _, stream @ ..] = self.head;
                let length = u32::from_be_bytes([0, a, b, c]) as usize;
                (self.had, self.left) = (0, length);
                seen(&FrameHead { length, kind, stream: u32::from_be_bytes(stream) });
            }
        }
    }
}

/// The frames of a connection's client.
pub(super) enum Inbound {
    /// As many bytes of HTTP/2's preface, and nothing else.
    Preface(usize),
    /// Another protocol.
    Other,
    Frames(Box<Calm>),
}

/// A client of HTTP/2, and how many frames it may still send.
pub(super) struct Calm {
    walk: FrameWalk,
    left: i64,
    /// When the allowance grew last, and all that was earned by then.
    grown: Instant,
    earned: u64,
    /// Frames since others had their turn.
    run: u32,
    /// The latest stream that it has begun.
    latest: u32,
}

impl Inbound {
    pub(super) fn new() -> Inbound {
        Inbound::Preface(0)
    }

    /// Notes bytes of the client. Whether they are more than it may send.
    pub(super) fn is_too_much(&mut self, bytes: &[u8], client: &Client) -> bool {
        match self {
            Inbound::Other => false,
            Inbound::Frames(calm) => calm.is_too_much(bytes, client),
            Inbound::Preface(had) => {
                let rest = PREFACE.get(*had..).unwrap_or_default();
                let (part, more) = bytes.split_at(bytes.len().min(rest.len()));
                if !rest.starts_with(part) {
                    *self = Inbound::Other;
                    return false;
                }
                *had += part.len();
                if *had < PREFACE.len() {
                    return false;
                }
                let mut calm = Box::new(Calm {
                    walk: FrameWalk::default(),
                    left: ALLOWANCE,
                    grown: Instant::now(),
                    earned: 0,
                    run: 0,
                    latest: 0,
                });
                client.is_http2.store(true, Ordering::Relaxed);
                let is_too_much = calm.is_too_much(more, client);
                *self = Inbound::Frames(calm);
                is_too_much
            }
        }
    }

    /// Whether others are to have their turn before more is read; asked once for each turn.
    pub(super) fn is_others_turn(&mut self) -> bool {
        match self {
            Inbound::Frames(calm) => calm.run >= RUN && std::mem::take(&mut calm.run) > 0,
            Inbound::Preface(_) | Inbound::Other => false,
        }
    }

    /// Nothing more is there: others have their turn anyway.
    pub(super) fn rest(&mut self) {
        if let Inbound::Frames(calm) = self {
            calm.run = 0;
        }
    }

    /// The frame that sends the client away: GOAWAY (RFC 9113, section 6.8).
    pub(super) fn farewell(&self) -> Vec<u8> {
        const GOAWAY: u8 = 7;
        const ENHANCE_YOUR_CALM: u8 = 11;
        const WHY: &[u8] = b"too many frames that carry no part of a request";
        let Inbound::Frames(calm) = self else { return Vec::new() };
        let length = u8::try_from(8 + WHY.len()).unwrap_or_default();
        let head = [0, 0, length, GOAWAY, 0, 0, 0, 0, 0];
        [&head[..], &calm.latest.to_be_bytes(), &[0, 0, 0, ENHANCE_YOUR_CALM], WHY].concat()
    }
}

impl Calm {
    fn is_too_much(&mut self, bytes: &[u8], client: &Client) -> bool {
        let (mut cost, mut latest) = (0u32, self.latest);
        self.walk.heads(bytes, |head| {
            cost += u32::from(head.kind != DATA || head.length < SMALLEST_PART);
            if head.kind == HEADERS {
                latest = latest.max(head.stream & 0x7fff_ffff);
            }
        });
        self.latest = latest;
        self.run = self.run.saturating_add(cost);
        self.left -= i64::from(cost);
        if self.left >= 0 {
            return false;
        }
        let now = Instant::now();
        let earned = client.earned.load(Ordering::Relaxed);
        let passed = now.duration_since(self.grown).as_millis() * EACH_SECOND / 1000;
        let grown = i64::try_from(passed + u128::from(earned.wrapping_sub(self.earned))).unwrap_or(i64::MAX);
        if grown > 0 {
            (self.grown, self.earned) = (now, earned);
        }
        self.left = self.left.saturating_add(grown).min(ALLOWANCE);
        self.left < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let mut frame = (length as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, 0, 0, 0, 0, 1]);
        frame.resize(HEAD + length, 0);
        frame
    }

    /// How many bytes are taken before they are too many, shown in pieces of `size`; at most ten times the
    /// allowance of frames.
    fn taken(frame: &[u8], size: usize, client: &Client, mut each: impl FnMut()) -> Option<usize> {
        let mut inbound = Inbound::new();
        assert!(!inbound.is_too_much(&PREFACE[..5], client));
        assert!(!inbound.is_too_much(&PREFACE[5..], client));
        let flood = frame.repeat(10 * ALLOWANCE as usize);
        let mut pieces = flood.chunks(size);
        pieces.position(|piece| {
            each();
            inbound.is_too_much(piece, client)
        })
    }

    #[test]
    fn frames_that_bring_nothing_are_too_many_however_they_are_cut() {
        // SETTINGS, PING, PRIORITY, WINDOW_UPDATE, RST_STREAM, CONTINUATION, an unknown one; empty data.
        for (kind, length) in
            [(4, 0), (4, 6), (6, 8), (2, 5), (8, 4), (3, 4), (9, 0), (200, 3), (0, 0), (0, 1)]
        {
            let frame = frame(kind, length);
            for size in [1, 7, frame.len(), 1000] {
                let taken =
                    taken(&frame, size, &Client::new(), || {}).map(|pieces| pieces * size / frame.len());
                // While it sends, time passes.
                let expected = ALLOWANCE as usize..2 * ALLOWANCE as usize;
                assert!(
                    taken.is_some_and(|taken| expected.contains(&(taken + size))),
                    "{kind} {size}: {taken:?}"
                );
            }
        }
    }

    #[test]
    fn parts_of_bodies_and_what_is_earned_are_not() {
        let client = Client::new();
        assert_eq!(taken(&frame(DATA, SMALLEST_PART), 1000, &client, || {}), None);
        let acknowledged = [frame(8, 4), frame(8, 4)].concat();
        let piece = || {
            client.earned.fetch_add(EARNED_BY_A_PIECE, Ordering::Relaxed);
        };
        assert_eq!(taken(&acknowledged, acknowledged.len(), &client, piece), None);
    }

    #[test]
    fn another_protocol_is_left_alone() {
        for first in [&b"GET / HTTP/1.1\r\n"[..], b"PRI * HTTP/1.1\r\n", b"P"] {
            let (mut inbound, client) = (Inbound::new(), Client::new());
            assert!(!inbound.is_too_much(first, &client));
            assert!(!inbound.is_too_much(&frame(6, 8).repeat(10_000), &client));
            assert!(matches!(inbound, Inbound::Other));
            assert!(!client.is_http2.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn a_walk_knows_where_a_frame_ends() {
        let frames = [frame(0, 5), frame(1, 0)].concat();
        let mut walk = FrameWalk::default();
        let between: Vec<bool> = frames
            .iter()
            .map(|byte| {
                walk.pass(&[*byte]);
                walk.is_between()
            })
            .collect();
        let ends: Vec<usize> = (0..frames.len()).filter(|at| between[*at]).collect();
        assert_eq!(ends, [HEAD + 5 - 1, frames.len() - 1]);
    }
}
