/* Prints how many threads to start, after a constructor has narrowed the mask to CPU 0. */
#define _GNU_SOURCE
#include "creel.h"
#include <sched.h>
#include <stdio.h>

CREEL_MASK("0")

int main(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    printf("workers %u, mask of %d\n", creel_workers(), CPU_COUNT(&set));
    printf("a CPU outside: %d\n", creel_set_mask("1"));
    return 0;
}
