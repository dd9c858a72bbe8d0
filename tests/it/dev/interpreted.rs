//! Projects in Python and JavaScript: what is kept of a build, into which later saves are written.

use super::*;

/// What is announced when the component is made that is kept, and when a project is built whole.
const KEPT: &str = "building what later saves are written into";
const WHOLE: &str = "building with";

/// Waits for the error of a build or a start, while the version before answers; the header with it.
fn refused_with(host: &Host, parts: &[&str]) {
    let mut said = String::new();
    let started = Instant::now();
    while !parts.iter().all(|part| said.contains(part)) {
        assert!(started.elapsed() < BUILD, "waited {BUILD:?} for {parts:?} in `{said}`\n{}", host.log());
        std::thread::sleep(Duration::from_millis(20));
        let reply = ask(host);
        assert_eq!(reply.status, 200, "{}", reply.text());
        said = reply.header("x-build-error").unwrap_or_default().to_owned();
    }
}

/// How often what is kept was made, and how often the project was built whole.
fn builds(host: &Host) -> (usize, usize) {
    let log = host.log();
    (log.matches(KEPT).count(), log.matches(WHOLE).count())
}

/// What comes of a change.
enum Outcome {
    /// An answer with this label.
    Answers(&'static str),
    /// An error with these parts.
    Fails(&'static [&'static str]),
}
use Outcome::{Answers, Fails};

/// Replacements in a source, what comes of them, and how often what is kept had been made then.
type Step = (&'static [(&'static str, &'static str)], Outcome, usize);

/// Changes a file step by step while it is served: nothing is built whole.
fn edited(host: &Host, source: &Path, steps: &[Step]) {
    for (replacements, outcome, kept) in steps {
        replacements.iter().for_each(|(before, after)| edit(source, before, after));
        match outcome {
            Answers(label) => labelled(host, label),
            Fails(parts) => refused_with(host, parts),
        }
        assert_eq!(builds(host), (*kept, 0), "after {replacements:?}\n{}", host.log());
    }
}

#[test]
fn python_is_written_into_what_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), "python");
    // A package, a module, data that is read by an import.
    fs::create_dir_all(project.join("names/more")).unwrap();
    fs::write(project.join("names/__init__.py"), "from .more import READ\nfrom names.more import other\n")
        .unwrap();
    let more = "import pathlib\nREAD = pathlib.Path(__file__).with_name('label.txt').read_text()\n";
    fs::write(project.join("names/more/__init__.py"), more).unwrap();
    fs::write(project.join("names/more/label.txt"), "read").unwrap();
    fs::write(project.join("names/more/other.py"), "OTHER = 'other'\n").unwrap();
    let source = project.join("app.py");
    let host = Host::try_start(command(&project, &[])).unwrap();
    labelled(&host, "setosa");
    assert_eq!(builds(&host), (1, 0));
    let steps: [Step; 8] = [
        (&[("labels[best]", "'edited'")], Answers("edited"), 1),
        (&[("'edited'", "'edited")], Fails(&["SyntaxError: unterminated string literal", "(app.py:"]), 1),
        // A module of Python's that nothing has imported before.
        (&[("'edited,", "names.READ,"), ("labels = []", "import names\nlabels = []")], Answers("read"), 2),
        (&[("names.READ", "names.other.OTHER")], Answers("other"), 2),
        (&[("= []", "= [] + None")], Fails(&["TypeError: can only concatenate list", "(app.py:"]), 2),
        (&[("[] + None", "[]"), ("names.other.OTHER", "'mended'")], Answers("mended"), 2),
        (
            &[("post_inference, pre", "post_infrence, pre")],
            Fails(&["`modelhost_guest` has no `post_infrence`"]),
            2,
        ),
        (
            &[("post_infrence, pre", "post_inference, models, pre"), ("'mended'", "'last'")],
            Answers("last"),
            3,
        ),
    ];
    edited(&host, &source, &steps);
    // With the traceback in the log.
    host.wait_for_log("labels = [] + None");
    host.signal("INT");
    let (status, log) = host.wait();
    assert!(status.success(), "{log}");
}

#[test]
fn python_that_needs_more_than_is_kept_gets_it_or_is_built_whole() {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), "python");
    let source = project.join("app.py");
    // A module whose name no reader of the source sees.
    edit(
        &source,
        "labels = []",
        "import importlib\nYEAR = int(importlib.import_module('color' + 'sys').rgb_to_hsv(0, 0, 1936)[2])\nlabels = []",
    );
    edit(&source, "labels[best]", "str(YEAR)");
    let host = Host::try_start(command(&project, &[])).unwrap();
    labelled(&host, "1936");
    assert_eq!(builds(&host), (2, 0), "{}", host.log());
    // Files can be opened there, their folder only listed.
    edit(
        &source,
        "labels = []",
        "labels = []\nimport os\nYEAR = len(list(os.scandir(os.path.dirname(__file__)))) and 'whole'",
    );
    built("the build of the whole", || builds(&host).1 == 1);
    labelled(&host, "whole");
}

#[test]
fn javascript_is_written_into_what_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), "js");
    fs::write(project.join("names.js"), "export const OTHER = \"ändere\";\n").unwrap();
    let source = project.join("handler.js");
    let host = Host::try_start(command(&project, &[])).unwrap();
    labelled(&host, "setosa");
    assert_eq!(builds(&host), (1, 0));
    let steps: [Step; 6] = [
        (&[("labels[best]", "\"edited\"")], Answers("edited"), 1),
        (&[("\"edited\"", "OTHER +")], Fails(&["SyntaxError: ", "(handler.js:"]), 1),
        (
            &[("OTHER +", "OTHER"), ("let labels", "import { OTHER } from \"./names.js\";\nlet labels")],
            Answers("ändere"),
            1,
        ),
        (&[("let labels", "nowhere();\nlet labels")], Fails(&["ReferenceError: nowhere is not defined"]), 1),
        (
            &[
                ("nowhere();\n", ""),
                ("export const { init, preInference, postInference }", "export const { init }"),
            ],
            Fails(&["handler.js has no function that the host calls for a request"]),
            1,
        ),
        (
            &[
                ("export const { init }", "export const { init, preInference, postInference }"),
                (
                    "let labels",
                    "import { names } from \"modelhost-guest/models\";\nexport const keep = names;\nlet labels",
                ),
                ("class_label: OTHER", "class_label: \"last\""),
            ],
            Answers("last"),
            2,
        ),
    ];
    edited(&host, &source, &steps);
    host.signal("INT");
    let (status, log) = host.wait();
    assert!(status.success(), "{log}");
}
