//! Renders the screen as lines of text, from the samples and the choices of the user. These
//! functions are pure and know no terminal.
//!
//! Invariant: for any size of the screen, the result has as many lines as the screen, and no line
//! is wider than the screen.

use super::{
    pool_stats,
    report::{migrations, verdict_text},
    sampler::{Interval, LaneSample, Sampler},
    threads::Thread,
};
use creel_console::screen::{Line, LineStyle};
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthChar;

/// A column of the table, by which the threads can be sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Thread,
    Name,
    Pu,
    Cpu,
    Sys,
    Waited,
    Voluntary,
    Involuntary,
    Migrations,
}

/// The columns of the table with title and width. The name gets the rest of the line.
pub const COLUMNS: [(Column, &str, usize); 9] = [
    (Column::Thread, "thread", 8),
    (Column::Name, "name", 16),
    (Column::Pu, "PU", 4),
    (Column::Cpu, "CPU%", 6),
    (Column::Sys, "sys%", 5),
    (Column::Waited, "wait%", 6),
    (Column::Voluntary, "vol/s", 8),
    (Column::Involuntary, "invol/s", 8),
    (Column::Migrations, "migr/s", 7),
];

/// The choices of the user.
#[derive(Clone, Debug)]
pub struct ViewOptions {
    pub sort: Column,
    pub reversed: bool,
    pub tree: bool,
    pub lanes: bool,
    pub output: bool,
    pub pools: bool,
    pub help: bool,
    pub paused: bool,
    /// The index of the first visible line of the table.
    pub scroll: usize,
    /// The number of intervals that the display is behind the present.
    pub back: usize,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self {
            sort: Column::Cpu,
            reversed: false,
            tree: false,
            lanes: true,
            output: true,
            pools: true,
            help: false,
            paused: false,
            scroll: 0,
            back: 0,
        }
    }
}

/// The contents of a screen.
pub struct Scene<'a> {
    pub program: &'a str,
    pub sampler: &'a Sampler,
    pub interval: &'a Interval,
    pub options: &'a ViewOptions,
    /// The last lines of the output of the program, if it has a pane.
    pub output: Option<Vec<String>>,
    /// The exit code of the program, if it has ended.
    pub ended: Option<i32>,
}

impl Scene<'_> {
    /// Returns the number of samples since the end of the interval that is shown.
    fn samples_behind(&self) -> usize {
        let history = &self.sampler.history;
        let at = history.len().checked_sub(1 + self.options.back);
        let until = at.and_then(|at| history.get(at)).map(|(_, until)| *until);
        match (self.options.back, until) {
            (1.., Some(until)) => (self.sampler.samples - until) as usize,
            _ => 0,
        }
    }
}

/// The keys that the last line of the screen names, ordered by their usefulness. Keys that do not
/// fit into the line are only in the help.
const KEYS: [&str; 9] = [
    "q quit",
    "? help",
    "space pause",
    "T tree",
    "l lanes",
    "o output",
    "P pools",
    "r reverse",
    "c w s n m v i p t sort",
];

const HELP: [&str; 20] = [
    "q         quit, and end the program if creel has started it",
    "c         sort by CPU time             w  sort by time waited for a CPU",
    "s         sort by time in the kernel   n  sort by name",
    "m         sort by migrations           p  sort by PU",
    "v         sort by voluntary switches   i  sort by involuntary switches",
    "t         sort by thread id            r  reverse the order",
    "T         group the threads by process, as a tree",
    "P         show the workers of a Creel program (if it allows it with --observe)",
    "l         show a lane per PU: the letter of the thread that ran, + if several",
    "          ran or waited there, - if only another program ran, . for none",
    "left      show an earlier interval; right goes back to the present",
    "o         show the output of the program",
    "space     pause the display; sampling goes on",
    "up down   scroll (also page up, page down, home and the mouse wheel)",
    "click     on a column title: sort by it",
    "",
    "CPU%: share of the last interval that a thread ran; wait%: that it was ready",
    "but had no CPU. vol/s: switches because it slept; invol/s: it was preempted.",
    "Many involuntary switches and a high wait% mean more threads than CPUs.",
    "sys% near 100 with many switches means that threads only wake each other.",
];

/// Renders the whole screen.
pub fn draw(scene: &Scene, width: usize, height: usize) -> Vec<Line> {
    let mut lines = Vec::with_capacity(height);
    let mut add = |text: String, style| lines.push(Line { text, style });
    add(title(scene), LineStyle::Bar);
    add(state(scene, width), LineStyle::Plain);
    if scene.options.help {
        HELP.iter()
            .for_each(|line| add((*line).into(), LineStyle::Plain));
    } else {
        let threads = sorted(scene);
        let letters = letters(scene.sampler, &threads);
        if scene.options.lanes {
            let most = (height / 4).max(1);
            lanes(scene, &letters, width, most)
                .into_iter()
                .for_each(|lane| add(lane, LineStyle::Dim));
        }
        pools(scene, height)
            .into_iter()
            .for_each(|line| add(line, LineStyle::Plain));
        add(header(scene, width), LineStyle::Bold);
        let pane = scene.output.as_ref().filter(|_| scene.options.output);
        let pane_height = pane.map_or(0, |_| height / 3);
        let rows = height.saturating_sub(table_top(scene, height) + 1 + pane_height);
        let shown = threads.iter().skip(scene.options.scroll).take(rows);
        let shown: Vec<String> = shown.map(|t| row(t, scene, &letters, width)).collect();
        let missing = rows - shown.len();
        shown.into_iter().for_each(|row| add(row, LineStyle::Plain));
        (0..missing).for_each(|_| add(String::new(), LineStyle::Plain));
        if let Some(pane) = pane {
            add(format!("── output of {} ", scene.program), LineStyle::Dim);
            let room = pane_height.saturating_sub(1);
            let last = pane.len().saturating_sub(room);
            pane[last..]
                .iter()
                .for_each(|line| add(line.clone(), LineStyle::Plain));
        }
    }
    lines.truncate(height.saturating_sub(1));
    let blank = Line {
        text: String::new(),
        style: LineStyle::Plain,
    };
    lines.resize(height.saturating_sub(1), blank);
    let keys = if scene.options.help {
        "any key: back".into()
    } else {
        keys(width)
    };
    lines.push(Line {
        text: keys,
        style: LineStyle::Bar,
    });
    lines
        .iter_mut()
        .for_each(|line| line.text = fitted(&line.text, width));
    lines
}

/// Returns as many keys as fit into the line. No key is cut off.
fn keys(width: usize) -> String {
    let mut out = String::new();
    for key in KEYS {
        let gap = if out.is_empty() { "" } else { "  " };
        if out.len() + gap.len() + key.len() > width {
            break;
        }
        out += gap;
        out += key;
    }
    out
}

/// Returns the line at which the rows of the table start, below the titles.
pub fn table_top(scene: &Scene, height: usize) -> usize {
    let lanes = match scene.options.lanes {
        true => scene.sampler.lanes.len().min((height / 4).max(1)),
        false => 0,
    };
    3 + lanes + pools(scene, height).len()
}

/// Returns the lines for the pools, which use at most a quarter of the screen.
fn pools(scene: &Scene, height: usize) -> Vec<String> {
    if !scene.options.pools {
        return Vec::new();
    }
    let seconds = scene.interval.seconds;
    let lines = scene.interval.pools.iter().flat_map(|pool| {
        let table = pool_stats::table(pool, seconds).plain();
        let rows: Vec<String> = table.lines().map(String::from).collect();
        std::iter::once(pool_stats::heading(pool, seconds)).chain(rows)
    });
    lines.take(height / 4).collect()
}

fn title(scene: &Scene) -> String {
    let ended = match scene.ended {
        Some(code) => format!("  ended with {code}"),
        None if scene.options.back > 0 => {
            format!("  {} intervals ago", scene.options.back)
        }
        None if scene.options.paused => "  paused".into(),
        None => String::new(),
    };
    format!(
        " creel top  {}  {:.0} s  {} threads{ended}",
        scene.program,
        scene.sampler.elapsed_s(),
        scene.interval.threads.len()
    )
}

fn state(scene: &Scene, width: usize) -> String {
    let interval = scene.interval;
    let usable = scene.sampler.usable();
    let throttled = match &interval.throttled {
        Some(periods) if periods.all > 0 => format!(
            "  throttled {periods} {}",
            sparkline(scene.sampler, width / 6)
        ),
        _ => String::new(),
    };
    format!(
        "{:.1} runnable, {usable} usable, wait {:.0} %{throttled}  {}",
        interval.runnable_mean,
        interval.waiting() * 100.0,
        verdict_text(interval, usable)
    )
}

/// Returns a sparkline of the share of throttled periods. It has one mark per interval, and the
/// newest mark is on the right.
fn sparkline(sampler: &Sampler, width: usize) -> String {
    const MARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let skipped = sampler.throttling.len().saturating_sub(width);
    let shares = sampler.throttling.iter().skip(skipped);
    shares
        .map(|share| MARKS[((share * 8.0) as usize).min(7)])
        .collect()
}

/// Assigns a letter to each thread. A thread keeps its letter while the set of threads is the same.
fn letters(sampler: &Sampler, threads: &[(usize, Thread)]) -> BTreeMap<u32, char> {
    let mut tids: Vec<u32> = threads.iter().map(|(_, t)| t.tid).collect();
    let seen = sampler.lanes.values().flatten();
    tids.extend(seen.filter_map(|seen| match seen {
        LaneSample::One(tid) | LaneSample::Several(tid) => Some(*tid),
        _ => None,
    }));
    tids.sort_unstable();
    tids.dedup();
    let letters = ('a'..='z').chain('A'..='Z').cycle();
    tids.into_iter().zip(letters).collect()
}

fn lanes(scene: &Scene, letters: &BTreeMap<u32, char>, width: usize, most: usize) -> Vec<String> {
    let room = width.saturating_sub(8);
    let lane = |(pu, lane): (&usize, &std::collections::VecDeque<LaneSample>)| {
        let shown = lane.len().saturating_sub(scene.samples_behind());
        let skipped = shown.saturating_sub(room);
        let marks = lane
            .iter()
            .take(shown)
            .skip(skipped)
            .map(|seen| match seen {
                LaneSample::Nobody => '.',
                LaneSample::One(tid) => letters.get(tid).copied().unwrap_or('?'),
                LaneSample::Several(_) => '+',
                LaneSample::Waiting => '-',
            });
        format!("PU {pu:>4} {}", marks.collect::<String>())
    };
    scene.sampler.lanes.iter().take(most).map(lane).collect()
}

fn header(scene: &Scene, width: usize) -> String {
    let name = name_width(width);
    // This blank is above the letters of the threads.
    let mut out = String::from(" ");
    for (column, title, size) in COLUMNS {
        let mark = match (column == scene.options.sort, scene.options.reversed) {
            (true, false) => "▾",
            (true, true) => "▴",
            _ => "",
        };
        let title = format!("{title}{mark}");
        out += &match column {
            Column::Name => format!(" {title:<name$}"),
            _ => format!(" {title:>size$}"),
        };
    }
    out
}

fn name_width(width: usize) -> usize {
    let others = COLUMNS.iter().filter(|(c, ..)| *c != Column::Name);
    let taken: usize = others.map(|(_, _, size)| size + 1).sum();
    width.saturating_sub(taken + 2).clamp(8, 40)
}

/// Returns the column at position `x` of the line of titles.
pub fn column_at(x: usize, width: usize) -> Option<Column> {
    let mut end = 1;
    COLUMNS.iter().find_map(|&(column, _, size)| {
        end += 1 + if column == Column::Name {
            name_width(width)
        } else {
            size
        };
        (x < end).then_some(column)
    })
}

fn row(
    (depth, t): &(usize, Thread),
    scene: &Scene,
    letters: &BTreeMap<u32, char>,
    width: usize,
) -> String {
    let seconds = scene.interval.seconds.max(1e-9);
    let percent = |s: f64| format!("{:.1}", s / seconds * 100.0);
    let rate = |n: u64| format!("{:.0}", n as f64 / seconds);
    let migrations = match t.migrations {
        Some(n) => rate(n),
        None => migrations(t),
    };
    let name = name_width(width);
    let indented = fitted(&format!("{}{}", "  ".repeat(*depth), t.name), name);
    format!(
        "{} {:>8} {indented:<name$} {:>4} {:>6} {:>5.0} {:>6} {:>8} {:>8} {migrations:>7}",
        letters.get(&t.tid).copied().unwrap_or(' '),
        t.tid,
        t.cpu,
        percent(t.cpu_s),
        t.sys_share * 100.0,
        percent(t.waited_s),
        rate(t.voluntary),
        rate(t.involuntary),
    )
}

/// Returns the threads in the order of the table, with their depths in the tree. Without the tree,
/// each depth is 0.
fn sorted(scene: &Scene) -> Vec<(usize, Thread)> {
    let mut threads = scene.interval.threads.clone();
    threads.sort_by(|a, b| {
        let order = order(scene.options.sort, a, b).then(a.tid.cmp(&b.tid));
        if scene.options.reversed {
            order.reverse()
        } else {
            order
        }
    });
    if !scene.options.tree {
        return threads.into_iter().map(|t| (0, t)).collect();
    }
    let mut out = Vec::with_capacity(threads.len());
    let is_process = |t: &&Thread| t.tid == t.pid;
    let known = |pid: u32| threads.iter().any(|t| t.tid == pid);
    for root in threads
        .iter()
        .filter(is_process)
        .filter(|t| !known(t.parent))
    {
        below(&threads, root, 0, &mut out);
    }
    out
}

fn below(threads: &[Thread], process: &Thread, depth: usize, out: &mut Vec<(usize, Thread)>) {
    out.push((depth, process.clone()));
    for t in threads
        .iter()
        .filter(|t| t.pid == process.pid && t.tid != t.pid)
    {
        out.push((depth + 1, t.clone()));
    }
    for t in threads
        .iter()
        .filter(|t| t.tid == t.pid && t.parent == process.pid)
    {
        below(threads, t, depth + 1, out);
    }
}

/// Compares two threads. Names and ids ascend. Costs descend, so that possible problems are at the
/// top.
fn order(column: Column, a: &Thread, b: &Thread) -> std::cmp::Ordering {
    match column {
        Column::Thread => a.tid.cmp(&b.tid),
        Column::Name => a.name.cmp(&b.name),
        Column::Pu => a.cpu.cmp(&b.cpu),
        Column::Cpu => b.cpu_s.total_cmp(&a.cpu_s),
        Column::Sys => b.sys_share.total_cmp(&a.sys_share),
        Column::Waited => b.waited_s.total_cmp(&a.waited_s),
        Column::Voluntary => b.voluntary.cmp(&a.voluntary),
        Column::Involuntary => b.involuntary.cmp(&a.involuntary),
        Column::Migrations => {
            let moves = |t: &Thread| t.migrations.unwrap_or(t.moves_seen);
            moves(b).cmp(&moves(a))
        }
    }
}

/// Returns as much of a text as fits, without control characters.
pub fn fitted(text: &str, width: usize) -> String {
    let mut taken = 0;
    let fits = |c: &char| {
        taken += c.width().unwrap_or(0);
        taken <= width
    };
    let plain = text.chars().filter(|c| !c.is_control());
    plain.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::target::Target;

    #[test]
    fn screens_of_every_size_are_filled_exactly() {
        let mut sampler = Sampler::begin(Target::Processes(vec![std::process::id()])).unwrap();
        sampler.lanes = (0..6).map(|pu| (pu, Default::default())).collect();
        sampler.sample();
        let interval = sampler.interval();
        for help in [false, true] {
            let options = ViewOptions {
                help,
                tree: !help,
                ..ViewOptions::default()
            };
            for (width, height) in [(80, 24), (200, 50), (20, 5), (1, 1), (300, 3)] {
                let scene = Scene {
                    program: "a program with a long name",
                    sampler: &sampler,
                    interval: &interval,
                    options: &options,
                    output: Some(vec!["wide ".repeat(100); 100]),
                    ended: None,
                };
                let lines = draw(&scene, width, height);
                assert_eq!(lines.len(), height, "{width} x {height}");
                for line in &lines {
                    assert!(line.text.chars().count() <= width, "{width}: {}", line.text);
                }
                if height >= 24 && !help {
                    let line_of = |text: &str| {
                        let mut texts = lines.iter().map(|line| line.text.as_str());
                        texts.find(|line| line.contains(text)).unwrap()
                    };
                    let (titles, tid) = (line_of("thread name"), std::process::id().to_string());
                    // Numbers are aligned with their titles, and no title is cut off.
                    let end = |line: &str, text: &str| line.find(text).unwrap() + text.len();
                    assert_eq!(end(line_of(&tid), &tid), end(titles, "thread"));
                    assert!(titles.ends_with("migr/s"), "{width}: {titles}");
                }
            }
        }
    }

    #[test]
    fn keys_and_help_fit_80_columns() {
        assert!(keys(80).ends_with("r reverse") && keys(200).ends_with("sort"));
        assert_eq!((keys(10).as_str(), keys(3).as_str()), ("q quit", ""));
        assert!(HELP.iter().all(|line| line.len() <= 80));
        // The screen also shows the title, the state and the line of keys.
        assert!(HELP.len() + 3 <= 24);
    }

    #[test]
    fn a_click_on_a_title_selects_its_column() {
        assert_eq!(column_at(5, 80), Some(Column::Thread));
        assert_eq!(column_at(14, 80), Some(Column::Name));
        assert_eq!(column_at(79, 80), Some(Column::Migrations));
        assert_eq!(column_at(500, 80), None);
    }

    #[test]
    fn a_wide_character_takes_two_columns() {
        assert_eq!(fitted("日本語", 5), "日本");
        assert_eq!(fitted("a\u{1b}[2Jb", 9), "a[2Jb");
    }
}
