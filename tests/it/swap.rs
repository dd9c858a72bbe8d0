//! A handler's file is replaced under load: every answer is wholly old or wholly new, and none fails.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use e2e::load::{Answer, Pattern, alone};
use e2e::{Host, assembled, component, costly, model, version, wait_until};
use serde_json::Value;
use tempfile::TempDir;

/// A handler's file, and a host that serves and watches it as the endpoint `swap`.
struct Swapping {
    _folder: TempDir,
    file: PathBuf,
    host: Host,
}

impl Swapping {
    fn start(handler: &[u8], model: Option<&Path>, more: &[&str]) -> Swapping {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("handler.wasm");
        fs::write(&file, handler).unwrap();
        let mut arguments = vec!["--name", "swap"];
        arguments.extend(more);
        let host = Host::with(Some(&file), model, &arguments);
        Swapping { _folder: folder, file, host }
    }

    /// As `cp` does: the file is emptied, then filled.
    fn overwrite(&self, bytes: &[u8]) {
        fs::write(&self.file, bytes).unwrap();
    }

    /// As a build tool does: the file is complete when it appears.
    fn rename(&self, bytes: &[u8]) {
        let beside = self.file.with_extension("new");
        fs::write(&beside, bytes).unwrap();
        fs::rename(&beside, &self.file).unwrap();
    }

    fn state(&self) -> Value {
        self.host.endpoint("swap")
    }

    fn generation(&self) -> u64 {
        self.state()["generation"].as_u64().unwrap()
    }

    fn digest(&self) -> String {
        self.state()["digest"].as_str().unwrap().to_owned()
    }

    fn swaps(&self, outcome: &str) -> f64 {
        self.host.metric(&format!("modelhost_plugin_swaps_total{{endpoint=\"swap\",outcome=\"{outcome}\"}}"))
    }

    fn wait_for_digest(&self, digest: &str) {
        wait_until("a version to be published", || self.digest() == digest);
    }
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(component(name)).unwrap()
}

/// Asserts that every answer was made by one version from `pre` to `post`, the one whose digest it carries, and that
/// this version is one of `versions`: signature and digest. Gives the signatures that were seen.
fn assert_whole<'a>(answers: &'a [Answer], versions: &[(&str, String)]) -> HashSet<&'a str> {
    let mut seen = HashSet::new();
    for answer in answers {
        let reply = answer.ok();
        let (body, digest) = (reply.json(), reply.header("x-handler-digest").unwrap());
        assert_eq!(body["pre"], body["post"], "request {} was answered by two versions", answer.id);
        let version = versions.iter().find(|(_, of)| of == digest);
        let (signature, _) =
            version.unwrap_or_else(|| panic!("request {}: unknown digest {digest}", answer.id));
        assert_eq!(body["pre"], *signature, "request {} carries another version's digest", answer.id);
        seen.insert(digest);
    }
    seen
}

#[test]
fn a_hundred_swaps_under_load_lose_and_mix_nothing() {
    let _alone = alone();
    let handlers = [bytes("tests/version_a"), bytes("tests/version_b")];
    let swapping = Swapping::start(&handlers[0], Some(&model("add")), &[]);
    // The second version's digest is learned by publishing it once.
    let first = swapping.digest();
    swapping.rename(&handlers[1]);
    wait_until("the second version", || swapping.generation() == 2);
    let digests = [first, swapping.digest()];

    let mut pattern = Pattern::new(&swapping.host.url, "/swap");
    pattern.clients = 4;
    let load = pattern.start();
    for n in 0..100 {
        let is_waited_for = n % 5 < 2;
        // What is waited for has to be another version than the current one.
        let version = if is_waited_for { usize::from(swapping.digest() == digests[0]) } else { n % 2 };
        if n / 2 % 2 == 0 {
            swapping.overwrite(&handlers[version])
        } else {
            swapping.rename(&handlers[version])
        }
        if is_waited_for {
            swapping.wait_for_digest(&digests[version]);
        } else {
            // At all distances around the time that a file must hold still.
            thread::sleep(Duration::from_millis(n as u64 * 37 % 240));
        }
    }
    swapping.overwrite(&handlers[1]);
    swapping.wait_for_digest(&digests[1]);
    load.wait_for_more(20);
    let answers = load.stop();

    let versions = [("a", digests[0].clone()), ("b", digests[1].clone())];
    assert_eq!(assert_whole(&answers, &versions).len(), 2, "both versions have answered");
    assert!(swapping.generation() >= 40, "only {} generations were published", swapping.generation());
    assert_eq!(swapping.swaps("published") as u64 + 1, swapping.generation());
    assert_eq!(swapping.swaps("refused"), 0.0, "last: {}", swapping.state()["last_swap"]);
    let count = |series: &str| swapping.host.metric(&format!("{series}{{endpoint=\"swap\"}}"));
    wait_until("old generations to be freed", || count("modelhost_plugin_instances") <= 4.0);
}

/// A writer that is interrupted between emptying a file and filling it is no reason for alarm.
#[test]
fn an_emptied_file_is_waited_for() {
    let swapping = Swapping::start(&bytes("tests/version_a"), None, &[]);
    swapping.overwrite(b"");
    // Longer than a file has to hold still.
    thread::sleep(Duration::from_millis(600));
    swapping.overwrite(&bytes("tests/version_b"));
    wait_until("the second version", || swapping.generation() == 2);
    assert_eq!(swapping.swaps("refused"), 0.0, "{}", swapping.state()["last_swap"]);
}

#[test]
fn a_bad_file_leaves_the_old_version_serving() {
    let good = bytes("tests/version_a");
    let random: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut damaged = good.clone();
    damaged[good.len() / 2..][..4096].fill(0xAA);
    const DAMAGED: &str = "cannot be compiled";
    const NOT_WASM: &str = "is not a WebAssembly file";
    let bad: [(&str, Vec<u8>, &str); 10] = [
        ("truncated", good[..good.len() / 2].to_vec(), DAMAGED),
        ("one byte short", good[..good.len() - 1].to_vec(), DAMAGED),
        ("damaged", damaged, DAMAGED),
        ("random", random, NOT_WASM),
        ("empty", Vec::new(), NOT_WASM),
        ("core module", b"\0asm\x01\0\0\0".to_vec(), "is a core module"),
        ("no exports", assembled("no_exports"), "exports neither"),
        ("too costly to compile", costly(), "of memory, more than 3072"),
        ("sockets", assembled("sockets"), "wasi:sockets/network@0.2.0"),
        ("unknown version", assembled("unknown_version"), "modelhost:handler/pre-inference@0.9.0"),
    ];
    let swapping = Swapping::start(&good, None, &[]);
    let versions = [("a", swapping.digest())];
    let load = Pattern::new(&swapping.host.url, "/swap").start();
    for (n, (name, bytes, reason)) in bad.iter().enumerate() {
        swapping.overwrite(bytes);
        wait_until(&format!("the {name} file to be refused"), || swapping.swaps("refused") == (n + 1) as f64);
        let state = swapping.state();
        assert_eq!(state["last_swap"]["outcome"], "refused", "{name}: {state}");
        let error = state["last_swap"]["error"].as_str().unwrap();
        assert!(error.contains(reason), "{name}: {error}");
        assert_eq!(
            (state["generation"].as_u64(), state["digest"].as_str()),
            (Some(1), Some(&*versions[0].1))
        );
        // A line for each, with the reason and what to do.
        let told = |line: &&str| ["ERROR", "refused", "hint: "].iter().all(|part| line.contains(part));
        wait_until("the log to say so", || {
            swapping.host.log().lines().filter(told).nth(n).is_some_and(|line| line.contains(reason))
        });
    }
    load.wait_for_more(10);
    assert_whole(&load.stop(), &versions);

    swapping.overwrite(&self::bytes("tests/version_b"));
    wait_until("a good file after all the bad ones", || swapping.generation() == 2);
    assert_eq!(swapping.state()["last_swap"]["outcome"], "published");
    assert_eq!(swapping.host.post("/swap", "{}").json()["pre"], "b");
}

/// The handler's types are checked before it is published, too.
#[test]
fn a_handler_of_another_type_is_refused() {
    let swapping = Swapping::start(&bytes("tests/version_a"), None, &[]);
    swapping.rename(&assembled("wrong_signature"));
    wait_until("it to be refused", || swapping.swaps("refused") == 1.0);
    let error = swapping.state()["last_swap"]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("does not have the contract's type"), "{error}");
    assert_eq!(swapping.host.post("/swap", "{}").json()["post"], "a");
}

#[test]
fn a_request_in_flight_ends_on_the_version_it_began_on() {
    let handlers = [version("tests/slow", 1), version("tests/slow", 2)];
    let swapping = Swapping::start(&handlers[0], None, &["--pre-timeout", "30s"]);
    let old = swapping.digest();
    let in_flight = || swapping.host.metric(r#"modelhost_requests_in_flight{endpoint="swap"}"#);
    thread::scope(|scope| {
        let slow = scope.spawn(|| swapping.host.post("/swap", "2500"));
        wait_until("the slow request to begin", || in_flight() == 1.0);
        swapping.rename(&handlers[1]);
        wait_until("the new version", || swapping.generation() == 2);
        let quick = swapping.host.post("/swap", "0");
        assert_eq!(in_flight(), 1.0, "the slow request was over before the swap: the machine is too slow");
        assert_eq!(quick.header("x-handler-digest"), Some(&*swapping.digest()));

        let slow = slow.join().unwrap();
        assert_eq!((slow.status, slow.header("x-handler-digest")), (200, Some(&*old)), "{}", slow.text());
        assert_eq!(slow.json()["body"], "2500");
    });
    let alive = || swapping.host.metric(r#"modelhost_plugin_instances{endpoint="swap"}"#);
    wait_until("the old version's instances to be freed", || alive() <= 1.0);
}

/// Sandboxes are the process's: a version that a slow request still holds must not keep any that it does not use.
#[test]
fn versions_held_by_slow_requests_take_no_sandboxes_from_the_next() {
    let _alone = alone();
    let place = Swapping::start(
        &version("tests/files", 0),
        None,
        &["--concurrency", "6", "--pre-timeout", "30s", "--post-timeout", "30s"],
    );
    let post = |url: &str, body: &'static str| {
        let url = format!("{url}/swap");
        thread::spawn(move || e2e::request("POST", &url, &[], body.as_bytes()))
    };
    let mut slow = Vec::new();
    for note in 1..5 {
        // All six instances of this version come to be, one of them for long.
        slow.push(post(&place.host.url, "sleep:6000"));
        let crowd: Vec<_> = (0..5).map(|_| post(&place.host.url, "sleep:100")).collect();
        for reply in crowd {
            assert_eq!(reply.join().unwrap().status, 200);
        }
        let generation = place.generation();
        place.rename(&version("tests/files", note));
        wait_until("the next version", || place.generation() > generation);
    }
    assert_eq!(place.swaps("refused"), 0.0);
    for reply in slow {
        assert_eq!(reply.join().unwrap().status, 200);
    }
}
