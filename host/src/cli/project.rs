//! The commands for the author of a handler: `new`, `build`, `dev`, `test`, `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use modelhost_project::new::{Language, Template};

use super::header;
use crate::values::{RawValue, Reader as _, count, duration, number};

/// Arguments of `host new`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct New {
    /// Name of the handler and of the folder: lower-case letters, digits and `-`.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The language to write it in.
    #[arg(long, value_name = "LANGUAGE", value_parser = language(), required_unless_present = "from")]
    pub lang: Option<Language>,
    /// The template of the handler.
    #[arg(long, value_name = "TEMPLATE", value_parser = template(), default_value = "iris", conflicts_with = "from")]
    pub template: Template,
    /// A Truss, or an app of Potassium, Inferless or Cortex, to bring over into Python: its folder or a file.
    #[arg(long, value_name = "DIR", conflicts_with = "lang")]
    pub from: Option<PathBuf>,
    /// The API of a Cortex project that has several; by default the first.
    #[arg(long, value_name = "NAME", requires = "from")]
    pub api: Option<String>,
}

fn language() -> impl TypedValueParser<Value = Language> {
    choice(Language::ALL.map(|language| (language.key(), language.about(), language)))
}

fn template() -> impl TypedValueParser<Value = Template> {
    choice(Template::ALL.map(|template| (template.key(), template.about(), template)))
}

/// One of these, by its name.
fn choice<T, const N: usize>(all: [(&'static str, &'static str, T); N]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let named = all.map(|(name, about, _)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(named).try_map(move |typed| {
        let found = all.iter().find(|(name, ..)| *name == typed);
        found.map(|(.., choice)| *choice).ok_or_else(|| format!("there is no `{typed}`"))
    })
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
    /// Show of a case that fails what each stage made of it: body, tensors, calls of models and of others.
    #[arg(long)]
    pub debug: bool,
    /// Write the results as JUnit XML too.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}
