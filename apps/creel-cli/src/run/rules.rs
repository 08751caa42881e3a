//! For each runtime: what it sees by itself, and which knob turns its number of threads.
//!
//! The facts were measured by asking the runtimes under masks, quotas and parents' quotas;
//! docs/sizing.md holds the table. A rule here sets nothing that a runtime gets right alone, and
//! nothing that could make a program fail which runs without it: no number of threads is raised
//! that the program chose itself (GHC without `-N`, Julia, make), and nothing that a child of
//! another kind chokes on goes into a variable.

mod haskell;

use super::{
    knob::{Knob, KnobKind},
    runtime::Runtime,
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
    /// Whether the budget comes from what no mask shows: a quota, another limit, the user.
    pub exceeds_mask: bool,
    /// The quota of the innermost cgroup, in CPUs; what some runtimes see.
    pub own_quota: Option<f64>,
    /// The last-level cache that a worker has for itself, in bytes, where known.
    pub cache_bytes: Option<u64>,
    /// The least memory limit of all cgroups, in bytes.
    pub memory_bytes: Option<u64>,
    /// The same, or the machine's memory where that is less or no cgroup limits it.
    pub room_bytes: Option<u64>,
    /// Whether memory and collectors are to be sized too.
    pub gc: bool,
    /// Whether arguments can be put before the program's own.
    pub takes_arguments: bool,
    /// Whether the program will run in another place, where it may see other limits.
    pub exported: bool,
}

impl Sizing {
    fn floor(&self) -> usize {
        self.explicit.unwrap_or(self.floor)
    }

    fn ceil(&self) -> usize {
        self.explicit.unwrap_or(self.ceil)
    }

    /// What a runtime chooses that sees the mask and its own cgroup's quota, rounded up, with a
    /// least number of its own.
    fn detected_with_quota(&self, least: usize) -> usize {
        let quota = self.own_quota.map_or(usize::MAX, |q| q.ceil() as usize);
        self.pus.min(quota.max(least))
    }

    /// Whether a runtime's own number is the budget's, however a fraction is rounded.
    fn is_within_budget(&self, own: usize) -> bool {
        match self.explicit {
            Some(n) => own == n && !self.exported,
            None => (self.floor..=self.ceil).contains(&own),
        }
    }
}

/// One knob, why it is turned, and what else that does.
#[derive(Debug, PartialEq, Eq)]
pub struct AdvisedKnob {
    pub knob: Knob,
    pub why: String,
    /// Said only where the knob is turned.
    pub effect: Option<&'static str>,
}

/// What the rules say for one program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Advice {
    pub knobs: Vec<AdvisedKnob>,
    pub notes: Vec<String>,
}

impl Advice {
    fn set_knob(mut self, knob: Knob, why: impl Into<String>) -> Self {
        self.knobs.push(AdvisedKnob {
            knob,
            why: why.into(),
            effect: None,
        });
        self
    }

    fn env(self, name: &'static str, value: impl ToString, why: impl Into<String>) -> Self {
        self.set_knob(Knob::variable(name, value), why)
    }

    /// Says what else the last knob does.
    fn effect(mut self, effect: Option<&'static str>) -> Self {
        if let Some(last) = self.knobs.last_mut() {
            last.effect = effect;
        }
        self
    }

    fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    fn note_if(self, condition: bool, text: impl Into<String>) -> Self {
        if condition { self.note(text) } else { self }
    }

    /// Adds another runtime's advice; a variable that both name is turned once.
    pub fn join(&mut self, other: Advice) {
        for advised in other.knobs {
            if !self.knobs.iter().any(|known| known.knob == advised.knob) {
                self.knobs.push(advised);
            }
        }
        self.notes.extend(other.notes);
    }
}

/// Libraries that start threads inside any program, and how each is told.
const LIBRARIES: [(&str, &str); 10] = [
    ("OMP_NUM_THREADS", "OpenMP"),
    ("OPENBLAS_NUM_THREADS", "OpenBLAS"),
    ("MKL_NUM_THREADS", "MKL"),
    ("BLIS_NUM_THREADS", "BLIS"),
    ("NUMEXPR_NUM_THREADS", "numexpr"),
    ("NUMBA_NUM_THREADS", "numba"),
    ("POLARS_MAX_THREADS", "polars"),
    ("RAYON_NUM_THREADS", "Rust extensions on rayon"),
    ("LOKY_MAX_CPU_COUNT", "joblib"),
    ("PYTEST_XDIST_AUTO_NUM_WORKERS", "pytest's -n auto"),
];
/// Of these, the ones that come with OpenMP and BLAS.
const NUMERIC: usize = 4;
/// And those for which joblib takes care itself that workers times threads do not exceed the CPUs:
/// of each, while its own variable is not set.
const GUARDED: usize = 6;
/// Of these, the ones that have no guard but by `OMP_NUM_THREADS`, or do not obey it.
const BARE: [&str; 2] = ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS"];

/// What a user may have set that such a library obeys where its own variable is not set: ours,
/// which outranks it, is not set then.
const OUTRANKED: [(&str, &[&str]); 4] = [
    (
        "OPENBLAS_NUM_THREADS",
        &["GOTO_NUM_THREADS", "OMP_NUM_THREADS"],
    ),
    ("MKL_NUM_THREADS", &["OMP_NUM_THREADS"]),
    ("BLIS_NUM_THREADS", &["OMP_NUM_THREADS"]),
    (
        "NUMEXPR_NUM_THREADS",
        &["NUMEXPR_MAX_THREADS", "OMP_NUM_THREADS"],
    ),
];

/// numexpr complains above so many.
const NUMEXPR_MOST: usize = 64;
/// And Crystal's collector.
const MARKERS_MOST: usize = 16;

/// R's own.
const R: [(&str, &str); 4] = [
    ("R_DATATABLE_NUM_THREADS", "data.table"),
    ("MC_CORES", "parallel's mc.cores"),
    ("RCPP_PARALLEL_NUM_THREADS", "RcppParallel"),
    (
        "R_PARALLELLY_AVAILABLECORES_SYSTEM",
        "future and parallelly",
    ),
];

/// What to turn for a program of this runtime.
pub fn advise(runtime: Runtime, size: &Sizing) -> Advice {
    let none = Advice::default();
    let n = size.floor();
    match runtime {
        Runtime::Go(version) => go(version, size),
        Runtime::Ghc(linked) => haskell::advise(linked, size),
        Runtime::Java => java(size),
        Runtime::Jdk => none.note(format!(
            "a tool of the JDK is no `java` and ends with an error at its options, so it is left \
             alone; most of them take -J-XX:ActiveProcessorCount={}",
            size.ceil()
        )),
        Runtime::Node => node(size),
        Runtime::Python => python_libraries(size).env(
            "PYTHON_CPU_COUNT",
            n,
            "os.cpu_count, from Python 3.13; older ones count every CPU of the machine",
        ),
        Runtime::R => libraries_of(&R, n).also(libraries_of(&LIBRARIES[..NUMERIC], n)),
        Runtime::Erlang => none.set_knob(
            Knob {
                // Before all else, so that whatever the user says later wins.
                kind: KnobKind::Option {
                    separator: " ",
                    before: true,
                },
                ..Knob::option("ERL_AFLAGS", format!("+S {n}:{n}"), &["+S"])
            }
            .or_in(&["ERL_FLAGS", "ERL_ZFLAGS", "ELIXIR_ERL_OPTIONS"]),
            "schedulers; Erlang sees the mask, and no quota",
        ),
        Runtime::OpenMp => libraries_of(&LIBRARIES[..NUMERIC], n),
        Runtime::Mono => by_shim("Mono (MONO_THREADS_PER_CPU only multiplies what it sees)"),
        Runtime::DotNet => none.set_knob(
            Knob::variable("DOTNET_PROCESSOR_COUNT", size.ceil()),
            "processors, from .NET 6; older ones have no knob: --cpu-list gives them a mask",
        ),
        Runtime::Crystal => none
            .env("CRYSTAL_WORKERS", n, "else 4 workers, whatever the machine")
            .env(
                "GC_MARKERS",
                n.min(MARKERS_MOST),
                "the collector's threads, else one a CPU",
            ),
        Runtime::Rayon => none.env("RAYON_NUM_THREADS", n, "rayon's global pool"),
        Runtime::Tokio => none.env("TOKIO_WORKER_THREADS", n, "tokio's workers"),
        Runtime::Julia => julia(size),
        Runtime::Ocaml => {
            by_shim("OCaml (its d= is a cap on domains: a program that spawns one more would fail)")
        }
        Runtime::Shell => python_libraries(size).note(
            "what a shell's script starts is not always known: put `creel run --` before the \
             program inside, or name its runtime by --as",
        ),
        Runtime::Cargo => none.set_knob(
            Knob::variable("CARGO_BUILD_JOBS", n).or_marks(&["-j", "--jobs"]),
            "compilers at once; cargo sees the mask and quotas, and counts hyper-threads",
        ),
        Runtime::Make => make(size),
        Runtime::Ninja => ninja(size),
        Runtime::Pigz => none.set_knob(
            Knob::option("PIGZ", format!("-p {n}"), &["-p", "--processes"]),
            "threads; else one for every CPU of the machine",
        ),
        Runtime::Xz => compressor(
            "xz",
            Knob::option("XZ_DEFAULTS", format!("-T{n}"), &["-T", "--threads"]).or_in(&["XZ_OPT"]),
            size,
        ),
        Runtime::Zstd => compressor(
            "zstd",
            Knob::variable("ZSTD_NBTHREADS", n).or_marks(&["-T", "--threads", "--single-thread"]),
            size,
        ),
        Runtime::Ruby => by_shim("Ruby"),
        Runtime::Unknown => by_shim("this program")
            .note("if it starts a runtime that creel knows, name it: --as java, --as python, …"),
    }
}

impl Advice {
    fn also(mut self, other: Advice) -> Self {
        self.join(other);
        self
    }
}

fn by_shim(who: &str) -> Advice {
    Advice::default().note(format!(
        "{who} has no knob for its number of threads: --shim changes the answer when it asks how \
         many CPUs there are, --cpu-list or --placement give it a mask"
    ))
}

fn libraries_of(list: &[(&'static str, &str)], n: usize) -> Advice {
    list.iter().fold(Advice::default(), |advice, (name, who)| {
        let outranked = OUTRANKED.iter().find(|(ours, _)| ours == name);
        let theirs = outranked.map_or(&[][..], |(_, theirs)| theirs);
        let n = match *name {
            "NUMEXPR_NUM_THREADS" => n.min(NUMEXPR_MOST),
            _ => n,
        };
        let knob = Knob::variable(name, n).yielding_to(theirs);
        advice.set_knob(knob, format!("threads of {who}"))
    })
}

/// Where the mask is all that binds, OpenMP and BLAS see it themselves, and a guard against nested
/// pools is worth more than counting a core's hardware threads as one. A quota they do not see: then
/// OpenMP is told, whose number BLAS and numexpr take too, and joblib's guard gives each of them in
/// a worker process a smaller one of its own.
fn python_libraries(size: &Sizing) -> Advice {
    let n = size.floor();
    let free = libraries_of(&LIBRARIES[GUARDED..], n);
    if !size.exceeds_mask {
        return free.note(
            "OpenMP, BLAS, numexpr and numba are left alone: they see the mask, and joblib divides \
             the CPUs among its workers only while their variables are not set",
        );
    }
    let is_needed = |(name, _): &&(&'static str, &str)| {
        BARE.contains(name) || (*name == "NUMEXPR_NUM_THREADS" && n > NUMEXPR_MOST)
    };
    let bare: Vec<_> = LIBRARIES.iter().filter(is_needed).copied().collect();
    libraries_of(&bare, n).also(free).note(
        "BLAS and numexpr obey OMP_NUM_THREADS, and joblib divides the CPUs among its workers for \
         them; not for OpenMP and numba, whose variables are set: Parallel(…, \
         inner_max_num_threads=1) does",
    )
}

/// From 1.25 on Go sees its own group's quota, rounded up, and takes two threads at least.
fn go(version: Option<(u32, u32)>, size: &Sizing) -> Advice {
    let sees_quota = version.is_none_or(|version| version >= (1, 25));
    let own = if sees_quota {
        size.detected_with_quota(2)
    } else {
        size.pus
    };
    let n = size.ceil();
    let advice = if size.is_within_budget(own) {
        Advice::default().note(format!(
            "this will not help: Go comes to {own} by itself; it is left alone"
        ))
    } else {
        let why = format!("Go would take {own}");
        Advice::default().env("GOMAXPROCS", n, why)
    };
    match size.memory_bytes.filter(|_| size.gc) {
        Some(bytes) => advice.env(
            "GOMEMLIMIT",
            format!("{}MiB", (bytes / 10 * 9) >> 20),
            "nine tenths of the memory limit: the collector works harder before the limit ends \
             the program",
        ),
        None => advice,
    }
}

/// What sizes the heap, or may: a least or first size above our largest one keeps the virtual
/// machine from starting, and a file of options may hold any.
const JAVA_HEAP: &[&str] = &[
    "-Xmx",
    "-Xms",
    "-Xmn",
    "-XX:MaxHeapSize",
    "-XX:MinHeapSize",
    "-XX:InitialHeapSize",
    "-XX:SoftMaxHeapSize",
    "-XX:NewSize",
    "-XX:MaxNewSize",
    "-XX:MaxRAM",
    "-XX:MinRAM",
    "-XX:InitialRAM",
    "-XX:Flags",
    "-XX:VMOptionsFile",
    "@",
];

const JAVA_VARIABLES: &[&str] = &["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"];

/// An argument of `java` itself, or, where a script starts it, a variable, about which Java
/// prints a line.
fn java_option(
    size: &Sizing,
    option: String,
    marks: &'static [&'static str],
) -> (Knob, &'static str) {
    if size.takes_arguments {
        (
            Knob::argument(option, marks).or_in(JAVA_VARIABLES),
            "as an argument, because JAVA_TOOL_OPTIONS makes Java print a line",
        )
    } else {
        (
            Knob::option("JAVA_TOOL_OPTIONS", option, marks).or_in(JAVA_VARIABLES),
            "Java will print on stderr that it picked this up",
        )
    }
}

fn java(size: &Sizing) -> Advice {
    let own = size.detected_with_quota(1);
    let n = size.ceil();
    let advice = if size.is_within_budget(own) {
        Advice::default().note(format!(
            "this will not help: Java comes to {own} by itself; it is left alone"
        ))
    } else {
        let option = format!("-XX:ActiveProcessorCount={n}");
        let (knob, how) = java_option(size, option, &["-XX:ActiveProcessorCount"]);
        let serial = "one processor also makes Java choose its serial collector";
        let why = format!("Java would take {own}; {how}");
        Advice::default()
            .set_knob(knob, why)
            .effect((n == 1).then_some(serial))
    };
    let Some(bytes) = size.memory_bytes.filter(|_| size.gc) else {
        return advice;
    };
    let heap = format!("-Xmx{}m", (bytes / 4 * 3) >> 20);
    let (knob, how) = java_option(size, heap, JAVA_HEAP);
    advice.set_knob(
        knob,
        format!("three quarters of the memory limit, where Java takes one quarter; {how}"),
    )
}

/// libuv's pool for blocking calls; fewer would make file and name look-ups wait.
const UV_DEFAULT: usize = 4;
/// V8's own number of helper threads.
const V8_DEFAULT: usize = 4;

fn node(size: &Sizing) -> Advice {
    let n = size.floor();
    let mut advice = Advice::default();
    if n != V8_DEFAULT {
        let knob = Knob::option(
            "NODE_OPTIONS",
            format!("--v8-pool-size={n}"),
            &["--v8-pool-size"],
        );
        advice = advice.set_knob(knob, "V8's helper threads, else 4");
    }
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

/// Julia runs one thread unless it is told. Its `--threads=auto` asks the system and not
/// `JULIA_CPU_THREADS`, as its libraries do.
fn julia(size: &Sizing) -> Advice {
    let n = size.floor();
    let advice = Advice::default()
        .env("JULIA_CPU_THREADS", n, "Sys.CPU_THREADS")
        .env("OPENBLAS_NUM_THREADS", n, "OpenBLAS's threads");
    match size.explicit {
        Some(n) => advice.set_knob(
            Knob::variable("JULIA_NUM_THREADS", n).or_marks(&["-t", "--threads"]),
            "the number that was asked for",
        ),
        None => advice.note(
            "Julia has one thread unless it is told: --jobs here; its own --threads=auto sees \
                 no quota but what --shim answers",
        ),
    }
}

/// One thread unless it is told (newer ones: a few), and each takes as much memory as the first:
/// more of them unasked would fail below a memory limit, and change the output's bits.
fn compressor(who: &str, knob: Knob, size: &Sizing) -> Advice {
    match size.explicit {
        Some(_) => Advice::default().set_knob(knob, "the number of threads that was asked for"),
        None => Advice::default().note(format!(
            "{who} is left as it is: --jobs {} would use what may be used here, with that many \
             times the memory; -T0 takes as many as the machine has",
            size.floor
        )),
    }
}

/// A Makefile that lacks a dependency fails with several jobs, so none are added unasked.
fn make(size: &Sizing) -> Advice {
    match size.explicit {
        Some(n) => Advice::default().set_knob(
            Knob::option("MAKEFLAGS", format!("-j{n}"), &["-j", "--jobs"]),
            "the number of jobs that was asked for",
        ),
        None => Advice::default().note(format!(
            "make runs one job unless it is told: --jobs {} would do for what may be used here",
            size.floor
        )),
    }
}

fn ninja(size: &Sizing) -> Advice {
    let n = size.floor();
    if size.exported {
        return Advice::default().note(format!("ninja reads no variable: start it with -j{n}"));
    }
    if !size.takes_arguments {
        return by_shim("ninja, started by a script,");
    }
    Advice::default().set_knob(
        Knob::argument(format!("-j{n}"), &["-j"]),
        "jobs; else two more than the machine has CPUs",
    )
}

#[cfg(test)]
mod tests;
