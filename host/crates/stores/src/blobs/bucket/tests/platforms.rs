//! Credentials that a platform gives out for a while, and the other clouds, against servers of a test's own.

use std::sync::atomic::AtomicBool;

use super::*;

/// The answer of a server of Amazon's credentials about the key of this number, which lasts so many seconds.
fn key(number: usize, seconds: u64) -> (String, String, String) {
    let end = std::time::SystemTime::now() + Duration::from_secs(seconds);
    let end = humantime::format_rfc3339_seconds(end).to_string();
    (format!("key-{number}"), format!("token-{number}"), end)
}

fn in_json(number: usize, seconds: u64) -> String {
    let (key, token, end) = key(number, seconds);
    format!(r#"{{"AccessKeyId":"{key}","SecretAccessKey":"hush","Token":"{token}","Expiration":"{end}"}}"#)
}

fn in_xml(number: usize, seconds: u64) -> String {
    let (key, token, end) = key(number, seconds);
    format!(
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
         <AccessKeyId>{key}</AccessKeyId><SecretAccessKey>hush</SecretAccessKey>\
         <SessionToken>{token}</SessionToken><Expiration>{end}</Expiration></Credentials>\
         </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
    )
}

/// The names of the keys by which the requests to the store were signed, each with its token.
type Signed = Arc<Mutex<Vec<(String, String)>>>;

/// A store, and on the same port one that gives out keys: the first for a minute, which is too short to be
/// used for long, the others for an hour. `give` says its path and how it writes a key.
fn serve_keys(
    give: impl Fn(&str) -> Option<fn(usize, u64) -> String> + Send + Sync + 'static,
) -> (u16, Signed, Arc<AtomicUsize>) {
    let (signed, given) = (Signed::default(), Arc::new(AtomicUsize::new(0)));
    let (noted, counted) = (signed.clone(), given.clone());
    let port = serve_heads(Arc::new(move |head: &str| {
        if let Some(text) = give(head) {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            return Some(("200 OK", text(number, if number == 1 { 60 } else { 3600 })));
        }
        let Some((_, credential)) = head.split_once("credential=") else {
            // Of the machine's metadata service.
            return ok(if head.starts_with("put ") { "session" } else { "role" });
        };
        let token = head.lines().find_map(|line| line.strip_prefix("x-amz-security-token: "));
        let name = credential.split('/').next().unwrap().to_owned();
        noted.lock().unwrap().push((name, token.unwrap_or_default().to_owned()));
        if head.contains("list-type") { listing("") } else { ok("content") }
    }));
    (port, signed, given)
}

/// A key is renewed before it ends, once, and each request is signed by the one that lasts.
async fn assert_renewed(
    port: u16,
    (signed, given): (Signed, Arc<AtomicUsize>),
    variables: &[(&str, String)],
) {
    let variables =
        |name: &str| variables.iter().find(|(its, _)| *its == name).map(|(_, value)| value.clone());
    let place = BucketPlace { credentials: None, ..at(port) };
    let it = open_in(place, &variables).await;
    // Longer than a token is kept although it ends soon.
    tokio::time::sleep(Duration::from_millis(150)).await;
    for _ in 0..3 {
        assert!(it.blobs.info(&it.container, "k").await.unwrap().is_some());
    }
    let pair = |number: usize| (format!("key-{number}"), format!("token-{number}"));
    assert_eq!(*signed.lock().unwrap(), [pair(1), pair(2), pair(2), pair(2)]);
    assert_eq!(given.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_pod_of_eks_has_its_key_for_a_token_of_its_service_account() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "a-pods-token").unwrap();
    let (port, signed, given) = serve_keys(|head| {
        let is_it = head.contains("action=assumerolewithwebidentity");
        assert_eq!(is_it, head.contains("webidentitytoken=a-pods-token"), "{head}");
        is_it.then_some(in_xml)
    });
    let variables = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap().to_owned()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/host".to_owned()),
        ("AWS_ENDPOINT_URL_STS", format!("http://127.0.0.1:{port}")),
    ];
    assert_renewed(port, (signed, given), &variables).await;
}

#[tokio::test]
async fn a_task_has_its_key_from_the_agent_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "a-tasks-token").unwrap();
    let (port, signed, given) = serve_keys(|head| {
        let is_it = head.starts_with("get /v1/credentials ");
        assert_eq!(is_it, head.contains("authorization: a-tasks-token"), "{head}");
        is_it.then_some(in_json)
    });
    let variables = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("http://127.0.0.1:{port}/v1/credentials")),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap().to_owned()),
    ];
    assert_renewed(port, (signed, given), &variables).await;
}

#[tokio::test]
async fn a_machine_has_its_key_from_its_metadata_service() {
    let (port, signed, given) = serve_keys(|head| {
        let is_it = head.starts_with("get /latest/meta-data/iam/security-credentials/role ");
        assert!(!is_it || head.contains("x-aws-ec2-metadata-token: session"), "{head}");
        is_it.then_some(in_json)
    });
    let variables = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("http://127.0.0.1:{port}"))];
    assert_renewed(port, (signed, given), &variables).await;
}

/// A key of the operator's is the one that is used, also where the platform would give one.
#[tokio::test]
async fn a_key_of_the_operators_comes_before_the_platforms() {
    let (port, signed, given) = serve_keys(|_| None);
    let variables = |_: &str| Some(format!("http://127.0.0.1:{port}"));
    let it = open_in(at(port), &variables).await;
    assert!(it.blobs.info(&it.container, "k").await.is_ok());
    assert!(signed.lock().unwrap().iter().all(|(name, token)| name == "k" && token.is_empty()));
    assert_eq!(given.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_role_that_is_refused_ends_the_start() {
    let port = serve(Arc::new(|_, _| {
        Some(("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>".to_owned()))
    }));
    let variables = |name: &str| match name {
        "AWS_WEB_IDENTITY_TOKEN_FILE" => Some("/dev/null".to_owned()),
        "AWS_ENDPOINT_URL_STS" => Some(format!("http://127.0.0.1:{port}")),
        "AWS_ROLE_ARN" => Some("arn:aws:iam::1:role/host".to_owned()),
        _ => None,
    };
    let place = BucketPlace { credentials: None, ..at(port) };
    let error = Bucket::open_in(&place, &variables).await.err().unwrap();
    assert_eq!(error.why, "the server has answered 403 AccessDenied");
    assert!(error.hint.contains("role"), "{}", error.hint);
}

/// A machine of Azure's, and an account's key, which is replaced.
#[tokio::test]
async fn azure_takes_tokens_of_the_machine_and_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("b25l");
    let (refuses, seen) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<String>>>::default());
    let (refused, noted) = (refuses.clone(), seen.clone());
    let port = serve_heads(Arc::new(move |head: &str| {
        if head.starts_with("get /identity?") {
            return ok(r#"{"access_token":"a-machines-token","expires_on":"9999999999"}"#);
        }
        let authorization = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap();
        noted.lock().unwrap().push(authorization.to_owned());
        if refused.swap(false, Ordering::SeqCst) {
            let body = "<?xml version=\"1.0\"?><Error><Code>AuthenticationFailed</Code></Error>";
            return Some(("403 Server failed to authenticate the request", body.to_owned()));
        }
        let page = "<EnumerationResults><Blobs></Blobs><NextMarker /></EnumerationResults>";
        match head.contains("comp=list") {
            true => ok(page),
            false => Some(("200 OK\r\nlast-modified: Sat, 28 Nov 2026 12:00:00 GMT", "content".to_owned())),
        }
    }));
    let place = |key: Option<&str>| BucketPlace {
        account: "fleet".to_owned(),
        server: Some(format!("http://127.0.0.1:{port}")),
        timeout: WAIT,
        credentials: key.map(|key| Credentials {
            access_key: String::new(),
            secret_key: key.to_owned(),
            session_token: None,
        }),
        credential_files: CredentialFiles { secret_key: Some(file.clone()), ..CredentialFiles::default() },
        ..BucketPlace::parse("az://objects").unwrap()
    };
    let variables =
        |name: &str| (name == "IDENTITY_ENDPOINT").then(|| format!("http://127.0.0.1:{port}/identity"));
    let it = open_in(place(None), &variables).await;
    let info = it.blobs.info(&it.container, "k").await.unwrap().unwrap();
    assert_eq!((info.size, info.created), (7, 1_795_867_200));
    assert!(seen.lock().unwrap().drain(..).all(|one| one == "bearer a-machines-token"));

    let it = open_at(place(Some("b25l"))).await;
    // Looked at just now: not again before half a second is over.
    tokio::time::sleep(Duration::from_millis(600)).await;
    write("dHdv");
    refuses.store(true, Ordering::SeqCst);
    assert!(it.blobs.info(&it.container, "k").await.unwrap().is_some());
    assert!(seen.lock().unwrap().iter().all(|one| one.starts_with("sharedkey fleet:")));
    assert_eq!(seen.lock().unwrap().len(), 3, "a listing, a refusal, and again");
    let refused = Bucket::open_in(&place(Some("no base64")), &|_| None).await.err().unwrap();
    assert!(!format!("{refused:?}").contains("no base64"), "{refused:?}");
}

#[tokio::test]
async fn google_is_asked_by_the_file_of_a_service_account() {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let noted = seen.clone();
    let port = serve_heads(Arc::new(move |head: &str| {
        noted.lock().unwrap().push(head.lines().next().unwrap().to_owned());
        match head.contains("list-type=2") {
            true => listing(&object("k", 7)),
            false => Some(("200 OK\r\nlast-modified: Sat, 28 Nov 2026 12:00:00 GMT", "content".to_owned())),
        }
    }));
    let file = r#"{"private_key":"p","private_key_id":"i","client_email":"e","disable_oauth":true}"#;
    let place = |file: &str| BucketPlace {
        server: Some(format!("http://127.0.0.1:{port}")),
        timeout: WAIT,
        credentials: Some(Credentials {
            access_key: String::new(),
            secret_key: file.to_owned(),
            session_token: None,
        }),
        ..BucketPlace::parse("gs://objects").unwrap()
    };
    let it = open_at(place(file)).await;
    assert_eq!(it.blobs.info(&it.container, "k").await.unwrap().unwrap().size, 7);
    assert_eq!(it.blobs.list(&it.container, None).await, Ok((vec!["k".to_owned()], None)));
    let seen = seen.lock().unwrap().clone();
    assert!(seen.iter().any(|line| line.starts_with("head /objects/own%2fit%2fa%2fk ")), "{seen:?}");
    let refused = Bucket::open_in(&place("hush"), &|_| None).await.err().unwrap();
    assert!(!format!("{refused:?}").contains("hush"), "{refused:?}");
}
