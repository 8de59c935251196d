// grouped_products [ROUNDS]: products of groups of rows, as experts have them, K 768, N 2048, against one product of as
// many rows with one matrix: of each way in which tokens spread one JSON line with milliseconds, the best of the
// rounds, which are interleaved.
#include "base/clock.hpp"
#include "base/json.hpp"
#include "tensor/grouped_gemm.hpp"
#include "tensor/kernels/number.hpp"
#include "tensor/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

using namespace lockstep;

namespace {

constexpr std::int64_t k = 768, n = 2048;

template <class T>
std::vector<T> made(std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) store(values[i], static_cast<Math<T>>(i % 13) / 13 - Math<T>{0.5});
  return values;
}

template <class Work>
void keep_best(double& best_ms, Work&& work) {
  const double start_s = monotonic_seconds();
  work();
  best_ms = std::min(best_ms, (monotonic_seconds() - start_s) * 1e3);
}

template <class T>
void measure(const std::string& dtype, const std::string& spread, const std::vector<std::int64_t>& sizes, int rounds) {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t size : sizes) offsets.push_back(offsets.back() + size);
  const std::int64_t rows = offsets.back(), groups = std::ssize(sizes);
  const std::vector<T> x = made<T>(rows * k), weights = made<T>(groups * n * k);
  std::vector<T> y(static_cast<std::size_t>(rows * n));
  double dense_ms = std::numeric_limits<double>::infinity(), grouped_ms = dense_ms;
  for (int round = 0; round < rounds; ++round) {
    keep_best(dense_ms, [&] {
      gemm_rounded<T>(rows, n, k, MatrixView<T>{x.data(), k}, MatrixView<T>{weights.data(), k, Trans::yes}, nullptr,
                      y.data(), n);
    });
    keep_best(grouped_ms, [&] {
      grouped_gemm_rounded<T>({offsets.data(), groups}, n, k, x.data(), weights.data(), Trans::yes, y.data());
    });
  }
  fmt::print("{}\n", to_text(Json{{"dtype", dtype},
                                  {"spread", spread},
                                  {"rows", rows},
                                  {"dense_ms", dense_ms},
                                  {"grouped_ms", grouped_ms},
                                  {"ratio", dense_ms / grouped_ms}}));
}

template <class T>
void measure_all(const std::string& dtype, int rounds) {
  measure<T>(dtype, "8 groups of 256", std::vector<std::int64_t>(8, 256), rounds);
  measure<T>(dtype, "8 groups, each half of the one before", {1024, 512, 256, 128, 64, 32, 16, 16}, rounds);
  measure<T>(dtype, "8 groups of 16", std::vector<std::int64_t>(8, 16), rounds);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  set_up_runtime(threads_per_rank(0, 1));
  measure_all<float>("fp32", rounds);
  measure_all<Bf16>("bf16", rounds);
  return 0;
}
