/* A library that carries its own copy of Creel. It is compiled twice, with two names. */
#include <creel.h>

static void add_one(void *context, size_t begin, size_t end, unsigned worker)
{
    int *numbers = context;
    (void)worker;
    for (; begin < end; begin++) {
        numbers[begin]++;
    }
}

/* Returns a text of this copy, or NULL if a check fails. */
const char *NAME(void)
{
    static int numbers[1000];
    creel_options options = CREEL_OPTIONS_INIT;
    creel_pool *pool;
    int at;
    options.workers = 2;
    if (creel_pool_new(&options, &pool) != 0) {
        return NULL;
    }
    for (at = 0; at < 20; at++) {
        creel_for(pool, NULL, 1000, add_one, numbers);
    }
    creel_pool_free(pool);
    for (at = 0; at < 1000; at++) {
        if (numbers[at] % 20 != 0) {
            return NULL;
        }
    }
    return creel_version();
}
