#include "tensor/arena.hpp"

#include "base/error.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <memory>
#include <utility>

namespace lockstep {

at::Tensor empty_in(Arena arena, std::int64_t length, at::ScalarType type) {
  const auto options = at::TensorOptions().dtype(type);
  if (arena == Arena::device || length == 0) return at::empty({length}, options);
  auto memory =
      std::make_shared<c10::DataPtr>(host_memory(static_cast<std::size_t>(length) * options.dtype().itemsize()));
  void* const values = memory->get();
  return at::from_blob(values, {length}, [held = std::move(memory)](void*) mutable { held.reset(); }, options);
}

Region region_of(const at::Tensor& tensor, Arena arena) {
  invariant(tensor.is_contiguous(), "a region is contiguous memory");
  return {arena, static_cast<std::byte*>(tensor.mutable_data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

}  // namespace lockstep
