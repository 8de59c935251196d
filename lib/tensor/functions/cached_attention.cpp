#include "tensor/functions/cached_attention.hpp"

#include "tensor/functions/attention_arguments.hpp"
#include "tensor/kernels/cached_attention_kernel.hpp"

namespace lockstep {

at::Tensor cached_attention(const at::Tensor& qkv, const AttentionShape& shape, const CachedRows& rows,
                            const at::Tensor& rotary, const at::Tensor& cache) {
  const at::Tensor y = fresh({qkv.size(0), shape.heads * shape.head_size}, qkv.scalar_type(), qkv);
  with_kernels(qkv, [&]<class T>(const Kernels<T>& on) {
    const CachedTexts texts{.rows = {pointer<std::int64_t>(rows.segments.starts), rows.segments.starts.numel() - 1,
                                     qkv.size(0), rows.segments.longest},
                            .slots = pointer<std::int32_t>(rows.slots),
                            .positions = pointer<std::int32_t>(rows.positions),
                            .capacity = cache.size(2)};
    on.cached_attention(pointer<T>(qkv), shape, texts, rotation_of<Math<T>>(rotary), pointer<T>(cache), pointer<T>(y));
  });
  return y;
}

}  // namespace lockstep
