//! What a run found out, in sentences; and which settings it recommends.
//!
//! A question names two subjects of a case and the three sentences that answer it. A question whose
//! subjects were not measured is not asked, and one whose answer is not sure says so.

use super::quantity::factor;
use super::view::{CaseView, SubjectView};
use super::{Report, Section};
use crate::clock::DISTURBED_SHARE;
use crate::harness::ONE_THREAD;
use crate::sweep::Point;
use creel_stats::Verdict;

/// How much better is `subject` than `than`? `{x}` is the factor, `{n}` the number of workers,
/// `{case}` the case.
struct Question {
    workload: &'static str,
    /// Its name, or [`EACH_CASE`].
    case: &'static str,
    /// The beginning of the subject's name; the first that has it.
    subject: &'static str,
    /// The same; `""` for the best of those that are not Creel's.
    than: &'static str,
    better: &'static str,
    same: &'static str,
    worse: &'static str,
}

const BEST_PEER: &str = "";
const EACH_CASE: &str = "";

const QUESTIONS: &[Question] = &[
    Question {
        workload: "loops",
        case: "hot",
        subject: "creel",
        than: ONE_THREAD,
        better: "Sharing a hot loop of 100,000 items over {n} workers pays {x} ×.",
        same: "Sharing a hot loop of 100,000 items pays nothing here that this run tells.",
        worse: "A hot loop of 100,000 items is best left on one thread here: sharing costs {x} ×.",
    },
    Question {
        workload: "loops",
        case: "frame",
        subject: "creel [sticky, adaptive]",
        than: "creel [unpinned]",
        better: "Pinning pays {x} × in a frame loop.",
        same: "Pinning makes no difference to a frame loop that this run tells.",
        worse: "Pinning costs {x} × in a frame loop here: leave workers unpinned.",
    },
    Question {
        workload: "loops",
        case: "oversubscribed",
        subject: "creel [sticky, adaptive]",
        than: "creel [sticky, adaptive] ",
        better: "More than {n} workers pay {x} × here.",
        same: "More than {n} workers do not pay, and do not cost.",
        worse: "More than {n} workers cost {x} ×.",
    },
    Question {
        workload: "loops",
        case: "hog",
        subject: "creel",
        than: ONE_THREAD,
        better: "Beside a program that spins on one of the cores it is still {x} × one thread.",
        same: "Beside a program that spins on one of the cores it keeps one thread's speed.",
        worse: "Beside a program that spins on one of the cores it loses {x} × to one thread.",
    },
    Question {
        workload: "loops",
        case: "frame",
        subject: "creel",
        than: BEST_PEER,
        better: "A frame of 200 µs is done {x} × faster than by {peer}, the next best.",
        same: "A frame of 200 µs takes what it takes {peer}.",
        worse: "A frame of 200 µs is done {x} × faster by {peer}.",
    },
    Question {
        workload: "render",
        case: "jobs {n}",
        subject: "creel [shared, park]",
        than: ONE_THREAD,
        better: "{n} jobs render {x} × as fast as one.",
        same: "{n} jobs render no faster than one here.",
        worse: "{n} jobs render {x} × slower than one here.",
    },
    Question {
        workload: "render",
        case: "jobs {n}",
        subject: "creel [shared, park]",
        than: "rayon",
        better: "That is {x} × rayon's speed.",
        same: "rayon is as fast.",
        worse: "rayon is {x} × as fast.",
    },
    Question {
        workload: "messages",
        case: "chain",
        subject: "creel {n} workers",
        than: "creel 1 workers",
        better: "{n} workers pass a message on {x} × faster than one.",
        same: "Tasks that only talk gain nothing from more than one worker, and lose nothing.",
        worse: "Tasks that only talk cost {x} × with {n} workers: give them one.",
    },
    Question {
        workload: "messages",
        case: "chain",
        subject: "creel {n} workers",
        than: BEST_PEER,
        better: "A chain of tasks is {x} × faster than on the next best, {peer}.",
        same: "A chain of tasks takes what it takes on {peer}.",
        worse: "A chain of tasks is {x} × faster on {peer}.",
    },
    Question {
        workload: "streams",
        case: "4000",
        subject: "creel",
        than: "tokio",
        better: "A core carries {x} × as many timed streams as on {peer}.",
        same: "A core carries as many timed streams as on {peer}.",
        worse: "A core carries {x} × as many timed streams on {peer}.",
    },
    Question {
        workload: "serve",
        case: "50",
        subject: "creel",
        than: "tokio",
        better: "An HTTP server answers {x} × as many requests as on {peer}.",
        same: "An HTTP server answers as many requests as on {peer}.",
        worse: "An HTTP server answers {x} × as many requests on {peer}.",
    },
    Question {
        workload: "traffic",
        case: "run",
        subject: "creel",
        than: ONE_THREAD,
        better: "{n} workers drive a city's cars {x} × as fast as one thread.",
        same: "{n} workers drive a city's cars no faster than one thread: memory is the limit.",
        worse: "{n} workers drive a city's cars {x} × slower than one thread.",
    },
    Question {
        workload: "decode",
        case: "q8 1024",
        subject: "creel",
        than: ONE_THREAD,
        better: "Token by token, {n} workers are {x} × one thread.",
        same: "Token by token, {n} workers are no faster than one thread.",
        worse: "Token by token, {n} workers are {x} × slower than one thread: give it one.",
    },
    Question {
        workload: "decode",
        case: "q8 1024",
        subject: "creel",
        than: "rayon",
        better: "That is {x} × as many tokens as on rayon.",
        same: "That is as many tokens as on rayon.",
        worse: "rayon makes {x} × as many tokens.",
    },
    Question {
        workload: "sizing",
        case: EACH_CASE,
        subject: "creel run",
        than: "as it is",
        better: "{case}: {x} × better under “creel run”.",
        same: "{case}: “creel run” brings nothing.",
        worse: "{case}: {x} × worse under “creel run”.",
    },
];

/// What the run is: its machine, its conditions, its noise.
pub fn about(report: &Report) -> Vec<String> {
    let Some(first) = report.sections.first() else {
        return Vec::new();
    };
    let pace = if first.quick {
        "A quick look: short samples, few rounds."
    } else {
        "A full run."
    };
    let mut lines = vec![
        format!("{}: {}.", first.host.date, first.host.line()),
        format!("{pace} {} workers.", first.workers),
    ];
    if let Some(floor) = report.noise_floor() {
        lines.push(format!(
            "Noise: {}. A difference is called one only beyond 5 % and beyond the error of both \
             sides.",
            super::noise_in_words(report, floor)
        ));
    }
    lines.extend(disturbance(report));
    lines
}

/// What others took of the machine, where it is enough to doubt the figures.
pub fn disturbance(report: &Report) -> Option<String> {
    let noteworthy = report.sections.iter().filter_map(|section| {
        let (others, host) = section.disturbance?.noteworthy()?;
        Some(format!("{} {others} and {host} %", section.workload))
    });
    let noteworthy: Vec<String> = noteworthy.collect();
    (!noteworthy.is_empty()).then(|| {
        format!(
            "Of the machine, others used and its host took meanwhile: {}. Repeat these when it is \
             quiet.",
            noteworthy.join(", ")
        )
    })
}

/// A workload's findings: none of a sweep, whose lines say from where on what pays.
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
        answers.push("The machine was not quiet: these are hints.".into());
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
        let better = case.better(subject, than)?;
        if subject.name == than.name || better.half_width.is_infinite() {
            return None;
        }
        let (sentence, x) = match case.verdict(&better) {
            Verdict::Same if !case.is_equivalent(&better) => {
                let (from, to) = better.interval();
                return Some(format!(
                    "{}: {} against {} is inconclusive: between {} and {} × as good.",
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

/// A factor, and where it is not sure, from where to where it may be.
fn factor_with_interval(x: f64, half_width: f64) -> String {
    /// Beyond this to either side: a tenth of it or more.
    const WIDE: f64 = 1.1;
    if x > 1.0 && half_width > WIDE.ln() {
        let (from, to) = (x / half_width.exp(), x * half_width.exp());
        format!("{} ({} to {})", factor(x), factor(from), factor(to))
    } else {
        factor(x)
    }
}

/// The cases that there are questions about, each with its workload.
#[cfg(test)]
pub fn asked(setting: &crate::setting::Setting) -> Vec<(&'static str, String)> {
    let fill = |case: &str| case.replace("{n}", &setting.workers.to_string());
    let asked = QUESTIONS.iter().filter(|asked| asked.case != EACH_CASE);
    asked
        .map(|asked| (asked.workload, fill(asked.case)))
        .collect()
}

/// Of those that are neither Creel's nor one thread nor a floor written by hand, the best.
pub fn best_peer<'a, 'b>(case: &'b CaseView<'a>) -> Option<&'b SubjectView<'a>> {
    const NONE: [&str; 3] = ["creel", ONE_THREAD, "two-halves floor"];
    case.best(|name| NONE.iter().all(|none| !name.starts_with(none)))
}

/// A workload's recommended setting: as Rust and as a command line.
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

/// Balance and wait of Creel's fastest subject in a case, if it is faster than the first.
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

/// `creel [sticky, adaptive]`; spins of a length have no short name.
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
        assert!(findings[0].starts_with("Sharing a hot loop of 100,000 items over 2 workers pays"));
        let slower = of(&with_creel_at(300.0, 5));
        assert!(slower[0].contains("best left on one thread"), "{slower:?}");
        let same = of(&with_creel_at(100.0, 5));
        assert!(same[0].contains("pays nothing"), "{same:?}");
    }

    #[test]
    fn settings_are_printed_as_code_and_command() {
        let (rust, command) = settings(&section()).unwrap();
        assert!(
            rust.contains(".balance(Balance::Sticky)\n    .wait(Wait::Adaptive)\n"),
            "{rust}"
        );
        assert!(command.is_empty(), "a loop is no program: {command}");
        assert_eq!(knobs("creel [fixed, spin 5 ms]"), None);
    }

    #[test]
    fn uncertain_factors_are_printed_with_their_interval() {
        assert_eq!(factor_with_interval(2.0, 0.05), "2.00");
        assert_eq!(factor_with_interval(2.0, 2f64.ln()), "2.00 (1.00 to 4.00)");
    }
}
