//! How the sources read: the words of the field, lines that fit a screen.

use std::fs;
use std::path::PathBuf;

use super::{CRATES, assert_none, code, files, root, rust_files, short};

/// Most columns of a line.
const WIDEST: usize = 110;

/// Words that are not written, and what stands in their place. Names match as spelt; words of prose, in lower case here,
/// match in either case.
const WORDS: [(&str, &str); 43] = [
    ("whoever", "the caller, the client or the code that is meant"),
    ("whatever", "`any`, or the thing that is meant"),
    ("nobody", "`no caller`, `no thread`, or the passive"),
    ("somebody", "`a caller`, `another thread`, or the passive"),
    ("everybody", "`every client`, `all threads`, or the thing that is meant"),
    ("everyone", "`every client`, `all threads`, or the thing that is meant"),
    ("someone", "`a caller`, `another thread`, or the passive"),
    ("anybody", "`any client`, or the thing that is meant"),
    ("anyone", "`any client`, or the thing that is meant"),
    ("Pace", "`BodyRate`"),
    ("door", "`admission`"),
    ("knock", "`try_reserve`"),
    ("lane", "`handle`"),
    ("tape", "`log`"),
    ("reel", "`calls`"),
    ("flaw", "`error`"),
    ("lend_taped", "`checkout_logged`"),
    ("retreat", "`auto_rollback`"),
    ("supersede", "`cancel_trial`"),
    ("revive", "`reactivate`"),
    ("Visit", "`AdmittedRequest`"),
    ("NOBODYS", "`NEUTRAL_CODES`"),
    ("Terms", "`TrialSpec`"),
    ("Course", "`RolloutProgress`"),
    ("Noted", "`Mismatch`"),
    ("Crossing", "`ModelCall`"),
    ("Facts", "`HandlerConfig`"),
    ("LineId", "`ClientId`"),
    ("Swapped", "`DeployOutcome`"),
    ("Callee", "`Route`"),
    ("Leaving", "`ResponseBody`"),
    ("Arriving", "`RequestBody`"),
    ("Untaken", "`StalledWrites`"),
    ("Glance", "`ActivitySnapshot`"),
    ("Presented", "`Credentials`"),
    ("Complaint", "`Diagnostic`"),
    ("Flaw", "`SchemaError`"),
    ("Misfit", "`ValidationError`"),
    ("Mistake", "`ValueError`"),
    ("Fault", "`Violation`"),
    ("FaultKind", "`ViolationKind`"),
    ("outside.rs", "`nondeterminism.rs`"),
    ("steady.rs", "`mmap_safety.rs`"),
];

/// Names that nothing of ours is defined by, and the terms in their place. As words of prose, or as names that others
/// have given, they may stand.
const NAMES: [(&str, &str); 36] = [
    ("Door", "`AdmissionQueue`"),
    ("Guest", "`Reservation` at the admission, *guest* is sandboxed code only"),
    ("Tape", "`HostCallLog`"),
    ("Reel", "`RecordedCalls`"),
    ("Draw", "`HostCallResult`, or `Bucketing` of requests"),
    ("Trace", "`RunPlan` or `RunReport`"),
    ("Kept", "`RunReport`"),
    ("aside", "`isolated`"),
    ("lend", "`checkout`"),
    ("give_back", "`checkin` or `release`"),
    ("Shared", "what is shared: `LoadedComponent`, `SchedulerState`"),
    ("Lane", "`ModelHandle`"),
    ("resting", "`parked`"),
    ("coming", "`about_to_poll`"),
    ("Share", "`Ratio` or `CorePermit`"),
    ("Order", "`DeployRequest`"),
    ("Change", "`GenerationChange`"),
    ("Front", "`ServiceSwitch`"),
    ("Site", "`HttpService`"),
    ("Several", "`WeightedRoute`"),
    ("Edge", "`ConnectionConfig`"),
    ("Open", "`ConnectionRegistry`"),
    ("LOOK", "`SWEEP_INTERVAL`"),
    ("wish", "`ConnectionState`"),
    ("Busy", "`CallGuard`"),
    ("Asked", "`ModelRequest`"),
    ("Wanted", "`RequestedOutputs`"),
    ("words", "`pydantic_messages`, or a noun for the text"),
    ("Wish", "`SwapParams`"),
    ("Taken", "`AdminCommand`, or a noun for the thing"),
    ("Given", "`RawValue`"),
    ("Reading", "`ParseResult`"),
    ("Judge", "`GateRunner`"),
    ("judge", "`observe_outcome`"),
    ("examine", "`evaluate`"),
    ("Part", "`TrialParticipation`, or `Segment` of a path"),
];

/// The files of the host's crates, and of other folders.
fn sources(others: &[&str]) -> Vec<PathBuf> {
    CRATES.iter().chain(others).flat_map(|folder| rust_files(folder)).collect()
}

/// Before a name that is defined.
const KEYWORDS: [&str; 8] = ["struct", "enum", "trait", "union", "fn", "const", "static", "mod"];

#[test]
fn the_fields_names_are_used() {
    let mut wrong = Vec::new();
    for path in CRATES.map(rust_files).concat() {
        for (number, line) in code(&path).iter().enumerate() {
            let mut tokens =
                line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|token| !token.is_empty());
            let Some(defined) = tokens.find(|token| KEYWORDS.contains(token)).and_then(|_| tokens.next())
            else {
                continue;
            };
            for (name, instead) in NAMES.iter().filter(|(name, _)| *name == defined) {
                wrong.push(format!("{}:{}: `{name}`: write {instead}", short(&path), number + 1));
            }
        }
    }
    assert_none("what is defined has the field's name", wrong);
}

#[test]
fn the_fields_words_are_used() {
    let is_document = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let mut paths: Vec<PathBuf> = sources(&["guest-sdk/src"]);
    paths.extend(["docs", "guest-sdk", "wit"].map(files).concat().into_iter().filter(is_document));
    paths.extend(["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"].map(|name| root().join(name)));
    let mut wrong = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            // A trait of tracing's.
            let line = line.replace("field::Visit", "");
            for (word, instead) in WORDS {
                if has_word(&line, word) {
                    wrong.push(format!("{}:{}: `{word}`: write {instead}", short(&path), number + 1));
                }
            }
        }
    }
    assert_none("the words are those of the field", wrong);
}

#[test]
fn docs_of_items_begin_with_a_noun_or_a_verb() {
    let mut wrong = Vec::new();
    for path in sources(&["guest-sdk/src"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut before = "";
        for (number, line) in text.lines().map(str::trim_start).enumerate() {
            let begins = !before.starts_with("///") || before == "/// # Errors";
            if begins && line.starts_with("/// What ") {
                wrong.push(format!("{}:{}: {line}", short(&path), number + 1));
            }
            before = line;
        }
    }
    assert_none("the docs of an item say what it is: `The inputs that …`, not `What it takes`", wrong);
}

/// Whether `word` stands in `line`, as a whole, also at the start of a sentence.
fn has_word(line: &str, word: &str) -> bool {
    let is_prose = word.chars().all(char::is_lowercase);
    let line = if is_prose { line.to_lowercase() } else { line.to_owned() };
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[test]
fn no_line_is_wide() {
    let mut wrong = Vec::new();
    for path in sources(&["guest-sdk/src", "guest-sdk/library", "examples"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > WIDEST && !may_be_wide(line) {
                wrong.push(format!("{}:{}: {columns} columns", short(&path), number + 1));
            }
        }
    }
    assert_none(&format!("a line has at most {WIDEST} columns"), wrong);
}

/// Whether it cannot be broken without loss: a row of a table, or what is quoted.
fn may_be_wide(line: &str) -> bool {
    let line = line.trim_start();
    match line.strip_prefix("//") {
        Some(comment) => comment.trim_start_matches(['/', '!', ' ']).starts_with('|'),
        None => line.contains('"') || line.ends_with('\\'),
    }
}

#[test]
fn the_first_page_is_short() {
    let words = fs::read_to_string(root().join("README.md")).unwrap().split_whitespace().count();
    assert!(words <= 900, "README.md has {words} words, which is more than 900");
}
