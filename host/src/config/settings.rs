//! Settings: what each is called, how it is read, what it is by default, what it does.
//!
//! Place in the flow: [`ALL`], whose rows are in [`endpoint`], [`process`] and [`objects`], is the one list
//! that `cli.rs` makes flags from, `config/file.rs` knows keys by, the configuration is read with, and
//! docs/reference.md gets its tables from (`make reference`).
//! Invariants: flags are unique and lower case with `-`; the environment twin follows from the flag, so
//! that it need not be looked up; a key that starts with `endpoint.` belongs to one endpoint, any other to
//! the process.

mod endpoint;
mod objects;
mod process;

use std::ops::Deref;
use std::sync::OnceLock;
use std::time::Duration;

pub use self::endpoint::*;
pub use self::objects::*;
pub use self::process::*;
use crate::values::{ParseResult, RawValue};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const MILLISECOND: Duration = Duration::from_millis(1);
/// Far longer than any request, far shorter than what the clock's arithmetic could overflow on.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A setting whose value is a `T`: a row of the list.
#[derive(Debug)]
pub struct Row<T: 'static> {
    setting: Setting,
    /// Reads a value as it is written.
    pub(super) read: fn(&RawValue<'_>) -> ParseResult<T>,
    /// The value where it is not set, if `read` cannot tell from [`Setting::default`].
    unset: Option<fn() -> T>,
    /// The default, once it was needed.
    default: OnceLock<T>,
}

impl<T> Deref for Row<T> {
    type Target = Setting;

    fn deref(&self) -> &Setting {
        &self.setting
    }
}

impl<T: Clone> Row<T> {
    /// The value where it is not set.
    #[expect(clippy::expect_used, reason = "a test reads every default")]
    pub(super) fn default(&self) -> T {
        let read = || (self.read)(&RawValue::of(self.setting.default)).expect("a default can be read");
        self.default.get_or_init(|| self.unset.map_or_else(read, |unset| unset())).clone()
    }
}

/// One setting, without the type of its value.
#[derive(Debug)]
pub struct Setting {
    /// Its flag, without the leading `--`.
    pub flag: &'static str,
    /// Its key in the config file, from the root, with `.` between tables; empty if it has none.
    pub key: &'static str,
    /// The form of a value.
    pub kind: Kind,
    /// The default as a user would write it; empty if there is none.
    pub default: &'static str,
    /// The value in the reference's example of a config file, written as in a flag.
    pub example: &'static str,
    /// The range of values; empty if the kind says all.
    pub range: fn() -> String,
    /// Where it stands in `--help` and in the reference.
    pub group: Group,
    /// Its effect, in one or two sentences.
    pub help: &'static str,
}

/// The form of a value on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One value, described by this placeholder.
    Value(&'static str),
    /// Any number of values, each described by this placeholder: the flag may be repeated, the environment
    /// twin separates them with `,`, the file has an array.
    List(&'static str),
    /// On or off: the flag and this one, its opposite; `true` and `false` elsewhere.
    Switch(&'static str),
}

/// A command that reads settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// `host serve`: all of them.
    Serve,
    /// `host dev`: the same.
    Dev,
    /// `host run`: what one call without a server depends on.
    Run,
}

/// Settings that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Endpoints and their addresses.
    Endpoint,
    /// The gate that a new handler has to pass.
    Gate,
    /// The handler and what it may see.
    Handler,
    /// The model and how it runs.
    Model,
    /// The limits of one handler.
    HandlerLimits,
    /// The limits of a request, and of their number.
    RequestLimits,
    /// Listeners and shutdown.
    Server,
    /// Who is let in, and how bytes travel.
    Security,
    /// The limits of a connection.
    ConnectionLimits,
    /// The record of requests.
    Recording,
    /// Logs and caches.
    Process,
}

impl Group {
    /// Every group, in the order of `--help` and of the reference.
    pub const ALL: [Group; 11] = [
        Group::Endpoint,
        Group::Gate,
        Group::Handler,
        Group::Model,
        Group::HandlerLimits,
        Group::RequestLimits,
        Group::Server,
        Group::Security,
        Group::ConnectionLimits,
        Group::Recording,
        Group::Process,
    ];

    /// The heading above the group.
    pub fn title(self) -> &'static str {
        match self {
            Group::Endpoint => "Endpoint",
            Group::Gate => "Gate",
            Group::Handler => "Handler",
            Group::Model => "Model",
            Group::HandlerLimits => "Limits of a handler",
            Group::RequestLimits => "Limits of requests",
            Group::Server => "Server",
            Group::Security => "TLS and keys",
            Group::ConnectionLimits => "Limits of connections",
            Group::Recording => "Recording",
            Group::Process => "Logs and cache",
        }
    }
}

impl Setting {
    /// The environment twin: `--pre-timeout` is `MODELHOST_PRE_TIMEOUT`.
    pub fn variable(&self) -> String {
        format!("MODELHOST_{}", self.flag.replace('-', "_").to_uppercase())
    }

    /// Whether it describes one endpoint rather than the process.
    pub fn of_endpoint(&self) -> bool {
        self.key.starts_with("endpoint.")
    }

    /// Whether `scope`'s command reads it.
    pub fn applies_to(&self, scope: Scope) -> bool {
        match scope {
            Scope::Serve | Scope::Dev => true,
            Scope::Run => {
                matches!(self.group, Group::Handler | Group::Model | Group::HandlerLimits | Group::Process)
            }
        }
    }
}

/// The list: `[Group]`, then `NAME: type = default, reader, "flag", "key", kind, "help";` for each of its
/// settings.
///
/// The default is a text that the reader reads. Where there is none, `(none, "example")` shows what could be
/// set; where it follows from something else, `("words", value, "example")`.
macro_rules! settings {
    ($([$group:ident] $(
        $name:ident: $type:ty = $default:tt, $read:expr,
            $flag:literal, $key:literal, $kind:expr, $help:literal;
    )+)+) => {
        $($(
            #[doc = $help]
            pub static $name: Row<$type> = Row {
                setting: Setting {
                    flag: $flag,
                    key: $key,
                    kind: $kind,
                    default: settings!(@words $default),
                    example: settings!(@example $default),
                    range: || Reader::<$type>::range(&$read),
                    group: Group::$group,
                    help: $help,
                },
                read: |raw| $read.read(raw),
                unset: settings!(@unset $default),
                default: OnceLock::new(),
            };
        )+)+
        /// These settings, group by group.
        pub(super) static LIST: &[&Setting] = &[$($(&$name.setting),+),+];
        /// Reads the default of each.
        #[cfg(test)]
        pub(super) fn read_each() {
            $($($name.default();)+)+
        }
    };
    (@words (none, $example:literal)) => { "" };
    (@words ($words:literal, $value:expr, $example:literal)) => { $words };
    (@words $text:literal) => { $text };
    (@example (none, $example:literal)) => { $example };
    (@example ($words:literal, $value:expr, $example:literal)) => { $example };
    (@example $text:literal) => { $text };
    (@unset (none, $example:literal)) => { Some(Default::default) };
    (@unset ($words:literal, $value:expr, $example:literal)) => { Some(|| $value) };
    (@unset $text:literal) => { None };
}
use settings;

/// Every setting, of each group in the order of `--help` and of the reference.
#[allow(clippy::indexing_slicing, reason = "done by the compiler, which says if there is none")]
pub static ALL: &[&Setting] = &{
    let parts = [endpoint::LIST, process::LIST, objects::LIST];
    let mut all = [endpoint::LIST[0]; endpoint::LIST.len() + process::LIST.len() + objects::LIST.len()];
    let (mut at, mut part, mut begun) = (0, 0, 0);
    while at < all.len() {
        if at - begun == parts[part].len() {
            (part, begun) = (part + 1, at);
        }
        all[at] = parts[part][at - begun];
        at += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

    #[test]
    fn the_reference_lists_every_setting_and_no_other() {
        let code = |text: &str| format!("`{text}`");
        let row = |setting: &&Setting| {
            let flag = match setting.kind {
                Kind::Value(value) | Kind::List(value) => code(&format!("--{} {value}", setting.flag)),
                Kind::Switch(off) => format!("`--{}`, `--{off}`", setting.flag),
            };
            let key = if setting.key.is_empty() { "none".to_owned() } else { code(setting.key) };
            let default = match setting.default {
                "" => "none".to_owned(),
                words if words.contains(' ') => words.to_owned(),
                default => code(default),
            };
            let row = [flag, code(&setting.variable()), key, default, setting.help.to_owned()];
            format!("| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "))
        };
        for group in Group::ALL {
            let title = group.title();
            let head = "| flag | environment | config key | default | meaning |\n|---|---|---|---|---|";
            let start = format!("### {title}\n\n{head}\n");
            let rows = ALL.iter().filter(|setting| setting.group == group).map(row);
            reference::hold(&start, "\n\n", rows);
        }
    }

    #[test]
    fn every_default_can_be_read() {
        endpoint::read_each();
        process::read_each();
        objects::read_each();
    }

    /// `# SIZE, 1KiB to 1GiB`
    fn comment(setting: &Setting) -> String {
        let kind = match setting.kind {
            Kind::Value(value) | Kind::List(value) => value,
            Kind::Switch(_) => return String::new(),
        };
        let range = (setting.range)();
        if range.is_empty() { format!("# {kind}") } else { format!("# {kind}: {range}") }
    }

    /// The example as TOML.
    fn value(setting: &Setting) -> String {
        let text = setting.example;
        match setting.kind {
            Kind::Switch(_) => text.to_owned(),
            Kind::List(_) => format!("{:?}", text.split(',').collect::<Vec<_>>()),
            Kind::Value(_) if text.parse::<f64>().is_ok() || text.starts_with('{') => text.to_owned(),
            Kind::Value(_) => format!("{text:?}"),
        }
    }

    /// The tables of all settings, with an example of each.
    fn example() -> String {
        let mut tables: Vec<(&str, Vec<(&str, &Setting)>)> = Vec::new();
        for setting in ALL {
            let Some((table, name)) = setting.key.rsplit_once('.') else { continue };
            match tables.iter_mut().find(|(other, _)| *other == table) {
                Some((_, settings)) => settings.push((name, setting)),
                None => tables.push((table, vec![(name, setting)])),
            }
        }
        // The tables of an endpoint stand behind its `[[endpoint]]`.
        tables.sort_by_key(|(name, _)| (name.starts_with("endpoint"), name.contains('.'), *name != "server"));
        let table = |(table, settings): (&str, Vec<(&str, &Setting)>)| {
            let head = match table {
                "endpoint" => "[[endpoint]]                       # one or more".to_owned(),
                "endpoint.model" => {
                    "[endpoint.model]                   # short: model = \"iris.onnx\"".to_owned()
                }
                _ => format!("[{table}]"),
            };
            let width = settings.iter().map(|(name, _)| name.len()).max().unwrap();
            let rows = settings.iter().map(|(name, setting)| {
                let row = format!("{name:width$} = {}", value(setting));
                format!("{row:34} {}", comment(setting)).trim_end().to_owned()
            });
            [head].into_iter().chain(rows).collect::<Vec<_>>().join("\n") + "\n"
        };
        tables.into_iter().map(table).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_file_in_the_reference_is_a_config_file() {
        let reference = reference::hold("```toml\n", "\n[endpoint.input", [example()]);
        let example = reference.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let (file, problems) = super::super::file::parse(0, std::path::Path::new("modelhost.toml"), example);
        assert_eq!(problems, []);
        for setting in ALL.iter().filter(|setting| !setting.key.is_empty()) {
            let mut tables = file.endpoints.iter().chain([&file.process]);
            assert!(
                tables.any(|table| table.get(setting.key).is_some()),
                "`{}` is not in the example",
                setting.key
            );
        }
    }
}
