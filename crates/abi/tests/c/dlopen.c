/* Opens the library that the first argument names 50 times, uses a pool, and closes it. */
#include <creel.h>
#include <dlfcn.h>
#include <stdio.h>

static void add_one(void *context, size_t begin, size_t end, unsigned worker)
{
    int *numbers = context;
    (void)worker;
    for (; begin < end; begin++) {
        numbers[begin]++;
    }
}

int main(int count, char **words)
{
    int (*new_pool)(const creel_options *, creel_pool **);
    void (*free_pool)(creel_pool *);
    int (*run)(const creel_pool *, const void *, size_t, creel_body, void *);
    int round, at;
    for (round = 0; round < 50 && count > 1; round++) {
        int numbers[1000] = {0};
        creel_options options = CREEL_OPTIONS_INIT;
        creel_pool *pool;
        void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        *(void **)&new_pool = dlsym(library, "creel_pool_new");
        *(void **)&free_pool = dlsym(library, "creel_pool_free");
        *(void **)&run = dlsym(library, "creel_for");
        options.workers = 3;
        if (new_pool(&options, &pool) != 0) {
            return 2;
        }
        for (at = 0; at < 10; at++) {
            run(pool, NULL, 1000, add_one, numbers);
        }
        free_pool(pool);
        for (at = 0; at < 1000; at++) {
            if (numbers[at] != 10) {
                return 3;
            }
        }
        dlclose(library);
    }
    puts("ok");
    return 0;
}
