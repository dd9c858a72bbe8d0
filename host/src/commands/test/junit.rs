//! The results as JUnit XML, which builds read.

use std::fmt::Write as _;

use super::{CaseResult, Row};

/// A report with one test case a row.
pub(super) fn report(rows: &[Row]) -> String {
    let failed = rows.iter().filter(|row| matches!(row.result, CaseResult::Failed(_))).count();
    let seconds: f64 = rows.iter().map(|row| row.took.as_secs_f64()).sum();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    let counts = format!("tests=\"{}\" failures=\"{failed}\" time=\"{seconds:.6}\"", rows.len());
    // Writing to a string cannot fail.
    let _ = writeln!(xml, "  <testsuite name=\"golden\" {counts}>");
    for Row { name, took, result } in rows {
        let (name, seconds) = (escaped(name), took.as_secs_f64());
        let _ = write!(xml, "    <testcase classname=\"golden\" name=\"{name}\" time=\"{seconds:.6}\"");
        let _ = match result {
            CaseResult::Passed | CaseResult::Updated => writeln!(xml, "/>"),
            CaseResult::Failed(lines) => {
                let (first, all) = (lines.first().map_or("", String::as_str), lines.join("\n"));
                let (first, all) = (escaped(first), escaped(&all));
                writeln!(xml, ">\n      <failure message=\"{first}\">{all}</failure>\n    </testcase>")
            }
        };
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// As text or attribute of XML 1.0, which has no control characters but these two in any form.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failure_is_escaped_and_counted() {
        let row = |name: &str, result| Row { name: name.to_owned(), took: Duration::from_millis(2), result };
        let failed = CaseResult::Failed(vec!["/a: \"<b>\" & \u{1}".to_owned(), "more".to_owned()]);
        let text = "/a: &quot;&lt;b&gt;&quot; &amp; \u{fffd}";
        let expected = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites>
  <testsuite name=\"golden\" tests=\"2\" failures=\"1\" time=\"0.004000\">
    <testcase classname=\"golden\" name=\"good.json\" time=\"0.002000\"/>
    <testcase classname=\"golden\" name=\"bad.json\" time=\"0.002000\">
      <failure message=\"{text}\">{text}\nmore</failure>
    </testcase>
  </testsuite>
</testsuites>
"
        );
        assert_eq!(report(&[row("good.json", CaseResult::Passed), row("bad.json", failed)]), expected);
    }
}
