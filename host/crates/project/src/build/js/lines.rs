//! Lines of the project's files in the place of the bundle's, by the table that the bundle begins with.
//!
//! In: what the builder printed of an error while the bundle ran. Out: the same, with `FILE:LINE` for each
//! `handler.js:LINE:COLUMN` that the table has.

use serde_json::Value;

/// How `dev/js/lines.mjs` begins the bundle.
const TABLE: &str = r#"globalThis[Symbol.for("modelhost:lines")]="#;
const BUNDLE: &str = "handler.js:";

pub(super) fn placed(printed: &str, bundle: &str) -> String {
    let mut pieces = printed.split(BUNDLE);
    let mut placed = pieces.next().unwrap_or_default().to_owned();
    let rows = rows(bundle);
    for piece in pieces {
        match place(piece, &rows) {
            Some((file, line, rest)) => placed += &format!("{file}:{line}{rest}"),
            None => placed += &format!("{BUNDLE}{piece}"),
        }
    }
    placed
}

/// The file and the line of a text that begins with the bundle's `LINE:COLUMN`, and what comes after that.
fn place<'a>(text: &'a str, rows: &[Row]) -> Option<(String, i64, &'a str)> {
    let (at, rest) = number(text)?;
    let (column, rest) = number(rest.strip_prefix(':')?)?;
    let of_line = rows.iter().filter(|row| row.at == at);
    let row = of_line.clone().rfind(|row| row.column < column).or_else(|| of_line.clone().next())?;
    Some((row.file.clone(), row.line, rest))
}

fn number(text: &str) -> Option<(i64, &str)> {
    let (digits, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    Some((digits.parse().ok()?, rest))
}

/// A place of the bundle, and what it is in the project's files.
struct Row {
    at: i64,
    column: i64,
    file: String,
    line: i64,
}

fn rows(bundle: &str) -> Vec<Row> {
    let table = bundle.strip_prefix(TABLE).map(|rest| serde_json::Deserializer::from_str(rest).into_iter());
    let Some(Ok::<Value, _>(table)) = table.and_then(|mut tables| tables.next()) else { return Vec::new() };
    let files = table.get("files").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = table.get("rows").and_then(Value::as_str).unwrap_or_default();
    let mut last = [0; 4];
    let row = |row: &str| {
        let given: Vec<i64> = row.split(',').filter_map(|number| number.parse().ok()).collect();
        let [at, column, file, line]: [i64; 4] = given.try_into().ok()?;
        // Each is the difference from the row before; a column of another line counts from 0.
        let before = if at == 0 { last[1] } else { 0 };
        last = [last[0] + at, before + column, last[2] + file, last[3] + line];
        let file = files.get(usize::try_from(last[2]).ok()?)?.as_str()?.to_owned();
        Some(Row { at: last[0], column: last[1], file, line: last[3] })
    };
    text.split(';').filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_bundle_become_those_of_the_files() {
        let bundle = format!(
            "{TABLE}{};// a\n",
            r#"{"files":["lib.js","handler.ts"],"rows":"10,0,0,4;2,1,1,2;0,8,0,-3;1,0,-1,0"}"#
        );
        for (printed, expected) in [
            ("handler.js:10:3 ReferenceError: x", "lib.js:4 ReferenceError: x"),
            ("at (handler.js:12:1), handler.js:12:9\n", "at (handler.ts:6), handler.ts:6\n"),
            ("@handler.js:12:10", "@handler.ts:3"),
            ("handler.js:13:1", "lib.js:3"),
            // A line of a package's; the bundler's own places; no place.
            ("handler.js:11:1 and handler.js:12 handler.js", "handler.js:11:1 and handler.js:12 handler.js"),
        ] {
            assert_eq!(placed(printed, &bundle), expected);
        }
        assert_eq!(placed("handler.js:10:3", "var a;"), "handler.js:10:3");
    }
}
