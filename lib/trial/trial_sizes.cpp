#include "trial/trial_sizes.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep::trial {

namespace {

/// A linear layer of a rank. A bias that is added to a residual belongs to another entry.
struct LinearSize {
  std::int64_t in = 0, out = 0;
  bool adds = false;  // to the residual
  bool has_bias = false;
};

std::vector<LinearSize> linear_layers(const TrialSizes& sizes) {
  const ModelConfig& model = sizes.model;
  const std::int64_t gates = model.gated_mlp ? 2 : 1;
  std::vector<LinearSize> layers{{model.channels, sizes.qkv_width(), false, model.qkv_bias},
                                 {sizes.heads_width(), model.channels, true, model.output_bias}};
  if (model.expert_layers(model.layers) < model.layers) {
    layers.push_back({model.channels, gates * model.feed_forward, false, false});  // the activation adds the bias
    layers.push_back({model.feed_forward, model.channels, true, model.mlp_bias});
  }
  if (const std::int64_t shared = model.experts.shared_feed_forward; shared > 0) {
    layers.push_back({model.channels, gates * shared, false, false});
    layers.push_back({shared, model.channels, true, false});
  }
  return layers;
}

bool is_in_out(const TrialSizes& sizes) { return sizes.model.family == Family::gpt2; }

/// The weight as the second factor of a forward product, and of the gradient of the input.
Trans forward_weight(const TrialSizes& sizes) { return is_in_out(sizes) ? Trans::no : Trans::yes; }
Trans backward_weight(const TrialSizes& sizes) { return is_in_out(sizes) ? Trans::yes : Trans::no; }

ProductSize weight_gradient(const LinearSize& layer, const TrialSizes& sizes) {
  const std::int64_t out = layer.out, in = layer.in;
  return {.m = is_in_out(sizes) ? in : out,
          .n = is_in_out(sizes) ? out : in,
          .k = sizes.rows,
          .a = Trans::yes,
          .b = Trans::no,
          .adds = true,
          .sums_rows = true};
}

std::int64_t expert_rows(const TrialSizes& sizes) {
  return std::ranges::count_if(sizes.samples(), [](std::int32_t sample) { return sample >= 0; }) *
         sizes.model.experts.per_token;
}

}  // namespace

std::vector<std::int64_t> TrialSizes::segment_starts() const {
  std::vector<std::int64_t> starts{0};
  if (has_odd_parts)
    for (const std::int64_t start : {std::int64_t{1}, std::int64_t{6}, rows / 2 + 1})
      if (start < rows) starts.push_back(start);
  if (!has_odd_parts)
    for (std::int64_t start = document; start < rows; start += document) starts.push_back(start);
  starts.push_back(rows);
  return starts;
}

std::vector<std::int32_t> TrialSizes::positions() const {
  std::vector<std::int32_t> positions;
  const std::vector<std::int64_t> starts = segment_starts();
  for (std::size_t segment = 0; segment + 1 < starts.size(); ++segment)
    for (std::int64_t i = 0; i < starts[segment + 1] - starts[segment]; ++i)
      positions.push_back(static_cast<std::int32_t>(i));
  return positions;
}

std::vector<std::int32_t> TrialSizes::samples() const {
  std::vector<std::int32_t> samples;
  const std::vector<std::int64_t> starts = segment_starts();
  for (std::size_t segment = 0; segment + 1 < starts.size(); ++segment)
    samples.insert(samples.end(), static_cast<std::size_t>(starts[segment + 1] - starts[segment]),
                   static_cast<std::int32_t>(segment));
  const std::size_t padding = has_odd_parts ? std::min<std::size_t>(3, samples.size() / 2) : 0;
  std::fill(samples.end() - static_cast<std::ptrdiff_t>(padding), samples.end(), -1);
  return samples;
}

std::vector<Place> TrialSizes::places() const {
  std::vector<Place> places;
  const std::vector<std::int32_t> own_samples = samples(), indices = positions();
  for (std::size_t row = 0; row < own_samples.size(); ++row)
    places.push_back(own_samples[row] < 0 ? -1 : (Place{own_samples[row]} << 32) + indices[row]);
  return places;
}

std::int64_t TrialSizes::sample_count() const { return std::ssize(segment_starts()) - 1; }

TrialSizes small_sizes(TrialSizes sizes) {
  constexpr std::int64_t most_kv_heads = 2, most_queries_per_key = 3, most_head_size = 128, most_window = 9;
  ModelConfig& model = sizes.model;
  const std::int64_t queries = std::min(model.heads / std::max<std::int64_t>(1, model.kv_heads), most_queries_per_key);
  model.kv_heads = std::min(model.kv_heads, most_kv_heads);
  model.heads = queries * model.kv_heads;
  model.head_size = std::min(model.head_size, most_head_size);
  model.channels = 77;
  model.feed_forward = 91;
  model.vocabulary = 131;
  sizes.columns = 140;
  for (std::int64_t& window : model.windows) window = std::min(window, most_window);
  Experts& experts = model.experts;
  experts.count = std::min<std::int64_t>(experts.count, 5);
  experts.per_token = std::min(experts.per_token, experts.count);
  experts.feed_forward = std::min<std::int64_t>(experts.feed_forward, 29);
  experts.shared_feed_forward = std::min<std::int64_t>(experts.shared_feed_forward, 35);
  sizes.rows = 61;
  sizes.loss_rows = 61;
  sizes.document = 61;
  sizes.elements = 2311;
  sizes.has_odd_parts = true;
  return sizes;
}

TrialSizes share_of(TrialSizes sizes, double share) {
  std::int64_t& of_product = sizes.product.sums_rows ? sizes.product.k : sizes.product.m;
  for (std::int64_t* const size : {&sizes.rows, &sizes.loss_rows, &sizes.elements, &of_product})
    *size = std::max<std::int64_t>(1, std::llround(static_cast<double>(*size) * share));
  return sizes;
}

std::vector<ProductSize> rounded_products(const TrialSizes& sizes) {
  std::vector<ProductSize> products;
  for (const LinearSize& layer : linear_layers(sizes)) {
    if (!layer.adds)
      products.push_back(
          {.m = sizes.rows, .n = layer.out, .k = layer.in, .b = forward_weight(sizes), .has_bias = layer.has_bias});
    if (sizes.trains) products.push_back({.m = sizes.rows, .n = layer.in, .k = layer.out, .b = backward_weight(sizes)});
  }
  return products;
}

std::vector<ProductSize> adding_products(const TrialSizes& sizes) {
  std::vector<ProductSize> products;
  for (const LinearSize& layer : linear_layers(sizes))
    if (layer.adds)
      products.push_back({.m = sizes.rows,
                          .n = layer.out,
                          .k = layer.in,
                          .b = forward_weight(sizes),
                          .adds = true,
                          .has_bias = layer.has_bias});
  return products;
}

std::vector<ProductSize> wide_products(const TrialSizes& sizes) {
  const ModelConfig& model = sizes.model;
  std::vector<ProductSize> products{
      {.m = sizes.loss_rows, .n = sizes.columns, .k = model.channels, .b = Trans::yes}};  // logits
  if (model.experts.count > 0)
    products.push_back({.m = sizes.rows, .n = model.experts.count, .k = model.channels, .b = Trans::yes});
  if (!sizes.trains) return products;
  for (const LinearSize& layer : linear_layers(sizes)) products.push_back(weight_gradient(layer, sizes));
  if (model.experts.count > 0) products.push_back(weight_gradient({model.channels, model.experts.count}, sizes));
  return products;
}

std::vector<ProductSize> scaled_products(const TrialSizes& sizes) {
  const ModelConfig& model = sizes.model;
  return {{.m = sizes.loss_rows, .n = model.channels, .k = sizes.columns},
          {.m = sizes.columns,
           .n = model.channels,
           .k = sizes.loss_rows,
           .a = Trans::yes,
           .adds = true,
           .sums_rows = true}};
}

std::vector<ProductSize> expert_products(const TrialSizes& sizes) {
  const std::int64_t channels = sizes.model.channels, rows = expert_rows(sizes),
                     inner = sizes.model.experts.feed_forward, gate_up = 2 * inner;
  std::vector<ProductSize> products{{.m = rows, .n = gate_up, .k = channels, .b = Trans::yes},
                                    {.m = rows, .n = channels, .k = inner, .b = Trans::yes}};
  if (!sizes.trains) return products;
  products.push_back({.m = rows, .n = channels, .k = gate_up});
  products.push_back({.m = rows, .n = inner, .k = channels});
  return products;
}

std::vector<ProductSize> expert_weight_products(const TrialSizes& sizes) {
  const std::int64_t channels = sizes.model.channels, inner = sizes.model.experts.feed_forward;
  return {{.m = expert_rows(sizes), .n = 2 * inner, .k = channels},
          {.m = expert_rows(sizes), .n = channels, .k = inner, .adds = true}};
}

}  // namespace lockstep::trial
