//! What a person has to look at in a source: packages that are not there, calls that load models or need
//! what the sandbox has not, files that are read.
//!
//! In:  a source, and what was read of its imports. Out: findings, and the statements that have one.

use std::collections::HashSet;

use super::super::packages::Advice;
use super::super::python::{Source, Statement, has_word, imports};
use super::super::report::{Report, Topic};
use super::Project;

/// Calls that load a model.
const LOADS: &[&str] = &[
    "torch.load(",
    "torch.jit.load(",
    "torch.hub.load(",
    ".from_pretrained(",
    "pipeline(",
    "InferenceSession(",
    "load_model(",
    "joblib.load(",
    "pickle.load(",
    "pickle.loads(",
    ".load_state_dict(",
    "spacy.load(",
    "SentenceTransformer(",
    "xgb.Booster(",
    "saved_model.load(",
    "hub.load(",
    "hub.Module(",
    "WhisperModel(",
    "LLM(",
    "Llama(",
];
/// Calls of the standard library that the sandbox does not answer.
const SYSTEM: &[(&str, Advice)] = &[
    ("subprocess.", Advice::System),
    ("os.system(", Advice::System),
    ("Thread(", Advice::System),
    ("ThreadPoolExecutor(", Advice::System),
    ("ProcessPoolExecutor(", Advice::System),
    ("multiprocessing.", Advice::System),
    ("urlopen(", Advice::Requests),
    ("urlretrieve(", Advice::Requests),
    ("HTTPConnection(", Advice::Requests),
    ("HTTPSConnection(", Advice::Requests),
    ("socket.socket(", Advice::Network),
];

/// A native package that a source imports.
pub(super) struct Native {
    /// The line of its first import, from 0.
    pub(super) line: usize,
    pub(super) package: String,
    pub(super) advice: Advice,
    /// The names that it is known by.
    pub(super) bound: HashSet<String>,
    /// Lines that import all of its names.
    pub(super) all: Vec<usize>,
}

/// One finding for each package; none for one whose every use is `marked`, and has a finding of its own.
pub(super) fn natives(
    packages: &[Native],
    source: &Source,
    marked: &HashSet<usize>,
    placed: &dyn Fn(usize) -> String,
    report: &mut Report,
) {
    for Native { line, package, advice, bound, all } in packages {
        let mut uses: Vec<usize> = bound
            .iter()
            .flat_map(|name| source.uses(name))
            .map(|it| it.first)
            .chain(all.iter().copied())
            .collect();
        uses.sort_unstable();
        uses.dedup();
        let line = *line;
        let number = |line: &usize| placed(*line).rsplit(':').next().unwrap_or_default().to_owned();
        match uses.as_slice() {
            [] => report.done(
                &placed(line),
                format!("`{package}`, imported and not used"),
                "a name that stands for it",
            ),
            lines if lines.iter().all(|line| marked.contains(line)) => {}
            lines => {
                let shown: Vec<String> = lines.iter().take(6).map(number).collect();
                let more = if lines.len() > shown.len() { ", …" } else { "" };
                let what =
                    format!("`{package}` {}; used in line {}{more}", advice.reason(), shown.join(", "));
                report.decide(&placed(line), what, advice.text());
            }
        }
    }
}

/// Reports calls that load models or need what the sandbox has not; the numbers of their statements.
pub(super) fn calls(
    source: &Source,
    project: &Project<'_>,
    placed: &dyn Fn(usize) -> String,
    report: &mut Report,
) -> HashSet<usize> {
    let mut marked = HashSet::new();
    for call in LOADS {
        for (at, statement) in source.with(call) {
            if imports(&statement.code).is_some() || statement.code.starts_with("def ") {
                continue;
            }
            let shown = call.trim_start_matches('.').trim_end_matches('(');
            if !marked.insert(at) {
                continue;
            }
            match taken_over(source, statement, project) {
                Some((name, file)) => report.decide(
                    &placed(statement.first),
                    format!("`{shown}` loads `{file}`, which is `models.{name}` in modelhost.toml"),
                    format!("`models.infer(tensors, \"{name}\")` in place of its calls"),
                ),
                None => {
                    let hint = "export it to ONNX, `models.NAME = { path = \"model.onnx\" }` in modelhost.toml, `models.infer(tensors, \"NAME\")` here";
                    report.decide(&placed(statement.first), format!("`{shown}` loads a model"), hint);
                }
            }
        }
    }
    for (call, advice) in SYSTEM {
        for (at, statement) in source.with(call) {
            if imports(&statement.code).is_some() || !marked.insert(at) {
                continue;
            }
            let shown = call.trim_end_matches(['(', '.']);
            report.decide(
                &placed(statement.first),
                format!("`{shown}` does not work in the sandbox"),
                advice.text(),
            );
        }
    }
    marked
}

/// The model that was taken over and that a statement loads: the one whose file it names, or the only one.
fn taken_over<'a>(
    source: &Source,
    statement: &Statement,
    project: &'a Project<'_>,
) -> Option<&'a (String, String)> {
    let lines = source.lines.get(statement.first..=statement.last).unwrap_or_default();
    let is_named = |(_, file): &&(String, String)| {
        let own = file.rsplit('/').next().unwrap_or(file);
        lines.iter().any(|line| line.contains(own))
    };
    match project.models {
        [only] if statement.code.contains("InferenceSession(") => Some(only),
        models => models.iter().find(is_named),
    }
}

/// Reports where the source reads files, which are not where they were. Those of a project's folder are there
/// once the component is built.
pub(super) fn files(
    source: &Source,
    reported: &HashSet<usize>,
    has_project: bool,
    placed: &dyn Fn(usize) -> String,
    report: &mut Report,
) {
    for (at, Statement { first, last, code, .. }) in source.statements.iter().enumerate() {
        let calls = has_word(code, "open") && code.contains("open(");
        let word = if calls { Some("open") } else { has_word(code, "__file__").then_some("__file__") };
        let found = word
            .or_else(|| ["read_text", "read_bytes"].into_iter().find(|it| code.contains(&format!(".{it}("))));
        let is_other = reported.contains(&at)
            || imports(code).is_some()
            || code.starts_with("def ")
            || code.contains("sys.path");
        let Some(name) = found.filter(|_| !is_other) else { continue };
        let is_later = has_project && source.is_in_function(at);
        let lines = source.lines.get(*first..=*last).unwrap_or_default();
        if is_later && (code.contains("data_dir") || lines.iter().any(|line| line.contains("/mnt/project"))) {
            continue;
        }
        let (topic, hint) = match has_project {
            true if is_later => {
                (Topic::Check, "files of `project` are at /mnt/project, and there are no others")
            }
            true => (Topic::Decide, "files of `project` are at /mnt/project, from `init` on"),
            false => (
                Topic::Decide,
                "put its files into a folder DIR, `project = \"DIR\"` in modelhost.toml, and read them at /mnt/project",
            ),
        };
        report.add(topic, &placed(*first), format!("`{name}` leads to a file"), hint);
    }
}
