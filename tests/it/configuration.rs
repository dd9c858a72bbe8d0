//! Another configuration while serving: by the watch of its files, by order on the admin address, from a shell. What SIGHUP does is in
//! registry.rs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use e2e::load::Pattern;
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, component, host_binary, request, wait_until};
use serde_json::{Value, json};

/// An endpoint that signs with `letter`.
fn endpoint(name: &str, letter: &str) -> Endpoint {
    Endpoint::new(name).guest(&format!("version_{letter}"))
}

fn text(endpoints: impl IntoIterator<Item = Endpoint>) -> String {
    Setup::of(endpoints).text().to_owned()
}

fn signature(host: &Host, path: &str) -> Option<String> {
    let reply = host.post(path, "{}");
    (reply.status == 200).then(|| reply.json()["pre"].as_str().unwrap().to_owned())
}

fn serves(host: &Host, path: &str, letter: Option<&str>) {
    wait_until(&format!("{path} to be {letter:?}"), || signature(host, path).as_deref() == letter);
}

/// A server whose admin address has alice's key.
fn with_key(folder: &Path, file: &Path) -> Host {
    let keys = folder.join("admin.key");
    fs::write(&keys, "# alice\nalices-key\n").unwrap();
    Host::serve(&["--config", file.to_str().unwrap(), "--admin-key", &format!("@{}", keys.display())])
}

const KEY: (&str, &str) = ("authorization", "Bearer alices-key");

fn order(host: &Host, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let url = format!("{}/admin/v1/config{path}", host.admin);
    request(method, &url, &[&[KEY], headers].concat(), body.as_bytes())
}

fn reloads(host: &Host, outcome: &str) -> f64 {
    host.metric(&format!("modelhost_config_reloads_total{{outcome=\"{outcome}\"}}"))
}

/// The folder of a ConfigMap's volume: kubelet writes another folder and renames the link to it.
fn switch(folder: &Path, version: &str, text: &str) {
    let data = folder.join(format!("..{version}"));
    fs::create_dir(&data).unwrap();
    fs::write(data.join("modelhost.toml"), text).unwrap();
    let next = folder.join("..data_tmp");
    symlink(format!("..{version}"), &next).unwrap();
    fs::rename(next, folder.join("..data")).unwrap();
}

#[test]
fn files_are_followed_through_links_and_in_their_folder_and_no_request_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (file, further) = (folder.path().join("modelhost.toml"), folder.path().join("conf.d"));
    switch(folder.path(), "1", &text([endpoint("stays", "a"), endpoint("goes", "a")]));
    symlink("..data/modelhost.toml", &file).unwrap();
    fs::create_dir(&further).unwrap();
    fs::write(further.join("20-more.toml"), text([endpoint("more", "a")])).unwrap();
    fs::write(further.join("README"), "no configuration").unwrap();
    let host = Host::serve(&["--config", file.to_str().unwrap(), "--watch-config"]);
    assert_eq!(signature(&host, "/more").as_deref(), Some("a"));
    let load = Pattern::new(&host.url, "/stays").start();
    load.wait_for_more(20);

    switch(folder.path(), "2", &text([endpoint("stays", "a"), endpoint("comes", "b")]));
    serves(&host, "/comes", Some("b"));
    serves(&host, "/goes", None);
    fs::write(further.join("20-more.toml"), text([endpoint("more", "b")])).unwrap();
    serves(&host, "/more", Some("b"));
    fs::write(further.join("10-early.toml"), text([endpoint("early", "a")])).unwrap();
    serves(&host, "/early", Some("a"));
    fs::remove_file(further.join("20-more.toml")).unwrap();
    serves(&host, "/more", None);

    load.wait_for_more(20);
    assert!(load.stop().iter().all(|answer| answer.ok().json()["pre"] == "a"));
    assert_eq!(host.metric(r#"modelhost_plugin_generation{endpoint="stays"}"#), 1.0, "it is not touched");
    assert_eq!((reloads(&host, "applied"), reloads(&host, "refused")), (4.0, 0.0));
}

#[test]
fn a_file_that_is_wrong_changes_nothing_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let (file, further) = (folder.path().join("modelhost.toml"), folder.path().join("conf.d"));
    fs::create_dir(&further).unwrap();
    fs::write(&file, text([endpoint("stays", "a")])).unwrap();
    let host = Host::serve(&["--config", file.to_str().unwrap(), "--watch-config"]);
    let success = host.metric("modelhost_config_last_reload_success_timestamp_seconds");
    let last = || request("GET", &format!("{}/admin/v1/config", host.admin), &[], b"").json();
    let digest = last()["digest"].clone();
    for (n, (wrong, says)) in [
        (
            "[[endpoint]]\nname = 'other'\nplugni = 'x.wasm'\n",
            "more.toml:3: `endpoint.plugni`: unknown key; hint: did you mean",
        ),
        ("[[endpoint]\n", "more.toml:1: "),
        (
            "[[endpoint]]\nname = 'stays'\nplugin = '../x.wasm'\n",
            "another endpoint has the name `stays` too; hint: ",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(further.join("more.toml"), wrong).unwrap();
        wait_until("the refusal", || reloads(&host, "refused") == (n + 1) as f64);
        let last = last();
        let attempt = &last["last_reload"];
        assert_eq!((&attempt["outcome"], &attempt["origin"]), (&json!("refused"), &json!("watch")), "{last}");
        assert!(attempt["error"].as_str().unwrap().contains(says), "{attempt}");
        assert_eq!((attempt["step"].as_str(), &last["digest"]), (Some("config"), &digest));
        assert_eq!(signature(&host, "/stays").as_deref(), Some("a"));
    }
    assert_eq!(host.metric("modelhost_config_last_reload_successful"), 0.0);
    fs::write(further.join("more.toml"), text([endpoint("more", "b")])).unwrap();
    serves(&host, "/more", Some("b"));
    wait_until("the success", || host.metric("modelhost_config_last_reload_successful") == 1.0);
    assert!(host.metric("modelhost_config_last_reload_success_timestamp_seconds") > success);
    assert_eq!(last()["last_reload"]["added"], json!(["more"]));
}

#[test]
fn a_configuration_is_planned_applied_and_kept_by_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modelhost.toml");
    fs::write(&file, text([endpoint("stays", "a"), endpoint("changes", "a"), endpoint("goes", "a")]))
        .unwrap();
    let host = with_key(folder.path(), &file);
    let next = Setup::of([
        endpoint("stays", "a"),
        endpoint("changes", "b").limits("queue = 3"),
        endpoint("comes", "a"),
    ])
    .tables("[server]\ndocs = false");
    let next = next.text();
    let expected = |outcome: &str, attempt: &Value| {
        let changed = json!([{"endpoint": "changes", "settings": ["limits.queue", "plugin"]}]);
        for (key, value) in [
            ("outcome", json!(outcome)),
            ("added", json!(["comes"])),
            ("changed", changed),
            ("removed", json!(["goes"])),
            ("restart", json!(["server.docs"])),
            ("by", json!("admin.key:2")),
        ] {
            assert_eq!(attempt[key], value, "{key}: {attempt}");
        }
    };
    let before = order(&host, "GET", "", &[], "");
    let tag = before.header("etag").unwrap().to_owned();
    let planned = order(&host, "PUT", "?dry_run=true", &[], next);
    expected("planned", &planned.json());
    assert_eq!(signature(&host, "/comes"), None);
    assert_eq!(order(&host, "GET", "", &[], "").json(), before.json(), "a plan is no attempt");

    let load = Pattern::new(&host.url, "/stays").start();
    load.wait_for_more(20);
    let applied = order(&host, "PUT", "?persist=true&note=more", &[("if-match", &tag)], next);
    assert_eq!(applied.status, 200, "{}", applied.text());
    expected("applied", &applied.json());
    assert_eq!(applied.header("etag"), planned.header("etag"));
    assert_eq!(signature(&host, "/changes").as_deref(), Some("b"));
    assert_eq!((signature(&host, "/goes"), signature(&host, "/comes").as_deref()), (None, Some("a")));
    assert_eq!(fs::read_to_string(&file).unwrap(), next);
    load.wait_for_more(20);
    assert!(load.stop().iter().all(|answer| answer.ok().status == 200));

    // On the condition of what was served before, and twice.
    let stale = order(&host, "PUT", "", &[("if-match", &tag)], next);
    assert_eq!((stale.status, &stale.json()["code"]), (412, &json!("precondition_failed")));
    assert_eq!(order(&host, "PUT", "", &[], next).json()["outcome"], "unchanged");
    assert_eq!(order(&host, "POST", "/reload", &[], "").json()["outcome"], "unchanged");
    // What it is not.
    let wrong = order(&host, "PUT", "", &[], &format!("{next}[[endpoint]]\nnaem = 1\n"));
    assert_eq!((wrong.status, &wrong.json()["step"]), (409, &json!("config")), "{}", wrong.text());
    assert!(wrong.text().contains("`endpoint.naem`: unknown key; hint: did you mean"), "{}", wrong.text());
    for (path, status) in [("?dry_run=maybe", 400), ("?model=x", 400)] {
        assert_eq!(order(&host, "PUT", path, &[], next).status, status, "{path}");
    }
    let url = format!("{}/admin/v1/config", host.admin);
    assert_eq!(request("PUT", &url, &[], next.as_bytes()).status, 401);
    assert_eq!(request("PUT", &url, &[KEY, ("origin", "http://evil.example")], next.as_bytes()).status, 403);
    let huge = vec![b'#'; (16 << 20) + 1];
    assert_eq!(request("PUT", &url, &[KEY], &huge).status, 413);
    assert_eq!(signature(&host, "/comes").as_deref(), Some("a"), "all that changed nothing");
}

/// A text may grant a handler every file that the server may read; an order to read its own files grants nothing new.
#[test]
fn a_text_is_taken_with_a_key_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modelhost.toml");
    fs::write(&file, text([endpoint("it", "a")])).unwrap();
    let host = Host::serve(&["--config", file.to_str().unwrap()]);
    let other = text([endpoint("it", "b")]);
    let refused = request("PUT", &format!("{}/admin/v1/config", host.admin), &[], other.as_bytes());
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("forbidden")));
    assert!(refused.json()["error"].as_str().unwrap().contains("hint: start the server with `--admin-key`"));
    fs::write(&file, other).unwrap();
    let url = format!("{}/admin/v1/config/reload", host.admin);
    assert_eq!(request("POST", &url, &[], b"").json()["outcome"], "applied");
    assert_eq!(signature(&host, "/it").as_deref(), Some("b"));
}

#[test]
fn a_shell_shows_the_plan_and_applies_it() {
    let folder = tempfile::tempdir().unwrap();
    let (file, next) = (folder.path().join("modelhost.toml"), folder.path().join("next.toml"));
    fs::write(&file, text([endpoint("stays", "a"), endpoint("goes", "a")])).unwrap();
    fs::write(&next, text([endpoint("stays", "b"), endpoint("comes", "a")])).unwrap();
    let host = with_key(folder.path(), &file);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(host_binary());
        command
            .args(arguments)
            .env("MODELHOST_ADMIN_KEY", format!("@{}", folder.path().join("admin.key").display()));
        let output = command.output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code().unwrap(), out, err)
    };
    let (file, next) = (file.to_str().unwrap(), next.to_str().unwrap());
    let plan = "added    comes\nchanged  stays: plugin\nremoved  goes\n";
    assert_eq!(run(&["diff-config", file, next]), (1, plan.to_owned(), String::new()));
    assert_eq!(run(&["diff-config", file, file]).1, "nothing changes\n");
    let admin = ["--admin", host.admin.as_str()];
    let apply = |more: &[&str]| run(&[&["apply"], more, &admin[..]].concat());
    assert_eq!(apply(&[next, "--dry-run"]), (0, plan.to_owned(), String::new()));
    assert_eq!(signature(&host, "/goes").as_deref(), Some("a"));
    let (status, out, err) = apply(&[next]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.starts_with(&format!("{plan}applied in ")), "{out}");
    assert_eq!(signature(&host, "/stays").as_deref(), Some("b"));
    // Back to what its file says.
    let (status, out, _) = apply(&[]);
    assert!(status == 0 && out.starts_with("added    goes\n"), "{out}");
    assert_eq!(signature(&host, "/stays").as_deref(), Some("a"));
    fs::write(next, "[[endpoint]]\nnaem = 1\n").unwrap();
    let (status, _, err) = apply(&[next]);
    assert!(status == 1 && err.contains("unknown key") && err.contains("hint: "), "{err}");
    assert_eq!(run(&["diff-config", file, next]).0, 2);
}

#[test]
fn who_ordered_a_swap_stands_in_the_history_which_outlives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (file, cache) = (folder.path().join("modelhost.toml"), folder.path().join("cache"));
    fs::write(&file, format!("{}[plugin]\ncache_dir = {cache:?}\n", text([endpoint("it", "a")]))).unwrap();
    let host = with_key(folder.path(), &file);
    let another = fs::read(component("tests/version_b")).unwrap();
    let swap = format!("{}/admin/v1/endpoints/it/plugin?note=try", host.admin);
    assert_eq!(request("PUT", &swap, &[KEY], &another).status, 200);
    assert_eq!(request("PUT", &swap, &[KEY], b"no component").status, 409);
    let history = |host: &Host| {
        let url = format!("{}/admin/v1/endpoints/it", host.admin);
        let history = request("GET", &url, &[KEY], b"").json()["history"].take();
        let row = |it: &Value| {
            [&it["origin"], &it["outcome"], &it["by"]]
                .map(|it| it.as_str().unwrap_or("-").to_owned())
                .join(" ")
        };
        history.as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    let first = ["admin refused admin.key:2", "admin published admin.key:2", "start published -"];
    assert_eq!(history(&host), first);
    let is_kept = || {
        let mut kept = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
        let page = kept.find(|path| path.extension().is_some_and(|kind| kind == "history"));
        page.is_some_and(|page| fs::read_to_string(page).unwrap().contains("refused"))
    };
    wait_until("the history to be written", is_kept);
    drop(host);
    let host = with_key(folder.path(), &file);
    assert_eq!(history(&host), [&["start published -"][..], &first].concat());
}

/// Names come, change and go; a neighbour's clients, and those of each endpoint that serves, lose nothing.
#[test]
fn no_request_is_lost_while_many_endpoints_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modelhost.toml");
    let round = |n: usize| {
        let letter = if n.is_multiple_of(2) { "a" } else { "b" };
        let others = (n..n + 20).map(move |at| endpoint(&format!("e{at}"), letter));
        text([endpoint("stays", "a"), endpoint("changes", letter)].into_iter().chain(others))
    };
    fs::write(&file, round(0)).unwrap();
    let host = with_key(folder.path(), &file);
    let loads = ["/stays", "/changes"].map(|path| Pattern::new(&host.url, path).start());
    for n in 1..=25 {
        let applied = order(&host, "PUT", "", &[], &round(n));
        assert_eq!(applied.json()["outcome"], "applied", "{}", applied.text());
        assert_eq!(
            (signature(&host, &format!("/e{}", n + 19)).is_some(), signature(&host, &format!("/e{}", n - 1))),
            (true, None)
        );
        loads.iter().for_each(|load| load.wait_for_more(2));
    }
    for load in loads {
        let answers = load.stop();
        assert!(answers.len() > 50 && answers.iter().all(|answer| answer.ok().status == 200));
    }
    let attempts = order(&host, "GET", "", &[], "").json()["history"].take();
    assert_eq!(attempts.as_array().unwrap().len(), 25);
}
