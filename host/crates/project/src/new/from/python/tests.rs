//! Tests of how sources are read.

use super::*;

const TEXT: &str = r##""""A docstring # with
import nothing
"""
from __future__ import annotations

import torch.nn as nn, os  # both
from transformers import (
    pipeline,  # a comment
    AutoModel as Auto,
)

try:
    import uvloop
except ImportError:
    uvloop = None


class Model(nn.Module):
    @staticmethod
    def make(a: Dict[str, int] = {"a, b": 1}, *, b=(1, 2)):
        import json
        return "#" + f'{a}' \
            + "x"

    async def predict(self, inputs):
        return torch.load("a")


@app.handler("/x")
def handle(context, request):
    pass
"##;

#[test]
fn statements_are_logical_lines_without_texts_and_comments() {
    let source = Source::read(TEXT);
    let codes: Vec<&str> = source.statements.iter().map(|it| it.code.as_str()).collect();
    assert_eq!(
        codes.get(..3).unwrap(),
        ["\"\"", "from __future__ import annotations", "import torch.nn as nn, os"]
    );
    assert!(codes.contains(&"return \"\" + f\"\" + \"\""), "{codes:?}");
    let lines: Vec<_> = source.with("from transformers").map(|(_, it)| (it.first, it.last)).collect();
    assert_eq!(lines, [(6, 9)]);
    let commented: Vec<bool> = [0, 1, 2, 5, 7, 21].map(|at| source.takes_comment[at]).to_vec();
    assert_eq!(commented, [false, false, true, true, true, false]);
}

#[test]
fn imports_say_what_they_bind() {
    let source = Source::read(TEXT);
    let found: Vec<(String, Option<String>, String)> = source
        .statements
        .iter()
        .filter_map(|it| imports(&it.code))
        .flatten()
        .map(|it| (it.module, it.member, it.bound))
        .collect();
    let own = |module: &str, member: Option<&str>, bound: &str| {
        (module.to_owned(), member.map(str::to_owned), bound.to_owned())
    };
    let expected = [
        own("__future__", Some("annotations"), "annotations"),
        own("torch.nn", None, "nn"),
        own("os", None, "os"),
        own("transformers", Some("pipeline"), "pipeline"),
        own("transformers", Some("AutoModel"), "Auto"),
        own("uvloop", None, "uvloop"),
        own("json", None, "json"),
    ];
    assert_eq!(found, expected);
    let at = |code: &str| source.statements.iter().position(|it| it.code == code).unwrap();
    assert!(source.is_guarded(at("import uvloop")) && !source.is_guarded(at("import json")));
    assert!(source.is_in_function(at("import json")) && !source.is_in_function(at("import uvloop")));
    assert_eq!(imports("from torch import *"), None);
    assert_eq!(source.uses("nn").count(), 1);
}

#[test]
fn statements_share_a_line() {
    let source = Source::read("import a; from .import b;x = [1:2]\nif (y := 1): import c\nelse: f(\"a;\")\n");
    let found: Vec<_> =
        source.statements.iter().map(|it| (it.first, it.from, it.to, it.code.as_str())).collect();
    let expected = [
        (0, 0, 8, "import a"),
        (0, 10, 24, "from .import b"),
        (0, 25, 34, "x = [1:2]"),
        (1, 0, 12, "if (y := 1):"),
        (1, 13, 21, "import c"),
        (2, 0, 5, "else:"),
        (2, 6, 13, "f(\"\")"),
    ];
    assert_eq!(found, expected);
    assert_eq!((source.parent(4), source.parent(6), source.parent(5)), (Some(3), Some(5), None));
    assert_eq!(star("from . import *"), Some("."));
    for code in ["from .import b", "from . import(b)", "from . import b"] {
        let names = imports(code).unwrap();
        assert_eq!(names.iter().map(as_shown).collect::<Vec<_>>(), [". b"], "{code}");
    }
    assert_eq!(imports("from importlib import x").map(|it| it.len()), Some(1));
}

fn as_shown(name: &Name) -> String {
    format!("{} {}", name.module, name.bound)
}

#[test]
fn definitions_have_their_class_parameters_and_decorators() {
    let found = Source::read(TEXT).definitions();
    let shown: Vec<String> = found
        .iter()
        .map(|it| {
            let class = it.class.as_deref().unwrap_or("-");
            format!("{} {} {} {}", class, it.name, it.parameters.join("|"), it.decorators.join("|"))
        })
        .collect();
    let expected = [
        "- Model  ",
        "Model make a|*|b staticmethod",
        "Model predict self|inputs ",
        "- handle context|request app.handler(\"\")",
    ];
    assert_eq!(shown, expected);
}
