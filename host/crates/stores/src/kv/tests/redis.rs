//! The operations on a store in a Redis, which a test starts: answers, quotas and ends as those of a file.

use super::*;
use crate::stores::test_server::Server;

/// A store in it. Its connections live on this runtime.
async fn store(server: &Server) -> Arc<Store> {
    Arc::new(Store::open(&Place::Redis(server.place())).await.unwrap())
}

fn redis(store: &Store) -> &Redis {
    let Backend::Redis(redis) = &store.0 else { panic!() };
    redis
}

#[test]
fn every_operation_is_answered_as_by_a_file() {
    let server = Server::start();
    block_on(async {
        let store = store(&server).await;
        let kv = endpoint(&store, "iris", QUOTA);
        for name in ["b", "shared/all"] {
            let bucket = kv.open(name).unwrap();
            for (op, expected) in cases() {
                assert_eq!(kv.call(&bucket, op.clone()).await, expected, "{op:?} in {name}");
            }
        }
        // Any bytes, and numbers as wide as they are.
        let bucket = kv.open("bytes").unwrap();
        let bytes = KvValue((0..=255).collect());
        let set = KvOp::Set { key: "é\n".into(), value: bytes.clone(), ttl: None };
        assert_eq!(kv.call(&bucket, set).await, DONE);
        assert_eq!(kv.call(&bucket, get("é\n")).await, Ok(KvAnswer::Value(Some(bytes))));
        for (value, by, expected) in [
            ("9007199254740993", 2, Ok(9_007_199_254_740_995)),
            ("-9223372036854775807", -1, Ok(i64::MIN)),
            ("-9223372036854775808", -1, Err(beyond())),
            ("9223372036854775808", 0, Err(no_number())),
            ("+007", 1, Ok(8)),
            ("-0", 1, Ok(1)),
            ("1.5", 1, Err(no_number())),
            (" 1", 1, Err(no_number())),
            ("", 1, Err(no_number())),
            ("0", i64::MIN, Ok(i64::MIN)),
        ] {
            assert_eq!(kv.call(&bucket, super::set("n", value, None)).await, DONE);
            let increment = KvOp::Increment { key: "n".into(), by, ttl: None };
            assert_eq!(kv.call(&bucket, increment).await, expected.map(KvAnswer::Number), "{value} + {by}");
        }
    });
}

#[test]
fn quotas_hold_and_what_is_over_makes_room() {
    let server = Server::start();
    block_on(async {
        let store = store(&server).await;
        let quota = Quota { bytes: 100, entries: 3, value: 90 };
        let (one, other) = (endpoint(&store, "one", quota), endpoint(&store, "other", quota));
        let (a, b) = (one.open("a").unwrap(), other.open("a").unwrap());
        let limit = |text: &str| Err(KvError::Limit(format!("the buckets would hold more than {text}")));
        let long = "x".repeat(80);
        assert_eq!(one.call(&a, set("1", &long, Some(40))).await, DONE);
        assert_eq!(one.call(&a, set("2", &long, None)).await, limit("100 bytes, `limits.kv_bytes`"));
        assert_eq!(other.call(&b, set("2", &long, None)).await, DONE);
        while one.call(&a, get("1")).await != NONE {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // It is not listed, takes no skip, and goes for what is new.
        for key in ["2", "3"] {
            assert_eq!(one.call(&a, set(key, "", None)).await, DONE);
        }
        let page = Ok(KvAnswer::Keys(vec!["3".to_owned()], None));
        assert_eq!(one.call(&a, keys("", None, 1, 10)).await, page);
        let pairs = ["4", "5"].map(|key| (key.to_owned(), text(""))).to_vec();
        assert_eq!(one.call(&a, KvOp::SetMany { pairs }).await, limit("3 keys, `limits.kv_entries`"));
        assert_eq!(one.call(&a, set("4", "", Some(40))).await, DONE);
        assert_eq!(one.call(&a, keys("", None, 0, 2)).await.map(|_| ()), Ok(()));
        while one.call(&a, get("4")).await != NONE {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(
            one.call(&a, keys("", None, 0, 2)).await,
            Ok(KvAnswer::Keys(vec!["2".into(), "3".into()], None))
        );
        // Without a write, a host removes it by and by; an owner without a value takes no room.
        redis(&store).sweep().await;
        for key in ["2", "3"] {
            assert_eq!(one.call(&a, KvOp::Delete { key: key.into() }).await, DONE);
        }
        let delete = KvOp::Delete { key: "2".into() };
        assert_eq!(other.call(&b, delete).await, DONE);
        assert_eq!(redis(&store).ask(&["KEYS", "*"]).await, ::redis::Value::Array(Vec::new()));
    });
}

/// Redis may forget scripts, after a failover for example.
#[test]
fn a_script_that_redis_has_forgotten_is_sent_again() {
    let server = Server::start();
    block_on(async {
        let store = store(&server).await;
        let kv = endpoint(&store, "one", QUOTA);
        let bucket = kv.open("a").unwrap();
        assert_eq!(kv.call(&bucket, set("k", "v", None)).await, DONE);
        redis(&store).ask(&["SCRIPT", "FLUSH"]).await;
        assert_eq!(kv.call(&bucket, get("k")).await, value("v"));
    });
}
