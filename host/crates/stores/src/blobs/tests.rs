//! The store in a folder without a guest: what is found again, what is not, and how much waits in memory.

use std::fs;
use std::path::Path;

use super::*;

const QUOTA: Quota = Quota { bytes: 10 << 20, objects: 10, size: 8 << 20 };

async fn opened(folder: &Path) -> EndpointBlobs {
    let store = Store::open(&Place::Folder(folder.to_owned())).await.unwrap();
    EndpointBlobs::new(Arc::new(store), "it", &["a".to_owned(), "shared/b".to_owned()], QUOTA)
}

async fn write(
    blobs: &EndpointBlobs,
    container: &Container,
    name: &str,
    content: &str,
) -> Result<(), BlobError> {
    let mut writer = blobs.write(container, name).await?;
    writer.write(Bytes::copy_from_slice(content.as_bytes())).await?;
    writer.finish().await
}

async fn content(blobs: &EndpointBlobs, container: &Container, name: &str) -> Option<String> {
    let (size, mut reader) = blobs.read(container, name, 0, u64::MAX).await.ok()?;
    let mut all = Vec::new();
    while let Some(piece) = reader.next().await.unwrap() {
        all.extend_from_slice(&piece);
    }
    assert_eq!(size, all.len() as u64);
    Some(String::from_utf8(all).unwrap())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn what_is_whole_is_found_again_and_what_is_not_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    {
        let blobs = opened(folder.path()).await;
        for (container, name) in [("a", "k"), ("a", "../l"), ("shared/b", "k")] {
            let container = blobs.open(container).unwrap();
            write(&blobs, &container, name, &format!("{name} of {}", container.name())).await.unwrap();
        }
        let mut half = blobs.write(&blobs.open("a").unwrap(), "half").await.unwrap();
        half.write(Bytes::from_static(b"some")).await.unwrap();
        // The end of the process: nothing tidies up.
        std::mem::forget(half);
    }
    let own = files(&folder.path().join("own"));
    assert_eq!(own.len(), 2);
    // What is cut short, no object, or in the place of another one.
    fs::write(own[0].with_file_name("stray"), "x").unwrap();
    fs::write(own[0].with_file_name("other"), "mhobject\x01\0k").unwrap();
    fs::write(own[0].with_file_name("short"), "mhobject\x09\0k").unwrap();
    // The lock is of the store that was forgotten in part.
    fs::remove_file(folder.path().join("lock")).unwrap();
    let blobs = opened(folder.path()).await;
    assert!(files(&folder.path().join("unfinished")).is_empty());
    let (a, b) = (blobs.open("a").unwrap(), blobs.open("shared/b").unwrap());
    assert_eq!(blobs.list(&a, None).await.unwrap(), (vec!["../l".to_owned(), "k".to_owned()], None));
    assert_eq!(content(&blobs, &a, "../l").await.as_deref(), Some("../l of a"));
    assert_eq!(content(&blobs, &b, "k").await.as_deref(), Some("k of shared/b"));
    assert_eq!(content(&blobs, &a, "half").await, None);
    blobs.delete(&a, &["k".to_owned(), "none".to_owned()]).await.unwrap();
    assert_eq!(content(&blobs, &a, "k").await, None);
}

/// They hold what callers have sent.
#[tokio::test]
async fn no_other_user_can_read_an_object() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("objects");
    // As an earlier version has left it.
    fs::create_dir_all(root.join("own")).unwrap();
    for wide in [root.clone(), root.join("own")] {
        fs::set_permissions(wide, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let blobs = opened(&root).await;
    let a = blobs.open("a").unwrap();
    write(&blobs, &a, "k", "v").await.unwrap();
    let mut half = blobs.write(&a, "half").await.unwrap();
    half.write(Bytes::from_static(b"some")).await.unwrap();
    let mut found = files(&root);
    assert_eq!(found.len(), 3, "the object, the unfinished one and the lock: {found:?}");
    found.extend([
        root.clone(),
        root.join("own"),
        root.join("own/it"),
        root.join("own/it/a"),
        root.join("unfinished"),
    ]);
    for path in found {
        let metadata = fs::metadata(&path).unwrap();
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.permissions().mode() & 0o777, expected, "{path:?}");
    }
}

/// A backup was brought back without some files, or a person has removed them.
#[tokio::test]
async fn an_object_whose_file_is_gone_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = opened(folder.path()).await;
    let a = blobs.open("a").unwrap();
    let own = folder.path().join("own/it/a");
    for number in 0..QUOTA.objects {
        write(&blobs, &a, &number.to_string(), "content").await.unwrap();
    }
    let is_full = async || matches!(write(&blobs, &a, "more", "x").await, Err(BlobError::Limit(_)));
    assert!(is_full().await);
    for file in files(&own) {
        fs::remove_file(file).unwrap();
    }
    // What is read is known to be gone; what is deleted is.
    assert_eq!(content(&blobs, &a, "0").await, None);
    assert_eq!(blobs.info(&a, "0").await.unwrap(), None);
    assert!(!is_full().await, "its place is free");
    assert_eq!(blobs.delete(&a, &["1".to_owned(), "2".to_owned()]).await, Ok(()));
    assert_eq!(blobs.clear(&a).await, Ok(()));
    assert_eq!(blobs.list(&a, None).await.unwrap(), (Vec::new(), None));
    for number in 0..QUOTA.objects {
        write(&blobs, &a, &number.to_string(), "content").await.unwrap();
    }
    // Or all of the container.
    fs::remove_dir_all(&own).unwrap();
    assert_eq!(blobs.clear(&a).await, Ok(()));
    assert!(!is_full().await);
}

/// A pipe in the folder is no object, and nothing waits for it.
#[tokio::test]
async fn a_pipe_in_the_place_of_an_object_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = |path: &Path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let blobs = opened(folder.path()).await;
    let a = blobs.open("a").unwrap();
    write(&blobs, &a, "k", "v").await.unwrap();
    let file = files(&folder.path().join("own")).remove(0);
    fs::remove_file(&file).unwrap();
    pipe(&file);
    assert_eq!(content(&blobs, &a, "k").await, None);
    drop(blobs);
    let again = opened(folder.path()).await;
    assert_eq!(again.list(&again.open("a").unwrap(), None).await.unwrap().0, Vec::<String>::new());
    drop(again);
    fs::remove_file(folder.path().join("lock")).unwrap();
    pipe(&folder.path().join("lock"));
    let refused = Store::open(&Place::Folder(folder.path().to_owned())).await;
    assert!(refused.err().unwrap().why.contains("it is a pipe, not a regular file"));
}

#[tokio::test]
async fn what_is_read_stays_as_it_was_and_a_quota_counts_what_is_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = opened(folder.path()).await;
    let a = blobs.open("a").unwrap();
    write(&blobs, &a, "k", "before").await.unwrap();
    let (_, mut reader) = blobs.read(&a, "k", 0, u64::MAX).await.unwrap();
    write(&blobs, &a, "k", "after").await.unwrap();
    assert_eq!(reader.next().await.unwrap().as_deref(), Some(&b"before"[..]));
    assert_eq!(content(&blobs, &a, "k").await.as_deref(), Some("after"));

    let piece = Bytes::from(vec![0; 6 << 20]);
    let mut first = blobs.write(&a, "first").await.unwrap();
    first.write(piece.clone()).await.unwrap();
    let mut second = blobs.write(&a, "second").await.unwrap();
    assert!(matches!(second.write(piece.clone()).await, Err(BlobError::Limit(_))));
    drop(first);
    second.write(piece.clone()).await.unwrap();
    assert!(matches!(second.write(piece).await, Err(BlobError::Limit(_))), "longer than one may be");
    let mut open = Vec::new();
    for number in 0..8 {
        open.push(blobs.write(&a, &number.to_string()).await.unwrap());
    }
    assert!(matches!(blobs.write(&a, "more").await, Err(BlobError::Limit(_))));
    assert!(blobs.write(&a, "k").await.is_ok(), "it is there already");
}

#[tokio::test]
async fn a_bounded_number_of_bytes_waits_for_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = opened(folder.path()).await;
    let a = blobs.open("a").unwrap();
    let upload = Upload::default();
    let room = upload.room().unwrap();
    upload.push(Bytes::from(vec![1; room])).unwrap();
    assert!(upload.room().is_err(), "it is not taken before it has a name");
    upload.begin(blobs.clone(), a.clone(), "k".to_owned()).unwrap();
    assert!(upload.begin(blobs.clone(), a.clone(), "l".to_owned()).is_err());
    upload.ready().await;
    let more = upload.room().unwrap();
    assert!(more > 0 && more <= room);
    upload.push(Bytes::from(vec![2; more])).unwrap();
    upload.finish().await.unwrap();
    let size = blobs.info(&a, "k").await.unwrap().map(|info| info.size);
    assert_eq!(size, Some((room + more) as u64));

    // What is refused says why at the next piece, and at the end.
    let upload = Upload::default();
    let full = EndpointBlobs { quota: Quota { size: 10, ..QUOTA }, ..blobs.clone() };
    upload.begin(full, a.clone(), "long".to_owned()).unwrap();
    upload.push(Bytes::from(vec![0; 11])).unwrap();
    while upload.room().is_ok() {
        tokio::task::yield_now().await;
    }
    upload.ready().await;
    assert!(matches!(upload.push(Bytes::from_static(b"x")), Err(BlobError::Limit(_))));
    assert!(matches!(upload.finish().await, Err(BlobError::Limit(_))));

    let upload = Upload::default();
    upload.begin(blobs.clone(), a.clone(), "given up".to_owned()).unwrap();
    upload.push(Bytes::from_static(b"x")).unwrap();
    upload.abandon();
    assert_eq!(content(&blobs, &a, "given up").await, None);
}

#[tokio::test]
async fn a_run_that_must_not_write_sees_what_it_would_have_written() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = opened(folder.path()).await;
    let a = blobs.open("a").unwrap();
    write(&blobs, &a, "k", "v").await.unwrap();
    write(&blobs, &a, "l", "v").await.unwrap();
    let isolated = blobs.isolated();
    write(&isolated, &a, "m", "own").await.unwrap();
    write(&isolated, &a, "k", "own").await.unwrap();
    isolated.delete(&a, &["l".to_owned()]).await.unwrap();
    for (name, seen, stored) in
        [("k", Some("own"), Some("v")), ("l", None, Some("v")), ("m", Some("own"), None)]
    {
        assert_eq!(content(&isolated, &a, name).await.as_deref(), seen, "{name}");
        assert_eq!(content(&blobs, &a, name).await.as_deref(), stored, "{name}");
    }
    let (mut names, _) = isolated.list(&a, None).await.unwrap();
    names.sort();
    assert_eq!(names, ["k", "m"]);
    isolated.clear(&a).await.unwrap();
    assert_eq!(isolated.list(&a, None).await.unwrap().0, Vec::<String>::new());
    let mut long = isolated.write(&a, "long").await.unwrap();
    for _ in 0..2 {
        long.write(Bytes::from(vec![0; 4 << 20])).await.unwrap();
    }
    assert!(matches!(long.write(Bytes::from_static(b"x")).await, Err(BlobError::Limit(_))));
}

#[tokio::test]
async fn names_count_in_a_run_that_must_not_write() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = opened(folder.path()).await;
    let a = blobs.open("a").unwrap();
    let name = |number: usize| format!("{number:0>512}");
    // 16 MiB, of 512 bytes and 64 each.
    for number in 0..2 {
        let isolated = blobs.isolated();
        let mut done = 0;
        let error = loop {
            let outcome = match number {
                0 => isolated.delete(&a, &[name(done)]).await,
                _ => write(&isolated, &a, &name(done), "").await,
            };
            match outcome {
                Ok(()) => done += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, BlobError::Limit(_)), "{error}");
        assert_eq!(done, (16 << 20) / (512 + 64));
        // What it has touched already costs nothing more.
        isolated.delete(&a, &[name(0)]).await.unwrap();
    }
}

/// Who asks what is there does not wait for who removes a thousand files; what both do together fits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_and_removals_at_the_same_time_leave_what_the_folder_has() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota { objects: 1000, ..QUOTA };
    let blobs = EndpointBlobs { quota, ..opened(folder.path()).await };
    let a = blobs.open("a").unwrap();
    let names: Arc<Vec<String>> = Arc::new((0..20).map(|number| number.to_string()).collect());
    let tasks = (0..6).map(|number| {
        let (blobs, a, names) = (blobs.clone(), a.clone(), names.clone());
        tokio::spawn(async move {
            match number % 2 {
                0 => blobs.delete(&a, &names).await.unwrap(),
                _ => {
                    for name in names.iter() {
                        write(&blobs, &a, name, "v").await.unwrap();
                    }
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let (listed, _) = blobs.list(&a, None).await.unwrap();
    assert_eq!(listed.len(), files(&folder.path().join("own")).len());
    blobs.delete(&a, &names).await.unwrap();
    // The use is known to be none.
    let whole = "v".repeat(8 << 20);
    write(&blobs, &a, "k", &whole).await.unwrap();
    let rest = "v".repeat(2 << 20);
    write(&blobs, &a, "l", &rest).await.unwrap();
    assert!(matches!(write(&blobs, &a, "m", "v").await, Err(BlobError::Limit(_))));
}
