// The three passes of Adafactor on the device. Contracts: tensor/kernels/adafactor_pass.hpp.
#pragma once

#include "tensor/kernels/adafactor_pass.hpp"

namespace lockstep::cuda {

template <class M>
void adafactor_sums(const AdafactorPass<M>& pass);
template <class M>
void adafactor_means(const AdafactorPass<M>& pass);
template <class M>
void adafactor_follow(const AdafactorPass<M>& pass);

}  // namespace lockstep::cuda
