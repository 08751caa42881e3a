//! The rules for each runtime: which limits it sees by itself, and which setting controls its
//! number of threads.
//!
//! We measured the facts: we asked the runtimes under masks, quotas and quotas of parent groups.
//! docs/sizing.md has the table. The rules have two limits:
//!
//! - A rule sets nothing that a runtime gets right by itself.
//! - A rule sets nothing that could make a program fail that runs without it. For example, we do
//!   not raise a number of threads that the program chose itself (GHC without `-N`, Julia, make).
//!   We also put nothing into a variable that makes a child process of another kind fail.

mod haskell;

use super::{
    knob::{Knob, KnobKind},
    runtime::Runtime,
};

/// The numbers that the rules use.
#[derive(Debug, Clone, Copy)]
pub struct Sizing {
    /// The budget, with fractions of a quota rounded down.
    pub floor: usize,
    /// The budget, with fractions of a quota rounded up.
    pub ceil: usize,
    /// The number of `--jobs`.
    pub explicit: Option<usize>,
    /// The number of PUs in the affinity mask, which most runtimes see.
    pub pus: usize,
    /// Whether the budget comes from a source that no mask shows: a quota, another limit or the
    /// user.
    pub exceeds_mask: bool,
    /// The quota of the innermost cgroup in CPUs, which some runtimes see.
    pub own_quota: Option<f64>,
    /// The size of one last-level cache divided by the number of workers, in bytes, if known. If
    /// the machine has several such caches, the share of a worker is larger than that.
    pub cache_bytes: Option<u64>,
    /// The smallest memory limit of all cgroups, in bytes.
    pub memory_bytes: Option<u64>,
    /// The smaller of `memory_bytes` and the memory of the machine, in bytes.
    pub room_bytes: Option<u64>,
    /// Whether to set memory sizes as well (`--gc`).
    pub gc: bool,
    /// Whether we can put arguments before those of the program.
    pub takes_arguments: bool,
    /// Whether the program will run elsewhere, where it may see other limits (`--export`).
    pub exported: bool,
    /// Whether the load of other programs leaves no CPU for each worker.
    pub contention: bool,
}

impl Sizing {
    fn floor(&self) -> usize {
        self.explicit.unwrap_or(self.floor)
    }

    fn ceil(&self) -> usize {
        self.explicit.unwrap_or(self.ceil)
    }

    /// Returns the number that a runtime chooses if it sees the mask and the quota of its own
    /// cgroup, rounded up. `least` is the smallest number that the runtime chooses because of a
    /// quota.
    fn detected_with_quota(&self, least: usize) -> usize {
        let quota = self.own_quota.map_or(usize::MAX, |q| q.ceil() as usize);
        self.pus.min(quota.max(least))
    }

    /// Returns whether the number that a runtime chooses by itself fits the budget, with a fraction
    /// rounded either way. With `--jobs`, it must be the number of `--jobs`, and the program must
    /// run here.
    fn is_within_budget(&self, own: usize) -> bool {
        match self.explicit {
            Some(n) => own == n && !self.exported,
            None => (self.floor..=self.ceil).contains(&own),
        }
    }
}

/// One setting, the reason for it, and its side effect.
#[derive(Debug, PartialEq, Eq)]
pub struct AdvisedKnob {
    pub knob: Knob,
    pub why: String,
    /// The side effect, which we report only if we make the setting.
    pub effect: Option<&'static str>,
}

/// The settings and notes for one program.
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

    /// Sets the side effect of the last setting.
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

    /// Adds the advice for another runtime. A setting that both contain is made once.
    pub fn join(&mut self, other: Advice) {
        for advised in other.knobs {
            if !self.knobs.iter().any(|known| known.knob == advised.knob) {
                self.knobs.push(advised);
            }
        }
        self.notes.extend(other.notes);
        // This note says that we set nothing for OpenMP, which would be wrong if another program of
        // the same script gets such a setting.
        let sets_openmp = |advised: &AdvisedKnob| advised.knob.name == "OMP_NUM_THREADS";
        if self.knobs.iter().any(sets_openmp) {
            self.notes.retain(|note| note != OPENMP_IS_LEFT_ALONE);
        }
    }
}

/// The variables of libraries that start threads inside any program, and the names of the
/// libraries.
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
/// The number of entries at the start of [`LIBRARIES`] that belong to OpenMP and BLAS.
const NUMERIC: usize = 4;
/// The number of entries at the start of [`LIBRARIES`] that joblib guards: it makes sure that
/// workers times threads do not exceed the CPUs. It does so for each library whose variable is not
/// set.
const GUARDED: usize = 6;
/// The guarded variables that we must set anyway. OpenMP reads only `OMP_NUM_THREADS`, and numba
/// does not read it.
const BARE: [&str; 2] = ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS"];

/// Other variables that a library obeys if its own variable is not set. If the user has set one of
/// them, we do not set the library's own variable, because it would override the user's choice.
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

/// The largest number of threads that numexpr accepts without a warning.
const NUMEXPR_MOST: usize = 64;
/// The largest number of threads of Crystal's garbage collector.
const MARKERS_MOST: usize = 16;

/// The variables of R and its packages.
const R: [(&str, &str); 4] = [
    ("R_DATATABLE_NUM_THREADS", "data.table"),
    ("MC_CORES", "parallel's mc.cores"),
    ("RCPP_PARALLEL_NUM_THREADS", "RcppParallel"),
    (
        "R_PARALLELLY_AVAILABLECORES_SYSTEM",
        "future and parallelly",
    ),
];

/// The reason why we set nothing for OpenMP in a program of Python or in a script.
const OPENMP_IS_LEFT_ALONE: &str = "creel sets nothing for OpenMP, BLAS, numexpr and numba, because \
                                    they see the mask, and joblib divides the CPUs among its workers \
                                    only if their variables are not set";

/// Returns the advice for a program of this runtime.
pub fn advise(runtime: Runtime, size: &Sizing) -> Advice {
    let none = Advice::default();
    let n = size.floor();
    match runtime {
        Runtime::Go(version) => go(version, size),
        Runtime::Ghc(linked) => haskell::advise(linked, size),
        Runtime::Java => java(size),
        Runtime::Jdk => none.note(format!(
            "tools of the JDK other than `java` reject its options, so creel sets nothing; most of \
             them accept -J-XX:ActiveProcessorCount={}",
            size.ceil()
        )),
        Runtime::Node => node(size),
        Runtime::Python => python_libraries(size).also(wait_policy(size)).env(
            "PYTHON_CPU_COUNT",
            n,
            "the value of os.cpu_count since Python 3.13; older versions count every CPU",
        ),
        Runtime::R => libraries_of(&R, n)
            .also(libraries_of(&LIBRARIES[..NUMERIC], n))
            .also(wait_policy(size)),
        Runtime::Erlang => none.set_knob(
            Knob {
                // Our option is first, so that a later option of the user overrides it.
                kind: KnobKind::Option {
                    separator: " ",
                    before: true,
                },
                ..Knob::option("ERL_AFLAGS", format!("+S {n}:{n}"), &["+S"])
            }
            .or_in(&["ERL_FLAGS", "ERL_ZFLAGS", "ELIXIR_ERL_OPTIONS"]),
            "number of schedulers; Erlang sees the mask but no quota",
        ),
        Runtime::OpenMp => libraries_of(&LIBRARIES[..NUMERIC], n).also(wait_policy(size)),
        Runtime::Mono => by_shim("Mono (MONO_THREADS_PER_CPU only multiplies the number of CPUs)"),
        Runtime::DotNet => none.set_knob(
            Knob::variable("DOTNET_PROCESSOR_COUNT", size.ceil()),
            "number of processors since .NET 6; for older versions use --cpu-list",
        ),
        Runtime::Crystal => none
            .env("CRYSTAL_WORKERS", n, "number of workers, by default 4")
            .env(
                "GC_MARKERS",
                n.min(MARKERS_MOST),
                "number of collector threads, by default one per CPU",
            ),
        Runtime::Rayon => none.env(
            "RAYON_NUM_THREADS",
            n,
            "number of threads of rayon's global pool",
        ),
        Runtime::Tokio => none.env("TOKIO_WORKER_THREADS", n, "number of tokio's workers"),
        Runtime::Julia => julia(size),
        Runtime::Ocaml => {
            by_shim("OCaml (d= limits its domains, but a program that spawns one more would fail)")
        }
        Runtime::Shell => python_libraries(size).note(
            "creel cannot always see what a shell script starts: put `creel run --` before the \
             program in the script, or name its runtime with --as",
        ),
        Runtime::Cargo => none.set_knob(
            Knob::variable("CARGO_BUILD_JOBS", n).or_marks(&["-j", "--jobs"]),
            "number of parallel jobs; cargo sees mask and quotas, but counts hardware threads",
        ),
        Runtime::Make => make(size),
        Runtime::Ninja => ninja(size),
        Runtime::Pigz => none.set_knob(
            Knob::option("PIGZ", format!("-p {n}"), &["-p", "--processes"]),
            "number of threads, by default one per CPU of the machine",
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
        Runtime::Unknown => by_shim("this program").note(
            "if it starts a runtime that creel knows, name it with --as, for example --as java",
        ),
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
        "{who} has no setting for its number of threads: use --shim to change the number of CPUs \
         that it sees, or --cpu-list or --placement to narrow its mask"
    ))
}

/// Returns the advice for threads of OpenMP that wait for each other. They spin while there are no
/// more of them than CPUs, which is slow if other programs use these CPUs (see `load`).
fn wait_policy(size: &Sizing) -> Advice {
    if !size.contention {
        return Advice::default();
    }
    let knob = Knob::variable("OMP_WAIT_POLICY", "passive")
        .yielding_to(&["GOMP_SPINCOUNT", "KMP_BLOCKTIME"]);
    Advice::default().set_knob(
        knob,
        "threads sleep while they wait, because other programs use the CPUs",
    )
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
        advice.set_knob(knob, format!("number of threads of {who}"))
    })
}

/// Returns the advice for the libraries of Python.
///
/// If only the mask limits the program, OpenMP and BLAS see it themselves. We set nothing for them
/// then, because joblib's guard against nested pools works only without variables. Our number would
/// be better in one way, because it counts the hardware threads of a core as one. The guard is
/// worth more than that.
///
/// OpenMP and BLAS do not see a quota. If one limits the program, we set the variable of OpenMP,
/// which BLAS and numexpr read as well. joblib's guard still gives BLAS and numexpr a smaller
/// number of their own in each worker process.
fn python_libraries(size: &Sizing) -> Advice {
    let n = size.floor();
    let free = libraries_of(&LIBRARIES[GUARDED..], n);
    if !size.exceeds_mask {
        return free.note(OPENMP_IS_LEFT_ALONE);
    }
    let is_needed = |(name, _): &&(&'static str, &str)| {
        BARE.contains(name) || (*name == "NUMEXPR_NUM_THREADS" && n > NUMEXPR_MOST)
    };
    let bare: Vec<_> = LIBRARIES.iter().filter(is_needed).copied().collect();
    libraries_of(&bare, n).also(free).note(
        "joblib divides the CPUs among its workers for BLAS and numexpr, but not for OpenMP and \
         numba, because creel sets their variables: use Parallel(…, inner_max_num_threads=1)",
    )
}

/// Returns the advice for Go. Since version 1.25, Go sees the quota of its own group and rounds it
/// up. However, a quota never makes it choose fewer than two threads.
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
            "creel run does not help here: Go chooses {own} by itself, so creel changes nothing"
        ))
    } else {
        let why = format!("Go would use {own}");
        Advice::default().env("GOMAXPROCS", n, why)
    };
    match size.memory_bytes.filter(|_| size.gc) {
        Some(bytes) => advice.env(
            "GOMEMLIMIT",
            format!("{}MiB", (bytes / 10 * 9) >> 20),
            "90 % of the memory limit, so that the collector works harder before the limit ends the \
             program",
        ),
        None => advice,
    }
}

/// Options that set the size of the heap, or may set it. We must not add a maximum to them, because
/// the virtual machine does not start if its minimum or initial size is larger. A file of options
/// may contain any of them.
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

/// Returns the option as an argument of `java`. If a script starts `java`, the option goes into a
/// variable, and Java prints a line about it.
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
            "creel run does not help here: Java chooses {own} by itself, so creel changes nothing"
        ))
    } else {
        let option = format!("-XX:ActiveProcessorCount={n}");
        let (knob, how) = java_option(size, option, &["-XX:ActiveProcessorCount"]);
        let serial = "with one processor, Java also uses its serial collector";
        let why = format!("Java would use {own}; {how}");
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
        format!("75 % of the memory limit, while Java would use 25 %; {how}"),
    )
}

/// The default size of libuv's pool for blocking calls. With fewer threads, file accesses and name
/// lookups would wait.
const UV_DEFAULT: usize = 4;
/// The default number of V8's helper threads.
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
        advice = advice.set_knob(knob, "number of V8's helper threads, by default 4");
    }
    if n > UV_DEFAULT {
        advice.env(
            "UV_THREADPOOL_SIZE",
            n,
            "number of threads for blocking calls, by default 4",
        )
    } else {
        advice.note(format!(
            "UV_THREADPOOL_SIZE stays at its default of {UV_DEFAULT}, because these threads wait \
             for files and names and do not compute"
        ))
    }
}

/// Returns the advice for Julia, which uses one thread by default. Its `--threads=auto` asks the
/// system, while its libraries read `JULIA_CPU_THREADS`.
fn julia(size: &Sizing) -> Advice {
    let n = size.floor();
    let advice = Advice::default()
        .env("JULIA_CPU_THREADS", n, "value of Sys.CPU_THREADS")
        .env("OPENBLAS_NUM_THREADS", n, "number of threads of OpenBLAS");
    match size.explicit {
        Some(n) => advice.set_knob(
            Knob::variable("JULIA_NUM_THREADS", n).or_marks(&["-t", "--threads"]),
            "the number of --jobs",
        ),
        None => advice.note(
            "Julia uses one thread by default: use --jobs for more; its --threads=auto does not \
             see quotas, except with --shim",
        ),
    }
}

/// Returns the advice for a compressor. It uses one thread by default, or a few in newer versions.
/// Each thread needs as much memory as the first. We add no threads unless the user asks for them,
/// because the program could exceed a memory limit, and its output would change.
fn compressor(who: &str, knob: Knob, size: &Sizing) -> Advice {
    match size.explicit {
        Some(_) => Advice::default().set_knob(knob, "the number of --jobs"),
        None => Advice::default().note(format!(
            "creel sets nothing for {who}: --jobs {} would use all usable cores, but each thread \
             needs as much memory as the first; -T0 uses every CPU of the machine",
            size.floor
        )),
    }
}

/// Returns the advice for make. We add no jobs unless the user asks for them, because a Makefile
/// with a missing dependency fails with several jobs.
fn make(size: &Sizing) -> Advice {
    match size.explicit {
        Some(n) => Advice::default().set_knob(
            Knob::option("MAKEFLAGS", format!("-j{n}"), &["-j", "--jobs"]),
            "the number of --jobs",
        ),
        None => Advice::default().note(format!(
            "make runs one job by default: --jobs {} would use all usable cores",
            size.floor
        )),
    }
}

fn ninja(size: &Sizing) -> Advice {
    let n = size.floor();
    if size.exported {
        return Advice::default().note(format!("ninja reads no variable, so start it with -j{n}"));
    }
    if !size.takes_arguments {
        return by_shim("ninja in a script");
    }
    Advice::default().set_knob(
        Knob::argument(format!("-j{n}"), &["-j"]),
        "number of jobs, by default two more than the machine has CPUs",
    )
}

#[cfg(test)]
mod tests;
