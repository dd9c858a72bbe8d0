//! What components of other hosts ask `wasi:config`: the endpoint's variables and metadata.

use e2e::{Host, component};
use serde_json::json;

#[test]
fn settings_are_the_variables_and_the_metadata_in_every_draft() {
    let plugin = component("tests/settings");
    let host = Host::configured(&format!(
        "[[endpoint]]\nname = \"settings\"\nplugin = {plugin:?}\nenv = {{ KEY = \"secret\", both = \"variable\" }}\n\
         metadata = {{ both = \"metadata\", mode = \"fast\", top = 3 }}\n\
         [[endpoint]]\nname = \"bare\"\nplugin = {plugin:?}\nmetadata = [1, 2]\n"
    ));
    let names = json!(["KEY", "both", "mode", "top", "other", ""]).to_string();
    let values = json!(["secret", "variable", "fast", "3", null, null]);
    let all = json!([["KEY", "secret"], ["both", "variable"], ["mode", "fast"], ["top", "3"]]);
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
    assert!(!host.log().contains("secret"));
}
