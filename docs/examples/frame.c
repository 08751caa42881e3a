/* A frame loop: five loops over an array, and then a pause until the next frame. It compares the
 * pool of libcreel with OpenMP.
 *
 *   cc -O2 -fopenmp docs/examples/frame.c -o frame $(pkg-config --cflags --libs creel)
 *   ./frame creel; OMP_WAIT_POLICY=active ./frame openmp; OMP_WAIT_POLICY=passive ./frame openmp
 *
 * It prints the median and the 99th percentile of the time of a frame, and the CPU time per frame,
 * all in microseconds. A gang is measured with `./frame gang`, which runs empty regions only. */
#define _POSIX_C_SOURCE 200809L
#include <creel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ITEMS = 100000, PHASES = 5, FRAMES = 1000, PERIOD_US = 1000 };

static float a[ITEMS], b[ITEMS];

static double now_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static float step(float x, float y)
{
    return x * 0.999f + y / (1.0f + x * x);
}

static void body(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)context;
    (void)worker;
    for (; begin < end; begin++) {
        a[begin] = step(a[begin], b[begin]);
    }
}

static int nothing(void *context, const creel_member *member)
{
    (void)context;
    (void)member;
    return 0;
}

static int by_time(const void *x, const void *y)
{
    double d = *(const double *)x - *(const double *)y;
    return (d > 0) - (d < 0);
}

int main(int count, char **words)
{
    static double frames[FRAMES];
    const char *how = count > 1 ? words[1] : "creel";
    creel_pool *pool = NULL;
    creel_gang *gang = NULL;
    double cpu;
    int frame, phase;
    for (frame = 0; frame < ITEMS; frame++) {
        b[frame] = (float)frame / ITEMS;
    }
    if (strcmp(how, "openmp") != 0 && creel_pool_new(NULL, &pool) != 0) {
        return 1;
    }
    if (strcmp(how, "gang") == 0 && creel_gang_new(pool, 0, &gang) != 0) {
        return 1;
    }
    cpu = now_us(CLOCK_PROCESS_CPUTIME_ID);
    for (frame = 0; frame < FRAMES; frame++) {
        double begin = now_us(CLOCK_MONOTONIC), end;
        for (phase = 0; phase < PHASES; phase++) {
            if (gang != NULL) {
                creel_gang_run(gang, nothing, NULL);
            } else if (pool != NULL) {
                creel_for(pool, NULL, ITEMS, body, NULL);
            } else {
                int i;
#pragma omp parallel for schedule(static)
                for (i = 0; i < ITEMS; i++) {
                    a[i] = step(a[i], b[i]);
                }
            }
        }
        end = now_us(CLOCK_MONOTONIC);
        frames[frame] = end - begin;
        if (end - begin < PERIOD_US) {
            struct timespec pause = {0, 0};
            pause.tv_nsec = (long)((PERIOD_US - (end - begin)) * 1e3);
            nanosleep(&pause, NULL);
        }
    }
    cpu = now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    creel_gang_free(gang);
    creel_pool_free(pool);
    qsort(frames, FRAMES, sizeof *frames, by_time);
    printf("%-7s median %7.1f  p99 %7.1f  CPU per frame %7.1f\n", how, frames[FRAMES / 2],
           frames[FRAMES * 99 / 100], cpu / FRAMES);
    return 0;
}
