/* Resamples 8 channels in blocks of 10 ms with the library soxr, one block every 2.5 ms, as a mixer
 * with four such streams would. soxr divides the channels among threads with OpenMP. The page
 * "Coming from OpenMP" of the guide compares it with a soxr whose loops run on libcreel.
 *
 *   cc -O2 docs/examples/resample.c -o resample -lsoxr
 *   OMP_WAIT_POLICY=passive ./resample
 *
 * It prints the median and the 99th percentile of the time of a block, and the CPU time per block,
 * all in microseconds. The last value depends on every sample, so it must not change. */
#define _POSIX_C_SOURCE 200809L
#include <soxr.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CHANNELS = 8, FRAMES = 480, BLOCKS = 300, PERIOD_US = 2500 };

static double now_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_time(const void *x, const void *y)
{
    double d = *(const double *)x - *(const double *)y;
    return (d > 0) - (d < 0);
}

int main(void)
{
    static float input[CHANNELS][FRAMES], output[CHANNELS][2 * FRAMES];
    static double blocks[BLOCKS];
    soxr_io_spec_t split = soxr_io_spec(SOXR_FLOAT32_S, SOXR_FLOAT32_S);
    soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
    soxr_runtime_spec_t threads = soxr_runtime_spec(0); /* 0: as many as OpenMP has */
    soxr_t soxr = soxr_create(48000, 44100, CHANNELS, NULL, &split, &quality, &threads);
    const void *in[CHANNELS];
    void *out[CHANNELS];
    unsigned random = 1;
    double cpu, sum = 0;
    size_t done, at;
    int channel, block;
    for (channel = 0; channel < CHANNELS; channel++) {
        in[channel] = input[channel];
        out[channel] = output[channel];
        for (at = 0; at < FRAMES; at++) {
            random = random * 1664525u + 1013904223u;
            input[channel][at] = (float)random / 4294967296.0f - 0.5f;
        }
    }
    cpu = now_us(CLOCK_PROCESS_CPUTIME_ID);
    for (block = 0; block < BLOCKS; block++) {
        double begin = now_us(CLOCK_MONOTONIC), left;
        if (soxr_process(soxr, in, FRAMES, NULL, out, 2 * FRAMES, &done) != NULL) {
            return 1;
        }
        blocks[block] = now_us(CLOCK_MONOTONIC) - begin;
        for (channel = 0; channel < CHANNELS; channel++) {
            for (at = 0; at < done; at++) {
                sum = sum * 0.5 + output[channel][at];
            }
        }
        left = PERIOD_US - (now_us(CLOCK_MONOTONIC) - begin);
        if (left > 0) {
            struct timespec pause = {0, (long)(left * 1e3)};
            nanosleep(&pause, NULL);
        }
    }
    cpu = now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    soxr_delete(soxr);
    qsort(blocks, BLOCKS, sizeof *blocks, by_time);
    printf("median %7.1f  p99 %9.1f  CPU per block %7.1f  %a\n", blocks[BLOCKS / 2],
           blocks[BLOCKS * 99 / 100], cpu / BLOCKS, sum);
    return 0;
}
