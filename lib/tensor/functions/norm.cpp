#include "tensor/functions/norm.hpp"

#include "tensor/functions/checked_function.hpp"
#include "tensor/functions/dispatch.hpp"
#include "tensor/saved_memory.hpp"
#include "tensor/unit.hpp"

#include <torch/csrc/autograd/custom_function.h>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

struct NormFunction {
  static constexpr std::string_view name = "norm";
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const Normalisation* norm) {
    Normalisation::Saved saved;
    const at::Tensor y = norm->forward(x, saved);
    context->saved_data["norm"] = reinterpret_cast<std::int64_t>(norm);
    context->saved_data["mean"] = saved.mean.defined() ? saved.mean : saved.rstd;
    context->saved_data["rstd"] = saved.rstd;
    context->save_for_backward({x});
    note_saved({x, saved.mean, saved.rstd});
    return {x, y};
  }
  static FunctionCosts costs(const at::Tensor& x, const Normalisation* norm) { return norm->costs(x); }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& norm = *reinterpret_cast<const Normalisation*>(context->saved_data["norm"].toInt());
    const Normalisation::Saved saved{context->saved_data["mean"].toTensor(), context->saved_data["rstd"].toTensor()};
    const at::Tensor residual = gradients[0].defined() ? gradients[0].contiguous() : at::Tensor();
    return {norm.backward(gradients[1].contiguous(), residual, context->get_saved_variables()[0], saved), at::Tensor()};
  }
};

}  // namespace

Normalisation::Output Normalisation::operator()(const at::Tensor& x) const {
  const variable_list outputs = CheckedFunction<NormFunction>::apply(x, this);
  return {outputs[0], outputs[1]};
}

FunctionCosts Normalisation::costs(const at::Tensor& x) const {
  return norm_costs(call_rows(x.size(0), weight_->compute().scalar_type()), x.size(1), kind_);
}

at::Tensor Normalisation::forward(const at::Tensor& x, Saved& saved) const {
  const at::Tensor weight = weight_->compute();
  const std::int64_t rows = x.size(0), channels = x.size(1);
  const at::Tensor y = fresh({rows, channels}, weight.scalar_type(), x);
  saved.rstd = fresh({rows}, x.scalar_type(), x);
  if (kind_ == Norm::layer_norm) saved.mean = fresh({rows}, x.scalar_type(), x);
  with_kernels(weight, [&]<class T>(const Kernels<T>& on) {
    using M = Math<T>;
    if (kind_ == Norm::layer_norm) {
      const at::Tensor bias = bias_ ? bias_->compute() : at::Tensor();
      on.layer_norm_forward(pointer<M>(x), pointer<T>(weight), pointer<T>(bias), eps_, rows, channels, pointer<T>(y),
                            pointer<M>(saved.mean), pointer<M>(saved.rstd));
    } else {
      on.rms_norm_forward(pointer<M>(x), pointer<T>(weight), eps_, rows, channels, pointer<T>(y),
                          pointer<M>(saved.rstd));
    }
  });
  return y;
}

at::Tensor Normalisation::backward(const at::Tensor& dy, const at::Tensor& residual, const at::Tensor& x,
                                   const Saved& saved) const {
  const at::Tensor weight = weight_->compute();
  const std::int64_t rows = x.size(0), channels = x.size(1);
  const at::Tensor dx = fresh({rows, channels}, x.scalar_type(), x);
  const auto target_of = [&](Parameter* parameter) -> Parameter::Accumulation {
    if (parameter == nullptr) return {};
    if (parameter->is_trained()) return parameter->touch();
    return {fresh({channels}, math_type(weight.scalar_type()), x), 0};  // comes with dx, and nothing reads it
  };
  const Parameter::Accumulation dweight = target_of(weight_), dbias = target_of(bias_);
  with_kernels(weight, [&]<class T>(const Kernels<T>& on) {
    using M = Math<T>;
    if (kind_ == Norm::layer_norm) {
      on.layer_norm_backward(pointer<T>(dy), pointer<M>(x), pointer<T>(weight), pointer<M>(saved.mean),
                             pointer<M>(saved.rstd), pointer<M>(residual), rows, channels, pointer<M>(dx),
                             pointer<M>(dweight.gradient), dweight.beta, pointer<M>(dbias.gradient), dbias.beta);
    } else {
      on.rms_norm_backward(pointer<T>(dy), pointer<M>(x), pointer<T>(weight), pointer<M>(saved.rstd),
                           pointer<M>(residual), rows, channels, pointer<M>(dx), pointer<M>(dweight.gradient),
                           dweight.beta);
    }
  });
  return dx;
}

}  // namespace lockstep
