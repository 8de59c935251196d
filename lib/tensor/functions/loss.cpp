#include "tensor/functions/loss.hpp"

#include "tensor/functions/dispatch.hpp"
#include "tensor/gemm.hpp"
#include "tensor/kernels/bias.hpp"
#include "tensor/kernels/cross_entropy.hpp"
#include "tensor/unit.hpp"
#include "tensor/weight_gradients.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <type_traits>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

struct Shape3 {
  std::int64_t rows, channels, vocabulary;
  std::int64_t slice() const {
    return std::clamp<std::int64_t>(logits_at_once / std::max<std::int64_t>(1, vocabulary), 1,
                                    std::max<std::int64_t>(1, rows));
  }
};

Shape3 shape_of(const at::Tensor& x, const at::Tensor& weight) { return {x.size(0), x.size(1), weight.size(0)}; }

template <class T>
void slice_logits(const Shape3& shape, const T* x, const T* weight, std::int64_t rows, Math<T>* logits) {
  gemm(rows, shape.vocabulary, shape.channels, 1, MatrixView<T>{x, shape.channels},
       MatrixView<T>{weight, shape.channels, Trans::yes}, 0, logits, shape.vocabulary);
}

/// A slice of logits in the type of sums; undefined where their derivative has that type and takes their place.
template <class T>
at::Tensor wide_logits(const Shape3& shape, at::ScalarType type) {
  return std::is_same_v<T, Math<T>> ? at::Tensor() : fresh({shape.slice(), shape.vocabulary}, math_type(type));
}

/// The losses of rows [first, first + rows) and the derivative of their logits, unscaled.
template <class T>
void differentiate_logits(const Shape3& shape, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& labels,
                          std::int64_t first, std::int64_t rows, const at::Tensor& wide, double* losses,
                          T* derivative) {
  Math<T>* logits = nullptr;
  if constexpr (std::is_same_v<T, Math<T>>)
    logits = derivative;
  else
    logits = pointer<Math<T>>(wide);
  slice_logits<T>(shape, pointer<T>(x) + first * shape.channels, pointer<T>(weight), rows, logits);
  cross_entropy<T>(logits, pointer<std::int32_t>(labels) + first, rows, shape.vocabulary, losses + first, derivative);
}

template <class T>
void loss_slices(const Shape3& shape, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& labels,
                 double* losses) {
  const std::int64_t slice = shape.slice();
  const at::Tensor logits = fresh({slice, shape.vocabulary}, math_type(x.scalar_type()));
  for (std::int64_t first = 0; first < shape.rows; first += slice) {
    const std::int64_t rows = std::min(slice, shape.rows - first);
    slice_logits<T>(shape, pointer<T>(x) + first * shape.channels, pointer<T>(weight), rows, pointer<Math<T>>(logits));
    cross_entropy_loss<Math<T>>(pointer<Math<T>>(logits), pointer<std::int32_t>(labels) + first, rows, shape.vocabulary,
                                losses + first);
  }
}

/// Adds seed · derivativeᵀ · x to the gradient of `head`.
void add_head_gradient(Parameter& head, double seed, const at::Tensor& x, const at::Tensor& derivative) {
  if (!head.is_trained()) return;
  const Parameter::Accumulation target = head.touch();
  with_type(x.scalar_type(), [&](auto t) {
    using T = decltype(t);
    gemm(derivative.size(1), x.size(1), x.size(0), seed,
         MatrixView<T>{pointer<T>(derivative), derivative.size(1), Trans::yes}, MatrixView<T>{pointer<T>(x), x.size(1)},
         target.beta, pointer<Math<T>>(target.gradient), x.size(1));
  });
}

struct LossFunction : torch::autograd::Function<LossFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Parameter* head, const at::Tensor& labels,
                            bool differentiable, std::int64_t most_kept_bytes) {
    const at::Tensor weight = head->compute();
    const Shape3 shape = shape_of(x, weight);
    std::vector<double> losses(static_cast<std::size_t>(shape.rows));
    const bool keeps = differentiable && shape.rows * shape.vocabulary * x.element_size() <= most_kept_bytes;
    const at::Tensor kept = keeps ? fresh({shape.rows, shape.vocabulary}, x.scalar_type()) : at::Tensor();
    with_type(x.scalar_type(), [&](auto t) {
      using T = decltype(t);
      if (!keeps) return loss_slices<T>(shape, x, weight, labels, losses.data());
      const at::Tensor wide = wide_logits<T>(shape, x.scalar_type());
      for (std::int64_t first = 0; first < shape.rows; first += shape.slice())
        differentiate_logits<T>(shape, x, weight, labels, first, std::min(shape.slice(), shape.rows - first), wide,
                                losses.data(), pointer<T>(kept) + first * shape.vocabulary);
    });
    double sum = 0;
    for (const double loss : losses) sum += loss;
    if (differentiable) {
      context->saved_data["head"] = reinterpret_cast<std::int64_t>(head);
      context->save_for_backward({x, labels, kept});
    }
    return at::scalar_tensor(sum, at::TensorOptions().dtype(at::kDouble));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &labels = saved[1], &kept = saved[2];
    auto& head = *reinterpret_cast<Parameter*>(context->saved_data["head"].toInt());
    const at::Tensor weight = head.compute();
    const Shape3 shape = shape_of(x, weight);
    const double seed = gradients[0].to(at::kDouble).item<double>();
    const at::Tensor wide = fresh({shape.rows, shape.channels}, math_type(x.scalar_type()));
    const at::Tensor dx = with_type(x.scalar_type(), [&](auto t) {
      using T = decltype(t);
      using M = Math<T>;
      const auto propagate = [&](std::int64_t first, std::int64_t rows, const at::Tensor& derivative) {
        gemm(rows, shape.channels, shape.vocabulary, seed, MatrixView<T>{pointer<T>(derivative), shape.vocabulary},
             MatrixView<T>{pointer<T>(weight), shape.channels}, 0, pointer<M>(wide) + first * shape.channels,
             shape.channels);
        add_weight_gradient(
            x.narrow(0, first, rows), derivative,
            [&head, seed](const at::Tensor& in, const at::Tensor& out) { add_head_gradient(head, seed, in, out); });
      };
      if (kept.defined()) {
        propagate(0, shape.rows, kept);
      } else {
        std::vector<double> losses(static_cast<std::size_t>(shape.rows));
        const at::Tensor logits = wide_logits<T>(shape, x.scalar_type());
        for (std::int64_t first = 0; first < shape.rows; first += shape.slice()) {
          const std::int64_t rows = std::min(shape.slice(), shape.rows - first);
          const at::Tensor derivative = fresh({rows, shape.vocabulary}, x.scalar_type());
          differentiate_logits<T>(shape, x, weight, labels, first, rows, logits, losses.data(), pointer<T>(derivative));
          propagate(first, rows, derivative);
        }
      }
      if (std::is_same_v<T, M>) return wide;
      const at::Tensor narrow = at::empty(x.sizes(), x.options());
      round_to<T>(pointer<M>(wide), wide.numel(), pointer<T>(narrow));
      return narrow;
    });
    return {dx, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor cross_entropy_sum(const at::Tensor& x, Parameter& head, const at::Tensor& labels,
                             std::int64_t most_kept_bytes) {
  return LossFunction::apply(x, &head, labels, at::GradMode::is_enabled() && x.requires_grad(), most_kept_bytes);
}

at::Tensor head_logits(const at::Tensor& x, const Parameter& head) {
  const at::NoGradGuard no_grad;
  const at::Tensor weight = head.compute();
  const Shape3 shape = shape_of(x, weight);
  const at::Tensor logits = fresh({shape.rows, shape.vocabulary}, math_type(x.scalar_type()));
  with_type(x.scalar_type(), [&](auto t) {
    using T = decltype(t);
    slice_logits<T>(shape, pointer<T>(x), pointer<T>(weight), shape.rows, pointer<Math<T>>(logits));
  });
  return logits;
}

}  // namespace lockstep
