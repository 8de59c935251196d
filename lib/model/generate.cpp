#include "model/generate.hpp"

#include "base/error.hpp"
#include "base/random.hpp"

#include <ATen/ops/_to_copy.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep {

namespace {

BatchTensors batch_of(const std::vector<std::int32_t>& tokens, const HfConfig& config) {
  Batch batch;
  batch.samples = 1;
  batch.length = static_cast<std::int64_t>(tokens.size());
  batch.tokens = tokens;
  batch.labels.assign(tokens.size(), ignored_label);
  batch.positions.resize(tokens.size());
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.documents = {0, batch.length};
  return to_tensors(batch, config);
}

/// Candidates most likely first; equal logits in order of their tokens.
std::vector<std::int32_t> ranked(const std::vector<double>& logits, std::vector<std::int32_t> order,
                                 std::optional<std::int64_t> top_k) {
  if (order.empty()) {
    order.resize(logits.size());
    std::iota(order.begin(), order.end(), 0);
  }
  const auto count =
      static_cast<std::ptrdiff_t>(std::clamp<std::int64_t>(top_k.value_or(std::ssize(order)), 1, std::ssize(order)));
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), likelier);
  order.resize(static_cast<std::size_t>(count));
  return order;
}

std::int32_t draw(const std::vector<double>& logits, const std::vector<std::int32_t>& among,
                  const SampleOptions& options, double uniform) {
  const std::vector<std::int32_t> candidates =
      ranked(logits, among, options.temperature > 0 ? options.top_k : std::optional<std::int64_t>(1));
  if (candidates.size() == 1) return candidates[0];
  std::vector<double> weights;
  const double largest = logits[static_cast<std::size_t>(candidates[0])];
  for (const std::int32_t token : candidates)
    weights.push_back(std::exp((logits[static_cast<std::size_t>(token)] - largest) / options.temperature));
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (left < weights[i]) return candidates[i];
    left -= weights[i];
  }
  return candidates.back();
}

std::string stream_name(const std::vector<std::int32_t>& prompt) {
  return fmt::format("sample {}", fmt::join(prompt, " "));
}

}  // namespace

std::vector<std::int32_t> generate(const Model& model, const std::vector<std::int32_t>& prompt,
                                   const SampleOptions& options, const Continuation& next) {
  if (prompt.empty())
    throw Error(ExitCode::input, "cannot generate text from an empty prompt", "give a prompt of at least one token");
  const RandomStream random(static_cast<std::uint64_t>(options.seed), stream_name(prompt));
  const auto context = static_cast<std::size_t>(model.config().max_positions);
  std::vector<std::int32_t> text = prompt;
  for (std::int64_t drawn = 0; drawn < options.max_tokens; ++drawn) {
    const std::vector<std::int32_t> seen(text.end() - static_cast<std::ptrdiff_t>(std::min(context, text.size())),
                                         text.end());
    const at::Tensor last = model.last_logits(batch_of(seen, model.config())).to(at::kDouble);
    const double* values = last.const_data_ptr<double>();
    const std::vector<double> logits(values, values + last.numel());
    const std::int32_t token = draw(logits, next.candidates, options, random.uniform(text.size()));
    text.push_back(token);
    if (token == next.stop_token) break;
  }
  return text;
}

}  // namespace lockstep
