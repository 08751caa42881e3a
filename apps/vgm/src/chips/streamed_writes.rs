//! Writes of chips that a CPU feeds sample by sample: thousands a second, each of which would cut a
//! chip's block and cost more on its way there than what it does. They are handed over with the
//! block instead, and the chip cuts it.

/// A write, and the frame of a block before which it takes effect.
#[derive(Debug, Clone, Copy)]
pub struct StreamedWrite {
    /// No lower than that of the write before.
    pub frame: u32,
    /// The register.
    pub reg: u16,
    /// The value.
    pub value: u16,
}

/// Overwrites `out` with a chip's next frames, between which it takes these writes.
#[inline]
pub fn render_streamed<C: ?Sized>(
    chip: &mut C,
    writes: &[StreamedWrite],
    out: &mut [[i32; 2]],
    (write, render): (impl Fn(&mut C, u16, u16), impl Fn(&mut C, &mut [[i32; 2]])),
) {
    let mut at = 0;
    for streamed in writes {
        let frame = streamed.frame as usize;
        if frame > at {
            render(chip, &mut out[at..frame]);
            at = frame;
        }
        write(chip, streamed.reg, streamed.value);
    }
    render(chip, &mut out[at..]);
}
