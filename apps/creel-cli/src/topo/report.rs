//! The machine as JSON, and as CSV with one row per PU. A field keeps its name and its meaning in
//! later versions.

use creel_console::document::{BudgetFields, MachineFields, SCHEMA};
use creel_console::machine::{View, WorkerPlacement};
use creel_topology::{CpuSet, Machine};
use serde::Serialize;

/// The JSON document, with the fields of the machine on the outermost level.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Document {
    schema: u32,
    #[serde(flatten)]
    machine: MachineFields,
    /// The PUs of cores that are offline. A core without online PUs is not usable.
    offline: String,
    budget: BudgetFields,
    /// The smallest memory limit that the machine reports, in bytes.
    memory_bytes: Option<u64>,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<PlacementFields>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlacementFields {
    policy: String,
    workers: usize,
    wrapped: bool,
    places: Vec<String>,
}

impl Document {
    pub(super) fn new(view: &View) -> Document {
        Document {
            schema: SCHEMA,
            machine: (&view.machine).into(),
            offline: offline(&view.machine).to_string(),
            budget: (&view.budget).into(),
            memory_bytes: view
                .machine
                .memory_limit()
                .and_then(|m| m.value.parse().ok()),
            notes: super::notes(&view.machine).collect(),
            placement: view.worker_placement.as_ref().map(PlacementFields::from),
        }
    }
}

/// Returns the offline PUs. Some kernels still report the core of an offline PU.
fn offline(machine: &Machine) -> CpuSet {
    let cores = machine.cores().iter();
    let all = cores.fold(CpuSet::new(), |all, core| &all | &core.pus);
    &all - machine.online()
}

impl From<&WorkerPlacement> for PlacementFields {
    fn from(worker_placement: &WorkerPlacement) -> PlacementFields {
        let assigned = worker_placement.layout.assigned();
        PlacementFields {
            policy: worker_placement.placement.to_string(),
            workers: assigned.len(),
            wrapped: worker_placement.layout.wrapped(),
            places: assigned.iter().map(CpuSet::to_string).collect(),
        }
    }
}

/// One PU. Objects have logical indices. PUs and NUMA nodes have the numbers of the system.
#[derive(Serialize)]
pub(super) struct Row {
    logical: usize,
    pu: usize,
    core: Option<usize>,
    package: Option<usize>,
    die: Option<usize>,
    node: Option<usize>,
    l2: Option<usize>,
    l3: Option<usize>,
    kind: Option<usize>,
    allowed: bool,
    workers: String,
}

/// Returns one row per PU, in logical order.
pub(super) fn rows(view: &View) -> impl Iterator<Item = Row> {
    view.machine
        .pus()
        .iter()
        .enumerate()
        .map(|(logical, &pu)| row(view, logical, pu))
}

fn row(view: &View, logical: usize, pu: usize) -> Row {
    let machine = &view.machine;
    let mut own_nodes = machine.numa_nodes().iter().filter(|node| node.has_pus);
    let workers = view
        .worker_placement
        .iter()
        .flat_map(|worker_placement| worker_placement.layout.assigned().iter().enumerate());
    let here: Vec<String> = workers
        .filter(|(_, pus)| pus.contains(pu))
        .map(|(worker, _)| worker.to_string())
        .collect();
    Row {
        logical,
        pu,
        core: machine
            .cores()
            .iter()
            .position(|core| core.pus.contains(pu)),
        package: machine
            .packages()
            .iter()
            .position(|package| package.pus.contains(pu)),
        die: machine.dies().iter().position(|die| die.pus.contains(pu)),
        node: own_nodes
            .find(|node| node.pus.contains(pu))
            .map(|node| node.os_index),
        l2: machine
            .caches_at(2)
            .position(|cache| cache.pus.contains(pu)),
        l3: machine
            .caches_at(3)
            .position(|cache| cache.pus.contains(pu)),
        kind: machine
            .kinds()
            .iter()
            .position(|kind| kind.pus.contains(pu)),
        allowed: machine.allowed().contains(pu),
        workers: here.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-topo", schemars::schema_for!(Document));
    }
}
