//! Haskell programs: capabilities and allocation areas, as arguments of GHC's runtime.

use super::{Advice, Sizing};
use crate::run::{
    ghc::{Capabilities, Ghc, RtsOpts},
    knob::Knob,
};

pub fn advise(linked: Ghc, size: &Sizing) -> Advice {
    let advice = Advice::default();
    if !linked.threaded {
        return advice.note(
            "this will not help: a program with GHC's non-threaded runtime has one capability",
        );
    }
    let advice = capabilities(advice, linked, size);
    let advice = advice.note_if(
        linked.pins,
        "its own -qa pins each capability to a CPU: several such programs share one",
    );
    let Some(mib) = area(linked, size).filter(|&mib| mib >= 2 && !linked.sizes_memory) else {
        return advice;
    };
    let takes_it = linked.rtsopts == RtsOpts::All && size.takes_arguments;
    if size.gc && takes_it {
        return advice.set_knob(
            rts(format!("-A{mib}m"), &["-A", "-M", "-H"]),
            "the allocation area: a worker's share of the last-level cache, and all areas together \
             at most a quarter of the memory",
        );
    }
    advice.note_if(
        size.gc || !takes_it,
        format!(
            "advice: an allocation area as large as a worker's share of the last-level cache \
             makes collections rarer: +RTS -A{mib}m, for which it must be linked with -rtsopts"
        ),
    )
}

/// The part of the memory that all allocation areas may take: what survives a collection is
/// copied, so a live heap needs twice its size beside them.
const AREAS: u64 = 4;

/// The allocation area of a capability, in MiB.
fn area(linked: Ghc, size: &Sizing) -> Option<u64> {
    let own = match linked.own {
        Capabilities::Fixed(n) => n,
        _ => 1,
    };
    // More than these only where the program or the user asks for more than it gets from us.
    let capabilities = own.max(size.floor()).max(size.pus).max(1) as u64;
    let room = size.room_bytes.map(|bytes| bytes / AREAS / capabilities);
    Some(size.cache_bytes?.min(room.unwrap_or(u64::MAX)) >> 20)
}

/// Options of GHC's runtime go as arguments, which children do not inherit: a program with the
/// non-threaded runtime ends with an error when `GHCRTS` says `-N`.
fn rts(option: String, marks: &'static [&'static str]) -> Knob {
    Knob {
        between: Some(("+RTS", "-RTS")),
        ..Knob::argument(format!("+RTS {option} -RTS"), marks)
    }
    .or_in(&["GHCRTS"])
}

fn capabilities(advice: Advice, linked: Ghc, size: &Sizing) -> Advice {
    let own = match linked.own {
        Capabilities::One => 1,
        Capabilities::Machine => size.pus,
        Capabilities::Fixed(n) => n,
    };
    let n = match size.explicit {
        Some(n) => n,
        // What the program chose itself is not raised.
        None => size.floor.min(own),
    };
    let ignored_options = match linked.rtsopts {
        RtsOpts::IgnoreAll => Some("ignoreAll"),
        RtsOpts::None => Some("none"),
        RtsOpts::Some | RtsOpts::All | RtsOpts::Unknown => None,
    };
    if n == own {
        let choice = if linked.own == Capabilities::One {
            "it is linked without -N, so it has one capability; --jobs gives it more".into()
        } else {
            format!("this will not help: it comes to {own} by itself; it is left alone")
        };
        advice.note(choice)
    } else if let Some(ignored_options) = ignored_options {
        advice.note(format!(
            "linked with -rtsopts={ignored_options}: it takes no options; --cpu-list gives it a mask, which \
             its own -N obeys"
        ))
    } else if linked.rtsopts == RtsOpts::Unknown {
        advice.note(
            "it is stripped and does not tell whether it takes options, so it is given none; \
             --cpu-list or --shim change what its own -N sees",
        )
    } else if linked.rtsopts == RtsOpts::Some && n > size.pus {
        advice.note(format!(
            "linked without -rtsopts it refuses more capabilities than its mask has CPUs ({})",
            size.pus
        ))
    } else if size.exported {
        advice.note(format!(
            "variables do not carry it, for a child without threads would end at GHCRTS=-N{n}: start \
             it with +RTS -N{n} -RTS, or with `creel run --` before it"
        ))
    } else if !size.takes_arguments {
        advice.note(
            "a script starts it, so it cannot be given arguments: put `creel run --` before the \
             program inside",
        )
    } else {
        advice.set_knob(
            rts(format!("-N{n}"), &["-N", "-maxN"]),
            "capabilities; GHC's own -N sees the mask and no quota",
        )
    }
}
