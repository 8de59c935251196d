#include "model/sampled_text.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace lockstep {

namespace {

/// Candidates most likely first; equal logits in order of their tokens.
std::vector<std::int32_t> ranked(std::span<const double> logits, std::vector<std::int32_t> order,
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

std::int32_t drawn_from(std::span<const double> logits, const std::vector<std::int32_t>& among,
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

SampledText::SampledText(std::vector<std::int32_t> prompt, const SampleOptions& options, const TextWindow& window,
                         Continuation next)
    : options_(options),
      window_(window),
      next_(std::move(next)),
      tokens_(std::move(prompt)),
      prompt_length_(tokens_.size()),
      random_(static_cast<std::uint64_t>(options.seed), stream_name(tokens_)),
      ended_(options.max_tokens < 1) {
  if (tokens_.empty())
    throw Error(ExitCode::input, "cannot continue an empty prompt", "give a prompt of at least one token");
}

TextInput SampledText::seen() const {
  const std::int64_t count = std::min(window_.positions, std::ssize(tokens_));
  TextInput text{.batch = {}, .last = count - 1};
  Batch& batch = text.batch;
  batch.samples = 1;
  batch.length = count;
  batch.tokens.assign(tokens_.end() - count, tokens_.end());
  batch.labels.assign(batch.tokens.size(), ignored_label);
  batch.positions.resize(batch.tokens.size());
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.documents = {0, batch.length};
  return text;
}

DrawnToken SampledText::draw(std::span<const double> logits) const {
  if (!std::ranges::all_of(logits, [](double logit) { return std::isfinite(logit); }))
    throw Error(ExitCode::numerics, "cannot draw a token: the model's logits are not finite");
  const std::int32_t id = drawn_from(logits, next_.candidates, options_, random_.uniform(tokens_.size()));
  const std::int64_t drawn = std::ssize(tokens_) + 1 - static_cast<std::int64_t>(prompt_length_);
  return {.id = id, .ends = id == next_.stop_token || drawn >= options_.max_tokens};
}

void SampledText::append(const DrawnToken& token) {
  tokens_.push_back(token.id);
  ended_ = token.ends;
}

}  // namespace lockstep
