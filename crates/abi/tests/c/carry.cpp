// The same as carry.c, in C++: a library that carries its own copy of Creel.
#include <creel.hpp>

#include <atomic>

extern "C" const char *NAME();

// Returns a text of this copy, or NULL if a check fails. The functions of the header must be those
// of this library, so that they call its own copy.
extern "C" const char *NAME() {
    creel::options options;
    options.workers = 2;
    creel::pool pool(options);
    std::atomic<int> calls{0};
    pool.for_each(1000, [&](std::size_t) { ++calls; });
    return calls == 1000 && pool.workers() == 2 ? creel_version() : nullptr;
}
