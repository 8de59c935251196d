#include "tensor/functions/embedding.hpp"

#include "tensor/functions/checked_function.hpp"
#include "tensor/functions/dispatch.hpp"
#include "tensor/unit.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

void add_gradient(Parameter& table, const at::Tensor& indices, const at::Tensor& dy) {
  if (!table.is_trained()) return;
  const Parameter::Accumulation target = table.touch();
  with_kernels(dy, [&]<class M>(const Kernels<M>& on) {
    on.embedding_backward(pointer<Math<M>>(dy), pointer<std::int32_t>(indices), dy.size(0), dy.size(1),
                          table.shape()[0], target.beta, pointer<Math<M>>(target.gradient));
  });
}

/// By row of this rank's part of the table; −1 where another rank has the entry.
at::Tensor own_indices(const Parameter& table, const at::Tensor& indices) {
  const auto first = static_cast<std::int32_t>(table.part().begin[0]);
  const auto count = static_cast<std::int32_t>(table.shape()[0]);
  const at::Tensor own = at::empty(indices.sizes(), indices.options());
  with_kernels(indices.device().type(), at::kFloat, [&]<class T>(const Kernels<T>& on) {
    on.indices_of_part(pointer<std::int32_t>(indices), indices.numel(), first, count, pointer<std::int32_t>(own));
  });
  return own;
}

/// Those of the rows that this rank has, without padding.
at::Tensor own_positions(const at::Tensor& positions, const BlockLane* lane) {
  if (!shares_rows(lane)) return positions;
  const std::int64_t rows = positions.numel(), each = lane->own_rows(rows);
  const std::int64_t first = std::min(lane->rank() * each, rows);
  return positions.narrow(0, first, std::min(each, rows - first));
}

struct EmbeddingFunction {
  static constexpr std::string_view name = "embed";
  // The anchor makes autograd record a function that has no differentiable input.
  static at::Tensor forward(AutogradContext* context, const at::Tensor&, Parameter* tokens, Parameter* positions,
                            const at::Tensor& token_indices, const at::Tensor& position_indices, at::ScalarType type,
                            const BlockLane* lane, const Dropout& dropout) {
    keep(context, dropout);
    context->saved_data["tokens"] = reinterpret_cast<std::int64_t>(tokens);
    context->saved_data["positions"] = reinterpret_cast<std::int64_t>(positions);
    context->saved_data["lane"] = reinterpret_cast<std::int64_t>(lane);
    context->save_for_backward({token_indices, position_indices});
    const at::Tensor table = tokens->compute(), places = positions ? positions->compute() : at::Tensor();
    const std::int64_t rows = token_indices.numel(), channels = table.size(1);
    at::Tensor y = fresh({rows, channels}, type, table);
    with_kernels(table, [&]<class T>(const Kernels<T>& on) {
      on.embedding_forward(pointer<T>(table), pointer<std::int32_t>(token_indices), rows, channels,
                           StoreMode::overwrite, pointer<Math<T>>(y));
      if (shares_rows(lane))
        y = lane->scatter_rows(y);
      else if (lane)
        lane->all_reduce(y);
      if (!positions) return;
      on.embedding_forward(pointer<T>(places), pointer<std::int32_t>(position_indices), position_indices.numel(),
                           channels, StoreMode::add, pointer<Math<T>>(y));
    });
    if (dropout.mask) {
      with_kernels(y, [&]<class T>(const Kernels<T>& on) {
        on.dropout(dropout.mask, pointer<Place>(dropout.places), y.size(0), channels, pointer<Math<T>>(y),
                   pointer<T>(y));
      });
    }
    return y;
  }
  static FunctionCosts costs(const at::Tensor&, const Parameter* tokens, const Parameter*,
                             const at::Tensor& token_indices, const at::Tensor&, at::ScalarType type,
                             const BlockLane* lane, const Dropout& dropout) {
    return embedding_costs(call_rows(token_indices.numel(), type, lane), tokens->shape()[1], dropout.mask ? 1 : 0);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto indices = context->get_saved_variables();
    const auto* const lane = reinterpret_cast<const BlockLane*>(context->saved_data["lane"].toInt());
    const Dropout dropout = kept_dropout(context);
    at::Tensor dy = gradients[0].contiguous();
    if (dropout.mask) dy = dropped(dropout, dy, dy.scalar_type());
    add_gradient(*reinterpret_cast<Parameter*>(context->saved_data["tokens"].toInt()), indices[0],
                 shares_rows(lane) ? lane->gather_rows(dy, indices[0].numel()) : dy);
    auto* positions = reinterpret_cast<Parameter*>(context->saved_data["positions"].toInt());
    if (positions) add_gradient(*positions, indices[1], dy.narrow(0, 0, indices[1].numel()));
    return variable_list(8);
  }
};

}  // namespace

at::Tensor embed(Parameter& token_table, Parameter* position_table, const at::Tensor& tokens,
                 const at::Tensor& positions, at::ScalarType type, const BlockLane* lane, const Dropout& dropout) {
  const at::Tensor anchor = at::empty({0}, tokens.options().dtype(type)).requires_grad_(at::GradMode::is_enabled());
  return CheckedFunction<EmbeddingFunction>::apply(
      anchor, &token_table, position_table, lane ? own_indices(token_table, tokens) : tokens,
      own_positions(positions, lane), type, lane, of_own_rows(dropout, lane));
}

}  // namespace lockstep
