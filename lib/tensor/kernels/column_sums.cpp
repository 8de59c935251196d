#include "tensor/kernels/column_sums.hpp"

namespace lockstep {

namespace {

template <class M>
LOCKSTEP_CLONES void reduce_range(const M* partials, std::int64_t blocks, std::int64_t columns, std::int64_t begin,
                                  std::int64_t end, M beta, M* target) {
  for (std::int64_t c = begin; c < end; ++c) target[c] = beta == 0 ? M{0} : beta * target[c];
  for (std::int64_t block = 0; block < blocks; ++block) {
    const M* row = partials + block * columns;
#pragma omp simd
    for (std::int64_t c = begin; c < end; ++c) target[c] += row[c];
  }
}

template <class T>
LOCKSTEP_CLONES void sum_rows(const T* values, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                              Math<T>* sums) {
  for (std::int64_t c = 0; c < columns; ++c) sums[c] = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* in = values + row * stride;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) sums[c] += load(in[c]);
  }
}

}  // namespace

template <class M>
void reduce_partials(const M* partials, std::int64_t blocks, std::int64_t columns, double beta, M* target) {
  parallel_for(columns, 4096, [=](std::int64_t begin, std::int64_t end) {
    reduce_range<M>(partials, blocks, columns, begin, end, static_cast<M>(beta), target);
  });
}

template <class T>
void column_sums(const T* values, std::int64_t rows, std::int64_t columns, std::int64_t stride, double beta,
                 Math<T>* target) {
  const RowBlocks blocks{rows};
  const std::int64_t count = blocks.count(), size = blocks.size();
  std::vector<Math<T>> partials(static_cast<std::size_t>(count * columns));
  Math<T>* const sums = partials.data();
  parallel_for(count, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * size;
      sum_rows<T>(values + first * stride, std::min(size, rows - first), columns, stride, sums + block * columns);
    }
  });
  reduce_partials(sums, count, columns, beta, target);
}

template void reduce_partials<float>(const float*, std::int64_t, std::int64_t, double, float*);
template void reduce_partials<double>(const double*, std::int64_t, std::int64_t, double, double*);
template void column_sums<float>(const float*, std::int64_t, std::int64_t, std::int64_t, double, float*);
template void column_sums<double>(const double*, std::int64_t, std::int64_t, std::int64_t, double, double*);
template void column_sums<Bf16>(const Bf16*, std::int64_t, std::int64_t, std::int64_t, double, float*);
template void column_sums<Fp16>(const Fp16*, std::int64_t, std::int64_t, std::int64_t, double, float*);

}  // namespace lockstep
