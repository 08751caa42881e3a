//! The machine as one tree of nested objects, for the drawings.
//!
//! Objects with the same PUs are one node with several labels, for example `package 0 + L3 8 MiB`.
//! An object whose PUs overlap with those of another is a child of the smallest object that
//! contains all of its PUs.

use creel_topology::{Cache, CacheKind, Core, CpuSet, Machine, NumaNode};

use super::View;

/// An object and the objects inside it.
#[derive(Clone, Debug)]
pub struct Object {
    /// The names of the object. There are several if several objects have the same PUs.
    pub labels: Vec<String>,
    /// The online PUs of the object.
    pub pus: CpuSet,
    /// The rank of the kind of the core, if the object is a core and its kind is known.
    pub kind: Option<usize>,
    /// Whether the object is a core.
    pub is_core: bool,
    /// The workers for which this is the smallest object that contains all of their PUs. Each entry
    /// is the number of a worker and its PUs.
    pub workers: Vec<(usize, CpuSet)>,
    /// The objects inside, in logical order.
    pub inside: Vec<Object>,
}

impl Object {
    fn new(label: String, pus: CpuSet) -> Object {
        Object {
            labels: vec![label],
            pus,
            kind: None,
            is_core: false,
            workers: Vec::new(),
            inside: Vec::new(),
        }
    }

    /// Inserts an object at its place inside this one. Larger objects must be inserted first.
    fn insert(&mut self, object: Object) {
        match self
            .inside
            .iter_mut()
            .find(|inner| object.pus.is_subset(&inner.pus))
        {
            Some(same) if object.pus == same.pus => {
                same.labels.extend(object.labels);
                same.kind = object.kind;
                same.is_core = object.is_core;
            }
            Some(wider) => wider.insert(object),
            None => self.inside.push(object),
        }
    }

    /// Sorts the objects inside into logical order.
    fn sort(&mut self, logical: &[usize]) {
        let place = |object: &Object| logical.iter().position(|pu| object.pus.contains(*pu));
        self.inside.sort_by_cached_key(place);
        self.inside.iter_mut().for_each(|inner| inner.sort(logical));
    }

    /// Returns the smallest object that contains all of `pus`.
    fn holder(&mut self, pus: &CpuSet) -> &mut Object {
        match self
            .inside
            .iter()
            .position(|inner| pus.is_subset(&inner.pus))
        {
            Some(inner) => self.inside[inner].holder(pus),
            None => self,
        }
    }
}

/// Returns the tree of the objects of the machine, with the workers on their PUs.
pub fn of(view: &View) -> Object {
    let machine = &view.machine;
    let mut root = Object::new("machine".into(), machine.online().clone());
    let mut objects = objects(machine);
    objects.sort_by_key(|object| std::cmp::Reverse(object.pus.len()));
    objects.into_iter().for_each(|object| root.insert(object));
    root.sort(machine.pus());
    for node in machine.numa_nodes().iter().filter(|node| !node.has_pus) {
        root.holder(&node.pus).labels.push(node_label(node));
    }
    if let Some(worker_placement) = &view.worker_placement {
        for (worker, pus) in worker_placement
            .layout
            .assigned()
            .iter()
            .enumerate()
            .filter(|_| worker_placement.layout.pinned())
        {
            root.holder(pus).workers.push((worker, pus.clone()));
        }
    }
    root
}

/// Returns all objects except the machine. The objects of a level are in logical order. Of two
/// objects with the same PUs, the outer one comes first.
fn objects(machine: &Machine) -> Vec<Object> {
    let number = |os_index: Option<usize>, logical: usize| os_index.unwrap_or(logical);
    let mut objects = Vec::new();
    for (i, package) in machine.packages().iter().enumerate() {
        objects.push(Object::new(
            format!("package {}", number(package.os_index, i)),
            package.pus.clone(),
        ));
    }
    for node in machine.numa_nodes().iter().filter(|node| node.has_pus) {
        objects.push(Object::new(node_label(node), node.pus.clone()));
    }
    for (i, die) in machine.dies().iter().enumerate() {
        objects.push(Object::new(
            format!("die {}", number(die.os_index, i)),
            die.pus.clone(),
        ));
    }
    let mut caches: Vec<&Cache> = machine.caches().iter().collect();
    caches.sort_by_key(|cache| std::cmp::Reverse(cache.level));
    objects.extend(
        caches
            .into_iter()
            .map(|cache| Object::new(cache_label(cache), cache.pus.clone())),
    );
    objects.extend(
        machine
            .cores()
            .iter()
            .enumerate()
            .filter_map(|(i, core)| core_object(machine, i, core)),
    );
    objects
}

/// Returns the object of a core with its online PUs, or `None` if all its PUs are offline.
fn core_object(machine: &Machine, logical: usize, core: &Core) -> Option<Object> {
    let pus = &core.pus & machine.online();
    let label = format!("core {logical}");
    (!pus.is_empty()).then(|| Object {
        kind: core.kind,
        is_core: true,
        ..Object::new(label, pus)
    })
}

fn node_label(node: &NumaNode) -> String {
    let mut notes = Vec::new();
    notes.extend(node.memory_bytes.map(bytes));
    if !node.has_pus {
        notes.push("no PUs of its own".into());
    }
    let notes = if notes.is_empty() {
        String::new()
    } else {
        format!(" ({})", notes.join(", "))
    };
    format!("NUMA node {}{notes}", node.os_index)
}

fn cache_label(cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        _ => "",
    };
    let size = cache
        .size_bytes
        .map(|size| format!(" {}", bytes(size)))
        .unwrap_or_default();
    format!("L{}{kind}{size}", cache.level)
}

/// Formats a size in the largest unit in which it is at least one. A number below ten has one
/// decimal, unless this decimal is 0.
fn bytes(size: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (size.max(1).ilog2() / 10).min(units.len() as u32 - 1);
    let tenths = (size as f64 / (1u64 << (10 * unit)) as f64 * 10.0).round();
    let whole = tenths >= 100.0 || tenths % 10.0 == 0.0;
    format!(
        "{:.*} {}",
        usize::from(!whole),
        tenths / 10.0,
        units[unit as usize]
    )
}
