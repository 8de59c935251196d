#include "tensor/functions/experts.hpp"

#include "tensor/functions/checked_function.hpp"
#include "tensor/functions/dispatch.hpp"
#include "tensor/number_types.hpp"
#include "tensor/saved_memory.hpp"
#include "tensor/weight_gradients.hpp"

#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

std::int32_t* indices_of(const at::Tensor& tensor) { return pointer<std::int32_t>(tensor); }
RowGroups groups_of(const at::Tensor& offsets) { return {pointer<std::int64_t>(offsets), offsets.size(0) - 1}; }

/// Gives each chosen row its place.
void group_by_expert(const at::Tensor& x, const RoutedSamples& samples, Routing& routing) {
  const RoutingShape& shape = routing.shape;
  routing.places = fresh({shape.tokens, shape.per_token}, at::kInt, x);
  routing.offsets = fresh({shape.experts + 1}, at::kLong, x);
  routing.rows = (samples.routed < 0 ? shape.tokens : samples.routed) * shape.per_token;
  if (samples.counted) routing.choices = at::zeros({shape.experts}, x.options().dtype(at::kDouble));
  with_kernels(x, [&]<class T>(const Kernels<T>& on) {
    if (samples.counted)
      on.count_choices(indices_of(routing.chosen), indices_of(samples.of_rows), shape,
                       pointer<double>(routing.choices));
    on.group_by_expert(indices_of(routing.chosen), indices_of(samples.of_rows), shape,
                       pointer<std::int64_t>(routing.offsets), indices_of(routing.places));
  });
}

struct RouterFunction {
  static constexpr std::string_view name = "router";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Router* router,
                            const RoutedSamples* samples, Routing* routing) {
    const Choose choose = routing->chosen.defined() ? Choose::given : Choose::largest;
    if (choose == Choose::largest)
      routing->chosen = fresh({routing->shape.tokens, routing->shape.per_token}, at::kInt, x);
    const at::Tensor& chosen = routing->chosen;
    const Router::Output output = router->forward(x, choose, chosen);
    at::Tensor slopes;
    if (samples->scale) {
      const Router::Balance balance = router->balance(output.probabilities, chosen, *samples);
      routing->aux_loss = balance.loss;
      slopes = balance.slopes;
    }
    group_by_expert(x, *samples, *routing);
    context->saved_data["router"] = reinterpret_cast<std::int64_t>(router);
    context->saved_data["weights"] = output.weights.detach();  // its own output: autograd would hold itself
    context->save_for_backward({x, output.probabilities, chosen, slopes.defined() ? samples->of_rows : slopes, slopes});
    note_saved({x, output.weights, output.probabilities, chosen});
    return output.weights;
  }
  static FunctionCosts costs(const at::Tensor& x, const Router* router, const RoutedSamples*, const Routing* routing) {
    const RoutingShape& shape = routing->shape;
    FunctionCosts costs = router_costs(call_rows(x.size(0), x.scalar_type()), x.size(1),
                                       {.count = router->linear().out(), .per_token = shape.per_token});
    if (routing->chosen.defined()) costs.forward.front() = 0;
    return costs;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& router = *reinterpret_cast<const Router*>(context->saved_data["router"].toInt());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &probabilities = saved[1], &chosen = saved[2], &samples = saved[3],
                     &slopes = saved[4];
    const at::Tensor weights = context->saved_data["weights"].toTensor(), dweights = gradients[0].contiguous();
    const RoutingShape shape = router.shape(x.size(0));
    const at::Tensor dlogits = fresh({shape.tokens, shape.experts}, x.scalar_type(), x);
    with_kernels(x, [&]<class T>(const Kernels<T>& on) {
      using M = Math<T>;
      const AuxSlopes<M> aux{slopes.defined() ? indices_of(samples) : nullptr, pointer<M>(slopes)};
      on.route_backward(pointer<M>(dweights), pointer<M>(weights), pointer<M>(probabilities), indices_of(chosen), aux,
                        shape, pointer<T>(dlogits));
    });
    const at::Tensor dx = router.linear().backward_input(dlogits);
    add_weight_gradient(x, dlogits, [&linear = router.linear()](const at::Tensor& input, const at::Tensor& gradient) {
      linear.backward_weight(input, gradient);
    });
    return {dx, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

void keep(AutogradContext* context, const RoutingShape& shape) {
  context->saved_data["per_token"] = shape.per_token;
  context->saved_data["tokens"] = shape.tokens;
}
/// As far as the ways of rows need it.
RoutingShape shape_of(AutogradContext* context) {
  return {.tokens = context->saved_data["tokens"].toInt(), .per_token = context->saved_data["per_token"].toInt()};
}

struct DispatchFunction {
  static constexpr std::string_view name = "dispatch";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& places,
                            const RoutingShape& shape, std::int64_t count) {
    keep(context, shape);
    context->save_for_backward({places});
    note_saved({places});
    return dispatched(x, places, shape, count);
  }
  static FunctionCosts costs(const at::Tensor& x, const at::Tensor&, const RoutingShape&, std::int64_t count) {
    return dispatch_costs(call_rows(x.size(0), x.scalar_type()), x.size(1), count);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor places = context->get_saved_variables()[0];
    return {dispatched_backward(gradients[0].contiguous(), places, shape_of(context)), at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

struct CombineFunction {
  static constexpr std::string_view name = "combine";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& residual, const at::Tensor& rows,
                            const at::Tensor& weights, const at::Tensor& places, const RoutingShape& shape,
                            const Dropout& dropout, const at::Tensor* known) {
    keep(context, shape);
    keep(context, dropout);
    context->save_for_backward({rows, weights, places});
    note_saved({rows, weights, places});
    if (known->defined()) return known->detach();
    const at::Tensor base = residual.contiguous();
    const at::Tensor y = at::empty(base.sizes(), base.options());
    with_kernels(rows, [&]<class T>(const Kernels<T>& on) {
      using M = Math<T>;
      on.combine_rows(dropout.mask ? nullptr : pointer<M>(base), pointer<T>(rows), pointer<M>(weights),
                      indices_of(places), shape, rows.size(1), pointer<M>(y));
      if (dropout.mask)
        on.dropout_add(dropout.mask, pointer<Place>(dropout.places), shape.tokens, rows.size(1), pointer<M>(base),
                       nullptr, pointer<M>(y));
    });
    return y;
  }
  static FunctionCosts costs(const at::Tensor& residual, const at::Tensor& rows, const at::Tensor&, const at::Tensor&,
                             const RoutingShape& shape, const Dropout& dropout, const at::Tensor* known) {
    return unless_known(combine_costs(call_rows(residual.size(0), rows.scalar_type()), rows.size(1), shape.per_token,
                                      rows.size(0), dropout.mask ? 1 : 0),
                        *known);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &weights = saved[1], &places = saved[2];
    const at::Tensor dy = gradients[0].contiguous();
    const Dropout dropout = kept_dropout(context);
    const at::Tensor own = dropout.mask ? dropped(dropout, dy, dy.scalar_type()) : dy;
    const at::Tensor drows = at::empty(rows.sizes(), rows.options());
    const at::Tensor dweights = at::empty(weights.sizes(), weights.options());
    with_kernels(rows, [&]<class T>(const Kernels<T>& on) {
      using M = Math<T>;
      on.combine_backward(pointer<M>(own), pointer<T>(rows), pointer<M>(weights), indices_of(places), shape_of(context),
                          rows.size(1), pointer<T>(drows), pointer<M>(dweights));
    });
    return {dy, drows, dweights, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct GroupedLinearFunction {
  static constexpr std::string_view name = "grouped linear";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const GroupedLinear* linear,
                            const at::Tensor& offsets, const at::Tensor* known) {
    context->saved_data["linear"] = reinterpret_cast<std::int64_t>(linear);
    context->saved_data["offsets"] = offsets;
    context->save_for_backward({x});
    note_saved({x});
    return known->defined() ? known->detach() : linear->forward(x, offsets);
  }
  static FunctionCosts costs(const at::Tensor& x, const GroupedLinear* linear, const at::Tensor&,
                             const at::Tensor* known) {
    return unless_known(grouped_linear_costs({x.size(0), x.size(1), linear->out()}, dtype_of(x.scalar_type())), *known);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& linear = *reinterpret_cast<const GroupedLinear*>(context->saved_data["linear"].toInt());
    const at::Tensor offsets = context->saved_data["offsets"].toTensor();
    const at::Tensor x = context->get_saved_variables()[0], dy = gradients[0].contiguous();
    const at::Tensor dx = linear.backward_input(dy, offsets);
    add_weight_gradient(x, dy, [&linear, offsets](const at::Tensor& input, const at::Tensor& gradient) {
      linear.backward_weight(input, gradient, offsets);
    });
    return {dx, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Router::Router(Parameter& weight, std::int64_t per_token, bool normalised)
    : weight_(&weight),
      linear_({&weight}, {nullptr}, WeightLayout::out_in),
      per_token_(per_token),
      normalised_(normalised) {}

Routing Router::operator()(const at::Tensor& x, const at::Tensor& chosen, const RoutedSamples& samples) const {
  Routing routing{.shape = shape(x.size(0)), .weights = {}, .chosen = chosen, .places = {}, .offsets = {}};
  routing.weights = CheckedFunction<RouterFunction>::apply(x, this, &samples, &routing);
  return routing;
}

Router::Output Router::forward(const at::Tensor& x, Choose choose, const at::Tensor& chosen) const {
  const RoutingShape own = shape(x.size(0));
  const at::ScalarType type = math_type(x.scalar_type());
  const at::Tensor logits = fresh({own.tokens, own.experts}, type, x);
  Output output{fresh({own.tokens, own.per_token}, type, x), fresh({own.tokens, own.experts}, type, x)};
  with_kernels(x, [&]<class T>(const Kernels<T>& on) {
    using M = Math<T>;
    const MatrixView<T> factor{pointer<T>(weight_->compute()), linear_.in(), Trans::yes};
    on.gemm(own.tokens, own.experts, linear_.in(), 1, MatrixView<T>{pointer<T>(x), linear_.in()}, factor, 0,
            pointer<M>(logits), own.experts);
    on.route(pointer<M>(logits), own, choose, indices_of(chosen), pointer<M>(output.weights),
             pointer<M>(output.probabilities));
  });
  return output;
}

Router::Balance Router::balance(const at::Tensor& probabilities, const at::Tensor& chosen,
                                const RoutedSamples& samples) const {
  const RoutingShape own = shape(probabilities.size(0));
  const at::Tensor sums = fresh({2, samples.count, own.experts}, probabilities.scalar_type(), probabilities);
  Balance result{.loss = fresh({}, at::kDouble, probabilities),
                 .slopes = fresh({samples.count, own.experts}, probabilities.scalar_type(), probabilities)};
  with_kernels(probabilities, [&]<class T>(const Kernels<T>& on) {
    using M = Math<T>;
    on.sum_by_sample(pointer<M>(probabilities), indices_of(chosen), indices_of(samples.of_rows), own, samples.count,
                     pointer<M>(sums));
    if (samples.sharers != nullptr) samples.sharers->all_reduce(sums);
    on.aux_loss(pointer<M>(sums), samples.count, own.experts, samples.tokens, *samples.scale, pointer<M>(result.slopes),
                pointer<double>(result.loss));
  });
  return result;
}

at::Tensor dispatched(const at::Tensor& x, const at::Tensor& places, const RoutingShape& shape, std::int64_t rows) {
  const at::Tensor y = fresh({rows, x.size(1)}, x.scalar_type(), x);
  with_kernels(x, [&]<class T>(const Kernels<T>& on) {
    on.dispatch_rows(pointer<T>(x), indices_of(places), shape, x.size(1), pointer<T>(y));
  });
  return y;
}

at::Tensor dispatched_backward(const at::Tensor& drows, const at::Tensor& places, const RoutingShape& shape) {
  const at::Tensor dx = fresh({shape.tokens, drows.size(1)}, drows.scalar_type(), drows);
  with_kernels(drows, [&]<class T>(const Kernels<T>& on) {
    on.dispatch_backward(pointer<T>(drows), indices_of(places), shape, drows.size(1), pointer<T>(dx));
  });
  return dx;
}

at::Tensor dispatch(const at::Tensor& x, const Routing& routing) {
  return CheckedFunction<DispatchFunction>::apply(x, routing.places, routing.shape, routing.rows);
}

at::Tensor combine(const at::Tensor& residual, const at::Tensor& rows, const Routing& routing, const Dropout& dropout,
                   const at::Tensor& known) {
  return CheckedFunction<CombineFunction>::apply(residual, rows, routing.weights, routing.places, routing.shape,
                                                 dropout, &known);
}

GroupedLinear::GroupedLinear(Parameter& weight, std::int64_t experts)
    : weight_(&weight), experts_(experts), in_(weight.shape()[1]), out_(weight.shape()[0] / experts) {
  invariant(weight.shape()[0] % experts == 0, "stacked weights have the same number of rows for each expert");
}

at::Tensor GroupedLinear::operator()(const at::Tensor& x, const at::Tensor& offsets, const at::Tensor& known) const {
  return CheckedFunction<GroupedLinearFunction>::apply(x, this, offsets, &known);
}

at::Tensor GroupedLinear::forward(const at::Tensor& x, const at::Tensor& offsets) const {
  const at::Tensor y = fresh({x.size(0), out_}, x.scalar_type(), x);
  with_kernels(x, [&]<class T>(const Kernels<T>& on) {
    on.grouped_gemm_rounded(groups_of(offsets), out_, in_, pointer<T>(x), pointer<T>(weight_->compute()), Trans::yes,
                            pointer<T>(y));
  });
  return y;
}

at::Tensor GroupedLinear::backward_input(const at::Tensor& dy, const at::Tensor& offsets) const {
  const at::Tensor dx = fresh({dy.size(0), in_}, dy.scalar_type(), dy);
  with_kernels(dy, [&]<class T>(const Kernels<T>& on) {
    on.grouped_gemm_rounded(groups_of(offsets), in_, out_, pointer<T>(dy), pointer<T>(weight_->compute()), Trans::no,
                            pointer<T>(dx));
  });
  return dx;
}

void GroupedLinear::backward_weight(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& offsets) const {
  if (!weight_->is_trained()) return;
  const Parameter::Accumulation target = weight_->touch();
  with_kernels(x, [&]<class T>(const Kernels<T>& on) {
    on.grouped_weight_gemm(groups_of(offsets), out_, in_, pointer<T>(dy), pointer<T>(x), target.beta,
                           pointer<Math<T>>(target.gradient));
  });
}

}  // namespace lockstep
