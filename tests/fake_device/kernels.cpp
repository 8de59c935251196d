// The kernels of the fake device: those of the CPU, as jobs. Arguments are kept by value; pointers to device memory
// become those that a job may use.
#include "memory.hpp"
#include "queues.hpp"
#include "tensor/functions/kernel_table.hpp"

#include <tuple>
#include <type_traits>
#include <utility>

namespace lockstep::fake {

namespace {

template <class T>
T for_job(T value) {
  if constexpr (std::is_pointer_v<T>)
    return static_cast<T>(opened(value));
  else
    return value;
}
template <class T>
MatrixView<T> for_job(MatrixView<T> view) {
  view.data = for_job(view.data);
  return view;
}
template <class M>
Rotation<M> for_job(Rotation<M> rotation) {
  return {for_job(rotation.cosine), for_job(rotation.sine)};
}
template <class M>
AuxSlopes<M> for_job(AuxSlopes<M> aux) {
  return {for_job(aux.samples), for_job(aux.slopes)};
}
template <class M>
UpdatedWeights<M> for_job(UpdatedWeights<M> weights) {
  return {for_job(weights.master), for_job(weights.compute), for_job(weights.short_weights),
          for_job(weights.compensation)};
}
template <class M>
AdafactorPass<M> for_job(AdafactorPass<M> pass) {
  pass.weights = for_job(pass.weights);
  pass.gradient = for_job(pass.gradient);
  for (M*& state : pass.states) state = for_job(state);
  pass.first = for_job(pass.first);
  pass.second = for_job(pass.second);
  pass.factors = for_job(pass.factors);
  return pass;
}
Segments for_job(Segments segments) { return {for_job(segments.starts), segments.count, segments.tokens}; }
RowGroups for_job(RowGroups groups) { return {for_job(groups.offsets), groups.count}; }
AttentionDropout for_job(AttentionDropout dropout) {
  dropout.places = for_job(dropout.places);
  return dropout;
}
RingRows for_job(RingRows rows) { return {for_job(rows.parts), for_job(rows.positions)}; }
RingStep for_job(RingStep step) {
  step.own = for_job(step.own);
  step.theirs = for_job(step.theirs);
  return step;
}

template <class Table>
const Table* of_cpu = nullptr;

/// One entry of a table, by its member pointer.
template <auto Member>
struct Queued;
template <class Table, class... Arguments, void (*Table::*Member)(Arguments...)>
struct Queued<Member> {
  static void call(Arguments... arguments) {
    submit(DeviceQueue::compute,
           [kept = std::tuple<std::decay_t<Arguments>...>(for_job(std::decay_t<Arguments>(arguments))...)] {
             std::apply(of_cpu<Table>->*Member, kept);
           });
  }
};

template <class T>
Kernels<T> kernels_of(const Kernels<T>& cpu) {
  of_cpu<Kernels<T>> = &cpu;
#define LOCKSTEP_QUEUED(name) .name = Queued<&Kernels<T>::name>::call
  Kernels<T> kernels{LOCKSTEP_QUEUED(gemm),
                     LOCKSTEP_QUEUED(gemm_scaled),
                     LOCKSTEP_QUEUED(gemm_rounded),
                     LOCKSTEP_QUEUED(gemm_add),
                     LOCKSTEP_QUEUED(round_to),
                     LOCKSTEP_QUEUED(column_sums),
                     LOCKSTEP_QUEUED(activation_forward),
                     LOCKSTEP_QUEUED(activation_backward),
                     LOCKSTEP_QUEUED(gated_forward),
                     LOCKSTEP_QUEUED(gated_backward),
                     LOCKSTEP_QUEUED(layer_norm_forward),
                     LOCKSTEP_QUEUED(layer_norm_backward),
                     LOCKSTEP_QUEUED(rms_norm_forward),
                     LOCKSTEP_QUEUED(rms_norm_backward),
                     LOCKSTEP_QUEUED(head_norm_forward),
                     LOCKSTEP_QUEUED(head_norm_backward),
                     LOCKSTEP_QUEUED(attention_forward),
                     LOCKSTEP_QUEUED(attention_backward),
                     LOCKSTEP_QUEUED(ring_attention_forward),
                     LOCKSTEP_QUEUED(ring_attention_result),
                     LOCKSTEP_QUEUED(ring_attention_products),
                     LOCKSTEP_QUEUED(ring_attention_backward),
                     LOCKSTEP_QUEUED(ring_attention_gradient),
                     LOCKSTEP_QUEUED(dropout_add),
                     LOCKSTEP_QUEUED(dropout),
                     LOCKSTEP_QUEUED(embedding_forward),
                     LOCKSTEP_QUEUED(embedding_backward),
                     LOCKSTEP_QUEUED(route),
                     LOCKSTEP_QUEUED(route_backward),
                     LOCKSTEP_QUEUED(count_choices),
                     LOCKSTEP_QUEUED(sum_by_sample),
                     LOCKSTEP_QUEUED(aux_loss),
                     LOCKSTEP_QUEUED(group_by_expert),
                     LOCKSTEP_QUEUED(dispatch_rows),
                     LOCKSTEP_QUEUED(dispatch_backward),
                     LOCKSTEP_QUEUED(combine_rows),
                     LOCKSTEP_QUEUED(combine_backward),
                     LOCKSTEP_QUEUED(grouped_gemm_rounded),
                     LOCKSTEP_QUEUED(grouped_weight_gemm),
                     LOCKSTEP_QUEUED(cross_entropy),
                     LOCKSTEP_QUEUED(cross_entropy_loss),
                     LOCKSTEP_QUEUED(row_statistics),
                     LOCKSTEP_QUEUED(cross_entropy_derivative),
                     LOCKSTEP_QUEUED(combine_statistics),
                     LOCKSTEP_QUEUED(indices_of_part),
                     LOCKSTEP_QUEUED(sum_in_order),
                     LOCKSTEP_QUEUED(add_value),
                     LOCKSTEP_QUEUED(add_square_sum),
                     LOCKSTEP_QUEUED(add_statistics),
                     LOCKSTEP_QUEUED(adamw),
                     LOCKSTEP_QUEUED(lion),
                     LOCKSTEP_QUEUED(sgd),
                     LOCKSTEP_QUEUED(muon_lead),
                     LOCKSTEP_QUEUED(orthogonalise),
                     LOCKSTEP_QUEUED(muon_follow),
                     LOCKSTEP_QUEUED(adafactor_sums),
                     LOCKSTEP_QUEUED(adafactor_means),
                     LOCKSTEP_QUEUED(adafactor_follow)};
  if constexpr (std::is_same_v<Math<T>, float>) {
    kernels.adamw_short_state = Queued<&Kernels<T>::adamw_short_state>::call;
    kernels.lion_short_state = Queued<&Kernels<T>::lion_short_state>::call;
    kernels.muon_lead_short_state = Queued<&Kernels<T>::muon_lead_short_state>::call;
  }
#undef LOCKSTEP_QUEUED
  return kernels;
}

}  // namespace

const KernelTables& kernels(const KernelTables& cpu) {
  static const KernelTables kept = cpu;
  static const KernelTables tables{kernels_of(kept.f32), kernels_of(kept.f64), kernels_of(kept.bf16),
                                   kernels_of(kept.f16)};
  return tables;
}

}  // namespace lockstep::fake
