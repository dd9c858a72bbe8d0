//! Rows of text in columns.

/// A table with a head: columns as wide as their widest cell, numbers to the right.
pub(super) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let cells = || std::iter::once(head.map(str::to_owned)).chain(rows.iter().cloned());
    let mut widths = [0; N];
    for row in cells() {
        for (width, cell) in widths.iter_mut().zip(&row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    // A column of figures: every cell begins with a digit or says that there is none.
    let mut is_figures = [!rows.is_empty(); N];
    for row in rows {
        for (is_figures, cell) in is_figures.iter_mut().zip(row) {
            *is_figures &= cell == "-" || cell.starts_with(|c: char| c.is_ascii_digit()) && is_figure(cell);
        }
    }
    let line = |row: [String; N]| {
        let cells = row.iter().zip(widths).zip(is_figures).map(|((cell, width), is_figures)| {
            if is_figures { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    cells().map(line).collect::<Vec<_>>().join("\n")
}

/// A number, perhaps with a unit of one or two letters.
fn is_figure(cell: &str) -> bool {
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    number.parse::<f64>().is_ok() && unit.chars().count() <= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_to_the_right_and_words_to_the_left() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["iris", "12", "1.5 ms"]), row(["a-longer-one", "-", "12.0 ms"])];
        let expected = "\
name          count     mean
iris             12   1.5 ms
a-longer-one      -  12.0 ms";
        assert_eq!(table(["name", "count", "mean"], &rows), expected);
        assert_eq!(table(["digest"], &[["0123 is none of it".to_owned()]]), "digest\n0123 is none of it");
        assert_eq!(table(["name", "count"], &[]), "name  count");
    }
}
