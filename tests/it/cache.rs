//! Compiled handlers on the disk: found again, shared, bounded, and never trusted further than their seal.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use e2e::{Host, component, host, replace, serve_command, version};
use serde_json::{Value, json};
use tempfile::TempDir;

const TAKEN: &str = "compiled code taken from the cache";
const KEPT: &str = "compiled code kept in the cache";

fn serve(plugin: &Path, cache: &TempDir, more: &[&str]) -> Host {
    let cache = cache.path().join("cache");
    let mut arguments = vec!["--name", "it", "--cache-dir", cache.to_str().unwrap()];
    arguments.extend(["--log-level", "info,host::plugin::cache=debug"]);
    arguments.extend(more);
    let host = Host::with(Some(plugin), None, &arguments);
    host.wait_for_log("endpoint is ready");
    host
}

/// How often a host took a component from the cache, and how often it kept one there.
fn counts(host: &Host) -> (usize, usize) {
    let log = host.log();
    (log.matches(TAKEN).count(), log.matches(KEPT).count())
}

fn entries(cache: &TempDir) -> Vec<PathBuf> {
    let files = fs::read_dir(cache.path().join("cache")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "code")).collect()
}

fn works(host: &Host) {
    assert_eq!(host.post("/it", "hello").json()["body"], "hello");
}

#[test]
fn what_it_takes_is_shown_and_cleared_while_a_host_runs() {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("cache");
    let shown = |more: &[&str]| {
        let output = host(&[&["cache", "--cache-dir", folder.to_str().unwrap()], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let json = || serde_json::from_str::<Value>(&shown(&["--json"])).unwrap();
    assert_eq!(json()["compiled"], json!({ "files": 0, "bytes": 0 }), "the folder is not there yet");
    let echo = component("tests/echo");
    let first = serve(&echo, &cache, &[]);
    let text = shown(&[]);
    assert!(text.contains("\ncompiled  1 file of ") && text.contains(", used 0 s ago\n"), "{text}");
    assert!(json()["compiled"]["bytes"].as_u64().unwrap() > 10_000, "{text}");
    assert!(shown(&["--clear"]).contains(": 1 file of "));
    assert_eq!(json()["compiled"]["files"], 0);
    works(&first);
    let second = serve(&echo, &cache, &[]);
    assert_eq!(counts(&second), (0, 1));
    works(&second);
}

#[test]
fn a_restart_compiles_nothing_and_a_tampered_entry_is_compiled_anew() {
    let cache = tempfile::tempdir().unwrap();
    let echo = component("tests/echo");
    let first = serve(&echo, &cache, &[]);
    assert_eq!(counts(&first), (0, 1));
    works(&first);
    let second = serve(&echo, &cache, &[]);
    assert_eq!(counts(&second), (1, 0));
    works(&second);

    let [entry] = &entries(&cache)[..] else { panic!("{:?}", entries(&cache)) };
    let mut code = fs::read(entry).unwrap();
    let middle = code.len() / 2;
    code[middle] ^= 0x80;
    assert!(fs::metadata(entry).unwrap().permissions().readonly(), "processes map it");
    replace(entry, &code);
    let third = serve(&echo, &cache, &[]);
    assert_eq!(counts(&third), (0, 1));
    third.wait_for_log("cannot use an entry of the compile cache");
    works(&third);
    let fourth = serve(&echo, &cache, &[]);
    assert_eq!(counts(&fourth), (1, 0));
    works(&fourth);
}

#[test]
fn the_compilers_memory_is_given_back() {
    let cache = tempfile::tempdir().unwrap();
    // With more code than most of the tests' guests.
    let iris = component("iris-wasm");
    let compiled = serve(&iris, &cache, &[]);
    assert_eq!(counts(&compiled), (0, 1));
    let cached = serve(&iris, &cache, &[]);
    assert_eq!(counts(&cached), (1, 0));
    let most = cached.memory("VmRSS") * 6 / 5 + (20 << 10);
    let (now, height) = (compiled.memory("VmRSS"), compiled.memory("VmHWM"));
    assert!(now <= most, "{now} KiB after compiling, {most} at most");
    assert!(height > most, "it took {height} KiB, so nothing was given back");
    let not_kept = Host::with(Some(&iris), None, &["--cache-dir", "none"]).memory("VmRSS");
    assert!(not_kept <= most, "{not_kept} KiB without a cache, {most} at most");
}

#[test]
fn hosts_that_start_together_share_a_new_cache() {
    let cache = tempfile::tempdir().unwrap();
    let echo = component("tests/echo");
    thread::scope(|scope| {
        let starting: Vec<_> = (0..3).map(|_| scope.spawn(|| serve(&echo, &cache, &[]))).collect();
        for host in starting {
            let host = host.join().unwrap();
            works(&host);
            assert!(!host.log().contains("WARN"), "{}", host.log());
        }
    });
    assert_eq!(counts(&serve(&echo, &cache, &[])), (1, 0));
    assert_eq!(entries(&cache).len(), 1);
}

#[test]
fn the_cache_is_bounded() {
    let (cache, handlers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for note in 0..6 {
        let handler = handlers.path().join(format!("{note}.wasm"));
        fs::write(&handler, version("tests/echo", note)).unwrap();
        let host = serve(&handler, &cache, &["--cache-size", "1MiB"]);
        works(&host);
        let total: u64 = entries(&cache).iter().map(|entry| fs::metadata(entry).unwrap().len()).sum();
        assert!(total <= 1 << 20, "{total} bytes");
    }
    assert!(!entries(&cache).is_empty());
}

/// As in an image that was built by root and is run by somebody else. Root's own folder is one, whoever runs
/// the test.
#[test]
fn a_cache_of_roots_is_read_by_others() {
    let cache = tempfile::tempdir().unwrap();
    let is_root = fs::metadata(cache.path()).unwrap().uid() == 0;
    let echo = component("tests/echo");
    if !is_root {
        let host = Host::serve(&["--plugin", echo.to_str().unwrap(), "--cache-dir", "/usr"]);
        host.wait_for_log("endpoint is ready");
        host.wait_for_log("no compile cache");
        return;
    }
    assert_eq!(counts(&serve(&echo, &cache, &[])), (0, 1));
    let folder = cache.path().join("cache");
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(cache.path(), 0o755);
    open(&folder, 0o755);
    let files = || fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    files().for_each(|file| open(&file, 0o444));
    let somebody = |folder: &Path| {
        let more = ["--log-level", "info,host::plugin::cache=debug", "--name", "it"];
        let arguments = ["--plugin", echo.to_str().unwrap(), "--cache-dir", folder.to_str().unwrap()];
        let mut command = serve_command(&[&arguments[..], &more].concat());
        command.uid(65534).gid(65534);
        Host::try_start(command)
    };
    let before: Vec<_> = files().collect();
    let host = somebody(&folder).unwrap_or_else(|(_, log)| panic!("{log}"));
    host.wait_for_log("endpoint is ready");
    assert_eq!(counts(&host), (1, 0), "{}", host.log());
    works(&host);
    drop(host);
    assert_eq!(files().collect::<Vec<_>>(), before);
    // What only root can read is no error: what it saves is time.
    open(&folder.join("key"), 0o600);
    let host = somebody(&folder).unwrap_or_else(|(_, log)| panic!("{log}"));
    host.wait_for_log("endpoint is ready");
    host.wait_for_log("no compile cache");
    // Root's, but not root's alone.
    open(&folder, 0o777);
    let Err((_, log)) = somebody(&folder) else { panic!("it was used") };
    assert!(log.contains("other users can write to it"), "{log}");
}

#[test]
fn a_cache_that_others_can_write_to_is_refused() {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("cache");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let echo = component("tests/echo");
    let arguments = ["--plugin", echo.to_str().unwrap(), "--cache-dir", folder.to_str().unwrap()];
    let Err((status, log)) = Host::try_serve(&arguments) else { panic!("it was used") };
    assert_eq!(status.code(), Some(1), "{log}");
    for text in ["other users can write to it", "hint:", "--cache-dir"] {
        assert!(log.contains(text), "no `{text}` in {log}");
    }
}
