#include "tensor/functions/attention.hpp"

#include "tensor/functions/dispatch.hpp"
#include "tensor/saved_memory.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

template <class M>
Rotation<M> rotation_of(const at::Tensor& table) {
  if (!table.defined()) return {};
  const M* values = pointer<M>(table);
  return {values, values + table.size(1) * table.size(2)};
}

Segments segments_of(const at::Tensor& starts) { return {pointer<std::int64_t>(starts), starts.numel() - 1}; }

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const AttentionShape& shape,
                            const at::Tensor& segments, const at::Tensor& positions,
                            const std::optional<at::Tensor>& rotary) {
    const at::Tensor table = rotary.value_or(at::Tensor());
    const std::int64_t tokens = qkv.size(0);
    const at::Tensor y = fresh({tokens, shape.heads * shape.head_size}, qkv.scalar_type(), qkv);
    const at::Tensor log_sums = fresh({tokens, shape.heads}, math_type(qkv.scalar_type()), qkv);
    with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
      on.attention_forward(pointer<T>(qkv), shape, segments_of(segments), rotation_of<Math<T>>(table),
                           pointer<std::int32_t>(positions), pointer<T>(y), pointer<Math<T>>(log_sums));
    });
    context->saved_data["shape"] = std::vector<std::int64_t>{shape.heads, shape.kv_heads, shape.head_size};
    context->saved_data["log_sums"] = log_sums;
    context->save_for_backward({qkv, segments, positions, table});
    note_saved({qkv, log_sums});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &segments = saved[1], &positions = saved[2], &table = saved[3];
    const std::vector<std::int64_t> sizes = context->saved_data["shape"].toIntVector();
    const AttentionShape shape{sizes[0], sizes[1], sizes[2]};
    const at::Tensor log_sums = context->saved_data["log_sums"].toTensor();
    const at::Tensor dy = gradients[0].contiguous();
    const at::Tensor dqkv = at::empty(qkv.sizes(), qkv.options());
    with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
      on.attention_backward(pointer<T>(dy), pointer<T>(qkv), pointer<Math<T>>(log_sums), shape, segments_of(segments),
                            rotation_of<Math<T>>(table), pointer<std::int32_t>(positions), pointer<T>(dqkv));
    });
    return {dqkv, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

template <class M>
void fill_table(M* cosine, M* sine, std::int64_t positions, std::int64_t half, double theta) {
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(theta, -static_cast<double>(i) / static_cast<double>(half));
    for (std::int64_t p = 0; p < positions; ++p) {
      cosine[p * half + i] = static_cast<M>(std::cos(static_cast<double>(p) * frequency));
      sine[p * half + i] = static_cast<M>(std::sin(static_cast<double>(p) * frequency));
    }
  }
}

}  // namespace

at::Tensor RotaryTable::upto(std::int64_t positions) {
  if (table_.defined() && table_.size(1) >= positions) return table_;
  const std::int64_t rows = std::max<std::int64_t>(positions, table_.defined() ? 2 * table_.size(1) : least_positions),
                     half = head_size_ / 2;
  at::Tensor grown = at::empty({2, rows, half}, at::TensorOptions().dtype(type_));
  with_kernels(grown, [&]<class T>(const Kernels<T>&) {
    using M = Math<T>;
    fill_table(pointer<M>(grown), pointer<M>(grown) + rows * half, rows, half, theta_);
  });
  table_ = grown;  // whoever saved the former one keeps it
  return table_;
}

at::Tensor causal_attention(const at::Tensor& qkv, const AttentionShape& shape, const at::Tensor& segments,
                            const at::Tensor& positions, const at::Tensor& rotary) {
  return AttentionFunction::apply(qkv, shape, segments, positions,
                                  rotary.defined() ? std::optional(rotary) : std::nullopt);
}

}  // namespace lockstep
