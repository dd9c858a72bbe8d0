//! Does what the body says with whatever the sandbox lets it reach, and answers `{"ok": …}` or `{"error": text}`.
//!
//! `PATH` reads a file; `list:PATH`, `write:PATH`, `stat:PATH`; `env:NAME`; `stdout:TEXT`, `stderr:TEXT`;
//! `sleep:MILLISECONDS`.

use std::fs;
use std::io::Write;
use std::time::Duration;

use modelhost_guest::{Context, Error, Handler, Response, Result, Sample, Tensor, export};
use serde_json::{Value, json};

struct Files;

export!(Files: pre_inference);

impl Handler for Files {
    fn new() -> Self {
        Files
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let answer = match attempt(&sample.text()?) {
            Ok(value) => json!({"ok": value}),
            Err(error) => json!({"error": error.to_string()}),
        };
        Err(Error::Respond(Response::json(&answer)?))
    }
}

fn attempt(what: &str) -> Result<Value, Box<dyn std::error::Error>> {
    let (verb, argument) = what.split_once(':').unwrap_or(("read", what));
    Ok(match verb {
        "read" => json!(String::from_utf8_lossy(&fs::read(argument)?)),
        "list" => {
            let names =
                fs::read_dir(argument)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            let mut names = names.collect::<std::io::Result<Vec<_>>>()?;
            names.sort();
            json!(names)
        }
        "write" => json!(fs::write(argument, "written by a handler")?),
        "stat" => json!(fs::metadata(argument)?.len()),
        "env" => json!(std::env::var(argument)?),
        "stdout" => json!(writeln!(std::io::stdout(), "{argument}")?),
        "stderr" => json!(writeln!(std::io::stderr(), "{argument}")?),
        "sleep" => json!(std::thread::sleep(Duration::from_millis(argument.parse()?))),
        other => return Err(format!("no verb is called `{other}`").into()),
    })
}
