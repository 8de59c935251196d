// The entries of the device have the types of the functions whose contracts they keep, so that the table takes them.
#include "cuda/kernels/activations.hpp"
#include "cuda/kernels/adafactor_passes.hpp"
#include "cuda/kernels/attention_over_cache.hpp"
#include "cuda/kernels/causal_attention.hpp"
#include "cuda/kernels/dropouts.hpp"
#include "cuda/kernels/embeddings.hpp"
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

#include <type_traits>

namespace lockstep {

namespace {

#define LOCKSTEP_SAME(name) static_assert(std::is_same_v<decltype(&cuda::name), decltype(&lockstep::name)>)

template <class T>
struct Entries {
  using M = Math<T>;
  LOCKSTEP_SAME(round_to<T>);
  LOCKSTEP_SAME(column_sums<T>);
  LOCKSTEP_SAME(grouped_gemm_rounded<T>);
  LOCKSTEP_SAME(grouped_weight_gemm<T>);
  LOCKSTEP_SAME(activation_forward<T>);
  LOCKSTEP_SAME(activation_backward<T>);
  LOCKSTEP_SAME(gated_forward<T>);
  LOCKSTEP_SAME(gated_backward<T>);
  LOCKSTEP_SAME(layer_norm_forward<T>);
  LOCKSTEP_SAME(layer_norm_backward<T>);
  LOCKSTEP_SAME(rms_norm_forward<T>);
  LOCKSTEP_SAME(rms_norm_backward<T>);
  LOCKSTEP_SAME(head_norm_forward<T>);
  LOCKSTEP_SAME(head_norm_backward<T>);
  LOCKSTEP_SAME(attention_forward<T>);
  LOCKSTEP_SAME(attention_backward<T>);
  LOCKSTEP_SAME(ring_attention_forward<T>);
  LOCKSTEP_SAME(ring_attention_result<T>);
  LOCKSTEP_SAME(ring_attention_products<T>);
  LOCKSTEP_SAME(ring_attention_backward<T>);
  LOCKSTEP_SAME(ring_attention_gradient<T>);
  LOCKSTEP_SAME(cached_attention<T>);
  LOCKSTEP_SAME(dropout_add<T>);
  LOCKSTEP_SAME(dropout<T>);
  LOCKSTEP_SAME(embedding_forward<T>);
  LOCKSTEP_SAME(embedding_backward<M>);
  LOCKSTEP_SAME(route<M>);
  LOCKSTEP_SAME(route_backward<T>);
  LOCKSTEP_SAME(sum_by_sample<M>);
  LOCKSTEP_SAME(aux_loss<M>);
  LOCKSTEP_SAME(dispatch_rows<T>);
  LOCKSTEP_SAME(dispatch_backward<T>);
  LOCKSTEP_SAME(combine_rows<T>);
  LOCKSTEP_SAME(combine_backward<T>);
  LOCKSTEP_SAME(cross_entropy<T>);
  LOCKSTEP_SAME(cross_entropy_loss<M>);
  LOCKSTEP_SAME(row_statistics<M>);
  LOCKSTEP_SAME(cross_entropy_derivative<T>);
  LOCKSTEP_SAME(add_square_sum<M>);
  LOCKSTEP_SAME(orthogonalise<M>);
  LOCKSTEP_SAME(adafactor_sums<M>);
  LOCKSTEP_SAME(adafactor_means<M>);
  LOCKSTEP_SAME(adafactor_follow<M>);
  LOCKSTEP_SAME(add_statistics<T>);
  LOCKSTEP_SAME(sgd<M>);
  LOCKSTEP_SAME(muon_follow<M>);
};
template struct Entries<float>;
template struct Entries<double>;
template struct Entries<Bf16>;
template struct Entries<Fp16>;

template <class M, class S>
struct StateEntries {
  static_assert(std::is_same_v<decltype(&cuda::adamw<M, S>), decltype(&lockstep::adamw<M, S>)>);
  static_assert(std::is_same_v<decltype(&cuda::lion<M, S>), decltype(&lockstep::lion<M, S>)>);
  static_assert(std::is_same_v<decltype(&cuda::muon_lead<M, S>), decltype(&lockstep::muon_lead<M, S>)>);
};
template struct StateEntries<float, float>;
template struct StateEntries<float, Bf16>;
template struct StateEntries<double, double>;

LOCKSTEP_SAME(count_choices);
LOCKSTEP_SAME(group_by_expert);
LOCKSTEP_SAME(combine_statistics);
LOCKSTEP_SAME(indices_of_part);
LOCKSTEP_SAME(sum_in_order);
LOCKSTEP_SAME(add_value);

}  // namespace

}  // namespace lockstep
