// The table of kernels for each device and storage type. The functions of this folder call kernels only through it:
// another device registers its kernels here and nothing else changes. The CPU's are registered from the start; their
// sources: tensor/kernels/.
#pragma once

#include "comm/exchange_kernels.hpp"
#include "tensor/gemm.hpp"
#include "tensor/grouped_gemm.hpp"
#include "tensor/kernels/activation_kernel.hpp"
#include "tensor/kernels/adafactor_pass.hpp"
#include "tensor/kernels/adamw_kernel.hpp"
#include "tensor/kernels/attention_kernel.hpp"
#include "tensor/kernels/bias.hpp"
#include "tensor/kernels/cached_attention_kernel.hpp"
#include "tensor/kernels/column_sums.hpp"
#include "tensor/kernels/cross_entropy.hpp"
#include "tensor/kernels/dropout_kernel.hpp"
#include "tensor/kernels/embedding_kernel.hpp"
#include "tensor/kernels/head_norm_kernel.hpp"
#include "tensor/kernels/lion_kernel.hpp"
#include "tensor/kernels/muon_kernel.hpp"
#include "tensor/kernels/norm_kernel.hpp"
#include "tensor/kernels/orthogonalise_kernel.hpp"
#include "tensor/kernels/ring_attention_kernel.hpp"
#include "tensor/kernels/routing_kernel.hpp"
#include "tensor/kernels/sgd_kernel.hpp"
#include "tensor/kernels/statistics_kernel.hpp"
#include "tensor/kernels/sums_kernel.hpp"

#include <c10/core/DeviceType.h>

#include <cstdint>

namespace lockstep {

/// The kernels of a device for data stored as T. Each has the contract of the function with its name, with pointers
/// into the device's memory.
template <class T>
struct Kernels {
  void (*gemm)(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<T> a, MatrixView<T> b,
               double beta, Math<T>* c, std::int64_t c_stride) = nullptr;
  decltype(&lockstep::gemm_scaled<T>) gemm_scaled = nullptr;
  decltype(&lockstep::gemm_rounded<T>) gemm_rounded = nullptr;
  decltype(&lockstep::gemm_add<T>) gemm_add = nullptr;
  decltype(&lockstep::round_to<T>) round_to = nullptr;
  decltype(&lockstep::column_sums<T>) column_sums = nullptr;
  decltype(&lockstep::activation_forward<T>) activation_forward = nullptr;
  decltype(&lockstep::activation_backward<T>) activation_backward = nullptr;
  decltype(&lockstep::gated_forward<T>) gated_forward = nullptr;
  decltype(&lockstep::gated_backward<T>) gated_backward = nullptr;
  decltype(&lockstep::layer_norm_forward<T>) layer_norm_forward = nullptr;
  decltype(&lockstep::layer_norm_backward<T>) layer_norm_backward = nullptr;
  decltype(&lockstep::rms_norm_forward<T>) rms_norm_forward = nullptr;
  decltype(&lockstep::rms_norm_backward<T>) rms_norm_backward = nullptr;
  decltype(&lockstep::head_norm_forward<T>) head_norm_forward = nullptr;
  decltype(&lockstep::head_norm_backward<T>) head_norm_backward = nullptr;
  decltype(&lockstep::attention_forward<T>) attention_forward = nullptr;
  decltype(&lockstep::attention_backward<T>) attention_backward = nullptr;
  decltype(&lockstep::ring_attention_forward<T>) ring_attention_forward = nullptr;
  decltype(&lockstep::ring_attention_result<T>) ring_attention_result = nullptr;
  decltype(&lockstep::ring_attention_products<T>) ring_attention_products = nullptr;
  decltype(&lockstep::ring_attention_backward<T>) ring_attention_backward = nullptr;
  decltype(&lockstep::ring_attention_gradient<T>) ring_attention_gradient = nullptr;
  decltype(&lockstep::cached_attention<T>) cached_attention = nullptr;
  decltype(&lockstep::dropout_add<T>) dropout_add = nullptr;
  decltype(&lockstep::dropout<T>) dropout = nullptr;
  decltype(&lockstep::embedding_forward<T>) embedding_forward = nullptr;
  decltype(&lockstep::embedding_backward<Math<T>>) embedding_backward = nullptr;
  decltype(&lockstep::route<Math<T>>) route = nullptr;
  decltype(&lockstep::route_backward<T>) route_backward = nullptr;
  decltype(&lockstep::count_choices) count_choices = nullptr;
  decltype(&lockstep::sum_by_sample<Math<T>>) sum_by_sample = nullptr;
  decltype(&lockstep::aux_loss<Math<T>>) aux_loss = nullptr;
  decltype(&lockstep::group_by_expert) group_by_expert = nullptr;
  decltype(&lockstep::dispatch_rows<T>) dispatch_rows = nullptr;
  decltype(&lockstep::dispatch_backward<T>) dispatch_backward = nullptr;
  decltype(&lockstep::combine_rows<T>) combine_rows = nullptr;
  decltype(&lockstep::combine_backward<T>) combine_backward = nullptr;
  decltype(&lockstep::grouped_gemm_rounded<T>) grouped_gemm_rounded = nullptr;
  decltype(&lockstep::grouped_weight_gemm<T>) grouped_weight_gemm = nullptr;
  decltype(&lockstep::cross_entropy<T>) cross_entropy = nullptr;
  decltype(&lockstep::cross_entropy_loss<Math<T>>) cross_entropy_loss = nullptr;
  decltype(&lockstep::row_statistics<Math<T>>) row_statistics = nullptr;
  decltype(&lockstep::cross_entropy_derivative<T>) cross_entropy_derivative = nullptr;
  decltype(&lockstep::combine_statistics) combine_statistics = nullptr;
  decltype(&lockstep::indices_of_part) indices_of_part = nullptr;
  decltype(&lockstep::sum_in_order) sum_in_order = nullptr;
  decltype(&lockstep::add_value) add_value = nullptr;
  decltype(&lockstep::add_square_sum<Math<T>>) add_square_sum = nullptr;
  decltype(&lockstep::add_statistics<T>) add_statistics = nullptr;
  // Updates of a unit whose master weights have the type of sums.
  decltype(&lockstep::adamw<Math<T>, Math<T>>) adamw = nullptr;
  decltype(&lockstep::adamw<Math<T>, Bf16>) adamw_short_state = nullptr;  // not for fp64
  decltype(&lockstep::lion<Math<T>, Math<T>>) lion = nullptr;
  decltype(&lockstep::lion<Math<T>, Bf16>) lion_short_state = nullptr;  // not for fp64
  decltype(&lockstep::sgd<Math<T>>) sgd = nullptr;
  decltype(&lockstep::muon_lead<Math<T>, Math<T>>) muon_lead = nullptr;
  decltype(&lockstep::muon_lead<Math<T>, Bf16>) muon_lead_short_state = nullptr;  // not for fp64
  decltype(&lockstep::orthogonalise<Math<T>>) orthogonalise = nullptr;
  decltype(&lockstep::muon_follow<Math<T>>) muon_follow = nullptr;
  decltype(&lockstep::adafactor_sums<Math<T>>) adafactor_sums = nullptr;
  decltype(&lockstep::adafactor_means<Math<T>>) adafactor_means = nullptr;
  decltype(&lockstep::adafactor_follow<Math<T>>) adafactor_follow = nullptr;
};

/// The kernels of a device for all types.
struct KernelTables {
  Kernels<float> f32;
  Kernels<double> f64;
  Kernels<Bf16> bf16;
  Kernels<Fp16> f16;
  ExchangeKernels exchange;
};

/// Registers kernels for the device and T, replacing earlier ones; not while kernels run. T is float, double, Bf16 or
/// Fp16. Local.
template <class T>
void register_kernels(at::DeviceType device, const Kernels<T>& kernels);
void register_kernels(at::DeviceType device, const KernelTables& kernels);

/// Local. Throws Error(bug) if none are registered.
template <class T>
const Kernels<T>& kernels_on(at::DeviceType device);
const ExchangeKernels& exchange_kernels_on(at::DeviceType device);

/// The kernels of the CPU. Pure.
KernelTables cpu_kernels();

}  // namespace lockstep
