//! `host demo`: serves the iris example that is installed beside the program, and says what to try.
//!
//! In:  `share/modelhost/demo` of the prefix that the program is installed in (a Python environment, `/usr`),
//!      else the example of the sources that it was built from.
//! Out: as `serve`, then a request to send and the next commands.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::cli::{self, program};
use crate::commands::serve::serve_then;
use crate::commands::{CONFIG, Failure, beside, say};
use crate::config::Overrides;
use crate::config::settings::{self, Setting};
use crate::file;

const NOT_INSTALLED: &str = "the demo's files are not installed beside this program
  hint: install the wheel or the Debian package, or run `make install` in the sources";

/// Runs the command.
///
/// # Errors
/// The example is not there; or as `serve`.
pub fn demo(arguments: &cli::Demo) -> Result<(), Failure> {
    let executable = env::current_exe().context("cannot find out where this program is")?;
    let folder = folder(&executable).context(NOT_INSTALLED)?;
    let sample = folder.join("sample.json");
    let sample = file::text(&sample).with_context(|| format!("cannot read `{}`", sample.display()))?;

    let mut overrides = Overrides::default();
    overrides.set(&settings::CONFIG, vec![folder.join(CONFIG).display().to_string()]);
    let mut set = |setting: &'static Setting, value: &Option<String>| {
        value.iter().for_each(|value| overrides.set(setting, vec![value.clone()]));
    };
    set(&settings::LISTEN, &arguments.listen);
    set(&settings::ADMIN_LISTEN, &arguments.admin_listen);
    serve_then(&overrides, |announcement| {
        let url = announcement.iter().find_map(|line| line.strip_prefix("listening on "));
        say(&what_next(url.unwrap_or_default(), sample.trim(), &program()))
    })
}

/// Where the example is that came with the program at `executable`.
fn folder(executable: &Path) -> Option<PathBuf> {
    let mut places = beside(executable, "share/modelhost/demo", "examples/iris-wasm");
    places.find(|folder| folder.join(CONFIG).is_file())
}

fn what_next(url: &str, sample: &str, program: &str) -> String {
    format!(
        "
Send it a flower:
  curl {url}/iris --json '{sample}'

Then:
  {url}/docs is a page to try it in a browser
  {program} new my-handler --lang python makes a handler of your own, in rust or js as well
  {program} serve --plugin handler.wasm --model model.onnx serves a handler and its model
  {program} serve --model model.onnx serves a model without a handler
  Ctrl-C ends the demo"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_example_is_found_where_the_program_is_installed_or_built() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for place in ["usr/share/modelhost/demo", "sources/examples/iris-wasm"] {
            fs::create_dir_all(at(place)).unwrap();
            fs::write(at(place).join(CONFIG), "").unwrap();
        }
        assert_eq!(folder(&at("usr/bin/modelhost")), Some(at("usr/share/modelhost/demo")));
        assert_eq!(folder(&at("sources/target/dist/host")), Some(at("sources/examples/iris-wasm")));
        assert_eq!(folder(&at("elsewhere/bin/modelhost")), None);
    }
}
