/* Threads in lock-step: 20,000 rounds of a little work each, with a barrier after every round.
 * With more threads than CPUs every barrier waits for somebody who is not running.
 *
 *   cc -O2 -fopenmp docs/examples/lockstep.c -o lockstep
 */
#include <omp.h>
#include <stdio.h>

enum { ROUNDS = 20000, ITEMS = 4096 };
static double item[ITEMS];

int main(void)
{
    int threads = 0;
#pragma omp parallel
    {
        for (int round = 0; round < ROUNDS; round++) {
#pragma omp for schedule(static)
            for (int i = 0; i < ITEMS; i++)
                item[i] = item[i] * 0.999 + i;
        }
#pragma omp single
        threads = omp_get_num_threads();
    }
    printf("%d threads, %g\n", threads, item[ITEMS - 1]);
    return 0;
}
