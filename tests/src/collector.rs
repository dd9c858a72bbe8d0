//! A collector of OpenTelemetry for tests: takes OTLP over HTTP, reads the protobuf by itself, and can fail.
//!
//! In: exports of the host. Out: the spans in them; how a collector may misbehave, see [`Behaviour`].

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::wait_until;

/// What a collector does with an export.
#[derive(Debug, Clone, Copy)]
pub enum Behaviour {
    /// It takes the spans.
    Take,
    /// It takes them after this time.
    Slow(Duration),
    /// It never answers.
    Hang,
    /// It answers with this status line and forgets them.
    Refuse(&'static str),
}

/// A span as it came.
#[derive(Debug, Clone, Default)]
pub struct Span {
    /// In hexadecimal digits, as are the other ids.
    pub trace: String,
    /// Its own id.
    pub id: String,
    /// Empty: there is none.
    pub parent: String,
    /// The trace state, as it was sent.
    pub state: String,
    /// Its name.
    pub name: String,
    /// 1: internal, 2: server, 3: client, 5: consumer.
    pub kind: u64,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// The same of its end.
    pub end: u64,
    /// Numbers and truth values as text.
    pub attributes: BTreeMap<String, String>,
    /// The message, if the status is an error.
    pub error: Option<String>,
}

impl Span {
    /// An attribute; empty if it is not there.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// What has come.
#[derive(Default)]
struct Seen {
    spans: Vec<Span>,
    resource: BTreeMap<String, String>,
    heads: Vec<String>,
}

/// A collector on a port of its own.
pub struct Collector {
    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub url: String,
    behaviour: Arc<Mutex<Behaviour>>,
    seen: Arc<Mutex<Seen>>,
}

impl Collector {
    /// One that behaves so.
    pub fn start(behaviour: Behaviour) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (behaviour, seen) = (Arc::new(Mutex::new(behaviour)), Arc::<Mutex<Seen>>::default());
        let (its_behaviour, its_seen) = (behaviour.clone(), seen.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (behaviour, seen) = (its_behaviour.clone(), its_seen.clone());
                thread::spawn(move || serve(stream.unwrap(), &behaviour, &seen));
            }
        });
        Collector { url, behaviour, seen }
    }

    /// From now on it behaves so.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    /// The spans that it has taken.
    pub fn spans(&self) -> Vec<Span> {
        self.seen.lock().unwrap().spans.clone()
    }

    /// The attributes of the server that has sent them.
    pub fn resource(&self) -> BTreeMap<String, String> {
        self.seen.lock().unwrap().resource.clone()
    }

    /// The heads of the requests.
    pub fn heads(&self) -> Vec<String> {
        self.seen.lock().unwrap().heads.clone()
    }

    /// The spans of a trace, that of the request first, once it is there.
    pub fn trace(&self, trace: &str) -> Vec<Span> {
        let of_it = || self.spans().into_iter().filter(|span| span.trace == trace).collect::<Vec<_>>();
        wait_until(&format!("the trace {trace}"), || of_it().iter().any(|span| span.kind == 2));
        of_it()
    }
}

/// Answers the exports of one connection.
fn serve(stream: TcpStream, behaviour: &Mutex<Behaviour>, seen: &Mutex<Seen>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let lower = head.to_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.expect("an export says its length").parse().unwrap()];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let behaviour = *behaviour.lock().unwrap();
        let status = match behaviour {
            Behaviour::Take => "200 OK",
            Behaviour::Slow(time) => {
                thread::sleep(time);
                "200 OK"
            }
            Behaviour::Hang => {
                let _ = reader.read(&mut [0]);
                return;
            }
            Behaviour::Refuse(status) => status,
        };
        if status == "200 OK" {
            keep(&body, &head, &mut seen.lock().unwrap());
        }
        let answer =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n");
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads an `ExportTraceServiceRequest`.
fn keep(body: &[u8], head: &str, seen: &mut Seen) {
    seen.heads.push(head.to_owned());
    for resource_spans in all(body, 1) {
        for resource in all(resource_spans, 1) {
            seen.resource = attributes(resource, 1);
        }
        let scopes = all(resource_spans, 2);
        seen.spans.extend(scopes.into_iter().flat_map(|scope| all(scope, 2)).map(span));
    }
}

fn span(bytes: &[u8]) -> Span {
    let hex = |number| all(bytes, number).concat().iter().map(|byte| format!("{byte:02x}")).collect();
    let text = |number| String::from_utf8(all(bytes, number).concat()).unwrap();
    let number = |of| fields(bytes).into_iter().find(|(own, _)| *own == of).map_or(0, |(_, it)| it.number());
    let status = all(bytes, 15).concat();
    let is_error = fields(&status).iter().any(|(number, it)| *number == 3 && it.number() == 2);
    Span {
        trace: hex(1),
        id: hex(2),
        state: text(3),
        parent: hex(4),
        name: text(5),
        kind: number(6),
        start: number(7),
        end: number(8),
        attributes: attributes(bytes, 9),
        error: is_error.then(|| String::from_utf8(all(&status, 2).concat()).unwrap()),
    }
}

fn attributes(bytes: &[u8], number: u64) -> BTreeMap<String, String> {
    let attribute = |bytes: &[u8]| {
        let key = String::from_utf8(all(bytes, 1).concat()).unwrap();
        let value = all(bytes, 2).concat();
        let value = match fields(&value).as_slice() {
            [(1, Field::Bytes(text))] => String::from_utf8(text.to_vec()).unwrap(),
            [(2, Field::Number(is))] => (*is != 0).to_string(),
            [(3, Field::Number(number))] => number.to_string(),
            other => panic!("`{key}`: {other:?}"),
        };
        (key, value)
    };
    all(bytes, number).into_iter().map(attribute).collect()
}

#[derive(Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Field<'_> {
    fn number(&self) -> u64 {
        match self {
            Field::Number(number) => *number,
            Field::Bytes(_) => panic!("expected a number: {self:?}"),
        }
    }
}

/// The messages, texts and bytes in the fields of this number.
fn all(bytes: &[u8], number: u64) -> Vec<&[u8]> {
    let of_it = |(own, field)| match field {
        Field::Bytes(bytes) if own == number => Some(bytes),
        _ => None,
    };
    fields(bytes).into_iter().filter_map(of_it).collect()
}

/// The fields of a message in protobuf's encoding, each with its number.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut bytes);
                Field::Bytes(take(&mut bytes, usize::try_from(length).unwrap()))
            }
            5 => Field::Number(u32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap()).into()),
            other => panic!("wire type {other}"),
        };
        found.push((tag >> 3, field));
    }
    found
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}
