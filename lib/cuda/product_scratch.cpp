#include "cuda/product_scratch.hpp"

#include "cuda/device_failure.hpp"
#include "cuda/libtorch_cuda.hpp"
#include "cuda/stream.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace lockstep::cuda {

namespace {

constexpr std::size_t full_alignment = 256;

void write(void* to, const void* from, std::size_t bytes) {
  call("cannot fill a matrix",
       [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, compute_stream()); });
}

/// Numbers of both signs and drawn mantissas in every type of a factor: their bits decide how much power a product
/// takes, and thereby its clock rate.
std::vector<std::uint16_t> drawn_words() {
  constexpr std::size_t count = 1 << 19;
  constexpr std::uint16_t exponent = 0x3c00, sign_and_mantissa = 0x81ff;
  std::vector<std::uint16_t> words(count);
  std::uint64_t state = 1;
  for (std::uint16_t& word : words) {
    state = state * 6364136223846793005 + 1442695040888963407;
    word = static_cast<std::uint16_t>((static_cast<std::uint16_t>(state >> 40) & sign_and_mantissa) | exponent);
  }
  return words;
}

std::size_t bytes_of(const ColumnMatrix& matrix) {
  return static_cast<std::size_t>(matrix.leading) * static_cast<std::size_t>(matrix.columns) *
         static_cast<std::size_t>(size_of(matrix.type));
}

}  // namespace

void* ProductScratch::memory(std::size_t bytes, std::size_t alignment) {
  blocks_.push_back(device_memory(bytes + 2 * full_alignment));
  const auto begin = std::bit_cast<std::uintptr_t>(blocks_.back().get());
  const std::uintptr_t aligned = (begin + full_alignment - 1) / full_alignment * full_alignment;
  return std::bit_cast<void*>(aligned + alignment % full_alignment);
}

void* ProductScratch::matrix(const ColumnMatrix& of) {
  return memory(bytes_of(of), static_cast<std::size_t>(of.alignment));
}

void* ProductScratch::filled(const ColumnMatrix& of) {
  static const std::vector<std::uint16_t> words = drawn_words();
  const std::size_t bytes = bytes_of(of), most = words.size() * sizeof words.front();
  auto* const begin = static_cast<std::byte*>(matrix(of));
  for (std::size_t done = 0; done < bytes; done += most)
    write(begin + done, words.data(), std::min(most, bytes - done));
  return begin;
}

ProductScratch::ProductScratch(const ColumnProduct& shape) {
  product_.alpha = 1;
  product_.beta = shape.has_base ? 1 : 0;
  product_.a.data = filled(shape.b);
  product_.b.data = filled(shape.a);
  product_.y = matrix(shape.d);
  if (shape.has_base) product_.base = filled(shape.c);
  if (shape.has_bias)
    product_.bias = filled({.type = shape.bias, .rows = shape.d.rows, .columns = 1, .leading = shape.d.rows});
  if (shape.has_scales) {
    constexpr float one = 1;
    auto* const scale = static_cast<float*>(memory(sizeof one, full_alignment));
    write(scale, &one, sizeof one);
    product_.a.scale = product_.b.scale = scale;
    if (size_of(shape.d.type) == 1) product_.y_scale = scale;
  }
  if (shape.has_maximum) product_.maximum = static_cast<float*>(memory(sizeof(float), full_alignment));
  if (!shape.has_factors) return;
  const std::array wide{product_.alpha, product_.beta};
  const std::array narrow{static_cast<float>(product_.alpha), static_cast<float>(product_.beta)};
  void* const factors = memory(sizeof wide, full_alignment);
  if (shape.sums == DType::f64)
    write(factors, wide.data(), sizeof wide);
  else
    write(factors, narrow.data(), sizeof narrow);
  product_.factors = factors;
}

}  // namespace lockstep::cuda
