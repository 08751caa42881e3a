//! The plan of `creel run`: a value that we can explain, export or execute.

use super::{
    exec,
    knob::{Knob, KnobKind},
    load::Load,
    program::{self, Program},
    rules::{self, Advice, AdvisedKnob, Sizing},
    runtime::Runtime,
};
use anyhow::{Context, Result};
use creel_console::{Exit, Failure, with_causes};
use creel_topology::{
    Budget, CpuSet, Layout, LimitKind, Machine, Placement, Rounding, affinity, place,
};
use nix::errno::Errno;
use std::{env, ffi::OsString, fs, path::PathBuf};

/// The variable with which an outer `creel run` passes its number of workers to a nested `creel
/// run` and to programs that use the C library.
pub const JOBS_VARIABLE: &str = "CREEL_JOBS";

/// The options of the user for `creel run`, which a plan must follow.
#[derive(Debug, Default)]
pub struct Request {
    pub jobs: Option<usize>,
    pub rounding: Option<Rounding>,
    /// The memory that a worker needs, in bytes.
    pub worker_memory: Option<u64>,
    pub placement: Placement,
    pub cpus: Option<CpuSet>,
    pub no_smt: bool,
    pub runtime: Option<Runtime>,
    pub gc: bool,
    /// The library to preload, or the reason why we cannot preload it.
    pub shim: Option<Result<PathBuf, String>>,
    /// The load of other programs, or `None` to read it now.
    pub load: Option<Load>,
    /// Whether the plan is printed, including advice that sets nothing.
    pub explained: bool,
    /// Whether the user will paste the settings elsewhere, where we cannot add arguments.
    pub variables_only: bool,
}

/// One setting that the rules suggest, and whether we make it.
#[derive(Debug)]
pub struct Setting {
    pub knob: Knob,
    pub why: String,
    /// The setting of the user for the same knob, which we keep.
    pub kept: Option<String>,
}

/// The plan of one start: everything that `creel run` does before the first instruction of the
/// program.
#[derive(Debug)]
pub struct Plan {
    pub program: Program,
    /// The limits on the number of workers, or `None` if the machine cannot be read. We change
    /// nothing then.
    pub budget: Option<Budget>,
    /// The affinity mask of the program, or `None` for our own.
    pub mask: Option<CpuSet>,
    pub settings: Vec<Setting>,
    pub notes: Vec<String>,
    /// The settings of an outer `creel run` that the user overrides with `--jobs`.
    overridden: Vec<Knob>,
}

/// Inspects the program and the machine, and decides on the settings.
pub fn make(command: &[OsString], request: &Request) -> Result<Plan> {
    let mut program = match (program::identify(command), request.runtime) {
        // The settings may be for an image that contains the program, while this machine does not.
        (Err(_), Some(runtime)) if request.variables_only => program::assumed(command, runtime),
        (program, _) => program?,
    };
    if let Some(runtime) = request.runtime {
        let same =
            |known: &Runtime| std::mem::discriminant(known) == std::mem::discriminant(&runtime);
        if !program.runtimes.first().is_some_and(same) {
            program.runtimes = vec![runtime];
            program.arguments_at = None;
        }
        program.because = "you have named its runtime with --as".into();
    }
    let machine = match request.machine() {
        Ok(machine) => machine,
        Err(error) if request.narrows() => return Err(error.into()),
        Err(error) => {
            let error = with_causes(error);
            let note = format!("creel cannot read the machine, so it changes nothing: {error}");
            return Ok(unchanged(program, note));
        }
    };
    let mask = match (mask(&machine, request)?, &program.cpus) {
        // A wrapper narrows the mask of the program, so we count only these CPUs. Narrowing our own
        // mask has no other effect, because the wrapper sets the mask of the program again.
        (None, Some(cpus)) if cpus.is_subset(machine.allowed()) && cpus != machine.allowed() => {
            Some(cpus.clone())
        }
        (mask, _) => mask,
    };
    // The mask changes the budget. Therefore we set it now, and see the machine as the program
    // will.
    let mut unset = None;
    let (masked, mask) = match mask {
        Some(mask) => match affinity::set(&mask) {
            Ok(()) => (request.machine()?, Some(mask)),
            // A sandbox may forbid the call. The CPUs of --cpu-list are a demand, but those of a
            // placement are only a preference, which must not keep the program from starting.
            Err(error) if request.cpus.is_some() => {
                return Err(error).context("cannot set the affinity mask");
            }
            Err(error) => {
                let error = with_causes(error);
                unset = Some(format!("the affinity mask stays as it is: {error}"));
                (machine, None)
            }
        },
        None => (machine, None),
    };
    let floor = budget(&masked, request, Rounding::Floor);
    let mut size = sizing(&masked, &floor, request, program.arguments_at.is_some());
    let waits =
        |runtime: &Runtime| matches!(runtime, Runtime::OpenMp | Runtime::R | Runtime::Python);
    let workers = size.explicit.unwrap_or(size.floor);
    // We measure the load for programs whose threads spin while they wait for each other. We skip
    // it for exported settings, because we know only the load of this machine, and for a single
    // thread, because it waits for no other.
    if !size.exported && workers > 1 && program.runtimes.iter().any(waits) {
        let mut load = request.load.unwrap_or_else(Load::read);
        size.contention = load.contention(workers, masked.online().len());
    }
    let mut advice = Advice::default();
    for runtime in &program.runtimes {
        advice.join(rules::advise(*runtime, &size));
    }
    let mut notes = std::mem::take(&mut program.notes);
    notes.append(&mut advice.notes);
    notes.extend(unset);
    if let Some(value) = environment(JOBS_VARIABLE).filter(|value| !value.is_empty())
        && outer_jobs().is_none()
    {
        notes.push(format!(
            "{JOBS_VARIABLE}={} is not a whole number above 0, so creel ignores it",
            value.display()
        ));
    }
    notes.extend(masked.notes().iter().cloned());
    notes.extend(masked.weight_only());
    if request.gc && size.memory_bytes.is_none() {
        notes.push("no cgroup limits the memory, so --gc does not change heap sizes".into());
    }
    if let (Some(n), None) = (outer_jobs(), request.jobs)
        && floor.bound_by().kind == LimitKind::Explicit
    {
        notes.push(format!(
            "an outer `creel run` has set {JOBS_VARIABLE}={n}: use --jobs to override it"
        ));
    }
    let budget = match request.jobs {
        Some(n) => floor.explicit(n),
        None => floor,
    };
    let mut plan = Plan {
        budget: Some(budget),
        mask,
        settings: Vec::new(),
        notes,
        overridden: overridden(&program, &size),
        program,
    };
    advice
        .knobs
        .into_iter()
        .for_each(|knob| plan.set_knob(knob));
    match &request.shim {
        Some(Ok(library)) => plan.preload(library),
        Some(Err(reason)) => plan.notes.push(reason.clone()),
        None => {}
    }
    if (request.jobs.is_some() || request.worker_memory.is_some()) && !request.variables_only {
        plan.pass_to_nested_runs();
    }
    plan.forget_repeated_notes();
    Ok(plan)
}

fn unchanged(program: Program, note: String) -> Plan {
    Plan {
        program,
        budget: None,
        mask: None,
        settings: Vec::new(),
        notes: vec![note],
        overridden: Vec::new(),
    }
}

/// Returns the settings of an outer `creel run` if `--jobs` is given here and overrides them. The
/// values of these variables are not settings of the user.
fn overridden(program: &Program, size: &Sizing) -> Vec<Knob> {
    let Some((outer_jobs, _)) = outer_jobs().zip(size.explicit) else {
        return Vec::new();
    };
    let then = Sizing {
        explicit: Some(outer_jobs),
        ..*size
    };
    let advice = program.runtimes.iter().map(|r| rules::advise(*r, &then));
    advice
        .flat_map(|advice| advice.knobs)
        .map(|advised| advised.knob)
        .collect()
}

impl Request {
    /// Returns whether an option of the user may narrow the mask. Only a readable machine makes
    /// that possible.
    fn narrows(&self) -> bool {
        self.cpus.is_some() || self.no_smt || self.placement != Placement::Unpinned
    }

    /// Reads the machine, with as much detail as the request needs. The number of cores is enough
    /// for most programs. To know the caches and NUMA nodes as well, we would read thousands of
    /// files on a large machine.
    fn machine(&self) -> Result<Machine, creel_topology::Error> {
        if self.narrows() || self.gc || self.explained || self.worker_memory.is_some() {
            Machine::detect()
        } else {
            Machine::detect_cores()
        }
    }
}

/// Returns the budget that the limits allow now.
pub fn budget_now(request: &Request) -> Result<Budget> {
    Ok(budget(&request.machine()?, request, Rounding::Floor))
}

fn budget(machine: &Machine, request: &Request, rounding: Rounding) -> Budget {
    let budget = Budget::rounded(machine, request.rounding.unwrap_or(rounding));
    let budget = match request.worker_memory {
        Some(bytes) => budget.with_memory(machine, bytes),
        None => budget,
    };
    match outer_jobs() {
        Some(n) if n < budget.workers() => budget.explicit(n),
        _ => budget,
    }
}

/// Returns the number of workers of an outer `creel run`.
fn outer_jobs() -> Option<usize> {
    let n = environment(JOBS_VARIABLE)?.to_str()?.trim().parse().ok()?;
    (n > 0).then_some(n)
}

/// Returns the mask for the program, or `None` if the mask does not change.
fn mask(machine: &Machine, request: &Request) -> Result<Option<CpuSet>> {
    let allowed = machine.allowed();
    let mut mask = allowed.clone();
    if let Some(cpus) = &request.cpus {
        let missing = cpus - allowed;
        if cpus.is_empty() {
            let text = format!(
                "--cpu-list names no CPU: use some of the CPUs {allowed}, which this process may \
                 use"
            );
            return Err(Failure::new(Exit::Usage, text).into());
        }
        if !missing.is_empty() {
            let text = format!(
                "--cpu-list {cpus}: the CPUs {missing} are not allowed here: use some of the CPUs \
                 {allowed}"
            );
            return Err(Failure::new(Exit::Usage, text).into());
        }
        mask = cpus.clone();
    }
    if request.no_smt {
        let one_a_core = |core: &creel_topology::Core| (&core.pus & &mask).first();
        mask = machine.cores().iter().filter_map(one_a_core).collect();
    }
    if request.placement != Placement::Unpinned {
        let workers = match request.jobs {
            Some(n) => n,
            None => budget(machine, request, Rounding::Floor)
                .workers()
                .min(mask.len()),
        };
        mask = union(&place(machine, &mask, workers, &request.placement)?);
    }
    Ok((mask != *allowed).then_some(mask))
}

fn union(layout: &Layout) -> CpuSet {
    let join = |all: CpuSet, pus: &CpuSet| &all | pus;
    layout.assigned().iter().fold(CpuSet::new(), join)
}

fn sizing(machine: &Machine, floor: &Budget, request: &Request, takes_arguments: bool) -> Sizing {
    let mut quotas = floor.limits().iter().filter(|l| l.kind == LimitKind::Quota);
    let masks = [LimitKind::Cores, LimitKind::Cpuset, LimitKind::Affinity];
    let workers = request.jobs.unwrap_or(floor.workers()).max(1) as u64;
    let last_level = machine.caches().iter().max_by_key(|cache| cache.level);
    let memory = machine
        .memory_limit()
        .filter(|limit| !limit.path.is_empty());
    Sizing {
        floor: floor.workers(),
        ceil: budget(machine, request, Rounding::Ceil).workers(),
        explicit: request.jobs,
        pus: machine.allowed().len(),
        exceeds_mask: request.jobs.is_some() || !masks.contains(&floor.bound_by().kind),
        own_quota: quotas
            .find(|l| l.generation == 0)
            .and_then(|l| cpus(&l.value)),
        cache_bytes: last_level
            .and_then(|cache| cache.size_bytes)
            .map(|bytes| bytes / workers),
        memory_bytes: memory.and_then(|limit| limit.value.parse().ok()),
        room_bytes: machine
            .memory_limit()
            .and_then(|limit| limit.value.parse().ok()),
        gc: request.gc,
        takes_arguments: takes_arguments && !request.variables_only,
        exported: request.variables_only,
        contention: false,
    }
}

/// Parses the number of CPUs of a quota, `QUOTA/PERIOD`.
fn cpus(value: &str) -> Option<f64> {
    let (quota, period) = value.split_once('/')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

/// Returns the number of jobs in the configuration of cargo, which our variable would override. We
/// search the files that cargo reads, from this folder upwards and in its home.
fn cargo_jobs() -> Option<String> {
    let here = env::current_dir().unwrap_or_default();
    let homes = [
        env::var_os("CARGO_HOME").map(PathBuf::from),
        env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")),
    ];
    let folders = here.ancestors().map(|folder| folder.join(".cargo"));
    let mut files = folders
        .chain(homes.into_iter().flatten())
        .flat_map(|folder| ["config.toml", "config"].map(|name| folder.join(name)));
    files.find_map(|file| {
        let text = fs::read_to_string(&file).ok()?;
        let is_jobs = |line: &&str| {
            let key = line.split('=').next().unwrap_or_default().trim();
            line.contains('=') && ["jobs", "build.jobs"].contains(&key)
        };
        let line = text.lines().find(is_jobs)?;
        Some(format!("`{}` in {}", line.trim(), file.display()))
    })
}

/// Returns a variable of this process.
fn environment(name: &str) -> Option<OsString> {
    env::var_os(name)
}

impl Plan {
    /// Returns a variable unless its value is from an outer `creel run` that we override.
    fn inherited(&self, name: &str) -> Option<OsString> {
        let ours = |value: &OsString| {
            let mut knobs = self.overridden.iter();
            knobs.any(|knob| knob.name == name && value == knob.value.as_str())
        };
        environment(name).filter(|value| !ours(value))
    }

    /// Makes a setting, unless the user has made it.
    fn set_knob(&mut self, advised: AdvisedKnob) {
        let variables = &self.program.variables;
        let overridden_value = match advised.knob.kind {
            KnobKind::Argument => None,
            _ => variables.overridden_value(advised.knob.name),
        };
        let kept = overridden_value.or_else(|| {
            let seen = |name: &str| variables.seen(name, self.inherited(name));
            advised.knob.kept_by_user(&self.program.words, &seen)
        });
        let kept = kept.or_else(|| match advised.knob.name {
            "CARGO_BUILD_JOBS" if self.budget_is_own() => cargo_jobs(),
            _ => None,
        });
        if kept.is_none() {
            self.notes.extend(advised.effect.map(String::from));
        }
        self.settings.push(Setting {
            knob: advised.knob,
            why: advised.why,
            kept,
        });
    }

    /// Adds the preload library, in addition to those of the user.
    fn preload(&mut self, library: &std::path::Path) {
        let preload = self.program.preload;
        match preload.obstacle() {
            Some(obstacle) => self.notes.push(format!("--shim has no effect: {obstacle}")),
            None => self.notes.push(
                "the shim replaces sysconf, get_nprocs and sched_getaffinity; it has no effect on \
                 static programs that this program starts"
                    .into(),
            ),
        }
        if !preload.is_harmless() {
            return;
        }
        let own = library.display().to_string();
        // A nested `creel run` does not preload the library again.
        let theirs = environment("LD_PRELOAD").unwrap_or_default();
        let is_there = theirs.to_string_lossy().split([':', ' ']).any(|l| l == own);
        let preload = Knob {
            kind: KnobKind::Option {
                separator: ":",
                before: false,
            },
            ..Knob::option("LD_PRELOAD", own, &[])
        };
        let there = || is_there.then(|| format!("LD_PRELOAD={}", theirs.display()));
        let overridden_value = |name| self.program.variables.overridden_value(name);
        let count = Knob::variable("CREEL_CPUS", self.workers());
        let settings = [
            (preload, overridden_value("LD_PRELOAD").or_else(there)),
            (count, overridden_value("CREEL_CPUS")),
        ];
        self.settings.extend(settings.map(|(knob, kept)| Setting {
            knob,
            why: "you have asked for --shim".into(),
            kept,
        }));
    }

    /// Passes the number of workers to a nested `creel run`, which cannot read it from any limit.
    fn pass_to_nested_runs(&mut self) {
        self.settings.push(Setting {
            knob: Knob::variable(JOBS_VARIABLE, self.workers()),
            why: "limits a `creel run` that the program starts to the same number".into(),
            kept: self.program.variables.overridden_value(JOBS_VARIABLE),
        });
    }

    /// Removes notes that several runtimes of one program have in common.
    fn forget_repeated_notes(&mut self) {
        let mut kept: Vec<String> = Vec::new();
        for note in self.notes.drain(..) {
            if !kept.contains(&note) {
                kept.push(note);
            }
        }
        self.notes = kept;
    }

    /// Returns whether we have chosen the number of workers, and not the user or an outer `creel
    /// run`.
    fn budget_is_own(&self) -> bool {
        let budget = self.budget.as_ref();
        budget.is_some_and(|budget| budget.bound_by().kind != LimitKind::Explicit)
    }

    pub fn workers(&self) -> usize {
        self.budget.as_ref().map_or(1, Budget::workers)
    }

    /// Returns the settings that we make.
    pub fn applied(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(|s| s.kept.is_none())
    }

    /// Returns the variables that we set, including the options of the user.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, OsString)> {
        let knobs = self.applied().map(|setting| &setting.knob);
        let inherited = |name: &str| self.inherited(name);
        knobs.filter_map(move |knob| Some((knob.name, knob.variable_value(&inherited)?)))
    }

    /// Returns the arguments that we put before those of the program.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.applied().flat_map(|setting| setting.knob.arguments())
    }

    /// Returns the whole command to execute.
    pub fn command(&self, command: &[OsString]) -> Vec<OsString> {
        let mut words = command.to_vec();
        if let Some(at) = self.program.arguments_at {
            let ours: Vec<OsString> = self.arguments().map(OsString::from).collect();
            words.splice(at..at, ours);
        }
        words
    }

    /// Replaces this process by the program. Returns only if that fails.
    pub fn exec(&self, command: &[OsString]) -> anyhow::Error {
        let path = &self.program.path;
        let error = match exec::replace(path, &self.command(command), self.variables()) {
            // Our settings do not fit into the space for arguments and variables. The program must
            // start nevertheless.
            Errno::E2BIG => exec::replace(path, command, std::iter::empty()),
            error => error,
        };
        exec::failure(&self.program.path, error).into()
    }
}
