//! Tests of sources that are brought over.

use super::*;
use crate::new::from::report::Topic;

/// Brings over a text into a project with a module `helper`.
fn brought(text: &str, has_files: bool, models: &[(String, String)]) -> (Ported, Report) {
    let mut report = Report::default();
    let places = Places::of(["helper.py", "parts/one.py"].into_iter());
    let project = Project { places: &places, has_files, models };
    (port("a.py", &Source::read(text), &project, &mut report), report)
}

fn told(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|it| it.what.as_str()).collect()
}

const TEXT: &str = r#""""A model."""
import os, torch
import numba as nb
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
    let (ported, report) = brought(TEXT, false, &[]);
    let lines: Vec<&str> = ported.text.lines().collect();
    assert_eq!(
        lines[..10],
        [
            "\"\"\"A model.\"\"\"",
            "from modelhost_guest import unported",
            "import os; torch = unported(\"torch\")",
            "nb = unported(\"numba\")",
            "from modelhost_guest.potassium import Potassium, Response as Answer",
            "pipeline = unported(\"transformers.pipeline\")",
            "",
            "",
            "from modelhost_guest import web as fastapi",
            "",
        ]
    );
    assert_eq!(lines[15], "    return pipeline(\"x\")  # MIGRATE: see MIGRATION.md");
    assert_eq!(ported.late, [("import csv".to_owned(), "a.py:15".to_owned())]);
    assert_eq!(ported.unknown, [("emoji".to_owned(), "a.py:11".to_owned())]);
    let decided: Vec<String> = report
        .findings
        .iter()
        .filter(|it| it.topic == Topic::Decide)
        .map(|it| format!("{} {}", it.place, it.what))
        .collect();
    assert_eq!(
        decided,
        [
            "a.py:3 `torch` is native code; used in line 19",
            "a.py:16 `pipeline` loads a model",
            "a.py:15 `csv` imported in a function",
        ]
    );
    // numba is imported and not used.
    assert_eq!(report.count(Topic::Done), 1);
}

#[test]
fn a_project_without_native_code_is_not_changed() {
    let text = "import json\nimport numpy as np\n\ndef f():\n    return json.dumps(np.zeros(1).tolist())\n";
    let (ported, report) = brought(text, false, &[]);
    assert_eq!((ported.text.as_str(), ported.added, report.findings.len()), (text, 0, 0));
    // There is a wheel of it: it goes into requirements.txt.
    assert_eq!(ported.unknown, [("numpy".to_owned(), "a.py:2".to_owned())]);
}

#[test]
fn statements_of_one_line_are_changed_by_themselves() {
    for (text, expected) in [
        (
            "r\"\"\"A \\d.\"\"\"\nfrom __future__ import annotations\nimport numba as nb; x = \"a;\"; import torch  # both\n\
             if x: import pandas\n",
            "r\"\"\"A \\d.\"\"\"\nfrom __future__ import annotations\nfrom modelhost_guest import unported\n\
             nb = unported(\"numba\"); x = \"a;\"; torch = unported(\"torch\")  # both\nif x: pandas = unported(\"pandas\")\n",
        ),
        (
            "from __future__ import annotations; import torch\n",
            "from __future__ import annotations; from modelhost_guest import unported; torch = unported(\"torch\")\n",
        ),
        ("from potassium import *\n", "from modelhost_guest.potassium import *\n"),
        ("from scipy import *; x = 1\n", "pass; x = 1  # MIGRATE: see MIGRATION.md\n"),
        (
            "from .import fifth\nif 1: from . import third\n",
            "from .import fifth\nif 1: from . import third\n",
        ),
    ] {
        assert_eq!(brought(text, false, &[]).0.text, expected);
    }
}

#[test]
fn each_statement_of_a_line_has_its_finding() {
    let text = "def f():\n    m = torch.load(\"a\"); names = open(\"labels.txt\")\n";
    let (_, report) = brought(text, false, &[]);
    assert_eq!(told(&report), ["`torch.load` loads a model", "`open` leads to a file"]);
}

#[test]
fn requests_have_a_module_of_the_sdk() {
    let text = "import requests, urllib.request\n\ndef f(url):\n    requests.get(url)\n    urllib.request.urlopen(url)\n    \
                http.client.HTTPSConnection(url)\n";
    let (ported, report) = brought(text, false, &[]);
    assert!(ported.text.contains("requests = unported(\"requests\", \"needs sockets\")"), "{}", ported.text);
    assert_eq!(
        told(&report),
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
        let (_, report) = brought(text, has_project, &[]);
        let found = report.findings.iter().map(|it| (it.place.clone(), it.topic));
        let expected: Vec<_> =
            expected.into_iter().map(|(line, topic)| (format!("a.py:{line}"), topic)).collect();
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn names_of_fastapi_are_those_of_the_sdk() {
    for (text, expected) in [
        (
            "from fastapi import WebSocket, WebSocketDisconnect\n",
            "from modelhost_guest.web import WebSocket, WebSocketDisconnect\n",
        ),
        (
            "from starlette.websockets import WebSocketState as S\n",
            "from modelhost_guest.web import WebSocketState as S\n",
        ),
        ("from fastapi import status\n", "from modelhost_guest.web import status\n"),
        ("from starlette.status import HTTP_200_OK\n", "from modelhost_guest.status import HTTP_200_OK\n"),
        ("import starlette.status as s\n", "from modelhost_guest import status as s\n"),
        ("from starlette import status as s\n", "from modelhost_guest.web import status as s\n"),
        (
            "from fastapi.responses import RedirectResponse, ORJSONResponse\n",
            "from modelhost_guest.web import RedirectResponse, ORJSONResponse\n",
        ),
        ("from fastapi import responses\n", "from modelhost_guest.web import responses\n"),
        ("import fastapi.exceptions\n", "from modelhost_guest import web as fastapi\n"),
        (
            "from fastapi import FastAPI, Request\n",
            "from modelhost_guest import unported\n\
             FastAPI = unported(\"fastapi.FastAPI\", \"has no counterpart in the SDK\"); \
             from modelhost_guest.web import Request\n",
        ),
    ] {
        assert_eq!(brought(text, false, &[]).0.text, expected);
    }
    let (_, report) = brought("from fastapi import FastAPI\n\napp = FastAPI()\n", false, &[]);
    assert_eq!(told(&report), ["`fastapi.FastAPI` has no counterpart in the SDK; used in line 4"]);
}

#[test]
fn what_is_imported_in_functions_is_brought_in_and_told() {
    let text = "def f():\n    from xml.etree import ElementTree, x\n    from .helper import a\n    from potassium import Store as S\n    \
                from parts import one\n    import csv as c, json\n    try:\n        import fcntl\n    except ImportError:\n        pass\n";
    let mut report = Report::default();
    let places = Places::of(["pkg/helper.py", "parts/one.py"].into_iter());
    let project = Project { places: &places, has_files: false, models: &[] };
    let ported = port("pkg/a.py", &Source::read(text), &project, &mut report);
    let late: Vec<&str> = ported.late.iter().map(|(import, _)| import.as_str()).collect();
    assert_eq!(
        late,
        [
            "from xml.etree import ElementTree as _",
            "from xml.etree import x as _",
            "from pkg.helper import a as _",
            "from modelhost_guest.potassium import Store as _",
            "from parts import one as _",
            "import csv",
            "import json",
        ]
    );
    assert_eq!(
        told(&report),
        [
            "`xml.etree` imported in a function",
            "`.helper` imported in a function",
            "`potassium` imported in a function",
            "`parts` imported in a function",
            "`csv`, `json` imported in a function",
        ]
    );
}

#[test]
fn a_model_that_was_taken_over_is_not_asked_for_again() {
    let models = |count: usize| -> Vec<(String, String)> {
        let files = ["data/a.onnx", "data/b.onnx"].into_iter().take(count);
        files.zip(["one", "two"]).map(|(file, name)| (name.to_owned(), file.to_owned())).collect()
    };
    for (count, code, expected) in [
        (
            2,
            "ort.InferenceSession(\"x/b.onnx\")",
            "`InferenceSession` loads `data/b.onnx`, which is `models.two` in modelhost.toml",
        ),
        (
            1,
            "ort.InferenceSession(path)",
            "`InferenceSession` loads `data/a.onnx`, which is `models.one` in modelhost.toml",
        ),
        (2, "ort.InferenceSession(path)", "`InferenceSession` loads a model"),
        (0, "ort.InferenceSession(\"b.onnx\")", "`InferenceSession` loads a model"),
        (1, "torch.load(\"a.pt\")", "`torch.load` loads a model"),
    ] {
        let (_, report) = brought(&format!("m = {code}\n"), false, &models(count));
        assert_eq!(told(&report), [expected]);
    }
}
