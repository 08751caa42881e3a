//! The machine as text: a summary, the tree of its objects, the placement of workers, and the
//! budget.

use anstyle::{AnsiColor, Style};
use creel_topology::{CpuSet, Kind, KindSource, Machine};

use creel_console::machine::tree::{self, Object};
use creel_console::machine::{View, WorkerPlacement};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const WORKER: Style = AnsiColor::Green.on_default().bold();

/// Returns the whole text. `limits` adds every limit on the number of workers.
pub(super) fn draw(view: &View, limits: bool) -> String {
    let mut out = summary(&view.machine);
    let root = tree::of(view);
    for object in &root.inside {
        draw_object(&mut out, view, object, 1);
    }
    if !root.workers.is_empty() {
        out += &format!(
            "  across the machine{}\n",
            workers_note(&root, view.machine.allowed())
        );
    }
    if let Some(worker_placement) = &view.worker_placement {
        out += &placement(view, worker_placement);
    }
    out += &usable(view);
    if limits {
        for limit in view.budget.limits() {
            out += &format!("  {limit}: {}\n", counted(limit.workers, "worker"));
        }
    }
    out
}

fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Formats a count with its noun, for example `1 core` or `2 cores`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn summary(machine: &Machine) -> String {
    let mut counts = vec![
        counted(machine.online().len(), "PU"),
        counted(machine.cores_in(machine.online()), "core"),
    ];
    for (count, noun) in [
        (machine.packages().len(), "package"),
        (machine.dies().len(), "die"),
        (machine.numa_nodes().len(), "NUMA node"),
    ] {
        counts.extend((count > 0).then(|| counted(count, noun)));
    }
    let mut out = format!("{}\n", styled(BOLD, &counts.join(", ")));
    if !machine.siblings_known() {
        out += "  the machine does not report hardware threads, so each PU counts as a core\n";
    }
    if machine.kinds().len() > 1 {
        let mut sources: Vec<KindSource> = machine.kinds().iter().map(|kind| kind.source).collect();
        sources.sort_unstable();
        sources.dedup();
        let sources: Vec<&str> = sources.into_iter().map(source).collect();
        let sources = sources.join(" and ");
        out += &format!("  kinds of cores according to {sources}, the slowest first:\n");
        for kind in machine.kinds() {
            out += &kind_line(machine, kind);
        }
    }
    out
}

fn kind_line(machine: &Machine, kind: &Kind) -> String {
    format!(
        "    kind {}: {} on PUs {}\n",
        kind.rank,
        counted(machine.cores_in(&kind.pus), "core"),
        kind.pus
    )
}

fn source(source: KindSource) -> &'static str {
    match source {
        KindSource::Pmu => "the lists of the PMUs",
        KindSource::Capacity => "cpu_capacity",
        KindSource::Cppc => "the nominal performance of CPPC",
        KindSource::BaseFrequency => "the base frequency",
        KindSource::MaxFrequency => "the maximum frequency",
        KindSource::CppcHighest => "the highest performance of CPPC",
        KindSource::SharedCache => "the shared cache",
        KindSource::Description => "the description",
        KindSource::EfficiencyClass => "the efficiency classes of Windows",
        KindSource::PerformanceLevel => "the performance levels of macOS",
        _ => "an unknown source",
    }
}

fn draw_object(out: &mut String, view: &View, object: &Object, depth: usize) {
    let mut line = object.labels.join(" + ");
    if object.is_core {
        line += &kind_note(view, object);
    }
    if object.is_core || object.inside.is_empty() {
        line += &format!(": PU {}", object.pus);
    }
    let allowed = &object.pus & view.machine.allowed();
    if allowed.is_empty() {
        line = styled(DIM, &format!("{line} (not allowed)"));
    } else if object.is_core && allowed != object.pus {
        line += &styled(DIM, &format!(" (allowed: {allowed})"));
    }
    line += &workers_note(object, &allowed);
    *out += &format!("{}{line}\n", "  ".repeat(depth));
    for inner in &object.inside {
        draw_object(out, view, inner, depth + 1);
    }
}

fn kind_note(view: &View, object: &Object) -> String {
    let several = view.machine.kinds().len() > 1;
    object
        .kind
        .filter(|_| several)
        .map_or_else(String::new, |kind| format!(" (kind {kind})"))
}

/// Formats the workers of an object, for example `← workers 0-1,8`. If a worker may use only some
/// PUs of a core, the text names them.
fn workers_note(object: &Object, allowed: &CpuSet) -> String {
    let all_of_it = |pus: &CpuSet| pus == allowed || !object.is_core;
    let here = object.workers.iter().filter(|(_, pus)| all_of_it(pus));
    // The numbers of workers have the same list format as PUs, for example 0-3,8.
    let here: CpuSet = here.map(|(worker, _)| *worker).collect();
    let mut names = Vec::new();
    names.extend((!here.is_empty()).then(|| here.to_string()));
    let partly = object.workers.iter().filter(|(_, pus)| !all_of_it(pus));
    names.extend(partly.map(|(worker, pus)| format!("{worker} on PU {pus}")));
    if names.is_empty() {
        return String::new();
    }
    let noun = if object.workers.len() == 1 {
        "worker"
    } else {
        "workers"
    };
    styled(WORKER, &format!("  ← {noun} {}", names.join(", ")))
}

fn placement(view: &View, worker_placement: &WorkerPlacement) -> String {
    let workers = counted(worker_placement.layout.assigned().len(), "worker");
    if !worker_placement.layout.pinned() {
        return format!(
            "{workers}, unpinned: they may run on {}\n",
            view.machine.allowed()
        );
    }
    let wrapped = if worker_placement.layout.wrapped() {
        "; there are more workers than places, so some share one"
    } else {
        ""
    };
    format!(
        "{workers}, placed by {}{wrapped}\n",
        worker_placement.placement
    )
}

fn usable(view: &View) -> String {
    let allowed = view.machine.allowed();
    let mut out = String::new();
    if allowed != view.machine.online() {
        out += &format!("allowed: {allowed} of {}\n", view.machine.online());
    }
    let workers = counted(view.budget.workers(), "worker");
    out += &format!(
        "usable: {}, bound by {}\n",
        styled(BOLD, &workers),
        view.budget.bound_by()
    );
    for note in super::notes(&view.machine) {
        out += &format!("note: {note}\n");
    }
    out
}
