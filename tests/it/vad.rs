//! The example examples/vad-wasm: events about audio that is still coming in.

use std::sync::OnceLock;

use e2e::frames::{self, Http2};
use e2e::wire::Wire;
use e2e::{Host, clients, component};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, PartialEq, Deserialize)]
struct Segment {
    start: u64,
    end: u64,
}

/// Audio, and the segments of speech in it as another implementation finds them.
struct Case {
    audio: Vec<u8>,
    segments: Vec<Segment>,
}

fn case() -> &'static Case {
    static CASE: OnceLock<Case> = OnceLock::new();
    CASE.get_or_init(|| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let model = e2e::root().join("target/models/silero_vad.onnx");
        assert!(model.exists(), "no `{}`; hint: run `scripts/example-models.sh` first", model.display());
        let found = clients::run("vad", &[model.to_str().unwrap(), file.path().to_str().unwrap()]);
        let segments: Vec<Segment> = serde_json::from_str(&found).unwrap();
        assert_eq!(segments.len(), 3);
        Case { audio: std::fs::read(file.path()).unwrap(), segments }
    })
}

fn serve() -> Host {
    component("vad-wasm");
    let config = e2e::root().join("examples/vad-wasm/modelhost.toml");
    Host::serve(&["--config", config.to_str().unwrap()])
}

/// The segments that events tell of; what is around the events is of the transfer.
fn segments(events: &str) -> Vec<Segment> {
    let mut samples = events.lines().filter_map(|line| line.strip_prefix("data: ")).map(|data| {
        let data: Value = serde_json::from_str(data).unwrap();
        let sample = data["sample"].as_u64().unwrap();
        assert_eq!(data["seconds"].as_f64().unwrap(), sample as f64 / 16_000.0);
        sample
    });
    let names: Vec<&str> = events.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert!(
        names.iter().zip(["start", "end"].iter().cycle()).all(|(name, expected)| name == expected),
        "{names:?}"
    );
    std::iter::from_fn(|| Some(Segment { start: samples.next()?, end: samples.next()? })).collect()
}

/// The audio up to where the end of the first segment is certain, and the rest.
fn halves(case: &Case) -> (&[u8], &[u8]) {
    // The pause of 100 ms after it, less the padding; two windows more.
    let certain = case.segments[0].end + 1600 + 2 * 512;
    assert!(certain < case.segments[1].start);
    case.audio.split_at(2 * usize::try_from(certain).unwrap())
}

#[test]
fn the_segments_are_the_packages() {
    let (case, host) = (case(), serve());
    let reply = host.request("POST", "/vad", &[("content-type", "audio/pcm")], &case.audio);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(segments(&reply.text()), case.segments);
    let readme = std::fs::read_to_string(e2e::root().join("examples/vad-wasm/README.md")).unwrap();
    assert!(readme.contains(reply.text().trim_end()), "{}", reply.text());
    assert_eq!(host.request("PUT", "/vad/any", &[], &[]).text(), "", "no audio, no speech");
}

#[test]
fn events_come_while_audio_goes_out_chunked() {
    let (case, host) = (case(), serve());
    let mut wire = Wire::connect(&host.url).unwrap();
    let head = "POST /vad HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    wire.send(head.as_bytes()).unwrap();
    let received = |wire: &Wire| String::from_utf8_lossy(wire.unread()).into_owned();
    // The head is there before any audio is.
    while !received(&wire).contains("\r\n\r\n") {
        wire.receive().unwrap();
    }
    let send = |wire: &mut Wire, audio: &[u8]| {
        for piece in audio.chunks(1001) {
            let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
            wire.send(&chunk).unwrap();
        }
    };
    let (first, second) = halves(case);
    send(&mut wire, first);
    while !received(&wire).contains("event: end") {
        wire.receive().unwrap();
    }
    assert_eq!(segments(&received(&wire)), case.segments[..1]);
    // Another stream in between has a memory of its own.
    let reply = host.request("POST", "/vad", &[], &case.audio);
    assert_eq!(segments(&reply.text()), case.segments);
    send(&mut wire, second);
    wire.send(b"0\r\n\r\n").unwrap();
    let all = String::from_utf8(wire.until_closed()).unwrap();
    assert!(all.ends_with("0\r\n\r\n"), "{all}");
    assert_eq!(segments(&all), case.segments);
}

/// Audio that goes out on stream 1 of HTTP/2 while events come in.
struct Exchange {
    http: Http2,
    events: String,
    is_over: bool,
    /// Bytes that may be sent: on the connection, on the stream.
    windows: [i64; 2],
}

impl Exchange {
    fn send(&mut self, audio: &[u8]) {
        for piece in audio.chunks(1001) {
            while self.windows.iter().any(|window| *window < 1001) {
                self.receive();
            }
            self.http.send(frames::DATA, 0, 1, piece).unwrap();
            self.windows = self.windows.map(|window| window - 1001);
        }
    }

    fn receive(&mut self) {
        let frame = self.http.receive().unwrap();
        let number = |bytes: &[u8]| i64::from(u32::from_be_bytes(bytes.try_into().unwrap()));
        match frame.kind {
            frames::DATA => {
                self.events.push_str(str::from_utf8(&frame.payload).unwrap());
                self.is_over = frame.flags & frames::END_STREAM != 0;
            }
            frames::HEADERS => assert!(frames::is_ok(&frame), "{frame:?}"),
            frames::WINDOW_UPDATE => self.windows[frame.stream as usize] += number(&frame.payload),
            // The window that a stream begins with is setting 4, and holds from here on.
            frames::SETTINGS if frame.flags == 0 => {
                self.http.send(frames::SETTINGS, frames::ACK, 0, &[]).unwrap();
                let settings = frame.payload.chunks(6).filter(|setting| setting[..2] == [0, 4]);
                settings.for_each(|setting| self.windows[1] += number(&setting[2..]) - 65_535);
            }
            // A ping, which the host sends when nothing has come for a while, wants to be answered.
            frames::PING => self.http.send(frames::PING, frames::ACK, 0, &frame.payload).unwrap(),
            kind => assert_eq!(kind, frames::SETTINGS, "{frame:?}"),
        }
    }
}

#[test]
fn events_come_while_audio_goes_out_over_http_2() {
    let (case, host) = (case(), serve());
    let mut http = Http2::begin(Wire::connect(&host.url).unwrap()).unwrap();
    http.send(frames::HEADERS, frames::END_HEADERS, 1, &frames::post("/vad", &[])).unwrap();
    let mut exchange = Exchange { http, events: String::new(), is_over: false, windows: [65_535; 2] };
    let (first, second) = halves(case);
    exchange.send(first);
    while !exchange.events.contains("event: end") {
        exchange.receive();
    }
    assert_eq!(segments(&exchange.events), case.segments[..1]);
    exchange.send(second);
    exchange.http.send(frames::DATA, frames::END_STREAM, 1, &[]).unwrap();
    while !exchange.is_over {
        exchange.receive();
    }
    assert_eq!(segments(&exchange.events), case.segments);
}

/// Audio that stops without an end makes no stream that looks whole, and harms no other.
#[test]
fn audio_that_breaks_off_ends_its_stream_alone() {
    let (case, host) = (case(), serve());
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(b"POST /vad HTTP/1.1\r\nhost: here\r\ncontent-length: 1000000\r\n\r\n").unwrap();
    wire.send(halves(case).0).unwrap();
    wire.finish().unwrap();
    let cut = String::from_utf8(wire.until_closed()).unwrap();
    assert!(!cut.ends_with("0\r\n\r\n"), "{cut}");
    let reply = host.request("POST", "/vad", &[], &case.audio);
    assert_eq!(segments(&reply.text()), case.segments);
}
