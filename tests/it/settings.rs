//! What components of other hosts ask `wasi:config`: the endpoint's variables and metadata.

use e2e::setup::{Endpoint, Setup};
use serde_json::json;

#[test]
fn settings_are_the_variables_and_the_metadata_in_every_draft() {
    let asking = |name: &str| Endpoint::new(name).guest("settings");
    let settings = asking("settings")
        .set("env = { KEY = 'hush-hush', both = 'variable' }")
        .set("metadata = { both = 'metadata', mode = 'fast', top = 3 }");
    let host = Setup::of([settings, asking("bare").set("metadata = [1, 2]")])
        .tables("[log]\nlevel = 'trace'")
        .serve();
    let names = json!(["KEY", "both", "mode", "top", "other", ""]).to_string();
    let values = json!(["hush-hush", "variable", "fast", "3", null, null]);
    let all = json!([["KEY", "hush-hush"], ["both", "variable"], ["mode", "fast"], ["top", "3"]]);
    assert_eq!(
        host.post("/settings", names.as_str()).json(),
        json!({"store": values, "runtime": values, "store, all": all, "runtime, all": all})
    );
    // Another endpoint's are not there.
    let none = json!([null, null, null, null, null, null]);
    assert_eq!(
        host.post("/bare", names).json(),
        json!({"store": none, "runtime": none, "store, all": [], "runtime, all": []})
    );
    // Not at any level, and not to those who ask how it is served.
    let told = ["/metrics", "/admin/v1/endpoints"]
        .map(|path| e2e::request("GET", &format!("{}{path}", host.admin), &[], b""));
    for text in
        told.map(|reply| reply.text()).into_iter().chain([host.get("/openapi.json").text(), host.log()])
    {
        assert!(!text.contains("hush-hush"), "{text}");
    }
    // Nothing of the log is left out.
    host.wait_for_log("DEBUG");
}
