/* Runs a function for each share in an OpenMP loop. */

void creel_bench_openmp_shares(int threads, int shares, void (*share)(void *, int),
                               void *context) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int index = 0; index < shares; index++) {
        share(context, index);
    }
}
