//! What a handler may submit, look at and cancel.

use super::super::{Mode, Quota, WebhookConfig};
use super::*;

fn jobs() -> HandlerJobs {
    let config = Config {
        mode: Mode::On,
        concurrency: 1,
        quota: Quota { queue: 10, bytes: 1 << 20 },
        keep: Duration::from_secs(60),
        attempts: 3,
        timeout: Duration::from_secs(1),
        submissions: 2,
        depth: 1,
        webhooks: WebhookConfig::default(),
    };
    HandlerJobs::new(None, "it", config, 8, 8)
}

const CLIENT: Submitter = Submitter { job_depth: None, submitted: 0, has_paths: true };

fn to(path: &str) -> JobRequest {
    JobRequest { path: path.to_owned(), ..JobRequest::default() }
}

#[test]
fn a_submission_is_what_a_client_could_submit() {
    let header = |name: &str, value: &str| JobRequest {
        headers: vec![(name.to_owned(), value.to_owned())],
        ..to("/")
    };
    let one_path = Submitter { has_paths: false, ..CLIENT };
    for (wanted, by, expected) in [
        (to("/"), CLIENT, Ok(())),
        (to("/train/all?fast=1&x=%20"), CLIENT, Ok(())),
        (to("/?x=1"), one_path, Ok(())),
        (to("/train"), one_path, Err("the path is not `/`, and only an application has others")),
        (to("train"), CLIENT, Err("the path is none")),
        (to("/a b"), CLIENT, Err("the path is none")),
        (to("/a#b"), CLIENT, Err("the path is none")),
        (to("/a/../b"), CLIENT, Err("the path is none")),
        (to(&format!("/{}", "x".repeat(LONGEST_PATH))), CLIENT, Err("the path is none")),
        (header("Content-Type", "text/x"), CLIENT, Ok(())),
        (header("authorization", "x"), CLIENT, Err("the header `authorization` is not stored")),
        (header("x-modelhost-job", "x"), CLIENT, Err("the header `x-modelhost-job` is not stored")),
        (header("transfer-encoding", "x"), CLIENT, Err("the header `transfer-encoding` is not stored")),
        (header("a b", "x"), CLIENT, Err("`a b` is no header of visible ASCII")),
        (header("a", "x\r\nb: c"), CLIENT, Err("`a` is no header of visible ASCII")),
        (header("a", &"x".repeat(HEADERS.1)), CLIENT, Err("more than 100 headers")),
        (JobRequest { body: vec![0; 8], ..to("/") }, CLIENT, Ok(())),
        (
            JobRequest { body: vec![0; 9], ..to("/") },
            CLIENT,
            Err("the body has more than 8 bytes, `limits.body`"),
        ),
        (JobRequest { priority: Some(3), ..to("/") }, CLIENT, Err("the priority is not 0 to 2")),
        (JobRequest { attempts: Some(0), ..to("/") }, CLIENT, Err("the attempts are not 1 to 3")),
        (JobRequest { attempts: Some(4), ..to("/") }, CLIENT, Err("the attempts are not 1 to 3")),
        (JobRequest { delay: Some(31 * 86_400_000), ..to("/") }, CLIENT, Err("a delay or a wait")),
        (JobRequest { wait: Some(u64::MAX), ..to("/") }, CLIENT, Err("a delay or a wait")),
        (
            JobRequest { idempotency_key: Some("a b".to_owned()), ..to("/") },
            CLIENT,
            Err("the idempotency key is not 1 to 255"),
        ),
        (to("/"), Submitter { submitted: 1, ..CLIENT }, Ok(())),
        (to("/"), Submitter { submitted: 2, ..CLIENT }, Err("a request submits at most 2 jobs")),
        (to("/"), Submitter { job_depth: Some(0), ..CLIENT }, Ok(())),
        (to("/"), Submitter { job_depth: Some(1), ..CLIENT }, Err("1 jobs follow each other at most")),
        (to("/"), Submitter { job_depth: Some(u32::MAX), ..CLIENT }, Err("1 jobs follow each other")),
    ] {
        let shown = format!("{wanted:?}").chars().take(200).collect::<String>();
        match (jobs().check(wanted, by), expected) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(expected)) => {
                assert!(error.to_string().starts_with(expected), "{shown}: {error}")
            }
            (found, expected) => panic!("{shown}: {found:?} and not {expected:?}"),
        }
    }
    let wanted = JobRequest { delay: Some(1500), ..header("X-Mine", "1") };
    let job = jobs().check(JobRequest { path: "/a?b=c".to_owned(), ..wanted }, CLIENT).unwrap();
    assert_eq!((&*job.path, &*job.query, job.priority, job.attempts), ("/a", "b=c", USUAL_PRIORITY, 3));
    assert_eq!(
        (job.headers, job.delay),
        (vec![("x-mine".to_owned(), "1".to_owned())], Duration::from_millis(1500))
    );
    let deeper = jobs().check(to("/"), Submitter { job_depth: Some(0), ..CLIENT }).unwrap();
    assert_eq!((job.depth, deeper.depth), (0, 1));
}

#[tokio::test]
async fn a_run_that_is_no_request_sees_its_own_jobs_and_stores_none() {
    let (jobs, mut scratch) = (jobs(), JobScratch::default());
    let keyed = || JobRequest { idempotency_key: Some("k".to_owned()), ..to("/") };
    let first = scratch.submit(jobs.check(keyed(), CLIENT).unwrap());
    let again = scratch.submit(jobs.check(keyed(), CLIENT).unwrap());
    let other = scratch.submit(jobs.check(to("/"), CLIENT).unwrap());
    assert!(first == again && first.id != other.id && is_id(&other.id), "{first:?} {other:?}");
    let id = first.id.clone();
    let state = |outcome: JobOutcome| match outcome.unwrap() {
        JobAnswer::Job(job) => job.map(|job| job.state),
        other => panic!("{other:?}"),
    };
    let op = |id: &str| JobOp::Get { id: id.to_owned() };
    assert_eq!(state(scratch.look(&jobs, &op(&id)).await), Some(JobState::Queued));
    assert_eq!(scratch.look(&jobs, &JobOp::GetAnswer { id: id.clone() }).await, Ok(JobAnswer::NoAnswer));
    assert_eq!(
        state(scratch.look(&jobs, &JobOp::Cancel { id: id.clone() }).await),
        Some(JobState::Cancelled)
    );
    assert_eq!(state(scratch.look(&jobs, &op(&id)).await), Some(JobState::Cancelled));
    // Without a store there is no other job, and none is taken.
    assert_eq!(state(scratch.look(&jobs, &op("01936c1e-2f6b-7abc-8def-0123456789ab")).await), None);
    let submission = jobs.check(to("/"), CLIENT).unwrap();
    assert!(matches!(jobs.submit(submission).await, Err(HandlerJobError::Unavailable(_))));
}

#[test]
fn a_call_is_written_and_read_again() {
    let body = b"\xff".to_vec();
    let answer = JobAnswer::Answer { status: 200, headers: vec![("a".to_owned(), "b".to_owned())], body };
    let submit = JobOp::Submit(Box::new(JobRequest { body: vec![0xff], ..to("/a") }));
    for call in [
        JobCall { op: submit, answer: Some(Err(HandlerJobError::Conflict)) },
        JobCall { op: JobOp::GetAnswer { id: "x".to_owned() }, answer: Some(Ok(answer)) },
        JobCall { op: JobOp::Cancel { id: "x".to_owned() }, answer: Some(Ok(JobAnswer::Job(None))) },
        JobCall { op: JobOp::Get { id: "x".to_owned() }, answer: None },
    ] {
        let text = serde_json::to_string(&call).unwrap();
        assert_eq!(serde_json::from_str::<JobCall>(&text).unwrap(), call, "{text}");
    }
}
