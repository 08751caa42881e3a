//! Gangs: threads that run a region together, with barriers.

use crate::{
    errno::{EAGAIN, EBUSY, ECANCELED, EDEADLK, EINVAL},
    guarded,
    pool::Shared,
};
use creel::{Gang, GangError, Member, Pool};
use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
    sync::atomic::{AtomicI32, Ordering},
};

type Region = unsafe extern "C-unwind" fn(*mut c_void, *const Member<'static>) -> c_int;

/// Forms a gang of `members` threads, or of as many as the pool has workers if `members` is 0.
/// Returns 0 or an error number.
///
/// # Safety
///
/// `pool` must be null or a live pool, and `gang` must be writable.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_gang_new(
    pool: *const Pool,
    members: c_uint,
    gang: *mut *mut Gang,
) -> c_int {
    // SAFETY: The caller guarantees that the pool is live, and we only share it.
    let (Some(pool), false) = (unsafe { pool.as_ref() }, gang.is_null()) else {
        return EINVAL;
    };
    // SAFETY: The caller guarantees that it is writable.
    unsafe { gang.write(ptr::null_mut()) };
    let members = match members {
        0 => pool.workers(),
        members => members as usize,
    };
    match pool.gang(members) {
        Ok(formed) => {
            // SAFETY: The caller guarantees that it is writable.
            unsafe { gang.write(Box::into_raw(Box::new(formed))) };
            0
        }
        Err(GangError::Busy) => EBUSY,
        Err(GangError::OnWorker) => EDEADLK,
        Err(GangError::Worker(_)) => EAGAIN,
        Err(_) => EINVAL,
    }
}

/// Ends a gang. Its workers are free again when this returns.
///
/// # Safety
///
/// `gang` must be null or come from `creel_gang_new`, and nothing may use it any more.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_gang_free(gang: *mut Gang) {
    if !gang.is_null() {
        // SAFETY: `creel_gang_new` created it from a box, and nothing uses it any more.
        let gang = unsafe { Box::from_raw(gang) };
        guarded((), || drop(gang));
    }
}

/// Calls `region` once for each member, all at the same time. Returns the first result other than
/// 0.
///
/// # Safety
///
/// `gang` must be null or a live gang that nothing else uses, not even a region of it on this
/// thread. `region` must be null or safe to call with `context` on several threads.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_gang_run(
    gang: *mut Gang,
    region: Option<Region>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: The caller guarantees that the gang is live and that no other thread uses it.
    let (Some(gang), Some(region)) = (unsafe { gang.as_mut() }, region) else {
        return EINVAL;
    };
    let context = Shared(context);
    // Relaxed is enough, because the end of the region orders all writes of the members before the
    // read below.
    let first = AtomicI32::new(0);
    gang.run(|member| {
        let handle = ptr::from_ref(&member).cast();
        // SAFETY: The caller guarantees that the region may be called on several threads. The
        // member lives during the call, and the header forbids to keep it.
        let outcome = unsafe { region(context.get(), handle) };
        if outcome != 0 {
            let _ = first.compare_exchange(0, outcome, Ordering::Relaxed, Ordering::Relaxed);
            member.break_barriers();
        }
    });
    first.into_inner()
}

/// Returns the index of a member. The thread that runs the gang is member 0.
///
/// # Safety
///
/// `member` must be the one that the region received.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_member_index(member: *const Member<'static>) -> c_uint {
    // SAFETY: The caller passes the member of its region, which is live, and we only share it.
    let member = unsafe { &*member };
    member.index() as c_uint
}

/// Returns the number of members.
///
/// # Safety
///
/// `member` must be the one that the region received.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_member_count(member: *const Member<'static>) -> c_uint {
    // SAFETY: The caller passes the member of its region, which is live, and we only share it.
    let member = unsafe { &*member };
    member.members() as c_uint
}

/// Waits for all members. Returns `ECANCELED` if a member has failed.
///
/// # Safety
///
/// `member` must be the one that the region received.
// SAFETY: The name has the project's prefix and is defined only here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creel_member_barrier(member: *const Member<'static>) -> c_int {
    // SAFETY: The caller passes the member of its region, which is live, and we only share it.
    let member = unsafe { &*member };
    match member.try_barrier() {
        Ok(()) => 0,
        Err(_) => ECANCELED,
    }
}
