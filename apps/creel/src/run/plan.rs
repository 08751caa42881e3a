//! What `creel run` will do, before it does it: a value to explain, to export or to carry out.

use super::{
    program::{self, Program},
    rules::{self, Knob, Sizing},
};
use anyhow::{Context, Result};
use creel_console::{Exit, Failure};
use creel_topology::{Budget, CpuSet, LimitKind, Machine, Placement, Rounding, affinity, place};
use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::Command,
};

/// What the user asks for.
#[derive(Debug, Default)]
pub struct Wishes {
    pub jobs: Option<usize>,
    pub placement: Placement,
    pub cpus: Option<CpuSet>,
    pub no_smt: bool,
    pub shim: Option<PathBuf>,
}

/// One knob that the rules name, and whether it is turned.
#[derive(Debug)]
pub struct Setting {
    pub knob: Knob,
    pub why: String,
    /// The user's own value, which stays.
    pub kept: Option<OsString>,
}

/// Everything that happens between here and the program's first instruction.
#[derive(Debug)]
pub struct Plan {
    pub program: Program,
    pub budget: Budget,
    pub workers: usize,
    /// The mask that the program gets, if not the one we have.
    pub mask: Option<CpuSet>,
    pub settings: Vec<Setting>,
    pub notes: Vec<String>,
}

/// Looks at the program and the machine and decides.
pub fn make(command: &OsStr, wishes: &Wishes) -> Result<Plan> {
    let program = program::identify(command)?;
    let machine = Machine::detect()?;
    let mask = mask(&machine, wishes)?;
    // Below the mask the budget is another: what follows must see it as the program will.
    let masked = match &mask {
        Some(mask) => {
            affinity::set(mask).context("cannot set the affinity mask")?;
            Machine::detect()?
        }
        None => machine,
    };
    let floor = Budget::of(&masked);
    let size = sizing(&masked, &floor, wishes.jobs);
    let advice = rules::advise(program.runtime, &size);
    let mut settings: Vec<Setting> = advice.knobs.into_iter().map(setting).collect();
    let mut notes = advice.notes;
    if let Some(library) = &wishes.shim {
        notes.push(shim_note(&program));
        let variables = [
            ("LD_PRELOAD", library.display().to_string()),
            ("CREEL_CPUS", floor.workers().to_string()),
        ];
        settings.extend(variables.map(|(name, value)| {
            setting((Knob::Env(name, value), "the shim that was asked for".into()))
        }));
    }
    let budget = match wishes.jobs {
        Some(n) => floor.explicit(n),
        None => floor,
    };
    Ok(Plan {
        workers: budget.workers(),
        program,
        budget,
        mask,
        settings,
        notes,
    })
}

fn shim_note(program: &Program) -> String {
    let limit = if program.is_static {
        "this program is static, so the shim does not reach it"
    } else {
        "a static program started by this one would not be reached"
    };
    format!("the shim answers sysconf, get_nprocs and sched_getaffinity; {limit}")
}

/// The mask for the program; `None` where nothing asks for one.
fn mask(machine: &Machine, wishes: &Wishes) -> Result<Option<CpuSet>> {
    let allowed = machine.allowed();
    let mut mask = allowed.clone();
    if let Some(cpus) = &wishes.cpus {
        let missing = cpus - allowed;
        if !missing.is_empty() || cpus.is_empty() {
            let text =
                format!("--cpus {cpus}: of these, {missing} may not be used here; {allowed} may");
            return Err(Failure::new(Exit::Usage, text).into());
        }
        mask = cpus.clone();
    }
    if wishes.no_smt {
        let one_a_core = |core: &creel_topology::Core| (&core.pus & &mask).first();
        mask = machine.cores().iter().filter_map(one_a_core).collect();
    }
    if wishes.placement != Placement::Unpinned {
        let workers = match wishes.jobs {
            Some(n) => n,
            None => Budget::of(machine).workers().min(mask.len()),
        };
        let layout = place(machine, &mask, workers, &wishes.placement)?;
        let union = |all: CpuSet, seat: &CpuSet| &all | seat;
        mask = layout.seats().iter().fold(CpuSet::new(), union);
    }
    Ok((mask != *allowed).then_some(mask))
}

fn sizing(machine: &Machine, floor: &Budget, explicit: Option<usize>) -> Sizing {
    let quotas = || floor.limits().iter().filter(|l| l.kind == LimitKind::Quota);
    let bound = floor.bound_by();
    let workers = explicit.unwrap_or(floor.workers()).max(1) as u64;
    let last_level = machine.caches().iter().max_by_key(|cache| cache.level);
    Sizing {
        floor: floor.workers(),
        ceil: Budget::rounded(machine, Rounding::Ceil).workers(),
        explicit,
        pus: machine.allowed().len(),
        own_quota: quotas()
            .find(|l| l.generation == 0)
            .and_then(|l| cpus(&l.value)),
        outer_quota_binds: bound.kind == LimitKind::Quota && bound.generation > 0,
        cache_bytes: last_level
            .and_then(|cache| cache.size_bytes)
            .map(|bytes| bytes / workers),
    }
}

/// A quota's CPUs, from `QUOTA/PERIOD`.
fn cpus(value: &str) -> Option<f64> {
    let (quota, period) = value.split_once('/')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

/// A knob is turned unless the user has set it.
fn setting((knob, why): (Knob, String)) -> Setting {
    let kept = match &knob {
        Knob::Env(name, _) => env::var_os(name),
        Knob::Arg(_) => None,
    };
    Setting { knob, why, kept }
}

impl Plan {
    /// The settings that the program gets from us.
    pub fn turned(&self) -> impl Iterator<Item = &Knob> {
        let turned = self.settings.iter().filter(|s| s.kept.is_none());
        turned.map(|s| &s.knob)
    }

    /// Becomes the program: same process, signals and exit code. Returns only if that fails.
    pub fn exec(&self, args: &[OsString]) -> anyhow::Error {
        let mut command = Command::new(&self.program.path);
        for knob in self.turned() {
            match knob {
                Knob::Env(name, value) => command.env(name, value),
                Knob::Arg(argument) => command.arg(argument),
            };
        }
        let error = command.args(args).exec();
        let path = self.program.path.display();
        Failure::new(Exit::NotExecutable, format!("cannot run {path}: {error}")).into()
    }
}
