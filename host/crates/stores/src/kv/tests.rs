//! Operations, quotas and time to live, on a store in a file and on one that must not be written.

mod cluster;
mod redis;

use super::scratch::Scratch;
use super::*;

const QUOTA: Quota = Quota { bytes: 10_000, entries: 100, value: 5000 };

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn store() -> (tempfile::TempDir, Arc<Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("values")).unwrap();
    (folder, Arc::new(store))
}

fn open(path: &std::path::Path) -> Result<Store, OpenError> {
    block_on(Store::open(&Place::File(path.to_owned())))
}

fn endpoint(store: &Arc<Store>, name: &str, quota: Quota) -> EndpointKv {
    EndpointKv::new(store.clone(), name, &["*".to_owned(), "shared/all".to_owned()], quota)
}

fn get(key: &str) -> KvOp {
    KvOp::Get { key: key.to_owned() }
}

fn set(key: &str, value: &str, ttl: Option<u64>) -> KvOp {
    KvOp::Set { key: key.to_owned(), value: text(value), ttl }
}

fn text(text: &str) -> KvValue {
    KvValue(text.as_bytes().to_vec())
}

fn value(value: &str) -> KvOutcome {
    Ok(KvAnswer::Value(Some(text(value))))
}

fn keys(prefix: &str, cursor: Option<&str>, skip: u64, limit: u32) -> KvOp {
    KvOp::Keys { prefix: prefix.to_owned(), cursor: cursor.map(str::to_owned), skip, limit }
}

const NONE: KvOutcome = Ok(KvAnswer::Value(None));
const DONE: KvOutcome = Ok(KvAnswer::Done);

/// Every operation and its answer, in order.
fn cases() -> Vec<(KvOp, KvOutcome)> {
    let add = |value| KvOp::Add { key: "lock".into(), value: text(value), ttl: None };
    let increment = |key: &str, by| KvOp::Increment { key: key.into(), by, ttl: None };
    let swap = |current: Option<&str>, value| KvOp::Swap {
        key: "swapped".into(),
        current: current.map(text),
        value: text(value),
    };
    let page = |names: &[&str], cursor: Option<&str>| {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Ok(KvAnswer::Keys(names, cursor.map(str::to_owned)))
    };
    let invalid = |text: &str| Err(KvError::Invalid(text.to_owned()));
    let pair = |key: &str, value| (key.to_owned(), text(value));
    vec![
        (get("a"), NONE),
        (set("a", "1", None), DONE),
        (get("a"), value("1")),
        (set("a", "", None), DONE),
        (get("a"), value("")),
        (add("x"), Ok(KvAnswer::Was(true))),
        (add("y"), Ok(KvAnswer::Was(false))),
        (get("lock"), value("x")),
        (increment("n", 5), Ok(KvAnswer::Number(5))),
        (increment("n", -7), Ok(KvAnswer::Number(-2))),
        (get("n"), value("-2")),
        (increment("lock", 1), invalid("the value is not a whole number of 64 bits")),
        (set("most", &i64::MAX.to_string(), None), DONE),
        (increment("most", 1), invalid("the sum is beyond 64 bits")),
        (swap(Some("1"), "2"), Ok(KvAnswer::Was(false))),
        (swap(None, "1"), Ok(KvAnswer::Was(true))),
        (swap(None, "2"), Ok(KvAnswer::Was(false))),
        (swap(Some("1"), "2"), Ok(KvAnswer::Was(true))),
        (get("swapped"), value("2")),
        (KvOp::SetMany { pairs: vec![pair("p/1", "a"), pair("p/2", "b"), pair("p/1", "c")] }, DONE),
        (get("p/1"), value("c")),
        (set("p/é", "e", None), DONE),
        (set("q", "q", None), DONE),
        (keys("p/", None, 0, 2), page(&["p/1", "p/2"], Some("p/2"))),
        (keys("p/", Some("p/2"), 0, 2), page(&["p/é"], None)),
        (keys("p/", None, 1, 1), page(&["p/2"], Some("p/2"))),
        (keys("p/", None, 9, 1), page(&[], None)),
        (keys("none", None, 0, 10), page(&[], None)),
        (keys("", Some(&"x".repeat(1025)), 0, 10), invalid("a cursor of 1025 bytes, expected at most 1024")),
        (
            keys("", None, 0, 1000),
            page(&["a", "lock", "most", "n", "p/1", "p/2", "p/é", "q", "swapped"], None),
        ),
        (KvOp::Delete { key: "a".into() }, DONE),
        (KvOp::Delete { key: "a".into() }, DONE),
        (get("a"), NONE),
        (KvOp::DeleteMany { keys: vec!["p/1".into(), "p/2".into(), "none".into()] }, DONE),
        (keys("p/", None, 0, 10), page(&["p/é"], None)),
        (get(""), invalid("a key of 0 bytes, expected 1 to 1024")),
        (set("a", "", Some(0)), invalid("a time to live outside of 1 to 3153600000000 milliseconds")),
    ]
}

#[test]
fn every_operation_is_answered_alike_by_the_store_and_by_a_run_that_writes_nothing() {
    let (_folder, store) = store();
    let kv = endpoint(&store, "iris", QUOTA);
    block_on(async {
        let (stored, tried) = (kv.open("b").unwrap(), kv.open("tried").unwrap());
        let mut scratch = Scratch::default();
        for (op, expected) in cases() {
            assert_eq!(kv.call(&stored, op.clone()).await, expected, "{op:?}");
            assert_eq!(scratch.call(&kv, &tried, op.clone()).await, expected, "{op:?}, not written");
        }
        assert_eq!(kv.call(&tried, keys("", None, 0, 10)).await, Ok(KvAnswer::Keys(Vec::new(), None)));

        // What is stored is seen through what is not written.
        assert_eq!(scratch.call(&kv, &stored, get("q")).await, value("q"));
        scratch.call(&kv, &stored, KvOp::Delete { key: "q".into() }).await.unwrap();
        scratch.call(&kv, &stored, set("m", "m", None)).await.unwrap();
        let seen = scratch.call(&kv, &stored, keys("", None, 2, 3)).await;
        let names = ["most", "n", "p/é"].map(str::to_owned).to_vec();
        assert_eq!(seen, Ok(KvAnswer::Keys(names, Some("p/é".to_owned()))));
        assert_eq!(kv.call(&stored, get("q")).await, value("q"));
    });
}

#[test]
fn keys_count_in_a_run_that_writes_nothing() {
    let (_folder, store) = store();
    let kv = endpoint(&store, "iris", QUOTA);
    block_on(async {
        let (bucket, mut scratch) = (kv.open("b").unwrap(), Scratch::default());
        let delete = |number: usize| KvOp::Delete { key: format!("{number:0>1024}") };
        // 16 MiB, of 1024 bytes and 64 each.
        let most = (16 << 20) / (1024 + 64);
        for number in 0..most {
            assert_eq!(scratch.call(&kv, &bucket, delete(number)).await, Ok(KvAnswer::Done), "{number}");
        }
        // What it has touched already costs nothing more.
        assert_eq!(scratch.call(&kv, &bucket, delete(0)).await, Ok(KvAnswer::Done));
        assert!(matches!(scratch.call(&kv, &bucket, delete(most)).await, Err(KvError::Limit(_))));
    });
}

#[test]
fn buckets_are_the_endpoints_own_unless_shared_and_open_only_where_granted() {
    let (_folder, store) = store();
    block_on(async {
        let (one, other) = (endpoint(&store, "one", QUOTA), endpoint(&store, "other", QUOTA));
        for (name, is_shared) in [("a", false), ("shared/all", true)] {
            let buckets = (one.open(name).unwrap(), other.open(name).unwrap());
            one.call(&buckets.0, set("k", "v", None)).await.unwrap();
            let seen = other.call(&buckets.1, get("k")).await;
            assert_eq!(seen == value("v"), is_shared, "{name}: {seen:?}");
        }
        let few = EndpointKv::new(store.clone(), "one", &["a".to_owned()], QUOTA);
        assert_eq!(few.call(&few.open("a").unwrap(), get("k")).await, value("v"));
        for name in ["b", "shared/all", "", "a\0", "../a", "shared/"] {
            assert!(matches!(few.open(name), Err(KvError::NoSuchBucket(_))), "{name:?}");
        }
        for name in ["", "a b", "shared/", "shared/other", &"a".repeat(129)] {
            assert!(one.open(name).is_err(), "{name:?}");
        }
    });
}

#[test]
fn a_quota_holds_for_all_buckets_of_an_endpoint_and_no_neighbour_feels_it() {
    let (_folder, store) = store();
    let quota = Quota { bytes: 100, entries: 3, value: 50 };
    let (one, other) = (endpoint(&store, "one", quota), endpoint(&store, "other", quota));
    let limit = |outcome: KvOutcome| match outcome {
        Err(KvError::Limit(text)) => text,
        other => panic!("{other:?}"),
    };
    block_on(async {
        let (a, b, c) = (one.open("a").unwrap(), one.open("b").unwrap(), other.open("a").unwrap());
        let long = "x".repeat(51);
        assert!(limit(one.call(&a, set("k", &long, None)).await).ends_with("50 are `limits.kv_value`"));
        one.call(&a, set("1", &"x".repeat(49), None)).await.unwrap();
        one.call(&b, set("2", &"x".repeat(46), None)).await.unwrap();
        let text = limit(one.call(&b, set("3", "xxx", None)).await);
        assert_eq!(text, "the buckets would hold more than 100 bytes, `limits.kv_bytes`");
        one.call(&b, set("3", "x", None)).await.unwrap();
        let text = limit(one.call(&b, set("4", "", None)).await);
        assert_eq!(text, "the buckets would hold more than 3 keys, `limits.kv_entries`");
        // All or none.
        let pairs = vec![("3".to_owned(), text_of(1)), ("1".to_owned(), text_of(50))];
        limit(one.call(&b, KvOp::SetMany { pairs }).await);
        assert_eq!(one.call(&b, get("3")).await, value("x"));
        other.call(&c, set("1", &"y".repeat(49), None)).await.unwrap();
        // What is replaced or removed makes room.
        one.call(&a, set("1", "", None)).await.unwrap();
        one.call(&b, set("2", &"x".repeat(50), None)).await.unwrap();
        one.call(&b, KvOp::Delete { key: "3".into() }).await.unwrap();
        one.call(&b, set("4", "", None)).await.unwrap();
    });

    fn text_of(length: usize) -> KvValue {
        KvValue(vec![b'z'; length])
    }
}

#[test]
fn a_value_whose_time_is_over_is_gone_and_makes_room_in_the_file() {
    let (folder, store) = store();
    let quota = Quota { bytes: 30_000, entries: 4, value: 10_000 };
    let kv = endpoint(&store, "one", quota);
    let size = || std::fs::metadata(folder.path().join("values")).unwrap().len();
    block_on(async {
        let bucket = kv.open("a").unwrap();
        let wait = async |key: &str| {
            while kv.call(&bucket, get(key)).await != NONE {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let long = "x".repeat(9000);
        let mut largest = 0;
        for round in 0..60 {
            // Three of them fill the quota: each round needs the room of the one before.
            for key in 0..3 {
                kv.call(&bucket, set(&format!("{round}/{key}"), &long, Some(20))).await.unwrap();
            }
            wait(&format!("{round}/2")).await;
            if round < 20 {
                largest = size();
            }
        }
        assert!(size() <= 2 * largest, "{} bytes, {largest} at first", size());
        let add = |value| KvOp::Add { key: "lock".into(), value: text(value), ttl: Some(20) };
        assert_eq!(kv.call(&bucket, add("a")).await, Ok(KvAnswer::Was(true)));
        wait("lock").await;
        assert_eq!(kv.call(&bucket, add("b")).await, Ok(KvAnswer::Was(true)));
        // A number keeps the end that it began with.
        let increment = KvOp::Increment { key: "n".into(), by: 1, ttl: Some(60_000) };
        assert_eq!(kv.call(&bucket, increment.clone()).await, Ok(KvAnswer::Number(1)));
        assert_eq!(kv.call(&bucket, increment).await, Ok(KvAnswer::Number(2)));
        // Setting it anew without an end keeps it.
        kv.call(&bucket, set("kept", "1", Some(30))).await.unwrap();
        kv.call(&bucket, set("kept", "2", None)).await.unwrap();
        kv.call(&bucket, set("mark", "", Some(60))).await.unwrap();
        wait("mark").await;
        assert_eq!(kv.call(&bucket, get("kept")).await, value("2"));
    });
}

#[test]
fn writers_share_transactions_and_everything_is_there_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values");
    let quota = Quota { bytes: 1 << 20, entries: 1000, value: 100 };
    let written = block_on(async {
        let store = Arc::new(Store::open(&Place::File(path.clone())).await.unwrap());
        let kv = endpoint(&store, "one", quota);
        let bucket = kv.open("a").unwrap();
        let writes = (0..200).map(|number| {
            let (kv, bucket) = (kv.clone(), bucket.clone());
            tokio::spawn(async move { kv.call(&bucket, set(&number.to_string(), "v", None)).await })
        });
        for write in writes.collect::<Vec<_>>() {
            write.await.unwrap().unwrap();
        }
        let Backend::Embedded(embedded) = &store.0 else { panic!() };
        embedded.commits()
    });
    assert!(written < 50, "{written} transactions for 200 writes");
    // The file is free when the writer has ended.
    let store = loop {
        match open(&path) {
            Ok(store) => break Arc::new(store),
            Err(error) => assert!(error.to_string().contains("another process has it open"), "{error}"),
        }
    };
    let kv = endpoint(&store, "one", quota);
    let seen = block_on(async { kv.call(&kv.open("a").unwrap(), keys("", None, 0, 1000)).await });
    assert!(matches!(&seen, Ok(KvAnswer::Keys(keys, None)) if keys.len() == 200), "{seen:?}");
}

#[test]
fn a_file_that_was_closed_is_not_read_whole_by_the_next_start() {
    let (folder, store) = store();
    let kv = endpoint(&store, "one", QUOTA);
    let bucket = kv.open("a").unwrap();
    let path = folder.path().join("values");
    assert_eq!(block_on(kv.call(&bucket, set("k", "v", None))), DONE);
    assert!(crate::stores::test_server::has_to_be_recovered(&path));
    store.close();
    assert!(!crate::stores::test_server::has_to_be_recovered(&path));
    for op in [get("k"), set("k", "w", None)] {
        assert!(matches!(block_on(kv.call(&bucket, op)), Err(KvError::Unavailable(_))));
    }
    let kv = endpoint(&Arc::new(open(&path).unwrap()), "one", QUOTA);
    assert_eq!(block_on(kv.call(&bucket, get("k"))), value("v"));
}

#[test]
fn a_place_that_cannot_be_a_store_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    std::fs::write(&other, vec![b'x'; 10_000]).unwrap();
    for path in [folder.path().join("none/values"), folder.path().to_owned(), other] {
        let error = open(&path).err().unwrap().to_string();
        assert!(error.starts_with(&format!("cannot use the store `{}`: ", path.display())), "{error}");
        assert!(error.contains("\n  hint: "), "{error}");
    }
}
