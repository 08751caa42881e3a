//! The JSON documents of the programs: a version, the machine, the budget and the program's own
//! fields.
//!
//! - A field keeps its name and its meaning. If a meaning has to change, we raise [`SCHEMA`].
//! - A CPU set is a string in Linux list syntax, for example "0-3,8".
//! - A list of CPU sets has no particular order. It is empty if the machine does not report the
//!   level.

use creel_topology::{Budget, CpuSet, Limit, Machine};
use serde::Serialize;

/// The version of the format of all documents.
pub const SCHEMA: u32 = 1;

/// A JSON document. The fields of `body`, which are the program's own, are on the same level as
/// `machine` and `budget`.
///
/// ```
/// use creel_console::document::Document;
/// use creel_topology::{Budget, Machine};
///
/// #[derive(serde::Serialize)]
/// struct Body {
///     songs: u32,
/// }
///
/// let machine = Machine::synthetic("core:4 pu:2")?;
/// let document = Document::new(&machine, &Budget::of(&machine), Body { songs: 61 });
/// let json = serde_json::to_value(&document)?;
/// assert_eq!(json["schema"], 1);
/// assert_eq!(json["budget"]["workers"], 4);
/// assert_eq!(json["machine"]["allowed"], "0-7");
/// assert_eq!(json["songs"], 61);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document<B> {
    schema: u32,
    machine: MachineFields,
    budget: BudgetFields,
    #[serde(flatten)]
    body: B,
}

impl<B: Serialize> Document<B> {
    /// Creates a document of the current schema. `body` must be a struct.
    pub fn new(machine: &Machine, budget: &Budget, body: B) -> Self {
        Document {
            schema: SCHEMA,
            machine: machine.into(),
            budget: budget.into(),
            body,
        }
    }
}

/// The fields of a machine.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineFields {
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
    numa: Vec<NodeFields>,
    kinds: Vec<KindFields>,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct NodeFields {
    id: usize,
    cpus: String,
    /// Whether the node has PUs of its own. If not, `cpus` are the nearest ones.
    has_cpus: bool,
    memory_bytes: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct KindFields {
    rank: usize,
    efficiency: usize,
    cpus: String,
}

impl From<&Machine> for MachineFields {
    fn from(machine: &Machine) -> Self {
        let caches = |level| lists(machine.caches_at(level).map(|cache| &cache.pus));
        let cores = machine.cores().iter().filter(|_| machine.siblings_known());
        MachineFields {
            pus: machine.online().to_string(),
            online: machine.online().to_string(),
            allowed: machine.allowed().to_string(),
            cores: lists(cores.map(|core| &core.pus)),
            packages: lists(machine.packages().iter().map(|package| &package.pus)),
            dies: lists(machine.dies().iter().map(|die| &die.pus)),
            l1: caches(1),
            l2: caches(2),
            l3: caches(3),
            l4: caches(4),
            numa: nodes(machine),
            kinds: kinds(machine),
        }
    }
}

fn lists<'a>(sets: impl Iterator<Item = &'a CpuSet>) -> Vec<String> {
    sets.map(CpuSet::to_string).collect()
}

fn nodes(machine: &Machine) -> Vec<NodeFields> {
    let nodes = machine.numa_nodes().iter().map(|node| NodeFields {
        id: node.os_index,
        cpus: node.pus.to_string(),
        has_cpus: node.has_pus,
        memory_bytes: node.memory_bytes,
    });
    nodes.collect()
}

fn kinds(machine: &Machine) -> Vec<KindFields> {
    let kinds = machine.kinds().iter().map(|kind| KindFields {
        rank: kind.rank,
        efficiency: kind.rank,
        cpus: kind.pus.to_string(),
    });
    kinds.collect()
}

/// The fields of a budget.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetFields {
    workers: usize,
    bound_by: String,
    limits: Vec<LimitFields>,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct LimitFields {
    kind: &'static str,
    path: String,
    value: String,
    workers: usize,
}

impl From<&Budget> for BudgetFields {
    fn from(budget: &Budget) -> Self {
        let limit = |limit: &Limit| LimitFields {
            kind: limit.kind.name(),
            path: limit.path.clone(),
            value: limit.value.clone(),
            workers: limit.workers,
        };
        BudgetFields {
            workers: budget.workers(),
            bound_by: budget.bound_by().to_string(),
            limits: budget.limits().iter().map(limit).collect(),
        }
    }
}
