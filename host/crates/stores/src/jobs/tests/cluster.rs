//! The store in a Redis Cluster, which a test starts: endpoints on all nodes, all nodes killed and started
//! again, a slot that is moved.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Instant;

use super::*;
use crate::stores::RedisPlace;
use crate::stores::test_cluster::TestCluster;

/// The longest that a cluster takes to be there again.
const LONGEST: Duration = Duration::from_secs(20);

async fn open(place: RedisPlace) -> JobStore {
    JobStore::open(&Place::Redis(place)).await.unwrap()
}

fn key(name: &str) -> String {
    format!("modelhost:jobs:{{{name}}}")
}

async fn listed(store: &JobStore, name: &str, state: Option<JobState>) -> HashSet<String> {
    let (mut ids, mut after) = (HashSet::new(), None);
    loop {
        let page = Page { after, limit: MOST_LISTED, state, ..Page::default() };
        let (jobs, next) = store.list(name, page).await.unwrap();
        ids.extend(jobs.into_iter().map(|job| job.id));
        after = next;
        if after.is_none() {
            return ids;
        }
    }
}

#[tokio::test]
async fn jobs_are_on_all_nodes_and_those_that_were_acknowledged_outlive_all_of_them() {
    let mut cluster = TestCluster::start(3, 0);
    let store = open(cluster.place(2)).await;
    let names: Vec<String> = (0..12).map(|number| format!("it{number}")).collect();
    let nodes: HashSet<usize> = names.iter().map(|name| cluster.node_of(&key(name))).collect();
    assert_eq!(nodes.len(), 3);
    let mut running = Vec::new();
    for name in &names {
        let mut ids = Vec::new();
        for body in ["a", "b", "c"] {
            ids.push(store.submit(name, of(body, 1), QUOTA).await.unwrap().0.id);
        }
        let first = store.claim(name).await.unwrap().unwrap();
        assert_eq!((&first.0.id, &*first.1), (&ids[0], &b"a"[..]));
        store.end(name, &first.0.current(), answered(true)).await.unwrap();
        let second = store.claim(name).await.unwrap().unwrap().0;
        assert_eq!(second.id, ids[1]);
        assert_eq!(listed(&store, name, None).await, ids.iter().cloned().collect());
        running.push((second, ids));
    }
    assert_eq!(store.is_reachable(), Some(true));

    let cluster = tokio::task::spawn_blocking(move || {
        cluster.restart();
        cluster
    })
    .await
    .unwrap();
    let begun = Instant::now();
    for (name, (second, ids)) in names.iter().zip(running) {
        // The connections are made again, each after a pause of its own.
        while let Err(error) = store.job(name, &second.id).await {
            assert!(begun.elapsed() < LONGEST, "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (done, body) = store.result(name, &ids[0], usize::MAX).await.unwrap().unwrap();
        assert_eq!((done.state, body.as_deref()), (JobState::Completed, Some(&b"done"[..])));
        store.end(name, &second.current(), answered(true)).await.unwrap();
        assert_eq!(store.job(name, &second.id).await.unwrap().unwrap().state, JobState::Completed);
        let (third, body) = store.claim(name).await.unwrap().unwrap();
        assert_eq!((&third.id, &*body), (&ids[2], &b"c"[..]));
        store.end(name, &third.current(), failed()).await.unwrap();
        let fourth = store.submit(name, of("d", 1), QUOTA).await.unwrap().0.id;
        assert_eq!(listed(&store, name, None).await, ids.into_iter().chain([fourth]).collect());
    }
    while store.is_reachable() != Some(true) {
        assert!(begun.elapsed() < LONGEST);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(cluster);
}

#[tokio::test]
async fn a_slot_is_moved_while_jobs_are_submitted_and_run_and_each_is_there_once() {
    let cluster = Arc::new(TestCluster::start(3, 0));
    // Calls wait for the move, which a busy machine makes long.
    let store = open(RedisPlace { timeout: LONGEST, ..cluster.place(0) }).await;
    let quota = Quota { queue: 100_000, bytes: 1 << 30 };
    let before = cluster.node_of(&key("it"));
    let own = cluster.clone();
    // The first job is there before the slot is on its way.
    let first = store.submit("it", of("x", 1), quota).await.unwrap().0.id;
    let moved = tokio::task::spawn_blocking(move || own.move_slot_of(&key("it"), 3));
    let (submitted, ended) = (Mutex::new(HashSet::from([first])), Mutex::new(HashSet::new()));
    let client = async || {
        let mut is_last = false;
        while !is_last {
            // Once more when it is over.
            is_last = moved.is_finished();
            let id = store.submit("it", of("x", 1), quota).await.unwrap().0.id;
            assert!(submitted.lock().unwrap().insert(id));
        }
    };
    let worker = async || {
        let mut is_last = false;
        while !is_last {
            is_last = moved.is_finished();
            if let Some((job, _)) = store.claim("it").await.unwrap() {
                store.end("it", &job.current(), answered(true)).await.unwrap();
                assert!(ended.lock().unwrap().insert(job.id), "it was claimed twice");
            }
        }
    };
    tokio::join!(client(), client(), client(), worker(), worker());
    moved.await.unwrap();
    let (submitted, ended) = (submitted.into_inner().unwrap(), ended.into_inner().unwrap());
    assert_eq!(listed(&store, "it", None).await, submitted);
    assert_eq!(listed(&store, "it", Some(JobState::Completed)).await, ended);
    assert!(!ended.is_empty());
    assert_eq!(cluster.node_of(&key("it")), (before + 1) % 3);
}
