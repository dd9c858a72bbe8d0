//! Does what the body says to whoever shares the host with it, in `pre_inference`; under `post:` before it, in
//! `post_inference`. Any other body: like `echo`. What memory and the component ABI allow beyond Rust is in
//! `wat/hostile.wat`.
//!
//! Attempts to get at something answer at once, `{"got": [what succeeded]}`, which should be empty.

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::Write as _;
use std::mem::forget;
use std::time::{Duration, Instant};

use modelhost_guest::{Context, Error, Handler, Response, Result, Sample, Tensor, export};
use serde_json::json;

const PROJECT: &str = "/mnt/project";
const FILE: &str = "/mnt/project/labels.json";

struct Hostile;

export!(Hostile);

impl Handler for Hostile {
    fn new() -> Self {
        Hostile
    }

    fn pre_inference(&mut self, sample: Sample, context: &Context) -> Result<Vec<Tensor>> {
        match &*sample.text()? {
            "tiny tensors" => Ok(vec![Tensor::new("", [0], &[0u8; 0]); 200_000]),
            "negative" => Ok(vec![raw(&[u64::MAX])]),
            "overflowing" => Ok(vec![raw(&[1 << 33, 1 << 33])]),
            what => {
                attack(what, context)?;
                Ok(guests::body_tensor(sample))
            }
        }
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        let body = guests::body_text(&prediction)?;
        let response = guests::echo(&body, context)?;
        let wide = |length: usize| Response::text("fine").header("x-wide", "w".repeat(length));
        match body.strip_prefix("post:").unwrap_or_default() {
            "status" => Ok(response.status(999)),
            "header" => Ok(response.header("x-bad", "a\r\nset-cookie: b")),
            "wide header" => Ok(wide(1 << 20)),
            "forged digest" => {
                Ok(response.header("x-handler-digest", "0000").header("X-Handler-Bypassed", "post_inference"))
            }
            what => {
                attack(what, context)?;
                Ok(response)
            }
        }
    }
}

fn raw(shape: &[u64]) -> Tensor {
    Tensor {
        name: "t".into(),
        datatype: modelhost_guest::Datatype::Fp32,
        shape: shape.to_vec(),
        data: Vec::new(),
    }
}

#[expect(clippy::panic, reason = "it is what this guest is for")]
fn attack(what: &str, context: &Context) -> Result<()> {
    match what {
        // Time.
        "loop" => loop {
            black_box(());
        },
        "read clocks" => loop {
            black_box(Instant::now());
        },
        "sleep" => std::thread::sleep(Duration::from_secs(3600)),
        "ask for a header" => loop {
            black_box(context.header("x-test"));
        },
        "ask for the sample" => loop {
            black_box(context.sample());
        },
        // Memory and stack.
        "recurse" => drop(black_box(recurse(0))),
        "allocate crumbs" => {
            let mut crumbs = Vec::new();
            loop {
                crumbs.push(black_box(vec![1u8; 24 + crumbs.len() % 100]));
            }
        }
        "allocate at once" => drop(black_box(vec![1u8; 3 << 29])),
        // Ends.
        "panic" => panic!("the hostile guest panics"),
        "exit 0" => std::process::exit(0),
        "exit 1" => std::process::exit(1),
        "abort" => std::process::abort(),
        // Host calls and handles.
        "print" => loop {
            // Nobody looks whether it worked.
            let _ = std::io::stdout().write_all(&[b'x'; 1 << 16]);
        },
        "print bytes" => loop {
            let _ = std::io::stderr().write_all(b"x");
        },
        "forge a line" => {
            let forged = "nice\n2026-01-01T00:00:00Z ERROR host: forged \u{1b}[31m\r\u{9b}2J\u{7}\n";
            let _ = std::io::stdout().write_all(forged.as_bytes());
        }
        "leak files" => loop {
            forget(File::open(FILE));
        },
        "leak folders" => loop {
            forget(fs::read_dir(PROJECT));
        },
        "stat" => loop {
            let _ = black_box(fs::metadata(FILE));
        },
        // What is not its own.
        "read outside" => return got(read_outside()),
        "write" => return got(write()),
        "environment" => return got(std::env::vars().map(|(name, _)| name).collect()),
        "long path" => {
            let opened = File::open(format!("{PROJECT}/{}", "./../project/".repeat(50_000)));
            return got(opened.iter().map(|_| "opened".to_owned()).collect());
        }
        _ => {}
    }
    Ok(())
}

/// Needs a frame a call, because the sum happens after it, and never ends: no body is that deep.
fn recurse(depth: u64) -> u64 {
    if black_box(depth) == u64::MAX { depth } else { black_box(recurse(depth + 1)) + 1 }
}

fn got(what: Vec<String>) -> Result<()> {
    Err(Error::Respond(Response::json(&json!({ "got": what }))?))
}

/// What can be read that does not belong to the project.
fn read_outside() -> Vec<String> {
    let paths = [
        "/etc/passwd",
        "../../etc/passwd",
        "/mnt/project/../../etc/passwd",
        "/mnt/project/../../../../../../etc/passwd",
        "/mnt/project/link-to-a-file",
        "/mnt/project/link-to-a-folder/hostname",
        "/mnt/project/.env",
        "/proc/self/environ",
        "/proc/1/environ",
        "/dev/zero",
        "/mnt",
        "/",
        "",
    ];
    let opens =
        |path: &&str| File::open(path).is_ok() || fs::read_dir(path).is_ok() || fs::read_link(path).is_ok();
    paths.into_iter().filter(opens).map(str::to_owned).collect()
}

/// What can be changed in the project, or beside it.
fn write() -> Vec<String> {
    let file = |name: &str| format!("{PROJECT}/{name}");
    let attempts = [
        ("create", File::create(file("new")).map(drop)),
        ("append", OpenOptions::new().append(true).open(FILE).and_then(|mut file| file.write_all(b"x"))),
        ("overwrite", fs::write(FILE, "x")),
        ("truncate", OpenOptions::new().write(true).truncate(true).open(FILE).map(drop)),
        ("set_len", File::open(FILE).and_then(|file| file.set_len(0))),
        ("remove", fs::remove_file(FILE)),
        ("rename", fs::rename(FILE, file("moved"))),
        ("link", fs::hard_link(FILE, file("linked"))),
        ("folder", fs::create_dir(file("folder"))),
        ("outside", fs::write("/written-by-a-handler", "x")),
        ("times", File::open(FILE).and_then(|file| file.set_modified(std::time::UNIX_EPOCH))),
    ];
    attempts.into_iter().filter(|(_, outcome)| outcome.is_ok()).map(|(name, _)| name.to_owned()).collect()
}
