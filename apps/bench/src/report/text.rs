//! A case as a table for people, in a hundred columns: median, spread, ratios, and what is called
//! of them. The rest is for programs.

use creel_console::{Align, Table};

use super::quantity::{factor, quantity, spread};
use super::rows::Row;
use super::view::{CaseView, SubjectView};
use crate::harness::ONE_THREAD;
use crate::stats::{Call, Centre};
use crate::sweep::Point;

/// As wide as a terminal that many have.
const COLUMNS: usize = 100;

/// A case as a table with a heading, aligned to a hundred columns.
pub fn table(case: &CaseView) -> Table {
    if case.name == MATRIX {
        return means(case);
    }
    let mut further = case.recommended().map_or(0, |first| first.others.len());
    loop {
        let table = with(case, further);
        let width = table.plain().lines().map(|line| line.chars().count()).max();
        if further == 0 || width.is_none_or(|width| width <= COLUMNS) {
            return table;
        }
        further -= 1;
    }
}

/// The case of crossed settings.
pub const MATRIX: &str = "matrix";

/// Geometric means alone, as an article has them.
fn means(case: &CaseView) -> Table {
    let first = case.recommended().map_or(&[][..], |first| &first.means);
    let name = |row: &Row| {
        let name = row.metric.trim_end_matches(", geometric mean");
        if row.unit.ends_with("/s") {
            row.unit.clone()
        } else {
            name.to_owned()
        }
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

/// With so many further metrics, their medians only.
fn with(case: &CaseView, further: usize) -> Table {
    let has_one_thread = case.is_compared
        && case
            .subjects
            .iter()
            .any(|subject| case.one_thread_beside(subject).is_some());
    let mut columns = vec![("", Align::Left)];
    let first = case.recommended().map(|first| first.first.metric.as_str());
    columns.push((first.unwrap_or("time"), Align::Right));
    columns.push(("spread", Align::Right));
    if has_one_thread {
        columns.push(("÷ 1 thread", Align::Right));
    }
    if case.is_compared {
        columns.push(("÷ first", Align::Right));
        columns.push(("verdict", Align::Left));
    }
    let names: Vec<&str> = case.recommended().map_or(Vec::new(), |first| {
        let others = first.others.iter().take(further);
        others.map(|row| row.metric.as_str()).collect()
    });
    columns.extend(names.iter().map(|name| (*name, Align::Right)));
    let mut table = Table::new(&columns);
    for (index, subject) in case.subjects.iter().enumerate() {
        let row = subject.first;
        let mut cells = vec![
            subject.name.to_owned(),
            quantity(row.median, &row.unit),
            spread(row.min, row.median, row.max),
        ];
        if has_one_thread {
            cells.push(ratio(case, subject, case.one_thread_beside(subject)));
        }
        if case.is_compared {
            cells.push(ratio(case, subject, case.recommended_beside(subject)));
            cells.push(verdict(case, subject));
        }
        let others = subject.others.iter().take(further);
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

/// What is called of a subject beside the first; of the first, beside one thread.
pub fn verdict(case: &CaseView, subject: &SubjectView) -> String {
    let first = case.recommended_beside(subject);
    let is_first = first.is_some_and(|first| first.name == subject.name);
    let other = if is_first {
        case.one_thread_beside(subject)
    } else {
        first
    };
    let Some(other) = other.filter(|other| other.name != subject.name) else {
        return String::new();
    };
    let words = case.better(subject, other).map(|b| words(case, &b));
    match words {
        Some(["same", ..]) if is_first => "the same as 1 thread".into(),
        Some([word, than]) if is_first => format!("{word}{than} 1 thread"),
        Some(["same", ..]) => "the same".into(),
        Some([word, _]) => word.into(),
        None => String::new(),
    }
}

/// What is called of a ratio, and the word that leads on to what it is beside.
fn words(case: &CaseView, better: &Centre) -> [&'static str; 2] {
    if better.half.is_infinite() {
        return ["one sample", " beside"];
    }
    match case.call(better) {
        Call::Same if case.is_alike(better) => ["same", " as"],
        Call::Same => ["not told apart", " from"],
        Call::More => ["faster", " than"],
        Call::Less => ["slower", " than"],
    }
}

/// What a sweep says: from where on it pays, and what a worker costs; empty where nothing was swept.
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
        return a_worker(&points);
    }
    let mut names: Vec<&str> = points.iter().map(|(point, _)| point.name).collect();
    names.sort_unstable();
    names.dedup();
    let mut out = String::new();
    for name in names.into_iter().filter(|name| *name != ONE_THREAD) {
        let line = match crossover(case, &points, name) {
            Some(value) => format!("pays from {key} {value} on"),
            None => format!("does not pay up to the last {key}"),
        };
        out += &format!("{name} {line}\n");
    }
    out
}

/// The smallest value from which on a subject is ahead of one thread at all values.
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
        Some(case.call(&better) == Call::More)
    };
    let from = values
        .iter()
        .rev()
        .take_while(|value| ahead(value) == Some(true));
    from.last().copied()
}

/// Memory, CPU and switches a worker, a row a point.
fn a_worker(points: &[(Point, &SubjectView)]) -> String {
    let mut table = Table::new(&[
        ("a worker", Align::Left),
        ("workers", Align::Right),
        ("CPU, cores", Align::Right),
        ("memory", Align::Right),
        ("switches asked for/s", Align::Right),
        ("forced/s", Align::Right),
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
    fn a_table_says_who_is_faster_in_a_hundred_columns() {
        let section = section();
        let table = table(&section.case("hot").unwrap());
        let text = table.plain();
        println!("{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("÷ 1 thread  ÷ first  verdict"));
        assert!(lines[1].ends_with("faster than 1 thread"), "{text}");
        assert!(lines[2].ends_with("  slower"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS));
    }
}
