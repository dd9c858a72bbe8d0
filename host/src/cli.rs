//! The command line: what was typed, as plain data.
//!
//! Place in the flow: `main.rs` parses here, lets `config.rs` judge the settings and calls the command.
//! In:   the process's arguments. Out: a [`Command`].
//! Invariants: no I/O but for `documents.rs`, no environment, no defaults: those are `config.rs`'s business.
//! Flags that are settings come from the one list in `config/settings.rs`, so a setting cannot lack its flag.
//! Only this file and its folder name `clap`. Help texts call the program what its caller calls it. A usage
//! error ends the process with exit code 2, `--help` with 0.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory as _, FromArgMatches, Parser, Subcommand};

use crate::config::Overrides;
use crate::config::settings::{self, Kind, Scope, Setting};
use crate::json::path::Pattern;
use crate::text::is_token;
use crate::values::{RawValue, Reader as _, number, ratio};

mod documents;
mod operator;
mod project;
mod texts;

use crate::program::NAME;
pub use crate::program::program;
pub use documents::{Shell, completions, write_manual};
pub use operator::{Admin, Apply, DiffConfig, History, Logs, Status, Swap, Trial};
pub use project::{Bench, Build, Dev, New, Test};
use texts::{
    APPLY_EXAMPLE, BENCH_EXAMPLE, BUILD_EXAMPLE, CACHE_EXAMPLE, CHECK_EXAMPLE, CHECK_USAGE,
    COMPLETIONS_EXAMPLE, DEMO_EXAMPLE, DEV_EXAMPLE, DIFF_CONFIG_EXAMPLE, DIFF_EXAMPLE, DIFF_USAGE,
    ENVIRONMENT, EXAMPLE, EXIT_CODES, HISTORY_EXAMPLE, LIBRARY, LOGS_EXAMPLE, NEW_EXAMPLE, REPLAY_EXAMPLE,
    RUN_EXAMPLE, RUN_USAGE, SERVE_USAGE, STATUS_EXAMPLE, SWAP_EXAMPLE, TEST_EXAMPLE, TRIAL_EXAMPLE, sections,
};

/// Serves models over HTTP and runs a sandboxed WebAssembly handler around every prediction.
#[derive(Debug, Parser)]
#[command(
    name = NAME, disable_version_flag = true, arg_required_else_help = true,
    args_conflicts_with_subcommands = true, after_help = EXAMPLE,
    after_long_help = sections(&[LIBRARY, EXIT_CODES, EXAMPLE])
)]
struct Cli {
    /// Print the version.
    #[arg(short = 'V', exclusive = true)]
    short_version: bool,
    /// Print the version, the commit it was built from, and the engines that this machine has for it.
    #[arg(long, exclusive = true)]
    version: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The subcommands.
#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Serve endpoints over HTTP until SIGTERM or Ctrl-C.
    ///
    /// When ready, prints `listening on http://HOST:PORT`, then the same for the admin address. Logs go to
    /// stderr.
    #[command(
        override_usage = SERVE_USAGE,
        after_help = EXAMPLE,
        after_long_help = sections(&[ENVIRONMENT, LIBRARY, EXIT_CODES, EXAMPLE]),
    )]
    Serve(Settings<true>),
    /// Load every endpoint as `serve` would, try its examples, and say what breaks. Nothing listens.
    ///
    /// Prints a line for each endpoint: how long it took to load and to answer the examples of its input
    /// schema, or what is wrong. Logs go to stderr.
    #[command(
        override_usage = CHECK_USAGE,
        after_help = CHECK_EXAMPLE,
        after_long_help = sections(&[ENVIRONMENT, LIBRARY, EXIT_CODES, CHECK_EXAMPLE]),
    )]
    Check(Settings<true>),
    /// Show what a handler exports and imports, its contract version and size; never runs it.
    Inspect(Inspect),
    /// Run recorded requests again, without model and server, and say whether they come out the same.
    ///
    /// The handler gets the clocks, random bytes and headers that were recorded, and the model's recorded
    /// answer. Prints a line for each recording: `same`, `differs` and in what, `diverged` where the handler
    /// asks for something that was not recorded, or `unusable`.
    #[command(after_help = REPLAY_EXAMPLE, after_long_help = sections(&[EXIT_CODES, REPLAY_EXAMPLE]))]
    Replay(Replay),
    /// Send one sample through a handler and a model, without a server.
    ///
    /// Prints the response, the tensors of each stage and how long each stage took.
    #[command(
        override_usage = RUN_USAGE,
        after_help = RUN_EXAMPLE,
        after_long_help = sections(&[ENVIRONMENT, LIBRARY, EXIT_CODES, RUN_EXAMPLE]),
    )]
    Run(Run),
    /// Send samples through two versions of a handler and show where their answers differ. Nothing listens.
    ///
    /// Prints a line for each sample: whether both answer the same, how long they took and how much memory.
    /// The model runs once for both where they make the same inputs of a sample. Ends with 0 if all answers
    /// are the same and not all of them errors, else with 1.
    #[command(
        mut_arg("plugin", |arg| arg.hide(true).conflicts_with("old")),
        override_usage = DIFF_USAGE,
        after_help = DIFF_EXAMPLE,
        after_long_help = sections(&[ENVIRONMENT, LIBRARY, EXIT_CODES, DIFF_EXAMPLE]),
    )]
    Diff(Diff),
    /// Replace what an endpoint of a running server serves: its handler, models, or both together.
    ///
    /// The new handler is loaded, checked and tried beside the old one, which goes on serving until then, and
    /// altogether if the new one is refused. Prints what is served now.
    #[command(after_help = SWAP_EXAMPLE)]
    Swap(Swap),
    /// Have a running server serve another config file, and print first what that changes.
    ///
    /// Endpoints that are the same in it are not touched. The server takes it as a whole or not at all.
    /// Without FILE it reads its own files again, and takes handlers and models as their files are now.
    #[command(after_help = APPLY_EXAMPLE)]
    Apply(Apply),
    /// Show what serving one config file in place of another changes. Asks no server.
    ///
    /// Ends with 0 if nothing changes, with 1 if something does. Of files that they name nothing is read.
    #[command(after_help = DIFF_CONFIG_EXAMPLE)]
    DiffConfig(DiffConfig),
    /// Show what the endpoints of a running server serve, and how.
    ///
    /// A row for each: generation, handler, models, requests. Below: trials, open breakers, refused swaps.
    #[command(after_help = STATUS_EXAMPLE)]
    Status(Status),
    /// Show every attempt to serve another generation of an endpoint, and why it was refused.
    #[command(after_help = HISTORY_EXAMPLE)]
    History(History),
    /// Show the last lines of a running server's log, of an endpoint or a request.
    ///
    /// The server keeps its last 2000 lines in memory.
    #[command(after_help = LOGS_EXAMPLE)]
    Logs(Logs),
    /// Show how a candidate does beside the current handler.
    ///
    /// With `--watch` until the trial is over: ends with 0 if the candidate serves, with 1 if it was dropped.
    #[command(after_help = TRIAL_EXAMPLE)]
    Trial(Trial),
    /// Make a handler project: a folder that stands alone.
    ///
    /// It has a handler that works, its model, a sample, a golden case and a README of one page.
    #[command(after_help = NEW_EXAMPLE)]
    New(New),
    /// Build a handler project to a component, `handler.wasm`.
    ///
    /// The language follows from the project's manifest: Cargo.toml, requirements.txt, package.json, go.mod,
    /// compile_flags.txt (C, C++) or build.zig. Tools that the manifest names are installed into the project.
    /// What tools print is shown if they fail.
    #[command(after_help = BUILD_EXAMPLE, after_long_help = sections(&[EXIT_CODES, BUILD_EXAMPLE]))]
    Build(Build),
    /// Serve a handler project while it is being written: every change of its files is built and served.
    ///
    /// A request while it does not build is answered by the version before, with the error in
    /// `x-build-error`; without one with 503 and the error. The page at `/docs` follows. Ctrl-C ends it.
    #[command(after_help = DEV_EXAMPLE, after_long_help = sections(&[EXIT_CODES, DEV_EXAMPLE]))]
    Dev(Dev),
    /// Send the golden cases of a handler project through handler and model, without a server.
    ///
    /// `cases/NAME.json` is the body of a request, `NAME.expected.json` what has to be answered, as far as
    /// the endpoint's `gate.tolerance` and `gate.ignore` say. Prints a line for each case, and what differs.
    #[command(after_help = TEST_EXAMPLE, after_long_help = sections(&[EXIT_CODES, TEST_EXAMPLE]))]
    Test(Test),
    /// Load an endpoint and say how it answers: requests a second, percentiles, errors.
    ///
    /// Of a folder its modelhost.toml is served for that. Two targets are loaded in turns and compared.
    #[command(after_help = BENCH_EXAMPLE, after_long_help = sections(&[EXIT_CODES, BENCH_EXAMPLE]))]
    Bench(Bench),
    /// Serve the iris example that comes with this program, and say what to try next.
    #[command(after_help = DEMO_EXAMPLE)]
    Demo(Demo),
    /// Show what the cache of compiled handlers takes on the disk, or clear it.
    ///
    /// A handler is compiled once on a machine. What is cleared is compiled again at the next start; servers
    /// that run go on.
    #[command(after_help = CACHE_EXAMPLE)]
    Cache(Cache),
    /// Print what makes a shell complete this program's commands and flags.
    #[command(after_help = COMPLETIONS_EXAMPLE)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual, a page for each command.
    #[command(hide = true)]
    Man {
        /// The folder, which is made if it is not there.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print the version; `long` also the commit and the engines.
    #[command(skip)]
    Version {
        /// Whether `--version` was asked for, not `-V`.
        long: bool,
    },
}

/// Arguments of `host inspect`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Inspect {
    /// The component to look at.
    #[arg(value_name = "FILE")]
    pub component: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `host replay`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Replay {
    /// Recordings of `serve --record`, or folders of them.
    #[arg(value_name = "FILE|DIR", required = true)]
    pub recordings: Vec<PathBuf>,
    /// The handler: the one that was recorded, or another.
    #[arg(long, value_name = "FILE")]
    pub plugin: PathBuf,
    /// Folder that it sees at `/mnt/project`.
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// How far a decimal number may be from the recorded one: absolutely, or in relation to it.
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = tolerance)]
    pub tolerance: Tolerance,
    /// Place in JSON (`/predictions/*/score`), in tensors (`/NAME/INDEX`), or name of a header that may
    /// differ; may be repeated.
    #[arg(long, value_name = "PLACE", value_parser = Pattern::parse)]
    pub ignore: Vec<Pattern>,
    /// Print a JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// A distance between numbers: finite, and not below 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance(pub f64);

/// It is a number.
impl Eq for Tolerance {}

/// Arguments of `host run`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Run {
    /// File with the request's body; `-` is stdin.
    #[arg(value_name = "SAMPLE")]
    pub sample: PathBuf,
    /// Media type of the sample.
    #[arg(long, value_name = "TYPE", default_value = "application/json")]
    pub content_type: String,
    /// Query string of the request, without the `?`.
    #[arg(long, value_name = "QUERY", default_value = "", hide_default_value = true)]
    pub query: String,
    /// Header of the request; may be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
    /// How often to send it, one after the other; the timings are then of all of them.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Config file with the endpoint. `modelhost.toml`, if it is there and neither a handler nor a model is
    /// given.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Name of the endpoint, where the config file has several.
    #[arg(long, value_name = "NAME")]
    pub endpoint: Option<String>,
    /// The endpoint.
    #[command(flatten)]
    pub settings: Settings<false>,
}

/// Arguments of `host diff`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Diff {
    /// The handler there is.
    #[arg(value_name = "OLD.wasm")]
    pub old: PathBuf,
    /// The handler that would take its place.
    #[arg(value_name = "NEW.wasm")]
    pub new: PathBuf,
    /// A file with a request's body, or a folder of them; `NAME.expected.json` is what NEW has to answer to
    /// `NAME`.
    #[arg(long, value_name = "DIR|FILE")]
    pub samples: PathBuf,
    /// How far a decimal number of an answer may be from the old one, absolutely or relatively.
    #[arg(long, value_name = "NUMBER", default_value = "1e-6", value_parser = tolerance)]
    pub tolerance: Tolerance,
    /// A difference that is allowed: a path in a JSON answer, `/predictions/*/took`, or the name of a header;
    /// may be repeated.
    #[arg(long, value_name = "PATH|NAME", value_parser = Pattern::parse)]
    pub ignore: Vec<Pattern>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The endpoint, but for its handler.
    #[command(flatten)]
    pub settings: Settings<false>,
}

/// Arguments of `host demo`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Demo {
    /// Address to serve on; port 0 is any free port. [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// The admin address. [default: 127.0.0.1:8001]
    #[arg(long, value_name = "ADDRESS")]
    pub admin_listen: Option<String>,
}

/// Arguments of `host cache`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Cache {
    /// The folder. [default: as MODELHOST_CACHE_DIR says, else ${XDG_CACHE_HOME:-~/.cache}/modelhost]
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Remove what is compiled.
    #[arg(long)]
    pub clear: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "clear")]
    pub json: bool,
}

/// Settings given as flags; `SERVE` for those of `host serve` and `host check`, which are all, else those of
/// `host run`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settings<const SERVE: bool>(pub Overrides);

/// Reads the process's arguments; ends the process on a usage error and `--help`.
pub fn parse() -> Command {
    parse_from(std::env::args_os()).unwrap_or_else(|end| end.exit())
}

fn parse_from(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> clap::error::Result<Command> {
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let mut command = command(&program());
    let parsed = command.try_get_matches_from_mut(&arguments).and_then(|mut matches| {
        Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    });
    match parsed {
        // Without arguments clap has shown the help.
        Ok(Cli { command, version, .. }) => Ok(command.unwrap_or(Command::Version { long: version })),
        Err(error) => Err(with_flag(error, arguments.get(1).and_then(|name| command.find_subcommand(name)))),
    }
}

/// A file without its flag is told the flag, where the subcommand has it.
fn with_flag(mut error: clap::Error, command: Option<&clap::Command>) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let flag = match Path::new(word).extension().and_then(OsStr::to_str) {
        Some("onnx") => "model",
        Some("wasm") => "plugin",
        Some("toml") => "config",
        _ => return error,
    };
    let mut flags = command.into_iter().flat_map(clap::Command::get_arguments);
    if !flags.any(|arg| arg.get_long() == Some(flag) && !arg.is_hide_set()) {
        return error;
    }
    let meant = format!("give the file with its flag: '--{flag} {word}'").into();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![meant]));
    error
}

/// The definition of the command line of a program called `name`.
fn command(name: &str) -> clap::Command {
    fn named(command: clap::Command, name: &str) -> clap::Command {
        let text = |text: &clap::builder::StyledStr| text.to_string().replace("{host}", name);
        let (short, long) = (command.get_after_help().map(text), command.get_after_long_help().map(text));
        let command = short.into_iter().fold(command, clap::Command::after_help);
        let usage = command.get_overridden_usage().map(text);
        let command = long.into_iter().fold(command, clap::Command::after_long_help);
        let command = usage.into_iter().fold(command, clap::Command::override_usage);
        // Of a number that is out of range, the range is said.
        let command = command.mut_args(|arg| {
            let is_valued = !arg.is_positional() && arg.get_action().takes_values();
            arg.allow_negative_numbers(is_valued)
        });
        command.mut_subcommands(|inner| named(inner, name))
    }
    named(Cli::command(), name).bin_name(name)
}

impl<const SERVE: bool> Settings<SERVE> {
    const SCOPE: Scope = if SERVE { Scope::Serve } else { Scope::Run };

    fn all() -> impl Iterator<Item = &'static Setting> {
        settings::ALL.iter().copied().filter(|setting| setting.applies_to(Self::SCOPE))
    }
}

impl<const SERVE: bool> Args for Settings<SERVE> {
    fn augment_args(command: clap::Command) -> clap::Command {
        Self::all().fold(command, |command, setting| command.args(flags(setting)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<const SERVE: bool> FromArgMatches for Settings<SERVE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = Self::default();
        settings.update_from_arg_matches(matches)?;
        Ok(settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in Self::all() {
            let values: Vec<String> = match setting.kind {
                Kind::Switch(_) if matches.get_flag(setting.flag) => vec!["true".to_owned()],
                Kind::Switch(off) if matches.get_flag(off) => vec!["false".to_owned()],
                Kind::Switch(_) => Vec::new(),
                Kind::Value(_) | Kind::List(_) => {
                    matches.get_many(setting.flag).unwrap_or_default().cloned().collect()
                }
            };
            if !values.is_empty() {
                self.0.set(setting, values);
            }
        }
        Ok(())
    }
}

/// The flag of `setting`; of a switch, both flags, of which `--help` shows the one that changes the default.
fn flags(setting: &'static Setting) -> Vec<Arg> {
    let default = |default: &str| match default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    let flag = |name: &'static str| Arg::new(name).long(name).help_heading(setting.group.title());
    let valued = |placeholder, action| {
        let help = setting.help.to_owned() + &default(setting.default);
        vec![flag(setting.flag).value_name(placeholder).action(action).help(help)]
    };
    match setting.kind {
        Kind::Value(placeholder) => valued(placeholder, ArgAction::Set),
        Kind::List(placeholder) => valued(placeholder, ArgAction::Append),
        Kind::Switch(off) => {
            let on = setting.flag;
            let switch = |name, other| flag(name).action(ArgAction::SetTrue).overrides_with(other);
            let is_on = setting.default == "true";
            let (first, rest) = setting.help.split_at(1);
            let opposite = format!("Do not {}{rest}{}", first.to_lowercase(), default(&format!("--{on}")));
            vec![switch(on, off).help(setting.help).hide(is_on), switch(off, on).help(opposite).hide(!is_on)]
        }
    }
}

fn tolerance(typed: &str) -> Result<Tolerance, String> {
    let number = number(0.0..=f64::MAX).read(&RawValue::of(typed)).map(Tolerance);
    number.map_err(|_| "write a number from 0 up, such as `1e-5`".to_owned())
}

/// A part of the requests or samples, as the server will read it.
fn share(typed: &str) -> Result<String, String> {
    let read = ratio().read(&RawValue::of(typed));
    read.map(|_| typed.to_owned()).map_err(|_| "write a number from 0 to 1, such as `0.05`".to_owned())
}

/// One of them, or several with commas between them.
fn shares(typed: &str) -> Result<String, String> {
    let shares: Option<Vec<_>> = typed.split(',').map(|one| ratio().read(&RawValue::of(one)).ok()).collect();
    let shares = shares.filter(|shares| shares.array_windows().all(|[one, next]| one < next));
    shares.map(|_| typed.to_owned()).ok_or_else(|| {
        "write a number from 0 to 1, such as `0.05`, or several, each larger than the one before: `0.05,0.25,1`"
            .to_owned()
    })
}

fn header(typed: &str) -> Result<(String, String), String> {
    let (name, value) = typed.split_once(':').ok_or("write `NAME: VALUE`")?;
    let (name, value) = (name.trim(), value.trim());
    if !is_token(name) || value.chars().any(char::is_control) {
        return Err("write `NAME: VALUE`, as in a request".to_owned());
    }
    Ok((name.to_ascii_lowercase(), value.to_owned()))
}

fn term(typed: &str) -> Result<(String, String), String> {
    let (name, value) = typed.split_once('=').ok_or("write `NAME=VALUE`")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests;
