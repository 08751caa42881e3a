//! Findings: sentences about the results of a run, and the settings that they suggest.
//!
//! A [`Question`] names two subjects of a case, and has three sentences for the three possible
//! answers. We skip a question if one of its subjects was not measured. If the measurement cannot
//! decide, the finding says that it is inconclusive.

use super::quantity::factor;
use super::view::{CaseView, SubjectView, is_more_better};
use super::{Report, Section};
use crate::clock::DISTURBED_SHARE;
use crate::harness::ONE_THREAD;
use crate::sweep::Point;
use creel_stats::Verdict;

/// Asks how much better `subject` is than `than`.
///
/// In the sentences, `{x}` stands for the factor, `{n}` for the number of workers, `{case}` for the
/// case and `{peer}` for the second subject.
struct Question {
    workload: &'static str,
    /// The name of the case, or [`EACH_CASE`].
    case: &'static str,
    /// The beginning of the subject's name. The first subject with this beginning is used.
    subject: &'static str,
    /// The beginning of the other subject's name, or [`BEST_PEER`].
    than: &'static str,
    better: &'static str,
    same: &'static str,
    worse: &'static str,
}

/// A subject with this name stands for the best subject of the case, except Creel's own, `one
/// thread` and the floor.
const BEST_PEER: &str = "";
/// A case with this name stands for every case of the workload that has at least two subjects.
const EACH_CASE: &str = "";

const QUESTIONS: &[Question] = &[
    Question {
        workload: "loops",
        case: "hot",
        subject: "creel",
        than: ONE_THREAD,
        better: "A hot loop over 100,000 items is {x} × faster on {n} workers than on one thread.",
        same: "A hot loop over 100,000 items is as fast on one thread as on {n} workers.",
        worse: "A hot loop over 100,000 items is {x} × slower on {n} workers: use one thread.",
    },
    Question {
        workload: "loops",
        case: "frame",
        subject: "creel [sticky, adaptive]",
        than: "creel [unpinned]",
        better: "Pinned workers run a frame loop {x} × faster.",
        same: "Pinned workers run a frame loop as fast as unpinned ones.",
        worse: "Pinned workers run a frame loop {x} × slower: leave workers unpinned.",
    },
    Question {
        workload: "loops",
        case: "oversubscribed",
        subject: "creel [sticky, adaptive]",
        than: "creel [sticky, adaptive] ",
        better: "An oversubscribed pool is {x} × faster than one with {n} workers.",
        same: "An oversubscribed pool is as fast as one with {n} workers.",
        worse: "An oversubscribed pool is {x} × slower than one with {n} workers.",
    },
    Question {
        workload: "loops",
        case: "hog",
        subject: "creel",
        than: ONE_THREAD,
        better: "Next to a program that spins, {n} workers are {x} × faster than one thread.",
        same: "Next to a program that spins, {n} workers are as fast as one thread.",
        worse: "Next to a program that spins, {n} workers are {x} × slower than one thread.",
    },
    Question {
        workload: "loops",
        case: "frame",
        subject: "creel",
        than: BEST_PEER,
        better: "A frame of 200 µs is {x} × faster than with {peer}, the best peer.",
        same: "A frame of 200 µs is as fast as with {peer}, the best peer.",
        worse: "A frame of 200 µs is {x} × slower than with {peer}, the best peer.",
    },
    Question {
        workload: "render",
        case: "jobs {n}",
        subject: "creel [shared, park]",
        than: ONE_THREAD,
        better: "{n} jobs render {x} × faster than one thread.",
        same: "{n} jobs render as fast as one thread.",
        worse: "{n} jobs render {x} × slower than one thread.",
    },
    Question {
        workload: "render",
        case: "jobs {n}",
        subject: "creel [shared, park]",
        than: "rayon",
        better: "{n} jobs render {x} × faster than with rayon.",
        same: "{n} jobs render as fast as with rayon.",
        worse: "{n} jobs render {x} × slower than with rayon.",
    },
    Question {
        workload: "messages",
        case: "chain",
        subject: "creel {n} workers",
        than: "creel 1 workers",
        better: "{n} workers pass messages {x} × faster than one.",
        same: "{n} workers pass messages as fast as one.",
        worse: "{n} workers pass messages {x} × slower than one: use one worker for such tasks.",
    },
    Question {
        workload: "messages",
        case: "chain",
        subject: "creel {n} workers",
        than: BEST_PEER,
        better: "A chain of tasks is {x} × faster than on {peer}, the best peer.",
        same: "A chain of tasks is as fast as on {peer}, the best peer.",
        worse: "A chain of tasks is {x} × slower than on {peer}, the best peer.",
    },
    Question {
        workload: "streams",
        case: "4000",
        subject: "creel [in place, 2 ms]",
        than: "tokio",
        better: "On {peer}, a timed stream needs {x} × as much CPU time.",
        same: "A timed stream needs as much CPU time as on {peer}.",
        worse: "A timed stream needs {x} × as much CPU time as on {peer}.",
    },
    Question {
        workload: "serve",
        case: "50",
        subject: "creel",
        than: "tokio",
        better: "On {peer}, an HTTP request needs {x} × as much CPU time.",
        same: "An HTTP request needs as much CPU time as on {peer}.",
        worse: "An HTTP request needs {x} × as much CPU time as on {peer}.",
    },
    Question {
        workload: "traffic",
        case: "run",
        subject: "creel",
        than: ONE_THREAD,
        better: "{n} workers simulate a city's cars {x} × faster than one thread.",
        same: "{n} workers simulate a city's cars as fast as one thread.",
        worse: "{n} workers simulate a city's cars {x} × slower than one thread.",
    },
    Question {
        workload: "decode",
        case: "q8 1024",
        subject: "creel",
        than: ONE_THREAD,
        better: "Token by token, {n} workers are {x} × faster than one thread.",
        same: "Token by token, {n} workers are as fast as one thread.",
        worse: "Token by token, {n} workers are {x} × slower than one thread: use one worker.",
    },
    Question {
        workload: "decode",
        case: "q8 1024",
        subject: "creel",
        than: "rayon",
        better: "Token by token, Creel is {x} × faster than rayon.",
        same: "Token by token, Creel is as fast as rayon.",
        worse: "Token by token, Creel is {x} × slower than rayon.",
    },
    Question {
        workload: "sizing",
        case: EACH_CASE,
        subject: "creel run",
        than: "as it is",
        better: "{case}: {x} × faster under `creel run`.",
        same: "{case}: as fast under `creel run` as without.",
        worse: "{case}: {x} × slower under `creel run`.",
    },
];

/// Returns sentences that describe the run: its machine, its conditions and its noise.
pub fn about(report: &Report) -> Vec<String> {
    let Some(first) = report.sections.first() else {
        return Vec::new();
    };
    let pace = if first.quick {
        "Short samples, few rounds."
    } else {
        "Samples and rounds at full length."
    };
    let mut lines = vec![
        format!("{}: {}.", first.host.date, first.host.line()),
        format!("{pace} {} workers.", first.workers),
    ];
    if let Some(floor) = report.noise_floor() {
        lines.push(format!(
            "Noise: {}. We report a difference only if it exceeds 5 %, its own error and the noise \
             of its case.",
            super::noise_in_words(report, floor)
        ));
    }
    lines.extend(disturbance(report));
    lines
}

/// Warns about workloads that were disturbed, because other programs or the host used a noteworthy
/// part of the machine.
pub fn disturbance(report: &Report) -> Option<String> {
    let noteworthy = report.sections.iter().filter_map(|section| {
        let (others, host) = section.disturbance?.noteworthy()?;
        Some(format!("{} ({others} % and {host} %)", section.workload))
    });
    let noteworthy: Vec<String> = noteworthy.collect();
    (!noteworthy.is_empty()).then(|| {
        format!(
            "Other programs and the host of the virtual machine used a part of the CPU time during \
             {}. Repeat these workloads when the machine is quiet.",
            noteworthy.join(", ")
        )
    })
}

/// Returns the findings of a workload. A sweep has none, because its own summary follows its table.
pub fn of(section: &Section) -> Vec<String> {
    if section
        .rows
        .iter()
        .any(|row| Point::of(&row.subject).is_some())
    {
        return Vec::new();
    }
    let asked = QUESTIONS.iter().filter(|q| q.workload == section.workload);
    let mut answers: Vec<String> = asked.flat_map(|q| q.answers(section)).collect();
    let disturbance = section.disturbance.filter(|d| d.share() > DISTURBED_SHARE);
    if !answers.is_empty() && disturbance.is_some() {
        answers.push("The machine was not quiet, so treat these results as hints.".into());
    }
    answers
}

impl Question {
    fn answers(&self, section: &Section) -> Vec<String> {
        let cases = section.cases();
        let wanted = self.case.replace("{n}", &section.workers.to_string());
        let cases = cases.iter().filter(|case| {
            self.case == EACH_CASE && case.subjects.len() > 1 || case.name == wanted
        });
        cases
            .filter_map(|case| self.answer(section, case))
            .collect()
    }

    fn answer(&self, section: &Section, case: &CaseView) -> Option<String> {
        let fill = |text: &str| {
            let text = text.replace("{n}", &section.workers.to_string());
            text.replace("{case}", case.name)
        };
        let subject = case.subject(&fill(self.subject))?;
        let than = match &*fill(self.than) {
            BEST_PEER => best_peer(case)?,
            name => case.subject(name)?,
        };
        // The first metric of `serve` was the speed in older reports, but the sentences are about CPU
        // time.
        if self.workload == "serve" && is_more_better(case.unit()) {
            return None;
        }
        let better = case.better(subject, than)?;
        if subject.name == than.name || better.half_width.is_infinite() {
            return None;
        }
        let (sentence, x) = match case.verdict(&better) {
            Verdict::Same if !case.is_equivalent(&better) => {
                let (from, to) = better.interval();
                return Some(format!(
                    "{}: {} compared with {} is inconclusive: between {} and {} × as good.",
                    case.name,
                    subject.name,
                    than.name,
                    factor(from),
                    factor(to)
                ));
            }
            Verdict::Same => (self.same, 1.0),
            Verdict::More => (self.better, better.factor()),
            Verdict::Less => (self.worse, 1.0 / better.factor()),
        };
        let sentence = fill(sentence).replace("{x}", &factor_with_interval(x, better.half_width));
        Some(sentence.replace("{peer}", than.name))
    }
}

/// Formats a factor. Adds its interval if the factor is above 1 and the interval is wide. A narrow
/// interval would only make the sentence longer.
fn factor_with_interval(x: f64, half_width: f64) -> String {
    /// An interval is wide if one of its ends differs from the factor by more than this ratio.
    const WIDE: f64 = 1.1;
    if x > 1.0 && half_width > WIDE.ln() {
        let (from, to) = (x / half_width.exp(), x * half_width.exp());
        format!("{} ({} to {})", factor(x), factor(from), factor(to))
    } else {
        factor(x)
    }
}

/// Returns the workloads and cases that there are questions about.
#[cfg(test)]
pub fn asked(setting: &crate::setting::Setting) -> Vec<(&'static str, String)> {
    let fill = |case: &str| case.replace("{n}", &setting.workers.to_string());
    let asked = QUESTIONS.iter().filter(|asked| asked.case != EACH_CASE);
    asked
        .map(|asked| (asked.workload, fill(asked.case)))
        .collect()
}

/// Returns the best subject, except Creel's own, `one thread` and the floor (the least time,
/// reached by a loop written by hand).
pub fn best_peer<'a, 'b>(case: &'b CaseView<'a>) -> Option<&'b SubjectView<'a>> {
    const NONE: [&str; 3] = ["creel", ONE_THREAD, "two-halves floor"];
    case.best(|name| NONE.iter().all(|none| !name.starts_with(none)))
}

/// Returns the settings that suit a workload, as Rust and as a command line.
pub fn settings(section: &Section) -> Option<(String, String)> {
    let n = section.workers;
    let knobs = section.cases().first().and_then(best_knobs);
    let (balance, wait) = knobs.unwrap_or(("sticky", "adaptive"));
    let (rust_balance, rust_wait) = (capital(balance), capital(wait));
    let builder = |knobs: &[String]| {
        let lines = knobs.iter().map(|knob| format!("    .{knob}\n"));
        let lines: String = lines.collect();
        format!("Pool::builder()\n    .workers({n})\n{lines}    .build()?")
    };
    let setting = match &*section.workload {
        "loops" | "decode" | "programs" | "traffic" => (
            builder(&[
                "placement(Placement::Cores)".into(),
                format!("balance(Balance::{rust_balance})"),
                format!("wait(Wait::{rust_wait})"),
            ]),
            match &*section.workload {
                "traffic" => format!(
                    "creel-traffic run --city 200x200 --cars 100000 --seconds 600 --jobs {n} \
                     --placement cores --balance {balance} --wait {wait}"
                ),
                _ => String::new(),
            },
        ),
        "render" => (
            builder(&["balance(Balance::Shared)".into(), "wait(Wait::Park)".into()]),
            format!("creel-vgm render --jobs {n} SONGS… -o DIR"),
        ),
        "messages" => (builder(&[]), String::new()),
        "streams" => (
            "Pool::builder()\n    .workers(1)\n    .wait(Wait::Throttle(Duration::from_millis(2)))\n    \
             .build()?"
                .into(),
            "creel-cast standalone --wait 2ms --streams 4000".into(),
        ),
        "serve" => (
            format!("{}\ncreel_hyper::serve(listener, service).until(stop)", builder(&[])),
            String::new(),
        ),
        "sizing" => (String::new(), "creel run -- PROGRAM".into()),
        _ => return None,
    };
    Some(setting)
}

/// Returns the balance and the wait of Creel's fastest subject in a case, or those of the first
/// subject if none is faster.
fn best_knobs<'a>(case: &CaseView<'a>) -> Option<(&'a str, &'a str)> {
    let first = case.recommended()?;
    let ahead = |subject: &SubjectView<'a>| {
        let better = case.better(subject, first)?;
        let known = knobs(subject.name)?;
        (case.verdict(&better) == Verdict::More).then_some((better.log, known))
    };
    let ahead = case.subjects.iter().filter_map(ahead);
    let best = ahead.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map_or_else(|| knobs(first.name), |(_, known)| Some(known))
}

/// Parses a name such as `creel [sticky, adaptive]`. Returns `None` for other settings, such as a
/// spin of a given length, because we have no code to print for them.
fn knobs(name: &str) -> Option<(&str, &str)> {
    let inside = name.strip_prefix("creel [")?.strip_suffix(']')?;
    let (balance, wait) = inside.split_once(", ")?;
    let known =
        ["sticky", "shared", "fixed"].contains(&balance) && ["adaptive", "park"].contains(&wait);
    known.then_some((balance, wait))
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{section, with_creel_at};

    #[test]
    fn findings_are_sentences_with_a_factor() {
        let findings = of(&section());
        println!("{findings:?}");
        assert!(
            findings[0].ends_with(" × faster on 2 workers than on one thread."),
            "{findings:?}"
        );
        let slower = of(&with_creel_at(300.0, 5));
        assert!(slower[0].contains("use one thread"), "{slower:?}");
        let same = of(&with_creel_at(100.0, 5));
        assert!(same[0].contains("as fast on one thread"), "{same:?}");
    }

    #[test]
    fn settings_are_printed_as_code_and_command() {
        let (rust, command) = settings(&section()).unwrap();
        assert!(
            rust.contains(".balance(Balance::Sticky)\n    .wait(Wait::Adaptive)\n"),
            "{rust}"
        );
        assert!(command.is_empty(), "a loop is not a program: {command}");
        assert_eq!(knobs("creel [fixed, spin 5 ms]"), None);
    }

    #[test]
    fn uncertain_factors_are_printed_with_their_interval() {
        assert_eq!(factor_with_interval(2.0, 0.05), "2.00");
        assert_eq!(factor_with_interval(2.0, 2f64.ln()), "2.00 (1.00 to 4.00)");
    }
}
