/* A frame loop: five loops over an array, and then a pause until the next frame. It compares the
 * pool of libcreel with OpenMP.
 *
 *   cc -O2 -fopenmp docs/examples/frame.c -o frame $(pkg-config --cflags --libs creel)
 *   ./frame creel; OMP_WAIT_POLICY=active ./frame openmp; OMP_WAIT_POLICY=passive ./frame openmp
 *
 * It prints the median and the 99th percentile of the time of a frame, and the CPU time per frame,
 * all in microseconds. `./frame gang` prints the time of an empty region of a gang whose members
 * spin, because the next region follows at once. */
#define _POSIX_C_SOURCE 200809L
#include <creel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ITEMS = 100000, PHASES = 5, FRAMES = 1000, PERIOD_US = 1000, REGIONS = 100 };

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

/* Prints the time of an empty region. Each of the times is the mean of REGIONS regions. */
static int print_regions(creel_pool *pool)
{
    static double times[FRAMES];
    creel_gang *gang;
    int round, region;
    if (creel_gang_new(pool, 0, &gang) != 0) {
        return 1;
    }
    for (round = 0; round < FRAMES; round++) {
        double begin = now_us(CLOCK_MONOTONIC);
        for (region = 0; region < REGIONS; region++) {
            creel_gang_run(gang, nothing, NULL);
        }
        times[round] = (now_us(CLOCK_MONOTONIC) - begin) / REGIONS;
    }
    creel_gang_free(gang);
    qsort(times, FRAMES, sizeof *times, by_time);
    printf("region  median %7.3f  p99 %7.3f\n", times[FRAMES / 2], times[FRAMES * 99 / 100]);
    return 0;
}

int main(int count, char **words)
{
    static double frames[FRAMES];
    const char *how = count > 1 ? words[1] : "creel";
    creel_pool *pool = NULL;
    double cpu;
    int item, frame, phase;
    for (item = 0; item < ITEMS; item++) {
        b[item] = (float)item / ITEMS;
    }
    if (strcmp(how, "openmp") != 0 && creel_pool_new(NULL, &pool) != 0) {
        return 1;
    }
    if (strcmp(how, "gang") == 0) {
        int failed = print_regions(pool);
        creel_pool_free(pool);
        return failed;
    }
    cpu = now_us(CLOCK_PROCESS_CPUTIME_ID);
    for (frame = 0; frame < FRAMES; frame++) {
        double begin = now_us(CLOCK_MONOTONIC), end;
        for (phase = 0; phase < PHASES; phase++) {
            if (pool != NULL) {
                creel_for(pool, NULL, ITEMS, body, NULL);
            } else {
#pragma omp parallel for schedule(static)
                for (item = 0; item < ITEMS; item++) {
                    a[item] = step(a[item], b[item]);
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
    creel_pool_free(pool);
    qsort(frames, FRAMES, sizeof *frames, by_time);
    printf("%-7s median %7.1f  p99 %7.1f  CPU per frame %7.1f\n", how, frames[FRAMES / 2],
           frames[FRAMES * 99 / 100], cpu / FRAMES);
    return 0;
}
