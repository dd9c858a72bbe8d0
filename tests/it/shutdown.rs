//! How a host ends: SIGTERM loses no request, a second one is obeyed at once, and a kill leaves nothing that hinders
//! the next start.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use e2e::frames::Http2;
use e2e::load::{Load, Pattern, alone};
use e2e::wire::{self, Wire};
use e2e::{Host, component, replace, wait_until};

/// Serves the guest `files`, which sleeps as long as the body says.
fn serve(more: &[&str]) -> Host {
    let mut arguments = vec!["--name", "end", "--pre-timeout", "60s", "--request-timeout", "60s"];
    arguments.extend(more);
    Host::with(Some(&component("tests/files")), None, &arguments)
}

fn wait_for_one_in_flight(host: &Host) {
    let in_flight = || host.metric(r#"modelhost_requests_in_flight{endpoint="end"}"#);
    wait_until("the request to be in flight", || in_flight() == 1.0);
}

#[test]
fn sigterm_under_load_loses_nothing() {
    let _alone = alone();
    for round in 0..4 {
        let host = serve(&[]);
        let quick = Pattern { body: |_| "sleep:0".to_owned(), ..Pattern::new(&host.url, "/end") };
        let slow = Pattern { body: |_| "sleep:150".to_owned(), clients: 6, ..quick.clone() };
        // Idle for about as long as connections may be: they meet the end at every point of their lives.
        let seldom = Pattern { pause: Duration::from_millis(300), clients: 6, ..quick.clone() };
        let fresh = Pattern { keep: false, clients: 3, ..quick.clone() };
        let loads = [quick, slow, seldom, fresh].map(Pattern::start);
        loads[1].wait_for_more(6 * round + 1);
        host.signal("TERM");
        let (status, log) = host.wait();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.contains("every request is answered"), "{log}");
        let answers: Vec<_> = loads.into_iter().flat_map(Load::until_broken).collect();
        for answer in answers.iter().filter(|answer| !answer.was_refused()) {
            answer.ok();
        }
        // Every client has met the end: its last request found nobody listening.
        assert_eq!(answers.iter().filter(|answer| answer.was_refused()).count(), 17);
    }
}

/// As a service's own user may not do all that root may.
#[test]
fn sigterm_loses_nothing_without_privileges() {
    let _alone = alone();
    for _ in 0..10 {
        let command =
            e2e::serve_command(&["--name", "end", "--plugin", component("tests/files").to_str().unwrap()]);
        let mut unprivileged = Command::new("setpriv");
        unprivileged.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]);
        unprivileged.arg(command.get_program()).args(command.get_args());
        let host = Host::try_start(unprivileged).unwrap_or_else(|(_, log)| panic!("{log}"));
        let quick = Pattern { body: |_| "sleep:0".to_owned(), ..Pattern::new(&host.url, "/end") };
        let fresh = Pattern { keep: false, clients: 8, pause: Duration::ZERO, ..quick.clone() };
        let loads = [quick, fresh].map(Pattern::start);
        loads[1].wait_for_more(100);
        host.signal("TERM");
        let (status, log) = host.wait();
        assert_eq!(status.code(), Some(0), "{log}");
        let answers: Vec<_> = loads.into_iter().flat_map(Load::until_broken).collect();
        for answer in answers.iter().filter(|answer| !answer.was_refused()) {
            answer.ok();
        }
    }
}

#[test]
fn a_long_request_keeps_a_draining_host_alive_and_unready() {
    let host = serve(&[]);
    let (url, admin) = (host.url.clone(), host.admin.clone());
    let connect = |url| Wire::connect(url).unwrap();
    let ready = |wire: &mut Wire| {
        wire.send(&wire::get("/v2/health/ready")).unwrap();
        let reply = wire.read().unwrap();
        (reply.status, reply.json()["ready"].as_bool())
    };
    let mut long = connect(&url);
    long.send(&wire::post("/end", &[], "sleep:2500")).unwrap();
    wait_for_one_in_flight(&host);
    // Its head has arrived, so it is accepted, though its body comes only while the host drains.
    let request = wire::post("/end", &[], "sleep:1");
    let mut late_body = connect(&url);
    late_body.send(&request[..request.len() - 1]).unwrap();
    let mut kept = connect(&url);
    assert_eq!(ready(&mut kept), (200, Some(true)));

    host.signal("TERM");
    // Whoever watches the host asks the admin listener, on a new connection, and is told until the end.
    wait_until("the host to be unready", || ready(&mut connect(&admin)) == (503, Some(false)));
    assert_eq!(ready(&mut kept), (503, Some(false)), "a connection from before, on the main listener");
    wait_until("the main listener to close", || Wire::connect(&url).is_err());
    late_body.send(&request[request.len() - 1..]).unwrap();
    let reply = late_body.read().unwrap();
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")), "{}", reply.text());
    assert_eq!(ready(&mut connect(&admin)), (503, Some(false)), "still, with a request in flight");
    assert!(host.metric(r#"modelhost_requests_in_flight{endpoint="end"}"#) == 1.0);

    assert_eq!(long.read().unwrap().status, 200);
    let (status, log) = host.wait();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn idle_connections_do_not_hold_the_end_up() {
    let host = serve(&[]);
    let mut idle: Vec<Wire> = (0..40).map(|_| Wire::connect(&host.url).unwrap()).collect();
    for wire in &mut idle[..20] {
        wire.send(&wire::post("/end", &[], "sleep:0")).unwrap();
        assert_eq!(wire.read().unwrap().status, 200);
    }
    let _admin = Wire::connect(&host.admin).unwrap();
    // It reads nothing, and so never says that it knows of the end.
    let _deaf = Http2::begin(Wire::connect(&host.url).unwrap()).unwrap();
    let started = Instant::now();
    host.signal("TERM");
    let (status, log) = host.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("every request is answered"), "{log}");
    // A second is what silent connections are given, and five more those of HTTP/2; to a ping it would have
    // owed an answer for twenty.
    assert!(started.elapsed() < Duration::from_secs(14), "took {:?}", started.elapsed());
}

#[test]
fn a_head_that_never_ends_does_not_hold_the_end_up() {
    let host = serve(&["--header-timeout", "1s"]);
    let mut half = Wire::connect(&host.url).unwrap();
    half.send(b"GET / HT").unwrap();
    host.signal("TERM");
    let (status, log) = host.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("every request is answered"), "{log}");
}

/// Whatever holds a request up, the drain ends in time, and says that it lost something: by its log and its status.
#[test]
fn the_drain_timeout_is_kept() {
    for (guest, body) in [("tests/slow", "20000"), ("tests/files", "sleep:20000")] {
        let arguments =
            ["--name", "end", "--concurrency", "1", "--pre-timeout", "60s", "--drain-timeout", "1s"];
        let host = Host::with(Some(&component(guest)), None, &arguments);
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(&wire::post("/end", &[], body)).unwrap();
        wait_for_one_in_flight(&host);
        let mut waiting = Wire::connect(&host.url).unwrap();
        waiting.send(&wire::post("/end", &[], "0")).unwrap();
        let queued = || host.metric(r#"modelhost_requests_queued{endpoint="end"}"#);
        wait_until("another to wait", || queued() == 1.0);
        let started = Instant::now();
        host.signal("TERM");
        let (status, log) = host.wait();
        let took = started.elapsed();
        assert!((Duration::from_secs(1)..Duration::from_secs(6)).contains(&took), "{guest}: took {took:?}");
        assert!(log.contains("requests unanswered"), "{log}");
        // `host --help`: 0 is for a host that has answered every request that it accepted.
        assert_eq!(status.code(), Some(1), "{guest}: {log}");
        // Even what had begun is told so: the handler is stopped.
        wire.read().unwrap().error(503, "shutting_down", "pre_inference");
        // Whatever had not begun by then is told so, and may go elsewhere.
        let reply = waiting.read().unwrap();
        reply.error(503, "shutting_down", "admit");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
}

#[test]
fn a_doubled_signal_means_the_same_and_another_ctrl_c_ends_it_at_once() {
    for signal in ["TERM", "INT"] {
        let host = serve(&[]);
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(&wire::post("/end", &[], "sleep:30000")).unwrap();
        wait_for_one_in_flight(&host);
        let started = Instant::now();
        // As wrappers do that signal the process and then its group.
        for signal in [signal, signal, "TERM"] {
            host.signal(signal);
        }
        host.wait_for_log("stopping");
        assert!(!host.log().contains("at once"), "{}", host.log());
        // As a person does who has waited long enough.
        wait_until("another Ctrl-C to end it", || {
            if started.elapsed() > Duration::from_millis(1500) && !host.log().contains("at once") {
                host.signal("INT");
            }
            host.log().contains("at once")
        });
        let (status, log) = host.wait();
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(started.elapsed() < Duration::from_secs(10), "took {:?}", started.elapsed());
    }
}

/// Copies of a project with this marker in it, wherever hosts keep them.
fn copies(marker: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(std::env::temp_dir()).unwrap().flatten().map(|entry| entry.path());
    folders
        .filter(|folder| {
            folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("modelhost-project-"))
        })
        .filter(|folder| folder.join(marker).exists())
        .collect()
}

#[test]
fn a_killed_host_leaves_nothing_that_hinders_the_next() {
    let (project, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let marker = format!("marker-{}", std::process::id());
    fs::write(project.path().join(&marker), "here").unwrap();
    let arguments =
        ["--project", project.path().to_str().unwrap(), "--cache-dir", cache.path().to_str().unwrap()];
    let read = format!("/mnt/project/{marker}");
    let mut left_behind = Vec::new();
    for _ in 0..3 {
        let host = serve(&arguments);
        assert_eq!(host.post("/end", &read).json()["ok"], "here");
        let load = Pattern { body: |_| "sleep:5".to_owned(), ..Pattern::new(&host.url, "/end") }.start();
        load.wait_for_more(20);
        host.signal("KILL");
        host.wait();
        load.stop();
        left_behind = copies(&marker);
    }
    assert!(!left_behind.is_empty(), "a killed host cannot tidy up");

    // A power cut may do worse than a kill: every compiled handler in the cache is cut short.
    let mut folders = vec![cache.path().to_owned()];
    let mut cut = 0;
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "code") {
                let code = fs::read(&path).unwrap();
                replace(&path, &code[..code.len() / 2]);
                cut += 1;
            }
        }
    }
    assert!(cut > 0, "nothing was cached");
    // A copy counts as left behind once it is a minute old.
    for copy in &left_behind {
        let long_ago = SystemTime::now() - Duration::from_secs(120);
        File::open(copy).unwrap().set_modified(long_ago).unwrap();
    }
    let host = serve(&arguments);
    assert_eq!(host.post("/end", &read).json()["ok"], "here");
    wait_until("the copies to be removed", || left_behind.iter().all(|copy| !copy.exists()));
    assert_eq!(copies(&marker).len(), 1, "its own copy is still there");
    host.signal("TERM");
    let (status, log) = host.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert_eq!(copies(&marker), Vec::<PathBuf>::new(), "a host that ends in order leaves nothing");
}
