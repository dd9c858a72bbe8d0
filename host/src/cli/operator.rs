//! The commands for the operator of a running server: `swap`, `apply`, `status`, `history`, `logs`, `trial`.

use std::path::PathBuf;

use clap::Args;

use super::{Tolerance, share, shares, term, tolerance};
use crate::json::path::Pattern;
use crate::values::{RawValue, Reader as _, count};

/// A running server.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Admin {
    /// The server's admin address.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8001")]
    pub admin: String,
    /// Where the key is that opens it; else where MODELHOST_ADMIN_KEY says.
    #[arg(long, alias = "admin-key", value_name = "@FILE|env:NAME")]
    pub key: Option<String>,
    /// Certificate in PEM to trust the admin address by, in place of the public ones.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// Arguments of `host swap`.
#[derive(Debug, PartialEq, Eq, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct Swap {
    /// The endpoint's name.
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: String,
    /// The handler to serve from now on.
    #[arg(long, value_name = "FILE", group = "what")]
    pub plugin: Option<PathBuf>,
    /// Load this model as its files are now, together with the handler if there is one; may be repeated.
    #[arg(long = "model", value_name = "NAME[:VERSION]", group = "what")]
    pub models: Vec<String>,
    /// Go back to the generation before.
    #[arg(long, group = "what", conflicts_with_all = ["plugin", "models", "reload"])]
    pub rollback: bool,
    /// Take handler and models as their files are now.
    #[arg(long, group = "what", conflicts_with_all = ["plugin", "models"])]
    pub reload: bool,
    /// Put the handler on trial: it sees this share of the requests, and its answers are compared and counted
    /// only.
    #[arg(
        long, value_name = "SHARE", requires = "plugin", value_parser = share,
        conflicts_with_all = ["canary", "models", "persist", "rollback", "reload"]
    )]
    pub shadow: Option<String>,
    /// Put the handler on trial: it answers this share of the requests; of several, one after the other,
    /// until it serves.
    #[arg(
        long, value_name = "SHARE,...", requires = "plugin", value_parser = shares,
        conflicts_with_all = ["models", "persist", "rollback", "reload"]
    )]
    pub canary: Option<String>,
    /// A further term of the trial; may be repeated.
    #[arg(long = "term", value_name = "NAME=VALUE", requires = "plugin", value_parser = term)]
    pub terms: Vec<(String, String)>,
    /// Serve the candidate that is on trial.
    #[arg(
        long, group = "what",
        conflicts_with_all = [
            "plugin", "models", "reload", "rollback", "shadow", "canary", "terms", "persist"
        ]
    )]
    pub promote: bool,
    /// End the trial.
    #[arg(
        long, group = "what",
        conflicts_with_all = [
            "plugin", "models", "reload", "rollback", "promote", "shadow", "canary", "terms", "persist"
        ]
    )]
    pub drop_candidate: bool,
    /// Write the handler to the endpoint's file too, so that it serves after a restart.
    #[arg(long, requires = "plugin", conflicts_with_all = ["rollback", "reload"])]
    pub persist: bool,
    /// A difference that the gate allows, this once: a path in a JSON answer or the name of a header; may be
    /// repeated.
    #[arg(
        long, value_name = "PATH|NAME", value_parser = Pattern::parse,
        conflicts_with_all = ["rollback", "shadow", "canary", "drop_candidate"]
    )]
    pub ignore: Vec<Pattern>,
    /// How far a decimal number may be from the old one for the gate, this once.
    #[arg(
        long, value_name = "NUMBER", value_parser = tolerance,
        conflicts_with_all = ["rollback", "shadow", "canary", "drop_candidate"]
    )]
    pub tolerance: Option<Tolerance>,
    /// The part of the gate's samples that may be answered otherwise, this once, from 0 to 1.
    #[arg(
        long, value_name = "SHARE", value_parser = share,
        conflicts_with_all = ["rollback", "shadow", "canary", "drop_candidate"]
    )]
    pub mismatches: Option<String>,
    /// Let all of them be answered otherwise, this once; what differs is logged.
    #[arg(long, conflicts_with_all = ["mismatches", "rollback", "shadow", "canary", "drop_candidate"])]
    pub accept_differences: bool,
    /// Only if the current handler has this SHA-256.
    #[arg(long, value_name = "DIGEST")]
    pub if_match: Option<String>,
    /// Why; stands in the endpoint's history.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Where the server is.
    #[command(flatten)]
    pub server: Admin,
}

/// Arguments of `host apply`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Apply {
    /// The config file; without one, the server's own as it is now.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Only print what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// Write it to the server's config file too, so that it serves after a restart.
    #[arg(long, requires = "file")]
    pub persist: bool,
    /// Why; stands in the history of the configuration.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// Where the server is.
    #[command(flatten)]
    pub server: Admin,
}

/// Arguments of `host diff-config`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct DiffConfig {
    /// The config file that is served.
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// The config file that is to be.
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `host status`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Status {
    /// Only this endpoint.
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: Option<String>,
    /// Look again every second, until Ctrl-C.
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Where the server is.
    #[command(flatten)]
    pub server: Admin,
}

/// Arguments of `host history`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct History {
    /// The endpoint; the only one by itself.
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Where the server is.
    #[command(flatten)]
    pub server: Admin,
}

/// Arguments of `host logs`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Logs {
    /// Only the lines about this endpoint.
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: Option<String>,
    /// Only the lines about this request.
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,
    /// Only lines of this level and above.
    #[arg(long, value_name = "LEVEL", value_parser = ["error", "warn", "info", "debug", "trace"])]
    pub level: Option<String>,
    /// How many of the last lines.
    #[arg(short = 'n', long, value_name = "N", default_value = "100", value_parser = lines)]
    pub lines: usize,
    /// Print lines as they come, until Ctrl-C.
    #[arg(short, long)]
    pub follow: bool,
    /// Print a JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Where the server is.
    #[command(flatten)]
    pub server: Admin,
}

/// Arguments of `host trial`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct Trial {
    /// The endpoint; the only one by itself.
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: Option<String>,
    /// Look again every second, until the trial is over.
    #[arg(long)]
    pub watch: bool,
    /// Print JSON; watched, an object a line.
    #[arg(long)]
    pub json: bool,
    /// Where the server is.
    #[command(flatten)]
    pub server: Admin,
}

fn lines(typed: &str) -> Result<usize, String> {
    count(1..=2000).read(&RawValue::of(typed)).map_err(|_| "write a whole number from 1 to 2000".to_owned())
}
