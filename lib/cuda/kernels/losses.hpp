// Softmax cross entropy on the device. Contracts: tensor/kernels/cross_entropy.hpp. A derivative may take the place of
// logits of its own type.
#pragma once

#include "tensor/kernels/cross_entropy.hpp"

namespace lockstep::cuda {

template <class T>
void cross_entropy(const Math<T>* logits, const std::int32_t* labels, LogitRows rows, TargetDistribution target,
                   double* losses, T* derivative);
template <class M>
void cross_entropy_loss(const M* logits, const std::int32_t* labels, LogitRows rows, TargetDistribution target,
                        double* losses, double* correct);
template <class M>
void row_statistics(const M* logits, const std::int32_t* labels, LogitRows rows, std::int64_t first,
                    TargetDistribution target, RowStatistics* statistics);
void combine_statistics(const RowStatistics* of_ranks, std::int64_t ranks, std::int64_t rows,
                        const std::int32_t* labels, std::int64_t vocabulary, RowStatistics* whole, double* losses,
                        double* correct);
template <class T>
void cross_entropy_derivative(const Math<T>* logits, const std::int32_t* labels, LogitRows rows, std::int64_t first,
                              TargetDistribution target, const RowStatistics* whole, T* derivative);

}  // namespace lockstep::cuda
