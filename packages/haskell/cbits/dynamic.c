/* Warns if the runtime is a shared library, because the linker cannot replace a function in it. */
#include <stdio.h>

/* GHC's runtime exports this. It returns a constant, so it may be called before the runtime starts. */
int rts_isDynamic(void);

__attribute__((constructor)) static void creel_warn_if_dynamic(void)
{
    if (rts_isDynamic()) {
        fputs("creel: this program is linked with -dynamic, so -N does not use the CPU budget: "
              "start it with `creel run`, or call Creel.follow\n",
              stderr);
    }
}
