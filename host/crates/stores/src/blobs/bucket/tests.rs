//! The store in a bucket against a server that answers what a test says: what is no success, what never ends,
//! and what a quota counts.

mod content;
mod platforms;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::blobs::{Backend, EndpointBlobs, Store};

const QUOTA: Quota = Quota { bytes: 1000, objects: 10, size: 64 << 20 };
const WAIT: Duration = Duration::from_secs(1);

/// The answer to a method and a target: `200 OK`, with lines of headers if it needs some, and a body; `None`:
/// nothing.
type Say = dyn Fn(&str, &str) -> Option<(&'static str, String)> + Send + Sync;

/// The server's port. Its thread ends with the process.
fn serve(say: Arc<Say>) -> u16 {
    serve_heads(Arc::new(move |head: &str| {
        let mut words = head.split(' ');
        say(words.next().unwrap(), words.next().unwrap_or_default())
    }))
}

/// The answer to a head, in lower case.
type SayOfHead = dyn Fn(&str) -> Option<(&'static str, String)> + Send + Sync;

fn serve_heads(say: Arc<SayOfHead>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, say) = (stream.unwrap(), say.clone());
            thread::spawn(move || {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap().to_lowercase();
                let length = head.split_once("content-length: ").map_or("0", |(_, rest)| rest);
                let length = length.lines().next().unwrap().parse().unwrap();
                std::io::copy(&mut (&mut stream).take(length), &mut std::io::sink()).unwrap();
                let method = head.split(' ').next().unwrap();
                match say(&head) {
                    Some((status, body)) => {
                        let length = body.len();
                        let body = if method == "head" { "" } else { &body };
                        let mut head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
                        for (name, value) in [("etag", "e"), ("content-length", &length.to_string())] {
                            if !status.contains(&format!("{name}: ")) {
                                head += &format!("{name}: {value}\r\n");
                            }
                        }
                        let _ = write!(stream, "{head}\r\n{body}");
                    }
                    None => thread::sleep(WAIT * 8),
                }
            });
        }
    });
    port
}

/// A container in a bucket behind such a server. The first listing, of the start, is answered by itself.
async fn opened(
    say: impl Fn(&str, &str) -> Option<(&'static str, String)> + Send + Sync + 'static,
) -> Opened {
    let say = move |method: &str, target: &str| match target.ends_with("max-keys=1") {
        true => listing(""),
        false => say(method, target),
    };
    open_at(at(serve(Arc::new(say)))).await
}

/// A bucket of S3 behind this port, with a key.
fn at(port: u16) -> BucketPlace {
    let key = "k".to_owned();
    BucketPlace {
        server: Some(format!("http://127.0.0.1:{port}")),
        region: "us-east-1".to_owned(),
        timeout: WAIT,
        credentials: Some(Credentials { access_key: key.clone(), secret_key: key, session_token: None }),
        ..BucketPlace::parse("s3://bucket").unwrap()
    }
}

async fn open_at(place: BucketPlace) -> Opened {
    open_in(place, &|_| None).await
}

/// The same with these variables in the environment.
async fn open_in(place: BucketPlace, variables: Variables<'_>) -> Opened {
    let bucket = Bucket::open_in(&place, variables).await.unwrap();
    let store = Arc::new(Store(Backend::Bucket(Arc::new(bucket))));
    let blobs = EndpointBlobs::new(store.clone(), "it", &["a".to_owned()], QUOTA);
    Opened { container: blobs.open("a").unwrap(), blobs, store }
}

struct Opened {
    store: Arc<Store>,
    blobs: EndpointBlobs,
    container: Container,
}

impl Opened {
    async fn write(&self, name: &str, length: usize) -> Result<(), BlobError> {
        let mut writer = self.blobs.write(&self.container, name).await?;
        writer.write(Bytes::from(vec![0; length])).await?;
        writer.finish().await
    }
}

fn ok(body: &str) -> Option<(&'static str, String)> {
    Some(("200 OK", body.to_owned()))
}

/// A page of a listing with these elements.
fn listing(elements: &str) -> Option<(&'static str, String)> {
    ok(&format!("<?xml version=\"1.0\"?>\n<ListBucketResult>{elements}</ListBucketResult>\n"))
}

const UPLOAD: &str = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
const COMPLETE: &str =
    "<CompleteMultipartUploadResult xmlns=\"x\"><ETag>e</ETag></CompleteMultipartUploadResult>";

/// An object of a listing.
fn object(name: &str, size: u64) -> String {
    let time = "<LastModified>2026-11-28T12:00:00.000Z</LastModified>";
    format!("<Contents><Key>own/it/a/{name}</Key>{time}<Size>{size}</Size></Contents>")
}

fn missing() -> Option<(&'static str, String)> {
    Some(("404 Not Found", String::new()))
}

#[tokio::test]
async fn the_end_of_an_upload_is_a_success_only_if_the_server_says_so() {
    for (answer, expected) in [
        (COMPLETE, None),
        ("<Error><Code>InternalError</Code></Error>", Some("the server returned 200 InternalError")),
        ("", Some("the server sent an unexpected response")),
        ("<html>a proxy's page</html>", Some("the server sent an unexpected response")),
    ] {
        let it = opened(move |method, target| match method {
            "post" if target.contains("uploads=") => ok(UPLOAD),
            "post" => ok(answer),
            "head" => missing(),
            _ => listing(""),
        });
        let mut it = it.await;
        it.blobs.quota.bytes = u64::MAX;
        let outcome = it.write("k", PART + 1).await;
        let expected = expected.map_or(Ok(()), |text| Err(BlobError::Unavailable(text.to_owned())));
        assert_eq!(outcome, expected, "{answer}");
    }
}

#[tokio::test]
async fn a_listing_that_repeats_itself_ends() {
    let token = "<NextContinuationToken>t</NextContinuationToken>";
    let it = opened(move |method, _| if method == "head" { missing() } else { listing(token) }).await;
    let again = Err(BlobError::Unavailable("the server lists the same page again".to_owned()));
    assert_eq!(it.blobs.clear(&it.container).await, again);
    assert_eq!(it.write("k", 1).await, again);
}

#[tokio::test]
async fn what_is_no_listing_is_no_empty_container() {
    for answer in ["", "<html>a proxy's page</html>", "<ListBucketResult><Contents><Size>6</Size></Contents>"]
    {
        let it = opened(move |method, _| if method == "head" { missing() } else { ok(answer) }).await;
        let other = BlobError::Unavailable("the server sent an unexpected response".to_owned());
        assert_eq!(it.blobs.list(&it.container, None).await, Err(other.clone()), "{answer}");
        assert_eq!(it.write("k", 1).await, Err(other), "{answer}");
    }
}

/// A server tells its clients to come again.
#[tokio::test]
async fn what_a_server_has_no_time_for_is_sent_again() {
    for (failure, passes) in [
        (Some(("503 Slow Down", "<Error><Code>SlowDown</Code></Error>")), true),
        (Some(("500 Internal Server Error", "<Error><Code>InternalError</Code></Error>")), true),
        (Some(("502 Bad Gateway", "")), true),
        (Some(("429 Too Many Requests", "")), true),
        (Some(("501 Not Implemented", "")), false),
        (Some(("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>")), false),
    ] {
        let asked = Arc::<Mutex<HashMap<String, usize>>>::default();
        let counted = asked.clone();
        let it = opened(move |method, target| {
            // Each request twice, then well.
            let mut asked = counted.lock().unwrap();
            let times = asked.entry(format!("{method} {target}")).or_default();
            *times += 1;
            match failure {
                Some((status, body)) if *times <= 2 => Some((status, body.to_owned())),
                _ if method == "post" && target.contains("uploads=") => ok(UPLOAD),
                // It begins well and does not end so.
                _ if method == "post" && *times == 3 => ok("<Error><Code>InternalError</Code></Error>"),
                _ if method == "post" => ok(COMPLETE),
                _ if method == "get" && target.contains("list-type") => listing(""),
                _ => ok("content"),
            }
        });
        let mut it = it.await;
        it.blobs.quota.bytes = u64::MAX;
        let read = it.blobs.read(&it.container, "k", 0, u64::MAX).await;
        let done = [
            read.map(|(size, _)| assert_eq!(size, 7)),
            it.blobs.info(&it.container, "k").await.map(drop),
            it.blobs.list(&it.container, None).await.map(drop),
            it.blobs.delete(&it.container, &["k".to_owned()]).await,
            it.write("k", 1).await,
            it.write("k", PART + 1).await,
        ];
        let asked = asked.lock().unwrap();
        match passes {
            true => {
                assert_eq!(done, [const { Ok(()) }; 6], "{failure:?}");
                assert!(asked.len() > 8 && asked.values().all(|times| *times >= 3), "{asked:?}");
                assert_eq!(it.store.is_reachable(), Some(true));
            }
            false => assert!(done.iter().all(Result::is_err), "{failure:?} {done:?}"),
        }
        // Once for each that was wanted, or twice where a write looks for the same.
        assert!(passes || asked.values().all(|times| *times <= 3), "{asked:?}");
    }
}

/// A handler is not kept waiting for that.
#[tokio::test]
async fn what_a_server_has_no_time_for_at_all_ends() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let it = opened(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        Some(("503 Slow Down", "<Error><Code>SlowDown</Code></Error>".to_owned()))
    });
    let it = it.await;
    let begun = Instant::now();
    let read = it.blobs.read(&it.container, "k", 0, u64::MAX).await.map(drop);
    assert_eq!(read, Err(BlobError::Unavailable("the server returned 503 SlowDown".to_owned())));
    assert!(begun.elapsed() < WAIT * 2, "{:?}", begun.elapsed());
    assert!((2..=5).contains(&asked.load(Ordering::SeqCst)));
    assert_eq!(it.store.is_reachable(), Some(false));
}

/// Another program writes the next key before the one that is used ends.
#[tokio::test]
async fn a_key_that_has_ended_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    let (is_over, signed) = (Arc::<Mutex<bool>>::default(), Arc::<Mutex<Vec<String>>>::default());
    let (over, noted) = (is_over.clone(), signed.clone());
    let port = serve_heads(Arc::new(move |head: &str| {
        let key = head.split_once("credential=").unwrap().1.split('/').next().unwrap().to_owned();
        let is_refused = *over.lock().unwrap() && key == "first";
        noted.lock().unwrap().push(key);
        match is_refused {
            true if head.starts_with("head") => Some(("400 Bad Request", String::new())),
            true => Some(("400 Bad Request", "<Error><Code>ExpiredToken</Code></Error>".to_owned())),
            false if head.contains("list-type") => listing(""),
            false => ok("content"),
        }
    }));
    let key = |name: &str| Credentials {
        access_key: name.to_owned(),
        secret_key: "hush".to_owned(),
        session_token: Some("token".to_owned()),
    };
    for (name, text) in [("name", "first"), ("secret", "hush"), ("token", "token")] {
        write(name, text);
    }
    let it = open_at(BucketPlace {
        credentials: Some(key("first")),
        credential_files: CredentialFiles {
            access_key: Some(path("name")),
            secret_key: Some(path("secret")),
            session_token: Some(path("token")),
        },
        ..at(port)
    });
    let it = it.await;
    *is_over.lock().unwrap() = true;
    // No other one has been written yet.
    assert!(it.blobs.info(&it.container, "k").await.is_err());
    assert_eq!(it.store.is_reachable(), Some(false));
    write("name", "second");
    // A HEAD is refused without a code.
    let found = async {
        while it.blobs.info(&it.container, "k").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(WAIT * 10, found).await.unwrap();
    assert!(it.blobs.read(&it.container, "k", 0, u64::MAX).await.is_ok());
    assert_eq!(it.store.is_reachable(), Some(true));
    let signed = signed.lock().unwrap();
    assert_eq!(signed.last().unwrap(), "second");
    assert_eq!(signed.iter().filter(|key| *key == "second").count(), 2, "{signed:?}");
}

/// A key that has expired is no matter of the one request.
#[tokio::test]
async fn credentials_that_are_refused_make_the_store_unreachable() {
    for (status, body, expected) in [
        ("403 Forbidden", "<Error><Code>InvalidAccessKeyId</Code></Error>", false),
        ("403 Forbidden", "<Error><Code>AuthorizationFailure</Code></Error>", false),
        ("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>", true),
        ("400 Bad Request", "<Error><Code>ExpiredToken</Code></Error>", false),
        ("400 Bad Request", "", false),
        ("400 Bad Request", "<Error><Code>EntityTooLarge</Code></Error>", true),
        ("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>", true),
        ("503 Slow Down", "<Error><Code>SlowDown</Code></Error>", false),
    ] {
        let it = opened(move |method, target| match method {
            "get" if target.contains("list-type") => listing(""),
            _ => Some((status, body.to_owned())),
        });
        let it = it.await;
        let _ = it.blobs.read(&it.container, "k", 0, u64::MAX).await;
        assert_eq!(it.store.is_reachable(), Some(expected), "{status} {body}");
    }
}

/// Those who write or remove the same object at the same time do not each get back its bytes.
#[tokio::test]
async fn what_is_replaced_or_removed_is_known_by_the_next_listing() {
    let listings = Arc::new(AtomicUsize::new(0));
    let counted = listings.clone();
    let it = opened(move |method, _| match method {
        "get" => {
            counted.fetch_add(1, Ordering::SeqCst);
            listing(&object("k", 600))
        }
        _ => ok(&"x".repeat(600)),
    });
    let it = it.await;
    let mut writers = Vec::new();
    for _ in 0..4 {
        let mut writer = it.blobs.write(&it.container, "k").await.unwrap();
        writer.write(Bytes::from_static(&[0; 100])).await.unwrap();
        writers.push(writer);
    }
    for writer in writers {
        writer.finish().await.unwrap();
    }
    it.blobs.delete(&it.container, &["k".to_owned()]).await.unwrap();
    assert_eq!(listings.load(Ordering::SeqCst), 1, "what has room is not listed for");
    // 600 were there, 400 have been written: it is listed again, and 400 have room beside what it finds.
    it.write("k", 400).await.unwrap();
    assert_eq!(listings.load(Ordering::SeqCst), 2);
    assert!(matches!(it.write("k", 401).await, Err(BlobError::Limit(_))));
    assert_eq!(listings.load(Ordering::SeqCst), 3);
    // Nothing has changed since.
    assert!(matches!(it.write("k", 401).await, Err(BlobError::Limit(_))));
    assert_eq!(listings.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn those_who_wait_for_a_listing_have_its_failure() {
    let listings = Arc::new(AtomicUsize::new(0));
    let counted = listings.clone();
    let it = opened(move |method, _| match method {
        "get" => {
            counted.fetch_add(1, Ordering::SeqCst);
            None
        }
        _ => missing(),
    });
    let it = Arc::new(it.await);
    let begun = Instant::now();
    let writes = (0..8).map(|number: i32| {
        let it = it.clone();
        tokio::spawn(async move { it.write(&number.to_string(), 1).await })
    });
    for write in writes.collect::<Vec<_>>() {
        assert!(matches!(write.await.unwrap(), Err(BlobError::Unavailable(_))));
    }
    assert!(begun.elapsed() < WAIT * 3, "{:?}", begun.elapsed());
    assert_eq!(listings.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn one_endpoint_leaves_places_to_others() {
    let it = opened(|_, _| ok("content")).await;
    let other = EndpointBlobs::new(it.store.clone(), "other", &["a".to_owned()], QUOTA);
    let mut readers = Vec::new();
    for _ in 0..READERS.1 {
        readers.push(it.blobs.read(&it.container, "k", 0, u64::MAX).await.unwrap());
    }
    let full = it.blobs.read(&it.container, "k", 0, u64::MAX).await;
    assert!(matches!(full, Err(BlobError::Limit(_))));
    assert!(other.read(&other.open("a").unwrap(), "k", 0, u64::MAX).await.is_ok());
    assert_eq!(it.store.is_reachable(), Some(true));
    // One that has come to its end holds no place.
    let (_, reader) = readers.first_mut().unwrap();
    while reader.next().await.unwrap().is_some() {}
    assert!(it.blobs.read(&it.container, "k", 0, u64::MAX).await.is_ok());
}
