//! A Redis Cluster: which node has which slots, and the connections to these nodes.
//!
//! Place in the flow: below `client.rs`; `link.rs` sends to each node. In: a command, and a key of it. Out:
//! the reply of the node that has the key's slot, or a reason why there is none.
//! Invariants: a command is run at most once: it is sent again only if a node has said that it has not run
//! it, within the place's `timeout`; one task asks for the nodes, one node after the other and never without
//! a pause; a call reads the table of nodes without a lock. A node has connections from the first command on
//! that is sent to it until it has no slots any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use redis::{Cmd, Value};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Unavailable;
use super::connector::Connector;
use super::link::{Failure, Links};
use super::reason::{self, ConnectError};
use super::slot::{self, Address, Redirect, SLOTS, Slots};
use crate::throttle::Throttle;

/// The first and the longest pause before a command is sent again that a node has not run.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// How often nodes may name another one for the same command, and how often of these without a pause.
const REDIRECTS: (u32, u32) = (5, 2);
/// The first and the longest pause between two questions for the nodes.
const QUESTIONS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// How often it is looked at whether all nodes are there.
const WATCH: Duration = Duration::from_millis(500);
/// How often the nodes are asked for while all are there, for the replicas among them.
const SELDOM: Duration = Duration::from_secs(60);
/// How long a node may take to say the nodes.
const ANSWER: Duration = Duration::from_secs(1);
/// Most answers that are waited for while none has a node for each slot.
const ANSWERS: usize = 3;
/// Most nodes that a line of the log names.
const NAMED: usize = 20;

/// The way to a cluster.
pub(super) struct Cluster {
    nodes: Arc<Nodes>,
    /// Ends with this.
    _follower: JoinSet<()>,
}

struct Nodes {
    /// That of the configuration, which may be any of them, or a name for some of them.
    configured: Arc<Node>,
    table: ArcSwap<Table>,
    /// Those that others have named and that are not in the table, or not yet.
    unlisted: Mutex<BTreeMap<Address, Arc<Node>>>,
    /// The table may be another one by now.
    stale: Notify,
    /// Of lines about nodes that do not say the others.
    refusals: Throttle,
}

/// The nodes that have slots.
struct Table {
    slots: Slots,
    nodes: BTreeMap<Address, Arc<Node>>,
}

struct Node {
    connector: Arc<Connector>,
    links: OnceLock<Links>,
}

impl Cluster {
    /// Follows the cluster from these nodes on.
    pub(super) fn start(connector: Arc<Connector>, slots: Slots) -> Cluster {
        let to = |address: &Address| (address.clone(), Node::new(connector.to(address).into()));
        let nodes = slots.primaries().map(to).collect();
        let nodes = Arc::new(Nodes {
            configured: Node::new(connector),
            table: ArcSwap::from_pointee(Table { slots, nodes }),
            unlisted: Mutex::default(),
            stale: Notify::new(),
            refusals: Throttle::default(),
        });
        let mut follower = JoinSet::new();
        let own = nodes.clone();
        follower.spawn(async move { own.follow().await });
        Cluster { nodes, _follower: follower }
    }

    /// Whether each slot has a node, and none of those that were needed is lost.
    pub(super) fn is_up(&self) -> bool {
        self.nodes.are_up()
    }

    /// Runs the script at the node that has the slot of `key`.
    pub(super) async fn run(
        &self,
        key: &str,
        script: &str,
        command: impl Fn(&mut Cmd),
    ) -> Result<Value, Unavailable> {
        let nodes = &*self.nodes;
        let (slot, begun) = (slot::of(key), Instant::now());
        let limit = nodes.configured.connector.place.timeout;
        let until = begun + limit;
        // A command that is sent later may not be answered in time, at which its connection is closed.
        let last = begun + limit * 3 / 4;
        let (mut pause, mut redirects, mut named) = (PAUSES.0, 0, None);
        loop {
            let (node, is_asking) = match named.take() {
                Some(named) => named,
                None => (nodes.of_slot(slot)?, false),
            };
            let redirect = match node.links().attempt(until, is_asking, script, &command).await {
                Ok(value) => return Ok(value),
                Err(Failure::Redirected(redirect)) => redirect,
                Err(Failure::Refused(why)) => return Err(why),
                Err(Failure::Away(why)) => {
                    nodes.stale.notify_one();
                    return Err(why);
                }
            };
            let why = match redirect {
                Redirect::Moved(address) => {
                    nodes.stale.notify_one();
                    named = Some((nodes.at(address), false));
                    reason::ELSEWHERE
                }
                Redirect::Ask(address) => {
                    named = Some((nodes.at(address), true));
                    reason::MOVING
                }
                Redirect::Later => reason::MOVING,
            };
            redirects = if named.is_some() { redirects + 1 } else { 0 };
            let is_paused = redirects == 0 || redirects > REDIRECTS.1;
            let next = Instant::now() + if is_paused { pause } else { Duration::ZERO };
            if redirects > REDIRECTS.0 || next > last {
                return Err(Unavailable(why.to_owned()));
            }
            if is_paused {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }
}

impl Nodes {
    fn node(&self, address: &Address) -> Arc<Node> {
        Node::new(self.configured.connector.to(address).into())
    }

    /// The node that has a slot.
    fn of_slot(&self, slot: u16) -> Result<Arc<Node>, Unavailable> {
        let table = self.table.load();
        let node = table.slots.primary(slot).and_then(|address| table.nodes.get(address));
        node.cloned().ok_or_else(|| {
            self.stale.notify_one();
            Unavailable(reason::UNASSIGNED.to_owned())
        })
    }

    /// The node that another one has named.
    fn at(&self, address: Address) -> Arc<Node> {
        // Only of calls that were sent on, and held for no longer than a look.
        let mut unlisted = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = self.table.load().nodes.get(&address) {
            return node.clone();
        }
        unlisted.entry(address).or_insert_with_key(|address| self.node(address)).clone()
    }

    fn are_up(&self) -> bool {
        let table = self.table.load();
        table.slots.is_whole() && !table.nodes.values().any(|node| node.is_lost())
    }

    /// Keeps the table, for ever.
    async fn follow(&self) {
        let (mut pause, mut turn, mut last) = (QUESTIONS.0, 0, Instant::now());
        loop {
            let is_told = timeout(WATCH, self.stale.notified()).await.is_ok();
            if !is_told && self.are_up() {
                (pause, turn) = (QUESTIONS.0, 0);
                if last.elapsed() < SELDOM {
                    continue;
                }
            }
            let is_other = self.refresh(turn).await;
            last = Instant::now();
            // Another node may know more than this one.
            (pause, turn) =
                if is_other { (QUESTIONS.0, 0) } else { ((pause * 2).min(QUESTIONS.1), turn + 1) };
            sleep(pause).await;
        }
    }

    /// Asks for the nodes; gives whether they are others now.
    async fn refresh(&self, turn: usize) -> bool {
        let (mut best, mut answers): (Option<Slots>, usize) = (None, 0);
        for node in self.sources(turn) {
            match node.slots().await {
                Ok(Some(slots)) => {
                    answers += 1;
                    let is_whole = slots.is_whole();
                    if best.as_ref().is_none_or(|best| best.covered < slots.covered) {
                        best = Some(slots);
                    }
                    if is_whole || answers >= ANSWERS {
                        break;
                    }
                }
                Err(ConnectError::Refused(why, _)) if self.refusals.is_due() => {
                    let Connector { place, .. } = &*node.connector;
                    tracing::error!(store = %place, "{} does not say the others: {why}", node.connector.name());
                }
                // The log has it of nodes that are used.
                Ok(None) | Err(_) => {}
            }
        }
        // A node that was reset knows of none.
        best.is_some_and(|slots| slots.covered > 0 && self.install(slots))
    }

    /// All that may know the nodes, those first to which there are connections; with each turn another one
    /// is the first.
    fn sources(&self, turn: usize) -> Vec<Arc<Node>> {
        let table = self.table.load_full();
        let is_up = |node: &Arc<Node>| node.links.get().is_some_and(Links::is_up);
        let (up, down): (Vec<_>, Vec<_>) = table.nodes.values().cloned().partition(is_up);
        let replicas = table.slots.replicas.iter().map(|address| self.node(address));
        let mut sources: Vec<_> =
            up.into_iter().chain([self.configured.clone()]).chain(down).chain(replicas).collect();
        let first = turn % sources.len();
        sources.rotate_left(first);
        sources
    }

    /// Makes these the nodes; gives whether they are others than before.
    fn install(&self, slots: Slots) -> bool {
        let old = self.table.load_full();
        let mut unlisted = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
        if old.slots == slots {
            // A slot that was on its way to them has stayed, or is on its way still.
            unlisted.retain(|_, node| Arc::strong_count(node) > 1);
            return false;
        }
        let addresses: BTreeSet<&Address> = slots.primaries().collect();
        let nodes: BTreeMap<Address, Arc<Node>> = addresses
            .into_iter()
            .map(|address| {
                let known = old.nodes.get(address).cloned().or_else(|| unlisted.remove(address));
                (address.clone(), known.unwrap_or_else(|| self.node(address)))
            })
            .collect();
        self.tell(&old, &slots, &nodes);
        self.table.store(Arc::new(Table { slots, nodes }));
        unlisted.clear();
        true
    }

    /// Says in the log which nodes have slots now, if they are others, and whether all slots have one.
    fn tell(&self, old: &Table, slots: &Slots, nodes: &BTreeMap<Address, Arc<Node>>) {
        let Connector { place, purpose, .. } = &*self.configured.connector;
        if !old.nodes.keys().eq(nodes.keys()) {
            let names: Vec<String> = nodes.keys().take(NAMED).map(ToString::to_string).collect();
            let (count, names) = (nodes.len(), names.join(", "));
            tracing::info!(store = %place, "{} is on other nodes now, {count}: {names}", purpose.store);
        }
        if old.slots.is_whole() && !slots.is_whole() {
            let without = SLOTS - slots.covered;
            tracing::error!(store = %place, "{}: {without} slots of its cluster have no node", purpose.store);
        }
    }
}

impl Node {
    fn new(connector: Arc<Connector>) -> Arc<Node> {
        Arc::new(Node { connector, links: OnceLock::new() })
    }

    /// The connections to it, which are made with the first command.
    fn links(&self) -> &Links {
        self.links.get_or_init(|| Links::start(self.connector.clone()))
    }

    fn is_lost(&self) -> bool {
        self.links.get().is_some_and(Links::is_lost)
    }

    /// The nodes that it knows; `None` if it is in no cluster.
    async fn slots(&self) -> Result<Option<Slots>, ConnectError> {
        let limit = self.connector.place.timeout.min(ANSWER);
        match self.links.get().filter(|links| links.is_up()) {
            Some(links) => links.slots(limit).await.map(Some),
            None => self.connector.look(limit).await,
        }
    }
}
