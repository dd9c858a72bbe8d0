//! Tests of sources that are brought over.

use super::*;
use crate::commands::new::from::report::Topic;

const TEXT: &str = r#""""A model."""
import os, torch
import numpy as np
from potassium import Potassium, Response as Answer
from transformers import (
    pipeline,
)
import fastapi

import emoji


def load():
    import csv
    return pipeline("x")


class Net(torch.nn.Module):
    pass
"#;

#[test]
fn imports_are_changed_and_lines_stay_where_they_are() {
    let mut report = Report::default();
    let ported = port("app.py", &Source::read(TEXT), &|module| module == "helper", false, &mut report);
    let lines: Vec<&str> = ported.text.lines().collect();
    assert_eq!(
        lines[..10],
        [
            "\"\"\"A model.\"\"\"",
            "from modelhost_guest import unported",
            "import os; torch = unported(\"torch\")",
            "np = unported(\"numpy\")",
            "from modelhost_guest.potassium import Potassium, Response as Answer",
            "pipeline = unported(\"transformers.pipeline\")",
            "",
            "",
            "from modelhost_guest import web as fastapi",
            "",
        ]
    );
    assert_eq!(lines[15], "    return pipeline(\"x\")  # MIGRATE: see MIGRATION.md");
    assert_eq!(ported.late, [("import csv".to_owned(), "app.py:15".to_owned())]);
    assert_eq!(ported.unknown, [("emoji".to_owned(), "app.py:11".to_owned())]);
    let decided: Vec<String> = report
        .findings
        .iter()
        .filter(|it| it.topic == Topic::Decide)
        .map(|it| format!("{} {}", it.place, it.what))
        .collect();
    assert_eq!(
        decided,
        ["app.py:3 `torch` is native code; used in line 19", "app.py:16 `pipeline` loads a model",]
    );
    // numpy is imported and not used.
    assert_eq!(report.count(Topic::Done), 1);
}

#[test]
fn a_project_without_native_code_is_not_changed() {
    let text = "import json\n\ndef f():\n    return json.dumps(1)\n";
    let mut report = Report::default();
    let ported = port("app.py", &Source::read(text), &|_| false, false, &mut report);
    assert_eq!((ported.text.as_str(), ported.added, report.findings.len()), (text, 0, 0));
}

#[test]
fn statements_of_one_line_are_changed_by_themselves() {
    for (text, expected) in [
        (
            "r\"\"\"A \\d.\"\"\"\nfrom __future__ import annotations\nimport numpy as np; x = \"a;\"; import torch  # both\n\
             if x: import pandas\n",
            "r\"\"\"A \\d.\"\"\"\nfrom __future__ import annotations\nfrom modelhost_guest import unported\n\
             np = unported(\"numpy\"); x = \"a;\"; torch = unported(\"torch\")  # both\nif x: pandas = unported(\"pandas\")\n",
        ),
        (
            "from __future__ import annotations; import torch\n",
            "from __future__ import annotations; from modelhost_guest import unported; torch = unported(\"torch\")\n",
        ),
        ("from potassium import *\n", "from modelhost_guest.potassium import *\n"),
        ("from numpy import *; x = 1\n", "pass; x = 1  # MIGRATE: see MIGRATION.md\n"),
        (
            "from .import fifth\nif 1: from . import third\n",
            "from .import fifth\nif 1: from . import third\n",
        ),
    ] {
        let ported = port("a.py", &Source::read(text), &|_| false, false, &mut Report::default());
        assert_eq!(ported.text, expected);
    }
}

#[test]
fn each_statement_of_a_line_has_its_finding() {
    let mut report = Report::default();
    let text = "def f():\n    m = torch.load(\"a\"); names = open(\"labels.txt\")\n";
    port("a.py", &Source::read(text), &|_| false, false, &mut report);
    let found: Vec<&str> = report.findings.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(found, ["`torch.load` loads a model", "`open` leads to a file"]);
}

#[test]
fn requests_have_a_module_of_the_sdk() {
    let mut report = Report::default();
    let text = "import requests, urllib.request\n\ndef f(url):\n    requests.get(url)\n    urllib.request.urlopen(url)\n    \
                http.client.HTTPSConnection(url)\n";
    port("a.py", &Source::read(text), &|_| false, false, &mut report);
    let found: Vec<&str> = report.findings.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(
        found,
        [
            "`requests` needs sockets; used in line 5",
            "`urlopen` does not work in the sandbox",
            "`HTTPSConnection` does not work in the sandbox",
        ]
    );
    assert!(
        report.findings.iter().all(|it| it.hint.starts_with("`modelhost_guest.outbound` sends requests"))
    );
}

#[test]
fn files_are_reported_where_they_are_read() {
    let text = "import os\nX = open(\"a\")\n\ndef f(p):\n    Image.open(p)\n    p.read_text()\n    open(\"/mnt/project/x\")\n    \
                sys.path.append(__file__)\n    os.path.dirname(__file__)\n    f(open=1)\n";
    for (has_project, expected) in [
        (false, vec![(2, Topic::Decide), (6, Topic::Decide), (7, Topic::Decide), (9, Topic::Decide)]),
        (true, vec![(2, Topic::Decide), (6, Topic::Check), (9, Topic::Check)]),
    ] {
        let mut report = Report::default();
        port("a.py", &Source::read(text), &|_| false, has_project, &mut report);
        let found = report.findings.iter().map(|it| (it.place.clone(), it.topic));
        let expected: Vec<_> =
            expected.into_iter().map(|(line, topic)| (format!("a.py:{line}"), topic)).collect();
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
