#include "tensor/functions/attention.hpp"

#include "architecture/gpu_attention.hpp"
#include "device/device.hpp"
#include "tensor/functions/attention_arguments.hpp"
#include "tensor/functions/checked_function.hpp"
#include "tensor/number_types.hpp"
#include "tensor/saved_memory.hpp"

#include <torch/csrc/autograd/custom_function.h>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

Segments segments_of(const at::Tensor& starts, std::int64_t longest, const at::Tensor& qkv) {
  return {pointer<std::int64_t>(starts), starts.numel() - 1, qkv.size(0), longest};
}

/// Whether the backward of the device in use reads the output of the forward.
bool reads_output(const at::Tensor& qkv, const AttentionShape& shape, const Dropout& dropout) {
  if (this_device().properties().multiprocessors == 0) return false;
  const AttentionUse use{.compute = dtype_of(qkv.scalar_type()),
                         .head_size = shape.head_size,
                         .has_dropout = static_cast<bool>(dropout.mask)};
  return choose_gpu_attention(use).attention == GpuAttention::flash;
}

struct AttentionFunction {
  static constexpr std::string_view name = "causal_attention";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const AttentionShape& shape,
                            const AttentionSegments& segments, const at::Tensor& positions,
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
        on.attention_forward(pointer<T>(qkv), shape, segments_of(segments.starts, segments.longest, qkv),
                             rotation_of<Math<T>>(table), pointer<std::int32_t>(positions), pointer<T>(made.y),
                             pointer<Math<T>>(made.log_sums), dropout_of(dropout, first_head));
      });
    }
    context->saved_data["shape"] = std::vector<std::int64_t>{shape.heads,  shape.kv_heads, shape.head_size,
                                                             shape.window, first_head,     segments.longest};
    context->saved_data["log_sums"] = made.log_sums;
    const at::Tensor read = made.keeps_y && reads_output(qkv, shape, dropout) ? made.y : at::Tensor();
    context->save_for_backward({qkv, segments.starts, positions, table, read});
    note_saved({qkv, made.log_sums});
    return made.y.detach();
  }
  static FunctionCosts costs(const at::Tensor& qkv, const AttentionShape& shape, const AttentionSegments& segments,
                             const at::Tensor&, const std::optional<at::Tensor>& rotary, const Dropout& dropout,
                             std::int64_t, const AttentionValues* values) {
    AttentionScratch scratch;
    if (reads_output(qkv, shape, dropout))
      scratch = flash_scratch(shape, {.rows = qkv.size(0),
                                      .fewest_segments = segments.starts.numel() - 1,
                                      .most_segments = segments.starts.numel() - 1,
                                      .multiprocessors = this_device().properties().multiprocessors,
                                      .rotates = rotary.has_value(),
                                      .has_output = values && values->keeps_y});
    FunctionCosts costs = attention_costs(call_rows(qkv.size(0), qkv.scalar_type()), shape, 0, scratch);
    if (values && values->y.defined()) costs.forward[0] = 0;
    if (values && values->log_sums.defined()) costs.forward.resize(1);
    return costs;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &segments = saved[1], &positions = saved[2], &table = saved[3], &y = saved[4];
    const std::vector<std::int64_t> sizes = context->saved_data["shape"].toIntVector();
    const AttentionShape shape{sizes[0], sizes[1], sizes[2], sizes[3]};
    const Dropout dropout = kept_dropout(context);
    const at::Tensor log_sums = context->saved_data["log_sums"].toTensor();
    const at::Tensor dy = gradients[0].contiguous();
    const at::Tensor dqkv = at::empty(qkv.sizes(), qkv.options());
    with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
      on.attention_backward(pointer<T>(dy), pointer<T>(qkv), pointer<T>(y), pointer<Math<T>>(log_sums), shape,
                            segments_of(segments, sizes[5], qkv), rotation_of<Math<T>>(table),
                            pointer<std::int32_t>(positions), pointer<T>(dqkv), dropout_of(dropout, sizes[4]));
    });
    return {dqkv, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor causal_attention(const at::Tensor& qkv, const AttentionShape& shape, const AttentionSegments& segments,
                            const at::Tensor& positions, const at::Tensor& rotary, const Dropout& dropout,
                            std::int64_t first_head, AttentionValues* values) {
  return CheckedFunction<AttentionFunction>::apply(qkv, shape, segments, positions,
                                                   rotary.defined() ? std::optional(rotary) : std::nullopt, dropout,
                                                   first_head, values);
}

}  // namespace lockstep
