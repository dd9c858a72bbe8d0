//! Reports in, verdicts out; folders of samples in, samples out.

use std::fs;

use super::*;
use crate::capture::compare::Difference;
use crate::rollout::gate_report::RunCost;
use crate::values::Ratio;

fn taken(time_us: f64, memory: usize) -> RunCost {
    RunCost { time_us, memory }
}

/// A report on `count` samples, of which the first `differing` differ.
fn report(count: usize, differing: usize, old: RunCost, new: RunCost) -> Report {
    let mut report = Report { samples: count, ..Report::default() };
    for n in 0..count {
        let difference = |place: &str| Difference { place: place.into(), change: "1 became 2".into() };
        let differences = ["/a", "/b", "/c"].map(difference);
        let differences = if n < differing { differences.to_vec() } else { Vec::new() };
        // Around the median, so that it is one.
        let old = RunCost { time_us: old.time_us + n as f64 - (count / 2) as f64, ..old };
        let row = Row::of(format!("s{n}"), n == 1);
        report.add(Row { differences, old: Some(old), new: Some(new), ..row });
    }
    report.finish(Instant::now() + FOREVER);
    report
}

#[test]
fn a_verdict_says_what_is_wrong_and_what_to_do() {
    let (plain, slow, large) = (taken(100.0, 1 << 20), taken(201.0, 1 << 20), taken(100.0, 3 << 20));
    let strict = GateConfig { slowdown: Some(2.0), memory: Some(2.0), ..GateConfig::default() };
    let lax = GateConfig { mismatches: Ratio::percent(50), ..GateConfig::default() };
    for (report, config, expected) in [
        (report(10, 0, plain, plain), &strict, None),
        (
            report(10, 1, plain, plain),
            &strict,
            Some((
                "1 of 10 samples differs, s0: /a: 1 became 2; /b: 1 became 2; and 1 more",
                "--gate-ignore",
            )),
        ),
        (
            report(10, 9, plain, plain),
            &strict,
            Some((
                "9 of 10 samples differ, s0: /a: 1 became 2; /b: 1 became 2; and 1 more, s1 is not answered as expected: \
                 /a: 1 became 2; /b: 1 became 2; and 1 more, s2: /a: 1 became 2; /b: 1 became 2; and 1 more",
                "--gate-mismatches",
            )),
        ),
        (report(10, 5, plain, plain), &lax, None),
        (
            report(2, 2, plain, plain),
            &GateConfig { mismatches: Ratio::percent(25), ..GateConfig::default() },
            Some(("2 of 2 samples differ (a share of 0.25 may), s0:", "--gate-tolerance")),
        ),
        (
            report(10, 0, plain, slow),
            &strict,
            Some((
                "it takes 201.0 µs in place of 100.0 µs for a request, more than 2 times as long (median of 10)",
                "--gate-slowdown",
            )),
        ),
        (report(10, 0, plain, slow), &lax, None),
        (report(10, 0, plain, taken(200.0, 1 << 20)), &strict, None),
        // Too few to say, and too little.
        (report(4, 0, plain, slow), &strict, None),
        (report(10, 0, taken(5.0, 0), taken(24.0, 0)), &strict, None),
        (
            report(1, 0, plain, large),
            &strict,
            Some((
                "it takes 3.0 MiB in place of 1.0 MiB of memory, more than 2 times as much",
                "--gate-memory",
            )),
        ),
        (report(1, 0, plain, large), &lax, None),
        (
            report(10, 1, plain, taken(300.0, 3 << 20)),
            &strict,
            Some(("1 more; and it takes 300.0 µs in place of 100.0 µs", "--gate-ignore")),
        ),
        (report(0, 0, plain, plain), &strict, None),
    ] {
        match (report.verdict(config), expected) {
            (Ok(()), None) => {}
            (Err((text, hint)), Some((reason, mends))) => {
                assert!(text.contains(reason) && hint.contains(mends), "{text}\n{hint}");
                assert!(!text.contains('\n'));
            }
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }
}

#[test]
fn what_no_time_was_left_for_is_told() {
    let mut none = Report { samples: 7, ..Report::default() };
    none.finish(Instant::now());
    let (text, hint) = none.verdict(&GateConfig::default()).unwrap_err();
    assert!(text == "within 10s none of 7 samples was compared" && hint.contains("--gate-timeout"), "{text}");

    let mut some = Report { samples: 7, ..Report::default() };
    some.add(Row::of("a".into(), false));
    some.add(Row::of("b".into(), false).skipped("it goes to another model now".into()));
    some.finish(Instant::now());
    assert!(some.verdict(&GateConfig::default()).is_ok());
    let text = some.to_string();
    assert!(
        text.starts_with("1 of 7 samples compared, 1 skipped before the time was over, 0 differ"),
        "{text}"
    );
    assert!(text.contains("too few to judge time"), "{text}");
}

#[test]
fn a_shortened_report_keeps_the_first_that_differ() {
    let report = report(100, 40, taken(1.0, 1), taken(1.0, 1)).shortened();
    assert_eq!((report.samples, report.differing, report.results.len()), (100, 40, 16));
    assert!(report.results.iter().all(|row| !row.differences.is_empty()));
}

/// A folder with these files; a name that ends in `/` is a folder in it.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        match name.strip_suffix('/') {
            Some(inner) => fs::create_dir(folder.path().join(inner)).unwrap(),
            None => fs::write(folder.path().join(name), text).unwrap(),
        }
    }
    folder
}

#[test]
fn files_become_samples() {
    let folder = folder(&[
        ("b.json", "[1]"),
        ("a.png", "png"),
        ("a.expected.json", "{}"),
        ("c.v2.json", "2"),
        ("c.v2.expected.json", "3"),
        ("raw", "x"),
        (".hidden", ""),
        ("more/", ""),
    ]);
    let read = golden::read(folder.path(), "/iris", 3).unwrap();
    let told: Vec<_> = read
        .iter()
        .map(|golden| {
            let (request, _) = golden.sample.request("id", Instant::now(), 0, false);
            assert_eq!((request.head.method(), request.head.path()), ("POST", "/iris"));
            let expected = golden.expected.as_ref().map(|expected| match expected {
                golden::Expected::Body(body) => String::from_utf8_lossy(body).into_owned(),
                golden::Expected::Answer(answer) => format!("{answer:?}"),
            });
            let body = String::from_utf8_lossy(request.body()).into_owned();
            (golden.sample.name.clone(), request.content_type().to_owned(), body, expected)
        })
        .collect();
    let row = |name: &str, content_type: &str, body: &str, expected: Option<&str>| {
        (name.to_owned(), content_type.to_owned(), body.to_owned(), expected.map(str::to_owned))
    };
    assert_eq!(
        told,
        [
            row("a.png", "image/png", "png", Some("{}")),
            row("b.json", "application/json", "[1]", None),
            row("c.v2.json", "application/json", "2", Some("3")),
            row("raw", "application/octet-stream", "x", None),
        ]
    );
    // One of them alone.
    let one = golden::read(&folder.path().join("a.png"), "/iris", 3).unwrap();
    assert!(one.len() == 1 && one[0].expected.is_some());
}

#[test]
fn folders_that_cannot_be_used_are_refused() {
    for (files, reason) in [
        (&[][..], "holds no sample"),
        (&[(".a.json", "1"), ("inner/", "")], "holds no sample"),
        (&[("a.json", "1"), ("b.expected.json", "1")], "b.expected.json` answers nothing"),
        (
            &[("a.bin", "1"), ("a.expected.json", "1"), ("a.json", "1")],
            "a.expected.json` answers both `a.bin` and `a.json`: rename one of the two",
        ),
        (&[("a.json", "1"), ("a.expected.json", "{")], "a.expected.json` is not JSON"),
        (&[("a.json", "12345")], "a.json`: it has 5 bytes, more than 4"),
        (&[("a.json/", "")], "a.json`: it is a folder, not a regular file"),
        (
            &[("a.json", "1"), ("a.expected.json/", "")],
            "a.expected.json`: it is a folder, not a regular file",
        ),
    ] {
        let folder = folder(files);
        let error = golden::read(folder.path(), "/", 4).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
    let missing = folder(&[]).path().join("none");
    assert!(golden::read(&missing, "/", 4).unwrap_err().contains("cannot read"));
}
