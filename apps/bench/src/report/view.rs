//! Views of a report's cases: the subjects of a case with their ratios and verdicts.
//!
//! A view is made from the rows. This is why a report that we read from JSON looks like a new one.

use super::Section;
use super::rows::Row;
use crate::costs;
use crate::harness::ONE_THREAD;
use crate::sweep;
use creel_stats::{Estimate, Verdict};

/// A case with its subjects, put together from the rows of a report.
#[derive(Debug)]
pub struct CaseView<'a> {
    /// The name of the case.
    pub name: &'a str,
    /// The subjects. The recommended one is the first.
    pub subjects: Vec<SubjectView<'a>>,
    /// The noise floor of the case: how far noise alone moves a ratio from one, as a logarithm. It
    /// is `None` without an A/A control.
    pub floor: Option<f64>,
    /// Whether the case has ratios.
    pub is_compared: bool,
}

/// A subject of a case, with the rows that belong to it.
#[derive(Debug)]
pub struct SubjectView<'a> {
    /// The name of the subject.
    pub name: &'a str,
    /// The main metric of the subject, which is its time or its speed.
    pub first: &'a Row,
    /// All metrics except for the time or the speed.
    pub others: Vec<&'a Row>,
    /// The geometric means of all metrics, in the order of the metrics.
    pub means: Vec<&'a Row>,
    /// The costs in the order of [`costs::METRICS`]. Old reports have none.
    pub costs: Vec<&'a Row>,
}

impl Section {
    /// Returns the cases of the section in the order in which they were measured.
    pub fn cases(&self) -> Vec<CaseView<'_>> {
        let mut cases: Vec<CaseView> = Vec::new();
        for row in &self.rows {
            if cases.last().is_none_or(|case| case.name != row.case) {
                let noise = self.noise.iter().find(|noise| noise.case == row.case);
                cases.push(CaseView {
                    name: &row.case,
                    subjects: Vec::new(),
                    floor: noise.map(|noise| noise.floor.ln()),
                    is_compared: false,
                });
            }
            let Some(case) = cases.last_mut() else {
                continue;
            };
            case.take(row);
        }
        cases
    }

    /// Returns the case with this name.
    pub fn case(&self, name: &str) -> Option<CaseView<'_>> {
        self.cases().into_iter().find(|case| case.name == name)
    }
}

impl<'a> CaseView<'a> {
    fn take(&mut self, row: &'a Row) {
        self.is_compared |= row.unit == "ratio";
        let last = self.subjects.last_mut();
        match last.filter(|subject| subject.name == row.subject) {
            None => self.subjects.push(SubjectView {
                name: &row.subject,
                first: row,
                others: Vec::new(),
                means: Vec::new(),
                costs: Vec::new(),
            }),
            Some(_) if row.unit == "ratio" => {}
            Some(subject) if row.metric.ends_with(", geometric mean") => subject.means.push(row),
            Some(subject) if costs::METRICS.iter().any(|cost| cost.name == row.metric) => {
                subject.costs.push(row);
            }
            Some(subject) => subject.others.push(row),
        }
    }

    /// Returns the unit of the time or the speed.
    pub fn unit(&self) -> &'a str {
        self.subjects
            .first()
            .map_or("", |subject| &subject.first.unit)
    }

    /// Returns the recommended subject.
    pub fn recommended(&self) -> Option<&SubjectView<'a>> {
        self.subjects.first()
    }

    /// Returns the subject `one thread` that does the same amount of work as this subject.
    pub fn one_thread_for(&self, subject: &SubjectView) -> Option<&SubjectView<'a>> {
        self.counterpart(subject, ONE_THREAD)
    }

    /// Returns the recommended subject that does the same amount of work as this subject.
    pub fn recommended_for(&self, subject: &SubjectView) -> Option<&SubjectView<'a>> {
        self.counterpart(subject, self.recommended()?.name)
    }

    fn counterpart(&self, subject: &SubjectView, name: &str) -> Option<&SubjectView<'a>> {
        let name = sweep::counterpart(subject.name, name);
        self.subjects.iter().find(|other| other.name == name)
    }

    /// Returns the subject with the best median among those for whose names `wanted` returns true.
    pub fn best(&self, wanted: impl Fn(&str) -> bool) -> Option<&SubjectView<'a>> {
        let more_is_better = is_more_better(self.unit());
        let good = |subject: &SubjectView| match more_is_better {
            true => subject.first.median,
            false => -subject.first.median,
        };
        let subjects = self.subjects.iter();
        let known = subjects.filter(|s| wanted(s.name) && !s.first.median.is_nan());
        known.max_by(|a, b| good(a).total_cmp(&good(b)))
    }

    /// Returns the first subject whose name begins with `name`.
    pub fn subject(&self, name: &str) -> Option<&SubjectView<'a>> {
        let mut subjects = self.subjects.iter();
        subjects.find(|subject| subject.name.starts_with(name))
    }

    /// Returns the ratio of two subjects, taken round by round.
    pub fn ratio(&self, of: &SubjectView, over: &SubjectView) -> Option<Estimate> {
        let pairs = of.first.samples.iter().zip(&over.first.samples);
        Estimate::of(pairs.map(|(value, base)| value / base))
    }

    /// Returns whether a ratio is a difference, given the noise of the case.
    pub fn verdict(&self, ratio: &Estimate) -> Verdict {
        ratio.verdict(&[self.floor.unwrap_or(0.0)])
    }

    /// Returns whether a ratio that is not a difference shows that two subjects are the same.
    pub fn is_equivalent(&self, ratio: &Estimate) -> bool {
        ratio.is_equivalent(&[self.floor.unwrap_or(0.0)])
    }

    /// Returns how many times better one subject is than another. Above one, it is better, whether
    /// the unit is that of a time or of a speed.
    pub fn better(&self, one: &SubjectView, than: &SubjectView) -> Option<Estimate> {
        if is_more_better(self.unit()) {
            self.ratio(one, than)
        } else {
            self.ratio(than, one)
        }
    }
}

/// Returns whether larger values of a unit are better. This is true for speeds, which are per
/// second, and for gains, whose unit is `times`. Everything else is a time or a cost.
pub fn is_more_better(unit: &str) -> bool {
    unit.ends_with("/s") || unit == "times"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::section;

    #[test]
    fn a_view_has_the_subjects_and_verdicts_of_its_rows() {
        let section = section();
        let case = section.case("hot").unwrap();
        let names: Vec<&str> = case.subjects.iter().map(|subject| subject.name).collect();
        assert_eq!(names, ["creel [sticky, adaptive]", "one thread", "rayon"]);
        let (creel, one) = (
            &case.subjects[0],
            case.one_thread_for(&case.subjects[0]).unwrap(),
        );
        let better = case.better(creel, one).unwrap();
        assert!((1.8..2.2).contains(&better.factor()), "{better:?}");
        assert_eq!(case.verdict(&better), Verdict::More);
        assert!(case.is_compared && case.unit() == "ns a call");
        assert_eq!((creel.others.len(), creel.costs.len()), (0, 5));
    }
}
