// Routing of tokens to experts (MoE): the chosen experts and their weights, and moving rows to the experts and back.
// Rows are grouped by expert: all of the first, then all of the second, each in the order of their tokens. Plain
// functions. Products of experts: tensor/grouped_gemm.hpp.
#pragma once

#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

struct RoutingShape {
  std::int64_t tokens = 0;     // N
  std::int64_t experts = 0;    // E
  std::int64_t per_token = 0;  // k
  bool normalised = true;      // weights of a token are divided by their sum
};

/// Whether `route` chooses the experts or uses given choices.
enum class Choose { largest, given };

/// probabilities (N, E) = softmax of the logits (N, E). Each token goes to the k experts with its largest logits; ties
/// go to the expert with the lower number. chosen (N, k) is ascending; weights (N, k) are their probabilities,
/// normalised or not.
template <class M>
void route(const M* logits, const RoutingShape& shape, Choose choose, std::int32_t* chosen, M* weights,
           M* probabilities);

/// Contribution of the auxiliary loss to the gradient of probabilities; equal for all tokens of a sample.
template <class M>
struct AuxSlopes {
  // (N): sample of each row; −1: padding. nullptr: there is no such loss.
  const std::int32_t* samples = nullptr;
  const M* slopes = nullptr;  // (B, E)
};

/// Gradient of the logits (N, E), rounded to T, from those of the weights (N, k) and of the auxiliary loss.
template <class T>
void route_backward(const Math<T>* dweights, const Math<T>* weights, const Math<T>* probabilities,
                    const std::int32_t* chosen, const AuxSlopes<Math<T>>& aux, const RoutingShape& shape, T* dlogits);

/// Adds the number of choices of each expert to counts (E). `samples` (N) is negative for padding, which is not
/// counted, here and below.
void count_choices(const std::int32_t* chosen, const std::int32_t* samples, const RoutingShape& shape, double* counts);

/// sums (2, B, E): for each of B samples the number of choices of each expert by its tokens, then the sums of its
/// tokens' probabilities (N, E), in their order.
template <class M>
void sum_by_sample(const M* probabilities, const std::int32_t* chosen, const std::int32_t* samples,
                   const RoutingShape& shape, std::int64_t count, M* sums);

/// The auxiliary loss (Fedus et al., "Switch Transformers", 2021), summed over B samples of T tokens: E·Σ f·p over
/// experts, where f is an expert's share of choices and p its mean probability: sums (2, B, E) divided by T. slopes (B,
/// E): its derivative with respect to the probabilities of each token, times `scale`; f counts as constant.
template <class M>
void aux_loss(const M* sums, std::int64_t samples, std::int64_t experts, std::int64_t tokens, double scale, M* slopes,
              double* loss);

/// offsets (E + 1): the first row of each expert, then R, the number of all rows; places (N, k): the row of a token at
/// each of its experts. Padding has no rows, and its places are −1; the functions below skip it. samples nullptr: there
/// is no padding.
void group_by_expert(const std::int32_t* chosen, const std::int32_t* samples, const RoutingShape& shape,
                     std::int64_t* offsets, std::int32_t* places);

/// rows (R, C) = x (N, C), each token at its places.
template <class T>
void dispatch_rows(const T* x, const std::int32_t* places, const RoutingShape& shape, std::int64_t channels, T* rows);
/// dx (N, C) = the sum of drows (R, C) over the places of each token, in their order, rounded once.
template <class T>
void dispatch_backward(const T* drows, const std::int32_t* places, const RoutingShape& shape, std::int64_t channels,
                       T* dx);

/// y (N, C) = residual (N, C; nullptr: zero) + the sum of weights (N, k) times rows (R, C) over the places of each
/// token, in their order.
template <class T>
void combine_rows(const Math<T>* residual, const T* rows, const Math<T>* weights, const std::int32_t* places,
                  const RoutingShape& shape, std::int64_t channels, Math<T>* y);
/// drows (R, C) and dweights (N, k) from dy (N, C).
template <class T>
void combine_backward(const Math<T>* dy, const T* rows, const Math<T>* weights, const std::int32_t* places,
                      const RoutingShape& shape, std::int64_t channels, T* drows, Math<T>* dweights);

}  // namespace lockstep
