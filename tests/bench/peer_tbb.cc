/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_tbb.cc - two empty stages in oneTBB's parallel_pipeline, in order. */
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_pipeline.h>

static double run(std::uintptr_t tokens)
{
    using namespace oneapi::tbb;
    std::uintptr_t made = 0;
    const auto start = std::chrono::steady_clock::now();
    parallel_pipeline(
        64, make_filter<void, void *>(filter_mode::serial_in_order,
                                      [&](flow_control &control) {
                                          if (made == tokens)
                                              control.stop();
                                          else
                                              made++;
                                          return (void *)made;
                                      }) &
                make_filter<void *, void>(filter_mode::serial_in_order, [](void *) {}));
    const std::chrono::duration<double, std::nano> took =
        std::chrono::steady_clock::now() - start;
    return took.count() / (double)tokens;
}

int main()
{
    oneapi::tbb::global_control two(
        oneapi::tbb::global_control::max_allowed_parallelism, 2);
    std::vector<double> ns;
    for (int i = 0; i < 9; i++)
        ns.push_back(run(500000));
    std::sort(ns.begin(), ns.end());
    std::printf("oneTBB, parallel_pipeline of 2 empty stages, 2 threads, 64 tokens: "
                "%.1f ns a token (median of 9)\n",
                ns[4]);
    return 0;
}
