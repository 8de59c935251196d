#include "tensor/functions/dropout.hpp"

#include "tensor/functions/dispatch.hpp"

#include <torch/csrc/autograd/custom_function.h>

namespace lockstep {

using torch::autograd::AutogradContext;

Dropout of_own_rows(const Dropout& dropout, const BlockLane* lane) {
  if (!dropout.mask || !shares_rows(lane)) return dropout;
  constexpr Place of_padding = -1;
  return {dropout.mask, lane->own_part(dropout.places, of_padding)};
}

void keep(AutogradContext* context, const Dropout& dropout) {
  if (!dropout.mask) return;
  context->saved_data["dropout"] =
      std::vector<std::int64_t>{dropout.mask.key[0], dropout.mask.key[1], dropout.mask.threshold};
  context->saved_data["places"] = dropout.places;
}

Dropout kept_dropout(AutogradContext* context) {
  const auto found = context->saved_data.find("dropout");
  if (found == context->saved_data.end()) return {};
  const std::vector<std::int64_t> mask = found->second.toIntVector();
  const auto word = [&](std::size_t i) { return static_cast<std::uint32_t>(mask[i]); };
  return {{{word(0), word(1)}, word(2)}, context->saved_data["places"].toTensor()};
}

at::Tensor dropped(const Dropout& dropout, const at::Tensor& x, at::ScalarType type) {
  const at::Tensor y = at::empty(x.sizes(), x.options().dtype(type));
  with_kernels(y, [&]<class T>(const Kernels<T>& on) {
    on.dropout(dropout.mask, pointer<Place>(dropout.places), x.size(0), x.size(1), pointer<Math<T>>(x), pointer<T>(y));
  });
  return y;
}

}  // namespace lockstep
