//! Reads files whole: the only place that does; makes those that are for this user alone.
//!
//! Place in the flow: handlers, certificates, keys, samples, metadata and configurations, at start and while
//! serving.
//! In: a path, and how many bytes may be there. Out: the bytes, or what was wrong: the file cannot be opened,
//! it is no regular file, it is too large.
//! Invariants: no call waits for a pipe's writer, and none takes more memory than its limit, with any file
//! put in the file's place, or changed meanwhile.

/// The media type of a file of this extension.
pub fn media_type(file: &Path) -> &'static str {
    let extension = file.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        "json" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "xml" => "application/xml",
        "msgpack" => "application/msgpack",
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "wav" => "audio/wav",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}

pub mod private;
pub mod replacement;
pub mod stamp;

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The limit of what a person writes or a tool issues: configurations, metadata, certificates, keys.
pub const TEXT: u64 = 16 << 20;

/// For files that should be regular ones: what is none is not waited for.
const NO_SURPRISE: i32 = libc::O_NONBLOCK | libc::O_NOCTTY;

/// Opens a regular file to read it.
///
/// # Errors
/// It cannot be opened, or is something else: a folder, a pipe, a device.
pub fn open(path: &Path) -> io::Result<File> {
    regular(OpenOptions::new().read(true).custom_flags(NO_SURPRISE).open(path)?)
}

/// The file, if it is a regular one.
fn regular(file: File) -> io::Result<File> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {}, not a regular file", name(kind))))
}

/// The contents of a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; or it has more bytes, or cannot be read.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let too_large = |length: u64| {
        let text = format!("it has {length} bytes, more than {limit}");
        Err(io::Error::new(ErrorKind::FileTooLarge, text))
    };
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > limit {
        return too_large(length);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // It may grow while it is read.
    match file.take(limit.saturating_add(1)).read_to_end(&mut bytes)? as u64 {
        read if read > limit => too_large(read),
        _ => Ok(bytes),
    }
}

/// The same as text.
///
/// # Errors
/// As [`read`]; or it is not UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    let bytes = read(path, TEXT)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// As [`read`], for asynchronous code.
///
/// # Errors
/// As [`read`].
pub async fn read_async(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read(&path, limit)).await;
    read.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn says_which_of_the_three_was_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        symlink("/dev/zero", path("zero")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        File::create(path("sparse")).unwrap().set_len(3 << 30).unwrap();
        fs::write(path("full"), [7; 10]).unwrap();
        fs::write(path("over"), [7; 11]).unwrap();
        for (name, expected) in [
            ("none", "No such file or directory"),
            ("pipe", "it is a pipe, not a regular file"),
            ("zero", "it is a device, not a regular file"),
            ("folder", "it is a folder, not a regular file"),
            ("sparse", "it has 3221225472 bytes, more than 10"),
            ("over", "it has 11 bytes, more than 10"),
            // Its length says 0.
            ("/proc/self/status", "it has 11 bytes, more than 10"),
        ] {
            let error = read(&path(name), 10).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{name}: {error}");
        }
        assert_eq!(read(&path("full"), 10).unwrap(), [7; 10]);
        fs::write(path("latin"), [0xe9]).unwrap();
        assert_eq!(text(&path("latin")).unwrap_err().to_string(), "it is not UTF-8");
    }
}
