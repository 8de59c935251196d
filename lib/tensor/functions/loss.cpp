#include "tensor/functions/loss.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"
#include "device/device.hpp"
#include "tensor/functions/checked_function.hpp"
#include "tensor/functions/dispatch.hpp"
#include "tensor/saved_memory.hpp"
#include "tensor/unit.hpp"
#include "tensor/weight_gradients.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>
#include <vector>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

template <class M>
const RowLoss::Rows<M>& rows_of(const RowLoss& loss) {
  if constexpr (std::is_same_v<M, float>)
    return loss.f32;
  else
    return loss.f64;
}

/// A head that ranks share, on one of them.
struct SharedHead {
  const BlockLane* lane = nullptr;  // null: this rank has all of it
  std::int64_t first = 0;           // of its columns of logits
  std::int64_t vocabulary = 0;      // of all ranks
  RowStatistics* whole = nullptr;   // by row, of all ranks together; what is known of it stays
};

struct Shape3 {
  std::int64_t rows, channels, vocabulary;
  std::int64_t columns;  // of logits in memory: products also have those behind the vocabulary
  std::int64_t widest;   // part of the vocabulary on any rank
  std::int64_t slice() const { return loss_slice_rows(rows, widest); }
  LogitRows logits(std::int64_t count) const { return {count, vocabulary, columns}; }
};

/// What the loss of a row is.
struct Target {
  TargetDistribution distribution;
  const RowLoss* of_user = nullptr;  // then instead
};

Target target_of(const StepLoss& loss, const Parameter& head, const BlockLane* lane) {
  invariant(loss.of_user == nullptr || lane == nullptr, "a custom loss needs whole rows of logits");
  return {{loss.smoothing / static_cast<double>(head.description().shape[0]), 1 - loss.smoothing}, loss.of_user};
}

Shape3 shape_of(const at::Tensor& x, const Parameter& head, const BlockLane* lane) {
  const std::int64_t ranks = lane ? lane->ranks() : 1;
  return {x.size(0), x.size(1), head.shape()[0], head.rows_in_memory(), ceil_div(head.description().shape[0], ranks)};
}

template <class T>
void slice_logits(const Kernels<T>& on, const Shape3& shape, const T* x, const T* weight, std::int64_t rows,
                  Math<T>* logits) {
  on.gemm(rows, shape.columns, shape.channels, 1, MatrixView<T>{x, shape.channels},
          MatrixView<T>{weight, shape.channels, Trans::yes}, 0, logits, shape.columns);
}

/// A slice of logits in the type of sums; undefined where their derivative has that type and takes their place.
template <class T>
at::Tensor wide_logits(const Kernels<T>&, const Shape3& shape, const at::Tensor& x) {
  if (std::is_same_v<T, Math<T>>) return {};
  return fresh({shape.slice(), shape.columns}, math_type(x.scalar_type()), x);
}

/// What ranks know together of rows [first, first + rows), from the logits that each has, and their losses.
template <class T>
void agree_on_rows(const Kernels<T>& on, const Shape3& shape, const SharedHead& shared, const at::Tensor& labels,
                   TargetDistribution target, std::int64_t first, std::int64_t rows, const Math<T>* logits,
                   double* losses, double* correct = nullptr) {
  const at::Tensor statistics = fresh({rows, 3}, at::kDouble, labels);
  const std::int32_t* const own_labels = pointer<std::int32_t>(labels) + first;
  on.row_statistics(logits, own_labels, shape.logits(rows), shared.first, target,
                    reinterpret_cast<RowStatistics*>(pointer<double>(statistics)));
  const at::Tensor all = shared.lane->all_gather(statistics);
  on.combine_statistics(reinterpret_cast<const RowStatistics*>(pointer<double>(all)), shared.lane->ranks(), rows,
                        own_labels, shared.vocabulary, shared.whole + first, losses + first,
                        correct == nullptr ? nullptr : correct + first);
}

/// Calls a loss of users for the rows of logits (rows, columns in memory), which begin at row `first` of the labels:
/// with host copies if they lie on a device. `derivative` has the size of the logits, or is nullptr.
template <class M>
void call_user(const RowLoss& loss, const at::Tensor& logits, std::int64_t vocabulary, const at::Tensor& labels,
               std::int64_t first, double* losses, M* derivative) {
  const std::int64_t rows = logits.size(0), columns = logits.size(1);
  const at::Tensor own_labels = labels.narrow(0, first, rows);
  const auto& by_rows = rows_of<M>(loss);
  if (logits.device().is_cpu() && columns == vocabulary)
    return by_rows(rows, vocabulary, pointer<M>(logits), pointer<std::int32_t>(own_labels), losses + first, derivative);
  std::vector<double> of_rows(static_cast<std::size_t>(rows));
  const at::Tensor on_host = logits.narrow(1, 0, vocabulary).contiguous().cpu(), labels_on_host = own_labels.cpu();
  at::Tensor slopes = derivative != nullptr ? at::empty_like(on_host) : at::Tensor();
  {
    const KernelDevice host(at::kCPU);
    by_rows(rows, vocabulary, pointer<M>(on_host), pointer<std::int32_t>(labels_on_host), of_rows.data(),
            pointer<M>(slopes));
  }
  write_region(std::as_bytes(std::span(of_rows)),
               {Arena::device, reinterpret_cast<std::byte*>(losses + first), of_rows.size() * sizeof(double)});
  if (derivative == nullptr) return;
  slopes = at::constant_pad_nd(slopes, {0, columns - vocabulary});
  write_region(bytes_of(slopes),
               {Arena::device, reinterpret_cast<std::byte*>(derivative), static_cast<std::size_t>(slopes.nbytes())});
}

/// Differentiates by a loss of users.
template <class T>
void differentiate_by_user(const Kernels<T>& on, const Shape3& shape, const at::Tensor& x, const at::Tensor& weight,
                           const at::Tensor& labels, const RowLoss& loss, std::int64_t first, std::int64_t rows,
                           double* losses, T* derivative) {
  using M = Math<T>;
  const at::Tensor logits = fresh({rows, shape.columns}, math_type(x.scalar_type()), x);
  slice_logits(on, shape, pointer<T>(x) + first * shape.channels, pointer<T>(weight), rows, pointer<M>(logits));
  if constexpr (std::is_same_v<T, M>) {
    call_user<M>(loss, logits, shape.vocabulary, labels, first, losses, derivative);
  } else {
    const at::Tensor wide = at::empty_like(logits);
    call_user<M>(loss, logits, shape.vocabulary, labels, first, losses, pointer<M>(wide));
    on.round_to(pointer<M>(wide), wide.numel(), derivative);
  }
}

/// The losses of rows [first, first + rows), unless null, and the derivative of their logits, unscaled. With ranks that
/// share the head losses are what makes these agree; without them they have agreed before.
template <class T>
void differentiate_logits(const Kernels<T>& on, const Shape3& shape, const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& labels, const Target& target, std::int64_t first, std::int64_t rows,
                          const at::Tensor& wide, const SharedHead& shared, double* losses, T* derivative) {
  if (target.of_user != nullptr)
    return differentiate_by_user(on, shape, x, weight, labels, *target.of_user, first, rows, losses, derivative);
  Math<T>* logits = nullptr;
  if constexpr (std::is_same_v<T, Math<T>>)
    logits = derivative;
  else
    logits = pointer<Math<T>>(wide);
  slice_logits(on, shape, pointer<T>(x) + first * shape.channels, pointer<T>(weight), rows, logits);
  const std::int32_t* const own_labels = pointer<std::int32_t>(labels) + first;
  if (shared.lane == nullptr)
    return on.cross_entropy(logits, own_labels, shape.logits(rows), target.distribution, losses + first, derivative);
  if (losses != nullptr) agree_on_rows(on, shape, shared, labels, target.distribution, first, rows, logits, losses);
  on.cross_entropy_derivative(logits, own_labels, shape.logits(rows), shared.first, target.distribution,
                              shared.whole + first, derivative);
}

template <class T>
void loss_slices(const Kernels<T>& on, const Shape3& shape, const at::Tensor& x, const at::Tensor& weight,
                 const at::Tensor& labels, const Target& target, const SharedHead& shared, double* losses,
                 double* correct) {
  const std::int64_t slice = shape.slice();
  const at::Tensor logits = fresh({slice, shape.columns}, math_type(x.scalar_type()), x);
  for (std::int64_t first = 0; first < shape.rows; first += slice) {
    const std::int64_t rows = std::min(slice, shape.rows - first);
    slice_logits(on, shape, pointer<T>(x) + first * shape.channels, pointer<T>(weight), rows, pointer<Math<T>>(logits));
    const std::int32_t* const own_labels = pointer<std::int32_t>(labels) + first;
    if (target.of_user != nullptr) {
      call_user<Math<T>>(*target.of_user, logits.narrow(0, 0, rows), shape.vocabulary, labels, first, losses, nullptr);
    } else if (shared.lane != nullptr) {
      agree_on_rows(on, shape, shared, labels, target.distribution, first, rows, pointer<Math<T>>(logits), losses,
                    correct);
    } else {
      on.cross_entropy_loss(pointer<Math<T>>(logits), own_labels, shape.logits(rows), target.distribution,
                            losses + first, correct + first);
    }
  }
}

/// Adds seed · derivativeᵀ · x to the gradient of `head`, which has memory for as many rows as the derivative has
/// columns; seed () fp64.
void add_head_gradient(Parameter& head, const at::Tensor& seed, const at::Tensor& x, const at::Tensor& derivative) {
  if (!head.is_trained()) return;
  const Parameter::Accumulation target = head.touch();
  with_kernels(x, [&]<class T>(const Kernels<T>& on) {
    on.gemm_scaled(derivative.size(1), x.size(1), x.size(0), pointer<double>(seed),
                   MatrixView<T>{pointer<T>(derivative), derivative.size(1), Trans::yes},
                   MatrixView<T>{pointer<T>(x), x.size(1)}, target.beta, pointer<Math<T>>(target.gradient), x.size(1));
  });
}

SharedHead shared_head(const Parameter& head, const BlockLane* lane, const at::Tensor& known) {
  if (lane == nullptr) return {};
  const KernelDevice scope(known.device().type());
  return {lane, head.part().begin[0], head.description().shape[0],
          reinterpret_cast<RowStatistics*>(pointer<double>(known))};
}

/// (N, widest) of each rank → (N, V).
at::Tensor gathered_logits(const at::Tensor& own, const Shape3& shape, const Parameter& head, const BlockLane* lane) {
  const at::Tensor padded = at::zeros({shape.rows, shape.widest}, own.options());
  padded.narrow(1, 0, shape.vocabulary).copy_(own);
  const at::Tensor all = lane->all_gather(padded).transpose(0, 1).reshape({shape.rows, -1});
  return all.narrow(1, 0, head.description().shape[0]).contiguous();
}

/// All rows of the head's input: where ranks share rows these give them to each other.
at::Tensor whole_rows(const at::Tensor& x, const at::Tensor& labels, const BlockLane* lane) {
  return shares_rows(lane) ? lane->gather_rows(x, labels.numel()) : x;
}

struct LossFunction {
  static constexpr std::string_view name = "loss_sum";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& own, Parameter* head, const at::Tensor& labels,
                            const StepLoss& loss, bool differentiable, std::int64_t most_kept_bytes,
                            const BlockLane* lane, at::Tensor* correct) {
    const at::Tensor x = whole_rows(own, labels, lane);
    const at::Tensor weight = head->compute();
    const Shape3 shape = shape_of(x, *head, lane);
    const at::Tensor known = lane ? fresh({shape.rows, 3}, at::kDouble, x) : at::Tensor();
    const SharedHead shared = shared_head(*head, lane, known);
    const Target target = target_of(loss, *head, lane);
    const at::Tensor losses = fresh({shape.rows}, at::kDouble, x);
    const at::Tensor hit = at::zeros({shape.rows}, x.options().dtype(at::kDouble));  // a user's loss counts none
    const bool keeps = differentiable && shape.rows * shape.columns * x.element_size() <= most_kept_bytes;
    const at::Tensor kept = keeps ? fresh({shape.rows, shape.columns}, x.scalar_type(), x) : at::Tensor();
    const at::Tensor sum = fresh({}, at::kDouble, x);
    with_kernels(x, [&]<class T>(const Kernels<T>& on) {
      double* const loss_of_row = pointer<double>(losses);
      if (!keeps) {
        loss_slices(on, shape, x, weight, labels, target, shared, loss_of_row, pointer<double>(hit));
      } else {
        const at::Tensor wide = wide_logits(on, shape, x);
        for (std::int64_t first = 0; first < shape.rows; first += shape.slice())
          differentiate_logits(on, shape, x, weight, labels, target, first, std::min(shape.slice(), shape.rows - first),
                               wide, shared, loss_of_row, pointer<T>(kept) + first * shape.columns);
      }
      on.sum_in_order(loss_of_row, shape.rows, pointer<double>(sum));
      if (correct == nullptr || differentiable) return;
      *correct = fresh({}, at::kDouble, x);
      on.sum_in_order(pointer<double>(hit), shape.rows, pointer<double>(*correct));
    });
    if (differentiable) {
      context->saved_data["head"] = reinterpret_cast<std::int64_t>(head);
      context->saved_data["lane"] = reinterpret_cast<std::int64_t>(lane);
      context->saved_data["smoothing"] = loss.smoothing;
      context->saved_data["loss"] = reinterpret_cast<std::int64_t>(loss.of_user);
      context->save_for_backward({own, labels, kept, known});
      note_saved({own, kept});
    }
    return sum;
  }

  static FunctionCosts costs(const at::Tensor& own, const Parameter* head, const at::Tensor& labels,
                             const StepLoss& loss, bool differentiable, std::int64_t most_kept_bytes,
                             const BlockLane* lane, const at::Tensor*) {
    if (loss.of_user != nullptr) return {};
    const std::int64_t rows = labels.numel();
    FunctionCosts costs = loss_costs(call_rows(rows, own.scalar_type(), lane), own.size(1), head->shape()[0],
                                     head->rows_in_memory(), differentiable ? most_kept_bytes : 0);
    // Numbers for each row, which the plan leaves out: losses, hits, and statistics of each rank and of all.
    const std::int64_t number = rows * static_cast<std::int64_t>(sizeof(double));
    const std::int64_t statistics = lane ? 3 * number : 0, ranks = lane ? lane->ranks() : 0;
    costs.forward.insert(costs.forward.begin(), 2 * number + (ranks + 2) * statistics);
    costs.forward.push_back(-2 * number - (ranks + 1) * statistics);
    return costs;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &labels = saved[1], &kept = saved[2];
    auto& head = *reinterpret_cast<Parameter*>(context->saved_data["head"].toInt());
    const auto* const lane = reinterpret_cast<const BlockLane*>(context->saved_data["lane"].toInt());
    const at::Tensor x = whole_rows(saved[0], labels, lane);
    const at::Tensor weight = head.compute();
    const Shape3 shape = shape_of(x, head, lane);
    const SharedHead shared = shared_head(head, lane, saved[3]);
    const StepLoss loss{context->saved_data["smoothing"].toDouble(),
                        reinterpret_cast<const RowLoss*>(context->saved_data["loss"].toInt())};
    const Target target = target_of(loss, head, lane);
    const at::Tensor seed = gradients[0].to(at::kDouble);
    at::Tensor wide = fresh({shape.rows, shape.channels}, math_type(x.scalar_type()), x);
    const at::Tensor dx = with_kernels(x, [&]<class T>(const Kernels<T>& on) {
      using M = Math<T>;
      const auto propagate = [&](std::int64_t first, std::int64_t rows, const at::Tensor& derivative) {
        on.gemm_scaled(rows, shape.channels, shape.columns, pointer<double>(seed),
                       MatrixView<T>{pointer<T>(derivative), shape.columns},
                       MatrixView<T>{pointer<T>(weight), shape.channels}, 0, pointer<M>(wide) + first * shape.channels,
                       shape.channels);
        add_weight_gradient(
            x.narrow(0, first, rows), derivative,
            [&head, seed](const at::Tensor& in, const at::Tensor& out) { add_head_gradient(head, seed, in, out); });
      };
      if (kept.defined()) {
        propagate(0, shape.rows, kept);
      } else {
        const at::Tensor losses = fresh({shape.rows}, at::kDouble, x);
        const at::Tensor logits = wide_logits(on, shape, x);
        for (std::int64_t first = 0; first < shape.rows; first += shape.slice()) {
          const std::int64_t rows = std::min(shape.slice(), shape.rows - first);
          const at::Tensor derivative = fresh({rows, shape.columns}, x.scalar_type(), x);
          differentiate_logits(on, shape, x, weight, labels, target, first, rows, logits, shared,
                               lane ? nullptr : pointer<double>(losses), pointer<T>(derivative));
          propagate(first, rows, derivative);
        }
      }
      if (shares_rows(lane))
        wide = lane->scatter_rows(wide);
      else if (lane)
        lane->all_reduce(wide);
      if (std::is_same_v<T, M>) return wide;
      const at::Tensor narrow = at::empty(wide.sizes(), x.options());
      on.round_to(pointer<M>(wide), wide.numel(), pointer<T>(narrow));
      return narrow;
    });
    return {dx, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor loss_sum(const at::Tensor& x, Parameter& head, const at::Tensor& labels, const StepLoss& loss,
                    std::int64_t most_kept_bytes, const BlockLane* lane, at::Tensor* correct) {
  return CheckedFunction<LossFunction>::apply(x, &head, labels, loss, at::GradMode::is_enabled() && x.requires_grad(),
                                              most_kept_bytes, lane, correct);
}

at::Tensor head_logits(const at::Tensor& x, const Parameter& head, const BlockLane* lane) {
  const at::NoGradGuard no_grad;
  const at::Tensor weight = head.compute();
  const Shape3 shape = shape_of(x, head, lane);
  const at::Tensor in_memory = fresh({shape.rows, shape.columns}, math_type(x.scalar_type()), x);
  with_kernels(x, [&]<class T>(const Kernels<T>& on) {
    slice_logits(on, shape, pointer<T>(x), pointer<T>(weight), shape.rows, pointer<Math<T>>(in_memory));
  });
  const at::Tensor logits = in_memory.narrow(1, 0, shape.vocabulary);
  return lane ? gathered_logits(logits, shape, head, lane) : logits.contiguous();
}

}  // namespace lockstep
