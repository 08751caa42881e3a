/* Threads in lock-step: 20,000 rounds of a little work each, with a barrier after every round.
 * If there are more threads than CPUs, every barrier waits for a thread that is not running.
 * An argument multiplies the number of rounds.
 *
 *   cc -O2 -fopenmp docs/examples/lockstep.c -o lockstep
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 20000, ITEMS = 4096 };
static double item[ITEMS];

int main(int argc, char **argv)
{
    const int rounds = ROUNDS * (argc > 1 ? atoi(argv[1]) : 1);
    int threads = 0;
#pragma omp parallel
    {
        for (int round = 0; round < rounds; round++) {
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
