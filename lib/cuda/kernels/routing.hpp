// Routing of tokens to experts on the device, and moving rows to the experts and back. Contracts:
// tensor/kernels/routing_kernel.hpp. There are at most 1024 experts; the launch for more is reported as failed.
#pragma once

#include "tensor/kernels/routing_kernel.hpp"

namespace lockstep::cuda {

template <class M>
void route(const M* logits, const RoutingShape& shape, Choose choose, std::int32_t* chosen, M* weights,
           M* probabilities);
template <class T>
void route_backward(const Math<T>* dweights, const Math<T>* weights, const Math<T>* probabilities,
                    const std::int32_t* chosen, const AuxSlopes<Math<T>>& aux, const RoutingShape& shape, T* dlogits);
void count_choices(const std::int32_t* chosen, const std::int32_t* samples, const RoutingShape& shape, double* counts);
template <class M>
void sum_by_sample(const M* probabilities, const std::int32_t* chosen, const std::int32_t* samples,
                   const RoutingShape& shape, std::int64_t count, M* sums);
template <class M>
void aux_loss(const M* sums, std::int64_t samples, std::int64_t experts, std::int64_t tokens, double scale, M* slopes,
              double* loss);
void group_by_expert(const std::int32_t* chosen, const std::int32_t* samples, const RoutingShape& shape,
                     std::int64_t* offsets, std::int32_t* places);
template <class T>
void dispatch_rows(const T* x, const std::int32_t* places, const RoutingShape& shape, std::int64_t channels, T* rows);
template <class T>
void dispatch_backward(const T* drows, const std::int32_t* places, const RoutingShape& shape, std::int64_t channels,
                       T* dx);
template <class T>
void combine_rows(const Math<T>* residual, const T* rows, const Math<T>* weights, const std::int32_t* places,
                  const RoutingShape& shape, std::int64_t channels, Math<T>* y);
template <class T>
void combine_backward(const Math<T>* dy, const T* rows, const Math<T>* weights, const std::int32_t* places,
                      const RoutingShape& shape, std::int64_t channels, T* drows, Math<T>* dweights);

}  // namespace lockstep::cuda
