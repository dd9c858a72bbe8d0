//! `host replay`: what was recorded comes out the same, without model and server; another handler differs; recordings that
//! somebody has tampered with.

use std::collections::BTreeMap;
use std::fs;

use e2e::recorded::{Recorded, assert_same, by_id, files, recording, replay, text};
use e2e::{Host, component, model, wait_until};
use serde_json::{Value, json};

#[test]
fn whatever_a_handler_draws_comes_out_the_same() {
    let project = tempfile::tempdir().unwrap();
    fs::write(project.path().join("labels"), "setosa").unwrap();
    let more = ["--project", text(project.path()), "--metadata", "{\"a\": 1}", "--pre-timeout", "400ms"];
    let it = Recorded::serve("tests/draws", &more);
    let requests = [
        (
            "draws",
            200,
            "wall clock random id read:/mnt/project/labels header:x-user header:x-none | wall random clock",
        ),
        ("sleeps", 200, "sleep:60 wall sleep:5 | sleep:1 clock"),
        ("clocks", 200, "ticks:2000 until:1 | ticks:10"),
        ("no-file", 200, "read:/mnt/project/none read:/etc/passwd"),
        ("invalid", 400, "random invalid"),
        ("fails", 500, "wall fail:badly"),
        ("traps", 500, "clock | random abort"),
        ("times-out", 504, "spin"),
        ("sleeps-too-long", 504, "wall | sleep:60000"),
        ("responds", 418, "random respond"),
    ];
    let mut replies = BTreeMap::new();
    for (id, status, body) in requests {
        let reply = it.post(id, body);
        assert_eq!(reply.status, status, "{id}: {}", reply.text());
        replies.insert(id, reply);
    }
    it.wait(requests.len());
    let answer = replies["draws"].json();
    assert_eq!(
        (&answer["pre"][4], &answer["pre"][5], &answer["pre"][6]),
        (&json!("setosa"), &json!("ann"), &json!(null))
    );

    // A person finds in the file what happened.
    let recordings = by_id(it.folder.path());
    let draws = &recordings["draws"];
    assert_eq!(draws["drawn"]["headers"], json!({"x-user": "ann", "x-none": null}));
    let functions: Vec<&str> = draws["drawn"]["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["function"].as_str().unwrap())
        .collect();
    assert_eq!(functions, ["start", "pre-inference", "post-inference"]);
    let wall = &draws["drawn"]["calls"][1]["draws"][0]["wall-clock"];
    let nanoseconds = format!("{}{:09}", wall[0], wall[1].as_u64().unwrap());
    assert_eq!(answer["pre"][0].as_str(), Some(&*nanoseconds));
    assert_eq!(draws["handler"]["metadata"], json!({"a": 1}));
    assert_eq!(recordings["invalid"]["outcome"]["error"]["message"], "the body asks for it");
    for (id, reply) in &replies {
        match recordings[*id]["outcome"].get("response") {
            Some(response) => assert_eq!(response["body"]["text"].as_str(), Some(&*reply.text()), "{id}"),
            None => assert_eq!(recordings[*id]["outcome"]["error"]["code"], reply.json()["code"], "{id}"),
        }
    }

    // The server is gone, and so is what it had loaded.
    let folder = it.folder;
    drop(it.host);
    let more = ["--project", text(project.path())];
    assert_same(folder.path(), &component("tests/draws"), &more, requests.len());

    // Other files are said to be others, and what comes of them is seen.
    fs::write(project.path().join("labels"), "virginica").unwrap();
    let (code, lines, stderr) = replay(folder.path(), &component("tests/draws"), &more);
    assert_eq!(code, 1);
    assert!(stderr.contains("1 of 10 recordings did not come out the same"), "{stderr}");
    assert!(lines.contains(&"note      other project files than the recorded ones".to_owned()), "{lines:#?}");
    let differences: Vec<&str> =
        lines.iter().filter(|line| line.starts_with(' ')).map(|line| line.trim()).collect();
    assert_eq!(differences, [r#"/pre/4: "setosa" became "virginica""#]);
}

#[test]
fn models_are_not_needed_again_whatever_the_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let record = ["--record", text(folder.path())];
    let (iris, tensors) = (component("iris-wasm"), component("tests/tensors"));
    let serve = [&["--name", "it", "--bare-tensors"], &record[..]].concat();
    let host = Host::with(Some(&iris), Some(&model("iris_dyn")), &serve);
    let flower = r#"{"sepal_length":5.2,"sepal_width":3.6,"petal_length":1.4,"petal_width":0.3}"#;
    assert_eq!(host.post("/it", flower).status, 200);
    assert_eq!(host.post("/it", r#"{"sepal_length":"long"}"#).status, 400);
    // Past the handler's `pre-inference` to the model.
    let input = json!({"name": "input", "datatype": "FP32", "shape": [1, 4], "data": [5.2, 3.6, 1.4, 0.3]});
    assert_eq!(host.post("/v2/models/it/infer", json!({"inputs": [input]}).to_string()).status, 200);
    host.signal("TERM");
    assert!(host.wait().0.success());
    // What waited was written before the process ended.
    assert_eq!(files(folder.path()).len(), 3);
    assert_same(folder.path(), &iris, &[], 3);
    // Their names tell the millisecond, so those of one are in no order.
    let mut recordings = files(folder.path()).into_iter().map(|file| recording(&file));
    let first = recordings.find(|recording| recording["outcome"]["response"]["status"] == 200).unwrap();
    assert_eq!(first["signature"]["inputs"][0]["shape"], json!(["N", 4]));
    assert_eq!(first["model"]["inputs"][0]["values"], json!([[5.2, 3.6, 1.4, 0.3]]));

    // Tensors, by two protocols, one of which the host translates.
    let folder = tempfile::tempdir().unwrap();
    let record = ["--record", text(folder.path())];
    let host =
        Host::with(Some(&tensors), Some(&model("iris_dyn")), &[&["--name", "it"], &record[..]].concat());
    let elements = vec![0.5; 4];
    let input = json!({"name": "input", "datatype": "FP32", "shape": [1, 4], "data": elements});
    let infer = json!({"inputs": [input], "parameters": {"mode": "fast"}}).to_string();
    let replies = [
        host.post("/v2/models/it/infer", infer),
        host.post("/it", json!([elements]).to_string()),
        host.post("/v1/models/it:predict", json!({"instances": [elements]}).to_string()),
    ];
    let status: Vec<(u16, String)> = replies.iter().map(|reply| (reply.status, reply.text())).collect();
    wait_until("three recordings", || files(folder.path()).len() == 3);
    assert!(status.iter().all(|(status, _)| *status == 200), "{status:?}");
    assert_same(folder.path(), &tensors, &[], 3);
}

#[test]
fn another_component_differs_readably() {
    let it = Recorded::serve("tests/echo", &[]);
    assert_eq!(it.post("one", "5").status, 200);
    it.wait(1);
    let run = |plugin: &str, more: &[&str]| replay(it.folder.path(), &component(plugin), more);

    let (code, lines, _) = run("tests/probe", &[]);
    assert_eq!(code, 1);
    assert_eq!(lines[0], "note      another component than the recorded one");
    assert!(lines[1].starts_with("differs   "), "{lines:#?}");
    assert!(lines[2..].iter().all(|line| line.starts_with("          /")), "{lines:#?}");

    let (code, lines, _) = run("tests/slow", &[]);
    assert_eq!(code, 1);
    let diverged = "in pre-inference: asks for the monotonic clock where the recording has nothing more";
    assert!(lines[1].starts_with("diverged  ") && lines[1].ends_with(diverged), "{lines:#?}");

    let (code, lines, _) = run("tests/version_a", &[]);
    assert_eq!(code, 1);
    let start = "in pre-inference: makes other tensors, to which the model's answer is not known: ";
    assert!(lines[1].contains(start), "{lines:#?}");

    let (code, lines, _) = run("tests/draws", &[]);
    assert_eq!((code, lines.len()), (1, 3), "{lines:#?}");
    let (_, lines, _) = run("tests/post_only", &[]);
    assert_eq!(lines[2], "          functions: `pre-inference`, `post-inference` became `post-inference`");

    let (_, lines, _) = run("tests/probe", &["--json"]);
    let object: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&object["verdict"], &object["endpoint"]), (&json!("differs"), &json!("it")));
    assert!(object["differences"][0]["place"].is_string() && object["notes"][0].is_string(), "{object}");
    let (code, _, stderr) = run("tests/echo", &["--tolerance", "lots"]);
    assert_eq!(code, 2, "{stderr}");

    // What is no handler replays nothing.
    let broken = it.folder.path().join("broken.wasm");
    fs::write(&broken, &fs::read(component("tests/echo")).unwrap()[..100]).unwrap();
    let (code, lines, stderr) = replay(it.folder.path(), &broken, &[]);
    assert_eq!((code, lines.len()), (1, 0), "{stderr}");
    assert!(stderr.contains("cannot be compiled"), "{stderr}");
}

#[test]
fn what_somebody_tampered_with_is_one_clear_line() {
    let it = Recorded::serve("tests/draws", &[]);
    let plugin = component("tests/draws");
    assert_eq!(it.post("one", "wall random header:x-user | clock").status, 200);
    it.wait(1);
    let original = recording(&files(it.folder.path())[0]);
    let whole = serde_json::to_vec(&original).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.json");
    let replayed = |content: &[u8]| {
        fs::write(&file, content).unwrap();
        let (code, mut lines, stderr) = replay(&file, &plugin, &[]);
        assert!(!stderr.contains("panicked"), "{stderr}");
        lines.retain(|line| !line.starts_with("note "));
        (code, lines)
    };
    assert_eq!(replayed(&whole).0, 0);
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        let (code, lines) = replayed(&whole[..cut]);
        assert_eq!((code, lines.len()), (1, 1), "{lines:#?}");
        assert!(lines[0].starts_with("unusable  ") && lines[0].contains("is no recording: "), "{lines:#?}");
    }
    let set = |path: &str, value: Value| {
        let mut changed = original.clone();
        *changed.pointer_mut(path).unwrap_or_else(|| panic!("no `{path}` in {original:#}")) = value;
        serde_json::to_vec(&changed).unwrap()
    };
    // What one of them says of the handler's limits is no reason to leave the others.
    let (starved, sound) = (folder.path().join("1.json"), folder.path().join("2.json"));
    fs::write(&starved, set("/handler/memory", json!(1))).unwrap();
    fs::write(&sound, &whole).unwrap();
    fs::remove_file(&file).unwrap();
    let (code, lines, stderr) = replay(folder.path(), &plugin, &[]);
    assert_eq!((code, lines.len()), (1, 2), "{lines:#?} {stderr}");
    assert!(lines[0].starts_with("unusable  ") && lines[0].contains("1.json: the component "), "{lines:#?}");
    assert!(lines[1].starts_with("same "), "{lines:#?}");
    fs::remove_file(starved).unwrap();
    fs::remove_file(sound).unwrap();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let huge = json!(u64::MAX);
    for (content, expected) in [
        (deep.into_bytes(), "is no recording: "),
        (b"\xff\xfe\0".to_vec(), "is no recording: "),
        (set("/format", json!(3)), "is a recording of format 3, and this host reads formats 1 to 2"),
        (set("/format", json!(1)), "same"),
        (set("/format", json!("\u{1b}[31m")), "is no recording: "),
        (set("/model/inputs/0/data", json!("no base64!")), "the text is no base64"),
        (set("/model/inputs/0/data", json!("AAAA")), "has a tensor `body` that is none: "),
        (set("/model/inputs/0/shape", json!([huge, huge])), "has a tensor `body` that is none: "),
        (set("/model/inputs/0/datatype", json!("FP\u{7}")), "of datatype `FP\\u{7}`, which there is not"),
        (set("/model/outputs", json!(null)), "holds an answer, and nothing of what came before it"),
        (set("/model", json!(null)), "makes other tensors"),
        (set("/handler/network", json!("all")), "has a `network` that this host does not know"),
        (set("/handler/functions", json!(["\u{1b}[31m"])), "differs"),
        (
            set("/outcome", json!({"error": {"code": "x", "stage": "y", "message": ""}})),
            "whose code or stage",
        ),
        (set("/outcome/response/body", json!({"text": "\u{1b}[31m"})), "differs"),
        (set("/drawn/calls", json!([])), "diverged"),
        (set("/drawn/calls/1/function", json!("\u{1b}[31m")), "diverged"),
        (
            set("/drawn/calls/1/draws/0", json!({"random": "AAAA"})),
            "asks for the wall clock where the recording has random",
        ),
        (
            set("/drawn/calls/1/draws", json!([])),
            "asks for the wall clock where the recording has nothing more",
        ),
        (set("/drawn/headers", json!({})), "asks for the header `x-user`, and the recorded one did not"),
        (set("/drawn/calls/1/draws/0", json!({"wall-clock": [0, 1, 2]})), "is no recording: "),
        (set("/drawn/calls/1/draws/0", json!({"\u{1b}[31m": 1})), "is no recording: unknown variant"),
        // Read, and cut to what may be.
        (set("/handler/memory", json!(u64::MAX)), "same"),
        (set("/handler/pre_timeout_ms", json!(u64::MAX)), "same"),
        (set("/request/body_limit", json!(u64::MAX)), "same"),
        (set("/handler/project", json!("/etc")), "same"),
    ] {
        let (_, lines) = replayed(&content);
        let shown = lines.join("\n");
        assert!(shown.contains(expected), "expected {expected}: {shown}");
        assert!(!shown.replace('\n', "").chars().any(char::is_control), "{shown:?}");
        assert!(shown.len() < 2_000, "{shown}");
    }
    // One that is broken keeps no other from being replayed; no recording at all is said.
    fs::write(folder.path().join("a.json"), &whole).unwrap();
    fs::write(&file, "{").unwrap();
    let (code, lines, _) = replay(folder.path(), &plugin, &[]);
    assert_eq!((code, lines.len()), (1, 2), "{lines:#?}");
    assert!(lines[0].starts_with("same ") && lines[1].starts_with("unusable "), "{lines:#?}");
    let (code, _, stderr) = replay(tempfile::tempdir().unwrap().path(), &plugin, &[]);
    assert_eq!(code, 1);
    assert!(stderr.contains("no recording is in") && stderr.contains("hint: "), "{stderr}");
}
