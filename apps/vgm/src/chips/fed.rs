//! Writes of chips that a CPU feeds sample by sample: thousands a second, each of which would cut a
//! chip's block and cost more on its way there than what it does. They are handed over with the
//! block instead, and the chip cuts it.

/// A write, and the frame of a block before which it takes effect.
#[derive(Debug, Clone, Copy)]
pub struct Fed {
    /// No lower than that of the write before.
    pub place: u32,
    /// The register.
    pub reg: u16,
    /// The value.
    pub value: u16,
}

/// Overwrites `out` with a chip's next frames, between which it takes these writes.
#[inline]
pub fn feed<C: ?Sized>(
    chip: &mut C,
    writes: &[Fed],
    out: &mut [[i32; 2]],
    (write, render): (impl Fn(&mut C, u16, u16), impl Fn(&mut C, &mut [[i32; 2]])),
) {
    let mut at = 0;
    for fed in writes {
        let place = fed.place as usize;
        if place > at {
            render(chip, &mut out[at..place]);
            at = place;
        }
        write(chip, fed.reg, fed.value);
    }
    render(chip, &mut out[at..]);
}
