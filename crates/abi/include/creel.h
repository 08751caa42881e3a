/* How many threads this process should have, and where: for programs that link
 * libcreel_abi.a or libcreel_abi.so. See docs/sizing.md.
 *
 *   cargo build --profile small -p creel-abi
 *   cc -I crates/abi/include program.c target/small/libcreel_abi.a -lpthread -ldl
 *
 * or, once crates/abi/install has put them under a prefix:
 *
 *   cc program.c $(pkg-config --cflags --libs creel)
 */
#ifndef CREEL_H
#define CREEL_H

#ifdef __cplusplus
extern "C" {
#endif

/* The usable cores: mask, cpuset and quota counted, hyper-threads once; at least 1.
 * A fraction of a quota is cut off. Where /proc and /sys cannot be read, the size of the
 * affinity mask. Never more than `creel run --jobs` was given (it sets CREEL_JOBS). */
unsigned creel_workers(void);

/* The same, with a fraction counted as one more. */
unsigned creel_workers_ceil(void);

/* Narrows the calling thread's affinity mask to a Linux list such as "0-3,8"; threads that it
 * starts inherit that. 0 if done; EINVAL for a list that does not parse or names a CPU outside
 * of the mask, which is never widened; or the system's error number. */
int creel_set_mask(const char *list);

/* Put CREEL_MASK("0-3") once at file scope: the mask is set before main and before the runtime
 * of a language looks at it. A mask that cannot be set is reported on stderr. */
void creel_mask_or_warn(const char *list);
#define CREEL_MASK(list)                                                                       \
    __attribute__((constructor)) static void creel_mask_constructor_(void)                     \
    {                                                                                          \
        creel_mask_or_warn(list);                                                              \
    }

/* For GHC, whose -N then counts by the budget: link with
 *   -optl-Wl,--wrap=getNumberOfProcessors -optl-Wl,-u,__wrap_getNumberOfProcessors
 * (-u, because GHC names its own libraries after ours). */
unsigned __wrap_getNumberOfProcessors(void);

#ifdef __cplusplus
}
#endif
#endif
