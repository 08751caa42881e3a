//! For each runtime: what it sees by itself, and which knob turns its number of threads.
//!
//! The facts were measured by asking the runtimes under masks, quotas and parents' quotas;
//! docs/sizing.md holds the table. A rule here sets nothing that a runtime gets right alone, and
//! nothing that could make a program fail which runs without it.

use super::{
    elf::{Ghc, RtsOpts},
    program::Runtime,
};

/// The numbers that the rules work with.
#[derive(Debug, Clone, Copy)]
pub struct Sizing {
    /// The budget, with fractions of a quota cut off.
    pub floor: usize,
    /// The budget, with fractions of a quota counted as one.
    pub ceil: usize,
    /// The user's own number.
    pub explicit: Option<usize>,
    /// The PUs that the affinity mask leaves; what most runtimes see.
    pub pus: usize,
    /// The quota of the innermost cgroup, in CPUs; what some runtimes see.
    pub own_quota: Option<f64>,
    /// Whether the number is bound by an outer cgroup's quota, which no runtime but Rust's sees.
    pub outer_quota_binds: bool,
    /// The last-level cache that a worker has for itself, in bytes, where known.
    pub cache_bytes: Option<u64>,
}

impl Sizing {
    fn floor(&self) -> usize {
        self.explicit.unwrap_or(self.floor)
    }

    fn ceil(&self) -> usize {
        self.explicit.unwrap_or(self.ceil)
    }

    /// What a runtime chooses that sees the mask and its own cgroup's quota, rounded up.
    fn seen_with_quota(&self) -> usize {
        let quota = self.own_quota.map_or(usize::MAX, |q| q.ceil() as usize);
        self.pus.min(quota.max(1))
    }
}

/// One knob to turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Knob {
    /// An environment variable.
    Env(&'static str, String),
    /// An argument put before the program's own.
    Arg(String),
}

/// What the rules say for one program: knobs with the reason for each, and notes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Advice {
    pub knobs: Vec<(Knob, String)>,
    pub notes: Vec<String>,
}

impl Advice {
    fn env(mut self, name: &'static str, value: impl ToString, why: impl Into<String>) -> Self {
        self.knobs
            .push((Knob::Env(name, value.to_string()), why.into()));
        self
    }

    fn arg(mut self, argument: String, why: impl Into<String>) -> Self {
        self.knobs.push((Knob::Arg(argument), why.into()));
        self
    }

    fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }
}

/// Libraries that start threads inside any program, and how each is told.
const LIBRARIES: [(&str, &str); 7] = [
    ("OMP_NUM_THREADS", "OpenMP"),
    ("OPENBLAS_NUM_THREADS", "OpenBLAS"),
    ("MKL_NUM_THREADS", "MKL"),
    ("NUMEXPR_NUM_THREADS", "numexpr"),
    ("NUMBA_NUM_THREADS", "numba"),
    ("POLARS_MAX_THREADS", "polars"),
    ("LOKY_MAX_CPU_COUNT", "joblib"),
];

/// What to turn for a program of this runtime.
pub fn advise(runtime: Runtime, size: &Sizing) -> Advice {
    let none = Advice::default();
    let n = size.floor();
    match runtime {
        Runtime::Go => go(size),
        Runtime::Ghc(linked) => ghc(linked, size),
        Runtime::Java => java(size),
        Runtime::JavaScriptLauncher => java_by_environment(size),
        Runtime::Node => node(size),
        Runtime::Python => libraries(n).env(
            "PYTHON_CPU_COUNT",
            n,
            "os.cpu_count, from Python 3.13; older ones count every CPU of the machine",
        ),
        Runtime::Erlang => none.env(
            "ERL_FLAGS",
            format!("+S {n}:{n}"),
            "schedulers; Erlang sees the mask, and no quota",
        ),
        Runtime::OpenMp => libraries_of(&LIBRARIES[..3], n),
        Runtime::Mono => no_knob("Mono (MONO_THREADS_PER_CPU only multiplies what it sees)"),
        Runtime::DotNet => none.env("DOTNET_PROCESSOR_COUNT", size.ceil(), "processors"),
        Runtime::Crystal => none
            .env("CRYSTAL_WORKERS", n, "else 4 workers, whatever the machine")
            .env("GC_MARKERS", n, "the collector's threads, else one a CPU"),
        Runtime::Rayon => none.env("RAYON_NUM_THREADS", n, "rayon's global pool"),
        Runtime::Tokio => none.env("TOKIO_WORKER_THREADS", n, "tokio's workers"),
        Runtime::Julia => none.env("JULIA_NUM_THREADS", n, "else one thread"),
        Runtime::Ocaml => none.env(
            "OCAMLRUNPARAM",
            format!("d={n}"),
            "a cap on domains (OCaml 5)",
        ),
        Runtime::Shell => libraries(n).note(
            "what a shell's script starts is not known: only variables that are safe for every \
             program are set; put `creel run --` before the program inside for more",
        ),
        Runtime::Ruby => no_knob("Ruby"),
        Runtime::Unknown => no_knob("this program"),
    }
}

fn no_knob(who: &str) -> Advice {
    Advice::default().note(format!(
        "{who} has no knob for its number of threads: --cpus or --placement give it a mask, \
         --shim changes the answer when it asks how many CPUs there are"
    ))
}

fn libraries(n: usize) -> Advice {
    libraries_of(&LIBRARIES, n)
}

fn libraries_of(list: &[(&'static str, &str)], n: usize) -> Advice {
    list.iter().fold(Advice::default(), |advice, (name, who)| {
        advice.env(name, n, format!("{who}'s threads"))
    })
}

fn go(size: &Sizing) -> Advice {
    let wanted = size
        .explicit
        .or(size.outer_quota_binds.then_some(size.ceil));
    match wanted {
        Some(n) if size.explicit.is_some() => {
            Advice::default().env("GOMAXPROCS", n, "the number that was asked for")
        }
        Some(n) => Advice::default().env(
            "GOMAXPROCS",
            n,
            "the quota is an outer cgroup's, which Go does not see",
        ),
        None => Advice::default().note(
            "this will not help: Go sees its mask and its own quota by itself; it is left alone",
        ),
    }
}

fn ghc(linked: Ghc, size: &Sizing) -> Advice {
    let advice = Advice::default();
    let n = size.floor();
    if !linked.threaded {
        return advice.note(
            "this will not help: a program with GHC's non-threaded runtime has one capability, \
             and ends with an error if GHCRTS says -N",
        );
    }
    let advice = match linked.rtsopts {
        RtsOpts::IgnoreAll => advice.note(
            "linked with -rtsopts=ignoreAll: it takes no options; --cpus gives it a mask, which \
             its own -N obeys",
        ),
        RtsOpts::None => advice.note(
            "linked with -rtsopts=none: it takes no options and warns of GHCRTS; --cpus gives it \
             a mask, which its own -N obeys",
        ),
        RtsOpts::Some if n > size.pus => advice.note(format!(
            "linked without -rtsopts it refuses more capabilities than its mask has CPUs ({})",
            size.pus
        )),
        RtsOpts::Some | RtsOpts::All => advice.env(
            "GHCRTS",
            format!("-N{n}"),
            "capabilities; GHC's own -N sees the mask and no quota. Programs that it starts \
             inherit this: non-threaded Haskell ones would end with an error",
        ),
    };
    let advice = if linked.pins {
        advice.note("its own -qa pins each capability to a CPU: several such programs share one")
    } else {
        advice
    };
    match size.cache_bytes.map(|bytes| bytes >> 20) {
        Some(mib) if mib >= 2 => advice.note(format!(
            "advice: an allocation area as large as a worker's share of the last-level cache \
             makes collections rarer: +RTS -A{mib}m"
        )),
        _ => advice,
    }
}

/// Whether Java would come to another number by itself.
fn java_errs(size: &Sizing) -> bool {
    size.ceil() != size.seen_with_quota()
}

const JAVA_SEES: &str = "this will not help: Java sees its mask and its own quota by itself";
const JAVA_SERIAL: &str = "one processor also makes Java choose its serial collector";

fn java(size: &Sizing) -> Advice {
    let n = size.ceil();
    if !java_errs(size) {
        return Advice::default().note(JAVA_SEES);
    }
    let option = format!("-XX:ActiveProcessorCount={n}");
    let advice = Advice::default().arg(
        option,
        "as an argument, because JAVA_TOOL_OPTIONS makes Java print a line",
    );
    if n == 1 {
        advice.note(JAVA_SERIAL)
    } else {
        advice
    }
}

fn java_by_environment(size: &Sizing) -> Advice {
    let n = size.ceil();
    if !java_errs(size) {
        return Advice::default().note(JAVA_SEES);
    }
    let value = format!("-XX:ActiveProcessorCount={n}");
    let advice = Advice::default().env(
        "JAVA_TOOL_OPTIONS",
        value,
        "the script starts Java itself, which will print on stderr that it picked this up",
    );
    if n == 1 {
        advice.note(JAVA_SERIAL)
    } else {
        advice
    }
}

/// libuv's pool for blocking calls; fewer would make file and name look-ups wait.
const UV_DEFAULT: usize = 4;

fn node(size: &Sizing) -> Advice {
    let n = size.floor();
    let advice = Advice::default().env(
        "NODE_OPTIONS",
        format!("--v8-pool-size={n}"),
        "V8's helper threads",
    );
    if n > UV_DEFAULT {
        advice.env(
            "UV_THREADPOOL_SIZE",
            n,
            "threads for blocking calls, else 4",
        )
    } else {
        advice.note(format!(
            "UV_THREADPOOL_SIZE stays at its default of {UV_DEFAULT}: those threads wait for \
             files and names, they do not compute"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Sizing = Sizing {
        floor: 2,
        ceil: 3,
        explicit: None,
        pus: 8,
        own_quota: None,
        outer_quota_binds: true,
        cache_bytes: Some(16 << 20),
    };

    fn threaded(rtsopts: RtsOpts) -> Runtime {
        Runtime::Ghc(Ghc {
            threaded: true,
            rtsopts,
            pins: false,
        })
    }

    fn knobs(runtime: Runtime, size: &Sizing) -> Vec<Knob> {
        let knobs = advise(runtime, size).knobs;
        knobs.into_iter().map(|(knob, _)| knob).collect()
    }

    #[test]
    fn an_outer_quota_is_told_to_those_who_do_not_see_it() {
        let env = |name, value: &str| vec![Knob::Env(name, value.into())];
        assert_eq!(knobs(Runtime::Go, &SIZE), env("GOMAXPROCS", "3"));
        assert_eq!(knobs(threaded(RtsOpts::Some), &SIZE), env("GHCRTS", "-N2"));
        let arg = Knob::Arg("-XX:ActiveProcessorCount=3".into());
        assert_eq!(knobs(Runtime::Java, &SIZE), [arg]);
    }

    #[test]
    fn those_who_see_it_are_left_alone() {
        let own = Sizing {
            own_quota: Some(2.5),
            outer_quota_binds: false,
            ..SIZE
        };
        assert_eq!(knobs(Runtime::Go, &own), []);
        assert_eq!(knobs(Runtime::Java, &own), []);
        assert_eq!(knobs(Runtime::JavaScriptLauncher, &own), []);
    }

    #[test]
    fn an_explicit_number_wins_unless_the_program_would_fail() {
        let many = Sizing {
            explicit: Some(20),
            ..SIZE
        };
        assert_eq!(knobs(threaded(RtsOpts::Some), &many), []);
        assert_eq!(knobs(threaded(RtsOpts::All), &many).len(), 1);
        assert_eq!(
            knobs(Runtime::Go, &many),
            [Knob::Env("GOMAXPROCS", "20".into())]
        );
    }

    #[test]
    fn haskell_programs_that_take_no_options_get_none() {
        let plain = Runtime::Ghc(Ghc {
            threaded: false,
            rtsopts: RtsOpts::All,
            pins: false,
        });
        for runtime in [plain, threaded(RtsOpts::None), threaded(RtsOpts::IgnoreAll)] {
            assert_eq!(knobs(runtime, &SIZE), []);
        }
    }
}
