//! The functions that create, resize and end a pool, and those that run loops on it.
//!
//! A body is a C function with a context. We call it through `extern "C-unwind"`, and our own
//! functions are `extern "C"`. Therefore an exception that leaves a body ends the process, and is
//! not undefined behaviour. `creel.hpp` catches exceptions before they leave.

use crate::{
    code,
    errno::{EAGAIN, EINVAL, EIO, ENOMEM},
    guarded, text_of,
};
use creel::{Balance, BuildError, Placement, Pool, Wait};
use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    ptr,
};

/// The options of a pool, as in the header.
#[repr(C)]
pub struct Options {
    /// The size of the caller's struct. Later versions add fields at the end.
    size: usize,
    workers: c_uint,
    wait: *const c_char,
    balance: *const c_char,
    placement: *const c_char,
    name: *const c_char,
}

type Body = unsafe extern "C-unwind" fn(*mut c_void, usize, usize, c_uint);
type Body2d = unsafe extern "C-unwind" fn(*mut c_void, usize, usize, usize, usize, c_uint);
type Leaf = unsafe extern "C-unwind" fn(*mut c_void, usize, usize, *mut c_void);
type Combine = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *const c_void);

/// A pointer of the caller that bodies receive on several threads.
pub(crate) struct Shared<T>(pub(crate) *mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: We only pass the pointer on. The header requires that bodies may use their context on
// several threads at the same time.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: The same reason applies.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Returns the pointer. A closure that calls this captures the whole struct.
    pub(crate) fn get(self) -> *mut T {
        self.0
    }
}

/// Returns the key of a loop: the address of its site, or that of its body if `site` is null. The
/// pool remembers measurements of the loop under this key.
fn site(site: *const c_void, body: *const c_void) -> u64 {
    let key = if site.is_null() { body } else { site };
    key.addr() as u64
}

/// Reads an option. A null pointer means the default.
///
/// # Safety
///
/// `text` must be null or point to a string that ends with NUL.
unsafe fn option<T: std::str::FromStr>(text: *const c_char) -> Result<Option<T>, c_int> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: This function has the same contract.
    let text = unsafe { text_of(text) }.ok_or(EINVAL)?;
    text.parse().map(Some).map_err(|_| EINVAL)
}

/// Creates a pool and stores it in `pool`. Returns 0 or an error number.
///
/// # Safety
///
/// `options` must be null or point to a valid struct, and `pool` must be writable.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_pool_new(options: *const Options, pool: *mut *mut Pool) -> c_int {
    if pool.is_null() {
        return EINVAL;
    }
    // SAFETY: The caller guarantees that it is writable.
    unsafe { pool.write(ptr::null_mut()) };
    // SAFETY: This function has the same contract.
    let built = guarded(Err(EIO), || unsafe { build(options) });
    code(built.map(|built| {
        // SAFETY: The caller guarantees that it is writable.
        unsafe { pool.write(Box::into_raw(Box::new(built))) };
    }))
}

/// Creates a pool with these options, or with the defaults if `options` is null.
///
/// # Safety
///
/// `options` must be null or point to a valid struct.
unsafe fn build(options: *const Options) -> Result<Pool, c_int> {
    let mut builder = Pool::builder();
    let mut workers = 0;
    if !options.is_null() {
        // SAFETY: The size is the first field in every version of the struct.
        let size = unsafe { options.cast::<usize>().read() };
        if size != size_of::<Options>() {
            return Err(EINVAL);
        }
        // SAFETY: The caller guarantees a valid struct, which nobody changes during this call. Its
        // size is that of this version.
        let options = unsafe { &*options };
        workers = options.workers;
        // SAFETY: The strings of a valid struct are null or end with NUL.
        if let Some(wait) = unsafe { option::<Wait>(options.wait) }? {
            builder = builder.wait(wait);
        }
        // SAFETY: The strings of a valid struct are null or end with NUL.
        if let Some(balance) = unsafe { option::<Balance>(options.balance) }? {
            builder = builder.balance(balance);
        }
        // SAFETY: The strings of a valid struct are null or end with NUL.
        if let Some(placement) = unsafe { option::<Placement>(options.placement) }? {
            builder = builder.placement(placement);
        }
        // SAFETY: The strings of a valid struct are null or end with NUL.
        if let Some(name) = unsafe { option::<String>(options.name) }? {
            builder = builder.name(name);
        }
    }
    if workers == 0 {
        // The pool's own default does not know the limit of `creel run --jobs`.
        workers = crate::budget::creel_workers();
    }
    let built = builder.workers(workers as usize).build();
    built.map_err(build_error)
}

fn build_error(error: BuildError) -> c_int {
    match error {
        BuildError::Ended => EAGAIN,
        _ => EINVAL,
    }
}

/// Ends a pool and waits for its threads.
///
/// # Safety
///
/// `pool` must be null or come from `creel_pool_new`, and nothing may use it any more.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_pool_free(pool: *mut Pool) {
    if !pool.is_null() {
        // SAFETY: `creel_pool_new` created it from a box, and nothing uses it any more.
        let pool = unsafe { Box::from_raw(pool) };
        guarded((), || drop(pool));
    }
}

/// Returns the number of workers of a pool, or 0 if `pool` is null.
///
/// # Safety
///
/// `pool` must be null or a live pool.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_pool_workers(pool: *const Pool) -> c_uint {
    // SAFETY: The caller guarantees that the pool is live, and we only share it.
    let pool = unsafe { pool.as_ref() };
    pool.map_or(0, |pool| pool.workers().try_into().unwrap_or(c_uint::MAX))
}

/// Changes the number of workers. Returns 0 or an error number.
///
/// # Safety
///
/// `pool` must be null or a live pool.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_pool_resize(pool: *const Pool, workers: c_uint) -> c_int {
    // SAFETY: The caller guarantees that the pool is live, and we only share it.
    let Some(pool) = (unsafe { pool.as_ref() }) else {
        return EINVAL;
    };
    let resize = || pool.resize(workers as usize).map_err(build_error);
    code(guarded(Err(EIO), resize))
}

/// Calls `body` for ranges that together cover `0..count`.
///
/// # Safety
///
/// `pool` must be null or a live pool, and `body` null or safe to call with `context` on several
/// threads.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_for(
    pool: *const Pool,
    place: *const c_void,
    count: usize,
    body: Option<Body>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: The caller guarantees that the pool is live, and we only share it.
    let (Some(pool), Some(body)) = (unsafe { pool.as_ref() }, body) else {
        return EINVAL;
    };
    let key = site(place, body as *const c_void);
    let context = Shared(context);
    pool.with_site(key).for_each_range(0..count, |range, who| {
        // SAFETY: The caller guarantees that the body may be called on several threads.
        unsafe { body(context.get(), range.start, range.end, who as c_uint) };
    });
    0
}

/// Calls `body` for tiles that together cover `rows` × `columns`.
///
/// # Safety
///
/// The contract is that of [`creel_for`].
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_for_2d(
    pool: *const Pool,
    place: *const c_void,
    rows: usize,
    columns: usize,
    tile_rows: usize,
    tile_columns: usize,
    body: Option<Body2d>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: The caller guarantees that the pool is live, and we only share it.
    let (Some(pool), Some(body)) = (unsafe { pool.as_ref() }, body) else {
        return EINVAL;
    };
    if tile_rows == 0 || tile_columns == 0 {
        return EINVAL;
    }
    let across = columns.div_ceil(tile_columns);
    let Some(tiles) = rows.div_ceil(tile_rows).checked_mul(across) else {
        return EINVAL;
    };
    let key = site(place, body as *const c_void);
    let context = Shared(context);
    pool.with_site(key).for_each_range(0..tiles, |range, who| {
        for tile in range {
            let (row, column) = (tile / across * tile_rows, tile % across * tile_columns);
            let row_end = rows.min(row.saturating_add(tile_rows));
            let column_end = columns.min(column.saturating_add(tile_columns));
            let who = who as c_uint;
            // SAFETY: The caller guarantees that the body may be called on several threads.
            unsafe { body(context.get(), row, row_end, column, column_end, who) };
        }
    });
    0
}

/// The maximum number of leaves of a reduction, unless the caller chooses their length.
const LEAVES: usize = 256;
/// The alignment of a partial result, which is also the size of a cache line.
const ALIGNMENT: usize = 64;

/// A cache line of partial results.
#[repr(C, align(64))]
#[derive(Clone)]
struct Line([u8; ALIGNMENT]);

/// Reduces `0..count` along a tree that depends on `count` and `leaf_length` only, and writes the
/// outcome to `result`.
///
/// # Safety
///
/// The contract is that of [`creel_for`], and `result` must point to `size` writable bytes.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_reduce(
    pool: *const Pool,
    place: *const c_void,
    count: usize,
    leaf_length: usize,
    size: usize,
    leaf: Option<Leaf>,
    combine: Option<Combine>,
    context: *mut c_void,
    result: *mut c_void,
) -> c_int {
    // SAFETY: The caller guarantees that the pool is live, and we only share it.
    let pool = unsafe { pool.as_ref() };
    let (Some(pool), Some(leaf), Some(combine)) = (pool, leaf, combine) else {
        return EINVAL;
    };
    if result.is_null() || size == 0 {
        return EINVAL;
    }
    let length = if leaf_length == 0 {
        count.div_ceil(LEAVES).max(1)
    } else {
        leaf_length
    };
    // Without items, one leaf gives the neutral result.
    let leaves = count.div_ceil(length).max(1);
    let lines = size.div_ceil(ALIGNMENT);
    let mut partial: Vec<Line> = Vec::new();
    let room = lines.checked_mul(leaves);
    let room = room.filter(|room| partial.try_reserve_exact(*room).is_ok());
    let Some(room) = room else {
        return ENOMEM;
    };
    partial.resize(room, Line([0; ALIGNMENT]));
    let context = Shared(context);
    let base = Shared(partial.as_mut_ptr());
    // SAFETY: Each partial result has `lines` lines inside of `partial`.
    let at = move |index: usize| unsafe { base.get().add(index * lines) }.cast::<c_void>();
    let key = site(place, leaf as *const c_void);
    pool.with_site(key).for_each_range(0..leaves, |range, _| {
        for index in range {
            let begin = index * length;
            let end = count.min(begin.saturating_add(length));
            // SAFETY: The caller guarantees that the function may be called on several threads.
            // Each leaf has a partial result of its own.
            unsafe { leaf(context.get(), begin, end, at(index)) };
        }
    });
    let mut step = 1;
    while step < leaves {
        for index in (0..leaves - step).step_by(2 * step) {
            // SAFETY: The caller guarantees that the function may be called with two results. They
            // are different, and no other thread uses them.
            unsafe { combine(context.get(), at(index), at(index + step)) };
        }
        step *= 2;
    }
    // SAFETY: The first partial result has `size` bytes, and so has `result`. They do not overlap,
    // because `partial` belongs to this function.
    unsafe { ptr::copy_nonoverlapping(at(0).cast::<u8>(), result.cast::<u8>(), size) };
    0
}
