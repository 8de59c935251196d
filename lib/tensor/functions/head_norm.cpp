#include "tensor/functions/head_norm.hpp"

#include "tensor/functions/checked_function.hpp"
#include "tensor/functions/dispatch.hpp"
#include "tensor/saved_memory.hpp"
#include "tensor/unit.hpp"

#include <torch/csrc/autograd/custom_function.h>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

struct HeadNormFunction {
  static constexpr std::string_view name = "head_norm";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const HeadNorm* norm) {
    at::Tensor rstd;
    at::Tensor y = norm->forward(qkv, rstd);
    context->saved_data["norm"] = reinterpret_cast<std::int64_t>(norm);
    context->saved_data["rstd"] = rstd;
    context->save_for_backward({qkv});
    note_saved({qkv, rstd});
    return y;
  }
  static FunctionCosts costs(const at::Tensor& qkv, const HeadNorm* norm) {
    return head_norm_costs(call_rows(qkv.size(0), qkv.scalar_type()), norm->shape());
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& norm = *reinterpret_cast<const HeadNorm*>(context->saved_data["norm"].toInt());
    return {norm.backward(gradients[0].contiguous(), context->get_saved_variables()[0],
                          context->saved_data["rstd"].toTensor()),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor HeadNorm::operator()(const at::Tensor& qkv) const {
  return CheckedFunction<HeadNormFunction>::apply(qkv, this);
}

at::Tensor HeadNorm::forward(const at::Tensor& qkv, at::Tensor& rstd) const {
  const at::Tensor query_weight = query_weight_->compute(), key_weight = key_weight_->compute();
  const std::int64_t rows = qkv.size(0);
  const at::Tensor y = fresh({rows, qkv.size(1)}, qkv.scalar_type(), qkv);
  rstd = fresh({rows, shape_.heads + shape_.kv_heads}, math_type(qkv.scalar_type()), qkv);
  with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
    on.head_norm_forward(pointer<T>(qkv), shape_, pointer<T>(query_weight), pointer<T>(key_weight), eps_, rows,
                         pointer<T>(y), pointer<Math<T>>(rstd));
  });
  return y;
}

at::Tensor HeadNorm::backward(const at::Tensor& dy, const at::Tensor& qkv, const at::Tensor& rstd) const {
  const at::Tensor query_weight = query_weight_->compute(), key_weight = key_weight_->compute();
  const at::Tensor dqkv = fresh({qkv.size(0), qkv.size(1)}, qkv.scalar_type(), qkv);
  const auto target_of = [&](Parameter* parameter) -> Parameter::Accumulation {
    if (parameter->is_trained()) return parameter->touch();
    return {fresh({shape_.head_size}, math_type(qkv.scalar_type()), qkv), 0};  // comes with dqkv, and nothing reads it
  };
  const Parameter::Accumulation dquery = target_of(query_weight_), dkey = target_of(key_weight_);
  with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
    using M = Math<T>;
    on.head_norm_backward(pointer<T>(dy), pointer<T>(qkv), shape_, pointer<T>(query_weight), pointer<T>(key_weight),
                          pointer<M>(rstd), qkv.size(0), pointer<T>(dqkv), pointer<M>(dquery.gradient), dquery.beta,
                          pointer<M>(dkey.gradient), dkey.beta);
  });
  return dqkv;
}

}  // namespace lockstep
