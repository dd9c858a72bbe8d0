//! A job's request as its handler sees it, and that no client's request passes for one.

use super::*;

/// Every spelling that a handler could take for the header of a job.
const SPELLINGS: [&str; 4] =
    ["x-modelhost-job", "X-Modelhost-Job", "x_modelhost_job", "X_ModelHost-Job_Attempt"];

#[test]
fn a_handler_knows_a_job_by_its_headers_and_no_client_can_set_them() {
    let folder = tempfile::tempdir().unwrap();
    let endpoints = [
        Endpoint::new("answer").guest("answer").set("jobs = 'on'"),
        Endpoint::new("app").guest("application").set("jobs = 'on'"),
    ];
    let host = stored(folder.path(), endpoints).serve();
    let forged: Vec<(&str, &str)> = SPELLINGS.into_iter().map(|name| (name, "forged")).collect();
    for name in SPELLINGS {
        let ask = json!({ "header": name }).to_string();
        let asked =
            host.request("POST", "/answer", &[forged.as_slice(), &[("x-a", "1")]].concat(), ask.as_bytes());
        assert_eq!(asked.json()["got"], Value::Null, "{name}");
        // What a client says of itself does not come along with a job either.
        let id = submit(&host, "/answer/jobs", &forged, &ask);
        until(&host, "answer", &id, "completed");
        let expected = if name.to_lowercase().ends_with("attempt") { "1" } else { id.as_str() };
        assert_eq!(result(&host, "answer", &id).json()["got"], expected, "{name}");
    }

    let seen = |text: &str| -> Value { serde_json::from_str(text.lines().next().unwrap()).unwrap() };
    let of_jobs = |seen: &Value| -> Vec<(String, Value)> {
        let headers = seen["headers"].as_object().unwrap().iter();
        let of_jobs = headers.filter(|(name, _)| name.replace('_', "-").starts_with("x-modelhost-job"));
        of_jobs.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let direct = host.request("POST", "/app/echo", &[&[("x-a", "1")], forged.as_slice()].concat(), b"");
    let direct = seen(&direct.text());
    assert_eq!((&direct["headers"]["x-a"], of_jobs(&direct)), (&json!("1"), Vec::new()));
    let id = submit(&host, "/app/jobs/echo", &forged, "");
    until(&host, "app", &id, "completed");
    let job = seen(&result(&host, "app", &id).text());
    let own = [("x-modelhost-job".to_owned(), json!(id)), ("x-modelhost-job-attempt".to_owned(), json!("1"))];
    assert_eq!((of_jobs(&job), &job["headers"]["x-forwarded-prefix"]), (own.to_vec(), &json!("/app")));
}
