//! The stores by themselves, in a file and in a Redis: order, states, numbers, recovery.

use super::*;
use crate::jobs::record::{now, pause};
use crate::stores::test_server::Server;

mod cluster;
mod stops;

const QUOTA: Quota = Quota { queue: 100, bytes: 1 << 20 };

/// A store and what it is in.
struct Opened {
    store: JobStore,
    _folder: tempfile::TempDir,
    server: Option<Server>,
}

/// One of each kind.
async fn all() -> [Opened; 2] {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start());
    let file = in_file(&folder.path().join("jobs")).await.unwrap();
    let redis = JobStore::open(&Place::Redis(server.place())).await.unwrap();
    let other = tempfile::tempdir().unwrap();
    [
        Opened { store: file, _folder: folder, server: None },
        Opened { store: redis, _folder: other, server: Some(server) },
    ]
}

async fn in_file(path: &std::path::Path) -> Result<JobStore, OpenError> {
    JobStore::open(&Place::File(path.to_owned())).await
}

impl Opened {
    /// Waits until so many jobs are queued; a store in a Redis says so with its next beat.
    async fn until_queued(&self, number: u64) {
        let begun = std::time::Instant::now();
        while self.store.queue("it").numbers().0 != number {
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", self.store.queue("it").numbers());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Bytes that are stored of the endpoint's jobs.
    async fn bytes(&self) -> u64 {
        match (&self.store.0, &self.server) {
            (Backend::Embedded(embedded), _) => {
                embedded.write(0, |tables| Ok(tables.all_numbers()?)).await.unwrap()[0].1.bytes
            }
            (Backend::Redis(_), Some(server)) => {
                server.ask("HGET modelhost:jobs:{it}:numbers bytes").trim().parse().unwrap()
            }
            (Backend::Redis(_), None) => unreachable!(),
        }
    }
}

fn of(body: &'static str, priority: u8) -> Submission {
    Submission {
        path: "/".to_owned(),
        body: Bytes::from_static(body.as_bytes()),
        priority,
        attempts: 2,
        keep: Duration::from_secs(60),
        ..Submission::default()
    }
}

async fn submit(store: &JobStore, submission: Submission) -> Job {
    store.submit("it", submission, QUOTA).await.unwrap().0
}

async fn claim(store: &JobStore) -> Option<(Job, Bytes)> {
    store.claim("it").await.unwrap()
}

fn answered(is_ok: bool) -> Outcome {
    let answer = Answer { status: if is_ok { 200 } else { 400 }, headers: Vec::new(), size: 4 };
    Outcome::Answered { is_ok, answer, body: Bytes::from_static(b"done") }
}

fn failed() -> Outcome {
    Outcome::Failed { error: "it broke".to_owned(), answer: None }
}

#[tokio::test]
async fn a_file_that_was_closed_is_not_read_whole_by_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs");
    let store = in_file(&path).await.unwrap();
    store.submit("it", of("a", 4), QUOTA).await.unwrap();
    assert!(crate::stores::test_server::has_to_be_recovered(&path));
    store.close();
    assert!(!crate::stores::test_server::has_to_be_recovered(&path));
    assert!(matches!(store.submit("it", of("b", 4), QUOTA).await, Err(JobError::Unavailable(_))));
    let store = in_file(&path).await.unwrap();
    assert_eq!(store.queue("it").numbers().0, 1);
}

#[tokio::test]
async fn the_first_of_the_most_urgent_comes_first_and_of_another_endpoint_none() {
    for opened in all().await {
        let store = &opened.store;
        for (body, priority) in [("c", 2), ("a", 0), ("b", 1), ("d", 2), ("a2", 0)] {
            submit(store, of(body, priority)).await;
        }
        store.submit("it2", of("other", 0), QUOTA).await.unwrap();
        opened.until_queued(5).await;
        for expected in ["a", "a2", "b", "c", "d"] {
            let (job, body) = claim(store).await.unwrap();
            assert_eq!((job.state, job.attempt, &*body), (JobState::Running, 1, expected.as_bytes()));
        }
        assert!(claim(store).await.is_none());
        assert_eq!(store.next_due("it").await.unwrap(), None);
        assert_eq!(store.next_due("it2").await.unwrap(), Some(Duration::ZERO));
    }
}

#[tokio::test]
async fn an_attempt_that_fails_is_followed_by_another_one_after_a_pause_until_there_are_none() {
    for opened in all().await {
        let store = &opened.store;
        let id = submit(store, of("x", 1)).await.id;
        let first = claim(store).await.unwrap().0.current();
        store.end("it", &first, Outcome::NotTried { delay: Duration::ZERO }).await.unwrap();
        let second = claim(store).await.unwrap().0.current();
        assert_eq!(second.number, 1, "an attempt that was none does not count");
        // A worker that does not know that its word has been heard says it again.
        for other in [Attempt { number: 2, claim: 7, ..second.clone() }, first] {
            store.end("it", &other, answered(true)).await.unwrap();
            let state = store.job("it", &id).await.unwrap().unwrap().state;
            assert_eq!(state, JobState::Running, "of no such attempt");
        }
        store.end("it", &second, failed()).await.unwrap();
        let job = store.job("it", &id).await.unwrap().unwrap();
        assert_eq!((job.state, job.error.as_deref()), (JobState::Queued, Some("it broke")));
        let due = store.next_due("it").await.unwrap().unwrap();
        assert!(due > Duration::from_millis(500) && due <= Duration::from_secs(1), "{due:?}");
        assert!(claim(store).await.is_none());
        tokio::time::sleep(due + Duration::from_millis(5)).await;
        let last = claim(store).await.unwrap().0.current();
        assert_eq!(last.number, 2);
        store.end("it", &last, failed()).await.unwrap();
        let (job, body) = store.result("it", &id, usize::MAX).await.unwrap().unwrap();
        assert_eq!((job.state, job.attempt, body), (JobState::Failed, 2, None));
    }
}

#[test]
fn pauses_grow_to_a_minute_and_differ() {
    for (attempt, chance, expected) in
        [(1, 0, 1000), (2, 0, 2000), (3, 7, 3993), (7, 0, 60_000), (1000, 0, 60_000), (1, 249, 751)]
    {
        assert_eq!(pause(attempt, chance, 1000, 60_000), expected, "{attempt} {chance}");
    }
    assert_eq!((pause(1, 9, 0, 5000), pause(9, 9, 3, 5), pause(2, 9, 4000, 5000)), (0, 5, 4991));
}

#[tokio::test]
async fn what_is_cancelled_stays_so_and_every_byte_is_given_back() {
    for opened in all().await {
        let store = &opened.store;
        let keep = Duration::from_millis(50);
        let brief =
            |body: &'static str| Submission { keep, idempotency_key: Some(body.to_owned()), ..of(body, 1) };
        let mut ids = Vec::new();
        for body in ["runs", "waits", "ends"] {
            ids.push(submit(store, brief(body)).await.id);
        }
        let mut running = store.queue("it").begin(&ids[0]);
        let stopped = claim(store).await.unwrap().0.current();
        for id in &ids[..2] {
            assert_eq!(store.cancel("it", id).await.unwrap().unwrap().state, JobState::Cancelled);
        }
        running.stopped().await;
        store.end("it", &stopped, answered(true)).await.unwrap();
        assert_eq!(store.job("it", &ids[0]).await.unwrap().unwrap().state, JobState::Cancelled);
        let last = claim(store).await.unwrap().0.current();
        store.end("it", &last, answered(false)).await.unwrap();
        assert_eq!(store.cancel("it", &ids[2]).await.unwrap().unwrap().state, JobState::Failed);
        assert_eq!(store.cancel("it", "none").await.unwrap(), None);
        let listed =
            || async { store.list("it", Page { limit: 9, ..Page::default() }).await.unwrap().0.len() };
        while listed().await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        opened.until_queued(0).await;
        assert_eq!((store.queue("it").numbers().1, opened.bytes().await), (0, 0));
        let (_, is_new) = store.submit("it", brief("waits"), QUOTA).await.unwrap();
        assert!(is_new, "its key went with it");
    }
}

#[tokio::test]
async fn jobs_that_were_cut_off_are_tried_again_by_the_next_process_unless_it_was_their_last_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs");
    let store = in_file(&file).await.unwrap();
    let once = Submission { attempts: 1, ..of("once", 0) };
    let ids = [submit(&store, once).await.id, submit(&store, of("twice", 1)).await.id];
    submit(&store, of("waits", 2)).await;
    claim(&store).await.unwrap();
    claim(&store).await.unwrap();
    drop(store);
    // The writer's thread ends with the last sender, and lets go of the file then.
    let store = loop {
        match in_file(&file).await {
            Ok(store) => break store,
            Err(error) => assert!(error.to_string().contains("another process has it open"), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let states = [JobState::Failed, JobState::Queued];
    for (id, expected) in ids.iter().zip(states) {
        let job = store.job("it", id).await.unwrap().unwrap();
        assert_eq!((job.state, job.attempt), (expected, 1));
        assert_eq!(job.error.as_deref(), Some("the server ended while the job ran"));
    }
    assert_eq!(store.queue("it").numbers().0, 2);
    assert_eq!(claim(&store).await.unwrap().1, "twice");
}

#[tokio::test]
async fn a_key_is_one_job_and_quotas_are_kept() {
    for opened in all().await {
        let store = &opened.store;
        let keyed = |body| Submission { idempotency_key: Some("k".to_owned()), ..of(body, 1) };
        let quota = Quota { queue: 2, bytes: 2000 };
        let (first, is_new) = store.submit("it", keyed("x"), quota).await.unwrap();
        assert!(is_new);
        let (again, is_new) = store.submit("it", keyed("x"), quota).await.unwrap();
        assert_eq!((again.id, is_new), (first.id, false));
        assert_eq!(store.submit("it", keyed("y"), quota).await.unwrap_err(), JobError::Conflict);
        let (_, is_new) = store.submit("it2", keyed("y"), quota).await.unwrap();
        assert!(is_new, "of another endpoint");
        let large = Submission { body: Bytes::from(vec![0; 2000]), ..of("", 1) };
        let error = store.submit("it", large, quota).await.unwrap_err().to_string();
        assert_eq!(error, "jobs and results would take more than 2000 bytes, `limits.job_bytes`");
        store.submit("it", of("x", 1), quota).await.unwrap();
        let error = store.submit("it", of("x", 1), quota).await.unwrap_err().to_string();
        assert_eq!(error, "2 jobs are not finished, and as many are `limits.job_queue`");
    }
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    for opened in all().await {
        let store = &opened.store;
        let mut ids = Vec::new();
        for _ in 0..7 {
            ids.push(submit(store, of("x", 1)).await.id);
        }
        ids.sort();
        ids.reverse();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = Page { after, limit: 3, state: Some(JobState::Queued), ..Page::default() };
            let (jobs, next) = store.list("it", page).await.unwrap();
            assert!(jobs.len() <= 3);
            seen.extend(jobs.into_iter().map(|job| job.id));
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, ids);
        let page = Page { limit: 3, state: Some(JobState::Failed), ..Page::default() };
        assert_eq!(store.list("it", page).await.unwrap(), (Vec::new(), None));
    }
}

#[tokio::test]
async fn a_job_that_waits_longer_than_it_may_fails_without_an_attempt() {
    for opened in all().await {
        let store = &opened.store;
        let wait = Some(Duration::from_millis(20));
        let id = submit(store, Submission { wait, ..of("x", 1) }).await.id;
        let begun = now();
        let job = loop {
            let job = store.job("it", &id).await.unwrap().unwrap();
            if job.state.is_final() {
                break job;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!((job.state, job.attempt), (JobState::Failed, 0));
        assert!(job.changed >= begun + 10);
        opened.until_queued(0).await;
        assert!(claim(store).await.is_none());
    }
}

#[tokio::test]
async fn a_webhook_is_sent_until_it_is_taken_or_a_dead_letter_and_can_be_sent_again() {
    let limits = DeliveryLimits { concurrency: 2, by_origin: 1, timeout: Duration::from_secs(5) };
    for opened in all().await {
        let store = &opened.store;
        let to = |host: &str| {
            let webhook =
                Webhook::new(&format!("http://{host}/x?y"), format!("http://{host}"), WebhookForm::OWN);
            Submission { webhook: Some(webhook), ..of("x", 1) }
        };
        for host in ["a", "a", "b"] {
            submit(store, to(host)).await;
            let (job, _) = claim(store).await.unwrap();
            store.end("it", &job.current(), answered(true)).await.unwrap();
        }
        let (due, _) = store.due_deliveries("it", limits).await.unwrap();
        let origins: Vec<&str> = due.iter().map(|it| it.origin.as_str()).collect();
        assert_eq!(origins, ["http://a", "http://b"], "one to each place");
        let guards: Vec<_> = due.iter().map(|it| store.queue("it").send(it).unwrap()).collect();
        assert_eq!(store.due_deliveries("it", limits).await.unwrap().0, [], "no place is free");
        let failed = || Delivered::Failed { error: "no".to_owned(), is_final: false, after: Duration::ZERO };
        let state = store.delivered("it", &due[1], Delivered::Accepted, 2).await.unwrap();
        assert_eq!(state, Some(WebhookState::Delivered));
        assert_eq!(store.delivered("it", &due[0], failed(), 2).await.unwrap(), Some(WebhookState::Pending));
        assert_eq!(store.delivered("it", &due[0], failed(), 2).await.unwrap(), None, "it is noted once");
        drop(guards);
        let (next, _) = store.due_deliveries("it", limits).await.unwrap();
        assert_ne!(next[0].id, due[0].id, "the other one to this place");
        assert_eq!(next.len(), 1);
        store.delivered("it", &next[0], Delivered::Accepted, 2).await.unwrap();
        let (none, rest) = store.due_deliveries("it", limits).await.unwrap();
        assert!(none.is_empty() && rest.unwrap() <= Duration::from_secs(1), "{rest:?}");
        tokio::time::sleep(rest.unwrap() + Duration::from_millis(5)).await;
        let (last, _) = store.due_deliveries("it", limits).await.unwrap();
        assert_eq!(store.delivered("it", &last[0], failed(), 2).await.unwrap(), Some(WebhookState::Failed));
        let webhook = store.job("it", &due[0].id).await.unwrap().unwrap().webhook.unwrap();
        assert_eq!((webhook.attempts, webhook.error.as_deref()), (2, Some("no")));
        let page = Page { limit: 9, webhook: Some(WebhookState::Failed), ..Page::default() };
        assert_eq!(store.list("it", page).await.unwrap().0.len(), 1);
        let job = store.send_again("it", &due[0].id).await.unwrap().unwrap();
        assert_eq!(job.webhook.unwrap().state, WebhookState::Pending);
        let (again, _) = store.due_deliveries("it", limits).await.unwrap();
        store.delivered("it", &again[0], Delivered::Accepted, 2).await.unwrap();
        let begun = std::time::Instant::now();
        while store.queue("it").webhooks() != 0 {
            assert!(begun.elapsed() < Duration::from_secs(5), "{}", store.queue("it").webhooks());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn a_batch_counts_its_jobs_and_is_stopped_with_them() {
    for opened in all().await {
        let store = &opened.store;
        let of = |timeout| BatchSubmission {
            parts: ["[1]", "[2]", "[3]"].map(|part| Bytes::from_static(part.as_bytes())).to_vec(),
            header: "x-batch",
            on_complete: Some("/over".to_owned()),
            attempts: 1,
            keep: Duration::from_secs(60),
            timeout,
            spec: "{}".to_owned(),
        };
        let small = Quota { queue: 2, bytes: 1 << 20 };
        let error = store.submit_batch("it", of(None), small).await.unwrap_err().to_string();
        assert!(error.starts_with("more than 2 jobs would not be finished with these 3"), "{error}");
        let batch = store.submit_batch("it", of(None), QUOTA).await.unwrap();
        assert_eq!((batch.state, batch.total, batch.spec.as_str()), (BatchState::Running, 3, "{}"));
        for expected in ["[1]", "[2]", "[3]"] {
            let (job, body) = claim(store).await.unwrap();
            assert_eq!((&*body, job.batch.as_ref()), (expected.as_bytes(), Some(&batch.id)));
            assert!(job.headers.contains(&("x-batch".to_owned(), batch.id.clone())), "{:?}", job.headers);
            store.end("it", &job.current(), answered(expected != "[2]")).await.unwrap();
        }
        let ended = store.batch("it", &batch.id).await.unwrap().unwrap();
        assert_eq!((ended.state, ended.succeeded, ended.failed), (BatchState::CompletedWithFailures, 2, 1));
        assert_eq!(claim(store).await.unwrap().0.path, "/over");
        let page = |after| Page { limit: 2, batch: Some(batch.id.clone()), after, ..Page::default() };
        let (first, next) = store.list("it", page(None)).await.unwrap();
        let (rest, end) = store.list("it", page(next)).await.unwrap();
        let states: Vec<JobState> = first.iter().chain(&rest).map(|job| job.state).collect();
        assert_eq!(states, [JobState::Completed, JobState::Failed, JobState::Completed]);
        assert_eq!(end, None);

        let batch = store.submit_batch("it", of(None), QUOTA).await.unwrap();
        let (running, _) = claim(store).await.unwrap();
        let stopped = store.stop_batch("it", &batch.id).await.unwrap().unwrap();
        assert_eq!((stopped.state, stopped.succeeded), (BatchState::Stopped, 0));
        assert_eq!(store.job("it", &running.id).await.unwrap().unwrap().state, JobState::Cancelled);
        assert!(claim(store).await.is_none());
        assert_eq!(store.batch("it", &running.id).await.unwrap(), None);

        let batch = store.submit_batch("it", of(Some(Duration::from_millis(20))), QUOTA).await.unwrap();
        let begun = std::time::Instant::now();
        while store.batch("it", &batch.id).await.unwrap().unwrap().state != BatchState::TimedOut {
            assert!(begun.elapsed() < Duration::from_secs(5));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        opened.until_queued(0).await;
    }
}

#[tokio::test]
async fn what_a_batch_is_made_of_is_counted_and_given_back() {
    for opened in all().await {
        let store = &opened.store;
        let of = |spec: usize| BatchSubmission {
            parts: vec![Bytes::from_static(b"[1]")],
            attempts: 1,
            keep: Duration::from_millis(50),
            spec: "x".repeat(spec),
            ..BatchSubmission::default()
        };
        let small = Quota { bytes: 20_000, ..QUOTA };
        let error = store.submit_batch("it", of(20_000), small).await.unwrap_err().to_string();
        assert!(error.contains("more than 20000 bytes"), "{error}");
        store.submit_batch("it", of(10_000), small).await.unwrap();
        assert!(opened.bytes().await > 10_000, "{}", opened.bytes().await);
        let (job, _) = claim(store).await.unwrap();
        store.end("it", &job.current(), answered(true)).await.unwrap();
        let begun = std::time::Instant::now();
        while opened.bytes().await != 0 {
            assert!(begun.elapsed() < Duration::from_secs(5), "{} bytes are left", opened.bytes().await);
            // A change, at which a file is looked through.
            store.cancel("it", "none").await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A store in a Redis, which is told other things than are usual.
async fn in_redis(server: &Server, change: impl FnOnce(&mut Redis)) -> JobStore {
    let mut redis = Redis::open(&server.place()).await.unwrap();
    change(&mut redis);
    JobStore(Backend::Redis(redis))
}

#[tokio::test]
async fn what_is_longer_than_a_redis_takes_fails_with_the_reason() {
    let server = Server::start();
    let store = in_redis(&server, |redis| redis.most_bytes = 3).await;
    let id = submit(&store, of("x", 1)).await.id;
    let first = claim(&store).await.unwrap().0.current();
    store.end("it", &first, answered(true)).await.unwrap();
    let job = store.job("it", &id).await.unwrap().unwrap();
    let reason = "the answer has 4 bytes, and a Redis takes 3";
    assert_eq!((job.state, job.attempt, job.error.as_deref()), (JobState::Failed, 1, Some(reason)));
    assert_eq!(
        store.submit("it", of("long", 1), QUOTA).await.unwrap_err().to_string(),
        "the body has 4 bytes, and a Redis takes 3"
    );
    assert!(claim(&store).await.is_none());
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_one_attempt() {
    let server = Server::start();
    let store = in_redis(&server, |_| ()).await;
    let ids = [submit(&store, of("a", 1)).await.id, submit(&store, of("b", 1)).await.id];
    let Backend::Redis(redis) = &store.0 else { unreachable!() };
    redis.lose_a_claim("it").await;
    let claimed = [claim(&store).await.unwrap(), claim(&store).await.unwrap()];
    assert_eq!(claimed.each_ref().map(|(job, _)| job.id.clone()), ids);
    assert_eq!(
        claimed.each_ref().map(|(job, body)| (job.attempt, body.clone())),
        [(1, "a".into()), (1, "b".into())]
    );
    assert!(claim(&store).await.is_none());
    // What was claimed by a token and ended is not claimed by it again.
    store.end("it", &claimed[0].0.current(), answered(true)).await.unwrap();
    assert!(claim(&store).await.is_none());
}

#[tokio::test]
async fn hosts_whose_clocks_differ_agree_on_the_order_and_the_age_of_jobs() {
    use std::sync::atomic::Ordering;
    let (server, hour) = (Server::start(), 3_600_000);
    let store = in_redis(&server, |redis| {
        let ahead = redis.client.ahead.load(Ordering::Relaxed);
        assert!(ahead.abs() < 1000, "both clocks are one: {ahead}");
        // As if this host's clock were an hour behind until the next beat.
        redis.client.ahead.store(hour, Ordering::Relaxed);
    })
    .await;
    let ids = |job: Job| uuid::Uuid::parse_str(&job.id).unwrap().get_timestamp().unwrap().to_unix().0 * 1000;
    let early = ids(submit(&store, of("a", 1)).await);
    assert!(early + 5000 > now() + 3_600_000, "{early}");
    let begun = std::time::Instant::now();
    while store.queue("it").numbers().2.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let oldest = store.queue("it").numbers().2.unwrap();
    assert!(now() - oldest < 60_000, "{oldest}");
    let late = ids(submit(&store, of("b", 1)).await);
    assert!(late < now() + 5000, "a beat has set the clock: {late}");
}
