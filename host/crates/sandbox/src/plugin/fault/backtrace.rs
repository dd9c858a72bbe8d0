//! A guest's backtrace for people: the frames of an interpreter are one line, and so are those of a function
//! that calls itself.
//!
//! In: the engine's text, a line for each frame and perhaps more below it. Out: the same, shorter.

/// How many frames in a row are told one by one, though they say the same.
const ALIKE: usize = 2;
/// The modules that componentize-py makes of CPython and its own runtime, as their names begin.
const CPYTHON: [&str; 4] = ["libpython", "libcomponentize_py", "componentize_py", "libc.so"];
/// How the engine writes a function that has no name, as those of the engines of JavaScript have none.
const NAMELESS: &str = "<wasm function ";

/// The kind of a frame; those of one kind that are neighbours are told together.
#[derive(Debug, PartialEq, Eq)]
enum Kind<'a> {
    CPython,
    Nameless,
    Function(&'a str),
    /// The words before the frames.
    Head,
}

/// The backtrace with each row of frames alike on one line.
pub(super) fn folded(backtrace: &str) -> String {
    let mut rows: Vec<(Kind<'_>, Vec<&str>)> = Vec::new();
    for line in backtrace.lines() {
        let place = place(line);
        match (rows.last_mut(), place) {
            // What belongs to the frame before it, as the lines of its source do.
            (Some((_, lines)), None) => lines.push(line),
            (_, None) => rows.push((Kind::Head, vec![line])),
            (last, Some(place)) => {
                let kind = kind(place);
                match last {
                    Some((of_row, lines)) if *of_row == kind => lines.push(line),
                    _ => rows.push((kind, vec![line])),
                }
            }
        }
    }
    let lines = rows.into_iter().flat_map(|(kind, lines)| told(&kind, &lines));
    lines.collect::<Vec<_>>().join("\n")
}

fn told(kind: &Kind<'_>, lines: &[&str]) -> Vec<String> {
    let count = lines.iter().filter(|line| place(line).is_some()).count();
    let whole = || lines.iter().map(ToString::to_string).collect();
    let number = lines.first().and_then(|line| line.split_once(':')).map_or("", |(number, _)| number);
    match kind {
        Kind::CPython if count > 1 => vec![format!("{number}: {count} frames of CPython")],
        Kind::Nameless if count > ALIKE => vec![format!("{number}: {count} frames without a name")],
        Kind::Function(_) if count > ALIKE && count == lines.len() => {
            let first = lines.first().map(ToString::to_string);
            first.into_iter().chain([format!("       … {} frames more of it", count - 1)]).collect()
        }
        _ => whole(),
    }
}

/// `MODULE!FUNCTION` of a line that begins a frame: a number, the place in the code if it is known, the name.
fn place(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once(": ")?;
    let is_number = !number.trim().is_empty() && number.trim().bytes().all(|byte| byte.is_ascii_digit());
    let at_name = rest.split_once(" - ").filter(|(offset, _)| offset.trim().starts_with("0x"));
    is_number.then_some(at_name.map_or(rest, |(_, name)| name))
}

fn kind(place: &str) -> Kind<'_> {
    let (module, function) = place.split_once('!').unwrap_or(("", place));
    if CPYTHON.iter().any(|name| module.starts_with(name)) {
        Kind::CPython
    } else if function.starts_with(NAMELESS) {
        Kind::Nameless
    } else {
        Kind::Function(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "error while executing at wasm backtrace:\n";

    #[test]
    fn frames_of_an_interpreter_are_one_line() {
        for (frames, expected) in [
            (
                "    0: 0x25c92c - libpython3.14.so!_PyEval_EvalFrameDefault\n    1: 0x26eb53 - libpython3.14.so!_PyEval_Vector\n   \
                 2:  0x12e29 - componentize_py_runtime.wasm!pyo3::call (.llvm.1)\n    3:  0x2d945 - \
                 <unknown>!modelhost:handler/respond@0.1.0#respond",
                "    0: 3 frames of CPython\n    3:  0x2d945 - <unknown>!modelhost:handler/respond@0.1.0#respond",
            ),
            (
                // A package's own code is told.
                "    0: 0x1 - _core.so!pixels\n    1: 0x2 - libpython3.14.so!call\n    2: 0x3 - libc.so!qsort",
                "    0: 0x1 - _core.so!pixels\n    1: 2 frames of CPython",
            ),
            (
                "    0: <unknown>!<wasm function 7>\n    1: 0x2 - <unknown>!<wasm function 8>\n    2: 0x3 - <unknown>!<wasm \
                 function 7>\n    3: 0x4 - <unknown>!start",
                "    0: 3 frames without a name\n    3: 0x4 - <unknown>!start",
            ),
        ] {
            assert_eq!(folded(&format!("{HEAD}{frames}")), format!("{HEAD}{expected}"));
        }
    }

    #[test]
    fn a_function_that_calls_itself_is_told_once() {
        let deep = |at: usize| format!("{at:>5}: 0x21 - <unknown>!main.deep\n");
        let frames: String = (0..19).map(deep).collect();
        let expected = format!("{HEAD}{}       … 18 frames more of it\n   19: 0x3 - x!main", deep(0));
        assert_eq!(folded(&format!("{HEAD}{frames}   19: 0x3 - x!main")), expected);
    }

    #[test]
    fn what_is_said_once_stays() {
        let frames = "    0: 0x1 - x!a\n                    at a.c:3:1\n    1: 0x2 - x!a\n    2: 0x2 - \
                      libpython3.14.so!a\n    3: 0x9 - x!<wasm function 1>\n    4: 0x9 - x!<wasm function 2>\nnote: more";
        assert_eq!(folded(&format!("{HEAD}{frames}")), format!("{HEAD}{frames}"));
    }
}
