//! Names, bounds and what becomes of a file that changes.

use std::fs;
use std::path::PathBuf;

use super::*;

/// A file in the folder of shared memory, as long as the test runs.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str, bytes: &[u8]) -> TestFile {
        let path = Path::new(FOLDER).join(format!("modelhost-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        TestFile(path)
    }

    fn key(&self) -> String {
        format!("/{}", self.0.file_name().unwrap().to_str().unwrap())
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn refusal<T>(outcome: Result<T, RequestError>) -> String {
    outcome.err().map(|error| error.message.clone()).unwrap_or_default()
}

#[test]
fn keys_are_plain_names_of_regular_files() {
    let file = TestFile::new("keys", &[0; 8]);
    let link = Path::new(FOLDER).join(format!("modelhost-{}-link", std::process::id()));
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(&file.0, &link).unwrap();
    let linked = link.file_name().unwrap().to_str().unwrap().to_owned();
    let memory = SharedMemory::new(Some(10));
    for key in [
        "",
        "/",
        ".",
        "..",
        "/..",
        "/../etc/passwd",
        "a/b",
        "/etc/passwd",
        "//a",
        "/a b",
        "/é",
        "/a\0",
        &linked,
    ] {
        let expected = format!("Unable to open shared memory region: '{key}'");
        assert_eq!(refusal(memory.register("r", key, 0, 1)), expected, "{key}");
    }
    let _ = fs::remove_file(&link);
    memory.register("r", &file.key(), 0, 8).unwrap();
    memory.register("without a slash", file.key().trim_start_matches('/'), 0, 8).unwrap();
}

#[test]
fn regions_are_within_their_files_and_tensors_within_their_regions() {
    let file = TestFile::new("bounds", b"0123456789");
    let memory = SharedMemory::new(Some(2));
    for (offset, byte_size) in [(0, 0), (0, 11), (10, 1), (u64::MAX, 1), (1, u64::MAX)] {
        let refused = refusal(memory.register("r", &file.key(), offset, byte_size));
        assert!(
            refused.starts_with("failed to register shared memory region 'r': invalid args"),
            "{refused}"
        );
    }
    memory.register("r", &file.key(), 2, 6).unwrap();
    let again = refusal(memory.register("r", &file.key(), 2, 6));
    assert_eq!(again, "shared memory region 'r' already in manager");
    memory.register("s", &file.key(), 0, 10).unwrap();
    let full = refusal(memory.register("t", &file.key(), 0, 10));
    assert_eq!(full, "there are 2 shared memory regions already; unregister some");

    for (offset, byte_size) in [(0, 7), (6, 1), (u64::MAX, 1), (1, u64::MAX)] {
        let refused = memory.place("r", offset, Some(byte_size)).unwrap_err();
        assert_eq!(refused, "Invalid offset + byte size for shared memory region: 'r'");
    }
    assert_eq!(memory.place("x", 0, Some(1)).unwrap_err(), "Unable to find shared memory region: 'x'");
    let place = memory.place("r", 1, Some(3)).unwrap();
    assert_eq!(place.read(3).unwrap(), "345");
    assert_eq!(place.read(2).unwrap_err(), "3 bytes of shared memory are more than the 2 that are left");
    place.write("y", b"ab").unwrap();
    assert_eq!(fs::read(&file.0).unwrap(), b"012ab56789");
    let refused = place.write("y", b"abcd").unwrap_err();
    assert!(
        refused.ends_with("output 'y' (3 bytes) should be at least 4 bytes to hold the results"),
        "{refused}"
    );

    let names = |memory: &SharedMemory| -> Vec<String> {
        memory.status(None).unwrap().into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(&memory), ["r", "s"]);
    memory.unregister(Some("r"));
    memory.unregister(Some("r"));
    assert_eq!(names(&memory), ["s"]);
    assert_eq!(refusal(memory.status(Some("r"))), "Unable to find system shared memory region: 'r'");
    memory.unregister(None);
    assert_eq!(names(&memory), [""; 0]);
}

#[test]
fn a_file_that_becomes_shorter_ends_no_process() {
    let file = TestFile::new("shorter", b"0123456789");
    let memory = SharedMemory::new(Some(1));
    memory.register("r", &file.key(), 0, 10).unwrap();
    let place = memory.place("r", 4, Some(4)).unwrap();
    fs::OpenOptions::new().write(true).open(&file.0).unwrap().set_len(6).unwrap();
    let expected = "shared memory region 'r' has become shorter than it was registered";
    assert_eq!(place.read(10).unwrap_err(), expected);
    assert_eq!(place.write("y", b"abcd").unwrap_err(), expected);
    // Nor is it made longer.
    assert_eq!(fs::read(&file.0).unwrap(), b"012345");
    assert_eq!(memory.place("r", 0, Some(6)).unwrap().read(6).unwrap(), "012345");
}

#[test]
fn a_removed_file_is_kept_as_long_as_its_region_and_closed_after_it() {
    let key = TestFile::new("removed", b"0123");
    let (name, path) = (key.key(), key.0.clone());
    let memory = SharedMemory::new(Some(2));
    for region in ["r", "s"] {
        memory.register(region, &name, 0, 4).unwrap();
    }
    let place = memory.place("s", 0, Some(4)).unwrap();
    drop(key);
    // Other tests open and close files of other names.
    let open = || {
        let files = fs::read_dir("/proc/self/fd").unwrap();
        let targets = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        targets.filter(|target| target.to_str().unwrap().starts_with(path.to_str().unwrap())).count()
    };
    assert_eq!((open(), place.read(4).unwrap()), (2, "0123".into()));
    memory.unregister(None);
    // A request uses it still.
    assert_eq!((open(), place.read(4).unwrap()), (1, "0123".into()));
    drop(place);
    assert_eq!(open(), 0);
}

#[test]
fn only_callers_of_this_machine_register() {
    for (address, expected) in [
        ("127.0.0.1", true),
        ("127.1.2.3", true),
        ("::1", true),
        ("::ffff:127.0.0.1", true),
        ("0.0.0.0", false),
        ("::", false),
        ("10.0.0.1", false),
        ("192.0.2.1", false),
        ("fe80::1", false),
        ("::ffff:192.0.2.1", false),
    ] {
        let origin = Origin { address: address.parse().unwrap(), ..Origin::default() };
        let outcome = authorize_registration(&Keys::default(), Credentials::default(), origin);
        assert_eq!(outcome.is_ok(), expected, "{address}");
        let refused = refusal(outcome);
        assert!(expected || refused.contains("only by clients of the server's own machine"), "{refused}");
    }
}

#[test]
fn off_is_off() {
    let file = TestFile::new("off", b"0");
    let memory = SharedMemory::default();
    assert!(refusal(memory.register("r", &file.key(), 0, 1)).starts_with("system shared memory is off"));
    assert_eq!(memory.place("r", 0, Some(1)).unwrap_err(), "shared memory is not served");
    assert!(memory.status(None).unwrap().is_empty());
    memory.unregister(None);
}
