//! Tables of text, aligned for a terminal or as Markdown for a document.
//!
//! A table does not know units or the meaning of values. A cell is text that may have a style.
//! Lines do not wrap, so choose columns that fit.

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

/// The alignment of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Cells begin at the left end of the column, which suits words.
    Left,
    /// Cells end at the right end of the column, which suits numbers.
    Right,
}

#[derive(Clone, Debug)]
struct Cell {
    text: String,
    style: Style,
}

/// A table: rows of cells under columns with titles.
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
    /// Creates an empty table with these columns.
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
    /// Panics if the number of cells differs from the number of columns.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.styled_row(Style::new(), cells);
    }

    /// Adds a row whose cells all have the same style. Only [`Table::text`] shows the style.
    ///
    /// # Panics
    ///
    /// Panics if the number of cells differs from the number of columns.
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
            "a row needs one cell per column of the table"
        );
        self.rows.push(row);
    }

    /// Returns whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table as aligned text with two blanks between columns. No line ends with a
    /// blank, and each line ends with a newline.
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

    /// Returns the same text as [`Table::text`] without styles.
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
            // We hold the blanks back until more text follows, so that no line ends with blanks.
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

    /// Returns the table as Markdown, with `|` in cells escaped.
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
