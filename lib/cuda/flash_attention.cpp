#include "cuda/flash_attention.hpp"

#include "architecture/gpu_attention.hpp"
#include "base/error.hpp"
#include "cuda/device_failure.hpp"
#include "cuda/kernels/causal_attention.hpp"
#include "cuda/kernels/rotate.hpp"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lockstep::cuda {

namespace {

template <class T>
constexpr bool is_brief = std::is_same_v<T, Bf16> || std::is_same_v<T, Fp16>;
template <class T>
constexpr at::ScalarType brief_type = std::is_same_v<T, Bf16> ? at::kBFloat16 : at::kHalf;
template <class T>
constexpr DType dtype_of_values = std::is_same_v<T, Bf16> ? DType::bf16 : DType::f16;

/// Whether flash attention takes a call that reads and writes these addresses.
template <class T>
bool takes_flash(const AttentionShape& shape, Segments segments, const AttentionDropout& dropout,
                 std::initializer_list<const void*> memory) {
  constexpr std::int64_t most_segments = 65535;  // of the second dimension of a grid
  constexpr std::uintptr_t alignment = 16;       // of its loads, in bytes
  const AttentionUse use{
      .compute = dtype_of_values<T>, .head_size = shape.head_size, .has_dropout = static_cast<bool>(dropout.mask)};
  return choose_gpu_attention(use).attention == GpuAttention::flash && segments.tokens > 0 && segments.count > 0 &&
         segments.count <= most_segments && std::ranges::all_of(memory, [](const void* address) {
           return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
         });
}

/// Asks LibTorch for deterministic operators, for the whole process; then new memory need not be filled.
void ask_for_determinism() {
  static const bool is_asked = [] {
    at::globalContext().setDeterministicAlgorithms(true, false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    return true;
  }();
  static_cast<void>(is_asked);
}

/// Calls `work`, which calls LibTorch, without autograd.
template <class Work>
void in_libtorch(std::string_view doing, const Work& work) {
  ready_for_call();
  ask_for_determinism();
  const at::AutoDispatchBelowADInplaceOrView without_autograd;
  const auto say = [&](const c10::Error& error) {
    const std::string told = error.what_without_backtrace();
    fail(ExitCode::resources, "{}: {}", doing, told.substr(0, told.find('\n')));
  };
  try {
    work();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::AcceleratorError& error) {
    check(static_cast<cudaError_t>(error.get_error_code()), doing);
    say(error);
  } catch (const c10::Error& error) {
    say(error);
  }
}

at::TensorOptions options_of(at::ScalarType type) { return at::TensorOptions().dtype(type).device(tensor_device()); }

/// Memory of the device as a tensor. Rows of a matrix of heads lie `width` values apart.
at::Tensor tensor_at(const void* memory, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  return at::for_blob(const_cast<void*>(memory), sizes)
      .strides(strides)
      .target_device(tensor_device())
      .options(options_of(type))
      .make_tensor();
}
template <class T>
at::Tensor heads_at(const T* memory, std::int64_t rows, std::int64_t heads, std::int64_t size, std::int64_t width) {
  return tensor_at(memory, {rows, heads, size}, {width, size, 1}, brief_type<T>);
}
at::Tensor row_sums_at(const float* memory, std::int64_t rows, std::int64_t heads) {
  return tensor_at(memory, {rows, heads}, {heads, 1}, at::kFloat);
}

/// The arguments that both directions have.
struct FlashArguments {
  at::Tensor queries, keys, values;  // (N, heads, D), parts of one packed matrix
  at::Tensor starts;                 // int32
  std::int64_t longest;              // segment, or more
  double scale;
  std::optional<std::int64_t> window;  // keys before a query that it sees, besides its own

  template <class T>
  FlashArguments(const T* qkv, const AttentionShape& shape, Segments segments)
      : longest(std::clamp<std::int64_t>(segments.longest > 0 ? segments.longest : segments.tokens, least_longest,
                                         std::max(segments.tokens, least_longest))),
        scale(1 / std::sqrt(static_cast<double>(shape.head_size))) {
    const std::int64_t size = shape.head_size, rows = segments.tokens, kv_heads = shape.kv_heads;
    const auto part = [&](std::int64_t first, std::int64_t heads) {
      return heads_at(qkv + first * size, rows, heads, size, shape.width());
    };
    queries = part(0, shape.heads);
    keys = part(shape.heads, kv_heads);
    values = part(shape.heads + kv_heads, kv_heads);
    starts = tensor_at(segments.starts, {segments.count + 1}, {1}, at::kLong).to(at::kInt);
    if (shape.window > 0) window = shape.window - 1;
  }

 private:
  static constexpr std::int64_t least_longest = 2;  // LibTorch lays out batches of single queries differently
};

/// The output (N, H, D), and the logarithms of the sums (H, N).
std::pair<at::Tensor, at::Tensor> flash_forward(const FlashArguments& of) {
  auto results = at::_flash_attention_forward(of.queries, of.keys, of.values, of.starts, of.starts, of.longest,
                                              of.longest, 0.0, true, false, of.scale, of.window, std::nullopt);
  return {std::move(std::get<0>(results)), std::move(std::get<1>(results))};
}

template <class T>
void flash_attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<float> rotation,
                             const std::int32_t* positions, T* y, float* log_sums) {
  at::Tensor rotated;
  if (rotation.cosine) {
    rotated = at::empty({segments.tokens, shape.width()}, options_of(brief_type<T>));
    auto* const turned = static_cast<T*>(rotated.mutable_data_ptr());
    rotate_heads(qkv, shape, rotation, positions, segments.tokens, RotateBy::position, turned);
    qkv = turned;
  }
  const auto [output, sums] = flash_forward(FlashArguments(qkv, shape, segments));
  heads_at(y, segments.tokens, shape.heads, shape.head_size, shape.heads * shape.head_size).copy_(output);
  row_sums_at(log_sums, segments.tokens, shape.heads).copy_(sums.t());
}

template <class T>
void flash_attention_backward(const T* dy, const T* qkv, const T* y, const float* log_sums, const AttentionShape& shape,
                              Segments segments, Rotation<float> rotation, const std::int32_t* positions, T* dqkv) {
  const std::int64_t rows = segments.tokens, size = shape.head_size, width = shape.heads * size;
  if (rotation.cosine) {  // into memory that gets its own values at the end
    rotate_heads(qkv, shape, rotation, positions, rows, RotateBy::position, dqkv);
    qkv = dqkv;
  }
  const FlashArguments of(qkv, shape, segments);
  at::Tensor output, sums;
  if (y == nullptr) {
    std::tie(output, sums) = flash_forward(of);
  } else {
    output = heads_at(y, rows, shape.heads, size, width);
    sums = row_sums_at(log_sums, rows, shape.heads).t().contiguous();
  }
  const at::Tensor unused = at::empty({2}, options_of(at::kLong));  // the state of dropout
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      heads_at(dy, rows, shape.heads, size, width), of.queries, of.keys, of.values, output, sums, of.starts, of.starts,
      of.longest, of.longest, 0.0, true, unused, unused, of.scale, of.window, std::nullopt);
  invariant(dq.is_contiguous() && dk.is_contiguous() && dv.is_contiguous(), "gradients of heads have no gaps");
  const auto values = [](const at::Tensor& tensor) { return static_cast<const T*>(tensor.const_data_ptr()); };
  join_gradients(values(dq), values(dk), values(dv), shape, rotation, positions, rows, dqkv);
}

}  // namespace

template <class T>
void gpu_attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                           const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout) {
  if constexpr (is_brief<T>) {
    if (takes_flash<T>(shape, segments, dropout, {qkv}))
      return in_libtorch("cannot compute attention",
                         [&] { flash_attention_forward(qkv, shape, segments, rotation, positions, y, log_sums); });
  }
  cuda::attention_forward<T>(qkv, shape, segments, rotation, positions, y, log_sums, dropout);
}

template <class T>
void gpu_attention_backward(const T* dy, const T* qkv, const T* y, const Math<T>* log_sums, const AttentionShape& shape,
                            Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                            const AttentionDropout& dropout) {
  if constexpr (is_brief<T>) {
    if (takes_flash<T>(shape, segments, dropout, {dy, qkv, y, dqkv}))
      return in_libtorch("cannot compute the gradient of attention", [&] {
        flash_attention_backward(dy, qkv, y, log_sums, shape, segments, rotation, positions, dqkv);
      });
  }
  cuda::attention_backward<T>(dy, qkv, y, log_sums, shape, segments, rotation, positions, dqkv, dropout);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                \
  template void gpu_attention_forward<T>(const T*, const AttentionShape&, Segments, Rotation<Math<T>>,         \
                                         const std::int32_t*, T*, Math<T>*, const AttentionDropout&);          \
  template void gpu_attention_backward<T>(const T*, const T*, const T*, const Math<T>*, const AttentionShape&, \
                                          Segments, Rotation<Math<T>>, const std::int32_t*, T*,                \
                                          const AttentionDropout&);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
