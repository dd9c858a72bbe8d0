//! A Redis Cluster of a unit test's own: its processes and the folders of their data, which outlive them.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::RedisPlace;
use super::slot::SLOTS;
use super::test_server::redis_server;

/// The longest that anything of a cluster takes.
const LONGEST: Duration = Duration::from_secs(20);

/// Nodes, the primaries first.
pub(crate) struct TestCluster {
    nodes: Vec<TestNode>,
}

struct TestNode {
    process: Child,
    port: u16,
    /// The port for other nodes.
    bus: u16,
    folder: tempfile::TempDir,
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for a condition.
pub(crate) fn until(expected: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONGEST, "waited in vain: {expected}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A port that is free, and stays so when its server is started again: connections take none of these.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(97).wrapping_add(step) % 20_000;
        let port = 12_000 + u16::try_from(place).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl TestNode {
    fn start() -> TestNode {
        for _ in 0..20 {
            let (port, bus, folder) = (free_port(), free_port(), tempfile::tempdir().unwrap());
            let process = spawn(port, bus, &folder);
            let mut node = TestNode { process, port, bus, folder };
            if node.answers() {
                return node;
            }
        }
        panic!("no node of a cluster starts");
    }

    /// Waits until it answers; false once it has ended.
    fn answers(&mut self) -> bool {
        let mut has_ended = false;
        until("a node to answer", || {
            has_ended = self.process.try_wait().unwrap().is_some();
            has_ended || self.try_ask("PING").is_ok_and(|answer| answer == "+PONG")
        });
        !has_ended
    }

    fn restart(&mut self) {
        self.process = spawn(self.port, self.bus, &self.folder);
        assert!(self.answers(), "no server starts again at port {}", self.port);
    }

    fn kill(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn try_ask(&self, command: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(LONGEST))?;
        stream.write_all(format!("{command}\r\n").as_bytes())?;
        reply(&mut BufReader::new(stream))
    }

    fn ask(&self, command: &str) -> String {
        self.try_ask(command).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    fn order(&self, command: &str) {
        assert_eq!(self.ask(command), "+OK", "{command}");
    }

    /// A line of its answer to `INFO`.
    fn info(&self, section: &str, name: &str) -> Option<String> {
        let info = self.ask(&format!("INFO {section}"));
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned())
    }
}

fn spawn(port: u16, bus: u16, folder: &tempfile::TempDir) -> Child {
    redis_server(port, folder.path())
        .args(["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"])
        .args(["--cluster-port", &bus.to_string(), "--cluster-node-timeout", "1000"])
        .args(["--cluster-allow-replica-migration", "no", "--appendonly", "yes", "--appendfsync", "always"])
        // A replica has its primary's data at once.
        .args(["--repl-diskless-sync-delay", "0"])
        .spawn()
        .unwrap()
}

/// A reply; of a list, its entries with a space between them.
fn reply(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end();
    let length = |text: &str| text.parse::<usize>().ok();
    match line.split_at(1) {
        ("$", text) => {
            // -1 is none.
            let Some(length) = length(text) else { return Ok(String::new()) };
            let mut bytes = vec![0; length + 2];
            from.read_exact(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
        }
        ("*", text) => {
            let mut entries = Vec::new();
            for _ in 0..length(text).unwrap_or_default() {
                entries.push(reply(from)?);
            }
            Ok(entries.join(" "))
        }
        _ => Ok(line.to_owned()),
    }
}

impl TestCluster {
    /// Each primary has as many slots as the others; the first ones have a replica.
    pub(crate) fn start(primaries: usize, replicas: usize) -> TestCluster {
        let count = primaries + replicas;
        let nodes: Vec<TestNode> = (0..count).map(|_| TestNode::start()).collect();
        for (at, node) in nodes.iter().enumerate() {
            node.order(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
            if at < primaries {
                let slots = usize::from(SLOTS);
                let (first, end) = (at * slots / primaries, (at + 1) * slots / primaries);
                node.order(&format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1));
            }
        }
        for node in &nodes[1..] {
            nodes[0].order(&format!("CLUSTER MEET 127.0.0.1 {} {}", node.port, node.bus));
        }
        let known = format!("cluster_known_nodes:{count}");
        until("the nodes to know each other", || {
            nodes.iter().all(|node| node.ask("CLUSTER INFO").contains(&known))
        });
        for at in 0..replicas {
            let primary = nodes[at].ask("CLUSTER MYID");
            let order = format!("CLUSTER REPLICATE {primary}");
            until("a node to know its primary", || nodes[primaries + at].ask(&order) == "+OK");
        }
        let cluster = TestCluster { nodes };
        cluster.until_up();
        until("all nodes to know the replicas", || {
            cluster.nodes.iter().all(|node| node.ask("CLUSTER NODES").matches("slave").count() == replicas)
        });
        for at in 0..replicas {
            cluster.until_copied(at, primaries + at);
        }
        cluster
    }

    fn until_up(&self) {
        until("the cluster to be up", || {
            self.nodes.iter().all(|node| node.ask("CLUSTER INFO").contains("cluster_state:ok"))
        });
    }

    /// Waits until a replica has all that its primary has.
    pub(crate) fn until_copied(&self, primary: usize, replica: usize) {
        until("a replica to have all", || {
            let replica = &self.nodes[replica];
            replica.info("replication", "master_link_status").as_deref() == Some("up")
                && replica.info("replication", "slave_repl_offset")
                    == self.nodes[primary].info("replication", "master_repl_offset")
        });
    }

    /// The address of one node.
    pub(crate) fn place(&self, node: usize) -> RedisPlace {
        RedisPlace::parse(&format!("redis://127.0.0.1:{}", self.nodes[node].port)).unwrap()
    }

    /// The answer of one node to a command.
    pub(crate) fn ask(&self, node: usize, command: &str) -> String {
        self.nodes[node].ask(command)
    }

    /// The node that has a key, as the first one says it.
    pub(crate) fn node_of(&self, key: &str) -> usize {
        let answer = self.ask(0, &format!("EXISTS {key}"));
        let Some((_, port)) = answer.strip_prefix("-MOVED ").and_then(|moved| moved.rsplit_once(':')) else {
            return 0;
        };
        self.nodes.iter().position(|node| node.port.to_string() == port).unwrap()
    }

    /// Moves the slot of a key to the next of the primaries, while calls of it come: they meet each state
    /// that it has meanwhile.
    pub(crate) fn move_slot_of(&self, key: &str, primaries: usize) {
        let slot = self.ask(0, &format!("CLUSTER KEYSLOT {key}")).trim_start_matches(':').to_owned();
        let from = self.node_of(key);
        let (from, to) = (&self.nodes[from], &self.nodes[(from + 1) % primaries]);
        let (from_id, to_id) = (from.ask("CLUSTER MYID"), to.ask("CLUSTER MYID"));
        to.order(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
        from.order(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
        until("a call of a slot on its way", || from.info("errorstats", "errorstat_TRYAGAIN").is_some());
        loop {
            let keys = from.ask(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
            if keys.is_empty() {
                break;
            }
            from.order(&format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {keys}", to.port));
        }
        until("a call of a slot whose keys are gone", || to.info("commandstats", "cmdstat_asking").is_some());
        for node in [to, from].into_iter().chain(&self.nodes) {
            node.order(&format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
        }
    }

    /// Ends one node at once.
    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Ends all nodes at once, and starts them again with what is on their disks.
    pub(crate) fn restart(&mut self) {
        for node in &mut self.nodes {
            node.kill();
        }
        for node in &mut self.nodes {
            node.restart();
        }
        self.until_up();
    }
}
