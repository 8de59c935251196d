#include "tensor/functions/attention.hpp"

#include "tensor/functions/attention_arguments.hpp"
#include "tensor/functions/checked_function.hpp"
#include "tensor/saved_memory.hpp"

#include <torch/csrc/autograd/custom_function.h>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

Segments segments_of(const at::Tensor& starts, const at::Tensor& qkv) {
  return {pointer<std::int64_t>(starts), starts.numel() - 1, qkv.size(0)};
}

struct AttentionFunction {
  static constexpr std::string_view name = "causal_attention";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const AttentionShape& shape,
                            const at::Tensor& segments, const at::Tensor& positions,
                            const std::optional<at::Tensor>& rotary, const Dropout& dropout, std::int64_t first_head,
                            AttentionValues* values) {
    keep(context, dropout);
    const at::Tensor table = rotary.value_or(at::Tensor());
    AttentionValues own;
    AttentionValues& made = values ? *values : own;
    const bool known = made.log_sums.defined();
    if (!made.y.defined()) made.y = fresh({qkv.size(0), shape.heads * shape.head_size}, qkv.scalar_type(), qkv);
    if (!known) {
      made.log_sums = fresh({qkv.size(0), shape.heads}, math_type(qkv.scalar_type()), qkv);
      with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
        on.attention_forward(pointer<T>(qkv), shape, segments_of(segments, qkv), rotation_of<Math<T>>(table),
                             pointer<std::int32_t>(positions), pointer<T>(made.y), pointer<Math<T>>(made.log_sums),
                             dropout_of(dropout, first_head));
      });
    }
    context->saved_data["shape"] =
        std::vector<std::int64_t>{shape.heads, shape.kv_heads, shape.head_size, shape.window, first_head};
    context->saved_data["log_sums"] = made.log_sums;
    context->save_for_backward({qkv, segments, positions, table});
    note_saved({qkv, made.log_sums});
    return made.y.detach();
  }
  static FunctionCosts costs(const at::Tensor& qkv, const AttentionShape& shape, const at::Tensor&, const at::Tensor&,
                             const std::optional<at::Tensor>&, const Dropout&, std::int64_t,
                             const AttentionValues* values) {
    FunctionCosts costs = attention_costs(call_rows(qkv.size(0), qkv.scalar_type()), shape);
    if (values && values->y.defined()) costs.forward[0] = 0;
    if (values && values->log_sums.defined()) costs.forward[1] = 0;
    return costs;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &segments = saved[1], &positions = saved[2], &table = saved[3];
    const std::vector<std::int64_t> sizes = context->saved_data["shape"].toIntVector();
    const AttentionShape shape{sizes[0], sizes[1], sizes[2], sizes[3]};
    const Dropout dropout = kept_dropout(context);
    const at::Tensor log_sums = context->saved_data["log_sums"].toTensor();
    const at::Tensor dy = gradients[0].contiguous();
    const at::Tensor dqkv = at::empty(qkv.sizes(), qkv.options());
    with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
      on.attention_backward(pointer<T>(dy), pointer<T>(qkv), pointer<Math<T>>(log_sums), shape,
                            segments_of(segments, qkv), rotation_of<Math<T>>(table), pointer<std::int32_t>(positions),
                            pointer<T>(dqkv), dropout_of(dropout, sizes[4]));
    });
    return {dqkv, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor causal_attention(const at::Tensor& qkv, const AttentionShape& shape, const at::Tensor& segments,
                            const at::Tensor& positions, const at::Tensor& rotary, const Dropout& dropout,
                            std::int64_t first_head, AttentionValues* values) {
  return CheckedFunction<AttentionFunction>::apply(qkv, shape, segments, positions,
                                                   rotary.defined() ? std::optional(rotary) : std::nullopt, dropout,
                                                   first_head, values);
}

}  // namespace lockstep
