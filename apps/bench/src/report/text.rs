//! The table of a case for a terminal: median, spread, ratios and verdicts.
//!
//! A table fits into the columns of the terminal, up to 100. If a table is too wide, we leave out
//! columns. JSON and CSV always have everything.

use creel_console::{Align, Table};

use super::quantity::{factor, heading, quantity, spread};
use super::rows::Row;
use super::view::{CaseView, SubjectView};
use crate::harness::ONE_THREAD;
use crate::sweep::Point;
use creel_stats::Verdict;

/// The largest width of a table in columns, even if the terminal is wider.
pub const COLUMNS: usize = 100;

/// The choice of optional columns of a table. We leave out columns until the table fits.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// The number of metrics after the first one. The table has only their medians.
    further: usize,
    /// Whether the table has the spread of the samples.
    spread: bool,
}

/// Returns the table of a case, with as many optional columns as fit into `columns`.
pub fn table(case: &CaseView, columns: usize) -> Table {
    if case.name == MATRIX {
        return means(case);
    }
    let further = case.recommended().map_or(0, |first| first.others.len());
    let mut shape = Shape {
        further,
        spread: true,
    };
    loop {
        let table = with(case, shape);
        let width = table.plain().lines().map(|line| line.chars().count()).max();
        if width.is_none_or(|width| width <= columns) {
            return table;
        }
        match shape {
            Shape { further: 1.., .. } => shape.further -= 1,
            Shape { spread: true, .. } => shape.spread = false,
            _ => return table,
        }
    }
}

/// The name of the case that has all combinations of settings.
pub const MATRIX: &str = "matrix";

/// Returns the table of the case [`MATRIX`], which has only geometric means.
fn means(case: &CaseView) -> Table {
    let first = case.recommended().map_or(&[][..], |first| &first.means);
    let name = |row: &Row| {
        let name = row.metric.trim_end_matches(", geometric mean");
        heading(name, &row.unit)
    };
    let names: Vec<String> = first.iter().map(|row| name(row)).collect();
    let mut columns = vec![("geometric means", Align::Left)];
    columns.extend(names.iter().map(|name| (name.as_str(), Align::Right)));
    columns.push(("runs", Align::Right));
    let mut table = Table::new(&columns);
    for subject in &case.subjects {
        let mut cells = vec![subject.name.to_owned()];
        cells.extend(
            subject
                .means
                .iter()
                .map(|row| quantity(row.median, &row.unit)),
        );
        cells.push(subject.first.runs.to_string());
        table.row(cells);
    }
    table
}

fn with(case: &CaseView, shape: Shape) -> Table {
    let has_one_thread = case.is_compared
        && case
            .subjects
            .iter()
            .any(|subject| case.one_thread_for(subject).is_some());
    let mut columns = vec![("", Align::Left)];
    let head = |row: &Row| heading(&row.metric, &row.unit);
    let first = case.recommended().map(|first| head(first.first));
    columns.push((first.as_deref().unwrap_or("time"), Align::Right));
    if shape.spread {
        columns.push(("spread", Align::Right));
    }
    if has_one_thread {
        columns.push(("÷ 1 thread", Align::Right));
    }
    if case.is_compared {
        columns.push(("÷ first", Align::Right));
        columns.push(("verdict", Align::Left));
    }
    let names: Vec<String> = case.recommended().map_or(Vec::new(), |first| {
        let others = first.others.iter().take(shape.further);
        others.map(|row| head(row)).collect()
    });
    columns.extend(names.iter().map(|name| (name.as_str(), Align::Right)));
    let mut table = Table::new(&columns);
    for (index, subject) in case.subjects.iter().enumerate() {
        let row = subject.first;
        let mut cells = vec![subject.name.to_owned(), quantity(row.median, &row.unit)];
        if shape.spread {
            cells.push(spread(row.min, row.median, row.max));
        }
        if has_one_thread {
            cells.push(ratio(case, subject, case.one_thread_for(subject)));
        }
        if case.is_compared {
            cells.push(ratio(case, subject, case.recommended_for(subject)));
            cells.push(if shape.spread {
                verdict(case, subject)
            } else {
                word(case, subject).into()
            });
        }
        let others = subject.others.iter().take(shape.further);
        cells.extend(others.map(|row| quantity(row.median, &row.unit)));
        if index == 0 {
            table.styled_row(anstyle::Style::new().bold(), cells);
        } else {
            table.row(cells);
        }
    }
    table
}

fn ratio(case: &CaseView, subject: &SubjectView, other: Option<&SubjectView>) -> String {
    let ratio = other.and_then(|other| case.ratio(subject, other));
    ratio.map_or(String::new(), |ratio| factor(ratio.factor()))
}

/// Returns the verdict of a subject compared with the first one. The first subject itself is
/// compared with one thread, and its verdict says so.
pub fn verdict(case: &CaseView, subject: &SubjectView) -> String {
    let word = word(case, subject);
    let first = case.recommended_for(subject);
    if word.is_empty() || first.is_none_or(|first| first.name != subject.name) {
        return word.into();
    }
    let than = match word {
        "the same" => "as 1 thread",
        "faster" | "slower" => "than 1 thread",
        _ => "vs. 1 thread",
    };
    format!("{word} {than}")
}

/// Returns the verdict alone, for example `faster`.
fn word(case: &CaseView, subject: &SubjectView) -> &'static str {
    let first = case.recommended_for(subject);
    let other = match first {
        Some(first) if first.name == subject.name => case.one_thread_for(subject),
        first => first,
    };
    let better = other
        .filter(|other| other.name != subject.name)
        .and_then(|other| case.better(subject, other));
    let Some(better) = better else {
        return "";
    };
    if better.half_width.is_infinite() {
        return "one sample";
    }
    match case.verdict(&better) {
        Verdict::Same if case.is_equivalent(&better) => "the same",
        Verdict::Same => "inconclusive",
        Verdict::More => "faster",
        Verdict::Less => "slower",
    }
}

/// Summarises a sweep: from which value on a subject is faster than one thread, or the cost per
/// worker. Returns an empty string if the case does not belong to a sweep.
pub fn of_a_sweep(case: &CaseView) -> String {
    let points: Vec<(Point, &SubjectView)> = case
        .subjects
        .iter()
        .filter_map(|subject| Some((Point::of(subject.name)?, subject)))
        .collect();
    let Some((Point { key, .. }, _)) = points.first() else {
        return String::new();
    };
    if *key == "workers" {
        return cost_per_worker(&points);
    }
    let mut names: Vec<&str> = points.iter().map(|(point, _)| point.name).collect();
    names.sort_unstable();
    names.dedup();
    let mut out = String::new();
    for name in names.into_iter().filter(|name| *name != ONE_THREAD) {
        let line = match crossover(case, &points, name) {
            Some(value) => format!("is faster than one thread from {key} {value} on"),
            None => format!("is not faster than one thread at the largest value of {key}"),
        };
        out += &format!("{name} {line}\n");
    }
    out
}

/// Returns the smallest value from which on a subject is faster than one thread at all values.
fn crossover(case: &CaseView, points: &[(Point, &SubjectView)], name: &str) -> Option<f64> {
    let at = |name: &str, value: f64| {
        let mut all = points.iter();
        let found = all.find(|(point, _)| point.name == name && point.value == value);
        found.map(|(_, subject)| *subject)
    };
    let mut values: Vec<f64> = points.iter().map(|(point, _)| point.value).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let ahead = |value: &f64| {
        let better = case.better(at(name, *value)?, at(ONE_THREAD, *value)?)?;
        Some(case.verdict(&better) == Verdict::More)
    };
    let from = values
        .iter()
        .rev()
        .take_while(|value| ahead(value) == Some(true));
    from.last().copied()
}

/// Returns a table of the CPU time, the memory and the context switches per worker.
fn cost_per_worker(points: &[(Point, &SubjectView)]) -> String {
    let mut table = Table::new(&[
        ("per worker", Align::Left),
        ("workers", Align::Right),
        ("CPU, cores", Align::Right),
        ("memory", Align::Right),
        ("voluntary switches/s", Align::Right),
        ("involuntary/s", Align::Right),
    ]);
    for (point, subject) in points {
        let [user, system, asked, forced, memory] = &subject.costs[..] else {
            continue;
        };
        let each = |value: f64| value / point.value;
        table.row([
            point.name.to_owned(),
            format!("{}", point.value),
            quantity(each(user.median + system.median), "cores"),
            quantity(each(memory.median), "B"),
            quantity(each(asked.median), "switches/s"),
            quantity(each(forced.median), "switches/s"),
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    format!("\n{}", table.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::section;

    #[test]
    fn tables_fit_the_width_and_show_verdicts() {
        let section = section();
        let case = section.case("hot").unwrap();
        let table = |columns| super::table(&case, columns);
        let narrow = table(65).plain();
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 65),
            "{narrow}"
        );
        assert!(
            narrow.lines().nth(1).unwrap().ends_with("  faster"),
            "{narrow}"
        );
        let table = table(COLUMNS);
        let text = table.plain();
        println!("{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("÷ 1 thread  ÷ first  verdict"));
        assert!(lines[1].ends_with("faster than 1 thread"), "{text}");
        assert!(lines[2].ends_with("  slower"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS));
    }
}
