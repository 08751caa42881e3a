/* Returns how many threads this process should start, and narrows their affinity masks.
 *
 * Your program must link libcreel_abi.a or libcreel_abi.so. See docs/sizing.md.
 *
 *   cargo build --profile small -p creel-abi
 *   cc -I crates/abi/include program.c target/small/libcreel_abi.a -lpthread -ldl
 *
 * If crates/abi/install has installed the files under a prefix, you can also use:
 *
 *   cc program.c $(pkg-config --cflags --libs creel)
 */
#ifndef CREEL_H
#define CREEL_H

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the number of usable cores, which is at least 1.
 *
 * It respects the affinity mask, cpusets and CPU quotas. The hyper-threads of a core count once.
 * Quotas are rounded down. If /proc and /sys cannot be read, this is the size of the affinity
 * mask. The number never exceeds that of `creel run --jobs`, which sets CREEL_JOBS. */
unsigned creel_workers(void);

/* Returns the same number, with quotas rounded up. */
unsigned creel_workers_ceil(void);

/* Narrows the affinity mask of the calling thread to a Linux CPU list, for example "0-3,8".
 *
 * Threads that it starts later inherit the mask. Returns 0 on success, or an error number of the
 * system. Returns EINVAL if the list is invalid or names a CPU outside of the current mask,
 * because the mask is never widened. */
int creel_set_mask(const char *list);

/* Put CREEL_MASK("0-3") once at file scope. It sets the mask before main, and before the runtime
 * of a language reads it. If the mask cannot be set, it prints an error to stderr. */
void creel_mask_or_warn(const char *list);
#define CREEL_MASK(list)                                                                       \
    __attribute__((constructor)) static void creel_mask_constructor_(void)                     \
    {                                                                                          \
        creel_mask_or_warn(list);                                                              \
    }

/* Makes GHC's -N use the budget. Link with
 *   -optl-Wl,--wrap=getNumberOfProcessors -optl-Wl,-u,__wrap_getNumberOfProcessors
 * We need -u because GHC lists its own libraries after ours. */
unsigned __wrap_getNumberOfProcessors(void);

#ifdef __cplusplus
}
#endif
#endif
