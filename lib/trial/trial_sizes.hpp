// The sizes and settings of the kernels that a rank calls, and small ones of the same kind.
#pragma once

#include "architecture/model_config.hpp"
#include "tensor/kernels/dropout_kernel.hpp"
#include "tensor/kernels/matrix_view.hpp"

#include <cstdint>
#include <vector>

namespace lockstep::trial {

/// The form in which an update keeps the weights.
enum class WeightForm : std::uint8_t { master, master_and_copy, only_bf16, compensated };

/// A product c (m, n) = op(a) · op(b) over k terms.
struct ProductSize {
  std::int64_t m = 0, n = 0, k = 0;
  Trans a = Trans::no, b = Trans::no;
  bool adds = false;       // to the old values of c
  bool has_bias = false;   // added to each row
  bool sums_rows = false;  // the rows of a micro-batch are the terms k; otherwise they are the rows m
};

struct TrialSizes {
  ModelConfig model;  // of the part that a rank computes
  bool trains = true;
  std::int64_t rows = 0;       // tokens of a micro-batch
  std::int64_t loss_rows = 0;  // rows of logits at once
  std::int64_t columns = 0;    // of logits in memory, at least model.vocabulary
  std::int64_t document = 0;   // tokens of the longest segment of attention
  bool has_odd_parts = false;  // short documents, padding, masked labels, gaps between rows
  double smoothing = 0;        // of labels
  bool tf32 = false;           // of products of fp32 matrices
  WeightForm weights = WeightForm::master;
  bool brief_products = false;  // the factors of Muon's products are rounded to bf16
  std::int64_t elements = 0;    // of a unit that is updated
  ProductSize product;          // of a trial of products
  std::int64_t window = 0;      // of a trial of attention; 0: none
  int variant = 0;              // of a trial with several

  std::int64_t heads_width() const { return model.heads * model.head_size; }
  std::int64_t qkv_width() const { return (model.heads + 2 * model.kv_heads) * model.head_size; }
  /// The rows at which documents begin, then the number of rows.
  std::vector<std::int64_t> segment_starts() const;
  /// The index of each row in its document.
  std::vector<std::int32_t> positions() const;
  /// The number of the sample of each row; −1: padding.
  std::vector<std::int32_t> samples() const;
  /// The place of each row, as dropout takes it.
  std::vector<Place> places() const;
  std::int64_t sample_count() const;
};

/// Returns small odd sizes of a configuration: with its heads, windows and settings, few rows of several documents, and
/// dimensions that no vector divides. Pure.
TrialSizes small_sizes(TrialSizes sizes);

/// Returns these sizes with a share of the rows and elements. Pure.
TrialSizes share_of(TrialSizes sizes, double share);

/// The products of each entry. Pure.
std::vector<ProductSize> rounded_products(const TrialSizes& sizes);  // gemm_rounded
std::vector<ProductSize> adding_products(const TrialSizes& sizes);   // gemm_add
std::vector<ProductSize> wide_products(const TrialSizes& sizes);     // gemm
std::vector<ProductSize> scaled_products(const TrialSizes& sizes);   // gemm_scaled
/// Products of experts; m is the number of all rows. For grouped_gemm_rounded, and for grouped_weight_gemm.
std::vector<ProductSize> expert_products(const TrialSizes& sizes);
std::vector<ProductSize> expert_weight_products(const TrialSizes& sizes);

}  // namespace lockstep::trial
