/* Creel for C: how many threads to start, and a pool that runs loops.
 *
 *   cc program.c $(pkg-config --cflags --libs creel)
 *
 * Unless a function says otherwise:
 *
 * - Every function may be called from any thread, at any time after libc has started.
 * - Functions that return int return 0, or an error number of <errno.h>. Do not read errno itself,
 *   because every function may change it.
 * - A function that writes a text writes at most SIZE bytes, always ends it with a NUL if SIZE is
 *   not 0, and returns the length of the whole text, like snprintf.
 * - In a child process after fork, the functions of the budget work, and the child may create pools
 *   of its own. Pools and gangs of the parent have no threads there: creel_pool_free returns at
 *   once, and nothing else may be called with them.
 */
#ifndef CREEL_H
#define CREEL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the binary interface that this header describes. The library has the same number
 * in its name, libcreel.so.1. */
#define CREEL_ABI_VERSION 1

/* Returns the version of the binary interface of the library that is loaded. */
unsigned creel_abi_version(void);

/* Returns the version of the library, for example "0.1.0". */
const char *creel_version(void);

/* ---- The budget ---------------------------------------------------------------------------- */

/* Returns the number of usable cores, which is at least 1.
 *
 * It respects the affinity mask, cpusets, CPU quotas and limits on the number of threads. The
 * hyper-threads of a core count once. Quotas are rounded down. The number never exceeds that of
 * `creel run --jobs`, which sets CREEL_JOBS.
 *
 * It never fails. If /proc and /sys cannot be read, it is the size of the affinity mask, and
 * creel_notes says so. The first call takes 0.2 to 0.4 ms. The result is kept, and a later call
 * takes about 1 us. It is read again if the affinity mask has changed, after one second, or after
 * creel_refresh. */
unsigned creel_workers(void);

/* Returns the same number, with quotas rounded up. */
unsigned creel_workers_ceil(void);

/* Makes the next call read all limits again. */
void creel_refresh(void);

/* Returns the number for a machine whose /proc and /sys are below the folder ROOT, and for a thread
 * with the affinity mask MASK (NULL: that of ROOT/proc/self/status). As in sched_setaffinity, CPUs
 * that do not exist do not count. Returns 0 if MASK is not a CPU list, if none of its CPUs exists, or
 * if ROOT has neither a folder proc nor a folder sys. It is meant for tests. Nothing is kept. */
unsigned creel_workers_in(const char *root, const char *mask);

/* Writes the limit that determined creel_workers, for example
 * "cpu.max of the parent cgroup (300000/100000)". */
size_t creel_bound_by(char *buffer, size_t size);

/* Writes what could not be read or contradicts itself, one line each. For example, the file system
 * of the control groups may be hidden, so that quotas are unknown. The text is empty if there is
 * nothing to report. */
size_t creel_notes(char *buffer, size_t size);

/* Writes the first usable PU of each core to PUS, at most CAPACITY numbers, in ascending order.
 * Returns the number of usable cores. It does not respect quotas, because a quota names no PU. PUS
 * may be NULL. */
size_t creel_cores(unsigned *pus, size_t capacity);

/* ---- Affinity masks ------------------------------------------------------------------------ */

/* Writes the affinity mask of the calling thread as a Linux CPU list, for example "0-3,8". */
size_t creel_thread_mask(char *buffer, size_t size);

/* Writes the affinity mask from which creel_workers is computed. It is that of the calling thread,
 * unless an OpenMP runtime has narrowed it: with OMP_PROC_BIND=true, libgomp pins the main thread
 * to one PU when it is loaded. In that case it is the union of OpenMP's places. */
size_t creel_process_mask(char *buffer, size_t size);

/* Narrows the affinity mask of the calling thread to a Linux CPU list.
 *
 * Threads that it starts later inherit the mask. Returns EINVAL if the list is invalid, NULL, or
 * names a CPU outside of the current mask, because the mask is never widened. */
int creel_set_mask(const char *list);

/* Put CREEL_MASK("0-3") once at file scope. It sets the mask before main, and before the runtime
 * of a language reads it. If the mask cannot be set, it prints an error to stderr. */
void creel_mask_or_warn(const char *list);
#define CREEL_MASK(list)                                                                       \
    __attribute__((constructor)) static void creel_mask_constructor_(void)                     \
    {                                                                                          \
        creel_mask_or_warn(list);                                                              \
    }

/* ---- The pool ------------------------------------------------------------------------------ */

typedef struct creel_pool creel_pool;

/* The options of a pool. Initialise it with CREEL_OPTIONS_INIT, and then set the fields that you
 * need. NULL and 0 mean the default. */
typedef struct creel_options {
    size_t size;           /* sizeof(creel_options) */
    unsigned workers;      /* number of workers; default: creel_workers() */
    const char *wait;      /* "adaptive" (default), "park", "spin:20us", "throttle:2ms" */
    const char *balance;   /* "sticky" (default), "fixed", "shared" */
    const char *placement; /* see below */
    const char *name;      /* the name of the threads, in UTF-8 */
} creel_options;

/* The values of PLACEMENT are unpinned, cores, pus, close, spread, fast-cores, per-cache, per-node,
 * a CPU list such as "0,2,4-7" for all workers, or one list for each worker, such as
 * "{0-3},{4-7}". The default pins each worker to a core during loops, and leaves its tasks
 * unpinned. */

#define CREEL_OPTIONS_INIT {sizeof(creel_options), 0, NULL, NULL, NULL, NULL}

/* Creates a pool and stores it in *POOL. OPTIONS may be NULL. The threads start with the first
 * work. Between loops they spin only while that has paid off, and an idle pool uses no CPU.
 *
 * Returns EINVAL if an option is invalid, WORKERS is above 16383, or the placement names a CPU
 * outside of the affinity mask. *POOL is NULL then. With more workers than places, some workers share
 * a place. */
int creel_pool_new(const creel_options *options, creel_pool **pool);

/* Ends a pool, and waits for its threads. No other thread may use the pool any more. Must not be
 * called inside of a body of the pool. POOL may be NULL. */
void creel_pool_free(creel_pool *pool);

/* Returns the number of workers. */
unsigned creel_pool_workers(const creel_pool *pool);

/* Changes the number of workers, 1 to 16383. A loop that is running keeps its workers. Returns
 * EINVAL for another number. */
int creel_pool_resize(const creel_pool *pool, unsigned workers);

/* ---- Loops --------------------------------------------------------------------------------- */

/* A loop returns when all its bodies have returned. The calling thread works too. Loops may be
 * called on several threads at once, and inside of bodies. Everything that a body has written is
 * visible to the caller afterwards.
 *
 * Bodies of one loop run on several threads at the same time, but must not wait for each other:
 * one thread may run all of them. Use a gang for code with barriers. A body must not leave by
 * longjmp. An exception that leaves a body ends the process (creel.hpp passes them on to the
 * caller).
 *
 * The pool learns for each loop how long it takes, and does not share a loop that is too short. It
 * recognises a loop by SITE, which is any address, and by COUNT. If SITE is NULL, it takes the
 * address of the body. If one body serves for several loops, for example because it calls a
 * function pointer in its context, pass that pointer or the address of a static variable. The pool
 * remembers 64 loops. If COUNT has more values than that, call the body directly while COUNT is
 * small.
 *
 * A loop returns EINVAL if the pool, the body or the result is NULL, or a tile or a result is empty.
 * If the system refuses threads, the loop runs on those that exist. */

/* Calls BODY for ranges BEGIN <= i < END that together cover 0 <= i < COUNT. WORKER is below
 * creel_pool_workers, and no other thread has the same one at the same time in this loop. */
typedef void (*creel_body)(void *context, size_t begin, size_t end, unsigned worker);
int creel_for(const creel_pool *pool, const void *site, size_t count, creel_body body,
              void *context);

/* Calls BODY for tiles of TILE_ROWS x TILE_COLUMNS that together cover ROWS x COLUMNS. Tiles at
 * the end may be smaller. A tile must not be empty. */
typedef void (*creel_body_2d)(void *context, size_t row_begin, size_t row_end,
                              size_t column_begin, size_t column_end, unsigned worker);
int creel_for_2d(const creel_pool *pool, const void *site, size_t rows, size_t columns,
                 size_t tile_rows, size_t tile_columns, creel_body_2d body, void *context);

/* Reduces 0 <= i < COUNT to a result of SIZE bytes, which it stores in RESULT.
 *
 * LEAF computes the result of a range of LEAF_LENGTH items (0: about COUNT / 256) into memory that
 * is set to 0. COMBINE adds the result FROM, of a later range, to INTO. The tree depends on COUNT
 * and LEAF_LENGTH only, so the result has the same bits at any number of workers. For COUNT 0, LEAF
 * is called once with an empty range.
 *
 * Returns ENOMEM if there is no memory for the partial results. */
typedef void (*creel_leaf)(void *context, size_t begin, size_t end, void *result);
typedef void (*creel_combine)(void *context, void *into, const void *from);
int creel_reduce(const creel_pool *pool, const void *site, size_t count, size_t leaf_length,
                 size_t size, creel_leaf leaf, creel_combine combine, void *context,
                 void *result);

/* ---- Gangs --------------------------------------------------------------------------------- */

/* A gang is for code that has barriers of its own. Its members are on threads of their own, all at
 * the same time, from creel_gang_new to creel_gang_free. While the members spin, an empty region
 * takes about a microsecond. While there is a gang, a loop of the pool runs on its caller and on idle
 * workers that are not members. Free the gang before its pool. */
typedef struct creel_gang creel_gang;
typedef struct creel_member creel_member;

/* Forms a gang of MEMBERS threads (0: all workers), one of which is the thread that calls
 * creel_gang_run. Waits until all of them have come in.
 *
 * Returns EINVAL if the pool has fewer workers, EBUSY if it has a gang already, EDEADLK if the
 * calling thread is a worker of the pool, and EAGAIN if a thread cannot be started. */
int creel_gang_new(const creel_pool *pool, unsigned members, creel_gang **gang);

/* Ends a gang. Its workers are free when this returns. GANG may be NULL. */
void creel_gang_free(creel_gang *gang);

/* Calls REGION once for each member at the same time, and returns when all have returned. Only one
 * thread at a time may use a gang, and a region must not use its own gang.
 *
 * If a region returns another value than 0, all barriers fail, and creel_gang_run returns the first
 * such value. Use negative values for your own errors, because creel_gang_run itself returns EINVAL
 * if GANG or REGION is NULL. */
typedef int (*creel_region)(void *context, const creel_member *member);
int creel_gang_run(creel_gang *gang, creel_region region, void *context);

/* Returns the number of this member, from 0 on. The thread that called creel_gang_run is 0. */
unsigned creel_member_index(const creel_member *member);

/* Returns the number of members. */
unsigned creel_member_count(const creel_member *member);

/* Waits until every member has called this. Returns ECANCELED if a member has failed. The region
 * must return then. */
int creel_member_barrier(const creel_member *member);

#ifdef __cplusplus
}
#endif
#endif
