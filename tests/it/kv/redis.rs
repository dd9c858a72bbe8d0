//! Values in a Redis: shared by hosts, lost and found again, refused.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use e2e::redis::Redis;
use e2e::serve_command;
use e2e::tls::Pair;

use super::*;

/// The longest that a call takes, with a store that is lost or hung.
const PROMPT: Duration = Duration::from_secs(5);

fn error_of(answer: &Value) -> &str {
    answer["error"].as_str().unwrap_or_default()
}

#[test]
fn hosts_share_values_conditions_and_quotas() {
    let redis = Redis::start(&[]);
    let limits = "kv_entries = 30, kv_bytes = 1000";
    let setup = |prefix: &str| {
        Setup::of([keeper("it", "['*', 'shared/all']"), keeper("full", "['*']").limits(limits)])
            .tables(format!("{}\nprefix = {prefix:?}", redis.store()))
    };
    let hosts = [setup("fleet").serve(), setup("fleet").serve()];
    let other = setup("other").serve();

    // Each adds, asks for the lock and fills the buckets, at the same time.
    let (each, writers) = (40, 4);
    let barrier = Barrier::new(hosts.len() * writers);
    let (locked, filled, swapped) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for (number, host) in hosts.iter().enumerate() {
            for writer in 0..writers {
                let (barrier, locked, filled, swapped) = (&barrier, &locked, &filled, &swapped);
                scope.spawn(move || {
                    barrier.wait();
                    let lock = host.ask("/it", &json!([["open", "a"], ["add", "lock", format!("{number}")]]));
                    locked.fetch_add(usize::from(lock[1] == true), Ordering::SeqCst);
                    for at in 0..each {
                        host.ask("/it", &json!([["open", "shared/all"], ["increment", "n", 1]]));
                        let key = format!("{number}/{writer}/{at}");
                        let put = host.ask("/full", &json!([["open", "a"], ["put", key, ""]]));
                        filled.fetch_add(usize::from(put[1].is_null()), Ordering::SeqCst);
                        let orders = json!([["open", "a"], ["get", "s"]]);
                        let seen = host.ask("/it", &orders)[1].clone();
                        let next = seen.as_str().map_or(0, |text| text.parse::<u64>().unwrap()) + 1;
                        let orders = json!([["open", "a"], ["swap", "s", seen, next.to_string()]]);
                        let is_set = host.ask("/it", &orders)[1] == true;
                        swapped.fetch_add(usize::from(is_set), Ordering::SeqCst);
                    }
                });
            }
        }
    });
    let total = (hosts.len() * writers * each).to_string();
    for host in &hosts {
        let seen = host.ask("/it", &json!([["open", "shared/all"], ["get", "n"]]));
        assert_eq!(seen[1], total);
        let seen = host.ask("/it", &json!([["open", "a"], ["get", "s"]]));
        assert_eq!(
            seen[1],
            swapped.load(Ordering::SeqCst).to_string(),
            "each swap that was done counts once"
        );
        let seen = host.ask("/full", &json!([["open", "a"], ["keys", ""]]));
        assert_eq!(seen[1].as_array().unwrap().len(), 30);
    }
    assert_eq!(locked.load(Ordering::SeqCst), 1, "one of all has the lock");
    assert_eq!(filled.load(Ordering::SeqCst), 30, "the quota holds for both hosts together");
    let seen = other.ask("/it", &json!([["open", "shared/all"], ["get", "n"], ["keys", ""]]));
    assert_eq!(seen, json!(["opened", null, []]), "another fleet has values of its own");
    // All keys begin with the prefix, and all of an owner is in one slot of a cluster.
    let names = redis.ask("KEYS *");
    let names: Vec<&str> = names.lines().filter(|line| line.contains('{')).collect();
    assert!(!names.is_empty());
    for name in names {
        assert!(name.starts_with("fleet:{own/") || name.starts_with("fleet:{shared/all}:"), "{name}");
    }
}

/// Redis is killed while hosts write: what was answered is there when it is back, and no host has to start anew.
#[test]
fn a_redis_that_is_killed_loses_nothing_that_was_answered_and_is_found_again() {
    let mut redis = Redis::start(&[]);
    let setup =
        Setup::of([keeper("it", "['a']"), Endpoint::new("neighbour").guest("echo")]).tables(redis.store());
    let hosts = [setup.serve(), setup.serve()];
    let load = Pattern::new(&hosts[0].url, "/neighbour").start();
    let up = |host: &Host| host.metric("modelhost_kv_store_up{endpoint=\"it\"}");
    let ready = |host: &Host, path: &str| host.get(path).status;
    for round in 0..2 {
        let is_over = AtomicBool::new(false);
        let counts: Vec<AtomicUsize> = (0..8).map(|_| AtomicUsize::new(0)).collect();
        let longest = std::sync::Mutex::new(Duration::ZERO);
        thread::scope(|scope| {
            for (writer, count) in counts.iter().enumerate() {
                let host = &hosts[writer % 2];
                let (is_over, longest) = (&is_over, &longest);
                scope.spawn(move || {
                    let mut next = 1;
                    while !is_over.load(Ordering::SeqCst) {
                        let key = format!("{round}/{writer}/{next}");
                        let began = Instant::now();
                        let seen = host.ask("/it", &json!([["open", "a"], ["put", key, "x".repeat(500)]]));
                        let mut longest = longest.lock().unwrap();
                        *longest = longest.max(began.elapsed());
                        drop(longest);
                        match seen[1].is_null() {
                            true => {
                                count.store(next, Ordering::SeqCst);
                                next += 1;
                            }
                            // The next key, since this one may be there.
                            false => {
                                assert!(error_of(&seen[1]).starts_with("Unavailable("), "{seen}");
                                is_over.store(true, Ordering::SeqCst);
                            }
                        }
                    }
                });
            }
            let total = || counts.iter().map(|count| count.load(Ordering::SeqCst)).sum::<usize>();
            wait_until("writes to be answered", || total() > 40);
            redis.kill();
        });
        assert!(longest.into_inner().unwrap() < PROMPT, "a call hung");
        for host in &hosts {
            wait_until("the loss to be seen", || up(host) == 0.0);
            // Each of its connections is found lost by itself, the first is enough for the gauge.
            wait_until("no connection to be left", || {
                let began = Instant::now();
                let error = error_of(&host.ask("/it", &json!([["open", "a"], ["get", "k"]]))[1]).to_owned();
                assert!(began.elapsed() < PROMPT && error.starts_with("Unavailable("), "{error}");
                error == "Unavailable(\"Redis cannot be reached\")"
            });
            assert_eq!((ready(host, "/v2/models/it/ready"), ready(host, "/v2/health/ready")), (503, 200));
        }
        redis.restart();
        for host in &hosts {
            wait_until("the store to be found again", || up(host) == 1.0);
            assert_eq!(ready(host, "/v2/models/it/ready"), 200);
        }
        for (writer, count) in counts.iter().enumerate() {
            let orders = json!([["open", "a"], ["keys", format!("{round}/{writer}/")]]);
            let stored = hosts[(writer + 1) % 2].ask("/it", &orders)[1].as_array().unwrap().len();
            let count = count.load(Ordering::SeqCst);
            // One more may have been stored whose answer was lost.
            assert!(stored == count || stored == count + 1, "round {round}: {stored} of {count} by {writer}");
        }
    }
    assert_echoed(&load.stop(), PROMPT);
    hosts[0].wait_for_log("the store of values cannot be used");
    hosts[0].wait_for_log("the store of values can be used again");
}

#[test]
fn a_redis_that_hangs_costs_a_call_its_time_and_a_neighbour_nothing() {
    let redis = Redis::start(&[]);
    let host = Setup::of([keeper("it", "['a']"), Endpoint::new("neighbour").guest("echo")])
        .tables(format!("{}\ntimeout = '300ms'", redis.store()))
        .serve();
    assert_eq!(host.ask("/it", &json!([["open", "a"], ["put", "k", "v"]])), json!(["opened", null]));
    let load = Pattern::new(&host.url, "/neighbour").start();
    redis.signal("STOP");
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let began = Instant::now();
                let seen = host.ask("/it", &json!([["open", "a"], ["get", "k"]]));
                assert!(error_of(&seen[1]).starts_with("Unavailable("), "{seen}");
                assert!(began.elapsed() < PROMPT);
            });
        }
    });
    wait_until("the hang to be seen", || host.metric("modelhost_kv_store_up{endpoint=\"it\"}") == 0.0);
    redis.signal("CONT");
    wait_until("the value to be read again", || {
        host.ask("/it", &json!([["open", "a"], ["get", "k"]])) == json!(["opened", "v"])
    });
    assert_echoed(&load.stop(), PROMPT);
}

/// What Redis refuses is told to the handler, and the connection goes on.
#[test]
fn a_redis_without_room_refuses_writes_and_answers_reads() {
    let redis = Redis::start(&["--maxmemory", "3mb"]);
    let host = Setup::of([keeper("it", "['a']")]).tables(redis.store()).serve();
    let put = |key: usize| host.ask("/it", &json!([["open", "a"], ["fill", key.to_string(), 200_000]]));
    let (stored, refusal) = (0..60)
        .find_map(|key| Some((key, put(key))).filter(|(_, answer)| !answer[1].is_null()))
        .expect("a full Redis");
    assert_eq!(error_of(&refusal[1]), "Unavailable(\"Redis has no memory left for it\")");
    host.wait_for_log("the store of values is refused a command: Redis has no memory left for it");
    // Nothing is half there, and what is deleted makes room.
    let seen = host.ask("/it", &json!([["open", "a"], ["keys", ""], ["delete", "0"], ["get", "0"]]));
    assert_eq!(seen[1].as_array().unwrap().len(), stored, "{seen}");
    assert_eq!((&seen[2], &seen[3]), (&Value::Null, &Value::Null));
    // More than one of them: Redis counts the buffers of its connections too.
    for key in 1..stored {
        assert_eq!(host.ask("/it", &json!([["open", "a"], ["delete", key.to_string()]]))[1], Value::Null);
    }
    wait_until("room for one", || put(stored)[1].is_null());
}

#[test]
fn tls_users_and_passwords_are_as_the_configuration_says() {
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::in_folder(folder.path());
    let (certificate, key) = (pair.certificate.to_str().unwrap(), pair.key.to_str().unwrap());
    let redis = Redis::start(&[
        "--tls-port",
        "PORT",
        "--tls-cert-file",
        certificate,
        "--tls-key-file",
        key,
        "--tls-auth-clients",
        "no",
        "--user",
        "me",
        "on",
        ">hush-hush",
        "~fleet:*",
        "+@read",
        "+@write",
        "+@scripting",
        "+@connection",
        "+time",
        "+info",
    ]);
    let password = folder.path().join("password");
    std::fs::write(&password, "hush-hush\n").unwrap();
    let config = folder.path().join("host.toml");
    let store = |own: &str| {
        let text = format!("[kv]\nprefix = 'fleet'\nstore = 'rediss://me@localhost:{}/0'\n{own}", redis.port);
        std::fs::write(&config, Setup::of([keeper("it", "['a']")]).tables(text).text()).unwrap();
    };
    let start = |trusted: &str| {
        let mut command = serve_command(&["--config", config.to_str().unwrap()]);
        command.env("SSL_CERT_FILE", trusted).env("REDIS_PASSWORD", "hush-hush");
        Host::try_start(command)
    };
    for own in [format!("password = '@{}'", password.display()), "password = 'env:REDIS_PASSWORD'".to_owned()]
    {
        store(&own);
        let host = start(certificate).unwrap_or_else(|(_, log)| panic!("{log}"));
        assert_eq!(host.ask("/it", &json!([["open", "a"], ["increment", "n", 0]]))[0], "opened");
        assert!(!host.log().contains("hush"), "{}", host.log());
    }
    std::fs::write(&password, "wrong-hush").unwrap();
    store(&format!("password = '@{}'", password.display()));
    let (status, log) = start(certificate).err().unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("it refuses user or password") && !log.contains("hush"), "{log}");
    // Nothing else is trusted than what the system trusts.
    let other = tempfile::tempdir().unwrap();
    let other = Pair::in_folder(other.path());
    let (_, log) = start(other.certificate.to_str().unwrap()).err().unwrap();
    assert!(log.contains("no TLS: ") && log.contains("hint: the certificate has to be one"), "{log}");
}

#[test]
fn a_redis_that_cannot_be_used_refuses_the_start_with_a_reason_and_a_hint() {
    let plugin = component("tests/kv").display().to_string();
    let (locked, cluster) =
        (Redis::start(&["--requirepass", "hush-hush"]), Redis::start(&["--cluster-enabled", "yes"]));
    let echo = Setup::of([Endpoint::new("it").guest("echo")]).serve();
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = |port: u16| format!("redis://:wrong-hush@127.0.0.1:{port}/0");
    let http: u16 = echo.url.rsplit(':').next().unwrap().parse().unwrap();
    for (store, more, code, expected) in [
        (at(locked.port), None, 1, "it refuses user or password\n  hint: give those that it knows"),
        (format!("redis://127.0.0.1:{}", locked.port), None, 1, "it refuses user or password"),
        (format!("redis://127.0.0.1:{}/99", locked.port), None, 1, "it refuses user or password"),
        (format!("redis://127.0.0.1:{}/3", cluster.port), None, 1, "which has no database but 0"),
        (format!("redis://127.0.0.1:{http}"), None, 1, "cannot use the store `redis://127.0.0.1:"),
        (at(nowhere), None, 1, "no connection: Connection refused"),
        ("redis://:hush@/0".to_owned(), None, 2, "is no address of a Redis"),
        ("http://:hush@cache/0".to_owned(), None, 2, "is no file and no address of a Redis"),
        ("redis://:hush@cache/zero".to_owned(), None, 2, "hint: write a path, or `redis://USER@HOST:PORT/0`"),
        ("values".to_owned(), Some(["--kv-prefix", "a"]), 2, "is of a Redis, and there is none"),
        (at(1), Some(["--kv-password", "env:HOME"]), 2, "is there, and so is one in `kv.store`"),
        (at(1), Some(["--kv-prefix", "a{b}"]), 2, "`a{b}` is no name"),
    ] {
        let arguments = ["--plugin", &plugin, "--kv", "default", "--kv-store", &store];
        let more = more.iter().flatten().copied();
        let arguments: Vec<&str> = arguments.into_iter().chain(more).collect();
        let (status, log) = Host::try_serve(&arguments).err().unwrap_or_else(|| panic!("{store} is served"));
        assert_eq!(status.code(), Some(code), "{store}: {log}");
        assert!(log.contains(expected) && log.contains("hint: "), "{store}: {log}");
        assert!(!log.contains("hush"), "{store}: {log}");
    }
}
