//! Compares two reports: checks that their conditions match, and finds the differences that exceed
//! the noise of both runs.
//!
//! We do not compare the times of two runs directly, because the speed of the machine drifts
//! between them. Instead, we compare ratios. Each of Creel's subjects is divided by a *baseline*
//! from the same rounds, which is one thread, or the first subject that is not one of Creel's.
//!
//! A baseline can move, too. For example, memory becomes slower if another guest of the same host
//! starts, and a baseline that needs more memory then slows down more than Creel's subjects. We saw
//! ratios of two runs an hour apart differ by up to 1.5 × for this reason, while the times of
//! Creel's subjects stayed the same. Therefore, we report a difference only if the subject's own
//! time moved in the same direction, by at least [`OWN_SHARE_MIN`] of the difference.
//!
//! Two full runs have hundreds of ratios in common. By chance alone, 1 in 20 of them exceeds its 95
//! % error. Therefore, the more ratios we compare, the wider we make the errors
//! ([`bonferroni_factor`]). We follow Holm's rule: we test the clearest difference first, as one of
//! all comparisons, then the next one as one of those that are left, and so on.
//!
//! Source: S. Holm, "A simple sequentially rejective multiple test procedure" (1979).

use creel_console::{Align, Table};

use crate::clock::DISTURBED_SHARE;
use crate::harness::ONE_THREAD;
use crate::report::{CaseView, Report, Section, SubjectView, factor, is_more_better, quantity};
use creel_stats::{Estimate, FACTOR_MIN, Verdict, bonferroni_factor};

/// The part of a change, as a logarithm, that must be due to the subject and not to the baseline.
const OWN_SHARE_MIN: f64 = 0.5;

/// The noise between two processes. Of 20 subjects that we did not change, 19 differed by less than
/// this factor (beyond the error of their samples) when we measured them again in a new process.
/// The reason is that each process gets other memory pages.
const BETWEEN_PROCESS_FACTOR: f64 = 1.08;

/// A change that every useful comparison should detect. We print how many of the comparisons would
/// detect a change by this factor, so that you see how sensitive the whole comparison is.
const DETECTABLE_FACTOR: f64 = 2.0;

/// The result of comparing two reports: the differences, and the conditions that make them more or
/// less certain.
#[derive(Debug, Default)]
pub struct Comparison {
    /// The conditions that differ although they must match, one per line. For example, both runs
    /// must be from the same processor.
    pub mismatches: Vec<String>,
    /// The conditions that differ, but may differ.
    pub notes: Vec<String>,
    /// The number of ratios that were compared.
    pub compared: usize,
    /// The number of comparisons that would have detected a change by [`DETECTABLE_FACTOR`].
    pub detectable: usize,
    /// The subjects that became faster or slower. The one that became slower by most comes first.
    pub differences: Vec<Difference>,
    /// The subjects whose ratio changed only because their baseline became faster or slower.
    pub baseline_moved: Vec<String>,
}

/// A subject that became faster or slower.
#[derive(Debug)]
pub struct Difference {
    /// The names of the workload, the case and the subject.
    pub what: String,
    /// The name of the baseline.
    pub baseline: String,
    /// The subject's old and new median, as printed.
    pub figures: [String; 2],
    /// How many times better the subject became, relative to the baseline. Below one, it became
    /// worse.
    pub better: f64,
}

/// The change of a subject between two reports.
struct Change<'a> {
    /// The change of the subject relative to the baseline.
    ratio: Estimate,
    /// The change of the subject's own median, as a logarithm.
    own: f64,
    baseline: &'a str,
}

/// A change of which we do not know yet whether it is a difference or noise.
struct Candidate {
    difference: Difference,
    change: Estimate,
    /// Whether the subject itself changed, and not only its baseline.
    own: bool,
    /// The noise of the old run, of the new run, and between two processes.
    floors: [f64; 3],
}

/// Compares all cases and subjects that both reports have, and returns the differences that exceed
/// the noise.
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
        // The new report may have only some of the cases of the old one, so we compare the cases of
        // the new report. Within a case, we list the subjects of the old report that are missing in
        // the new one.
        for case in section.cases() {
            // A case whose first metric has changed cannot be compared.
            let old_case = before.case(case.name);
            let Some(old_case) = old_case.filter(|old| old.unit() == case.unit()) else {
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

/// Returns the subjects of a case that need extra samples, because they seem to differ from an old
/// report. Their baseline is one of them.
pub fn inconclusive(old: &Section, case: &CaseView) -> Vec<usize> {
    let old_case = old.case(case.name);
    let Some(old_case) = old_case.filter(|old| old.unit() == case.unit()) else {
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

/// Returns the baseline of a case: one thread, or the first subject of both reports that is not one
/// of Creel's.
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

/// Returns the change of one of Creel's subjects. Returns `None` if the subject is not one of
/// Creel's, if one of the reports lacks it or its baseline, or if a ratio cannot be estimated.
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

/// Returns the changes of a case, including those that are only noise, but without those whose
/// error cannot be estimated.
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

/// Returns the conditions that differ between two sections although they must match before we
/// compare the sections.
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
        for (when, section) in [("the old run of", old), ("the new run of", new)] {
            let disturbance = section.disturbance;
            let share = disturbance.map_or(0.0, |disturbance| disturbance.share());
            if share > DISTURBED_SHARE {
                mismatches.push(format!(
                    "{when} {} was disturbed: others and the host used {:.0} % of the machine",
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
                "both reports are of commit {}, so differences are noise",
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

    /// Adds a note for each subject of the old case that has no counterpart in the new case, or
    /// whose counterpart has no usable samples.
    fn note_missing(&mut self, all: &[Candidate], there: &[Candidate]) {
        let what = |candidate: &Candidate| candidate.difference.what.clone();
        let there: Vec<String> = there.iter().map(what).collect();
        let note_missing = all.iter().map(what).filter(|what| !there.contains(what));
        let note_missing = note_missing.map(|what| format!("{what}: not in the new report"));
        self.notes.extend(note_missing);
    }

    /// Decides which candidates are differences, by Holm's rule (see the head of this file).
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

    /// Returns whether a subject became slower.
    pub fn is_worse(&self) -> bool {
        self.differences
            .iter()
            .any(|difference| difference.better < 1.0)
    }

    /// Formats the comparison for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for note in &self.notes {
            out += &format!("{note}\n");
        }
        if !self.differences.is_empty() {
            let mut table = Table::new(&[
                ("", Align::Left),
                ("old", Align::Right),
                ("new", Align::Right),
                ("baseline", Align::Left),
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
            out += "to see whether a difference is real, measure its case again with --case NAME\n";
        }
        if !self.baseline_moved.is_empty() {
            let names = self.baseline_moved.join("; ");
            out += &format!("inconclusive, because only the baseline changed: {names}\n");
        }
        let (compared, detectable) = (self.compared, self.detectable);
        out += &match self.differences.len() {
            0 => format!("{compared} ratios compared, no difference"),
            count => format!("{compared} ratios compared, {count} differ"),
        };
        out += &format!(
            "; a change by {DETECTABLE_FACTOR} × would be detected in {detectable} of them\n"
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
    fn a_doubled_time_is_reported_as_the_only_difference() {
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

    /// Returns a report in which the times of each subject are multiplied by a factor.
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
        // The samples of this report are all equal, so there is no noise.
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

    /// Returns a report with as many cases as a full run has. In the first `slow` of them, Creel
    /// takes twice its time.
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
    fn conditions_that_differ_between_two_reports_are_named() {
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
