//! Structured logs to stderr; the last lines are kept for the operator, see `logs/recent.rs`.
//!
//! Place in the flow: `main.rs` calls [`init`] once, before anything that may log; every other module logs
//! with `tracing` and knows nothing of this one.
//! In:   events whose message can be read alone, with fields such as `request.id`, `endpoint`, `stage`. Out:
//!       one line on stderr each; stdout belongs to what a command prints.
//! Invariants: an event that the filter leaves out costs one comparison and no allocation; a stderr that is
//! not read stops no request: a thread of its own writes, and what it cannot keep up with is lost and
//! counted.

mod fields;
mod recent;

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

use self::fields::BelowTheLine;
use self::recent::Recent;
pub use self::recent::{Found, Line, Search};
use super::stderr;

/// Lines that may wait for stderr; the ones after them are lost.
const WAITING: usize = 4096;
/// The crate of the program, and those whose modules filters name as its own: `host::blobs` is
/// `modelhost_stores::blobs` too.
const PROGRAM: &str = "host";
const CRATES: [&str; 6] = [
    "modelhost_project",
    "modelhost_sandbox",
    "modelhost_models",
    "modelhost_telemetry",
    "modelhost_stores",
    "modelhost_base",
];
/// How long the end of the process waits for stderr to take the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people: in a terminal the lines of an error's detail stand below.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The log's level, format and place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How a line looks.
    pub format: Format,
    /// A level, or levels by module, such as `info,host::rollout=debug`; see [`check`].
    pub filter: String,
}

/// Why logging did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A part of the filter that cannot be read.
    #[error("`{0}` is not a log filter")]
    Filter(String),
    /// [`init`] was called before, or something else logs already.
    #[error("logging has already started")]
    AlreadyStarted,
    /// No thread for the writer, or no descriptor.
    #[error("cannot start the thread that writes the log: {0}")]
    Writer(std::io::ErrorKind),
}

/// Keeps the log's last lines, those of C libraries among them: [`flush`]es when dropped.
#[must_use = "without it the last lines are lost"]
#[derive(Debug)]
pub struct Guard(());

impl Drop for Guard {
    fn drop(&mut self) {
        stderr::release();
        flush();
    }
}

/// Waits until stderr has taken every line so far, but no longer than a second: it may have no reader.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        // It never fails.
        let _ = queue.clone().flush();
    }
}

/// The log of the process, once [`init`] was called.
static QUEUE: OnceLock<Queue> = OnceLock::new();

static RECENT: OnceLock<Recent> = OnceLock::new();

/// The last lines of the process that are searched for.
pub fn find(search: &Search) -> Found {
    RECENT.get().map(|recent| recent.find(search)).unwrap_or(Found { lines: Vec::new(), last: 0 })
}

/// Whether [`init`] was called.
pub fn started() -> bool {
    QUEUE.get().is_some()
}

/// Sends the log of the whole process to stderr.
///
/// # Errors
/// The filter cannot be read, logging has already started, or there is no thread for it.
pub fn init(config: &Config) -> Result<Guard, Error> {
    let terminal = std::io::stderr().is_terminal();
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let queue = stderr::own().and_then(Queue::start).map_err(|error| Error::Writer(error.kind()))?;
    let lines = queue.clone();
    let recent = RECENT.get_or_init(Recent::default).clone();
    let subscriber = subscriber(config, terminal, colour, move || lines.clone())?.with(recent);
    tracing::subscriber::set_global_default(subscriber).map_err(|_| Error::AlreadyStarted)?;
    QUEUE.set(queue).map_err(|_| Error::AlreadyStarted)?;
    Ok(Guard(()))
}

/// Lines on their way to the thread that writes them. Taking one never waits.
#[derive(Debug, Clone)]
struct Queue {
    sender: Sender<Message>,
    count: Arc<Count>,
}

#[derive(Debug, Default)]
struct Count {
    waiting: AtomicUsize,
    lost: AtomicUsize,
}

enum Message {
    Line(Vec<u8>),
    /// Answered when everything before it has been written.
    Flush(Sender<()>),
}

impl Queue {
    fn start(to: impl Write + Send + 'static) -> std::io::Result<Queue> {
        let (sender, receiver) = mpsc::channel();
        let count = Arc::new(Count::default());
        let shared = count.clone();
        std::thread::Builder::new().name("logs".into()).spawn(move || write(&receiver, &shared, to))?;
        Ok(Queue { sender, count })
    }
}

impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if self.count.waiting.fetch_add(1, Ordering::Relaxed) < WAITING {
            let _ = self.sender.send(Message::Line(line.to_vec()));
        } else {
            self.count.waiting.fetch_sub(1, Ordering::Relaxed);
            self.count.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let (done, written) = mpsc::channel();
        if self.sender.send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(LAST_LINES);
        }
        Ok(())
    }
}

/// The loop of the log's thread, for as long as anything may log.
fn write(messages: &Receiver<Message>, count: &Count, mut to: impl Write) {
    for message in messages {
        match message {
            Message::Line(line) => {
                // A closed stderr has no reader to be told.
                let _ = to.write_all(&line);
                count.waiting.fetch_sub(1, Ordering::Relaxed);
                let lost = count.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    tracing::warn!(lines = lost, "log lines are lost, stderr was not read in time");
                }
            }
            Message::Flush(done) => {
                let _ = done.send(());
            }
        }
    }
}

/// Whether `filter` can be read: parts separated by `,`, each `LEVEL` or `MODULE=LEVEL`, the most specific
/// one counts. What no part names is logged from `info` up.
///
/// # Errors
/// Names the part that cannot be read.
pub fn check(filter: &str) -> Result<(), Error> {
    targets(filter).map(|_| ())
}

fn subscriber<W>(
    config: &Config,
    terminal: bool,
    colour: bool,
    writer: W,
) -> Result<impl Subscriber + Send + Sync, Error>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // Without `log_internal_errors(false)`, a closed stderr would be reported on stderr, which panics.
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).log_internal_errors(false);
    let lines = match config.format {
        Format::Text if terminal => lines.with_ansi(colour).compact().fmt_fields(BelowTheLine).boxed(),
        Format::Text => lines.with_ansi(colour).compact().boxed(),
        // Flat, so that `request.id` stands at the top for every reader.
        Format::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    Ok(tracing_subscriber::registry().with(targets(&config.filter)?).with(lines))
}

fn targets(filter: &str) -> Result<Targets, Error> {
    // The client of buckets tells each request that it sends again.
    let usual = Targets::new().with_default(LevelFilter::INFO).with_target("object_store", LevelFilter::OFF);
    filter.split(',').map(str::trim).try_fold(usual, |targets, part| {
        let (module, level) =
            part.split_once('=').map_or((None, part), |(module, level)| (Some(module), level));
        let bad = || Error::Filter(part.to_owned());
        // The parser would take an empty level for `error`, and digits.
        let level = Some(level).filter(|level| level.starts_with(|c: char| c.is_ascii_alphabetic()));
        let level: LevelFilter = level.and_then(|level| level.parse().ok()).ok_or_else(bad)?;
        match module {
            Some("") => Err(bad()),
            Some(module) => {
                let inner = module.strip_prefix(PROGRAM);
                let inner = inner.filter(|inner| inner.is_empty() || inner.starts_with("::"));
                let same = inner.iter().flat_map(|inner| CRATES.map(|name| format!("{name}{inner}")));
                Ok(same.fold(targets.with_target(module, level), |targets, module| {
                    targets.with_target(module, level)
                }))
            }
            None => Ok(targets.with_default(level)),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A stderr that can be read back.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `log` writes under this filter.
    fn logged(format: Format, filter: &str, log: impl FnOnce()) -> String {
        logged_to(false, format, filter, log)
    }

    fn logged_to(terminal: bool, format: Format, filter: &str, log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let config = Config { format, filter: filter.to_owned() };
        let subscriber = subscriber(&config, terminal, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// A stderr that takes nothing while the test holds the lock.
    struct Stuck(Arc<Mutex<()>>, Lines);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _free = self.0.lock().unwrap();
            self.1.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stderr_that_nobody_reads_stops_nobody() {
        let (lock, lines) = (Arc::new(Mutex::new(())), Lines::default());
        let held = lock.lock().unwrap();
        let mut queue = Queue::start(Stuck(lock.clone(), lines.clone())).unwrap();
        for _ in 0..WAITING + 10 {
            queue.write_all(b"x\n").unwrap();
        }
        assert_eq!(queue.count.lost.load(Ordering::Relaxed), 10);
        drop(held);
        queue.flush().unwrap();
        assert_eq!(lines.0.lock().unwrap().len(), 2 * WAITING);
    }

    #[test]
    fn text_is_one_line_with_its_fields() {
        let text = logged(Format::Text, "info", || {
            tracing::info!(request.id = "r1", status = 200, "request served");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        let line = format!("INFO {}: request served request.id=\"r1\" status=200\n", module_path!());
        assert!(text.ends_with(&line), "{text}");
    }

    #[test]
    fn detail_stands_below_the_line_in_a_terminal_only() {
        let detail = "KeyError: 'a' (app.py:6)\n  File \"app.py\", line 6, in get\u{1b}[31m\n\nKeyError: 'a'";
        let log = || tracing::error!(request.id = "r1", detail, took = 1, other = "a\nb", "it failed");
        let text = logged_to(true, Format::Text, "info", log);
        let [first, rest @ ..] = &text.lines().collect::<Vec<_>>()[..] else { panic!("no line") };
        let fields = r#"request.id="r1" detail="KeyError: 'a' (app.py:6)" took=1 other="a\nb""#;
        assert!(first.ends_with(&format!("it failed {fields}")), "{text}");
        let below = [r#"      File "app.py", line 6, in get\u{1b}[31m"#, "    ", "    KeyError: 'a'"];
        assert_eq!(rest, below);
        for format in [Format::Text, Format::Json] {
            assert_eq!(logged(format, "info", log).lines().count(), 1);
        }
        assert_eq!(logged_to(true, Format::Json, "info", log).lines().count(), 1);
    }

    #[test]
    fn json_is_one_flat_object() {
        let text = logged(Format::Json, "info", || {
            tracing::warn!(request.id = "r1", duration_ms = 1.5, "slow\nhandler");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        let mut line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(line.as_object_mut().unwrap().remove("timestamp").is_some());
        assert_eq!(
            line,
            serde_json::json!({
                "level": "WARN", "target": module_path!(), "message": "slow\nhandler",
                "request.id": "r1", "duration_ms": 1.5,
            })
        );
    }

    #[test]
    fn the_filter_decides_by_module() {
        let log = || {
            tracing::debug!(target: "host::rollout::swap", "a");
            tracing::debug!(target: "host::server", "b");
            tracing::error!(target: "other", "c");
            tracing::debug!(target: "modelhost_stores::blobs::bucket", "d");
            tracing::info!(target: "object_store::client::retry", "e");
        };
        let messages = |filter| {
            let text = logged(Format::Text, filter, log);
            let last = |line: &str| line.rsplit(' ').next().unwrap().to_owned();
            text.lines().map(last).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(messages("info"), "c");
        assert_eq!(messages("debug"), "a b c d");
        assert_eq!(messages("host::rollout=debug"), "a c");
        assert_eq!(messages("off, host=debug"), "a b d");
        assert_eq!(messages("host::blobs=debug"), "c d");
        assert_eq!(messages("off,modelhost_stores=debug"), "d");
        assert_eq!(messages("INFO,other=off"), "");
        assert_eq!(messages("off,object_store=info"), "e");
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_named() {
        for (filter, part) in [
            ("", ""),
            ("inof", "inof"),
            ("info,host=loud", "host=loud"),
            ("=info", "=info"),
            ("host=", "host="),
            ("3", "3"),
        ] {
            assert_eq!(check(filter), Err(Error::Filter(part.to_owned())), "{filter}");
        }
    }
}
