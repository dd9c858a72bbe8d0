//! The document at `/openapi.json`: that it is one, that it says what is served right now, and that its examples work.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::Command;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, model, root, wait_until};
use serde_json::{Value, json};

fn document(host: &Host) -> Value {
    let reply = host.get("/openapi.json");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    reply.json()
}

/// What a validator that is not ours says against it; empty if nothing.
fn problems(document: &Value) -> String {
    let validator = root().join("target/openapi/bin/openapi-spec-validator");
    assert!(validator.exists(), "`{}` is missing; hint: run `scripts/openapi.sh` first", validator.display());
    let mut file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    file.write_all(document.to_string().as_bytes()).unwrap();
    let output = Command::new(validator)
        .args(["--schema", "3.1", "--validation-errors", "all", "--subschema-errors", "all"])
        .arg(file.path())
        .output()
        .unwrap();
    if output.status.success() { String::new() } else { String::from_utf8_lossy(&output.stdout).into_owned() }
}

/// The linter's findings, by its recommended rules.
fn findings(document: &Value) -> Vec<String> {
    let tools = root().join("target/redocly/node_modules/.bin");
    assert!(
        tools.join("redocly").exists() && tools.join("node").exists(),
        "`{}` has no `redocly` and `node`; hint: run `scripts/openapi.sh` first",
        tools.display()
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("openapi.json"), document.to_string()).unwrap();
    let output = Command::new(tools.join("redocly"))
        .args(["lint", "openapi.json", "--extends=recommended", "--format=json", "--max-problems=1000"])
        .env("PATH", format!("{}:{}", tools.display(), std::env::var("PATH").unwrap()))
        // It asks no server for news.
        .envs([("REDOCLY_TELEMETRY", "off"), ("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")])
        .current_dir(folder.path())
        .output()
        .expect("redocly starts");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let finding = |problem: &Value| {
        let place = &problem["location"][0]["pointer"];
        format!("{} {place}: {}", problem["ruleId"], problem["message"])
    };
    report["problems"].as_array().unwrap().iter().map(finding).collect()
}

fn two_models(name: &str) -> Endpoint {
    Endpoint::new(name).named_model("x", "add", "").named_model("y", "iris_static", "")
}

#[test]
fn redocly_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "s3cret\n").unwrap();
    let add = Endpoint::new("add").model("add");
    let locked = Endpoint::new("locked").guest("echo").set(format!("keys = ['@{}']", keys.display()));
    let all = [
        locked.clone(),
        Endpoint::new("raw").guest("post_only").model("iris_dyn"),
        Endpoint::new("tensors").guest("tensors"),
        Endpoint::new("declared").guest("greet"),
        Endpoint::new("iris").plugin(&component("iris-wasm")).model("iris_dyn"),
        add.clone(),
        Endpoint::new("text").model("strid"),
        Endpoint::new("scalar").model("scalar"),
        Endpoint::new("bool").model("identity_bool"),
        two_models("several"),
        Endpoint::new("later").guest("echo").set("jobs = 'on'"),
        Endpoint::new("cortex").guest("echo").set("jobs = 'async'"),
        Endpoint::new("batch").guest("echo").set("jobs = 'batch'"),
        Endpoint::new("truss").guest("echo").set("jobs = 'truss'"),
    ];
    let split =
        "[server]\nmodel_control = true\n[[split]]\npath = '/alike'\nendpoints = { add = 1, locked = 1 }";
    let jobs = format!("{split}\n[jobs]\nstore = {:?}", folder.path().join("jobs.redb"));
    let setups = [
        Setup::of([add]),
        Setup::of([Endpoint::new("echo").guest("echo")]),
        Setup::of([locked]),
        Setup::of(all).tables(jobs),
    ];
    for setup in setups {
        let found = findings(&document(&setup.serve()));
        assert!(found.is_empty(), "{found:#?}\n{}", setup.text());
    }
    // The linter does see something.
    let without_license =
        json!({ "openapi": "3.1.0", "info": { "title": "t", "version": "1" }, "paths": {} });
    let found = findings(&without_license);
    assert!(found.iter().any(|finding| finding.contains("info-license")), "{found:#?}");
}

#[test]
fn it_is_valid_and_complete() {
    let host = Host::with(Some(&component("iris-wasm")), Some(&model("iris_dyn")), &["--name", "iris"]);
    let document = document(&host);
    assert_eq!(problems(&document), "");
    // The validator does see something.
    assert_ne!(problems(&json!({ "openapi": "3.1.0", "paths": 1 })), "");
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["servers"], json!([{ "url": "/" }]));
    let paths = document["paths"].as_object().unwrap();
    let names: Vec<&str> = paths.keys().map(|path| &**path).collect();
    for path in
        ["/healthz", "/iris", "/iris/signature", "/metrics", "/v2/health/ready", "/v2/models/iris/infer"]
    {
        assert!(names.contains(&path), "{path} in {names:?}");
    }
    let operations: Vec<&Value> =
        paths.values().flat_map(|item| item.as_object().unwrap().values()).collect();
    let ids: BTreeSet<&str> =
        operations.iter().map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), operations.len(), "{ids:?}");
    assert!(ids.contains("iris.predict"), "{ids:?}");

    let call = &paths["/iris"]["post"];
    assert_eq!(call["tags"], json!(["iris"]));
    let statuses: Vec<&str> = call["responses"].as_object().unwrap().keys().map(|status| &**status).collect();
    assert_eq!(statuses, ["200", "400", "405", "413", "415", "500", "503", "504", "default"]);
    let place = call["responses"]["503"]["$ref"].as_str().unwrap();
    let headers = document.pointer(&place[1..]).unwrap()["headers"].as_object().unwrap();
    assert_eq!(headers.keys().collect::<Vec<_>>(), ["retry-after", "x-handler-digest", "x-request-id"]);
    // What this handler reads and answers only it knows.
    assert_eq!(
        call["requestBody"]["content"],
        json!({ "application/json": { "schema": {} }, "*/*": { "schema": {} } })
    );
    assert_eq!(call["responses"]["200"]["content"], json!({ "*/*": {} }));
    assert!(call["description"].as_str().unwrap().ends_with("Also at `/` and `/predict`."));
}

#[test]
fn the_forms_of_jobs_are_those_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = |name: &str, mode: &str| Endpoint::new(name).guest("echo").set(format!("jobs = '{mode}'"));
    let application = Endpoint::new("application").guest("responder").set("jobs = 'on'");
    let all =
        [jobs("own", "on"), jobs("one", "async"), jobs("many", "batch"), jobs("truss", "truss"), application];
    let store = format!("[jobs]\nstore = {:?}", folder.path().join("jobs.redb"));
    let document = document(&Setup::of(all).tables(store).serve());
    assert_eq!(problems(&document), "");
    let paths = &document["paths"];
    for (path, method, id, status) in [
        ("/own/jobs", "post", "own.jobs.submit", "202"),
        ("/own", "post", "own.predict", "200"),
        ("/one", "post", "one.jobs.async", "200"),
        ("/one", "get", "one.describe", "200"),
        ("/one/{id}", "get", "one.jobs.async_job", "200"),
        ("/one/jobs", "post", "one.jobs.submit", "202"),
        ("/many", "post", "many.jobs.submit_batch", "200"),
        ("/many", "get", "many.jobs.batch", "200"),
        ("/many", "delete", "many.jobs.stop_batch", "200"),
        ("/application/jobs/add", "post", "application.jobs.submit.add", "202"),
        ("/truss/async_predict", "post", "truss.jobs.async_predict", "201"),
        ("/v1/models/truss:async_predict", "post", "truss.jobs.async_predict_by_name", "201"),
        ("/truss/async_request/{id}", "get", "truss.jobs.async_request", "200"),
        ("/truss/async_request/{id}", "delete", "truss.jobs.async_cancel", "200"),
    ] {
        let operation = &paths[path][method];
        assert_eq!(operation["operationId"], id, "{method} {path}");
        assert!(operation["responses"][status].is_object(), "{method} {path}: {operation}");
    }
}

#[test]
fn what_wants_a_key_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    std::fs::write(&file, "s3cret\n").unwrap();
    let echo = |name: &str| Endpoint::new(name).guest("echo");
    let keys = format!("keys = ['@{}']", file.display());
    let host = Setup::of([echo("locked").set(keys), echo("open")]).serve();
    let document = document(&host);
    assert_eq!(problems(&document), "");
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    let mut seen = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let is_locked = operation["tags"] == json!(["locked"]);
            assert_eq!(operation.get("security").is_some(), is_locked, "{method} {path}");
            assert_eq!(operation["responses"].get("401").is_some(), is_locked, "{method} {path}");
            // And it is so.
            let reply = host.request(&method.to_uppercase(), path, &[], b"");
            assert_eq!(reply.status == 401, is_locked, "{method} {path}: {}", reply.text());
            if is_locked {
                seen.insert(path.as_str());
            }
        }
    }
    assert!(seen.contains("/locked") && seen.contains("/v2/models/locked/infer"), "{seen:?}");
}

#[test]
fn without_a_handler_the_model_says_what_is_taken_and_returned() {
    let names = ["iris_dyn", "add", "strid", "scalar", "identity_bool"];
    let host = Setup::of(names.map(|name| Endpoint::new(name).model(name))).serve();
    let document = document(&host);
    assert_eq!(problems(&document), "");
    for name in names {
        let call = &document["paths"][format!("/{name}")]["post"];
        assert!(
            call["responses"].get("415").is_some() && call["responses"].get("default").is_none(),
            "{call}"
        );
        // The examples are requests that work.
        let example = &call["requestBody"]["content"]["application/json"]["example"];
        assert_ne!(example, &Value::Null, "{call}");
        let reply = host.post(&format!("/{name}"), example.to_string());
        assert_eq!(reply.status, 200, "{name}: {example}: {}", reply.text());
        for path in [format!("/v1/models/{name}:predict"), format!("/v2/models/{name}/infer")] {
            let content = &document["paths"][&path]["post"]["requestBody"]["content"]["application/json"];
            let reply = host.post(&path, content["example"].to_string());
            assert_eq!(reply.status, 200, "{path}: {}: {}", content["example"], reply.text());
        }
    }
    let call = &document["paths"]["/iris_dyn"]["post"];
    let numbers =
        json!({ "type": "array", "items": { "type": ["number", "null"] }, "minItems": 3, "maxItems": 3 });
    let outputs = &call["responses"]["200"]["content"]["application/json"]["schema"]["items"]["anyOf"];
    assert_eq!(outputs[1]["items"], numbers);
    assert_eq!(outputs[1]["description"], "`probabilities`: FP32 [N, 3]");
}

#[test]
fn what_a_handler_declares_is_documented_and_its_example_works() {
    let host = Host::with(Some(&component("tests/greet")), None, &[]);
    let document = document(&host);
    assert_eq!(problems(&document), "");
    let content = &document["paths"]["/greet"]["post"]["requestBody"]["content"];
    assert_eq!(content.as_object().unwrap().keys().collect::<Vec<_>>(), ["application/json"]);
    let schema = &content["application/json"]["schema"];
    assert_eq!(schema["required"], json!(["prompt"]));
    let prompt = json!({ "type": "string", "description": "what to say", "examples": ["hi"] });
    assert_eq!(schema["properties"]["prompt"], prompt);
    let example = &content["application/json"]["example"];
    assert_eq!(example, &json!({ "prompt": "hi", "times": 2 }));
    assert_eq!(host.post("/greet", example.to_string()).json(), json!({ "out": "hi!hi!" }));
    // The other protocols have it in their own form.
    for path in ["/v1/models/greet:predict", "/v2/models/greet/infer"] {
        let content = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"];
        let reply = host.post(path, content["example"].to_string());
        assert_eq!(reply.status, 200, "{path}: {}: {}", content["example"], reply.text());
        assert!(reply.text().contains("hi!hi!"), "{path}: {}", reply.text());
    }
}

#[test]
fn a_form_has_fields_and_errors_have_examples() {
    let body =
        "body = { media_types = ['multipart/form-data', 'application/x-www-form-urlencoded', 'image/*'] }";
    let host = Setup::of([Endpoint::new("upload").guest("echo").set(body)]).serve();
    let document = document(&host);
    assert_eq!(problems(&document), "");
    let call = &document["paths"]["/upload"]["post"];
    let schema = |media_type: &str| &call["requestBody"]["content"][media_type]["schema"];
    let file = json!({ "type": "string", "format": "binary" });
    let form = schema("multipart/form-data");
    assert_eq!((&form["type"], &form["properties"]["file"]), (&json!("object"), &file));
    assert_eq!(
        schema("application/x-www-form-urlencoded")["additionalProperties"],
        json!({ "type": "string" })
    );
    assert_eq!(schema("image/*"), &file);
    // The example of each error is what the host says.
    let refused = host.request("POST", "/upload", &[("content-type", "text/plain")], b"x");
    let place = call["responses"][refused.status.to_string()]["$ref"].as_str().unwrap();
    let examples = &document.pointer(&place[1..]).unwrap()["content"]["application/json"]["examples"];
    let example = &examples["unsupported_media_type"]["value"];
    let refused = refused.json();
    assert_eq!(example["code"], refused["code"], "{examples}");
    let keys = |body: &Value| body.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(example), keys(&refused));
}

#[test]
fn a_model_that_keeps_state_wants_a_sequence() {
    let state = "state = { state_out = 'state_in', count_out = 'count_in' }";
    let host = Setup::of([Endpoint::new("sums").model_at(&model("accumulator"), state)]).serve();
    let document = document(&host);
    assert_eq!(problems(&document), "");
    let path = "/v2/models/sums/infer";
    let content = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"];
    assert_eq!(content["schema"]["required"], json!(["inputs", "parameters"]));
    let parameters = &content["schema"]["properties"]["parameters"];
    assert_eq!(parameters["required"], json!(["sequence_id"]));
    let names: Vec<&String> = parameters["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["sequence_end", "sequence_id", "sequence_start"]);
    let reply = host.post(path, content["example"].to_string());
    assert_eq!(reply.status, 200, "{}: {}", content["example"], reply.text());
}

#[test]
fn several_models_can_be_chosen_from() {
    let two = Endpoint::new("two").named_model("iris", "iris_dyn", "").named_model("add", "add", "");
    let document = document(&Setup::of([two]).serve());
    assert_eq!(problems(&document), "");
    let call = &document["paths"]["/two"]["post"];
    assert_eq!(call["parameters"][1]["schema"]["enum"], json!(["iris", "add"]));
    assert!(call["responses"].get("404").is_some());
    let schemas = &call["requestBody"]["content"]["application/json"]["schema"]["anyOf"];
    assert_eq!(schemas.as_array().unwrap().len(), 2);
    let description = &document["paths"]["/two"]["get"]["responses"]["200"]["content"]["application/json"];
    assert!(description["schema"]["properties"].get("models").is_some());
}

#[test]
fn it_says_what_is_served_now() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("handler.wasm");
    std::fs::copy(component("tests/post_only"), &file).unwrap();
    let host = Host::with(Some(&file), Some(&model("iris_dyn")), &["--name", "iris"]);
    let content = || document(&host)["paths"]["/iris"]["post"]["requestBody"]["content"].take();
    assert!(content()["application/json"].get("schema").is_some());
    std::fs::copy(component("iris-wasm"), folder.path().join("new")).unwrap();
    std::fs::rename(folder.path().join("new"), &file).unwrap();
    wait_until("the swap", || content().get("*/*").is_some());
}

#[test]
fn it_can_be_switched_off() {
    let host = Host::with(None, Some(&model("iris_dyn")), &["--no-docs"]);
    for path in ["/openapi.json", "/docs", "/docs/", "/docs/swagger-ui.css"] {
        host.get(path).error(404, "not_found", "admit");
    }
    assert_eq!(host.get("/healthz").status, 200);
}

/// Generators of clients refuse a value that stands twice in an enum.
#[test]
fn no_value_stands_twice_in_an_enum() {
    fn enums<'a>(value: &'a Value, found: &mut Vec<&'a Vec<Value>>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("enum").and_then(Value::as_array));
                object.values().for_each(|value| enums(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| enums(value, found)),
            _ => {}
        }
    }
    let [handler, model] = [Endpoint::new("one").guest("echo"), Endpoint::new("three").model("iris_dyn")];
    let declared = Endpoint::new("two").guest("schemas");
    let all = Setup::of([handler.clone(), declared, model.clone(), two_models("four")]);
    for setup in [all, Setup::of([handler]), Setup::of([model]), Setup::of([two_models("four")])] {
        let host = setup.serve();
        let description = host.get("/openapi.json").json();
        let mut found = Vec::new();
        enums(&description, &mut found);
        assert!(!found.is_empty());
        for values in found {
            for (place, value) in values.iter().enumerate() {
                assert!(!values[..place].contains(value), "{value} stands twice in {values:?}");
            }
        }
    }
}

/// The Rust SDK's router says its routes by itself; an application of another toolchain says nothing.
#[test]
fn what_an_application_says_it_serves_is_documented() {
    let says = Endpoint::new("app").guest("responder").model("add").set("paths = ['/count']");
    let silent = Endpoint::new("other").guest("application").set("path = '/deep/other'");
    let host = Setup::of([says, silent]).serve();
    let document = document(&host);
    assert_eq!(problems(&document), "");
    assert_eq!(findings(&document), [""; 0]);
    let add = &document["paths"]["/app/add"]["post"];
    assert_eq!(add["summary"], "app: Adds two vectors");
    let schema = &add["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(schema, &json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}));
    let answered = &add["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(answered, &json!({"type": "array", "items": {"type": "number"}}));
    // What refers to a place in the schema itself refers to one in the document.
    let content = &document["paths"]["/app/later"]["post"]["requestBody"]["content"]["application/json"];
    let place = |name: &str| json!({"$ref": format!("#/components/schemas/app.post.later.input{name}")});
    assert_eq!(content["schema"], place(""));
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["app.post.later.input"]["anyOf"][0], place(".Tree"));
    assert_eq!(schemas["app.post.later.input.Tree"]["properties"]["below"], place(".Tree"));
    let items = &document["paths"]["/app/items/{id}"];
    let methods: Vec<&String> = items.as_object().unwrap().keys().collect();
    assert_eq!(methods, ["delete", "get"]);
    let parameter = json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}});
    assert_eq!(items["get"]["parameters"], json!([parameter]));
    // One of the server's paths is where it was given.
    let events = &document["paths"]["/count/{to}"]["get"]["responses"]["200"]["content"];
    assert_eq!(events, &json!({"text/event-stream": {}}));
    let silent = &document["paths"]["/deep/other"]["get"];
    assert!(silent["description"].as_str().unwrap().contains("does not say which"), "{silent}");
    // Neither is called by tensors.
    for path in ["/v2/models/app/infer", "/v1/models/app:predict", "/app"] {
        assert_eq!(document["paths"][path], Value::Null, "{path}");
    }
    assert_eq!(host.get("/docs/").status, 200);
}
