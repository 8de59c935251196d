#include "tensor/functions/linear.hpp"

#include "tensor/functions/checked_function.hpp"
#include "tensor/functions/dispatch.hpp"
#include "tensor/saved_memory.hpp"
#include "tensor/unit.hpp"
#include "tensor/weight_gradients.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include <type_traits>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

at::Tensor rounded(const at::Tensor& values, at::ScalarType type) {
  if (values.scalar_type() == type) return values.contiguous();
  return with_kernels(values.device().type(), type, [&]<class T>(const Kernels<T>& on) {
    const at::Tensor in = values.contiguous();
    const at::Tensor out = at::empty(in.sizes(), in.options().dtype(type));
    on.round_to(pointer<Math<T>>(in), in.numel(), pointer<T>(out));
    return out;
  });
}

const Linear& linear_of(AutogradContext* context) {
  return *reinterpret_cast<const Linear*>(context->saved_data["linear"].toInt());
}
void keep(AutogradContext* context, const Linear* linear) {
  context->saved_data["linear"] = reinterpret_cast<std::int64_t>(linear);
}

void add_gradients(const Linear& linear, const at::Tensor& x, const at::Tensor& dy) {
  add_weight_gradient(x, dy, [&linear](const at::Tensor& input, const at::Tensor& gradient) {
    linear.backward_weight(input, gradient);
  });
}

struct LinearFunction {
  static constexpr std::string_view name = "linear";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Linear* linear, std::int64_t rows,
                            const at::Tensor* known) {
    keep(context, linear);
    context->save_for_backward({x});
    note_saved({x});
    return known->defined() ? known->detach() : linear->forward(linear->whole_input(x, rows));
  }
  static FunctionCosts costs(const at::Tensor& x, const Linear* linear, std::int64_t rows, const at::Tensor* known) {
    return unless_known(linear->costs(x, rows), *known);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Linear& linear = linear_of(context);
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor dy = gradients[0].contiguous();
    const at::Tensor dx = linear.backward_input(dy);
    add_gradients(linear, linear.whole_input(x, dy.size(0)), dy);
    linear.backward_bias(dy);
    return {dx, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct AddLinearFunction {
  static constexpr std::string_view name = "add_linear";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& residual, const at::Tensor& x,
                            const Linear* linear, const Dropout& dropout, const at::Tensor* known) {
    keep(context, linear);
    keep(context, dropout);
    context->save_for_backward({x});
    note_saved({x});
    return known->defined() ? known->detach() : linear->forward_add(residual, x, dropout);
  }
  static FunctionCosts costs(const at::Tensor&, const at::Tensor& x, const Linear* linear, const Dropout& dropout,
                             const at::Tensor* known) {
    return unless_known(linear->add_costs(x, dropout), *known);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Linear& linear = linear_of(context);
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor dy = gradients[0].contiguous();
    const Dropout dropout = kept_dropout(context);
    const at::Tensor own = dropout.mask ? dropped(dropout, dy, x.scalar_type()) : rounded(dy, x.scalar_type());
    const at::Tensor narrow = linear.whole_gradient(own, x.size(0));
    const at::Tensor dx = linear.backward_input(narrow);
    add_gradients(linear, x, narrow);
    linear.backward_bias(dropout.mask ? own : dy);
    return {dy, dx, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

bool adjacent(const Parameter& first, const Parameter& second) {
  return &first.unit() == &second.unit() && first.offset() + first.elements() == second.offset();
}

}  // namespace

Linear::Linear(std::vector<Parameter*> weights, std::vector<Parameter*> biases, WeightLayout layout)
    : biases_(std::move(biases)), layout_(layout) {
  invariant(!weights.empty() && weights.size() == biases_.size(),
            "a linear layer has a weight, and a bias or null for each");
  const std::size_t out_dim = layout == WeightLayout::out_in ? 0 : 1;
  in_ = weights[0]->shape()[1 - out_dim];
  for (std::size_t i = 0; i < weights.size(); ++i) {
    Parameter* const weight = weights[i];
    invariant(weight->shape().size() == 2 && weight->shape()[1 - out_dim] == in_,
              "concatenated weights have the same input size");
    const std::int64_t width = weight->shape()[out_dim];
    const bool joins = !parts_.empty() && !parts_.back().bias && !biases_[i] && layout == WeightLayout::out_in;
    if (joins && adjacent(*parts_.back().weights.back(), *weight)) {
      parts_.back().weights.push_back(weight);
      parts_.back().columns += width;
    } else {
      parts_.push_back({{weight}, biases_[i], out_, width});
    }
    widths_.push_back(width);
    out_ += width;
  }
}

void Linear::share(const BlockLane* lane, CutBy cut) {
  invariant(cut == CutBy::outputs || widths_.size() == 1, "a linear layer divided by its inputs has one weight");
  (cut == CutBy::outputs ? sums_input_gradient_ : sums_output_) = lane;
}

at::Tensor Linear::whole_input(const at::Tensor& x, std::int64_t rows) const {
  return shares_rows(sums_input_gradient_) ? sums_input_gradient_->gather_rows(x, rows) : x;
}

at::Tensor Linear::whole_gradient(const at::Tensor& dy, std::int64_t rows) const {
  return shares_rows(sums_output_) ? sums_output_->gather_rows(dy, rows) : dy;
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  const std::int64_t rows = x.size(0);
  const at::Tensor y = fresh({rows, out_}, x.scalar_type(), x);
  return with_kernels(x, [&]<class T>(const Kernels<T>& on) {
    for (const Part& part : parts_) {
      const T* weight = pointer<T>(part.weights[0]->compute());
      const at::Tensor bias = part.bias ? part.bias->compute() : at::Tensor();
      const MatrixView<T> factor = layout_ == WeightLayout::out_in ? MatrixView<T>{weight, in_, Trans::yes}
                                                                   : MatrixView<T>{weight, part.columns};
      on.gemm_rounded(rows, part.columns, in_, MatrixView<T>{pointer<T>(x), in_}, factor, pointer<T>(bias),
                      pointer<T>(y) + part.offset, out_);
    }
    return y;
  });
}

at::Tensor Linear::forward_add(const at::Tensor& residual, const at::Tensor& x, const Dropout& dropout) const {
  invariant(widths_.size() == 1 && residual.size(1) == out_, "a linear layer that adds to a residual has one weight");
  const std::int64_t rows = x.size(0);
  const bool shares = shares_rows(sums_output_);
  const at::Tensor base = residual.contiguous();
  const at::Tensor bias = biases_[0] ? biases_[0]->compute() : at::Tensor();
  at::Tensor product = at::empty({rows, out_}, base.options());
  with_kernels(x, [&]<class T>(const Kernels<T>& on) {
    const T* weight = pointer<T>(parts_[0].weights[0]->compute());
    const MatrixView<T> factor =
        layout_ == WeightLayout::out_in ? MatrixView<T>{weight, in_, Trans::yes} : MatrixView<T>{weight, out_};
    const MatrixView<T> input{pointer<T>(x), in_};
    Math<T>* const y = pointer<Math<T>>(product);
    // Of ranks whose products add up one adds to them; all do it where something of the sum is dropped.
    if (!dropout.mask && !shares && (sums_output_ == nullptr || sums_output_->rank() == 0))
      on.gemm_add(rows, out_, in_, input, factor, pointer<Math<T>>(base), pointer<T>(bias), y);
    else
      on.gemm(rows, out_, in_, 1, input, factor, 0, y, out_);
  });
  if (shares && !dropout.mask) {
    const at::Tensor own = bias.defined() ? base.add(bias) : base.clone();
    sums_output_->reduce_scatter_rows_into(product, own);
    return own;
  }
  if (shares)
    product = sums_output_->scatter_rows(product);
  else if (sums_output_)
    sums_output_->all_reduce(product);
  if (!dropout.mask) return product;
  with_kernels(x, [&]<class T>(const Kernels<T>& on) {
    on.dropout_add(dropout.mask, pointer<Place>(dropout.places), base.size(0), out_, pointer<Math<T>>(base),
                   pointer<T>(bias), pointer<Math<T>>(product));
  });
  return product;
}

at::Tensor Linear::backward_input(const at::Tensor& dy) const {
  const at::Tensor dx = own_backward_input(dy);
  if (!sums_input_gradient_) return dx;
  if (sums_input_gradient_->shares_rows()) return sums_input_gradient_->scatter_rows(dx);
  sums_input_gradient_->all_reduce(dx);
  return dx;
}

at::Tensor Linear::own_backward_input(const at::Tensor& dy) const {
  const at::ScalarType type = dy.scalar_type();
  const std::int64_t rows = dy.size(0);
  return with_kernels(dy, [&]<class T>(const Kernels<T>& on) {
    const auto weight_of = [&](const Part& part) {
      const T* weight = pointer<T>(part.weights[0]->compute());
      return layout_ == WeightLayout::out_in ? MatrixView<T>{weight, in_}
                                             : MatrixView<T>{weight, part.columns, Trans::yes};
    };
    if (parts_.size() == 1) {
      const at::Tensor dx = fresh({rows, in_}, type, dy);
      on.gemm_rounded(rows, in_, out_, MatrixView<T>{pointer<T>(dy), out_}, weight_of(parts_[0]), nullptr,
                      pointer<T>(dx), in_);
      return dx;
    }
    const at::Tensor wide = fresh({rows, in_}, math_type(type), dy);
    for (const Part& part : parts_) {
      on.gemm(rows, in_, part.columns, 1, MatrixView<T>{pointer<T>(dy) + part.offset, out_}, weight_of(part),
              part.offset == 0 ? 0 : 1, pointer<Math<T>>(wide), in_);
    }
    return rounded(wide, type);
  });
}

void Linear::backward_weight(const at::Tensor& x, const at::Tensor& dy) const {
  const std::int64_t rows = x.size(0);
  with_kernels(x, [&]<class T>(const Kernels<T>& on) {
    for (const Part& part : parts_) {
      if (!part.weights[0]->is_trained()) continue;
      Parameter::Accumulation target = part.weights[0]->touch();
      for (std::size_t i = 1; i < part.weights.size(); ++i) {
        invariant(part.weights[i]->touch().beta == target.beta, "weights of one product are accumulated alike");
      }
      const MatrixView<T> in{pointer<T>(x), in_, layout_ == WeightLayout::out_in ? Trans::no : Trans::yes};
      const MatrixView<T> out{pointer<T>(dy) + part.offset, out_,
                              layout_ == WeightLayout::out_in ? Trans::yes : Trans::no};
      Math<T>* const gradient = pointer<Math<T>>(target.gradient);
      if (layout_ == WeightLayout::out_in) {
        on.gemm(part.columns, in_, rows, 1, out, in, target.beta, gradient, in_);
      } else {
        on.gemm(in_, part.columns, rows, 1, in, out, target.beta, gradient, part.columns);
      }
    }
  });
}

void Linear::backward_bias(const at::Tensor& dy) const {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < widths_.size(); offset += widths_[i++]) {
    if (!biases_[i] || !biases_[i]->is_trained()) continue;
    const Parameter::Accumulation target = biases_[i]->touch();
    with_kernels(dy, [&]<class T>(const Kernels<T>& on) {
      on.column_sums(pointer<T>(dy) + offset, dy.size(0), widths_[i], out_, target.beta,
                     pointer<Math<T>>(target.gradient));
    });
  }
}

FunctionCosts Linear::costs(const at::Tensor& x, std::int64_t rows) const {
  return linear_costs(call_rows(rows, x.scalar_type(), sums_input_gradient_), in_, out_,
                      static_cast<std::int64_t>(parts_.size()));
}

FunctionCosts Linear::add_costs(const at::Tensor& x, const Dropout& dropout) const {
  return add_linear_costs(call_rows(x.size(0), x.scalar_type(), sums_output_), in_, out_, dropout.mask ? 1 : 0);
}

at::Tensor Linear::operator()(const at::Tensor& x, std::int64_t rows, const at::Tensor& known) const {
  return CheckedFunction<LinearFunction>::apply(x, this, rows, &known);
}

at::Tensor Linear::add_linear(const at::Tensor& residual, const at::Tensor& x, const Dropout& dropout,
                              const at::Tensor& known) const {
  return CheckedFunction<AddLinearFunction>::apply(residual, x, this, of_own_rows(dropout, sums_output_), &known);
}

}  // namespace lockstep
