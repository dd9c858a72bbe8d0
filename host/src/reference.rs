//! docs/reference.md, held against the code or written from it.
//!
//! Place in the flow: unit tests of what has a table there; with `UPDATE_REFERENCE` in the environment
//! (`make reference`) the tables are written anew instead.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::file::text;

/// Tests run side by side, and each rewrites the file as a whole.
static WRITING: Mutex<()> = Mutex::new(());

/// Holds the lines between `start` and the next `end` against `lines`. The document as it is then.
pub fn hold(start: &str, end: &str, lines: impl IntoIterator<Item = String>) -> String {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference.md");
    let document = text(&path).unwrap();
    let (before, rest) =
        document.split_once(start).unwrap_or_else(|| panic!("`{start}` is not in the reference"));
    let (written, after) = rest.split_once(end).unwrap();
    let lines = lines.into_iter().collect::<Vec<_>>().join("\n");
    if written != lines && std::env::var_os("UPDATE_REFERENCE").is_some() {
        let document = [before, start, &lines, end, after].concat();
        std::fs::write(&path, &document).unwrap();
        return document;
    }
    assert_eq!(written, lines, "`make reference` writes docs/reference.md from the code");
    document
}
