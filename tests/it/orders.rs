//! Swaps by order: over the admin address, by `host swap`, by SIGHUP; on a condition, with a model, back again, and with the
//! process killed in the middle.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use e2e::load::Pattern;
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, component, host, model, request, root, version, wait_until};
use serde_json::Value;

/// An order to the endpoint `e`.
fn order(host: &Host, method: &str, call: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    request(method, &format!("{}/admin/v1/endpoints/e/{call}", host.admin), headers, body)
}

fn put(host: &Host, call: &str, body: &[u8]) -> Value {
    let reply = order(host, "PUT", call, &[], body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

fn show(host: &Host) -> Value {
    request("GET", &format!("{}/admin/v1/endpoints/e", host.admin), &[], b"").json()
}

fn serve(handler: &Path, more: &[&str]) -> Host {
    let mut arguments = vec!["--name", "e"];
    arguments.extend(more);
    Host::with(Some(handler), None, &arguments)
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(component(name)).unwrap()
}

/// The letter that both halves of the handler sign with.
fn signature(host: &Host) -> String {
    let answer = host.post("/e", "{}").json();
    assert_eq!(answer["pre"], answer["post"]);
    answer["post"].as_str().unwrap().to_owned()
}

#[test]
fn a_handler_that_is_put_serves_and_one_that_is_there_changes_nothing() {
    let host = serve(&component("tests/version_a"), &[]);
    let first = show(&host);
    let swapped = put(&host, "plugin?note=the+second", &bytes("tests/version_b"));
    assert_eq!((swapped["outcome"].as_str(), swapped["generation"].as_u64()), (Some("published"), Some(2)));
    assert_eq!(signature(&host), "b");

    let again = order(&host, "PUT", "plugin", &[], &bytes("tests/version_b"));
    assert_eq!((again.status, &again.json()["outcome"]), (200, &"unchanged".into()));
    assert_eq!(again.header("etag"), Some(&*format!("\"{}\"", swapped["digest"].as_str().unwrap())));

    let now = show(&host);
    assert_eq!((&now["digest"], now["generation"].as_u64()), (&swapped["digest"], Some(2)));
    assert_eq!(now["previous"]["digest"], first["digest"]);
    let history = now["history"].as_array().unwrap();
    let origins: Vec<&str> = history.iter().map(|attempt| attempt["origin"].as_str().unwrap()).collect();
    assert_eq!(origins, ["admin", "start"]);
    assert_eq!((&history[0]["note"], &history[0]["generation"]), (&"the second".into(), &2.into()));
    assert_eq!(now["last_swap"], history[0]);
}

#[test]
fn what_is_refused_says_at_which_step_and_leaves_the_old_one() {
    let host = serve(&component("tests/version_a"), &[]);
    let sockets = e2e::assembled("sockets");
    let b = bytes("tests/version_b");
    let digest = show(&host)["digest"].as_str().unwrap().to_owned();
    let stale = format!("\"{}\"", "0".repeat(64));
    for (call, headers, body, status, step, text) in [
        ("plugin", vec![], b"no wasm".as_slice(), 409, "load", "the new handler is not a WebAssembly file"),
        ("plugin", vec![], &sockets, 409, "verify", "imports what it is not granted"),
        ("plugin?model=none", vec![], &b, 404, "load", "there is no model `none`"),
        ("plugin", vec![("if-match", stale.as_str())], &b, 412, "order", &digest),
    ] {
        let reply = order(&host, "PUT", call, &headers, body);
        let answer = reply.json();
        assert_eq!((reply.status, answer["step"].as_str()), (status, Some(step)), "{call}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(text), "{call}: {answer}");
    }
    for (call, headers, status) in [
        ("plugin?nonsense=1", vec![], 400),
        ("plugin?model=m:x", vec![], 400),
        ("plugin", vec![("origin", "http://evil.example")], 403),
        ("../none/plugin", vec![], 404),
    ] {
        // A longer body might not be taken before the refusal comes.
        assert_eq!(order(&host, "PUT", call, &headers, b"short").status, status, "{call}");
    }
    assert_eq!(order(&host, "POST", "rollback", &[], b"").json()["step"], "order");
    assert_eq!((signature(&host).as_str(), show(&host)["generation"].as_u64()), ("a", Some(1)));
    // On the condition that holds, it is published.
    let condition = format!("\"{digest}\"");
    assert_eq!(order(&host, "PUT", "plugin", &[("if-match", &condition)], &b).status, 200);
    assert_eq!(signature(&host), "b");
}

#[test]
fn what_cannot_be_written_is_not_published_and_what_cannot_be_read_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sub").join("handler.wasm");
    fs::create_dir(file.parent().unwrap()).unwrap();
    fs::copy(component("tests/version_a"), &file).unwrap();
    let host = serve(&file, &["--no-watch"]);
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
    let b = bytes("tests/version_b");
    for (method, call, body, step, text) in [
        ("PUT", "plugin?persist=true", b.as_slice(), "persist", "cannot write handler"),
        ("POST", "reload", b"", "load", "cannot read handler"),
    ] {
        let reply = order(&host, method, call, &[], body);
        let answer = reply.json();
        assert_eq!((reply.status, answer["step"].as_str()), (409, Some(step)), "{call}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(text), "{call}: {answer}");
        assert_eq!(show(&host)["history"][0]["step"], step);
        assert_eq!((signature(&host).as_str(), show(&host)["generation"].as_u64()), ("a", Some(1)));
    }
    fs::create_dir(file.parent().unwrap()).unwrap();
    put(&host, "plugin?persist=true", &b);
    assert_eq!((signature(&host).as_str(), fs::read(&file).unwrap() == b), ("b", true));
}

/// What an order has written to the file is not swapped in once more, over what came after it.
#[test]
fn the_watch_leaves_alone_what_an_order_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["e", "clock"].map(|name| folder.path().join(format!("{name}.wasm")));
    let endpoint = |(name, file): (&str, &PathBuf)| {
        fs::copy(component("tests/version_a"), file).unwrap();
        Endpoint::new(name).plugin(file)
    };
    let host = Setup::of(["e", "clock"].into_iter().zip(&files).map(endpoint)).serve();
    put(&host, "plugin?persist=true", &bytes("tests/version_b"));
    assert_eq!(order(&host, "POST", "rollback", &[], b"").status, 200);
    // The other file is looked at as often. Once it has been swapped in twice, this one has had its time too.
    for version in ["tests/version_b", "tests/version_a"] {
        let before = host.endpoint("clock")["generation"].as_u64().unwrap();
        fs::copy(component(version), &files[1]).unwrap();
        wait_until("the other file is swapped in", || {
            host.endpoint("clock")["generation"].as_u64().unwrap() > before
        });
    }
    assert_eq!((signature(&host).as_str(), show(&host)["generation"].as_u64()), ("a", Some(3)));
    // What somebody else writes is swapped in as ever.
    fs::write(&files[0], version("tests/version_b", 1)).unwrap();
    wait_until("the file is swapped in", || signature(&host) == "b");
    assert_eq!(show(&host)["history"][0]["origin"], "watch");
}

#[test]
fn a_rollback_goes_back_and_forth() {
    let host = serve(&component("tests/version_a"), &["--isolation", "request"]);
    put(&host, "plugin", &bytes("tests/version_b"));
    for (generation, signs) in [(3, "a"), (4, "b"), (5, "a")] {
        let reply = order(&host, "POST", "rollback", &[], b"").json();
        assert_eq!(reply["generation"].as_u64(), Some(generation), "{reply}");
        assert_eq!(signature(&host), signs);
    }
    assert_eq!(show(&host)["history"][0]["origin"], "rollback");
}

#[test]
fn handler_and_model_are_swapped_as_one() {
    let folder = tempfile::tempdir().unwrap();
    for (number, model) in [("1", root().join("examples/iris-wasm/iris.onnx")), ("2", model("add"))] {
        fs::create_dir(folder.path().join(number)).unwrap();
        fs::copy(model, folder.path().join(number).join("model.onnx")).unwrap();
    }
    let iris = component("iris-wasm");
    let arguments = ["--name", "e", "--model-version", "1", "--keep-model"];
    let host = Host::with(Some(&iris), Some(folder.path()), &arguments);
    let sample = fs::read_to_string(root().join("examples/iris-wasm/sample.json")).unwrap();
    assert_eq!(host.post("/e", &sample).status, 200);
    for call in ["models/default/load", "models/default/unload", "reload?model=default:2"] {
        assert_eq!(order(&host, "POST", call, &[("if-match", "\"0\"")], b"").status, 412, "{call}");
    }
    // Each alone fits nothing.
    let alone = order(&host, "POST", "reload?model=default:2", &[], b"");
    assert_eq!((alone.status, alone.json()["step"].as_str()), (409, Some("verify")), "{}", alone.text());

    let body = |_: &str| fs::read_to_string(root().join("examples/iris-wasm/sample.json")).unwrap();
    let load = Pattern { clients: 4, body, ..Pattern::new(&host.url, "/e") }.start();
    let signed = bytes("tests/version_a");
    for _ in 0..10 {
        put(&host, "plugin?model=default:2", &signed);
        load.wait_for_more(10);
        assert_eq!(order(&host, "POST", "rollback", &[], b"").status, 200);
        load.wait_for_more(10);
    }
    let answers = load.stop();
    let (mut flowers, mut signatures) = (0, 0);
    for answer in &answers {
        match answer.ok().json() {
            flower if flower["class_label"] == "iris-setosa" => flowers += 1,
            signed if signed["pre"] == "a" && signed["post"] == "a" => signatures += 1,
            other => panic!("neither pair answers {other}"),
        }
    }
    assert!(flowers > 50 && signatures > 50, "{flowers} and {signatures}");
}

#[test]
fn without_keep_model_a_rollback_does_not_reach_over_another_model() {
    let folder = tempfile::tempdir().unwrap();
    for (number, name) in [("1", "identity_fp32"), ("2", "sum")] {
        fs::create_dir(folder.path().join(number)).unwrap();
        fs::copy(model(name), folder.path().join(number).join("model.onnx")).unwrap();
    }
    let host = Host::with(None, Some(folder.path()), &["--name", "e", "--model-version", "1"]);
    assert_eq!(order(&host, "POST", "reload?model=default:2", &[], b"").status, 200);
    let reply = order(&host, "POST", "rollback", &[], b"");
    assert!(reply.status == 409 && reply.text().contains("--keep-model"), "{}", reply.text());
    // What the configuration says is loaded again by a reload.
    assert_eq!(order(&host, "POST", "reload", &[], b"").status, 200);
    assert_eq!(show(&host)["models"][0]["version"], 1);
}

#[test]
fn a_hangup_reloads_what_is_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("h.wasm");
    fs::copy(component("tests/version_a"), &file).unwrap();
    let host = serve(&file, &["--no-watch"]);
    host.signal("HUP");
    assert_eq!(signature(&host), "a");
    fs::copy(component("tests/version_b"), &file).unwrap();
    host.signal("HUP");
    wait_until("the file to serve", || signature(&host) == "b");
    assert_eq!(show(&host)["last_swap"]["origin"], "signal");
    fs::write(&file, "broken").unwrap();
    host.signal("HUP");
    wait_until("the refusal", || show(&host)["last_swap"]["outcome"] == "refused");
    assert_eq!(signature(&host), "b");
}

#[test]
fn the_command_gives_orders_and_says_what_came_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "0perator\n").unwrap();
    let key = format!("@{}", key.display());
    let running = serve(&component("tests/version_a"), &["--admin-key", &key]);
    let b = component("tests/version_b").display().to_string();
    let swap = |arguments: &[&str]| {
        let mut all = vec!["swap", "e", "--admin", running.admin.as_str()];
        all.extend(arguments);
        let output = host(&all);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = swap(&["--plugin", &b]);
    assert!(code == Some(1) && text.contains("requires a key") && text.contains("hint: `--key"), "{text}");
    for (arguments, expected) in [
        (vec!["--plugin", b.as_str(), "--note", "by hand"], "e: generation 2 published, handler "),
        (vec!["--plugin", b.as_str()], "e: generation 2 unchanged, handler "),
        (vec!["--rollback"], "e: generation 3 published, handler "),
        (vec!["--reload"], "e: generation 3 unchanged, handler "),
    ] {
        let (code, text) = swap(&[arguments.as_slice(), &["--key", &key]].concat());
        assert!(code == Some(0) && text.starts_with(expected), "{arguments:?}: {text}");
    }
    let (code, text) = swap(&["--plugin", &b, "--if-match", "0", "--key", &key]);
    assert!(code == Some(1) && text.starts_with("error: endpoint `e`: the current handler is"), "{text}");
    let (code, text) = swap(&["--rollback", "--admin", "http://127.0.0.1:1"]);
    assert_eq!(code, Some(2), "given twice: {text}");
    let empty = folder.path().join("empty.wasm");
    fs::write(&empty, "").unwrap();
    for more in [&[][..], &["--canary", "0.5"]] {
        let (code, text) = swap(&[&["--plugin", empty.to_str().unwrap(), "--key", &key], more].concat());
        assert!(code == Some(1) && text.contains("empty.wasm` is empty\n  hint: "), "{text}");
    }
    // A name that is none gives no other order than the one that was given.
    for name in ["e/plugin/candidate?x=", "e/models/default/unload?x=", "e?", "..", "../../x"] {
        let output = host(&["swap", name, "--rollback", "--admin", &running.admin, "--key", &key]);
        let text = String::from_utf8(output.stderr).unwrap();
        let expected = format!("error: there is no endpoint `{name}`");
        assert!(output.status.code() == Some(1) && text.starts_with(&expected), "{name}: {text}");
    }
    let nobody = host(&["swap", "e", "--rollback", "--admin", "http://127.0.0.1:1"]);
    let text = String::from_utf8(nobody.stderr).unwrap();
    assert!(text.contains("cannot reach the admin address http://127.0.0.1:1"), "{text}");
}

/// Whatever moment the process is killed at, the file holds one version or the other, whole, and the next start serves it.
#[test]
fn killed_in_the_middle_of_a_swap_it_starts_with_one_version_or_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("h.wasm");
    fs::copy(component("tests/version_a"), &file).unwrap();
    // Every time another one, so that each is compiled and written.
    let versions = |round: u8| [version("tests/version_a", round), version("tests/version_b", round)];
    for round in 0..10u8 {
        let mut host = Some(serve(&file, &[]));
        let admin = host.as_ref().unwrap().admin.clone();
        let swaps = thread::spawn(move || {
            for component in versions(round).iter().cycle() {
                let url = format!("{admin}/admin/v1/endpoints/e/plugin?persist=true");
                if e2e::try_request(&e2e::agent(), "PUT", &url, &[], component).is_err() {
                    break;
                }
            }
        });
        // At all distances from the beginning of a swap.
        thread::sleep(Duration::from_millis(u64::from(round) * 23));
        assert!(["a", "b"].contains(&signature(host.as_ref().unwrap()).as_str()));
        host.as_ref().unwrap().signal("KILL");
        drop(host.take());
        swaps.join().unwrap();
        let found = fs::read(&file).unwrap();
        let known = (0..=round).flat_map(versions).any(|version| version == found);
        assert!(known || found == bytes("tests/version_a"), "the file is of no version");
    }
    let last = serve(&file, &[]);
    assert!(["a", "b"].contains(&signature(&last).as_str()));
    let litter: Vec<_> =
        fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(litter.len() <= 11, "at most one file a kill is left beside the handler: {litter:?}");
}

/// A stop waits for it, and takes no other.
#[test]
fn an_order_that_has_begun_comes_to_its_end() {
    let more = ["--metadata", r#"["print:preparing", "spin"]"#, "--init-timeout", "6s"];
    let host = serve(&component("tests/echo"), &more);
    let url = format!("{}/admin/v1/endpoints/e/plugin", host.admin);
    let begun = thread::spawn(move || request("PUT", &url, &[], &bytes("tests/prepared")));
    host.wait_for_log("preparing");
    host.signal("TERM");
    host.wait_for_log("stopping");
    let late = order(&host, "PUT", "plugin", &[], &bytes("tests/version_a"));
    assert_eq!((late.status, &late.json()["code"]), (503, &"shutting_down".into()), "{}", late.text());
    let refused = begun.join().unwrap();
    assert!(refused.text().contains("limits.init_timeout"), "{} {}", refused.status, refused.text());
    let (status, log) = host.wait();
    assert_eq!(status.code(), Some(0), "{log}");
}
