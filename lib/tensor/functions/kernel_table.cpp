#include "tensor/functions/kernel_table.hpp"

#include "base/error.hpp"

#include <array>
#include <optional>
#include <type_traits>

namespace lockstep {

namespace {

template <class T>
Kernels<T> kernels_of_cpu() {
  Kernels<T> kernels{.gemm = lockstep::gemm,
                     .gemm_scaled = lockstep::gemm_scaled<T>,
                     .gemm_rounded = lockstep::gemm_rounded<T>,
                     .gemm_add = lockstep::gemm_add<T>,
                     .round_to = lockstep::round_to<T>,
                     .column_sums = lockstep::column_sums<T>,
                     .activation_forward = lockstep::activation_forward<T>,
                     .activation_backward = lockstep::activation_backward<T>,
                     .gated_forward = lockstep::gated_forward<T>,
                     .gated_backward = lockstep::gated_backward<T>,
                     .layer_norm_forward = lockstep::layer_norm_forward<T>,
                     .layer_norm_backward = lockstep::layer_norm_backward<T>,
                     .rms_norm_forward = lockstep::rms_norm_forward<T>,
                     .rms_norm_backward = lockstep::rms_norm_backward<T>,
                     .head_norm_forward = lockstep::head_norm_forward<T>,
                     .head_norm_backward = lockstep::head_norm_backward<T>,
                     .attention_forward = lockstep::attention_forward<T>,
                     .attention_backward = lockstep::attention_backward<T>,
                     .ring_attention_forward = lockstep::ring_attention_forward<T>,
                     .ring_attention_result = lockstep::ring_attention_result<T>,
                     .ring_attention_products = lockstep::ring_attention_products<T>,
                     .ring_attention_backward = lockstep::ring_attention_backward<T>,
                     .ring_attention_gradient = lockstep::ring_attention_gradient<T>,
                     .cached_attention = lockstep::cached_attention<T>,
                     .dropout_add = lockstep::dropout_add<T>,
                     .dropout = lockstep::dropout<T>,
                     .embedding_forward = lockstep::embedding_forward<T>,
                     .embedding_backward = lockstep::embedding_backward<Math<T>>,
                     .route = lockstep::route<Math<T>>,
                     .route_backward = lockstep::route_backward<T>,
                     .count_choices = lockstep::count_choices,
                     .sum_by_sample = lockstep::sum_by_sample<Math<T>>,
                     .aux_loss = lockstep::aux_loss<Math<T>>,
                     .group_by_expert = lockstep::group_by_expert,
                     .dispatch_rows = lockstep::dispatch_rows<T>,
                     .dispatch_backward = lockstep::dispatch_backward<T>,
                     .combine_rows = lockstep::combine_rows<T>,
                     .combine_backward = lockstep::combine_backward<T>,
                     .grouped_gemm_rounded = lockstep::grouped_gemm_rounded<T>,
                     .grouped_weight_gemm = lockstep::grouped_weight_gemm<T>,
                     .cross_entropy = lockstep::cross_entropy<T>,
                     .cross_entropy_loss = lockstep::cross_entropy_loss<Math<T>>,
                     .row_statistics = lockstep::row_statistics<Math<T>>,
                     .cross_entropy_derivative = lockstep::cross_entropy_derivative<T>,
                     .combine_statistics = lockstep::combine_statistics,
                     .indices_of_part = lockstep::indices_of_part,
                     .sum_in_order = lockstep::sum_in_order,
                     .add_value = lockstep::add_value,
                     .add_square_sum = lockstep::add_square_sum<Math<T>>,
                     .add_statistics = lockstep::add_statistics<T>,
                     .adamw = lockstep::adamw<Math<T>, Math<T>>,
                     .lion = lockstep::lion<Math<T>, Math<T>>,
                     .sgd = lockstep::sgd<Math<T>>,
                     .muon_lead = lockstep::muon_lead<Math<T>, Math<T>>,
                     .orthogonalise = lockstep::orthogonalise<Math<T>>,
                     .muon_follow = lockstep::muon_follow<Math<T>>,
                     .adafactor_sums = lockstep::adafactor_sums<Math<T>>,
                     .adafactor_means = lockstep::adafactor_means<Math<T>>,
                     .adafactor_follow = lockstep::adafactor_follow<Math<T>>};
  if constexpr (std::is_same_v<Math<T>, float>) {
    kernels.adamw_short_state = lockstep::adamw<float, Bf16>;
    kernels.lion_short_state = lockstep::lion<float, Bf16>;
    kernels.muon_lead_short_state = lockstep::muon_lead<float, Bf16>;
  }
  return kernels;
}

/// By device.
template <class T>
using Table = std::array<std::optional<Kernels<T>>, c10::COMPILE_TIME_MAX_DEVICE_TYPES>;

template <class T>
Table<T>& table() {
  static Table<T> of_type = [] {
    Table<T> start;
    start[static_cast<std::size_t>(at::kCPU)] = kernels_of_cpu<T>();
    return start;
  }();
  return of_type;
}

std::optional<ExchangeKernels>& exchange_table(at::DeviceType device) {
  static std::array<std::optional<ExchangeKernels>, c10::COMPILE_TIME_MAX_DEVICE_TYPES> of_device;
  return of_device[static_cast<std::size_t>(device)];
}

}  // namespace

template <class T>
void register_kernels(at::DeviceType device, const Kernels<T>& kernels) {
  table<T>()[static_cast<std::size_t>(device)] = kernels;
}

template <class T>
const Kernels<T>& kernels_on(at::DeviceType device) {
  const std::optional<Kernels<T>>& kernels = table<T>()[static_cast<std::size_t>(device)];
  if (!kernels)
    fail(ExitCode::bug, "no kernels of this type are registered for device {}", c10::DeviceTypeName(device));
  return *kernels;
}

void register_kernels(at::DeviceType device, const KernelTables& kernels) {
  register_kernels(device, kernels.f32);
  register_kernels(device, kernels.f64);
  register_kernels(device, kernels.bf16);
  register_kernels(device, kernels.f16);
  exchange_table(device) = kernels.exchange;
}

const ExchangeKernels& exchange_kernels_on(at::DeviceType device) {
  const std::optional<ExchangeKernels>& kernels = exchange_table(device);
  if (!kernels)
    fail(ExitCode::bug, "no kernels of exchanges are registered for device {}", c10::DeviceTypeName(device));
  return *kernels;
}

KernelTables cpu_kernels() {
  return {kernels_of_cpu<float>(), kernels_of_cpu<double>(), kernels_of_cpu<Bf16>(), kernels_of_cpu<Fp16>(),
          cpu_exchange_kernels()};
}

#define LOCKSTEP_INSTANTIATE(T)                                         \
  template void register_kernels<T>(at::DeviceType, const Kernels<T>&); \
  template const Kernels<T>& kernels_on<T>(at::DeviceType);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
