#include "cuda/kernel_entries.hpp"

#include "cuda/flash_attention.hpp"
#include "cuda/kernels/activations.hpp"
#include "cuda/kernels/adafactor_passes.hpp"
#include "cuda/kernels/attention_over_cache.hpp"
#include "cuda/kernels/dropouts.hpp"
#include "cuda/kernels/embeddings.hpp"
#include "cuda/kernels/exchanges.hpp"
#include "cuda/kernels/grouped_products.hpp"
#include "cuda/kernels/head_norms.hpp"
#include "cuda/kernels/losses.hpp"
#include "cuda/kernels/norms.hpp"
#include "cuda/kernels/ring_steps.hpp"
#include "cuda/kernels/round.hpp"
#include "cuda/kernels/routing.hpp"
#include "cuda/kernels/step_sums.hpp"
#include "cuda/kernels/sum_columns.hpp"
#include "cuda/kernels/updates.hpp"
#include "cuda/kernels/value_statistics.hpp"
#include "cuda/orthogonalise.hpp"
#include "cuda/product_entries.hpp"

#include <type_traits>

namespace lockstep::cuda {

namespace {

template <class T>
Kernels<T> entries() {
  using M = Math<T>;
  Kernels<T> kernels{.gemm = cuda::gemm<T>,
                     .gemm_scaled = cuda::gemm_scaled<T>,
                     .gemm_rounded = cuda::gemm_rounded<T>,
                     .gemm_add = cuda::gemm_add<T>,
                     .round_to = cuda::round_to<T>,
                     .column_sums = cuda::column_sums<T>,
                     .activation_forward = cuda::activation_forward<T>,
                     .activation_backward = cuda::activation_backward<T>,
                     .gated_forward = cuda::gated_forward<T>,
                     .gated_backward = cuda::gated_backward<T>,
                     .layer_norm_forward = cuda::layer_norm_forward<T>,
                     .layer_norm_backward = cuda::layer_norm_backward<T>,
                     .rms_norm_forward = cuda::rms_norm_forward<T>,
                     .rms_norm_backward = cuda::rms_norm_backward<T>,
                     .head_norm_forward = cuda::head_norm_forward<T>,
                     .head_norm_backward = cuda::head_norm_backward<T>,
                     .attention_forward = cuda::gpu_attention_forward<T>,
                     .attention_backward = cuda::gpu_attention_backward<T>,
                     .ring_attention_forward = cuda::ring_attention_forward<T>,
                     .ring_attention_result = cuda::ring_attention_result<T>,
                     .ring_attention_products = cuda::ring_attention_products<T>,
                     .ring_attention_backward = cuda::ring_attention_backward<T>,
                     .ring_attention_gradient = cuda::ring_attention_gradient<T>,
                     .cached_attention = cuda::cached_attention<T>,
                     .dropout_add = cuda::dropout_add<T>,
                     .dropout = cuda::dropout<T>,
                     .embedding_forward = cuda::embedding_forward<T>,
                     .embedding_backward = cuda::embedding_backward<M>,
                     .route = cuda::route<M>,
                     .route_backward = cuda::route_backward<T>,
                     .count_choices = cuda::count_choices,
                     .sum_by_sample = cuda::sum_by_sample<M>,
                     .aux_loss = cuda::aux_loss<M>,
                     .group_by_expert = cuda::group_by_expert,
                     .dispatch_rows = cuda::dispatch_rows<T>,
                     .dispatch_backward = cuda::dispatch_backward<T>,
                     .combine_rows = cuda::combine_rows<T>,
                     .combine_backward = cuda::combine_backward<T>,
                     .grouped_gemm_rounded = cuda::grouped_gemm_rounded<T>,
                     .grouped_weight_gemm = cuda::grouped_weight_gemm<T>,
                     .cross_entropy = cuda::cross_entropy<T>,
                     .cross_entropy_loss = cuda::cross_entropy_loss<M>,
                     .row_statistics = cuda::row_statistics<M>,
                     .cross_entropy_derivative = cuda::cross_entropy_derivative<T>,
                     .combine_statistics = cuda::combine_statistics,
                     .indices_of_part = cuda::indices_of_part,
                     .sum_in_order = cuda::sum_in_order,
                     .add_value = cuda::add_value,
                     .add_square_sum = cuda::add_square_sum<M>,
                     .add_statistics = cuda::add_statistics<T>,
                     .adamw = cuda::adamw<M, M>,
                     .lion = cuda::lion<M, M>,
                     .sgd = cuda::sgd<M>,
                     .muon_lead = cuda::muon_lead<M, M>,
                     .orthogonalise = cuda::orthogonalise<M>,
                     .muon_follow = cuda::muon_follow<M>,
                     .adafactor_sums = cuda::adafactor_sums<M>,
                     .adafactor_means = cuda::adafactor_means<M>,
                     .adafactor_follow = cuda::adafactor_follow<M>};
  if constexpr (std::is_same_v<M, float>) {
    kernels.adamw_short_state = cuda::adamw<float, Bf16>;
    kernels.lion_short_state = cuda::lion<float, Bf16>;
    kernels.muon_lead_short_state = cuda::muon_lead<float, Bf16>;
  }
  return kernels;
}

}  // namespace

const KernelTables& kernel_tables() {
  static const KernelTables tables{entries<float>(), entries<double>(), entries<Bf16>(), entries<Fp16>(),
                                   ExchangeKernels{copy_pieces, sum_operands}};
  return tables;
}

}  // namespace lockstep::cuda
