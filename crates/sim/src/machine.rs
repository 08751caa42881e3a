//! Machines as data: a topology in the notation of `creel topo`, and a table of latencies.
//!
//! The latencies between cores come from the tables of
//! <https://github.com/nviennot/core-to-core-latency>, abbreviated *C2C* below. They are medians of
//! one-way messages by compare-and-exchange between two pinned threads. If that source does not
//! have a machine, we use the nearest relative and say so.
//!
//! The costs of system calls, wake-ups and context switches depend on the kernel more than on the
//! processor. The sources are named at [`LINUX`].

/// The names of the machines that [`Machine::named`] knows.
pub const NAMES: [&str; 7] = [
    "ryzen-3900x",
    "i9-10850k",
    "i7-4-core-smt",
    "epyc-2x96",
    "xeon-2x64",
    "graviton4",
    "apple-m",
];

/// A machine: its shape and its latencies.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The name, for reports.
    pub name: String,
    /// The shape, in the notation of `creel topo --synthetic`, for example `package:2 core:4 pu:2`.
    pub topology: String,
    /// The costs of all steps.
    pub costs: Costs,
}

/// The costs of a machine's steps, in nanoseconds unless a field says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// A load or a buffered store that hits the core's own cache.
    pub hit: u64,
    /// An atomic read-modify-write of a cache line that the core owns.
    pub rmw: u64,
    /// The ordinary instructions before an atomic access, in picoseconds.
    pub code_ps: u64,
    /// An access to a cache line that the other hardware thread of the same core wrote last.
    pub same_core: u64,
    /// A transfer of a cache line from a core with the same L3 cache.
    pub same_l3: u64,
    /// A transfer of a cache line from a core of the same package with a different L3 cache.
    pub same_package: u64,
    /// A transfer of a cache line from another package.
    pub other_package: u64,
    /// A load from memory.
    pub memory: u64,
    /// The time for which a cache line that several cores share is busy while it serves one more
    /// reader. The next reader has to wait for that time.
    pub read_gap: u64,
    /// 1 if a cache line that another core has modified moves to the core that reads it. The reader
    /// can then write it without a further transfer, and the other core has lost it. 0 if both
    /// cores have a copy after the read.
    pub migrates: u64,
    /// The number of cache lines that a core can fetch at the same time.
    pub streams: u64,
    /// The number of stores that a core can buffer.
    pub stores: u64,
    /// The instruction that a spin executes between two checks.
    pub pause: u64,
    /// One reading of the clock.
    pub clock: u64,
    /// A system call that finds nothing to do, for example a futex wake without a sleeper.
    pub syscall: u64,
    /// The part of a futex wait before the PU is free for another thread.
    pub sleep: u64,
    /// A futex wake that wakes a thread, as the waker sees it.
    pub wake: u64,
    /// The time from the end of the wake until the thread runs, on a PU that became idle recently.
    pub idle_exit: u64,
    /// The idle time after which a PU enters a deep state.
    pub deep_after: u64,
    /// The time from the end of the wake until the thread runs, on a PU in a deep state. It is used
    /// instead of `idle_exit`.
    pub deep_exit: u64,
    /// A switch from one thread to another on the same PU.
    pub switch: u64,
    /// The start of a thread, as its parent sees it.
    pub spawn: u64,
    /// The delay between a time-out and the moment when the system reacts.
    pub timer: u64,
    /// The time for which a thread runs before others on the same PU have a turn.
    pub quantum: u64,
    /// The speed of a hardware thread whose sibling is busy, in percent of its speed while the
    /// sibling is idle.
    pub smt_percent: u64,
}

/// The costs that depend on Linux, on a desktop processor of about 4 GHz.
///
/// - `pause`: 140 cycles since Skylake. Source: Intel 64 and IA-32 Architectures Optimization
///   Reference Manual, chapter "Pause Latency in Skylake Client Microarchitecture".
/// - `hit` and `rmw`: 4 to 5 and about 18 cycles. Source: Agner Fog, "Instruction tables", entries
///   for `MOV r,m` and `LOCK XADD`.
/// - `quantum`: the base slice of EEVDF, 3 ms from 8 CPUs on. Source: `kernel/sched/fair.c`.
/// - `deep_exit` and `deep_after`: exit latency and target residency of C6. Source:
///   `drivers/idle/intel_idle.c`, table `skl_cstates` (C6: exit 85 µs, residency 200 µs).
/// - `timer`: the default timer slack of a thread. Source: prctl(2), `PR_SET_TIMERSLACK`.
/// - `streams`: the line fill buffers of a core, 10 to 16. Source: the same Intel manual, "Cache
///   and Memory Subsystem".
/// - `stores`: the store buffer of Skylake. Source: the same manual, table "Skylake client
///   microarchitecture buffer sizes". Later cores have larger ones.
/// - `code_ps`: 0, because we only calibrate it for the machine that `creel-here` measures.
/// - `migrates`: 0, because we do not know which of these processors do it.
/// - `smt_percent`: 60, an estimate that we did not verify. It depends on the code.
/// - `syscall`, `sleep`, `wake`, `idle_exit`, `switch`, `spawn`, `clock`: estimates of the usual
///   order of magnitude. We did not find a source with all of them on one machine.
const LINUX: Costs = Costs {
    hit: 1,
    rmw: 5,
    code_ps: 0,
    same_core: 7,
    same_l3: 21,
    same_package: 21,
    other_package: 110,
    memory: 80,
    read_gap: 4,
    migrates: 0,
    streams: 10,
    stores: 56,
    pause: 35,
    clock: 20,
    syscall: 150,
    sleep: 900,
    wake: 1_200,
    idle_exit: 2_000,
    deep_after: 200_000,
    deep_exit: 85_000,
    switch: 1_200,
    spawn: 12_000,
    timer: 50_000,
    quantum: 3_000_000,
    smt_percent: 60,
};

impl Costs {
    /// Returns the cost with this name, which is that of its field.
    fn named(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "hit" => &mut self.hit,
            "rmw" => &mut self.rmw,
            "same_core" => &mut self.same_core,
            "same_l3" => &mut self.same_l3,
            "same_package" => &mut self.same_package,
            "other_package" => &mut self.other_package,
            "memory" => &mut self.memory,
            "migrates" => &mut self.migrates,
            "pause" => &mut self.pause,
            "clock" => &mut self.clock,
            "syscall" => &mut self.syscall,
            "sleep" => &mut self.sleep,
            "wake" => &mut self.wake,
            "idle_exit" => &mut self.idle_exit,
            "deep_exit" => &mut self.deep_exit,
            "switch" => &mut self.switch,
            "spawn" => &mut self.spawn,
            "timer" => &mut self.timer,
            "smt_percent" => &mut self.smt_percent,
            _ => return None,
        })
    }
}

impl Machine {
    /// Returns the machine that `creel-here` has measured. Costs that it does not measure are those
    /// of [`LINUX`].
    ///
    /// # Errors
    ///
    /// Returns a message if a line is not valid, or if the topology is missing.
    pub fn measured(text: &str) -> Result<Self, String> {
        let (mut topology, mut costs) = (None, LINUX);
        for line in text.lines() {
            if let Some(shape) = line.strip_prefix("topology ") {
                topology = Some(shape.into());
            } else if let Some(cost) = line.strip_prefix("cost ") {
                let invalid = || format!("not a cost: {line}");
                let (name, ns) = cost.split_once(' ').ok_or_else(invalid)?;
                let place = costs.named(name).ok_or_else(invalid)?;
                *place = ns.parse().map_err(|_| invalid())?;
            }
        }
        Ok(Self {
            name: "here".into(),
            topology: topology.ok_or("the topology is missing")?,
            costs,
        })
    }

    /// Returns a machine by its name, or `None` if the name is unknown.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (topology, costs) = match name {
            // This Zen 2 processor has 4 L3 caches with 3 cores each. C2C lists the Threadripper
            // 3960X, which has the same cores: 24 ns within an L3 cache, 94 ns between two of them,
            // and 6.5 ns between hyper-threads. According to Agner Fog's tables, `pause` takes
            // about 65 cycles on Zen 2.
            "ryzen-3900x" => (
                "package:1 l3:4 core:3 pu:2",
                Costs {
                    same_core: 7,
                    same_l3: 24,
                    same_package: 94,
                    pause: 16,
                    ..LINUX
                },
            ),
            // Comet Lake has one ring, which connects 10 cores here. C2C lists two relatives: the
            // i5-10310U takes 21 ns, and 7.3 ns between hyper-threads. The i9-9900K, which has the
            // same ring with 8 cores, takes 21 ns as well.
            "i9-10850k" => ("package:1 l3:1 core:10 pu:2", Costs { ..LINUX }),
            // According to C2C, the i7-6700K takes 20 ns, and 6.9 ns between hyper-threads.
            "i7-4-core-smt" => (
                "package:1 l3:1 core:4 pu:2",
                Costs {
                    same_l3: 20,
                    same_package: 20,
                    ..LINUX
                },
            ),
            // Each package has 12 L3 caches with 8 cores each. C2C lists only the generation
            // before, Milan, which has 8 cores in each L3 cache as well. The EPYC 7R13 takes 23 ns
            // within an L3 cache, 107 ns within a package, 197 ns to the other package, and 9.8 ns
            // between hyper-threads. Therefore this is a large machine with the latencies of the
            // generation before. We leave out the second hardware thread of each core.
            "epyc-2x96" => (
                "package:2 l3:12 core:8 pu:1",
                Costs {
                    same_core: 10,
                    same_l3: 23,
                    same_package: 107,
                    other_package: 197,
                    memory: 110,
                    pause: 16,
                    ..LINUX
                },
            ),
            // Each package has one mesh. According to C2C, the Xeon Platinum 8375C takes 51 ns
            // within a package, 108 ns to the other package, and 8.1 ns between hyper-threads.
            "xeon-2x64" => (
                "package:2 l3:1 core:64 pu:1",
                Costs {
                    same_core: 8,
                    same_l3: 51,
                    same_package: 51,
                    other_package: 108,
                    memory: 100,
                    pause: 45,
                    ..LINUX
                },
            ),
            // All 96 cores are on one mesh. C2C lists the generations before: Graviton 3 takes
            // 46 ns, and Graviton 2 takes 47 ns. The instruction for pausing is `isb`, for which we
            // assume 15 ns.
            "graviton4" => (
                "package:1 l3:1 core:96 pu:1",
                Costs {
                    same_l3: 46,
                    same_package: 46,
                    memory: 110,
                    pause: 15,
                    ..LINUX
                },
            ),
            // The cores form clusters with a common L2 cache, which we describe as an L3 cache.
            // According to C2C, the M1 Pro takes 40 ns inside a cluster and 145 ns between
            // clusters. We leave out the efficiency cores. The costs of the system are those of
            // Linux, because we have no others.
            "apple-m" => (
                "package:1 l3:2 core:4 pu:1",
                Costs {
                    same_l3: 40,
                    same_package: 145,
                    memory: 100,
                    pause: 15,
                    ..LINUX
                },
            ),
            _ => return None,
        };
        Some(Self {
            name: name.into(),
            topology: topology.into(),
            costs,
        })
    }
}
