//! Keys: who is let in, by which ways, and that nobody learns them.

use std::fs;
use std::process::Command;

use e2e::setup::{Endpoint, Setup};
use e2e::tls::Pair;
use e2e::{Host, clients, component, host, model, request, serve_command};

const KEY: &str = "k3y-of-the-endpoint";
const OTHER: &str = "the-other-0ne";

/// Headers that show a key in one of its forms.
fn bearer(key: &str) -> Vec<(&'static str, String)> {
    vec![("authorization", format!("Bearer {key}"))]
}

/// Every way to the endpoint `locked`, by each protocol.
const WAYS: [(&str, &str); 15] = [
    ("POST", "/locked"),
    ("GET", "/locked"),
    ("HEAD", "/locked"),
    ("GET", "/locked/signature"),
    ("GET", "/v2/models/locked"),
    ("GET", "/v2/models/locked/ready"),
    ("GET", "/v2/models/locked/config"),
    ("GET", "/v2/models/locked/versions/1/stats"),
    ("POST", "/v2/models/locked/infer"),
    ("POST", "/v2/models/%6cocked/infer"),
    ("POST", "/v2/repository/models/locked/load"),
    ("GET", "/v1/models/locked"),
    ("GET", "/v1/models/locked/metadata"),
    ("GET", "/v1/models/locked/loaded"),
    ("POST", "/v1/models/locked:predict"),
];

fn call(host: &Host, method: &str, path: &str, headers: &[(&'static str, String)]) -> e2e::Reply {
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    host.request(method, path, &headers, if method == "POST" { b"hello" } else { b"" })
}

#[test]
fn every_way_to_an_endpoint_wants_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    fs::write(&file, format!("# two of them\n{OTHER}\n{KEY}\n")).unwrap();
    let locked = Endpoint::new("locked").guest("echo").set(format!("keys = ['@{}']", file.display()));
    let host = Setup::of([locked, Endpoint::new("open").guest("echo")])
        .tables("[server]\nmodel_control = true\n[log]\nlevel = 'trace'")
        .serve();
    let shown = |key: &str| {
        [
            bearer(key),
            vec![("authorization", format!("Api-Key {key}"))],
            vec![("x-banana-api-key", key.to_owned())],
        ]
    };
    for (method, path) in WAYS {
        let mut wrong = vec![Vec::new(), vec![("authorization", KEY.to_owned())]];
        for key in ["k3y-of-the-endpoin", "k3y-of-the-endpoint2", "K3Y-OF-THE-ENDPOINT", "# two of them"] {
            wrong.extend(shown(key));
        }
        for headers in wrong {
            let reply = call(&host, method, path, &headers);
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{method} {path} {headers:?}");
            assert_eq!(reply.status, 401, "{method} {path} {headers:?}");
            if method != "HEAD" {
                let text = reply.error(401, "unauthorized", "admit");
                assert_eq!(text, "`locked` requires a key: send `authorization: Bearer KEY`");
            }
        }
        for headers in shown(KEY).into_iter().chain(shown(OTHER)) {
            let reply = call(&host, method, path, &headers);
            // Let in, whatever the protocol then says to such a body.
            assert!(matches!(reply.status, 200 | 400), "{method} {path} {headers:?}: {}", reply.text());
            assert!(reply.status == 200 || path.starts_with("/v"), "{method} {path}: {}", reply.text());
        }
        // A neighbour without keys asks for none.
        assert_ne!(call(&host, method, &path.replace("ocked", "pen").replace("/l", "/o"), &[]).status, 401);
    }
    let refused = host.metric(r#"modelhost_requests_total{endpoint="locked",outcome="unauthorized"}"#);
    assert_eq!(refused, (14 * WAYS.len()) as f64, "each that was refused is counted once");
    // What a browser asks first cannot show a key; health, metrics and lists need none.
    assert_eq!(call(&host, "OPTIONS", "/locked", &[]).status, 204);
    for path in ["/healthz", "/v2/health/ready", "/metrics", "/v2", "/v1/models"] {
        assert_eq!(host.get(path).status, 200, "{path}");
    }
    assert_eq!(host.post("/v2/repository/index", "{}").status, 200);
    // The operator needs no key of the endpoint's.
    let url = format!("{}/v2/models/locked", host.admin);
    assert_eq!(request("GET", &url, &[], b"").status, 200);
    // Nobody is told a key that was shown, right or wrong.
    host.wait_for_log("unauthorized");
    for secret in [KEY, OTHER, "k3y-of-the-endpoin"] {
        assert!(!host.log().contains(secret), "{}", host.log());
    }
}

#[test]
fn a_handler_does_not_see_the_key() {
    let echo = component("tests/echo");
    let keys = format!("env:{}", "MODELHOST_TEST_KEY");
    let mut command = serve_command(&["--plugin", echo.to_str().unwrap(), "--key", &keys]);
    command.env("MODELHOST_TEST_KEY", KEY);
    let host = Host::try_start(command).unwrap_or_else(|(_, log)| panic!("{log}"));
    for headers in [bearer(KEY), vec![("x-banana-api-key", KEY.to_owned())]] {
        let reply = call(&host, "POST", "/", &[headers, vec![("x-test", "seen".to_owned())]].concat());
        assert_eq!(reply.json()["header"], "seen");
        assert!(reply.json()["credentials"] == serde_json::json!([null, null]), "{}", reply.text());
        assert!(!reply.text().contains(KEY));
    }
    // Without keys of ours the headers are the handler's own business.
    let host = Host::serve(&["--plugin", echo.to_str().unwrap()]);
    let reply = call(&host, "POST", "/", &bearer(KEY));
    assert_eq!(reply.json()["credentials"][0], format!("Bearer {KEY}"));
}

#[test]
fn a_file_with_keys_is_not_in_the_project() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("keys"), KEY).unwrap();
    fs::write(folder.path().join("note"), "for all").unwrap();
    let (project, plugin) = (folder.path().to_str().unwrap(), component("tests/files"));
    let keys = format!("@{project}/keys");
    let host = Host::with(Some(&plugin), None, &["--project", project, "--key", &keys]);
    let read = |name: &str| {
        let authorization = format!("Bearer {KEY}");
        let path = format!("/mnt/project/{name}");
        host.request("POST", "/", &[("authorization", &authorization)], path.as_bytes()).json()
    };
    assert_eq!(read("note")["ok"], "for all");
    assert!(read("keys")["ok"].is_null() && !read("keys").to_string().contains(KEY), "{}", read("keys"));
}

#[test]
fn the_operator_has_a_key_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("operator");
    fs::write(&file, OTHER).unwrap();
    let keys = format!("@{}", file.display());
    let host = Host::with(None, Some(&model("add")), &["--admin-key", &keys]);
    let ask = |method: &str, path: &str, key: Option<&str>| {
        let value = key.map(|key| format!("Bearer {key}"));
        let headers: Vec<_> = value.iter().map(|value| ("authorization", value.as_str())).collect();
        request(method, &format!("{}{path}", host.admin), &headers, b"")
    };
    let orders = "/admin/v1/endpoints/add/models/default";
    for (method, path) in [
        ("GET", "/admin/v1/endpoints".to_owned()),
        ("POST", format!("{orders}/load")),
        ("POST", format!("{orders}/unload")),
        ("GET", "/metrics".to_owned()),
        ("GET", "/nothing".to_owned()),
    ] {
        for key in [None, Some(KEY)] {
            let reply = ask(method, &path, key);
            reply.error(401, "unauthorized", "admit");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
        let expected = if path == "/nothing" { 404 } else { 200 };
        assert_eq!(ask(method, &path, Some(OTHER)).status, expected, "{method} {path}");
        if path.ends_with("unload") {
            ask("POST", &format!("{orders}/load"), Some(OTHER));
        }
    }
    for path in ["/healthz", "/v2/health/live", "/v2/health/ready"] {
        assert_eq!(ask("GET", path, None).status, 200, "{path}");
    }
    // It is no key of the endpoint, which has none.
    assert_eq!(host.post("/add", r#"{"a":[1,2],"b":[3,4]}"#).status, 200);
}

#[test]
fn a_key_that_is_written_out_is_refused_and_not_repeated() {
    let plugin = component("tests/echo");
    let plugin = plugin.to_str().unwrap();
    for flag in ["--key", "--admin-key"] {
        let output = host(&["serve", "--plugin", plugin, flag, KEY]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(&format!("{flag}: names no source of a key; hint: ")), "{text}");
        assert!(!text.contains(KEY), "{text}");
    }
    let output = Command::new(e2e::host_binary())
        .args(["serve", "--plugin", plugin])
        .env("MODELHOST_KEY", KEY)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("MODELHOST_KEY: names no source of a key") && !text.contains(KEY), "{text}");
}

#[test]
fn grpc_wants_the_key_too_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::in_folder(folder.path());
    let file = folder.path().join("keys");
    fs::write(&file, KEY).unwrap();
    let (plugin, keys) = (component("tests/orders"), format!("@{}", file.display()));
    let mut arguments = vec!["--plugin", plugin.to_str().unwrap(), "--key", &keys, "--model-control"];
    arguments.extend(["--grpc-listen", "127.0.0.1:0", "--idle-timeout", "500ms"]);
    arguments.extend(pair.flags());
    let host = Host::serve(&arguments);
    let address = host.grpc.clone().unwrap();
    let (_, port) = address.rsplit_once(':').unwrap();
    clients::run("grpc_keys", &[port, pair.certificate.to_str().unwrap(), KEY]);
    assert!(!host.log().contains(KEY), "{}", host.log());
}
