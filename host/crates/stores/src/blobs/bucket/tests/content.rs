//! What comes of an object whose content is cut off, hangs or is another one in between.

use super::*;

/// Reads all of an object.
async fn read(it: &Opened) -> Result<String, BlobError> {
    let (size, mut reader) = it.blobs.read(&it.container, "k", 0, u64::MAX).await?;
    let mut content = Vec::new();
    while let Some(piece) = reader.next().await? {
        content.extend_from_slice(&piece);
    }
    assert_eq!(size, content.len() as u64);
    Ok(String::from_utf8(content).unwrap())
}

/// Of an object of seven bytes the first answer has three; the next is of the rest, by this status.
async fn cut_off(rest: Option<&'static str>) -> (Result<String, BlobError>, Vec<String>) {
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let noted = asked.clone();
    let port = serve_heads(Arc::new(move |head: &str| {
        let range = head.lines().find_map(|line| line.strip_prefix("range: ")).unwrap_or_default();
        if head.contains("list-type") {
            return listing("");
        }
        noted.lock().unwrap().push(range.to_owned());
        match range {
            "" => Some(("200 OK\r\ncontent-length: 7", "con".to_owned())),
            _ => rest.map(|status| (status, "tent".to_owned())),
        }
    }));
    let it = open_at(at(port)).await;
    let read = read(&it).await;
    let asked = asked.lock().unwrap().clone();
    (read, asked)
}

#[tokio::test]
async fn what_is_cut_off_is_gone_on_with_if_it_is_the_same_object() {
    let broken = Err(BlobError::Unavailable("the connection to the server has failed".to_owned()));
    let rest = "206 Partial Content\r\ncontent-range: bytes 3-6/7";
    let other = "206 Partial Content\r\ncontent-range: bytes 3-6/7\r\netag: another";
    let ends_early = "206 Partial Content\r\ncontent-range: bytes 3-5/7";
    let (whole, asked) = cut_off(Some(rest)).await;
    assert_eq!((whole, &*asked), (Ok("content".to_owned()), &["".to_owned(), "bytes=3-6".to_owned()][..]));
    for status in [other, ends_early, "404 Not Found", "403 Forbidden"] {
        let (read, _) = cut_off(Some(status)).await;
        assert_eq!(read, broken, "{status}");
    }
}

#[tokio::test]
async fn content_that_hangs_ends_in_time() {
    let begun = Instant::now();
    let (read, _) = cut_off(None).await;
    assert!(read.is_err());
    assert!(begun.elapsed() < WAIT * 4, "{:?}", begun.elapsed());
}

/// Objects of other programs in the bucket neither hide what is there nor count.
#[tokio::test]
async fn names_that_no_object_has_are_passed_over() {
    let objects = ["a", "folder/", "a//b", "a&amp;b", "b/c"].map(|name| object(name, 100)).concat();
    let it = opened(move |method, _| match method {
        "get" => listing(&objects),
        "head" => missing(),
        _ => ok(""),
    });
    let it = it.await;
    let names = ["a", "b/c"].map(str::to_owned).to_vec();
    assert_eq!(it.blobs.list(&it.container, None).await, Ok((names, None)));
    assert!(matches!(it.write("k", 801).await, Err(BlobError::Limit(_))));
    assert_eq!(it.write("k", 800).await, Ok(()));
}

/// A store that gives the whole object where a range is asked for that it is within.
#[tokio::test]
async fn a_whole_object_is_a_range_that_it_is_within() {
    let it = opened(|_, target| if target.contains("list-type") { listing("") } else { ok("content") }).await;
    let read = |first, last| it.blobs.read(&it.container, "k", first, last);
    assert_eq!(read(0, 100).await.unwrap().0, 7);
    for (first, last) in [(0, 3), (3, 100)] {
        assert!(matches!(read(first, last).await, Err(BlobError::Unavailable(_))), "{first} {last}");
    }
}
