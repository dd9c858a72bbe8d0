//! `host serve --record`: what is written, what is not, and that no request minds.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use e2e::recorded::{Recorded, assert_same, by_id, files, text};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, serve_command, wait_until};
use serde_json::json;

#[test]
fn a_request_that_is_recorded_has_an_instance_of_its_own() {
    let it = Recorded::serve("tests/draws", &["--isolation", "worker"]);
    for number in 0..3 {
        let reply = it.post(&format!("kept-{number}"), "kept | kept").json();
        assert_eq!(reply, json!({"pre": [1], "post": [2]}));
    }
    it.wait(3);
    assert_same(it.folder.path(), &component("tests/draws"), &[], 3);
}

const SECRET: &str = "hush-0f-the-caller";

#[test]
fn no_secret_is_ever_written() {
    let keys = tempfile::NamedTempFile::new().unwrap();
    fs::write(keys.path(), format!("{SECRET}-key")).unwrap();
    let key_file = format!("@{}", text(keys.path()));
    let it = Recorded::serve("tests/draws", &["--key", &key_file, "--response-header", "set-cookie"]);
    let key = format!("Bearer {SECRET}-key");
    let call = |path: &str, header: &str, body: &str| {
        let headers = [("authorization", &*key), (header, SECRET), ("x-request-id", "r")];
        assert_eq!(it.host.request("POST", path, &headers, body.as_bytes()).status, 200, "{path} {header}");
    };
    // What the handler does not ask for, or may not see, is not there to be written.
    for (header, body) in
        [("cookie", "wall"), ("x-api-key", "header:x-none"), ("x-other", "header:authorization")]
    {
        call("/it", header, body);
    }
    // What it is told is refused, by name: headers, the query however it is spelt, headers of the response.
    let told = ["cookie", "proxy-authorization", "x-api-key", "x-auth-token", "x-session", "x-client-secret"];
    for header in told {
        call("/it", header, &format!("header:{}", header.to_uppercase()));
    }
    let queries = ["token=", "a=1&api_key=", "%74oken=", "a=1;password=", "clientSecret="];
    for query in queries {
        call(&format!("/it?{query}{SECRET}"), "x-none", "wall");
    }
    call("/it", "x-none", "set:set-cookie");
    let refused = told.len() + queries.len() + 1;
    wait_until("every refusal", || it.count("refused") == refused as f64);
    it.wait(3);
    let warnings = || it.host.log().matches("not recorded, nor will others be like it").count();
    wait_until("a warning", || warnings() > 0);
    assert_eq!(warnings(), 1, "one warning");

    // The handler's own words in errors are for the log.
    let headers = [("authorization", &*key)];
    assert_eq!(it.host.request("POST", "/it", &headers, b"| fail:loudly").status, 500);
    it.wait(4);
    let found = files(it.folder.path());
    assert_eq!(found.len(), 4);
    for file in found {
        let content = fs::read(&file).unwrap();
        assert!(
            !content.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()),
            "{}",
            file.display()
        );
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert!(!it.host.log().contains(SECRET));
}

#[test]
fn parameters_of_the_protocol_are_looked_at_too() {
    let it = Recorded::serve("tests/tensors", &[]);
    let input = json!({"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]});
    for parameters in [json!({"api_key": SECRET}), json!({"mode": "fast"})] {
        let body = json!({"inputs": [input], "parameters": parameters}).to_string();
        assert_eq!(it.host.post("/v2/models/it/infer", body).status, 200);
    }
    it.wait(1);
    assert_eq!(it.count("refused"), 1.0);
    let found = files(it.folder.path());
    assert_eq!(found.len(), 1);
    assert!(!fs::read_to_string(&found[0]).unwrap().contains(SECRET));
}

#[test]
fn variables_and_a_folder_of_others_refuse_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = component("tests/draws");
    let start = |more: &[&str]| {
        let arguments = ["--plugin", text(&plugin), "--record", text(folder.path())];
        let (status, log) =
            Host::try_serve(&[&arguments[..], more].concat()).err().expect("the host does not start");
        (status.code(), log)
    };
    let (code, log) = start(&["--env", &format!("TOKEN={SECRET}")]);
    assert_eq!(code, Some(2), "{log}");
    assert!(
        log.contains("has environment variables") && log.contains("hint: set `record_share = 0`"),
        "{log}"
    );
    assert!(!log.contains(SECRET) && files(folder.path()).is_empty());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (code, log) = start(&[]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("others can write to it") && log.contains("hint: "), "{log}");
}

#[test]
fn the_folder_has_a_bound_and_no_handler_sees_it() {
    let project = tempfile::tempdir().unwrap();
    fs::write(project.path().join("labels"), "setosa").unwrap();
    let folder = project.path().join("recordings");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(folder.join("older.json"), vec![b' '; 20_000]).unwrap();
    let plugin = component("tests/draws");
    let arguments = [
        "--name",
        "it",
        "--plugin",
        text(&plugin),
        "--record",
        text(&folder),
        "--record-size",
        "32KiB",
        "--project",
        text(project.path()),
    ];
    let host = Host::serve(&arguments);
    let count = |outcome| {
        host.metric(&format!("modelhost_recordings_total{{endpoint=\"it\",outcome=\"{outcome}\"}}"))
    };
    let reply = host.post("/it", "read:/mnt/project/labels read:/mnt/project/recordings/older.json").json();
    assert_eq!(reply["pre"][0], "setosa");
    assert!(reply["pre"][1]["error"].is_string(), "{reply}");
    wait_until("the bound", || {
        assert_eq!(host.post("/it", "wall").status, 200);
        count("dropped") >= 3.0
    });
    let used: u64 = files(&folder).iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!((20_000..=32 << 10).contains(&used), "{used}");
    assert!(count("written") >= 2.0);
    host.wait_for_log("recording ends");
    assert_eq!(host.log().matches("recording ends").count(), 1);
}

#[test]
fn a_disk_that_fails_harms_no_request() {
    let it = Recorded::serve("tests/draws", &[]);
    // In the place of the endpoint's folder: nothing can be written below it, whoever this runs as.
    fs::write(it.folder.path().join("it"), "").unwrap();
    for number in 0..5 {
        assert_eq!(it.post(&number.to_string(), "wall").status, 200);
    }
    wait_until("five failures", || it.count("dropped") == 5.0);
    let warnings = || it.host.log().matches("cannot write a recording").count();
    wait_until("a warning", || warnings() > 0);
    assert_eq!(warnings(), 1);
    fs::remove_file(it.folder.path().join("it")).unwrap();
    assert_eq!(it.post("again", "wall").status, 200);
    it.wait(1);
    // A handler that fills the tape costs its own recording.
    assert_eq!(it.post("floods", "ticks:200000").status, 200);
    wait_until("the flood", || it.count("dropped") == 6.0);
    assert_eq!(by_id(it.folder.path()).keys().collect::<Vec<_>>(), ["again"]);
}

#[test]
fn a_neighbour_that_is_not_recorded_keeps_its_instances() {
    let folder = tempfile::tempdir().unwrap();
    let draws = |name: &str| Endpoint::new(name).guest("draws");
    let neighbour = draws("neighbour").set("record_share = 0\nenv = ['MODE=fast']");
    let record = format!("[record]\ndir = {:?}", folder.path());
    let host = Setup::of([draws("recorded"), neighbour]).tables(record).serve();
    for number in 1..=3 {
        assert_eq!(host.post("/recorded", "kept").json()["pre"][0], 1);
        assert_eq!(host.post("/neighbour", "kept").json()["pre"][0], number);
    }
    wait_until("three recordings", || files(folder.path()).len() == 3);
    assert!(files(folder.path()).iter().all(|file| file.starts_with(folder.path().join("recorded"))));
    assert!(!host.metrics().contains("modelhost_recordings_total{endpoint=\"neighbour\""));
    // Ids are the callers': one that looks like a path leads nowhere, and the same one twice is two files.
    for _ in 0..2 {
        host.request("POST", "/recorded", &[("x-request-id", "a.b-c")], b"wall");
    }
    wait_until("five recordings", || files(folder.path()).len() == 5);
}

#[test]
fn off_is_off() {
    // The folder is there, the setting is not: nothing is written anywhere.
    let folder = tempfile::tempdir().unwrap();
    let plugin = component("tests/draws");
    let mut command = serve_command(&["--name", "it", "--plugin", text(&plugin)]);
    command.current_dir(folder.path());
    let host = Host::try_start(command).unwrap();
    assert_eq!(host.post("/it", "kept").json()["pre"][0], 1);
    assert_eq!(host.post("/it", "kept").json()["pre"][0], 2);
    assert!(files(folder.path()).is_empty());
}

#[test]
fn what_cannot_be_written_as_fast_as_it_comes_is_served_and_dropped() {
    const CLIENTS: usize = 8;
    let more = [
        "--record-size",
        "2GiB",
        "--instance-memory",
        "256MiB",
        "--pre-timeout",
        "20s",
        "--post-timeout",
        "20s",
    ];
    let it = Recorded::serve("tests/draws", &more);
    let body = " ".repeat(8 << 20);
    let mut sent = 0.0;
    wait_until("a recording to be dropped", || {
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| assert_eq!(it.post("large", &body).json(), json!({"pre": [], "post": []})));
            }
        });
        sent += CLIENTS as f64;
        it.count("dropped") > 0.0
    });
    wait_until("the writer to catch up", || it.count("written") + it.count("dropped") == sent);
    assert_eq!(it.post("after", "wall").status, 200);
    wait_until("the next one", || by_id(it.folder.path()).contains_key("after"));
}
