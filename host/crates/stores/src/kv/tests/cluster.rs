//! The operations on a store in a Redis Cluster, which a test starts: owners on all nodes, a slot that is
//! moved, a node that is lost.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use super::*;
use crate::stores::RedisPlace;
use crate::stores::test_cluster::TestCluster;

/// The longest that a cluster takes to be there again.
const LONGEST: Duration = Duration::from_secs(20);

/// A store in it. Its connections live on this runtime.
async fn open_at(place: RedisPlace) -> Arc<Store> {
    Arc::new(Store::open(&Place::Redis(place)).await.unwrap())
}

fn key(name: &str) -> String {
    format!("modelhost:{{own/{name}}}:values")
}

/// The first endpoint whose values are on this node.
fn endpoint_at(cluster: &TestCluster, node: usize) -> String {
    (0..).map(|number| format!("it{number}")).find(|name| cluster.node_of(&key(name)) == node).unwrap()
}

#[test]
fn owners_are_on_all_nodes_and_every_operation_is_answered_as_by_one_server() {
    let cluster = TestCluster::start(3, 0);
    for node in 0..3 {
        let rules = "~modelhost:* +@read +@write +@scripting +@connection +time +info";
        for (user, more) in [("few", ""), ("enough", " +cluster|slots +asking")] {
            let order = format!("ACL SETUSER {user} on >hush {rules}{more}");
            assert_eq!(cluster.ask(node, &order), "+OK");
        }
    }
    let user = |name: &str| RedisPlace {
        user: Some(name.to_owned()),
        password: Some("hush".to_owned()),
        ..cluster.place(1)
    };
    block_on(async {
        for (place, why, hint) in [
            (
                RedisPlace { database: 3, ..cluster.place(2) },
                "which has no database but 0",
                "`redis://HOST:PORT`",
            ),
            (user("few"), "may not ask a node of a Redis Cluster for the others", "+cluster|slots +asking"),
        ] {
            let error = Store::open(&Place::Redis(place)).await.err().unwrap().to_string();
            assert!(error.contains(why) && error.contains(hint), "{error}");
        }
        let store = open_at(user("enough")).await;
        for number in 0..30 {
            let kv = endpoint(&store, &format!("it{number}"), QUOTA);
            for name in ["b", "shared/all"].iter().take(if number == 0 { 2 } else { 1 }) {
                let bucket = kv.open(name).unwrap();
                for (op, expected) in cases() {
                    assert_eq!(kv.call(&bucket, op.clone()).await, expected, "{op:?} in {name}, {number}");
                }
            }
        }
        // Of each owner there are the values, their order and their bytes.
        let keys: Vec<u64> =
            (0..3).map(|node| cluster.ask(node, "DBSIZE").trim_start_matches(':').parse().unwrap()).collect();
        assert_eq!(keys.iter().sum::<u64>(), 31 * 3, "{keys:?}");
        assert!(keys.iter().all(|keys| *keys > 3), "{keys:?}");
        assert_eq!(store.is_reachable(), Some(true));

        // The connections to nodes outlive the runtime of the call that was the first one.
        let another = open_at(cluster.place(1)).await;
        let names: Vec<String> = (0..3).map(|node| endpoint_at(&cluster, node)).collect();
        let (elsewhere, first) = (another.clone(), names.clone());
        let ended = tokio::task::spawn_blocking(move || {
            block_on(async {
                for name in first {
                    let kv = endpoint(&elsewhere, &name, QUOTA);
                    assert_eq!(kv.call(&kv.open("b").unwrap(), set("k", "v", None)).await, DONE);
                }
            });
        });
        ended.await.unwrap();
        for name in names {
            let kv = endpoint(&another, &name, QUOTA);
            assert_eq!(kv.call(&kv.open("b").unwrap(), get("k")).await, value("v"), "{name}");
        }

        let small = Quota { bytes: 100, entries: 2, value: 90 };
        for number in 0..10 {
            let kv = endpoint(&store, &format!("full{number}"), small);
            let bucket = kv.open("b").unwrap();
            for (key, is_stored) in [("1", true), ("2", true), ("3", false), ("1", true)] {
                let outcome = kv.call(&bucket, set(key, "", None)).await;
                assert_eq!(outcome == DONE, is_stored, "{key} of {number}: {outcome:?}");
            }
        }
    });
}

#[test]
fn a_slot_is_moved_while_its_values_are_used_and_each_call_is_done_once() {
    let cluster = Arc::new(TestCluster::start(3, 0));
    // Calls wait for the move, which a busy machine makes long.
    let place = RedisPlace { timeout: LONGEST, ..cluster.place(0) };
    block_on(async {
        let store = open_at(place).await;
        let kv = endpoint(&store, "moved", QUOTA);
        let bucket = kv.open("b").unwrap();
        assert_eq!(kv.call(&bucket, set("k", "v", None)).await, DONE);
        let before = cluster.node_of(&key("moved"));
        let own = cluster.clone();
        let moved = tokio::task::spawn_blocking(move || own.move_slot_of(&key("moved"), 3));
        let largest = AtomicI64::new(0);
        let count = async || {
            let mut calls = 0;
            // Also when it is over.
            while calls == 0 || !moved.is_finished() {
                let increment = KvOp::Increment { key: "n".into(), by: 1, ttl: None };
                let number = match kv.call(&bucket, increment).await {
                    Ok(KvAnswer::Number(number)) => number,
                    other => panic!("{other:?}"),
                };
                largest.fetch_max(number, Ordering::Relaxed);
                assert_eq!(kv.call(&bucket, get("k")).await, value("v"));
                calls += 1;
            }
            calls
        };
        let counts = tokio::join!(count(), count(), count(), count());
        let calls: i64 = [counts.0, counts.1, counts.2, counts.3].iter().sum();
        assert_eq!(kv.call(&bucket, get("n")).await, value(&calls.to_string()));
        assert_eq!(largest.into_inner(), calls);
        moved.await.unwrap();
        assert_eq!(cluster.node_of(&key("moved")), (before + 1) % 3);
        assert_eq!(kv.call(&bucket, keys("", None, 0, 10)).await.map(|_| ()), Ok(()));
    });
}

#[test]
fn a_primary_is_lost_and_its_replica_has_the_values() {
    let mut cluster = TestCluster::start(3, 1);
    let (lost, stays) = (endpoint_at(&cluster, 0), endpoint_at(&cluster, 1));
    block_on(async {
        let store = open_at(cluster.place(0)).await;
        let (lost, stays) = (endpoint(&store, &lost, QUOTA), endpoint(&store, &stays, QUOTA));
        let buckets = (lost.open("b").unwrap(), stays.open("b").unwrap());
        assert_eq!(lost.call(&buckets.0, set("k", "v", None)).await, DONE);
        assert_eq!(stays.call(&buckets.1, set("k", "w", None)).await, DONE);
        cluster.until_copied(0, 3);
        cluster.kill(0);
        let begun = Instant::now();
        let (mut failures, mut was_away) = (0, false);
        loop {
            let outcome = lost.call(&buckets.0, get("k")).await;
            if !matches!(outcome, Err(KvError::Unavailable(_))) {
                assert_eq!(outcome, value("v"));
                break;
            }
            failures += 1;
            was_away |= store.is_reachable() == Some(false);
            assert!(begun.elapsed() < LONGEST, "no failover");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(failures > 0 && was_away, "{failures} failures");
        // Other nodes are down for a moment too while it is not known.
        loop {
            let outcome = stays.call(&buckets.1, get("k")).await;
            if !matches!(outcome, Err(KvError::Unavailable(_))) {
                assert_eq!(outcome, value("w"));
                break;
            }
            assert!(begun.elapsed() < LONGEST, "{outcome:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(lost.call(&buckets.0, set("k", "x", None)).await, DONE);
        assert_eq!(lost.call(&buckets.0, get("k")).await, value("x"));
        assert_eq!(store.is_reachable(), Some(true));
    });
}
