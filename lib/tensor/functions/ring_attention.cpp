#include "tensor/functions/ring_attention.hpp"

#include "tensor/functions/attention_arguments.hpp"
#include "tensor/functions/checked_function.hpp"
#include "tensor/kernels/ring_attention_kernel.hpp"
#include "tensor/saved_memory.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <utility>
#include <vector>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

static_assert(sizeof(SequencePart) == 3 * sizeof(std::int64_t));

/// The ring as it is for one of its ranks.
class Ring {
 public:
  Ring(const AttentionShape& shape, const RingSegments& segments, const BlockLane& lane)
      : shape_(shape), segments_(segments), lane_(lane) {}

  int ranks() const { return lane_.ranks(); }
  /// With the keys that have made so many steps.
  RingStep step(int made) const {
    const int from = (lane_.rank() - made + ranks()) % ranks();
    return {shape_, segments_.positions.size(1), segments_.parts.size(1), rows_of(lane_.rank()), rows_of(from)};
  }

 private:
  RingRows rows_of(int rank) const {
    const at::Tensor parts = segments_.parts.select(0, rank), positions = segments_.positions.select(0, rank);
    return {reinterpret_cast<const SequencePart*>(pointer<std::int64_t>(parts)), pointer<std::int32_t>(positions)};
  }
  const AttentionShape& shape_;
  const RingSegments& segments_;
  const BlockLane& lane_;
};

/// Keys and values of qkv, side by side.
at::Tensor keys_and_values(const at::Tensor& qkv, const AttentionShape& shape) {
  return qkv.narrow(1, shape.heads * shape.head_size, 2 * shape.kv_heads * shape.head_size).contiguous();
}

/// Calls attend(made, kv) with the keys and values of each rank of the ring, while the next ones come, and then
/// went_on().
template <class Attend, class WentOn>
void go_around(const BlockLane& lane, at::Tensor kv, const Attend& attend, const WentOn& went_on) {
  for (int made = 0; made < lane.ranks(); ++made) {
    const bool last = made + 1 == lane.ranks();
    BlockLane::Shifted next = last ? BlockLane::Shifted{} : lane.start_shift(kv);
    attend(made, kv);
    kv = last ? at::Tensor() : lane.ended(std::move(next));
    went_on();
  }
}

AttentionValues attended(const at::Tensor& qkv, const AttentionShape& shape, const RingSegments& segments,
                         const at::Tensor& table, const BlockLane& lane, const Dropout& dropout,
                         std::int64_t first_head) {
  const std::int64_t rows = qkv.size(0);
  const Ring ring(shape, segments, lane);
  AttentionValues made;
  made.log_sums = at::full({rows, shape.heads}, -std::numeric_limits<double>::infinity(),
                           at::TensorOptions().dtype(math_type(qkv.scalar_type())).device(qkv.device()));
  const at::Tensor sums = at::zeros({shape.heads, rows, shape.head_size}, made.log_sums.options());
  const auto attend = [&](int steps, const at::Tensor& kv) {
    with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
      on.ring_attention_forward(ring.step(steps), pointer<T>(qkv), pointer<T>(kv), rotation_of<Math<T>>(table),
                                pointer<Math<T>>(sums), pointer<Math<T>>(made.log_sums),
                                dropout_of(dropout, first_head));
    });
  };
  go_around(lane, keys_and_values(qkv, shape), attend, [] {});
  made.y = fresh({rows, shape.heads * shape.head_size}, qkv.scalar_type(), qkv);
  with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
    on.ring_attention_result(ring.step(0), pointer<Math<T>>(sums), pointer<T>(made.y));
  });
  return made;
}

struct RingAttention {
  static constexpr std::string_view name = "ring_attention";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const AttentionShape& shape,
                            const RingSegments& segments, const std::optional<at::Tensor>& rotary,
                            const BlockLane* lane, const Dropout& dropout, std::int64_t first_head,
                            AttentionValues* values) {
    keep(context, dropout);
    const at::Tensor table = rotary.value_or(at::Tensor());
    AttentionValues own;
    AttentionValues& made = values ? *values : own;
    if (!made.log_sums.defined()) made = attended(qkv, shape, segments, table, *lane, dropout, first_head);
    context->saved_data["lane"] = reinterpret_cast<std::int64_t>(lane);
    context->saved_data["shape"] =
        std::vector<std::int64_t>{shape.heads, shape.kv_heads, shape.head_size, shape.window, first_head};
    context->saved_data["log_sums"] = made.log_sums;
    context->save_for_backward({qkv, segments.parts, segments.positions, table, made.y});
    note_saved({qkv, made.log_sums, made.y});
    return made.y.detach();
  }

  static FunctionCosts costs(const at::Tensor& qkv, const AttentionShape& shape, const RingSegments&,
                             const std::optional<at::Tensor>&, const BlockLane* lane, const Dropout&, std::int64_t,
                             const AttentionValues* values) {
    return unless_known(
        attention_costs(call_rows(qkv.size(0), qkv.scalar_type()), shape, 0, {}, {.ulysses = 1, .ring = lane->ranks()}),
        values ? values->log_sums : at::Tensor());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &table = saved[3], &y = saved[4];
    const RingSegments segments{saved[1], saved[2]};
    const auto& lane = *reinterpret_cast<const BlockLane*>(context->saved_data["lane"].toInt());
    const std::vector<std::int64_t> sizes = context->saved_data["shape"].toIntVector();
    const AttentionShape shape{sizes[0], sizes[1], sizes[2], sizes[3]};
    const Dropout dropout = kept_dropout(context);
    const at::Tensor log_sums = context->saved_data["log_sums"].toTensor();
    const at::Tensor dy = gradients[0].contiguous();
    const std::int64_t rows = qkv.size(0);
    const Ring ring(shape, segments, lane);
    at::Tensor products = at::empty(log_sums.sizes(), log_sums.options());
    at::Tensor dq = at::zeros({shape.heads, rows, shape.head_size}, log_sums.options());
    at::Tensor dkv = at::zeros({2 * shape.kv_heads, rows, shape.head_size}, log_sums.options());
    with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
      on.ring_attention_products(ring.step(0), pointer<T>(dy), pointer<T>(y), pointer<Math<T>>(products));
    });
    const auto differentiate = [&](int made, const at::Tensor& kv) {
      with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
        on.ring_attention_backward(ring.step(made), pointer<T>(dy), pointer<T>(qkv), pointer<T>(kv),
                                   rotation_of<Math<T>>(table), pointer<Math<T>>(log_sums), pointer<Math<T>>(products),
                                   pointer<Math<T>>(dq), pointer<Math<T>>(dkv), dropout_of(dropout, sizes[4]));
      });
    };
    // Gradients of keys go with them, and after the last step home.
    go_around(lane, keys_and_values(qkv, shape), differentiate, [&] { dkv = lane.ended(lane.start_shift(dkv)); });
    products.reset();
    const at::Tensor dqkv = at::empty(qkv.sizes(), qkv.options());
    with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
      on.ring_attention_gradient(ring.step(0), pointer<Math<T>>(dq), pointer<Math<T>>(dkv), rotation_of<Math<T>>(table),
                                 pointer<T>(dqkv));
    });
    return {dqkv, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor ring_attention(const at::Tensor& qkv, const AttentionShape& shape, const RingSegments& segments,
                          const at::Tensor& rotary, const BlockLane& lane, const Dropout& dropout,
                          std::int64_t first_head, AttentionValues* values) {
  return CheckedFunction<RingAttention>::apply(qkv, shape, segments,
                                               rotary.defined() ? std::optional(rotary) : std::nullopt, &lane, dropout,
                                               first_head, values);
}

}  // namespace lockstep
