//! What `creel run` will do, before it does it: a value to explain, to export or to carry out.

use super::{
    exec,
    knob::{Knob, KnobKind},
    program::{self, Program},
    rules::{self, Advice, AdvisedKnob, Sizing},
    runtime::Runtime,
};
use anyhow::{Context, Result};
use creel_console::{Exit, Failure};
use creel_topology::{
    Budget, CpuSet, Layout, LimitKind, Machine, Placement, Rounding, affinity, place,
};
use std::{env, ffi::OsString, fs, path::PathBuf};

/// By this variable an outer `creel run` tells an inner one, and programs that use the C library,
/// the number that it was given.
const JOBS_VARIABLE: &str = "CREEL_JOBS";

/// What the user asks for.
#[derive(Debug, Default)]
pub struct Request {
    pub jobs: Option<usize>,
    pub rounding: Option<Rounding>,
    /// Memory of a worker, in bytes.
    pub worker_memory: Option<u64>,
    pub placement: Placement,
    pub cpus: Option<CpuSet>,
    pub no_smt: bool,
    pub runtime: Option<Runtime>,
    pub gc: bool,
    pub shim: Option<PathBuf>,
    /// Whether the plan is told, with the advice that turns no knob.
    pub explained: bool,
    /// Whether the settings are to be pasted elsewhere, where no arguments can be put.
    pub variables_only: bool,
}

/// One knob that the rules name, and whether it is turned.
#[derive(Debug)]
pub struct Setting {
    pub knob: Knob,
    pub why: String,
    /// Where the user has turned it already; that stays.
    pub kept: Option<String>,
}

/// Everything that happens between here and the program's first instruction.
#[derive(Debug)]
pub struct Plan {
    pub program: Program,
    /// None where the machine cannot be read; then nothing is turned.
    pub budget: Option<Budget>,
    /// The mask that the program gets, if not the one we have.
    pub mask: Option<CpuSet>,
    pub settings: Vec<Setting>,
    pub notes: Vec<String>,
    /// What an outer `creel run` has set, where the user overrules its number here.
    overridden: Vec<Knob>,
}

/// Looks at the program and the machine and decides.
pub fn make(command: &[OsString], request: &Request) -> Result<Plan> {
    let mut program = match (program::identify(command), request.runtime) {
        // What is exported may be for an image that has the program.
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
            let note = format!("the machine cannot be read, so creel changes nothing: {error}");
            return Ok(unchanged(program, note));
        }
    };
    let mask = mask(&machine, request)?;
    // Below the mask the budget is another: what follows must see it as the program will.
    let masked = match &mask {
        Some(mask) => {
            affinity::set(mask).context("cannot set the affinity mask")?;
            request.machine()?
        }
        None => machine,
    };
    let floor = budget(&masked, request, Rounding::Floor);
    let size = sizing(&masked, &floor, request, program.arguments_at.is_some());
    let mut advice = Advice::default();
    for runtime in &program.runtimes {
        advice.join(rules::advise(*runtime, &size));
    }
    let mut notes = std::mem::take(&mut program.notes);
    notes.append(&mut advice.notes);
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
    if let Some(library) = &request.shim {
        plan.preload(library);
    }
    if (request.jobs.is_some() || request.worker_memory.is_some()) && !request.variables_only {
        plan.pass_to_nested_runs();
    }
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

/// The knobs as an outer `creel run` has turned them, where a number that is given here is to win:
/// what stands in these variables is not the user's.
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
    /// Whether something is asked for that only a machine that can be read gives.
    fn narrows(&self) -> bool {
        self.cpus.is_some() || self.no_smt || self.placement != Placement::Unpinned
    }

    /// The machine, as far as it is asked for: caches, nodes and their memory cost thousands of
    /// files on a large one, and most programs are started for their number of cores.
    fn machine(&self) -> Result<Machine, creel_topology::Error> {
        if self.narrows() || self.gc || self.explained || self.worker_memory.is_some() {
            Machine::detect()
        } else {
            Machine::detect_cores()
        }
    }
}

/// What the limits warrant now.
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

/// The number that an outer `creel run` was given.
fn outer_jobs() -> Option<usize> {
    let n = environment(JOBS_VARIABLE)?.to_str()?.trim().parse().ok()?;
    (n > 0).then_some(n)
}

/// The mask for the program; `None` where nothing asks for one.
fn mask(machine: &Machine, request: &Request) -> Result<Option<CpuSet>> {
    let allowed = machine.allowed();
    let mut mask = allowed.clone();
    if let Some(cpus) = &request.cpus {
        let missing = cpus - allowed;
        if cpus.is_empty() {
            let text =
                format!("--cpu-list names no CPU: use CPUs of {allowed}, which are allowed here");
            return Err(Failure::new(Exit::Usage, text).into());
        }
        if !missing.is_empty() {
            let text = format!(
                "--cpu-list {cpus}: the CPUs {missing} are not allowed here: use CPUs of {allowed}"
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
    let join = |all: CpuSet, seat: &CpuSet| &all | seat;
    layout.seats().iter().fold(CpuSet::new(), join)
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
    }
}

/// A quota's CPUs, from `QUOTA/PERIOD`.
fn cpus(value: &str) -> Option<f64> {
    let (quota, period) = value.split_once('/')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

/// How many jobs cargo's own configuration asks for, which the variable would outrank: the files
/// that cargo reads, from this folder upwards and in its home.
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

/// This process's environment, as the knobs ask for it.
fn environment(name: &str) -> Option<OsString> {
    env::var_os(name)
}

impl Plan {
    /// What the user has put into a variable.
    fn inherited(&self, name: &str) -> Option<OsString> {
        let ours = |value: &OsString| {
            let mut knobs = self.overridden.iter();
            knobs.any(|knob| knob.name == name && value == knob.value.as_str())
        };
        environment(name).filter(|value| !ours(value))
    }

    /// Turns a knob, unless the user has.
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

    /// Puts the preload library before the program, beside what the user preloads.
    fn preload(&mut self, library: &std::path::Path) {
        let limit = if self.program.is_static {
            "this program is static, so the shim has no effect on it"
        } else {
            "it has no effect on static programs that this program starts"
        };
        self.notes.push(format!(
            "the shim replaces sysconf, get_nprocs and sched_getaffinity; {limit}"
        ));
        let own = library.display().to_string();
        // A second `creel run` inside the first one preloads nothing more.
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

    /// Tells an inner `creel run` the number, which it cannot read from any limit.
    fn pass_to_nested_runs(&mut self) {
        self.settings.push(Setting {
            knob: Knob::variable(JOBS_VARIABLE, self.workers()),
            why: "limits a nested `creel run` to the same number".into(),
            kept: self.program.variables.overridden_value(JOBS_VARIABLE),
        });
    }

    /// Whether the number is ours and not the user's.
    fn budget_is_own(&self) -> bool {
        let budget = self.budget.as_ref();
        budget.is_some_and(|budget| budget.bound_by().kind != LimitKind::Explicit)
    }

    pub fn workers(&self) -> usize {
        self.budget.as_ref().map_or(1, Budget::workers)
    }

    /// The settings that the program gets from us.
    pub fn applied(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(|s| s.kept.is_none())
    }

    /// The variables that the program gets from us, the user's own options included.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, OsString)> {
        let knobs = self.applied().map(|setting| &setting.knob);
        let inherited = |name: &str| self.inherited(name);
        knobs.filter_map(move |knob| Some((knob.name, knob.variable_value(&inherited)?)))
    }

    /// The arguments that the program gets from us before its own.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.applied().flat_map(|setting| setting.knob.arguments())
    }

    /// The whole command as it will be executed.
    pub fn command(&self, command: &[OsString]) -> Vec<OsString> {
        let mut words = command.to_vec();
        if let Some(at) = self.program.arguments_at {
            let ours: Vec<OsString> = self.arguments().map(OsString::from).collect();
            words.splice(at..at, ours);
        }
        words
    }

    /// Becomes the program: same process, signals and exit code. Returns only if that fails.
    pub fn exec(&self, command: &[OsString]) -> anyhow::Error {
        let error = exec::replace(&self.program.path, &self.command(command), self.variables());
        let path = self.program.path.display();
        Failure::new(Exit::NotExecutable, format!("cannot run {path}: {error}")).into()
    }
}
