//! Jobs in a Redis: run by any of several hosts, past the end of one, past the end of Redis.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use e2e::redis::Redis;
use e2e::tls::Pair;
use e2e::{Host, serve_command};

use super::*;
use crate::webhooks::{OK, Receiver};

/// The longest that a call takes, with a store that is lost or hung.
const PROMPT: Duration = Duration::from_secs(5);

fn shared(redis: &Redis, endpoints: impl IntoIterator<Item = Endpoint>) -> Setup {
    Setup::of(endpoints).tables(format!("[jobs]\nstore = {:?}\ntimeout = '1s'", redis.url()))
}

fn attempts(host: &Host, outcome: &str) -> f64 {
    host.metric(&format!("modelhost_job_attempts_total{{endpoint=\"it\",outcome=\"{outcome}\"}}"))
}

fn completed(host: &Host) -> f64 {
    attempts(host, "completed")
}

/// Waits until all of these are completed, as every host sees it.
fn all_completed(hosts: &[Host], ids: &[String]) -> Vec<Value> {
    let of = |(number, id): (usize, &String)| until(&hosts[number % hosts.len()], "it", id, "completed");
    ids.iter().enumerate().map(of).collect()
}

#[test]
fn three_hosts_run_the_jobs_of_each_and_answer_for_all() {
    let redis = Redis::start(&[]);
    let setup = shared(&redis, [worker("it").limits("job_attempts = 3"), worker("other")]);
    let hosts = [setup.serve(), setup.serve(), setup.serve()];
    let ids: Vec<String> =
        (0..200).map(|number| submit(&hosts[number % 3], "/it/jobs", &[], "sleep:20")).collect();
    for job in all_completed(&hosts, &ids) {
        assert_eq!(job["attempt"], 1, "each was run once: {job}");
    }
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(result(&hosts[(number + 1) % 3], "it", id).json(), json!({"ok": null}));
    }
    let counts = hosts.each_ref().map(completed);
    assert!(counts.iter().sum::<f64>() == 200.0 && counts.iter().all(|count| *count > 0.0), "{counts:?}");

    // One key is one job, a list has the jobs of all, a priority is one among all.
    let keyed = |host: &Host, body: &str| {
        host.request("POST", "/it/jobs", &[("idempotency-key", "k")], body.as_bytes())
    };
    let first = keyed(&hosts[0], "sleep:1").json()["id"].clone();
    assert_eq!(keyed(&hosts[1], "sleep:1").json()["id"], first);
    keyed(&hosts[2], "sleep:2").error(409, "idempotency_conflict", "admit");
    let mut listed = Vec::new();
    let mut after = String::new();
    loop {
        let page = hosts[listed.len() % 3].get(&format!("/it/jobs?limit=77{after}")).json();
        listed.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(listed.len(), 201);
    assert_eq!(hosts[0].get("/other/jobs").json(), json!({"jobs": [], "next": null}));

    // What one host runs another one cancels.
    let running = submit(&hosts[0], "/it/jobs", &[], "sleep:50000");
    until(&hosts[1], "it", &running, "running");
    for host in &hosts {
        let reply = host.request("DELETE", &format!("/it/jobs/{running}"), &[], b"");
        assert_eq!(reply.json()["state"], "cancelled");
    }
    wait_until("the run to be stopped", || hosts.iter().any(|host| attempts(host, "cancelled") == 1.0));
    for (state, expected) in [("queued", 0.0), ("running", 0.0)] {
        let series = format!("modelhost_jobs{{endpoint=\"it\",state=\"{state}\"}}");
        wait_until("the numbers to be those of all", || {
            hosts.iter().all(|it| it.metric(&series) == expected)
        });
    }
}

#[test]
fn the_end_of_a_host_is_noticed_and_its_jobs_are_taken_over() {
    let redis = Redis::start(&[]);
    let setup = shared(&redis, [worker("it")]);
    let mut hosts = vec![setup.serve(), setup.serve(), setup.serve()];
    let ids: Vec<String> =
        (0..60).map(|number| submit(&hosts[number % 3], "/it/jobs", &[], "sleep:1500")).collect();
    wait_until("the first host to be at its jobs", || completed(&hosts[0]) > 0.0);
    hosts.remove(0).signal("KILL");
    let begun = Instant::now();
    let jobs = all_completed(&hosts, &ids);
    let again = jobs.iter().filter(|job| job["attempt"] == 2).count();
    assert!((1..=4).contains(&again), "{again} jobs were run again: those that the host was at");
    assert!(begun.elapsed() >= Duration::from_secs(5), "they were its own until its lease ended");
}

#[test]
fn a_host_that_stops_gives_its_jobs_back() {
    let redis = Redis::start(&[]);
    let setup = shared(&redis, [worker("it")]).arguments(&["--drain-timeout", "100ms"]);
    let hosts = [setup.serve(), setup.serve()];
    let ids: Vec<String> = (0..8).map(|_| submit(&hosts[0], "/it/jobs", &[], "sleep:2500")).collect();
    wait_until("all to run", || hosts[0].metric("modelhost_jobs{endpoint=\"it\",state=\"running\"}") == 8.0);
    let [first, second] = hosts;
    first.signal("TERM");
    let (status, log) = first.wait();
    assert!(status.success(), "{log}");
    for job in all_completed(&[second], &ids) {
        assert_eq!((&job["attempt"], &job["error"]), (&json!(1), &Value::Null), "it does not count");
    }
}

/// Redis is killed while jobs are submitted and run: what was acknowledged is there when it is back, and run.
#[test]
fn a_redis_that_is_killed_loses_nothing_that_was_acknowledged() {
    let mut redis = Redis::start(&[]);
    let setup =
        shared(&redis, [worker("it").limits("job_attempts = 20"), Endpoint::new("echo").guest("echo")]);
    let hosts = [setup.serve(), setup.serve()];
    let load = Pattern::new(&hosts[0].url, "/echo").start();
    let acknowledged = Mutex::new(Vec::new());
    let long = submit(&hosts[0], "/it/jobs", &[], "sleep:7000");
    until(&hosts[0], "it", &long, "running");
    for _ in 0..2 {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for writer in 0..6 {
                let (host, is_over, acknowledged) = (&hosts[writer % 2], &is_over, &acknowledged);
                scope.spawn(move || {
                    while !is_over.load(Ordering::SeqCst) {
                        let begun = Instant::now();
                        let reply = host.post("/it/jobs", "sleep:5");
                        assert!(begun.elapsed() < PROMPT, "a submission hung");
                        if reply.status == 202 {
                            let id = reply.json()["id"].as_str().unwrap().to_owned();
                            acknowledged.lock().unwrap().push(id);
                        } else {
                            reply.error(503, "jobs_unavailable", "admit");
                            is_over.store(true, Ordering::SeqCst);
                        }
                    }
                });
            }
            let before = acknowledged.lock().unwrap().len();
            wait_until("jobs to be acknowledged", || acknowledged.lock().unwrap().len() > before + 40);
            redis.kill();
        });
        let up = "modelhost_jobs_store_up{endpoint=\"it\"}";
        for host in &hosts {
            wait_until("the loss to be seen", || host.metric(up) == 0.0);
            host.post("/it/jobs", "sleep:1").error(503, "jobs_unavailable", "admit");
            host.get("/it/jobs").error(503, "jobs_unavailable", "admit");
            assert_eq!(host.post("/it", "sleep:1").status, 200, "a request needs no store of jobs");
        }
        redis.restart();
        for host in &hosts {
            wait_until("jobs to be taken again", || host.post("/it/jobs", "sleep:1").status == 202);
        }
    }
    let ids = acknowledged.into_inner().unwrap();
    all_completed(&hosts, &ids);
    assert_eq!(until(&hosts[1], "it", &long, "completed")["attempt"], 1, "it is still its host's");
    assert_echoed(&load.stop(), PROMPT);
    hosts[0].wait_for_log("the store of jobs cannot be used");
    hosts[0].wait_for_log("the store of jobs can be used again");
}

#[test]
fn a_redis_that_hangs_costs_a_submission_its_time_and_a_neighbour_nothing() {
    let redis = Redis::start(&[]);
    let host = shared(&redis, [worker("it"), Endpoint::new("echo").guest("echo")]).serve();
    let running = submit(&host, "/it/jobs", &[], "sleep:3000");
    until(&host, "it", &running, "running");
    let load = Pattern::new(&host.url, "/echo").start();
    redis.signal("STOP");
    let begun = Instant::now();
    host.post("/it/jobs", "sleep:1").error(503, "jobs_unavailable", "admit");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let begun = Instant::now();
                host.post("/it/jobs", "sleep:1").error(503, "jobs_unavailable", "admit");
                assert!(begun.elapsed() < PROMPT);
            });
        }
    });
    let begun = Instant::now();
    assert_eq!(host.post("/it", "sleep:1").status, 200, "a request of the same endpoint");
    assert!(begun.elapsed() < PROMPT);
    redis.signal("CONT");
    wait_until("jobs to be taken again", || host.post("/it/jobs", "sleep:1").status == 202);
    assert_eq!(until(&host, "it", &running, "completed")["attempt"], 1);
    assert_echoed(&load.stop(), PROMPT);
}

#[test]
fn batches_and_webhooks_are_those_of_all_hosts() {
    let redis = Redis::start(&[]);
    let receiver = Receiver::start(&[OK]);
    let it = worker("it").set(format!("allow_outbound = [{:?}]", receiver.url));
    let setup = shared(&redis, [it, Endpoint::new("echo").guest("echo").set("jobs = 'batch'")]);
    let hosts = [setup.serve(), setup.serve()];
    let items: Vec<u32> = (0..60).collect();
    let list = json!({"workers": 1, "item_list": {"items": items, "batch_size": 2}}).to_string();
    let start = |host: &Host| host.post("/echo", &list).json()["job_id"].as_str().unwrap().to_owned();
    let status = |host: &Host, id: &str| {
        host.get(&format!("/echo?jobID={id}")).json()["job_status"]["status"].as_str().unwrap().to_owned()
    };
    let id = start(&hosts[0]);
    wait_until("the batch to succeed", || status(&hosts[1], &id) == "succeeded");
    let page = hosts[1].get(&format!("/echo/jobs?batch={id}&state=completed")).json();
    assert_eq!(page["jobs"].as_array().unwrap().len(), 30);

    let mut ids: Vec<String> = (0..40)
        .map(|number| {
            let headers = [("x-modelhost-job-webhook", &*receiver.url)];
            submit(&hosts[number % 2], "/it/jobs", &headers, "sleep:1")
        })
        .collect();
    all_completed(&hosts, &ids);
    wait_until("all messages to be delivered", || {
        hosts[0].get("/it/jobs?webhook=delivered").json()["jobs"].as_array().unwrap().len() == 40
    });
    let mut told: Vec<String> =
        receiver.seen().iter().map(|request| request.header("webhook-id").to_owned()).collect();
    told.sort();
    ids.sort();
    assert_eq!(told, ids, "one message for each job");
}

#[test]
fn a_redis_without_a_log_is_warned_of_and_one_that_is_not_there_refuses_the_start() {
    let redis = Redis::start(&["--appendonly", "no"]);
    let host = shared(&redis, [Endpoint::new("it").guest("hostile").set("jobs = 'on'")]).serve();
    host.wait_for_log("Redis writes no append-only file");
    let id = submit(&host, "/it/jobs", &[("x-modelhost-job-attempts", "1")], "panic");
    until(&host, "it", &id, "failed");
    let lines = |text: &str| host.log().lines().filter(|line| line.contains(text)).count();
    let why = format!("is not tried again: plugin_trap: the handler crashed endpoint=\"it\" job.id=\"{id}\"");
    // Redis knows it a moment before the host does.
    host.wait_for_log(&why);
    assert_eq!((lines("append-only file"), lines(&why)), (1, 1), "{}", host.log());
    let ended = "modelhost_jobs_ended_total{endpoint=\"it\",outcome=\"failed\"}";
    wait_until("the end to be counted", || host.metric(ended) == 1.0);
    let url = redis.url();
    drop(redis);
    let plugin = e2e::component("tests/files").display().to_string();
    let arguments = ["--plugin", &plugin, "--jobs", "on", "--jobs-store", &url];
    let (status, log) = Host::try_serve(&arguments).err().unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("no connection: Connection refused") && log.contains("hint: "), "{log}");
}

/// The handler of one host fails, so that its breaker opens: another host runs the jobs, without delay.
#[test]
fn a_host_whose_breaker_is_open_leaves_jobs_to_others() {
    let redis = Redis::start(&[]);
    let broken = Endpoint::new("it")
        .guest("hostile")
        .set("jobs = 'on'")
        .set("breaker = { faults = 0.5, min = 4, window = '1m', pause = '10m' }");
    let (broken, well) = (shared(&redis, [broken]).serve(), shared(&redis, [worker("it")]).serve());
    wait_until("the breaker to be open", || {
        broken.post("/it", "panic");
        broken.metric("modelhost_plugin_breaker_open{endpoint=\"it\"}") == 1.0
    });
    let begun = Instant::now();
    let ids: Vec<String> = (0..20).map(|_| submit(&broken, "/it/jobs", &[], "sleep:5")).collect();
    for id in &ids {
        let job = until(&well, "it", id, "completed");
        assert_eq!((&job["attempt"], &job["due"]), (&json!(1), &Value::Null));
    }
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(completed(&well), 20.0);
    assert_eq!(completed(&broken) + attempts(&broken, "failed"), 0.0, "it has taken none");
}

#[test]
fn tls_users_and_passwords_are_as_the_configuration_says() {
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::in_folder(folder.path());
    let (certificate, key) = (pair.certificate.to_str().unwrap(), pair.key.to_str().unwrap());
    let tls = ["--tls-port", "PORT", "--tls-cert-file", certificate, "--tls-key-file", key];
    let rules = ["~fleet:*", "+@read", "+@write", "+@scripting", "+@connection", "+time", "+info"];
    let user = ["--tls-auth-clients", "no", "--user", "me", "on", ">hush-hush"];
    let redis = Redis::start(&[&tls[..], &user, &rules].concat());
    let config = folder.path().join("host.toml");
    let store = format!(
        "[jobs]\nprefix = 'fleet'\npassword = 'env:REDIS_PASSWORD'\nstore = 'rediss://me@localhost:{}/0'",
        redis.port
    );
    std::fs::write(&config, Setup::of([worker("it")]).tables(store).text()).unwrap();
    let start = |trusted: &str, password: &str| {
        let mut command = serve_command(&["--config", config.to_str().unwrap()]);
        command.env("SSL_CERT_FILE", trusted).env("REDIS_PASSWORD", password);
        Host::try_start(command)
    };
    let host = start(certificate, "hush-hush").unwrap_or_else(|(_, log)| panic!("{log}"));
    let id = submit(&host, "/it/jobs", &[], "sleep:5");
    until(&host, "it", &id, "completed");
    assert_eq!(result(&host, "it", &id).json(), json!({"ok": null}));
    // Beats, batches and cancelling need no more than these rules.
    let delayed = submit(&host, "/it/jobs", &[("x-modelhost-job-delay", "1h")], "sleep:5");
    assert_eq!(host.request("DELETE", &format!("/it/jobs/{delayed}"), &[], b"").json()["state"], "cancelled");
    wait_until("a beat", || host.metric("modelhost_jobs{endpoint=\"it\",state=\"queued\"}") == 0.0);
    assert!(!host.log().contains("hush") && !host.log().contains("cannot be used"), "{}", host.log());
    drop(host);
    let other = tempfile::tempdir().unwrap();
    let other = Pair::in_folder(other.path());
    for (trusted, password, expected) in [
        (certificate, "wrong-hush", "it refuses user or password"),
        (other.certificate.to_str().unwrap(), "hush-hush", "no TLS: "),
    ] {
        let (status, log) = start(trusted, password).err().unwrap();
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(expected) && log.contains("hint: ") && !log.contains("hush"), "{log}");
    }
}
