// Checks the C++ interface. It prints "ok" if all checks pass. With the argument "escape", an
// exception leaves a body of the C interface, and the process must end.
#include <creel.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);               \
            std::exit(1);                                                                      \
        }                                                                                      \
    } while (0)

namespace {

template <typename E, typename F> bool throws(F f) {
    try {
        f();
    } catch (const E &) {
        return true;
    }
    return false;
}

void one(std::size_t) {}
void two(std::size_t) {}

// The pool must distinguish loops whose bodies have the same type but other code.
void sites() {
    using function = std::function<void(std::size_t)>;
    using creel::detail::site_of;
    CHECK(site_of(one) == site_of(&one) && site_of(one) != site_of(two));
    const function three = [](std::size_t) {}, four = [](std::size_t) {};
    CHECK(site_of(three) == site_of(function(three)) && site_of(three) != site_of(four));
    auto five = [](std::size_t) {}, six = five;
    CHECK(site_of(five) == site_of(six));
}

struct moments {
    double sum;
    double squares;
};

void loops(const creel::pool &pool) {
    std::vector<int> values(1000, 1);
    pool.for_each(values.size(), [&](std::size_t i) { values[i] += static_cast<int>(i); });
    for (std::size_t i = 0; i < values.size(); ++i) {
        CHECK(values[i] == static_cast<int>(i) + 1);
    }
    std::array<std::atomic<int>, 100> tiles{};
    pool.for_each_tile(10, 10, 3, 4,
                       [&](std::size_t row, std::size_t row_end, std::size_t column,
                           std::size_t column_end, unsigned) {
                           for (; row < row_end; ++row) {
                               for (std::size_t at = column; at < column_end; ++at) {
                                   ++tiles[row * 10 + at];
                               }
                           }
                       });
    for (const auto &tile : tiles) {
        CHECK(tile == 1);
    }
    const auto total = pool.reduce<moments>(
        values.size(),
        [&](std::size_t begin, std::size_t end) {
            moments part{0, 0};
            for (; begin < end; ++begin) {
                part.sum += values[begin];
                part.squares += static_cast<double>(values[begin]) * values[begin];
            }
            return part;
        },
        [](const moments &a, const moments &b) {
            return moments{a.sum + b.sum, a.squares + b.squares};
        });
    CHECK(total.sum == 500500);
}

void exceptions(const creel::pool &pool) {
    for (int round = 0; round < 20; ++round) {
        CHECK(throws<std::runtime_error>([&] {
            pool.for_each(100, [](std::size_t i) {
                if (i % 7 == 3) {
                    throw std::runtime_error("body");
                }
            });
        }));
        CHECK(throws<std::runtime_error>([&] {
            pool.reduce<int>(
                1000, [](std::size_t, std::size_t) -> int { throw std::runtime_error("leaf"); },
                [](int a, int b) { return a + b; });
        }));
        // The pool keeps working.
        std::atomic<int> calls{0};
        pool.for_each(100, [&](std::size_t) { ++calls; });
        CHECK(calls == 100);
    }
    CHECK(throws<std::system_error>([] {
        creel::options invalid;
        invalid.wait = "often";
        creel::pool refused(invalid);
    }));
}

void gangs(creel::pool &pool) {
    auto gang = pool.form_gang();
    CHECK(throws<std::system_error>([&] { pool.form_gang(); }));
    std::vector<int> places(pool.workers());
    gang.run([&](creel::member member) {
        places[member.index()] = 1;
        member.barrier();
        int sum = 0;
        for (int place : places) {
            sum += place;
        }
        CHECK(sum == static_cast<int>(member.count()));
    });
    for (unsigned failing = 0; failing < pool.workers(); ++failing) {
        CHECK(throws<std::runtime_error>([&] {
            gang.run([&](creel::member member) {
                if (member.index() == failing) {
                    throw std::runtime_error("member");
                }
                member.barrier();
            });
        }));
    }
}

void escape(void *, std::size_t, std::size_t, unsigned) { throw std::runtime_error("escapes"); }

} // namespace

int main(int count, char **) {
    creel::pool first(3);
    creel::pool pool(std::move(first));
    if (count > 1) {
        creel_for(pool.get(), nullptr, 10, escape, nullptr);
    }
    CHECK(creel::workers() >= 1 && !creel::bound_by().empty() && !creel::cores().empty());
    sites();
    loops(pool);
    exceptions(pool);
    gangs(pool);
    std::puts("ok");
}
