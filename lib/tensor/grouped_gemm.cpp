#include "tensor/grouped_gemm.hpp"

#include "tensor/parallel.hpp"

namespace lockstep {

namespace {

/// Calls body(group, first row, rows) for each group: one after the other where each has work for all threads, and the
/// others beside each other. Which is which hangs on the group alone.
template <class Body>
void for_each_group(const RowGroups& groups, std::int64_t products_per_row, const Body& body) {
  constexpr std::int64_t largest_alone = std::int64_t{1} << 26;  // products that one thread does
  const auto call = [&](std::int64_t group) {
    body(group, groups.offsets[group], groups.offsets[group + 1] - groups.offsets[group]);
  };
  const auto is_large = [&](std::int64_t group) {
    return (groups.offsets[group + 1] - groups.offsets[group]) * products_per_row > largest_alone;
  };
  for (std::int64_t group = 0; group < groups.count; ++group)
    if (is_large(group)) call(group);
  parallel_for(groups.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group)
      if (!is_large(group)) call(group);
  });
}

}  // namespace

template <class T>
void grouped_gemm_rounded(const RowGroups& groups, std::int64_t n, std::int64_t k, const T* x, const T* weights,
                          Trans trans, T* y) {
  for_each_group(groups, n * k, [=](std::int64_t group, std::int64_t first, std::int64_t rows) {
    const MatrixView<T> weight{weights + group * n * k, trans == Trans::yes ? k : n, trans};
    if (rows > 0) gemm_rounded<T>(rows, n, k, MatrixView<T>{x + first * k, k}, weight, nullptr, y + first * n, n);
  });
}

template <class T>
void grouped_weight_gemm(const RowGroups& groups, std::int64_t n, std::int64_t k, const T* dy, const T* x, double beta,
                         Math<T>* dweights) {
  for_each_group(groups, n * k, [=](std::int64_t group, std::int64_t first, std::int64_t rows) {
    gemm(n, k, rows, 1, MatrixView<T>{dy + first * n, n, Trans::yes}, MatrixView<T>{x + first * k, k}, beta,
         dweights + group * n * k, k);
  });
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                       \
  template void grouped_gemm_rounded<T>(const RowGroups&, std::int64_t, std::int64_t, const T*, const T*, Trans, T*); \
  template void grouped_weight_gemm<T>(const RowGroups&, std::int64_t, std::int64_t, const T*, const T*, double,      \
                                       Math<T>*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
