//! The machine for programs: JSON, and a row a PU as CSV. A field keeps its name and meaning.

use creel_topology::{CpuSet, Limit, Machine, NumaNode};
use serde::Serialize;

use super::{Seating, View};

/// The JSON document; sets are Linux CPU lists.
#[derive(Serialize)]
pub(super) struct Document {
    schema: u32,
    pus: String,
    online: String,
    allowed: String,
    cores: Vec<String>,
    packages: Vec<String>,
    dies: Vec<String>,
    l1: Vec<String>,
    l2: Vec<String>,
    l3: Vec<String>,
    l4: Vec<String>,
    numa: Vec<Node>,
    kinds: Vec<Kind>,
    budget: Budget,
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<Placement>,
}

#[derive(Serialize)]
struct Node {
    id: usize,
    cpus: String,
    /// False for memory without PUs; `cpus` are then those nearest to it.
    has_cpus: bool,
    memory_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Kind {
    rank: usize,
    efficiency: usize,
    cpus: String,
}

#[derive(Serialize)]
struct Budget {
    workers: usize,
    bound_by: String,
    limits: Vec<LimitRow>,
}

#[derive(Serialize)]
struct LimitRow {
    kind: &'static str,
    path: String,
    value: String,
    workers: usize,
}

#[derive(Serialize)]
struct Placement {
    policy: String,
    workers: usize,
    wrapped: bool,
    seats: Vec<String>,
}

impl Document {
    pub(super) fn new(view: &View) -> Document {
        let machine = &view.machine;
        let cores = machine.cores().iter().filter(|_| machine.siblings_told());
        Document {
            schema: 1,
            pus: machine.online().to_string(),
            online: machine.online().to_string(),
            allowed: machine.allowed().to_string(),
            cores: lists(cores.map(|core| &core.pus)),
            packages: lists(machine.packages().iter().map(|package| &package.pus)),
            dies: lists(machine.dies().iter().map(|die| &die.pus)),
            l1: caches(machine, 1),
            l2: caches(machine, 2),
            l3: caches(machine, 3),
            l4: caches(machine, 4),
            numa: machine.numa_nodes().iter().map(node).collect(),
            kinds: kinds(machine),
            budget: budget(&view.budget),
            placement: view.seating.as_ref().map(placement),
        }
    }
}

fn lists<'a>(sets: impl Iterator<Item = &'a CpuSet>) -> Vec<String> {
    sets.map(CpuSet::to_string).collect()
}

fn caches(machine: &Machine, level: u8) -> Vec<String> {
    lists(machine.caches_at(level).map(|cache| &cache.pus))
}

fn node(node: &NumaNode) -> Node {
    Node {
        id: node.os_index,
        cpus: node.pus.to_string(),
        has_cpus: node.has_pus,
        memory_bytes: node.memory_bytes,
    }
}

fn kinds(machine: &Machine) -> Vec<Kind> {
    let kind = |kind: &creel_topology::Kind| Kind {
        rank: kind.rank,
        efficiency: kind.rank,
        cpus: kind.pus.to_string(),
    };
    machine.kinds().iter().map(kind).collect()
}

fn budget(budget: &creel_topology::Budget) -> Budget {
    let row = |limit: &Limit| LimitRow {
        kind: limit.kind.name(),
        path: limit.path.clone(),
        value: limit.value.clone(),
        workers: limit.workers,
    };
    Budget {
        workers: budget.workers(),
        bound_by: budget.bound_by().to_string(),
        limits: budget.limits().iter().map(row).collect(),
    }
}

fn placement(seating: &Seating) -> Placement {
    Placement {
        policy: seating.placement.to_string(),
        workers: seating.layout.seats().len(),
        wrapped: seating.layout.wrapped(),
        seats: lists(seating.layout.seats().iter()),
    }
}

/// One PU; objects by logical index, PUs and nodes also by the system's.
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

/// A row a PU, in logical order.
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
        .seating
        .iter()
        .flat_map(|seating| seating.layout.seats().iter().enumerate());
    let here: Vec<String> = workers
        .filter(|(_, seat)| seat.contains(pu))
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
