//! The cache's folder in every state that it can be found in.

use std::thread;

use tempfile::TempDir;
use wasmtime::component::Component;

use super::*;
use crate::plugin::Binary;
use crate::plugin::compiler::Compiler;

const PLENTY: u64 = 1 << 30;

/// An empty component; `note` makes it another one.
fn component(note: u8) -> Binary {
    // A custom section: its id, its length, the length of its name, its name.
    Binary::new([b"\0asm\x0d\0\x01\0".as_slice(), &[0, 3, 1, b'v', note]].concat())
}

fn open(folder: &TempDir, limit: u64) -> (Cache, Engine) {
    let engine = Engine::default();
    (Cache::open(&folder.path().join("cache"), limit, &engine).unwrap(), engine)
}

/// The component, from the cache or compiled and kept.
fn made(cache: &Cache, engine: &Engine, binary: &Binary) -> wasmtime::Result<Component> {
    let entry = Entry::of(binary);
    match cache.find(engine, &entry) {
        Some(component) => Ok(component),
        None => {
            cache.keep(engine, &entry, &Compiler::new(wasmtime::Config::new()).component(binary.bytes())?)
        }
    }
}

/// Whether the component is in the cache; `Err` if its entry cannot be used.
fn hit(cache: &Cache, engine: &Engine, binary: &Binary) -> Result<bool, String> {
    let entry = Entry::of(binary);
    cache
        .read(engine, &entry, &cache.id(&entry))
        .map(|found: Option<Component>| found.is_some())
        .map_err(|error| error.to_string())
}

fn id_of(cache: &Cache, binary: &Binary) -> blake3::Hash {
    cache.id(&Entry::of(binary))
}

fn names(cache: &Cache) -> Vec<String> {
    let mut names: Vec<String> = cache
        .files(|_| true)
        .iter()
        .map(|file| file.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn what_one_process_compiled_another_one_finds() {
    let folder = tempfile::tempdir().unwrap();
    let (first, engine) = open(&folder, PLENTY);
    assert_eq!(hit(&first, &engine, &component(1)), Ok(false));
    made(&first, &engine, &component(1)).unwrap();
    let (second, engine) = open(&folder, PLENTY);
    assert_eq!(hit(&second, &engine, &component(1)), Ok(true));
    assert_eq!(hit(&second, &engine, &component(2)), Ok(false), "another component");
    let mut config = wasmtime::Config::new();
    config.epoch_interruption(true);
    let other = Engine::new(&config).unwrap();
    let third = Cache::open(&folder.path().join("cache"), PLENTY, &other).unwrap();
    assert_eq!(hit(&third, &other, &component(1)), Ok(false), "another engine");
    assert_eq!(names(&first).len(), 2, "{:?}", names(&first));
}

/// Puts another file in an entry's place.
fn replace(path: &Path, contents: &[u8], mode: u32) {
    fs::remove_file(path).unwrap();
    fs::write(path, contents).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Everything that can become of an entry, by accident or on purpose, costs a compilation: whether it would
/// be mapped itself, or a copy of it.
#[test]
fn a_changed_entry_is_never_run_and_is_made_anew() {
    let (folder, foreign) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (cache, engine) = open(&folder, PLENTY);
    let binary = component(1);
    for note in [1, 2] {
        made(&cache, &engine, &component(note)).unwrap();
    }
    let path = cache.path(&id_of(&cache, &binary));
    let sound = fs::read(&path).unwrap();
    let other = fs::read(cache.path(&id_of(&cache, &component(2)))).unwrap();
    let (stranger, _) = open(&foreign, PLENTY);
    made(&stranger, &engine, &binary).unwrap();
    let sealed_by_a_stranger = fs::read(stranger.path(&id_of(&stranger, &binary))).unwrap();
    assert_ne!(sealed_by_a_stranger, sound);
    // Sealed as it should be, and no machine code: `deserialize` has the last word.
    let nonsense = b"no machine code".as_slice();
    let seal = cache.seal(&id_of(&cache, &binary), nonsense);
    let nonsense = [nonsense, seal.as_bytes()].concat();

    let flipped = |at: usize| {
        let mut entry = sound.clone();
        entry[at] ^= 1;
        entry
    };
    let last = sound.len() - 1;
    let code = last + 1 - SEAL;
    let changed = [
        ("nothing", Vec::new()),
        ("half a seal", sound[code..][..SEAL / 2].to_vec()),
        ("a seal", sound[code..].to_vec()),
        ("the code", sound[..code].to_vec()),
        ("half", sound[..sound.len() / 2].to_vec()),
        ("all but a byte", sound[..last].to_vec()),
        ("a byte more", [&sound[..], &[0]].concat()),
        ("another first byte", flipped(0)),
        ("another last byte of code", flipped(code - 1)),
        ("another seal", flipped(last)),
        ("another component's", other),
        ("a stranger's", sealed_by_a_stranger),
        ("nonsense", nonsense),
    ];
    for (what, entry) in &changed {
        for mode in [mmap_safety::READ_ONLY, 0o600] {
            replace(&path, entry, mode);
            assert!(hit(&cache, &engine, &binary).is_err(), "{what}");
            made(&cache, &engine, &binary).unwrap();
            assert_eq!(fs::read(&path).unwrap(), sound, "{what}: made anew");
            assert_eq!(hit(&cache, &engine, &binary), Ok(true), "{what}");
        }
    }
    // A link is not followed, wherever it leads.
    let moved = folder.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &path).unwrap();
    assert!(hit(&cache, &engine, &binary).is_err());
    made(&cache, &engine, &binary).unwrap();
    assert_eq!(hit(&cache, &engine, &binary), Ok(true));
}

/// Nothing of it is read or copied, and no other entry makes way for it.
#[test]
fn what_is_longer_than_all_entries_may_be_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, engine) = open(&folder, PLENTY);
    for note in [1, 2] {
        made(&cache, &engine, &component(note)).unwrap();
    }
    let path = cache.path(&id_of(&cache, &component(1)));
    let stray = cache.path(&id_of(&cache, &component(9)));
    for mode in [mmap_safety::READ_ONLY, 0o600] {
        for place in [&path, &stray] {
            let _ = fs::remove_file(place);
            File::create(place).unwrap().set_len(50 << 30).unwrap();
            fs::set_permissions(place, Permissions::from_mode(mode)).unwrap();
        }
        let begun = std::time::Instant::now();
        let refused = hit(&cache, &engine, &component(1)).unwrap_err();
        assert_eq!(refused, "it has 53687091200 bytes, and the cache may have 1073741824");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        made(&cache, &engine, &component(1)).unwrap();
        assert!(!stray.exists());
        for note in [1, 2] {
            assert_eq!(hit(&cache, &engine, &component(note)), Ok(true), "{note}");
        }
    }
    // A pipe is not waited for.
    fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert_eq!(hit(&cache, &engine, &component(1)), Err("it is no regular file".to_owned()));
    made(&cache, &engine, &component(1)).unwrap();
    assert_eq!(hit(&cache, &engine, &component(1)), Ok(true));
}

/// An entry that can be written to is never mapped itself.
#[cfg(target_os = "linux")]
#[test]
fn what_may_change_is_copied_before_it_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, engine) = open(&folder, PLENTY);
    made(&cache, &engine, &component(1)).unwrap();
    let (entry, id) = (Entry::of(&component(1)), id_of(&cache, &component(1)));
    let path = cache.path(&id);
    let is_local = mmap_safety::is_local(&File::open(&path).unwrap()).unwrap();
    for (mode, is_mapped) in [(mmap_safety::READ_ONLY, is_local), (0o600, false), (0o440, false)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let loaded: Component = cache.read(&engine, &entry, &id).unwrap().unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(maps.contains(path.to_str().unwrap()), is_mapped, "{mode:o}");
        drop(loaded);
    }
}

#[test]
fn processes_that_start_together_agree_on_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<[u8; 32]> = thread::scope(|scope| {
        let starting: Vec<_> = (0..8)
            .map(|note| {
                let folder = &folder;
                scope.spawn(move || {
                    let (cache, engine) = open(folder, PLENTY);
                    made(&cache, &engine, &component(note % 2)).unwrap();
                    cache.key
                })
            })
            .collect();
        starting.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0] && *key != [0; 32]), "{keys:?}");
    let (cache, engine) = open(&folder, PLENTY);
    for note in [0, 1] {
        assert_eq!(hit(&cache, &engine, &component(note)), Ok(true));
    }
    let names = names(&cache);
    assert_eq!(names.len(), 3, "two entries and the key, nothing half-made: {names:?}");
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, engine) = open(&folder, PLENTY);
    let path = |note| cache.path(&id_of(&cache, &component(note)));
    let long_ago = |minutes: u64| SystemTime::now() - Duration::from_secs(60 * minutes);
    for note in 0..4 {
        made(&cache, &engine, &component(note)).unwrap();
        let file = File::open(path(note)).unwrap();
        file.set_modified(long_ago(100 - u64::from(note))).unwrap();
    }
    // The oldest is used again, which is noted; then once more, which is not worth a write.
    assert_eq!(hit(&cache, &engine, &component(0)), Ok(true));
    let used = fs::metadata(path(0)).unwrap().modified().unwrap();
    assert!(used > long_ago(1));
    assert_eq!(hit(&cache, &engine, &component(0)), Ok(true));
    assert_eq!(fs::metadata(path(0)).unwrap().modified().unwrap(), used);

    let length = fs::metadata(path(0)).unwrap().len();
    File::open(path(0)).unwrap().set_modified(long_ago(1)).unwrap();
    let (mut small, engine) = open(&folder, length * 3);
    // The clock of files is some milliseconds behind.
    small.opened -= Duration::from_secs(1);
    made(&small, &engine, &component(4)).unwrap();
    let left: Vec<bool> = (0..5).map(|note| path(note).exists()).collect();
    assert_eq!(left, [true, false, false, true, true]);
    // Those of before go first. Then there is no room for what is in use, which is said.
    for (note, is_told) in [(6, false), (7, false), (8, true)] {
        made(&small, &engine, &component(note)).unwrap();
        assert_eq!(small.told.load(Ordering::Relaxed), is_told, "{note}");
    }
    made(&small, &engine, &component(0)).unwrap();

    let (tiny, engine) = open(&folder, length - 1);
    made(&tiny, &engine, &component(5)).unwrap();
    assert!(!path(5).exists(), "what is larger than the cache may be is not kept");
    assert!(path(0).exists(), "and drives nothing out");
}

#[test]
fn what_a_killed_process_was_writing_is_removed_later() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, _) = open(&folder, PLENTY);
    let [old, young] = ["new-old", "new-young"].map(|name| cache.folder.join(name));
    for path in [&old, &young] {
        fs::write(path, "half").unwrap();
    }
    File::options().write(true).open(&old).unwrap().set_modified(SystemTime::now() - ABANDONED).unwrap();
    let (cache, _) = open(&folder, PLENTY);
    assert_eq!(names(&cache), ["key", "new-young"]);
}

#[test]
fn a_folder_is_private_or_refused_and_never_changed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("new/cache");
    let engine = Engine::default();
    let opened = || Cache::open(&cache, PLENTY, &engine).map(|_| ());
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    opened().unwrap();
    assert_eq!((mode(&cache), mode(&cache.join(KEY))), (0o700, 0o600));
    for (given, usable) in [(0o755, true), (0o775, false), (0o757, false), (0o700, true)] {
        fs::set_permissions(&cache, fs::Permissions::from_mode(given)).unwrap();
        let outcome = opened();
        assert_eq!(outcome.is_ok(), usable, "{given:o}");
        assert!(usable || matches!(outcome, Err(CacheError::NotPrivate(_))), "{given:o}");
        assert_eq!(mode(&cache), given);
    }
    let key = cache.join(KEY);
    for (given, usable) in [(0o640, false), (0o604, false), (0o400, true), (0o600, true)] {
        fs::set_permissions(&key, fs::Permissions::from_mode(given)).unwrap();
        assert_eq!(opened().is_ok(), usable, "{given:o}");
        assert_eq!(mode(&key), given);
    }
    for length in [0, 31, 33] {
        fs::write(&key, vec![7; length]).unwrap();
        assert!(matches!(opened(), Err(CacheError::NotPrivate(_))), "{length}");
    }
    fs::remove_file(&key).unwrap();
    opened().unwrap();
}

#[test]
fn a_folder_that_is_roots_is_read_and_never_written_to() {
    for (owner, mode, can_write, expected) in [
        (1000, 0o700, true, Ok(Access::Full)),
        (1000, 0o720, true, Err("other users can write to it")),
        (1001, 0o755, false, Err("it belongs to another user")),
        (0, 0o755, false, Ok(Access::Read)),
        (0, 0o757, true, Err("other users can write to it")),
        (0, 0o775, false, Err("other users can write to it")),
        (0, 0o755, true, Err("it belongs to root, and this user can write to it")),
    ] {
        assert_eq!(Access::of(owner, mode, 1000, can_write), expected, "{owner} {mode:o} {can_write}");
    }
    assert_eq!(Access::of(0, 0o700, 0, true), Ok(Access::Full));
}

/// A full disk and a folder that has gone look the same: nothing can be written.
#[test]
fn where_nothing_can_be_written_components_are_compiled_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, engine) = open(&folder, PLENTY);
    fs::remove_dir_all(&cache.folder).unwrap();
    for _ in 0..2 {
        made(&cache, &engine, &component(1)).unwrap();
        assert_eq!(hit(&cache, &engine, &component(1)), Ok(false));
    }
    let nowhere = Cache::open(Path::new("/proc/self/cache"), PLENTY, &engine).map(|_| ());
    assert!(matches!(nowhere, Err(CacheError::Io(_))), "{nowhere:?}");
}

#[test]
fn handlers_on_the_shelf_are_bounded_together_with_compiled_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, engine) = open(&folder, PLENTY);
    made(&cache, &engine, &component(1)).unwrap();
    let code = cache.path(&id_of(&cache, &component(1)));
    let length = fs::metadata(&code).unwrap().len();
    let (cache, _) = open(&folder, length + 100);
    let shelf = Shelf::new(cache.into());
    shelf.put("page", b"not counted").unwrap();
    shelf.put("a.wasm", &[7; 100]).unwrap();
    assert!(code.exists() && shelf.has("a.wasm") && !shelf.has("b.wasm"));
    assert_eq!(shelf.get("a.wasm", 100).unwrap(), Some(vec![7; 100]));
    assert!(shelf.get("a.wasm", 99).is_err() && shelf.get("b.wasm", 99).unwrap().is_none());
    assert!(shelf.put("b.wasm", &vec![0; usize::try_from(length).unwrap() + 101]).is_err());

    // The compiled one was not used for longest.
    File::open(&code).unwrap().set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
    shelf.put("b.wasm", &[7]).unwrap();
    assert!(!code.exists() && ["a.wasm", "b.wasm", "page"].iter().all(|name| shelf.has(name)));
    for _ in 0..2 {
        shelf.remove("a.wasm").unwrap();
    }
    assert!(!shelf.has("a.wasm"));
}
