//! The slots of a Redis Cluster: the one of a key, the nodes that have them, the way to another node.
//!
//! Place in the flow: beside `cluster.rs`, which sends commands to the node of their slot. In: the name of a
//! key, what nodes say of slots and of each other. Out: slots, addresses.
//! Invariants: slots are those of the specification,
//! <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>; an address has a host and a
//! port.

use std::fmt;

use redis::{RedisError, Value};

use super::bytes;

/// All slots.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key: that of its hash tag, if it has one.
pub(super) fn of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC16 of XMODEM, as the specification has it.
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc: u16 = 0;
    for byte in bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            let is_carried = crc & 0x8000 != 0;
            crc <<= 1;
            if is_carried {
                crc ^= 0x1021;
            }
        }
    }
    crc
}

/// Where a node is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}

impl Address {
    /// As a node says it, which leaves out a host that it does not know: then it is the one that was asked.
    fn new(host: &str, port: u16, asked: &str) -> Option<Address> {
        let host = if host.is_empty() || host == "?" { asked } else { host };
        (port != 0).then(|| Address { host: host.to_owned(), port })
    }

    /// Of a node in the answer to `CLUSTER SLOTS`: host, port, and more.
    fn read(node: Value, asked: &str) -> Option<Address> {
        let Value::Array(node) = node else { return None };
        let mut parts = node.into_iter();
        let host = match parts.next()? {
            Value::Nil => Vec::new(),
            host => bytes(host)?,
        };
        Address::new(&String::from_utf8(host).ok()?, small(parts.next()?)?, asked)
    }
}

/// The way of a command that a node has not run, because of its slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot is this node's.
    Moved(Address),
    /// The slot is on its way to this node, which has the keys if any node has.
    Ask(Address),
    /// The slot is on its way, and neither node has all keys.
    Later,
}

impl Redirect {
    /// The one that an error of the node at the host `asked` is.
    pub(super) fn of(error: &RedisError, asked: &str) -> Option<Redirect> {
        let code = error.code()?;
        if code == "TRYAGAIN" {
            return Some(Redirect::Later);
        }
        // Of `MOVED` and `ASK` only. An IPv6 address is without brackets.
        let (host, port) = error.redirect_node()?.0.rsplit_once(':')?;
        let address = Address::new(host, port.parse().ok()?, asked)?;
        Some(if code == "ASK" { Redirect::Ask(address) } else { Redirect::Moved(address) })
    }
}

/// Slots that follow each other and have one node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    primary: Address,
}

/// The nodes of all slots, as a node has said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slots {
    /// In order.
    ranges: Vec<Range>,
    /// Nodes that have copies of slots, in order.
    pub(super) replicas: Vec<Address>,
    /// Slots that have a node.
    pub(super) covered: u16,
}

impl Slots {
    /// Reads the answer to `CLUSTER SLOTS`, of the node at the host `asked`.
    pub(super) fn read(told: Value, asked: &str) -> Option<Slots> {
        let Value::Array(told) = told else { return None };
        let (mut ranges, mut replicas) = (Vec::new(), Vec::new());
        for range in told {
            let Value::Array(range) = range else { return None };
            let mut parts = range.into_iter();
            let (first, last) = (small(parts.next()?)?, small(parts.next()?)?);
            if first > last || last >= SLOTS {
                return None;
            }
            if let Some(primary) = Address::read(parts.next()?, asked) {
                ranges.push(Range { first, last, primary });
            }
            replicas.extend(parts.filter_map(|node| Address::read(node, asked)));
        }
        ranges.sort_by_key(|range| range.first);
        replicas.sort();
        replicas.dedup();
        let (mut covered, mut next): (u16, u16) = (0, 0);
        for range in &ranges {
            let end = range.last + 1;
            covered += end.saturating_sub(range.first.max(next));
            next = next.max(end);
        }
        Some(Slots { ranges, replicas, covered })
    }

    /// Whether every slot has a node.
    pub(super) fn is_whole(&self) -> bool {
        self.covered == SLOTS
    }

    /// The node of a slot.
    pub(super) fn primary(&self, slot: u16) -> Option<&Address> {
        let at = self.ranges.partition_point(|range| range.last < slot);
        self.ranges.get(at).filter(|range| range.first <= slot).map(|range| &range.primary)
    }

    /// The nodes of slots, some of them several times.
    pub(super) fn primaries(&self) -> impl Iterator<Item = &Address> {
        self.ranges.iter().map(|range| &range.primary)
    }
}

fn small(value: Value) -> Option<u16> {
    match value {
        Value::Int(number) => u16::try_from(number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    /// `CLUSTER KEYSLOT` of a Redis 7 says the same.
    #[test]
    fn a_key_has_the_slot_that_redis_gives_it() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (key, expected) in [
            ("123456789", 12739),
            ("foo", 12182),
            ("foo{hash_tag}", 2515),
            ("{user1000}.following", 3443),
            ("user1000", 3443),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("modelhost:jobs:{it}", 4001),
            ("modelhost:jobs:{}", 8772),
            ("", 0),
        ] {
            assert_eq!(of(key), expected, "{key}");
        }
    }

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    fn node(host: Value, port: i64) -> Value {
        let more = [Value::BulkString(b"id".to_vec()), Value::Array(Vec::new())];
        Value::Array([host, Value::Int(port)].into_iter().chain(more).collect())
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        Value::Array([Value::Int(first), Value::Int(last)].into_iter().chain(nodes).collect())
    }

    #[test]
    fn nodes_are_read_and_a_host_that_is_left_out_is_the_one_that_was_asked() {
        let told = Value::Array(vec![
            range(10, 16_383, vec![node(text("b"), 2), node(text("d"), 4), node(text("c"), 3)]),
            range(0, 4, vec![node(text(""), 1)]),
            range(5, 5, vec![node(Value::Nil, 5)]),
            range(6, 9, vec![node(text("?"), 6), node(text("c"), 3)]),
        ]);
        let slots = Slots::read(told, "asked").unwrap();
        assert!(slots.is_whole());
        for (slot, expected) in [
            (0, at("asked", 1)),
            (4, at("asked", 1)),
            (5, at("asked", 5)),
            (9, at("asked", 6)),
            (10, at("b", 2)),
            (16_383, at("b", 2)),
        ] {
            assert_eq!(slots.primary(slot), Some(&expected), "{slot}");
        }
        assert_eq!(slots.replicas, [at("c", 3), at("d", 4)]);
        assert_eq!(slots.primaries().count(), 4);
    }

    #[test]
    fn slots_without_a_node_are_not_covered_and_another_answer_is_none() {
        let some = [range(0, 9, vec![node(text("a"), 1)]), range(5, 19, vec![node(text("b"), 2)])];
        let without = range(30, 39, vec![node(text("a"), 0), node(text("c"), 3)]);
        let told = Value::Array(some.into_iter().chain([without]).collect());
        let slots = Slots::read(told, "asked").unwrap();
        assert_eq!((slots.covered, slots.is_whole()), (20, false));
        assert_eq!(
            [19, 20, 30, 16_383].map(|slot| slots.primary(slot).is_some()),
            [true, false, false, false]
        );
        assert_eq!(Slots::read(Value::Array(Vec::new()), "asked").unwrap().covered, 0);
        for other in [
            Value::Nil,
            text("no"),
            Value::Array(vec![text("no")]),
            Value::Array(vec![range(5, 4, vec![node(text("a"), 1)])]),
            Value::Array(vec![range(0, 16_384, vec![node(text("a"), 1)])]),
            Value::Array(vec![range(-1, 5, vec![node(text("a"), 1)])]),
            Value::Array(vec![range(0, 5, Vec::new())]),
        ] {
            assert_eq!(Slots::read(other.clone(), "asked"), None, "{other:?}");
        }
    }

    #[test]
    fn the_way_to_another_node_is_read() {
        for (error, expected) in [
            ("MOVED 3999 127.0.0.1:6381", Some(Redirect::Moved(at("127.0.0.1", 6381)))),
            ("MOVED 3999 :6381", Some(Redirect::Moved(at("asked", 6381)))),
            ("MOVED 3999 ?:6381", Some(Redirect::Moved(at("asked", 6381)))),
            ("MOVED 3999 2001:db8::1:6381", Some(Redirect::Moved(at("2001:db8::1", 6381)))),
            ("ASK 3999 node-1.example.com:1", Some(Redirect::Ask(at("node-1.example.com", 1)))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(Redirect::Later)),
            ("MOVED 3999", None),
            ("ASK 3999 a:0", None),
            ("ASK 3999 a:b", None),
            ("CLUSTERDOWN The cluster is down", None),
            ("ERR MOVED 3999 127.0.0.1:6381", None),
        ] {
            let error = parse_redis_value(format!("-{error}\r\n").as_bytes()).unwrap();
            let error = error.extract_error().unwrap_err();
            assert_eq!(Redirect::of(&error, "asked"), expected, "{error}");
        }
        assert_eq!(at("2001:db8::1", 1).to_string(), "[2001:db8::1]:1");
    }
}
