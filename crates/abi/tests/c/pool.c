/* Checks the C interface of the pool. It prints "ok" if all checks pass. */
#include <creel.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                    \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

#define ITEMS 1000
#define WORKERS 3

struct squares {
    unsigned long values[ITEMS];
    unsigned char seen[ITEMS];
};

static void square(void *context, size_t begin, size_t end, unsigned worker)
{
    struct squares *squares = context;
    CHECK(worker < WORKERS);
    for (; begin < end; begin++) {
        squares->values[begin] = (unsigned long)(begin * begin);
        squares->seen[begin]++;
    }
}

struct image {
    unsigned char pixels[37][53];
};

static void paint(void *context, size_t row, size_t row_end, size_t column, size_t column_end,
                  unsigned worker)
{
    struct image *image = context;
    size_t at;
    CHECK(worker < WORKERS && row < row_end && column < column_end);
    CHECK(row_end - row <= 8 && column_end - column <= 16);
    for (; row < row_end; row++) {
        for (at = column; at < column_end; at++) {
            image->pixels[row][at]++;
        }
    }
}

static void sum_leaf(void *context, size_t begin, size_t end, void *result)
{
    double *sum = result;
    (void)context;
    CHECK(*sum == 0.0);
    for (; begin < end; begin++) {
        *sum += 1.0 / (double)(begin + 1);
    }
}

static void sum_combine(void *context, void *into, const void *from)
{
    (void)context;
    *(double *)into += *(const double *)from;
}

struct phases {
    int arrived[20][WORKERS];
    int failing;
};

static int region(void *context, const creel_member *member)
{
    struct phases *phases = context;
    unsigned index = creel_member_index(member), other;
    size_t phase;
    int error;
    CHECK(creel_member_count(member) == WORKERS);
    if (phases->failing == (int)index) {
        return 77;
    }
    for (phase = 0; phase < 20; phase++) {
        phases->arrived[phase][index] = 1;
        error = creel_member_barrier(member);
        if (error != 0) {
            CHECK(error == ECANCELED && phases->failing >= 0);
            return error;
        }
        for (other = 0; other < WORKERS; other++) {
            CHECK(phases->arrived[phase][other] == 1);
        }
    }
    return 0;
}

static void nested(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    for (; begin < end; begin++) {
        struct squares squares;
        memset(&squares, 0, sizeof squares);
        CHECK(creel_for(context, NULL, ITEMS, square, &squares) == 0);
        CHECK(squares.values[ITEMS - 1] == (ITEMS - 1) * (ITEMS - 1));
    }
}

static void check_budget(void)
{
    char text[256], small[4];
    unsigned pus[1024];
    size_t length, cores;
    CHECK(creel_abi_version() == CREEL_ABI_VERSION);
    CHECK(strlen(creel_version()) >= 5);
    CHECK(creel_workers() >= 1 && creel_workers() <= creel_workers_ceil());
    creel_refresh();
    CHECK(creel_workers() >= 1);
    length = creel_bound_by(text, sizeof text);
    CHECK(length > 0 && strlen(text) == length);
    CHECK(creel_bound_by(small, sizeof small) == length && strlen(small) == 3);
    CHECK(creel_bound_by(NULL, 0) == length);
    creel_notes(text, sizeof text);
    cores = creel_cores(pus, 1024);
    CHECK(cores >= creel_workers() || cores >= 1);
    CHECK(creel_cores(NULL, 0) == cores);
    CHECK(creel_thread_mask(text, sizeof text) > 0);
    CHECK(creel_process_mask(text, sizeof text) > 0);
    CHECK(creel_set_mask(NULL) == EINVAL && creel_set_mask("x") == EINVAL);
}

static void check_errors(creel_pool *pool)
{
    creel_options options = CREEL_OPTIONS_INIT;
    creel_pool *other = pool;
    creel_gang *gang, *second;
    options.wait = "often";
    CHECK(creel_pool_new(&options, &other) == EINVAL && other == NULL);
    options.wait = NULL;
    options.size = 3;
    CHECK(creel_pool_new(&options, &other) == EINVAL);
    CHECK(creel_pool_new(NULL, NULL) == EINVAL);
    CHECK(creel_for(NULL, NULL, 1, square, NULL) == EINVAL);
    CHECK(creel_for(pool, NULL, 1, NULL, NULL) == EINVAL);
    CHECK(creel_for_2d(pool, NULL, 1, 1, 0, 1, paint, NULL) == EINVAL);
    CHECK(creel_pool_resize(pool, 0) == EINVAL);
    CHECK(creel_gang_new(pool, WORKERS + 1, &gang) == EINVAL && gang == NULL);
    CHECK(creel_gang_new(pool, 0, &gang) == 0);
    CHECK(creel_gang_new(pool, 2, &second) == EBUSY);
    creel_gang_free(gang);
    creel_pool_free(NULL);
    creel_gang_free(NULL);
}

int main(void)
{
    creel_options options = CREEL_OPTIONS_INIT;
    creel_pool *pool;
    creel_gang *gang;
    static struct squares squares;
    static struct image image;
    static struct phases phases;
    double sums[3];
    size_t at, round;

    check_budget();
    CHECK(creel_pool_new(NULL, &pool) == 0);
    CHECK(creel_pool_workers(pool) == creel_workers());
    creel_pool_free(pool);
    CHECK(creel_workers_in("/nonexistent", NULL) == 0);
    options.workers = WORKERS;
    options.wait = "spin:20us";
    options.name = "c-test";
    CHECK(creel_pool_new(&options, &pool) == 0);
    CHECK(creel_pool_workers(pool) == WORKERS);
    check_errors(pool);

    for (round = 0; round < 50; round++) {
        memset(&squares, 0, sizeof squares);
        CHECK(creel_for(pool, &squares, ITEMS, square, &squares) == 0);
        for (at = 0; at < ITEMS; at++) {
            CHECK(squares.seen[at] == 1 && squares.values[at] == at * at);
        }
    }
    CHECK(creel_for(pool, NULL, 0, square, NULL) == 0);
    CHECK(creel_for(pool, NULL, 4, nested, pool) == 0);

    CHECK(creel_for_2d(pool, NULL, 37, 53, 8, 16, paint, &image) == 0);
    for (at = 0; at < sizeof image; at++) {
        CHECK(((unsigned char *)&image)[at] == 1);
    }

    for (round = 0; round < 3; round++) {
        CHECK(creel_pool_resize(pool, (unsigned)round + 1) == 0);
        CHECK(creel_reduce(pool, NULL, 100000, 0, sizeof(double), sum_leaf, sum_combine, NULL,
                           &sums[round]) == 0);
    }
    CHECK(sums[0] > 12.0 && sums[0] < 12.2);
    CHECK(memcmp(&sums[0], &sums[1], sizeof(double)) == 0);
    CHECK(memcmp(&sums[0], &sums[2], sizeof(double)) == 0);
    CHECK(creel_reduce(pool, NULL, 0, 0, sizeof(double), sum_leaf, sum_combine, NULL, sums) == 0);
    CHECK(sums[0] == 0.0);

    CHECK(creel_gang_new(pool, WORKERS, &gang) == 0);
    phases.failing = -1;
    CHECK(creel_gang_run(gang, region, &phases) == 0);
    for (at = 0; at < WORKERS; at++) {
        memset(&phases, 0, sizeof phases);
        phases.failing = (int)at;
        CHECK(creel_gang_run(gang, region, &phases) != 0);
    }
    creel_gang_free(gang);
    creel_pool_free(pool);
    puts("ok");
    return 0;
}
