//! The commands for the author of a handler: `new`, `build`, `dev`, `test`, `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::header;
use crate::values::{RawValue, Reader as _, count, duration, number};

/// Arguments of `host new`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct New {
    /// Name of the handler and of the folder: lower-case letters, digits and `-`.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The language to write it in.
    #[arg(long, value_name = "LANGUAGE", required_unless_present = "from")]
    pub lang: Option<Language>,
    /// The template of the handler.
    #[arg(long, value_name = "TEMPLATE", default_value = "iris", conflicts_with = "from")]
    pub template: Template,
    /// A Truss, or an app of Potassium, Inferless or Cortex, to bring over into Python: its folder or a file.
    #[arg(long, value_name = "DIR", conflicts_with = "lang")]
    pub from: Option<PathBuf>,
    /// The API of a Cortex project that has several; by default the first.
    #[arg(long, value_name = "NAME", requires = "from")]
    pub api: Option<String>,
}

/// A language that handlers are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Rust, on this repository's SDK.
    Rust,
    /// Python, by componentize-py.
    Python,
    /// JavaScript, by jco.
    Js,
    /// TypeScript, by jco; its types are checked.
    Ts,
    /// Go, by its own compiler.
    Go,
    /// C, by the compiler that comes with Zig.
    C,
    /// C++, by the compiler that comes with Zig.
    Cpp,
    /// Zig.
    Zig,
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 8] = [
        Language::Rust,
        Language::Python,
        Language::Js,
        Language::Ts,
        Language::Go,
        Language::C,
        Language::Cpp,
        Language::Zig,
    ];
}

/// The templates of a new handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Template {
    /// Around a model: names an iris from four measurements.
    Iris,
    /// Around a model: a JPEG file becomes pixels. In Rust.
    Image,
    /// Around a model: a text becomes numbers of its words.
    Text,
    /// Around a model: tensors in, tensors out, for clients of the Open Inference Protocol.
    Tensors,
    /// An application: routes, calls of a model, a stream, work after the response.
    App,
}

/// Arguments of `host build`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Build {
    /// The handler's folder.
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
}

/// Arguments of `host dev`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Dev {
    /// The handler's folder, with its modelhost.toml.
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Address to serve on, of the loopback; port 0 is any free port. [default: as modelhost.toml says, else
    /// 127.0.0.1:8000]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// The admin address. [default: as modelhost.toml says, else 127.0.0.1:8001]
    #[arg(long, value_name = "ADDRESS")]
    pub admin_listen: Option<String>,
}

/// Arguments of `host bench`.
#[derive(Debug, PartialEq, Args)]
pub struct Bench {
    /// A URL such as http://127.0.0.1:8000/iris, or a handler's folder; two are loaded in turns.
    #[arg(value_name = "URL|DIR", required = true, num_args = 1..=2)]
    pub targets: Vec<String>,
    /// Connections at the same time, each with one request at a time.
    #[arg(long, value_name = "N", default_value = "16", value_parser = connections)]
    pub connections: usize,
    /// How long each target is loaded.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub duration: Duration,
    /// How long it is loaded before that.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    pub warm_up: Duration,
    /// Requests a second, whether the ones before are answered or not: an open loop. Without, each connection
    /// sends the next request when the last is answered.
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    pub rate: Option<f64>,
    /// Longest time of one request.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub timeout: Duration,
    /// File with the body of the requests, which are POST; of a folder sample.json by itself. A URL without
    /// one is sent GET.
    #[arg(long, value_name = "FILE")]
    pub body: Option<PathBuf>,
    /// Media type of the body.
    #[arg(long, value_name = "TYPE", default_value = "application/json")]
    pub content_type: String,
    /// Header of the requests; may be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
    /// The endpoint of a folder whose modelhost.toml has several.
    #[arg(long, value_name = "NAME")]
    pub endpoint: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// It holds numbers, all of them finite.
impl Eq for Bench {}

fn connections(typed: &str) -> Result<usize, String> {
    count(1..=1024).read(&RawValue::of(typed)).map_err(|_| "write a whole number from 1 to 1024".to_owned())
}

fn rate(typed: &str) -> Result<f64, String> {
    number(0.1..=1e6).read(&RawValue::of(typed)).map_err(|_| "write a number from 0.1 to 1000000".to_owned())
}

fn time(typed: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(1)..=Duration::from_secs(3600);
    let wrong = |_| "write a time from `1ms` to `1h`, with its unit, such as `500ms` or `30s`".to_owned();
    duration(range).read(&RawValue::of(typed)).map_err(wrong)
}

/// Arguments of `host test`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Test {
    /// The handler's folder, with its modelhost.toml.
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Write the answers that differ or are missing as those that are expected from now on.
    #[arg(long)]
    pub update: bool,
    /// Write the results as JUnit XML too.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}
