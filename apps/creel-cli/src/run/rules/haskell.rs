//! The rules for Haskell programs. They set capabilities and allocation areas, as arguments of
//! GHC's runtime.

use super::{Advice, Sizing};
use crate::run::{
    ghc::{Capabilities, Ghc, RtsOpts},
    knob::Knob,
};

pub fn advise(linked: Ghc, size: &Sizing) -> Advice {
    let advice = Advice::default();
    if !linked.threaded {
        return advice.note(
            "creel run does not help here: a program with GHC's non-threaded runtime has one \
             capability",
        );
    }
    let advice = capabilities(advice, linked, size);
    let advice = advice.note_if(
        linked.pins,
        "the option -qa pins each capability to a CPU, so several such programs would share CPUs",
    );
    let Some(mib) = area(linked, size).filter(|&mib| mib >= 2 && !linked.sizes_memory) else {
        return advice;
    };
    let takes_it = linked.rtsopts == RtsOpts::All && size.takes_arguments;
    if size.gc && takes_it {
        return advice.set_knob(
            rts(format!("-A{mib}m"), &["-A", "-M", "-H"]),
            "allocation area: one last-level cache divided by the number of workers; all areas \
             together use at most 25 % of the memory",
        );
    }
    advice.note_if(
        size.gc || !takes_it,
        format!(
            "advice: link the program with -rtsopts and use +RTS -A{mib}m: with an allocation area \
             as large as a worker's share of one last-level cache, it collects less often. Measure \
             it, because a virtual machine may report a cache that it shares with others"
        ),
    )
}

/// The part of the memory that all allocation areas together may use, as a divisor. The rest is for
/// the live heap. It needs twice its size, because a collection copies the objects that survive.
const AREAS: u64 = 4;

/// Returns the size of the allocation area of one capability, in MiB.
fn area(linked: Ghc, size: &Sizing) -> Option<u64> {
    let own = match linked.own {
        Capabilities::Fixed(n) => n,
        _ => 1,
    };
    // The largest number of capabilities that the program may have: its own number, the one that we
    // set, or one per PU.
    let capabilities = own.max(size.floor()).max(size.pus).max(1) as u64;
    let room = size.room_bytes.map(|bytes| bytes / AREAS / capabilities);
    Some(size.cache_bytes?.min(room.unwrap_or(u64::MAX)) >> 20)
}

/// Returns an option of GHC's runtime as an argument, because children do not inherit arguments.
/// They would inherit `GHCRTS`, and a child with the non-threaded runtime fails if it contains
/// `-N`.
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
        // We do not raise the number that the program chose itself.
        None => size.floor.min(own),
    };
    let ignored_options = match linked.rtsopts {
        RtsOpts::IgnoreAll => Some("ignoreAll"),
        RtsOpts::None => Some("none"),
        RtsOpts::Some | RtsOpts::All | RtsOpts::Unknown => None,
    };
    if n == own {
        let choice = if linked.own == Capabilities::One {
            "the program is linked without -N, so it has one capability: use --jobs for more".into()
        } else {
            format!(
                "creel run does not help here: the program chooses {own} by itself, so creel changes nothing"
            )
        };
        advice.note(choice)
    } else if let Some(ignored_options) = ignored_options {
        advice.note(format!(
            "the program is linked with -rtsopts={ignored_options}, so it accepts no options: use \
             --cpu-list to give it a mask, which its own -N obeys"
        ))
    } else if linked.rtsopts == RtsOpts::Unknown {
        advice.note(
            "the program is stripped, so creel cannot see whether it accepts options, and sets \
             none: use --cpu-list or --shim to change the number of CPUs that its own -N sees",
        )
    } else if linked.rtsopts == RtsOpts::Some && n > size.pus {
        advice.note(format!(
            "the program is linked without -rtsopts, so it rejects more capabilities than its mask has CPUs ({})",
            size.pus
        ))
    } else if size.exported {
        advice.note(format!(
            "creel exports no variable, because a child without threads would fail with \
             GHCRTS=-N{n}: start the program with +RTS -N{n} -RTS, or with `creel run --`"
        ))
    } else if !size.takes_arguments {
        advice.note(
            "a script starts the program, so creel cannot add arguments: put `creel run --` before \
             the program in the script",
        )
    } else {
        advice.set_knob(
            rts(format!("-N{n}"), &["-N", "-maxN"]),
            "number of capabilities; GHC's own -N sees the mask but no quota",
        )
    }
}
