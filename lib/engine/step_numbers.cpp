#include "engine/step_numbers.hpp"

#include "tensor/arena.hpp"
#include "tensor/functions/dispatch.hpp"

#include <ATen/ops/zeros.h>

namespace lockstep {

StepNumbers::StepNumbers(std::int64_t loads)
    : all_(at::zeros({std::int64_t{step_numbers} + loads}, device_options(at::kDouble))) {
  for (std::size_t i = 0; i < step_numbers; ++i) each_[i] = all_.select(0, static_cast<std::int64_t>(i));
}

void StepNumbers::clear() { all_.zero_(); }

void StepNumbers::add(StepNumber number, const at::Tensor& value, bool counts) {
  with_kernels(value, [&]<class T>(const Kernels<T>& on) {
    on.add_value(pointer<double>(value), counts, pointer<double>(at(number)));
  });
}

void StepNumbers::add_loads(std::int64_t first, const at::Tensor& counts) {
  all_.narrow(0, std::int64_t{step_numbers} + first, counts.numel()).add_(counts);
}

std::vector<double> StepNumbers::read() const { return values_on_host(all_); }

}  // namespace lockstep
