#include "tensor/functions/head_exchange.hpp"

#include "tensor/functions/checked_function.hpp"
#include "tensor/functions/dispatch.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

/// Neighbouring columns of a matrix, and where a rank has them.
struct Columns {
  std::int64_t whole = 0, own = 0, count = 0;
};

/// Those of one rank: of its queries, its keys and its values.
std::vector<Columns> columns_of(const AttentionShape& all, std::int64_t ranks, std::int64_t rank) {
  const AttentionShape own = share_of(all, ranks);
  const std::int64_t head = all.head_size;
  const std::int64_t first_key = rank * all.kv_heads / ranks * head;
  return {{rank * own.heads * head, 0, own.heads * head},
          {all.heads * head + first_key, own.heads * head, own.kv_heads * head},
          {(all.heads + all.kv_heads) * head + first_key, (own.heads + own.kv_heads) * head, own.kv_heads * head}};
}

at::Tensor narrowed(const at::Tensor& matrix, std::int64_t first, const Columns& columns) {
  return matrix.narrow(1, first, columns.count);
}

struct ToOwnHeads {
  static constexpr std::string_view name = "to_own_heads";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const AttentionShape& all,
                            const BlockLane* lane, const at::Tensor* known) {
    context->saved_data["lane"] = reinterpret_cast<std::int64_t>(lane);
    context->saved_data["shape"] = std::vector<std::int64_t>{all.heads, all.kv_heads, all.head_size};
    if (known->defined()) return known->detach();
    const std::int64_t ranks = lane->ranks(), rows = qkv.size(0), width = share_of(all, ranks).width();
    const at::Tensor parts = fresh({ranks, rows, width}, qkv.scalar_type(), qkv);
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      for (const Columns& columns : columns_of(all, ranks, rank))
        narrowed(parts.select(0, rank), columns.own, columns).copy_(narrowed(qkv, columns.whole, columns));
    return lane->all_to_all(parts).view({ranks * rows, width});
  }
  static FunctionCosts costs(const at::Tensor& qkv, const AttentionShape& all, const BlockLane* lane,
                             const at::Tensor* known) {
    return unless_known(to_own_heads_costs(call_rows(qkv.size(0), qkv.scalar_type()), all, lane->ranks()), *known);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& lane = *reinterpret_cast<const BlockLane*>(context->saved_data["lane"].toInt());
    const std::vector<std::int64_t> sizes = context->saved_data["shape"].toIntVector();
    const AttentionShape all{.heads = sizes[0], .kv_heads = sizes[1], .head_size = sizes[2]};
    const at::Tensor dy = gradients[0].contiguous();
    const std::int64_t ranks = lane.ranks(), rows = dy.size(0) / ranks;
    const at::Tensor parts = lane.all_to_all(dy.view({ranks, rows, dy.size(1)}));
    const at::Tensor dx = fresh({rows, all.width()}, dy.scalar_type(), dy);
    const std::int64_t alike = std::max<std::int64_t>(1, ranks / all.kv_heads);  // ranks with the same key heads
    const auto part_of = [&](std::int64_t rank, const Columns& columns) {
      return narrowed(parts.select(0, rank), columns.own, columns);
    };
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::vector<Columns> own = columns_of(all, ranks, rank);
      narrowed(dx, own[0].whole, own[0]).copy_(part_of(rank, own[0]));
      if (rank % alike != 0) continue;
      for (const std::size_t keys_or_values : {1, 2}) {
        const Columns& columns = own[keys_or_values];
        at::Tensor sum = part_of(rank, columns);
        if (alike > 1) sum = sum.to(math_type(dy.scalar_type()));
        for (std::int64_t other = 1; other < alike; ++other) sum.add_(part_of(rank + other, columns));
        narrowed(dx, columns.whole, columns).copy_(sum);
      }
    }
    return {dx, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

/// Columns of (N, ranks·C) → (ranks, N, C), and back.
at::Tensor in_parts(const at::Tensor& x, std::int64_t ranks) {
  return x.view({x.size(0), ranks, x.size(1) / ranks}).transpose(0, 1).contiguous();
}
at::Tensor side_by_side(const at::Tensor& parts) {
  return parts.transpose(0, 1).contiguous().view({parts.size(1), parts.size(0) * parts.size(2)});
}

struct ToOwnRows {
  static constexpr std::string_view name = "to_own_rows";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& y, const BlockLane* lane,
                            const at::Tensor* known) {
    context->saved_data["lane"] = reinterpret_cast<std::int64_t>(lane);
    if (known->defined()) return known->detach();
    const std::int64_t ranks = lane->ranks();
    return side_by_side(lane->all_to_all(y.contiguous().view({ranks, y.size(0) / ranks, y.size(1)})));
  }
  static FunctionCosts costs(const at::Tensor& y, const BlockLane* lane, const at::Tensor* known) {
    const AttentionShape all{.heads = y.size(1) * lane->ranks(), .head_size = 1};
    return unless_known(to_own_rows_costs(call_rows(y.size(0) / lane->ranks(), y.scalar_type()), all), *known);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& lane = *reinterpret_cast<const BlockLane*>(context->saved_data["lane"].toInt());
    const at::Tensor dx = lane.all_to_all(in_parts(gradients[0].contiguous(), lane.ranks()));
    return {dx.view({dx.size(0) * dx.size(1), dx.size(2)}), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor to_own_heads(const at::Tensor& qkv, const AttentionShape& all, const BlockLane& lane,
                        const at::Tensor& known) {
  return CheckedFunction<ToOwnHeads>::apply(qkv, all, &lane, &known);
}

at::Tensor to_own_rows(const at::Tensor& y, const BlockLane& lane, const at::Tensor& known) {
  return CheckedFunction<ToOwnRows>::apply(y, &lane, &known);
}

}  // namespace lockstep
