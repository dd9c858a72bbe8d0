//! `host cache`: what the compile cache takes on the disk, and how to have it back.
//!
//! In: the folder that `serve` would use. Out: a line for each kind of files in it; with `--clear` what is
//! compiled is gone.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;

use crate::cli;
use crate::commands::operator::ago;
use crate::commands::{Failure, environment, say};
use crate::config;
use crate::plugin::{CacheContents, CachedFiles};
use crate::time::since_1970;

/// Runs the command.
///
/// # Errors
/// There is no cache, or its folder cannot be read or cleared.
pub fn cache(arguments: &cli::Cache) -> Result<(), Failure> {
    let config = config::sandbox(&environment)?;
    let folder: Option<PathBuf> = arguments.cache_dir.clone().or(config.cache_dir);
    let Some(folder) = folder else {
        let text = "no handler is kept compiled: `MODELHOST_CACHE_DIR` is `none`";
        return Err(Failure::Input(text.to_owned()));
    };
    let shown = folder.display();
    if arguments.clear {
        let removed = CacheContents::clear(&folder).with_context(|| format!("cannot clear `{shown}`"))?;
        return Ok(say(&format!("{shown}: {} removed", files(removed)))?);
    }
    let contents = CacheContents::of(&folder).with_context(|| format!("cannot read `{shown}`"))?;
    Ok(say(&match arguments.json {
        true => as_json(&folder, contents, config.cache_size),
        false => text(&folder, contents, config.cache_size),
    })?)
}

fn text(folder: &Path, CacheContents { compiled, handlers }: CacheContents, limit: u64) -> String {
    let used = compiled.used.map(|used| format!(", used {} ago", ago(since_1970(used).as_secs_f64())));
    format!(
        "folder    {}\ncompiled  {}{}\nhandlers  {}, as they came, for the next start\nlimit     {}, which \
         `plugin.cache_size` of a server sets",
        folder.display(),
        files(compiled),
        used.unwrap_or_default(),
        files(handlers),
        size(limit),
    )
}

fn as_json(folder: &Path, CacheContents { compiled, handlers }: CacheContents, limit: u64) -> String {
    let kind = |files: CachedFiles| json!({ "files": files.count, "bytes": files.bytes });
    let folder = folder.display().to_string();
    json!({ "folder": folder, "compiled": kind(compiled), "handlers": kind(handlers), "limit": limit })
        .to_string()
}

fn files(CachedFiles { count, bytes, .. }: CachedFiles) -> String {
    let word = if count == 1 { "file" } else { "files" };
    format!("{count} {word} of {}", size(bytes))
}

/// Bytes in the largest unit that leaves something before the point.
fn size(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_unit() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (817_000_000, "779.2 MiB"),
            (4 << 30, "4.0 GiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
