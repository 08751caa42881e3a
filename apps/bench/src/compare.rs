//! Two reports beside each other: what must match, and what differs beyond both runs' noise.
//!
//! Times of two runs are not compared by themselves, because the machine's speed drifts between
//! them. What is compared is the ratio of each of Creel's subjects to a baseline that was sampled in
//! the same rounds: one thread, or the first that is not Creel's. Where memory became slower, because
//! a guest beside this one came or went, a baseline that needs more of it moves by more: up to 1.5 ×
//! between two runs an hour apart, while Creel's subjects took what they had taken. So a difference
//! is only called where the subject's own figure moved the same way, by [`OWN_SHARE_MIN`] of it at least.
//!
//! Two runs of all cases compare hundreds of ratios, of which 1 in 20 would be beyond an error of
//! 95 % by chance. So a difference is called only beyond an error that is wider the more is compared
//! ([`bonferroni_factor`]), by Holm's rule: the clearest first, each as one of those that are left.
//!
//! Source: S. Holm, "A simple sequentially rejective multiple test procedure" (1979).

use creel_console::{Align, Table};

use crate::clock::DISTURBED_SHARE;
use crate::harness::ONE_THREAD;
use crate::report::{CaseView, Report, Section, SubjectView, factor, is_more_better, quantity};
use creel_stats::{Estimate, FACTOR_MIN, Verdict, bonferroni_factor};

/// How much of a change, as a logarithm, is to be the subject's own and not the baseline's.
const OWN_SHARE_MIN: f64 = 0.5;

/// What 19 of 20 subjects that nobody changed moved by between two processes, beyond the error of
/// their samples: one process is luckier with its memory than the next.
const BETWEEN_PROCESS_FACTOR: f64 = 1.08;

/// A factor that a run should tell.
const DETECTABLE_FACTOR: f64 = 2.0;

/// What two reports differ in.
#[derive(Debug, Default)]
pub struct Comparison {
    /// What must match and does not: in words, a line each.
    pub mismatches: Vec<String>,
    /// What may differ and does.
    pub notes: Vec<String>,
    /// How many ratios were compared.
    pub compared: usize,
    /// In how many of these a factor of [`DETECTABLE_FACTOR`] would have been called.
    pub detectable: usize,
    /// What is called a difference, the worst first.
    pub differences: Vec<Difference>,
    /// Where a baseline moved and the subject did not.
    pub baseline_moved: Vec<String>,
}

/// A subject that is faster or slower than it was.
#[derive(Debug)]
pub struct Difference {
    /// Workload, case and subject.
    pub what: String,
    /// The baseline's name.
    pub baseline: String,
    /// Its figure then and now, as printed.
    pub figures: [String; 2],
    /// How many times better it is, by the baseline; below one is worse.
    pub better: f64,
}

/// How much better a subject is than it was.
struct Change<'a> {
    /// By the baseline.
    ratio: Estimate,
    /// By its own figures, as a logarithm.
    own: f64,
    /// The baseline's name.
    baseline: &'a str,
}

/// A change, as a difference that it may be, and how sure it is.
struct Candidate {
    difference: Difference,
    change: Estimate,
    /// Whether it is the subject that changed.
    own: bool,
    /// The noise of both runs, and that between them.
    floors: [f64; 3],
}

/// Compares all that both have.
pub fn reports(old: &Report, new: &Report) -> Comparison {
    let mut comparison = Comparison::default();
    let mut candidates = Vec::new();
    for section in &new.sections {
        let Some(before) = old.section(&section.workload) else {
            let note = format!("{}: not in the old report", section.workload);
            comparison.notes.push(note);
            continue;
        };
        comparison.conditions(before, section);
        // Who measures some cases compares these; what one of them lost is told.
        for case in section.cases() {
            let Some(old_case) = before.case(case.name) else {
                continue;
            };
            let changes_to = |case: &CaseView| changes(section, &old_case, case);
            let there = changes_to(&case);
            comparison.note_missing(&changes_to(&old_case), &there);
            candidates.extend(there);
        }
    }
    comparison.classify(candidates);
    let worst = |a: &Difference, b: &Difference| a.better.total_cmp(&b.better);
    comparison.differences.sort_by(worst);
    comparison
}

/// Subjects of a case whose difference from an old report's more samples should settle, their
/// baseline among them.
pub fn inconclusive(old: &Section, case: &CaseView) -> Vec<usize> {
    let Some(old_case) = old.case(case.name) else {
        return Vec::new();
    };
    let far = |subject: &&SubjectView| {
        let change = change(&old_case, case, subject);
        change.is_some_and(|change| {
            change.ratio.log.abs() > FACTOR_MIN.ln() && change.is_own_change()
        })
    };
    let names: Vec<&str> = case.subjects.iter().filter(far).map(|s| s.name).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let baseline = baseline(&old_case, case).map(|subject| subject.name);
    let wanted = |name: &str| names.contains(&name) || baseline == Some(name);
    let subjects = case.subjects.iter().enumerate();
    subjects
        .filter(|(_, s)| wanted(s.name))
        .map(|(index, _)| index)
        .collect()
}

/// The first that both have of those that the program does not change.
fn baseline<'a, 'b>(old: &CaseView, case: &'b CaseView<'a>) -> Option<&'b SubjectView<'a>> {
    let known =
        |subject: &&SubjectView| old.subjects.iter().any(|other| other.name == subject.name);
    let one_thread = case
        .subjects
        .iter()
        .find(|subject| subject.name == ONE_THREAD);
    let mut others = case.subjects.iter().filter(known);
    one_thread
        .filter(known)
        .or_else(|| others.find(|subject| !is_creels(subject)))
}

fn is_creels(subject: &SubjectView) -> bool {
    subject.name.starts_with("creel")
}

impl Change<'_> {
    fn is_own_change(&self) -> bool {
        self.own * self.ratio.log.signum() >= OWN_SHARE_MIN * self.ratio.log.abs()
    }
}

/// Of a subject of Creel's that both have.
fn change<'a>(
    old: &CaseView,
    case: &CaseView<'a>,
    subject: &SubjectView<'a>,
) -> Option<Change<'a>> {
    let by = baseline(old, case)?;
    let find = |name| old.subjects.iter().find(|other| other.name == name);
    let (before, by_before) = (find(subject.name)?, find(by.name)?);
    if !is_creels(subject) {
        return None;
    }
    let now = case.better(subject, by)?;
    let then = old.better(before, by_before)?;
    let more = (subject.first.median / before.first.median).ln();
    Some(Change {
        ratio: now - then,
        own: if is_more_better(case.unit()) {
            more
        } else {
            -more
        },
        baseline: by.name,
    })
}

/// All changes of a case, whether they are called or not.
fn changes(section: &Section, old: &CaseView, new: &CaseView) -> Vec<Candidate> {
    let floors =
        [old.floor, new.floor, Some(BETWEEN_PROCESS_FACTOR.ln())].map(|floor| floor.unwrap_or(0.0));
    let candidate = |subject: &SubjectView| {
        let change = change(old, new, subject)?;
        let figure = |case: &CaseView| {
            let mut subjects = case.subjects.iter();
            let found = subjects.find(|other| other.name == subject.name);
            found.map_or(String::new(), |s| quantity(s.first.median, &s.first.unit))
        };
        change.ratio.half_width.is_finite().then(|| Candidate {
            difference: Difference {
                what: format!("{} {}: {}", section.workload, new.name, subject.name),
                baseline: change.baseline.into(),
                figures: [figure(old), figure(new)],
                better: change.ratio.factor(),
            },
            own: change.is_own_change(),
            change: change.ratio,
            floors,
        })
    };
    new.subjects.iter().filter_map(candidate).collect()
}

/// What must match before figures of two runs stand beside each other, and does not.
pub fn mismatches(old: &Section, new: &Section) -> Vec<String> {
    let (before, now) = (&old.host, &new.host);
    let pace = |section: &Section| if section.quick { "quick" } else { "full" };
    let mut mismatches = differ(&[
        ("processor", &before.cpu, &now.cpu),
        ("usable PUs", &before.allowed, &now.allowed),
        ("limit", &before.quota, &now.quota),
        ("compiler", &before.compiler, &now.compiler),
        ("target", &before.target, &now.target),
        ("load", old.load.name(), new.load.name()),
        ("length", pace(old), pace(new)),
    ]);
    let message = !before.caches.is_empty() && !now.caches.is_empty();
    if message && before.caches != now.caches {
        let caches = format!("caches: {}, now {}", before.caches, now.caches);
        mismatches.push(caches);
    }
    if old.workers != new.workers {
        mismatches.push(format!("workers: {}, now {}", old.workers, new.workers));
    }
    mismatches
}

fn differ(list: &[(&str, &str, &str)]) -> Vec<String> {
    let unlike = list.iter().filter(|(_, then, now)| then != now);
    unlike
        .map(|(name, then, now)| format!("{name}: {then}, now {now}"))
        .collect()
}

impl Comparison {
    fn conditions(&mut self, old: &Section, new: &Section) {
        let (before, now) = (&old.host, &new.host);
        let mut mismatches = mismatches(old, new);
        for (when, section) in [("the old", old), ("the new", new)] {
            let disturbance = section.disturbance;
            let share = disturbance.map_or(0.0, |disturbance| disturbance.share());
            if share > DISTURBED_SHARE {
                mismatches.push(format!(
                    "{when} {} was disturbed: others and the host took {:.0} % of the machine",
                    section.workload,
                    share * 100.0
                ));
            }
        }
        let mut notes = differ(&[
            ("commit", &before.commit, &now.commit),
            ("kernel", &before.kernel, &now.kernel),
            ("governor", &before.governor, &now.governor),
            ("turbo", &before.turbo, &now.turbo),
        ]);
        if before.commit == now.commit {
            notes.push(format!(
                "the same commit, {}: differences are noise",
                now.commit
            ));
        }
        for (all, more) in [(&mut self.mismatches, mismatches), (&mut self.notes, notes)] {
            for line in more {
                if !all.contains(&line) {
                    all.push(line);
                }
            }
        }
    }

    /// Tells what could have been compared with the old case, and cannot: it is gone, or has no
    /// samples that are times or speeds.
    fn note_missing(&mut self, all: &[Candidate], there: &[Candidate]) {
        let what = |candidate: &Candidate| candidate.difference.what.clone();
        let there: Vec<String> = there.iter().map(what).collect();
        let note_missing = all.iter().map(what).filter(|what| !there.contains(what));
        let note_missing = note_missing.map(|what| format!("{what}: not in the new report"));
        self.notes.extend(note_missing);
    }

    /// Calls those that are differences.
    fn classify(&mut self, mut candidates: Vec<Candidate>) {
        let all = candidates.len();
        self.compared = all;
        let is_detectable = |c: &&Candidate| {
            c.change
                .is_detectable(DETECTABLE_FACTOR, &c.floors, bonferroni_factor(all))
        };
        self.detectable = candidates.iter().filter(is_detectable).count();
        let distance = |candidate: &Candidate| candidate.change.distance(&candidate.floors);
        candidates.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
        let clear = candidates.into_iter().enumerate();
        let clear = clear.take_while(|(before, c)| distance(c) > bonferroni_factor(all - before));
        for (_, candidate) in clear.filter(|(_, c)| c.change.verdict(&c.floors) != Verdict::Same) {
            if candidate.own {
                self.differences.push(candidate.difference);
            } else {
                self.baseline_moved.push(candidate.difference.what);
            }
        }
    }

    /// Whether something became slower.
    pub fn is_worse(&self) -> bool {
        self.differences
            .iter()
            .any(|difference| difference.better < 1.0)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for note in &self.notes {
            out += &format!("{note}\n");
        }
        if !self.differences.is_empty() {
            let mut table = Table::new(&[
                ("", Align::Left),
                ("was", Align::Right),
                ("is", Align::Right),
                ("by", Align::Left),
                ("", Align::Left),
            ]);
            for difference in &self.differences {
                let better = difference.better;
                let verdict = if better > 1.0 {
                    format!("{} × faster", factor(better))
                } else {
                    format!("{} × slower", factor(1.0 / better))
                };
                let [was, is] = difference.figures.clone();
                table.row([
                    difference.what.clone(),
                    was,
                    is,
                    difference.baseline.clone(),
                    verdict,
                ]);
            }
            out += &table.text();
            out += "whether one comes again, a run of its case alone tells (--case NAME)\n";
        }
        if !self.baseline_moved.is_empty() {
            let names = self.baseline_moved.join("; ");
            out += &format!("not called, because it is the baseline that moved: {names}\n");
        }
        let (compared, detectable) = (self.compared, self.detectable);
        out += &match self.differences.len() {
            0 => format!("{compared} ratios compared, no difference"),
            count => format!("{compared} ratios compared, {count} differ"),
        };
        out += &format!(
            "; {detectable} are sure enough that {DETECTABLE_FACTOR} × would have been called\n"
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{section, with_creel_at};
    use crate::report::{Noise, Row};

    fn report(section: Section) -> Report {
        Report {
            sections: vec![section],
        }
    }

    #[test]
    fn doubled_time_is_the_only_difference() {
        let (old, slow) = (
            report(with_creel_at(50.0, 1)),
            report(with_creel_at(100.0, 77)),
        );
        let comparison = reports(&old, &slow);
        println!("{}", comparison.text());
        assert!(comparison.mismatches.is_empty() && comparison.is_worse());
        assert_eq!(comparison.compared, 1);
        let [only] = &comparison.differences[..] else {
            panic!("{:?}", comparison.differences);
        };
        assert_eq!(only.what, "loops hot: creel [sticky, adaptive]");
        assert!((0.4..0.6).contains(&only.better), "{only:?}");
    }

    #[test]
    fn equal_runs_do_not_differ() {
        let mut called = 0;
        let trials = 300;
        for seed in 0..trials {
            let runs = [seed, seed + 9000].map(|seed| report(with_creel_at(50.0, seed * 17)));
            called += reports(&runs[0], &runs[1]).differences.len();
        }
        println!("{called} of {trials} ratios called");
        assert!(called <= 2, "{called}");
    }

    /// All times of a case, times a factor of its subject's.
    fn scaled(seed: u64, factor: impl Fn(&str) -> f64) -> Report {
        let mut section = with_creel_at(50.0, seed);
        for row in section.rows.iter_mut().filter(|row| row.unit != "ratio") {
            let times = factor(&row.subject);
            for value in row.samples.iter_mut().chain([&mut row.median]) {
                *value *= times;
            }
        }
        report(section)
    }

    #[test]
    fn a_moved_baseline_is_not_a_difference() {
        let old = report(with_creel_at(50.0, 3));
        let is_creel = |name: &str| name.starts_with("creel");
        let baseline = scaled(5, |name| if is_creel(name) { 1.0 } else { 1.5 });
        let comparison = reports(&old, &baseline);
        assert!(comparison.differences.is_empty());
        assert_eq!(
            comparison.baseline_moved,
            ["loops hot: creel [sticky, adaptive]"]
        );
        let mut less = baseline;
        less.sections[0].rows.retain(|row| !is_creel(&row.subject));
        let text = |new: &Report| reports(&old, new).text();
        assert!(text(&less).contains("not in the new report"));
        let nothing = scaled(5, |name| if is_creel(name) { 0.0 } else { 1.0 });
        assert!(text(&nothing).contains("not in the new report"));
        assert!(!text(&old).contains("not in the new report"));
        let machine = scaled(5, |_| 1.3);
        assert!(reports(&old, &machine).differences.is_empty());
        let both = scaled(5, |name| if is_creel(name) { 2.6 } else { 1.3 });
        assert!(reports(&old, &both).is_worse());
        let masked = scaled(5, |name| if is_creel(name) { 1.4 } else { 0.7 });
        assert!(reports(&old, &masked).is_worse());
    }

    #[test]
    fn changes_below_the_between_process_factor_are_noise() {
        // Samples without any noise.
        let sure = |times: f64| {
            let mut section = with_creel_at(50.0, 1);
            section.noise.clear();
            for row in section.rows.iter_mut().filter(|row| row.unit != "ratio") {
                let is_creel = row.subject.starts_with("creel");
                row.median = if is_creel { 50.0 * times } else { 100.0 };
                row.samples.fill(row.median);
            }
            report(section)
        };
        assert!(reports(&sure(1.0), &sure(1.07)).differences.is_empty());
        assert!(reports(&sure(1.0), &sure(1.2)).is_worse());
    }

    /// As many cases as a full run has, of three kinds of subjects each; `slow` of them have Creel
    /// at twice its time.
    fn many(cases: u64, seed: u64, slow: u64) -> Report {
        let mut all = section();
        all.rows.clear();
        all.noise.clear();
        for case in 0..cases {
            let time = if case < slow { 100.0 } else { 50.0 };
            let name = format!("case {case}");
            let one = with_creel_at(time, seed + 31 * case);
            all.rows.extend(one.rows.into_iter().map(|row| Row {
                case: name.clone(),
                ..row
            }));
            all.noise.extend(one.noise.into_iter().map(|n| Noise {
                case: name.clone(),
                ..n
            }));
        }
        report(all)
    }

    #[test]
    fn equal_full_runs_do_not_differ_and_single_slowdowns_are_detected() {
        let (trials, mut runs, mut missed) = (20, 0, 0);
        for trial in 0..trials {
            let seed = 1_000_000 * trial;
            let old = many(100, seed, 0);
            let same = reports(&old, &many(100, seed + 500_000, 0));
            assert_eq!(same.compared, 100);
            runs += u32::from(!same.differences.is_empty());
            let slow = reports(&old, &many(100, seed + 500_000, 3));
            let called = |case: u64| {
                let what = format!("case {case}: creel");
                slow.differences
                    .iter()
                    .any(|d| d.what.contains(&what) && d.better < 0.7)
            };
            missed += (0..3).filter(|case| !called(*case)).count();
        }
        println!(
            "of {trials} pairs of runs {runs} differ; {missed} of {} slowdowns missed",
            3 * trials
        );
        assert!(runs <= 1, "{runs}");
        assert!(missed <= 3, "{missed}");
    }

    #[test]
    fn mismatched_conditions_are_named() {
        let mut old = report(section());
        old.sections[0].host.caches = "L3 2K".into();
        let mut new = section();
        new.host.cpu = "another".into();
        new.host.commit = "elsewhere".into();
        new.host.caches = "L3 1K".into();
        new.quick = true;
        new.disturbance = Some(crate::clock::Disturbance {
            others: 0.01,
            stolen: 0.2,
        });
        let comparison = reports(&old, &report(new));
        let message = comparison.mismatches.join("\n");
        for part in [
            "processor",
            "length: full, now quick",
            "caches: L3 2K, now L3 1K",
            "21 % of the machine",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert!(comparison.notes.join("\n").contains("now elsewhere"));
    }

    #[test]
    fn apparent_changes_are_sampled_again_with_the_baseline() {
        let (old, slow) = (with_creel_at(50.0, 1), with_creel_at(70.0, 2));
        assert_eq!(inconclusive(&old, &slow.case("hot").unwrap()), [0, 1]);
        assert_eq!(inconclusive(&old, &old.case("hot").unwrap()), [0; 0]);
    }
}
