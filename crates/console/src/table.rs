//! Tables of text: aligned for a terminal, or Markdown for a document.
//!
//! A table knows nothing of units or colours of values; a cell is text that may carry a style.
//! It does not wrap: who prints a table chooses columns that fit.

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

/// Which side a column's cells sit on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

#[derive(Clone, Debug)]
struct Cell {
    text: String,
    style: Style,
}

/// Rows under titled columns.
///
/// ```
/// use creel_console::{Align, Table};
///
/// let mut table = Table::new(&[("subject", Align::Left), ("ns", Align::Right)]);
/// table.row(["creel", "9"]);
/// table.row(["one thread", "17"]);
/// let plain = anstream::adapter::strip_str(&table.text()).to_string();
/// assert_eq!(plain, "subject     ns\ncreel        9\none thread  17\n");
/// assert_eq!(table.markdown().lines().nth(1), Some("|:--|--:|"));
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let columns = columns
            .iter()
            .map(|&(title, align)| (title.to_owned(), align))
            .collect();
        Table {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// When the number of cells is not the number of columns.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.styled_row(Style::new(), cells);
    }

    /// Adds a row whose cells all have one style, shown in [`Table::text`] only.
    ///
    /// # Panics
    ///
    /// When the number of cells is not the number of columns.
    pub fn styled_row<S: Into<String>>(
        &mut self,
        style: Style,
        cells: impl IntoIterator<Item = S>,
    ) {
        let row: Vec<Cell> = cells
            .into_iter()
            .map(|text| Cell {
                text: text.into(),
                style,
            })
            .collect();
        assert_eq!(
            row.len(),
            self.columns.len(),
            "a row has as many cells as the table has columns"
        );
        self.rows.push(row);
    }

    /// Whether no row was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Aligned text, two blanks between columns, no blanks at a line's end, each line with its
    /// newline.
    pub fn text(&self) -> String {
        let widths = self.widths();
        let bold = Style::new().bold();
        let titles = self.columns.iter().map(|(title, _)| (title.as_str(), bold));
        let mut out = self.text_line(titles, &widths);
        for row in &self.rows {
            out += &self.text_line(
                row.iter().map(|cell| (cell.text.as_str(), cell.style)),
                &widths,
            );
        }
        out
    }

    /// The same without styles.
    pub fn plain(&self) -> String {
        anstream::adapter::strip_str(&self.text()).to_string()
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .map(|(title, _)| title.width())
            .collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.width());
            }
        }
        widths
    }

    fn text_line<'a>(
        &self,
        cells: impl Iterator<Item = (&'a str, Style)>,
        widths: &[usize],
    ) -> String {
        let mut line = String::new();
        let mut blanks = 0;
        for ((text, style), (&width, (_, align))) in cells.zip(widths.iter().zip(&self.columns)) {
            let fill = width - text.width();
            let (before, after) = if *align == Align::Right {
                (fill, 0)
            } else {
                (0, fill)
            };
            // Held back until more text comes, so that no line ends in blanks.
            line.extend(std::iter::repeat_n(' ', blanks + before));
            if style == Style::new() {
                line += text;
            } else {
                line += &format!("{style}{text}{style:#}");
            }
            blanks = after + 2;
        }
        line.push('\n');
        line
    }

    /// A Markdown table; `|` in cells is escaped.
    pub fn markdown(&self) -> String {
        let titles = self.columns.iter().map(|(title, _)| title.as_str());
        let mut out = markdown_line(titles);
        out.push('|');
        for (_, align) in &self.columns {
            out += if *align == Align::Right {
                "--:|"
            } else {
                ":--|"
            };
        }
        out.push('\n');
        for row in &self.rows {
            out += &markdown_line(row.iter().map(|cell| cell.text.as_str()));
        }
        out
    }
}

fn markdown_line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<String> = cells
        .map(|cell| cell.replace('|', "\\|").replace('\n', " "))
        .collect();
    format!("| {} |\n", cells.join(" | "))
}
