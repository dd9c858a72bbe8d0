//! A hostile application on the bare contract, `respond`: the path says how it fails at its response, floods the
//! host, or lies.

// Natively its exports have names that no linker takes.
#![cfg(target_family = "wasm")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unsafe_code,
    reason = "a guest that does all that it should not, handles that are not its own included"
)]

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "application", generate_all });
}

use std::thread::sleep;
use std::time::Duration;

use bindings::exports::modelhost::handler::respond::Guest;
use bindings::modelhost::handler::models::{self, Resident};
use bindings::modelhost::handler::request::on_disconnect;
use bindings::modelhost::handler::streaming::Output;
use bindings::modelhost::handler::types::{Context, Datatype, Error, Response, Sample, Tensor};

struct Hostile;

bindings::export!(Hostile with_types_in bindings);

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Guest for Hostile {
    fn respond(_: Sample, context: &Context, output: Output) -> Result<Option<Response>, Error> {
        let path = context.path();
        let (kind, argument) = path.trim_start_matches('/').split_once('=').unwrap_or((&path[1..], ""));
        let number = || argument.parse::<usize>().unwrap();
        match kind {
            "good" => return text("good"),
            // No answer.
            "wait-a-day" => sleep(DAY),
            "wait-storm" => loop {
                sleep(Duration::from_millis(1));
            },
            "nothing" => {}
            "internal" => return Err(Error::Internal("x".repeat(number()))),
            "invalid" => return Err(Error::InvalidInput("x".repeat(number()))),
            "large" => return text(&"x".repeat(number())),
            "large-error" => {
                return text(&"x".repeat(number()))
                    .map_err(|_| unreachable!())
                    .and_then(|response| Err(Error::Respond(response.unwrap())));
            }
            // An answer that is none.
            "status" => return respond(number().try_into().unwrap(), &[], "body"),
            "header" => return respond(200, &[argument.split_once(':').unwrap()], "body"),
            "wide-header" => return respond(200, &[("x-wide", &"x".repeat(number()))], "body"),
            "many-headers" => return respond(200, &vec![("x-many", "1"); number()], "body"),
            "begin-header" => {
                let headers = [argument.split_once(':').unwrap()].map(|(n, v)| (n.to_owned(), v.to_owned()));
                let refused = output.begin(200, "text/plain", &headers).unwrap_err();
                return text(&refused);
            }
            // Twice.
            "begin-twice" => {
                begin(&output);
                return Err(Error::Internal(output.begin(200, "text/plain", &[]).unwrap_err()));
            }
            "begin-and-return" => {
                begin(&output);
                return text("second");
            }
            "send-and-return" => {
                Output::send(output, &response(200, &[], "first")).unwrap();
                return text("second");
            }
            "send-after-begin" => {
                begin(&output);
                Output::send(output, &response(200, &[], "second")).unwrap_err();
            }
            "finish-first" => Output::finish(output),
            "write-first" => drop(output.write(b"half")),
            "write-after-finish" => {
                begin(&output);
                let handle = output.handle();
                Output::finish(output);
                unsafe { Output::from_handle(handle) }.write(b"more");
            }
            "forge-output" => {
                unsafe { Output::from_handle(77) }.write(b"forged");
            }
            "keep" => {
                std::mem::forget(output);
                return text("kept");
            }
            // A body without an end.
            "leave-body" => {
                begin(&output);
                std::mem::forget(output);
            }
            "drop-body" => begin(&output),
            "in-body" => {
                begin(&output);
                match argument {
                    "wait" => sleep(DAY),
                    "large" => drop(output.write(&vec![0; 20 << 20])),
                    "empty" => while output.write(b"") {},
                    "drip" => {
                        while output.write(b".") {
                            sleep(Duration::from_millis(50));
                        }
                    }
                    other => attack(other),
                }
            }
            "drip" => {
                begin(&output);
                for _ in 0..200 {
                    output.write(b".");
                }
                Output::finish(output);
            }
            // After the answer.
            "after" => {
                Output::send(output, &response(200, &[], "good")).unwrap();
                match argument {
                    "wait" => sleep(DAY),
                    "storm" => loop {
                        sleep(Duration::from_millis(1));
                    },
                    other => attack(other),
                }
            }
            "models" => return text(&models(argument)),
            // Work of the host's, again and again, with a wait between two.
            "storm" => {
                begin(&output);
                storm(argument, &output);
            }
            "keep-tensor" => {
                std::mem::forget(Resident::make(Datatype::Uint8, &[3 << 20], &vec![0; 3 << 20]).unwrap());
                return text("kept");
            }
            "leak" => {
                let mut held = Vec::new();
                loop {
                    held.push(on_disconnect());
                }
            }
            other => attack(other),
        }
        Ok(None)
    }
}

/// What needs no response.
fn attack(kind: &str) {
    match kind {
        "trap" => panic!("as asked"),
        "exit" => std::process::exit(0),
        "spin" => {
            let mut n = 0_u64;
            loop {
                n = std::hint::black_box(n.wrapping_add(1));
            }
        }
        "recurse" => drop(recurse(1)),
        "grow" => {
            let mut held = Vec::new();
            loop {
                held.push(vec![1_u8; 1 << 20]);
            }
        }
        "print" => loop {
            println!("{}", "x".repeat(10_000));
        },
        other => panic!("no such attack: `{other}`"),
    }
}

/// The limit that using models without end comes to, or how far it got.
fn models(what: &str) -> String {
    let small = || Resident::make(Datatype::Fp32, &[2], &[0; 8]);
    let large = || Resident::make(Datatype::Fp32, &[1 << 18], &vec![0; 1 << 20]);
    match what {
        "tensors" => refused(small),
        "bytes" => refused(large),
        "runs" => {
            let x = small().unwrap();
            refused(|| models::run("identity", &[("x".to_owned(), &x)], &[]).map(drop))
        }
        "start" => {
            let x = small().unwrap();
            refused(|| models::start("identity", &[("x".to_owned(), &x)], &[]))
        }
        // Runs whose outputs nothing waits for.
        "outputs" => {
            let x = large().unwrap();
            let runs: Vec<_> =
                (0..100).map(|_| models::start("identity", &[("x".to_owned(), &x)], &[]).unwrap()).collect();
            sleep(Duration::from_millis(300));
            let ended = runs.iter().map(|run| run.wait().map(std::mem::forget));
            ended.filter_map(Result::err).map(|error| format!("{error:?}")).next().unwrap_or_default()
        }
        "lie" => format!("{:?}", Resident::make(Datatype::Fp32, &[u64::MAX, u64::MAX], &[0; 8]).unwrap_err()),
        "rows" => format!("{:?}", small().unwrap().rows(u64::MAX, u64::MAX).unwrap_err()),
        "range" => format!("{:?}", small().unwrap().read_range(u64::MAX, u64::MAX).unwrap_err()),
        // Text and shapes without end.
        "ranks" => {
            let x = small().unwrap();
            let shapes = [vec![2; 33], vec![1; 600_000], vec![u64::MAX; 32], vec![u64::MAX; 600_000]];
            let errors = shapes.map(|shape| format!("{:?}", x.reshape(&shape).unwrap_err()));
            let made = Resident::make(Datatype::Fp32, &vec![1; 600_000], &[0; 4]).unwrap_err();
            longest(errors.into_iter().chain([format!("{made:?}")]))
        }
        "names" => {
            let (x, long) = (small().unwrap(), "x".repeat(4 << 20));
            let (given, none) = ([(long.clone(), &x)], [("x".to_owned(), &x)]);
            let tensor =
                Tensor { name: long.clone(), datatype: Datatype::Fp32, shape: vec![2], data: vec![0; 8] };
            longest([
                format!("{:?}", models::describe(&long).unwrap_err()),
                format!("{:?}", models::infer(&long, &[]).unwrap_err()),
                format!("{:?}", models::infer("identity", &[tensor]).unwrap_err()),
                format!("{:?}", models::run(&long, &none, &[]).unwrap_err()),
                format!("{:?}", models::run("identity", &given, &[]).unwrap_err()),
                format!("{:?}", models::start(&long, &none, &[]).unwrap_err()),
                format!("{:?}", models::start("identity", &given, &[]).unwrap_err()),
                format!("{:?}", models::run("identity", &none, &[long]).unwrap_err()),
                format!("{:?}", models::start("identity", &none, &vec!["y".to_owned(); 1001]).unwrap_err()),
            ])
        }
        // As many runs as may be begun, and none of their outputs taken.
        "pending" => {
            let x = small().unwrap();
            let names = vec!["y".repeat(256); 1000];
            refused(|| models::start("identity", &[("x".to_owned(), &x)], &names))
        }
        // Of one tensor, as many as there may be.
        "shapes" => {
            let x = small().unwrap();
            let shape = [vec![1; 31], vec![2]].concat();
            refused(|| x.reshape(&shape))
        }
        "wait-twice" => {
            let x = small().unwrap();
            let run = models::start("identity", &[("x".to_owned(), &x)], &[]).unwrap();
            let _ = run.wait();
            format!("{:?}", run.wait().unwrap_err())
        }
        other => panic!("cannot do `{other}`"),
    }
}

/// The last of these errors, unless one is longer than errors should be.
fn longest(errors: impl IntoIterator<Item = String>) -> String {
    let errors: Vec<String> = errors.into_iter().collect();
    match errors.iter().find(|error| error.len() > 400) {
        Some(long) => format!("an error of {} bytes", long.len()),
        None => errors.last().unwrap().clone(),
    }
}

/// Has the host work for it, waits for a millisecond, and so on, until the client is gone.
fn storm(what: &str, output: &Output) {
    let texts = 4 << 20;
    let x = Resident::make(Datatype::Bytes, &[texts], &vec![0; 4 * texts as usize]).unwrap();
    let shape = vec![1; if what == "reshape" { 2 << 20 } else { 0 }];
    let name = "x".repeat(if what == "describe" { 16 << 20 } else { 0 });
    loop {
        match what {
            "rows" => drop(x.rows(texts - 1, 1).unwrap()),
            "rows-of-rows" => drop(x.rows(1, texts - 1).unwrap().rows(texts - 2, 1).unwrap()),
            "reshape" => drop(x.reshape(&shape).unwrap_err()),
            "make" => drop(Resident::make(Datatype::Bytes, &[1], &vec![0; 4 * texts as usize]).unwrap_err()),
            "describe" => drop(models::describe(&name).unwrap_err()),
            other => panic!("no such storm: `{other}`"),
        }
        if !output.write(b".") {
            return;
        }
        sleep(Duration::from_millis(1));
    }
}

/// The error of the first attempt that is refused; what the others gave is never dropped.
fn refused<T>(mut attempt: impl FnMut() -> Result<T, models::Error>) -> String {
    loop {
        match attempt() {
            Ok(kept) => std::mem::forget(kept),
            Err(error) => return format!("{error:?}"),
        }
    }
}

fn begin(output: &Output) {
    output.begin(200, "text/plain", &[]).unwrap();
    output.write(b"half");
}

fn text(body: &str) -> Result<Option<Response>, Error> {
    respond(200, &[], body)
}

fn respond(status: u16, headers: &[(&str, &str)], body: &str) -> Result<Option<Response>, Error> {
    Ok(Some(response(status, headers, body)))
}

fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Response { status, content_type: "text/plain".to_owned(), headers, body: body.as_bytes().to_vec() }
}

fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if frame.contains(&0) { 0 } else { recurse(depth + 1).wrapping_add(frame.iter().sum()) }
}
