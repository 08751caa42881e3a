//! A report's cases as people look at them: subjects beside each other, with what is called of
//! their differences. Made of rows, so that a report that was read back is shown alike.

use super::Section;
use super::rows::Row;
use crate::costs;
use crate::harness::ONE_THREAD;
use crate::sweep;
use creel_stats::{Estimate, Verdict};

/// A case and its subjects.
#[derive(Debug)]
pub struct CaseView<'a> {
    /// Its name.
    pub name: &'a str,
    /// The recommended first.
    pub subjects: Vec<SubjectView<'a>>,
    /// How far from one noise alone reaches, as a logarithm; nothing where it is not known.
    pub floor: Option<f64>,
    /// Whether ratios say something.
    pub is_compared: bool,
}

/// A subject in a case.
#[derive(Debug)]
pub struct SubjectView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its time or speed.
    pub first: &'a Row,
    /// Its other metrics.
    pub others: Vec<&'a Row>,
    /// The metrics' geometric means, the first one's first.
    pub means: Vec<&'a Row>,
    /// By [`costs::METRICS`]; none in old reports.
    pub costs: Vec<&'a Row>,
}

impl Section {
    /// The section's cases in their order.
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

    /// The case of this name.
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

    /// The unit of its time or speed.
    pub fn unit(&self) -> &'a str {
        self.subjects
            .first()
            .map_or("", |subject| &subject.first.unit)
    }

    /// The subject that is recommended.
    pub fn recommended(&self) -> Option<&SubjectView<'a>> {
        self.subjects.first()
    }

    /// One thread, where it is a subject, doing as much as this one.
    pub fn one_thread_for(&self, subject: &SubjectView) -> Option<&SubjectView<'a>> {
        self.counterpart(subject, ONE_THREAD)
    }

    /// The recommended subject, doing as much as this one.
    pub fn recommended_for(&self, subject: &SubjectView) -> Option<&SubjectView<'a>> {
        self.counterpart(subject, self.recommended()?.name)
    }

    fn counterpart(&self, subject: &SubjectView, name: &str) -> Option<&SubjectView<'a>> {
        let name = sweep::counterpart(subject.name, name);
        self.subjects.iter().find(|other| other.name == name)
    }

    /// The best of those that are wanted by name, by their medians.
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

    /// The first subject whose name begins so.
    pub fn subject(&self, name: &str) -> Option<&SubjectView<'a>> {
        let mut subjects = self.subjects.iter();
        subjects.find(|subject| subject.name.starts_with(name))
    }

    /// What one subject's figure is of another's, round by round.
    pub fn ratio(&self, of: &SubjectView, over: &SubjectView) -> Option<Estimate> {
        let pairs = of.first.samples.iter().zip(&over.first.samples);
        Estimate::of(pairs.map(|(value, base)| value / base))
    }

    /// What is called of a ratio here.
    pub fn verdict(&self, ratio: &Estimate) -> Verdict {
        ratio.verdict(&[self.floor.unwrap_or(0.0)])
    }

    /// Whether what is not called a difference can be called the same.
    pub fn is_equivalent(&self, ratio: &Estimate) -> bool {
        ratio.is_equivalent(&[self.floor.unwrap_or(0.0)])
    }

    /// How much better the one is than the other, whether more or less is better here; above one
    /// is better.
    pub fn better(&self, one: &SubjectView, than: &SubjectView) -> Option<Estimate> {
        if is_more_better(self.unit()) {
            self.ratio(one, than)
        } else {
            self.ratio(than, one)
        }
    }
}

/// Speeds are per second, gains are times; everything else is a time or a cost.
pub fn is_more_better(unit: &str) -> bool {
    unit.ends_with("/s") || unit == "times"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::section;

    #[test]
    fn views_match_their_rows() {
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
