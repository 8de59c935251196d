// The entries of a kernel table by name, and tables that lack some: a plug-in need not have every kernel.
#pragma once

#include "tensor/functions/kernel_table.hpp"

#include <set>
#include <string>
#include <string_view>

#define LOCKSTEP_KERNELS(use)                                                                                          \
  use(gemm) use(gemm_scaled) use(gemm_rounded) use(gemm_add) use(round_to) use(column_sums) use(activation_forward)    \
      use(activation_backward) use(gated_forward) use(gated_backward) use(layer_norm_forward) use(layer_norm_backward) \
          use(rms_norm_forward) use(rms_norm_backward) use(head_norm_forward) use(head_norm_backward)                  \
              use(attention_forward) use(attention_backward) use(ring_attention_forward) use(ring_attention_result)    \
                  use(ring_attention_products) use(ring_attention_backward) use(ring_attention_gradient)               \
                      use(cached_attention) use(dropout_add) use(dropout) use(embedding_forward)                       \
                          use(embedding_backward) use(route) use(route_backward) use(count_choices) use(sum_by_sample) \
                              use(aux_loss) use(group_by_expert) use(dispatch_rows) use(dispatch_backward)             \
                                  use(combine_rows) use(combine_backward) use(grouped_gemm_rounded)                    \
                                      use(grouped_weight_gemm) use(cross_entropy) use(cross_entropy_loss)              \
                                          use(row_statistics) use(cross_entropy_derivative) use(combine_statistics)    \
                                              use(indices_of_part) use(sum_in_order) use(add_value)                    \
                                                  use(add_square_sum) use(add_statistics) use(adamw)                   \
                                                      use(adamw_short_state) use(lion) use(lion_short_state) use(sgd)  \
                                                          use(muon_lead) use(muon_lead_short_state) use(orthogonalise) \
                                                              use(muon_follow) use(adafactor_sums)                     \
                                                                  use(adafactor_means) use(adafactor_follow)

#define LOCKSTEP_EXCHANGE_KERNELS(use) use(copy_pieces) use(sum_operands)

namespace lockstep {

/// The name of the storage type T of a table: "fp32", "fp64", "bf16", "fp16".
template <class T>
constexpr std::string_view table_name = "fp32";
template <>
inline constexpr std::string_view table_name<double> = "fp64";
template <>
inline constexpr std::string_view table_name<Bf16> = "bf16";
template <>
inline constexpr std::string_view table_name<Fp16> = "fp16";

/// Calls work(name, entry) for each entry of a table.
template <class Table, class Work>
void for_each_kernel(Table& kernels, const Work& work) {
#define LOCKSTEP_KERNEL(name) work(#name, kernels.name);
  LOCKSTEP_KERNELS(LOCKSTEP_KERNEL)
#undef LOCKSTEP_KERNEL
}

/// Calls work(name, entry) for each kernel of exchanges.
template <class Work>
void for_each_exchange_kernel(const ExchangeKernels& kernels, const Work& work){
#define LOCKSTEP_KERNEL(name) work(#name, kernels.name);
    LOCKSTEP_EXCHANGE_KERNELS(LOCKSTEP_KERNEL)
#undef LOCKSTEP_KERNEL
}

/// The entries that are null: "bf16 gemm".
std::set<std::string> absent_kernels(const KernelTables& tables);

/// The tables with a function in place of each null entry, which throws Error(bug) naming it. A run that needs such an
/// entry is refused before it starts (train/kernel_check.hpp); this is for an entry that the refusal does not know.
KernelTables with_refusals(KernelTables tables);

}  // namespace lockstep
