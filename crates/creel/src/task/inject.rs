//! A queue that any thread may push to. It holds tasks that are woken or spawned from outside the
//! pool, or tasks that are bound to one worker.
//!
//! The list is intrusive, so that a push allocates nothing. It uses a lock, since a push from
//! outside pays for waking a thread anyway. The length is read without the lock. A push stores it
//! (`SeqCst`) before it checks for a sleeping worker. A worker that goes to sleep announces that
//! before it reads the length. At least one of them therefore sees the other.

use super::cell::Task;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use std::ptr;

/// A first-in, first-out queue of tasks, behind a lock.
pub(crate) struct Inject {
    list: Mutex<List>,
    len: AtomicUsize,
}

struct List {
    first: Option<Task>,
    last: Option<Task>,
}

impl Inject {
    pub(super) fn new() -> Self {
        let list = List {
            first: None,
            last: None,
        };
        Self {
            list: Mutex::new(list),
            len: AtomicUsize::new(0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }

    /// Appends a scheduled task, which must not be in any other queue.
    pub(super) fn push(&self, task: Task) {
        task.link().store(ptr::null_mut(), Ordering::Relaxed);
        let mut list = lock(&self.list);
        match list.last.replace(task) {
            Some(last) => last.link().store(task.as_ptr().cast(), Ordering::Relaxed),
            None => list.first = Some(task),
        }
        let len = self.len.load(Ordering::Relaxed);
        self.len.store(len + 1, Ordering::SeqCst);
    }

    /// Takes the first task, which the caller must then claim.
    pub(super) fn pop(&self) -> Option<Task> {
        if self.len() == 0 {
            return None;
        }
        let mut list = lock(&self.list);
        let first = list.first?;
        list.first = Task::from_ptr(first.link().load(Ordering::Relaxed).cast());
        if list.first.is_none() {
            list.last = None;
        }
        let len = self.len.load(Ordering::Relaxed);
        self.len.store(len - 1, Ordering::SeqCst);
        Some(first)
    }

    /// Removes this task and returns true, if the queue contains it. The caller must then claim the
    /// task. The cost is linear, because the method checks each task before it.
    pub(super) fn remove(&self, task: Task) -> bool {
        let mut list = lock(&self.list);
        let next = |of: Task| Task::from_ptr(of.link().load(Ordering::Relaxed).cast());
        let (mut before, mut at) = (None, list.first);
        while let Some(here) = at {
            at = next(here);
            if here != task {
                before = Some(here);
                continue;
            }
            match before {
                Some(before) => {
                    let rest = at.map_or(ptr::null_mut(), |next| next.as_ptr().cast());
                    before.link().store(rest, Ordering::Relaxed);
                }
                None => list.first = at,
            }
            if at.is_none() {
                list.last = before;
            }
            let len = self.len.load(Ordering::Relaxed);
            self.len.store(len - 1, Ordering::SeqCst);
            return true;
        }
        false
    }
}
