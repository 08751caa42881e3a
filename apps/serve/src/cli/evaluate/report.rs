//! The text report: findings and a table.

use creel_console::{Align, Table};
use creel_serve::load;

use super::{Measured, Place, Row};

pub const COLUMNS: [&str; 10] = [
    "subject",
    "load",
    "good/s",
    "503",
    "failed",
    "p50",
    "p99",
    "p99.9 ms",
    "uncorrected p99",
    "MB",
];

pub const NOTE: &str =
    "!: less than 99 % of the requests left in time, so the service got less load than planned";

/// Returns the whole report for a terminal.
pub fn text(places: &[Measured], rows: &[Row]) -> String {
    let mut out = String::new();
    for measured in places {
        let rows: Vec<&Row> = of(rows, measured.place).collect();
        let right = COLUMNS[1..].iter().map(|title| (*title, Align::Right));
        let columns: Vec<_> = std::iter::once((COLUMNS[0], Align::Left))
            .chain(right)
            .collect();
        let mut table = Table::new(&columns);
        for row in &rows {
            table.row(cells(row));
        }
        out += &format!("{}\n\n{}\n", title(measured), table.text());
        for finding in findings(&rows) {
            out += &format!("{finding}\n");
        }
        out += "\n";
    }
    out + NOTE + "\n"
}

/// Returns the runs of a place.
pub fn of(rows: &[Row], place: Place) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |row| row.place == place)
}

/// Returns the title of a place with its capacity.
pub fn title(measured: &Measured) -> String {
    let (place, rate) = (measured.place.name(), measured.capacity_per_second);
    format!("{place}: the capacity is {rate:.0} requests per second")
}

/// Returns a row of the table.
pub fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let ms = |us: Option<u64>| us.map_or("-".into(), |us| format!("{:.1}", us as f64 / 1000.0));
    let late = if row.offered_share < 0.99 && row.load_share.is_some() {
        " !"
    } else {
        ""
    };
    let load = |share| format!("{:.0} %{late}", share * 100.0);
    [
        row.subject.clone(),
        row.load_share.map_or("all".into(), load),
        format!("{:.0}", row.goodput_per_second),
        row.refused.to_string(),
        row.failed.to_string(),
        ms(row.p50_us),
        ms(row.p99_us),
        ms(row.p999_us),
        ms(row.uncorrected_p99_us),
        format!("{:.0}", row.memory_bytes as f64 / 1e6),
    ]
}

/// Returns the findings in a place about the first subject at its last load, which is the highest
/// one unless `--loads` has another order.
///
/// We compare its goodput with its own peak and with the other subjects. We compare its p99 with
/// its p99 at the first load, and its memory half-way with that at the end.
pub fn findings(rows: &[&Row]) -> Vec<String> {
    let loaded = || rows.iter().filter(|row| row.load_share.is_some());
    let Some(first) = loaded().next() else {
        return Vec::new();
    };
    let own = || loaded().filter(|row| row.subject == first.subject);
    let Some(last) = own().next_back() else {
        return Vec::new();
    };
    let peak = |rows: &mut dyn Iterator<Item = &&Row>| {
        rows.map(|row| row.goodput_per_second).fold(0.0, f64::max)
    };
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let of_peak = |peak: f64| percent(last.goodput_per_second / peak);
    let load = percent(last.load_share.unwrap_or_default());
    let mut findings = vec![format!(
        "{}, at {load}: {:.0} good answers per second, {} of its peak",
        last.subject,
        last.goodput_per_second,
        // The peak includes the run that measured the capacity.
        of_peak(peak(
            &mut rows.iter().filter(|row| row.subject == last.subject)
        )),
    )];
    let late = rows
        .iter()
        .filter(|row| row.load_share.is_some() && row.offered_share < 0.99);
    let waits = late.filter_map(|row| row.cpu_wait_share);
    if let Some(share) = waits
        .max_by(f64::total_cmp)
        .filter(|share| *share >= load::STARVED)
    {
        findings.push(format!(
            "the load generator itself waited for a CPU up to {} of the time, so requests that \
             left late say little about the service",
            percent(share)
        ));
    }
    let compared = |what: &str, others: &mut dyn Iterator<Item = &&Row>| {
        let best = others
            .max_by(|one, other| one.goodput_per_second.total_cmp(&other.goodput_per_second))?;
        // If requests left late, all connections were waiting for responses. The subject then got a
        // new request only after each response, so its load was lower than planned.
        let pace = match best.offered_share >= 0.99 {
            true => "",
            false => ", which got a new request only after each answer",
        };
        Some(format!(
            "{} of {what}{pace}",
            of_peak(best.goodput_per_second)
        ))
    };
    let is_without = |row: &&&Row| row.set.is_some_and(|(_, admission)| !admission);
    let mut without = loaded().filter(is_without);
    findings.extend(compared("the peak without admission", &mut without));
    let is_other = |row: &&&Row| row.set.is_none() && row.load_share == last.load_share;
    let mut others = loaded().filter(is_other);
    findings.extend(compared(
        &format!("the best of others at {load}"),
        &mut others,
    ));
    let mut in_time = loaded().filter(|row| is_other(row) && row.offered_share >= 0.99);
    findings.extend(compared(
        "the best of others whose load left in time",
        &mut in_time,
    ));
    if last.load_share != first.load_share
        && let (Some(p99_us), Some(first_p99_us)) = (last.p99_us, first.p99_us)
    {
        findings.push(format!(
            "p99 {:.0} ms, {:.1} × that at {}",
            p99_us as f64 / 1e3,
            p99_us as f64 / first_p99_us.max(1) as f64,
            percent(first.load_share.unwrap_or_default())
        ));
    }
    let mb = |bytes: u64| bytes as f64 / 1e6;
    findings.push(format!(
        "memory {:.0} MB half-way, {:.0} MB at the end",
        mb(last.memory_middle_bytes),
        mb(last.memory_end_bytes)
    ));
    findings
}
