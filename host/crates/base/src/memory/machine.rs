//! The memory that this process may use, and the part of it that is the budget.
//!
//! Place in the flow: asked once at the start, where the configuration says `auto`. In: the limits of the
//! control groups that the process is in, of either version, and the machine's memory. Out: bytes.

use std::fs;
use std::path::{Path, PathBuf};

/// The part of it that bodies, tensors and answers may take; the rest is for models, instances of handlers,
/// compiled code, connections, and what the allocator keeps of what was freed, up to the same again.
const SHARE: u64 = 4;
/// Taken where nothing says how much there is.
const UNKNOWN: u64 = 2 << 30;
/// Never less.
const LEAST: u64 = 16 << 20;

/// The budget by the memory that there is.
pub fn budget() -> usize {
    let bytes = memory(Path::new("/")).unwrap_or(UNKNOWN) / SHARE;
    usize::try_from(bytes.max(LEAST)).unwrap_or(usize::MAX)
}

/// The memory of the process, with the file systems of the kernel below `root`.
fn memory(root: &Path) -> Option<u64> {
    let read = |path: &Path| fs::read_to_string(root.join(path)).ok();
    let groups = read(Path::new("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(files).filter_map(|file| read(&file)?.trim().parse::<u64>().ok());
    let machine = read(Path::new("proc/meminfo")).and_then(|text| total(&text));
    // A group without a limit says `max`, or a number that no machine has.
    limits.chain(machine).min()
}

/// The files that hold the limits of a group, a line of `/proc/self/cgroup`, and of those that it is in. In
/// a container its path may be that on the machine, and the files are those of the root.
fn files(group: &str) -> Vec<PathBuf> {
    let mut parts = group.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (folder, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let path = Path::new(path.trim_start_matches('/'));
    path.ancestors().map(|above| Path::new(folder).join(above).join(file)).collect()
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_counts() {
        const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");
        let v2 = ("proc/self/cgroup", "0::/a/b\n");
        let v1 = ("proc/self/cgroup", "5:cpu,memory:/a\n3:pids:/a\n");
        for (files, expected) in [
            (&[][..], None),
            (&[MEMINFO], Some(8 << 30)),
            (&[MEMINFO, v2, ("sys/fs/cgroup/a/b/memory.max", "max\n")], Some(8 << 30)),
            (&[MEMINFO, v2, ("sys/fs/cgroup/a/b/memory.max", "1073741824\n")], Some(1 << 30)),
            (&[MEMINFO, v2, ("sys/fs/cgroup/a/memory.max", "1073741824\n")], Some(1 << 30)),
            (&[MEMINFO, v2, ("sys/fs/cgroup/memory.max", "536870912\n")], Some(512 << 20)),
            (&[MEMINFO, v1, ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096\n")], Some(4096)),
            (
                &[MEMINFO, v1, ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")],
                Some(8 << 30),
            ),
            (&[v2, ("sys/fs/cgroup/memory.max", "4096")], Some(4096)),
            (&[("proc/meminfo", "nonsense")], None),
        ] {
            let root = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            assert_eq!(memory(root.path()), expected, "{files:?}");
        }
        assert!(budget() as u64 >= LEAST);
    }
}
