//! Tests of queues that the program itself provides (`creel::Source`), and of the pool's methods
//! for such programs, for example `notify` and `send_to`.

use creel::{Pool, Source};
use std::{
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::channel,
    },
    thread,
};

type Job = Box<dyn FnOnce() + Send>;

/// A stack of jobs.
#[derive(Default)]
struct Stack {
    jobs: Mutex<Vec<Job>>,
    /// The number of jobs. All accesses are `SeqCst`.
    len: AtomicUsize,
}

impl Stack {
    fn push(&self, pool: &Pool, job: impl FnOnce() + Send + 'static) {
        let mut jobs = self.jobs.lock().unwrap();
        jobs.push(Box::new(job));
        self.len.store(jobs.len(), Ordering::SeqCst);
        drop(jobs);
        pool.notify();
    }
}

impl Source for Stack {
    fn is_ready(&self) -> bool {
        self.len.load(Ordering::SeqCst) > 0
    }

    fn run(&self, _worker: usize, begin: &mut dyn FnMut()) -> bool {
        let mut jobs = self.jobs.lock().unwrap();
        let job = jobs.pop();
        self.len.store(jobs.len(), Ordering::SeqCst);
        drop(jobs);
        let found = job.is_some();
        if let Some(job) = job {
            begin();
            job();
        }
        found
    }
}

fn pool(workers: usize) -> (Pool, Arc<Stack>) {
    let stack = Arc::new(Stack::default());
    let source: Arc<dyn Source> = stack.clone();
    let pool = Pool::builder().workers(workers).source(source);
    (pool.build().unwrap(), stack)
}

#[test]
fn each_job_of_a_source_runs_once() {
    let (pool, stack) = pool(2);
    let (sender, receiver) = channel();
    for n in 0..1000 {
        let sender = sender.clone();
        stack.push(&pool, move || sender.send(n).unwrap());
    }
    drop(sender);
    let mut all: Vec<i32> = receiver.iter().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..1000));
}

#[test]
fn two_jobs_that_wait_for_each_other_both_run() {
    let (pool, stack) = pool(2);
    let meet = Arc::new(Barrier::new(3));
    for _ in 0..2 {
        let meet = Arc::clone(&meet);
        stack.push(&pool, move || {
            meet.wait();
        });
    }
    meet.wait();
}

#[test]
fn a_worker_that_waits_runs_a_job_of_the_source() {
    let (pool, stack) = pool(1);
    let handle = pool.handle();
    let (sender, receiver) = channel();
    let inner = Arc::clone(&stack);
    stack.push(&pool, move || {
        let done = Arc::new(AtomicUsize::new(0));
        let done_by_job = Arc::clone(&done);
        inner.push(&handle, move || done_by_job.store(1, Ordering::SeqCst));
        handle.work_until(|| done.load(Ordering::SeqCst) == 1);
        sender.send(()).unwrap();
    });
    receiver.recv().unwrap();
}

#[test]
fn a_join_whose_stolen_closure_waits_for_a_job_makes_progress() {
    let (pool, stack) = pool(2);
    let handle = pool.handle();
    let (sender, receiver) = channel();
    let inner = Arc::clone(&stack);
    stack.push(&pool, move || {
        let stolen = AtomicUsize::new(0);
        handle.join(
            || {
                while stolen.load(Ordering::SeqCst) == 0 {
                    thread::yield_now();
                }
            },
            || {
                stolen.store(1, Ordering::SeqCst);
                let (sender, receiver) = channel();
                inner.push(&handle, move || sender.send(()).unwrap());
                // Both workers are busy now: one worker runs this closure, and the other worker
                // waits for it. The job can run only if the worker that waits takes it.
                receiver.recv().unwrap();
            },
        );
        sender.send(()).unwrap();
    });
    receiver.recv().unwrap();
}

#[test]
fn a_pool_ends_although_a_requested_thread_never_ran() {
    let start = |_| Ok(());
    let pool = Pool::builder().workers(2).start_threads_with(start);
    let pool = pool.build().unwrap();
    pool.start_threads().unwrap();
    drop(pool);
}

#[test]
fn a_source_that_wakes_an_idle_pool_leaves_it_idle_again() {
    let (pool, stack) = pool(2);
    for n in 0..200 {
        let (sender, receiver) = channel();
        stack.push(&pool, move || sender.send(n).unwrap());
        assert_eq!(receiver.recv(), Ok(n));
    }
}

/// The environment variable that is set in the child process, which must end with a panic.
const CHILD: &str = "CREEL_TEST_PANIC_IN_WAIT";

#[test]
fn a_sent_closure_that_panics_inside_a_wait_ends_the_process() {
    if std::env::var_os(CHILD).is_some() {
        panic_in_the_wait_of_a_join();
        println!("survived");
        return;
    }
    let name = "a_sent_closure_that_panics_inside_a_wait_ends_the_process";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        !output.status.success() && !text.contains("survived"),
        "{text}"
    );
}

/// Worker 0 waits for the second closure of a join, which worker 1 has taken. While it waits, it
/// runs a sent closure that panics. If this panic unwound the stack of worker 0, the join would end
/// while worker 1 still uses that stack.
fn panic_in_the_wait_of_a_join() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let taken = AtomicBool::new(false);
    let join = || {
        pool.join(
            || {
                while !taken.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            },
            || {
                taken.store(true, Ordering::SeqCst);
                pool.send_to(0, || panic!("inside the wait")).unwrap();
                std::thread::sleep(std::time::Duration::from_secs(2));
            },
        )
    };
    let caught = || {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(join));
    };
    pool.run_on(0, caught).unwrap();
}
