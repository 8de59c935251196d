// The updates of weights by AdamW, Lion, SGD and Muon on the device. Contracts: adamw_kernel.hpp, lion_kernel.hpp,
// sgd_kernel.hpp and muon_kernel.hpp in tensor/kernels.
#pragma once

#include "tensor/kernels/adamw_kernel.hpp"
#include "tensor/kernels/lion_kernel.hpp"
#include "tensor/kernels/muon_kernel.hpp"
#include "tensor/kernels/sgd_kernel.hpp"

namespace lockstep::cuda {

template <class M, class S>
void adamw(const std::vector<Stretch<AdamWFactors<M>>>& stretches, std::int64_t length,
           const UpdatedWeights<M>& weights, const M* gradient, S* first, S* second);
template <class M, class S>
void lion(const std::vector<Stretch<LionFactors<M>>>& stretches, std::int64_t length, const UpdatedWeights<M>& weights,
          const M* gradient, S* average);
template <class M>
void sgd(const std::vector<Stretch<SgdFactors<M>>>& stretches, std::int64_t length, const UpdatedWeights<M>& weights,
         const M* gradient, M* buffer);
template <class M, class S>
void muon_lead(std::int64_t count, M scale, M momentum, bool looks_ahead, const M* gradient, S* average, M* directions);
template <class M>
void muon_follow(std::int64_t offset, std::int64_t count, M keep, M step, const UpdatedWeights<M>& weights,
                 const M* directions);

}  // namespace lockstep::cuda
