// Creel for C++11 and later. creel.h documents the functions behind it.
//
//   c++ program.cpp $(pkg-config --cflags --libs creel)
//
// Errors of the library are thrown as std::system_error. The first exception that leaves a body is
// thrown again on the calling thread, after all bodies have ended. Bodies that have not begun by
// then are skipped.
#ifndef CREEL_HPP
#define CREEL_HPP

#include <creel.h>

#include <atomic>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

// Each shared library that includes this header has functions of its own. Otherwise a library that
// contains libcreel.a could call those of another library, with another copy of Creel.
#if defined(__GNUC__) && !defined(_WIN32)
#define CREEL_HIDDEN __attribute__((visibility("hidden")))
#else
#define CREEL_HIDDEN
#endif

namespace creel {

namespace detail {

CREEL_HIDDEN inline void check(int error) {
    if (error != 0) {
        throw std::system_error(error, std::generic_category(), "creel");
    }
}

// The first of the exceptions that bodies on several threads throw.
class first_exception {
  public:
    template <typename F> CREEL_HIDDEN void guard(F &&f) noexcept {
        if (thrown_.load(std::memory_order_relaxed)) {
            return;
        }
        try {
            f();
        } catch (...) {
            keep();
        }
    }
    CREEL_HIDDEN void keep() noexcept {
        if (!thrown_.exchange(true)) {
            exception_ = std::current_exception();
        }
    }
    // Call it when all bodies have ended.
    CREEL_HIDDEN void rethrow() {
        if (exception_) {
            std::rethrow_exception(exception_);
        }
    }

  private:
    std::atomic<bool> thrown_{false};
    std::exception_ptr exception_;
};

template <typename F> struct body {
    F &f;
    first_exception first;
    CREEL_HIDDEN explicit body(F &function) : f(function) {}
};

// One address for each type of body, by which the pool recognises a loop.
template <typename F> CREEL_HIDDEN const void *site_of_type() noexcept {
    static const char here = 0;
    return &here;
}

// The address by which the pool recognises a loop with the body f. One type of a function pointer
// or of std::function can serve for many loops, so they have other addresses than their type's.
template <typename F> struct site {
    CREEL_HIDDEN static const void *of(const F &) noexcept { return site_of_type<F>(); }
};
template <typename R, typename... A> struct site<R (*)(A...)> {
    CREEL_HIDDEN static const void *of(R (*f)(A...)) noexcept {
        return reinterpret_cast<const void *>(f);
    }
};
#if !defined(__GNUC__) || defined(__GXX_RTTI)
template <typename S> struct site<std::function<S>> {
    CREEL_HIDDEN static const void *of(const std::function<S> &f) noexcept {
        return &f.target_type();
    }
};
#endif
template <typename F> CREEL_HIDDEN const void *site_of(const F &f) noexcept {
    return site<typename std::decay<F>::type>::of(f);
}

CREEL_HIDDEN inline std::string text(std::size_t (*function)(char *, std::size_t)) {
    std::size_t length = function(nullptr, 0);
    for (;;) {
        std::vector<char> buffer(length + 1);
        length = function(buffer.data(), buffer.size());
        // The text may have become longer since the first call.
        if (length < buffer.size()) {
            return std::string(buffer.data(), length);
        }
    }
}

} // namespace detail

CREEL_HIDDEN inline unsigned workers() noexcept { return creel_workers(); }
CREEL_HIDDEN inline unsigned workers_ceil() noexcept { return creel_workers_ceil(); }
CREEL_HIDDEN inline std::string bound_by() { return detail::text(creel_bound_by); }
CREEL_HIDDEN inline std::string notes() { return detail::text(creel_notes); }
CREEL_HIDDEN inline std::string thread_mask() { return detail::text(creel_thread_mask); }
CREEL_HIDDEN inline std::string process_mask() { return detail::text(creel_process_mask); }

// Returns the first usable PU of each core.
CREEL_HIDDEN inline std::vector<unsigned> cores() {
    std::vector<unsigned> pus(creel_cores(nullptr, 0));
    const std::size_t count = creel_cores(pus.data(), pus.size());
    pus.resize(count < pus.size() ? count : pus.size());
    return pus;
}

// The options of a pool. An empty text and 0 mean the default.
struct options {
    unsigned workers = 0;
    std::string wait;
    std::string balance;
    std::string placement;
    std::string name;
};

// One member's view of a region of a gang.
class member {
  public:
    CREEL_HIDDEN explicit member(const creel_member *raw) : raw_(raw) {}
    CREEL_HIDDEN unsigned index() const noexcept { return creel_member_index(raw_); }
    CREEL_HIDDEN unsigned count() const noexcept { return creel_member_count(raw_); }
    // Waits for all members. Throws std::system_error if another member has failed.
    CREEL_HIDDEN void barrier() const { detail::check(creel_member_barrier(raw_)); }

  private:
    const creel_member *raw_;
};

class pool;

// Threads that run regions together. The destructor frees the workers.
class gang {
  public:
    gang(const gang &) = delete;
    gang &operator=(const gang &) = delete;
    CREEL_HIDDEN gang(gang &&other) noexcept : raw_(other.raw_) { other.raw_ = nullptr; }
    CREEL_HIDDEN gang &operator=(gang &&other) noexcept {
        std::swap(raw_, other.raw_);
        return *this;
    }
    CREEL_HIDDEN ~gang() { creel_gang_free(raw_); }

    // Calls region(member) once for each member, all at the same time.
    template <typename F> CREEL_HIDDEN void run(F &&region) {
        using function = typename std::remove_reference<F>::type;
        detail::body<function> call(region);
        const int failed = creel_gang_run(
            raw_,
            [](void *context, const creel_member *raw) noexcept -> int {
                auto &body = *static_cast<detail::body<function> *>(context);
                try {
                    body.f(member(raw));
                    return 0;
                } catch (...) {
                    body.first.keep();
                    return -1;
                }
            },
            &call);
        call.first.rethrow();
        detail::check(failed);
    }

  private:
    friend class pool;
    CREEL_HIDDEN explicit gang(creel_gang *raw) : raw_(raw) {}
    creel_gang *raw_;
};

// A pool. The destructor waits for its threads.
class pool {
  public:
    CREEL_HIDDEN pool() : pool(options()) {}
    CREEL_HIDDEN explicit pool(unsigned workers) : pool(with_workers(workers)) {}
    CREEL_HIDDEN explicit pool(const options &chosen) {
        auto text = [](const std::string &s) { return s.empty() ? nullptr : s.c_str(); };
        creel_options raw = CREEL_OPTIONS_INIT;
        raw.workers = chosen.workers;
        raw.wait = text(chosen.wait);
        raw.balance = text(chosen.balance);
        raw.placement = text(chosen.placement);
        raw.name = text(chosen.name);
        detail::check(creel_pool_new(&raw, &raw_));
    }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    CREEL_HIDDEN pool(pool &&other) noexcept : raw_(other.raw_) { other.raw_ = nullptr; }
    CREEL_HIDDEN pool &operator=(pool &&other) noexcept {
        std::swap(raw_, other.raw_);
        return *this;
    }
    CREEL_HIDDEN ~pool() { creel_pool_free(raw_); }

    CREEL_HIDDEN creel_pool *get() const noexcept { return raw_; }
    CREEL_HIDDEN unsigned workers() const noexcept { return creel_pool_workers(raw_); }
    CREEL_HIDDEN void resize(unsigned workers) { detail::check(creel_pool_resize(raw_, workers)); }

    // Calls f(i) for each i below count.
    template <typename F> CREEL_HIDDEN void for_each(std::size_t count, F &&f) const {
        auto range = [&f](std::size_t begin, std::size_t end, unsigned) {
            for (; begin < end; ++begin) {
                f(begin);
            }
        };
        for_each_range_at(detail::site_of(f), count, range);
    }

    // Calls f(begin, end, worker) for ranges that together cover the indices below count.
    template <typename F> CREEL_HIDDEN void for_each_range(std::size_t count, F &&f) const {
        for_each_range_at(detail::site_of(f), count, f);
    }

    // Does the same, with a site of your choice. See creel_for.
    template <typename F>
    CREEL_HIDDEN void for_each_range_at(const void *site, std::size_t count, F &&f) const {
        using function = typename std::remove_reference<F>::type;
        detail::body<function> call(f);
        detail::check(creel_for(
            raw_, site, count,
            [](void *context, std::size_t begin, std::size_t end, unsigned worker) noexcept {
                auto &body = *static_cast<detail::body<function> *>(context);
                body.first.guard([&] { body.f(begin, end, worker); });
            },
            &call));
        call.first.rethrow();
    }

    // Calls f(row_begin, row_end, column_begin, column_end, worker) for tiles.
    template <typename F>
    CREEL_HIDDEN void for_each_tile(std::size_t rows, std::size_t columns, std::size_t tile_rows,
                                    std::size_t tile_columns, F &&f) const {
        using function = typename std::remove_reference<F>::type;
        detail::body<function> call(f);
        detail::check(creel_for_2d(
            raw_, detail::site_of(f), rows, columns, tile_rows, tile_columns,
            [](void *context, std::size_t row, std::size_t row_end, std::size_t column,
               std::size_t column_end, unsigned worker) noexcept {
                auto &body = *static_cast<detail::body<function> *>(context);
                body.first.guard([&] { body.f(row, row_end, column, column_end, worker); });
            },
            &call));
        call.first.rethrow();
    }

    // Returns combine(... combine(leaf(0, n), leaf(n, 2n)) ...) by a tree that depends on count
    // and leaf_length only. T must be trivially copyable.
    template <typename T, typename Leaf, typename Combine>
    CREEL_HIDDEN T reduce(std::size_t count, Leaf &&leaf, Combine &&combine,
                          std::size_t leaf_length = 0) const {
        static_assert(std::is_trivially_copyable<T>::value, "partial results are copied");
        static_assert(alignof(T) <= 64, "partial results are aligned to a cache line");
        using leaf_type = typename std::remove_reference<Leaf>::type;
        using combine_type = typename std::remove_reference<Combine>::type;
        struct both {
            leaf_type &leaf;
            combine_type &combine;
            detail::first_exception first;
            both(leaf_type &of_range, combine_type &of_two) : leaf(of_range), combine(of_two) {}
        };
        both call(leaf, combine);
        typename std::aligned_storage<sizeof(T), alignof(T)>::type result;
        detail::check(creel_reduce(
            raw_, detail::site_of(leaf), count, leaf_length, sizeof(T),
            [](void *context, std::size_t begin, std::size_t end, void *into) noexcept {
                auto &body = *static_cast<both *>(context);
                body.first.guard([&] { ::new (into) T(body.leaf(begin, end)); });
            },
            [](void *context, void *into, const void *from) noexcept {
                auto &body = *static_cast<both *>(context);
                body.first.guard([&] {
                    T &a = *static_cast<T *>(into);
                    a = body.combine(a, *static_cast<const T *>(from));
                });
            },
            &call, &result));
        call.first.rethrow();
        return *reinterpret_cast<T *>(&result);
    }

    // Forms a gang of this number of members, or of all workers.
    CREEL_HIDDEN gang form_gang(unsigned members = 0) const {
        creel_gang *raw = nullptr;
        detail::check(creel_gang_new(raw_, members, &raw));
        return gang(raw);
    }

  private:
    CREEL_HIDDEN static options with_workers(unsigned workers) {
        options chosen;
        chosen.workers = workers;
        return chosen;
    }
    creel_pool *raw_ = nullptr;
};

} // namespace creel
#endif
