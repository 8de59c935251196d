#include "tensor/functions/rotary_table.hpp"

#include "architecture/rope_frequencies.hpp"
#include "tensor/arena.hpp"
#include "tensor/functions/dispatch.hpp"

#include <cmath>

namespace lockstep {

namespace {

template <class M>
void fill_table(M* cosine, M* sine, std::int64_t positions, const RopeFrequencies& frequencies) {
  const std::int64_t half = std::ssize(frequencies.radians);
  for (std::int64_t i = 0; i < half; ++i) {
    const double radians = frequencies.radians[static_cast<std::size_t>(i)], factor = frequencies.attention_factor;
    for (std::int64_t p = 0; p < positions; ++p) {
      cosine[p * half + i] = static_cast<M>(factor * std::cos(static_cast<double>(p) * radians));
      sine[p * half + i] = static_cast<M>(factor * std::sin(static_cast<double>(p) * radians));
    }
  }
}

}  // namespace

at::Tensor RotaryTable::table_for(std::int64_t length, std::int64_t positions) {
  const std::int64_t fitted = representative_length(rope_, length);
  const bool fits = table_.defined() && fitted == length_;
  if (fits && table_.size(1) >= positions) return table_;
  const std::int64_t rows = std::max<std::int64_t>(positions, fits ? 2 * table_.size(1) : least_positions),
                     half = head_size_ / 2;
  at::Tensor grown = at::empty({2, rows, half}, at::TensorOptions().dtype(type_).device(at::kCPU));
  const RopeFrequencies frequencies = rope_frequencies(rope_, head_size_, length);
  with_kernels(grown, [&]<class T>(const Kernels<T>&) {
    using M = Math<T>;
    fill_table(pointer<M>(grown), pointer<M>(grown) + rows * half, rows, frequencies);
  });
  table_ = grown.to(device_options(type_).device());  // whoever saved the former one keeps it
  length_ = fitted;
  return table_;
}

}  // namespace lockstep
