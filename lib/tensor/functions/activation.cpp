#include "tensor/functions/activation.hpp"

#include "tensor/functions/checked_function.hpp"
#include "tensor/functions/dispatch.hpp"
#include "tensor/saved_memory.hpp"
#include "tensor/unit.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

void keep(AutogradContext* context, Activation activation) {
  context->saved_data["activation"] = static_cast<std::int64_t>(activation);
}
Activation activation_of(AutogradContext* context) {
  return static_cast<Activation>(context->saved_data["activation"].toInt());
}

struct ActivationFunction {
  static constexpr std::string_view name = "activate";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& u, Activation activation,
                            Parameter* parameter) {
    keep(context, activation);
    context->saved_data["bias"] = reinterpret_cast<std::int64_t>(parameter);
    context->save_for_backward({u});
    note_saved({u});
    const at::Tensor bias = parameter ? parameter->compute() : at::Tensor();
    const at::Tensor y = at::empty(u.sizes(), u.options());
    with_kernels(u, [&]<class T>(const Kernels<T>& on) {
      on.activation_forward(activation, pointer<T>(u), pointer<T>(bias), u.size(0), u.size(1), pointer<T>(y));
    });
    return y;
  }
  static FunctionCosts costs(const at::Tensor& u, Activation, Parameter*) {
    const auto bytes = static_cast<std::int64_t>(u.nbytes());
    return activation_costs(bytes, bytes);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor u = context->get_saved_variables()[0];
    auto* parameter = reinterpret_cast<Parameter*>(context->saved_data["bias"].toInt());
    const at::Tensor bias = parameter ? parameter->compute() : at::Tensor();
    const at::Tensor dy = gradients[0].contiguous();
    const at::Tensor du = at::empty(u.sizes(), u.options());
    with_kernels(u, [&]<class T>(const Kernels<T>& on) {
      on.activation_backward(activation_of(context), pointer<T>(dy), pointer<T>(u), pointer<T>(bias), u.size(0),
                             u.size(1), pointer<T>(du));
      if (!parameter || !parameter->is_trained()) return;
      const Parameter::Accumulation target = parameter->touch();
      on.column_sums(pointer<T>(du), u.size(0), u.size(1), u.size(1), target.beta, pointer<Math<T>>(target.gradient));
    });
    return {du, at::Tensor(), at::Tensor()};
  }
};

struct GatedFunction {
  static constexpr std::string_view name = "activate_gated";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up, Activation activation,
                            const std::optional<at::Tensor>& given_row_gates) {
    const at::Tensor row_gates = given_row_gates.value_or(at::Tensor());
    keep(context, activation);
    context->save_for_backward({gate_up, row_gates});
    note_saved({gate_up, row_gates});
    return gated(gate_up, activation, row_gates);
  }
  static FunctionCosts costs(const at::Tensor& gate_up, Activation, const std::optional<at::Tensor>& row_gates) {
    const auto bytes = static_cast<std::int64_t>(gate_up.nbytes());
    return activation_costs(bytes, bytes / 2, row_gates ? static_cast<std::int64_t>(row_gates->nbytes()) : 0);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &gate_up = saved[0], &row_gates = saved[1];
    const at::Tensor drow_gates = row_gates.defined() ? at::empty(row_gates.sizes(), row_gates.options()) : row_gates;
    const at::Tensor dgate_up =
        gated_backward(gate_up, gradients[0].contiguous(), activation_of(context), row_gates, drow_gates);
    return {dgate_up, at::Tensor(), drow_gates};
  }
};

}  // namespace

at::Tensor activate(const at::Tensor& u, Activation activation, Parameter* bias) {
  return CheckedFunction<ActivationFunction>::apply(u, activation, bias);
}

at::Tensor gated(const at::Tensor& gate_up, Activation activation, const at::Tensor& row_gates) {
  const at::Tensor y = fresh({gate_up.size(0), gate_up.size(1) / 2}, gate_up.scalar_type(), gate_up);
  with_kernels(gate_up, [&]<class T>(const Kernels<T>& on) {
    on.gated_forward(activation, pointer<T>(gate_up), pointer<T>(row_gates), y.size(0), y.size(1), pointer<T>(y));
  });
  return y;
}

at::Tensor gated_backward(const at::Tensor& gate_up, const at::Tensor& dy, Activation activation,
                          const at::Tensor& row_gates, const at::Tensor& drow_gates) {
  const at::Tensor dgate_up = at::empty(gate_up.sizes(), gate_up.options());
  with_kernels(gate_up, [&]<class T>(const Kernels<T>& on) {
    on.gated_backward(activation, pointer<T>(dy), pointer<T>(gate_up), pointer<T>(row_gates), dy.size(0), dy.size(1),
                      pointer<T>(dgate_up), pointer<T>(drow_gates));
  });
  return dgate_up;
}

at::Tensor activate_gated(const at::Tensor& gate_up, Activation activation, const at::Tensor& row_gates) {
  // autograd takes no undefined tensor
  return CheckedFunction<GatedFunction>::apply(gate_up, activation,
                                               row_gates.defined() ? std::optional(row_gates) : std::nullopt);
}

}  // namespace lockstep
