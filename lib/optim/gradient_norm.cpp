#include "optim/gradient_norm.hpp"

#include "optim/unit_stretches.hpp"

#include <algorithm>

namespace lockstep {

void add_squared_norm(const Unit& unit, const at::Tensor& sum, int part, int parts) {
  const std::int64_t begin = unit.length() * part / parts, end = unit.length() * (part + 1) / parts;
  const at::DeviceType device = sum.device().type();  // an offloaded gradient lies in host memory
  const KernelDevice scope(device);
  with_master_type(unit, [&]<class M>(M) {
    kernels_on<M>(device).add_square_sum(pointer_to_read<M>(unit.gradient()) + begin, end - begin,
                                         pointer<double>(sum));
  });
}

double clip_factor(double norm, std::optional<double> max_norm) {
  return max_norm ? std::min(1.0, *max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace lockstep
