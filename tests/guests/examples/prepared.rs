//! Does in `init` what the endpoint's metadata lists, and tells every request what is left of it.
//!
//! A step is a text: `table:BYTES` and `scattered:BYTES` fill memory, `read:PATH` and `env:NAME` keep what they find, `random` keeps
//! a random number, `open:PATH` keeps the file itself, `print:TEXT` and `begin:TEXT` write with and without a line's end; `fail:TEXT`,
//! `panic`, `exit`, `spin` and `hog` end badly. A request's body is one more step; so is `sum`, over the table. The answer, as JSON: how
//! often `init` and requests ran in this instance, the table's length and last byte, what was found in `init`, and what now.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::Read;

use modelhost_guest::{
    Context, Error, Handler, Metadata, Response, Result, Sample, Tensor, export, internal,
};
use serde_json::json;

struct Prepared {
    inits: u32,
    requests: u32,
    table: Vec<u8>,
    found: Vec<String>,
    files: Vec<File>,
}

export!(Prepared: init, pre_inference);

impl Handler for Prepared {
    fn new() -> Self {
        Prepared { inits: 0, requests: 0, table: Vec::new(), found: Vec::new(), files: Vec::new() }
    }

    fn init(&mut self, metadata: &Metadata) -> Result<()> {
        self.inits += 1;
        let steps: Option<Vec<String>> = metadata.parse()?;
        steps.unwrap_or_default().iter().try_for_each(|step| self.step(step))
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        self.requests += 1;
        let before = self.found.clone();
        let now = match self.step(&sample.text()?) {
            Ok(()) => json!(self.found.split_off(before.len())),
            Err(error) => json!({"error": error.to_string()}),
        };
        let rest: Vec<String> = self.files.iter_mut().map(rest).collect::<std::io::Result<_>>()?;
        Err(Error::Respond(Response::json(&json!({
            "inits": self.inits, "requests": self.requests, "table": [self.table.len(), self.table.last()],
            "found": before, "open": rest, "now": now,
        }))?))
    }
}

impl Prepared {
    #[expect(clippy::panic, clippy::print_stdout, reason = "it is what this guest is for")]
    fn step(&mut self, step: &str) -> Result<()> {
        let (verb, argument) = step.split_once(':').unwrap_or((step, ""));
        let bytes = || argument.parse::<usize>().map_err(|error| internal(error.to_string()));
        match verb {
            "" => {}
            "table" => self.table = (0..bytes()?).map(|n| (n / 4096 % 251) as u8 + 1).collect(),
            "scattered" => self.table = (0..bytes()?).map(|n| (n % 2) as u8).collect(),
            "sum" => self.found.push(self.table.iter().map(|byte| u64::from(*byte)).sum::<u64>().to_string()),
            "read" => self.found.push(fs::read_to_string(argument)?),
            "env" => self.found.push(std::env::var(argument).map_err(|error| internal(error.to_string()))?),
            "random" => self.found.push(RandomState::new().hash_one(0).to_string()),
            "open" => self.files.push(File::open(argument)?),
            "print" => println!("{argument}"),
            "begin" => print!("{argument}"),
            "fail" => return Err(internal(argument)),
            "panic" => panic!("the test asked for a panic"),
            "exit" => std::process::exit(3),
            "spin" => loop {
                std::hint::black_box(());
            },
            "hog" => loop {
                self.table.extend_from_slice(&[1; 1 << 16]);
            },
            other => return Err(internal(format!("no step is called `{other}`"))),
        }
        Ok(())
    }
}

/// What is left to read in a file.
fn rest(file: &mut File) -> std::io::Result<String> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}
