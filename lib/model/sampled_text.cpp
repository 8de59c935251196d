#include "model/sampled_text.hpp"

#include "base/error.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace lockstep {

namespace {

/// Orders candidates, most likely first; equal logits in order of their tokens.
class Ranking {
 public:
  Ranking(std::span<const double> logits, std::vector<std::int32_t> candidates)
      : logits_(logits), order_(std::move(candidates)) {
    if (!order_.empty()) return;
    order_.resize(logits.size());
    std::iota(order_.begin(), order_.end(), 0);
  }
  std::size_t size() const { return order_.size(); }
  /// The first `count` of them.
  std::span<const std::int32_t> first(std::size_t count) {
    const auto likelier = [&](std::int32_t a, std::int32_t b) {
      const double x = logits_[static_cast<std::size_t>(a)], y = logits_[static_cast<std::size_t>(b)];
      return x != y ? x > y : a < b;
    };
    std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(count), order_.end(), likelier);
    return std::span(order_).first(count);
  }
  const std::vector<std::int32_t>& in_any_order() const { return order_; }

 private:
  std::span<const double> logits_;
  std::vector<std::int32_t> order_;
};

/// A few candidates have nearly all of the probability, so that only as many are put in order as are needed.
std::int32_t drawn_from(std::span<const double> logits, const std::vector<std::int32_t>& among,
                        const SampleOptions& options, double uniform) {
  Ranking ranking(logits, among);
  const std::int32_t likeliest = ranking.first(1).front();
  const double largest = logits[static_cast<std::size_t>(likeliest)];
  if (options.temperature == 0) return likeliest;
  const auto weight = [&](std::int32_t token) {
    return std::exp((logits[static_cast<std::size_t>(token)] - largest) / options.temperature);
  };
  const auto sum_of = [&](std::span<const std::int32_t> tokens) {
    double sum = 0;
    for (const std::int32_t token : tokens) sum += weight(token);
    return sum;
  };
  const std::size_t limit =
      options.top_k ? std::min(ranking.size(), static_cast<std::size_t>(*options.top_k)) : ranking.size();
  const double total = limit < ranking.size() ? sum_of(ranking.first(limit)) : sum_of(ranking.in_any_order());
  for (std::size_t count = std::min<std::size_t>(limit, 64);; count = std::min(limit, 8 * count)) {
    std::span<const std::int32_t> candidates = ranking.first(count);
    double whole = total;
    if (options.top_p) {  // the fewest that have this probability
      std::size_t kept = 0;
      for (whole = 0; kept < count && (kept == 0 || whole < *options.top_p * total); ++kept)
        whole += weight(candidates[kept]);
      if (whole < *options.top_p * total && count < limit) continue;
      candidates = candidates.first(kept);
    }
    double left = uniform * whole;
    for (const std::int32_t token : candidates) {
      if (left < weight(token)) return token;
      left -= weight(token);
    }
    if (options.top_p || count == limit) return candidates.back();
  }
}

/// The logarithm of the probability of a token among all.
double log_probability(std::span<const double> logits, std::int32_t token) {
  const double largest = std::ranges::max(logits);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return logits[static_cast<std::size_t>(token)] - largest - std::log(sum);
}

std::string stream_name(const std::vector<std::int32_t>& prompt) {
  return fmt::format("sample {}", fmt::join(prompt, " "));
}

/// Where the first of the texts begins in `text`; npos: nowhere.
std::size_t first_of(const std::vector<std::string>& texts, const std::string& text) {
  std::size_t first = std::string::npos;
  for (const std::string& one : texts) first = std::min(first, text.find(one));
  return first;
}

}  // namespace

std::string_view name_of(EndOfText end) {
  switch (end) {
    case EndOfText::length: return "length";
    case EndOfText::stop_token: return "stop_token";
    case EndOfText::stop_text: return "stop_text";
    case EndOfText::positions: return "positions";
  }
  fail(ExitCode::bug, "unknown EndOfText {}", static_cast<int>(end));
}

SampledText::SampledText(std::vector<std::int32_t> prompt, const SampleOptions& options, TextRules rules)
    : options_(options),
      rules_(std::move(rules)),
      tokens_(std::move(prompt)),
      prompt_length_(std::ssize(tokens_)),
      random_(static_cast<std::uint64_t>(options.seed), stream_name(tokens_)) {
  if (tokens_.empty())
    throw Error(ExitCode::input, "cannot continue an empty prompt", "give a prompt of at least one token");
  if (prompt_length_ > rules_.positions)
    throw Error(ExitCode::input,
                fmt::format("cannot continue a prompt of {}: the model has {}", counted(prompt_length_, "token"),
                            counted(rules_.positions, "position")),
                "shorten the prompt");
  if (options.max_tokens < 1)
    end_ = EndOfText::length;
  else if (prompt_length_ == rules_.positions)
    end_ = EndOfText::positions;
}

TextRows SampledText::next_rows(std::int32_t slot, std::int64_t most) const {
  return {
      .slot = slot, .tokens = tokens_, .first = computed_, .count = std::min(most, std::ssize(tokens_) - computed_)};
}

DrawnToken SampledText::draw(std::span<const double> logits) const {
  if (!std::ranges::all_of(logits, [](double logit) { return std::isfinite(logit); }))
    throw Error(ExitCode::numerics, "cannot draw a token: the model's logits are not finite");
  const std::int32_t id = drawn_from(logits, rules_.candidates, options_, random_.uniform(tokens_.size()));
  return {.id = id, .log_probability = log_probability(logits, id)};
}

void SampledText::append(const DrawnToken& token) {
  tokens_.push_back(token.id);
  log_probabilities_.push_back(token.log_probability);
  end_ = end_after(token.id);
}

std::optional<EndOfText> SampledText::end_after(std::int32_t token) const {
  if (std::ranges::find(rules_.stop_tokens, token) != rules_.stop_tokens.end()) return EndOfText::stop_token;
  if (!options_.stop.empty() && meets_stop()) return EndOfText::stop_text;
  if (std::ssize(tokens_) - prompt_length_ >= options_.max_tokens) return EndOfText::length;
  if (std::ssize(tokens_) >= rules_.positions) return EndOfText::positions;
  return std::nullopt;
}

// Decoders drop the space before a first word, and join tokens that are bytes of one character.
std::string SampledText::text_from(std::size_t begin) const {
  constexpr std::size_t joined = 8;  // tokens, more than one character has
  const std::size_t end = tokens_.size() - (end_ == EndOfText::stop_token ? 1 : 0);
  const std::size_t lead = begin - std::min(begin, joined);
  const std::span<const std::int32_t> tokens(tokens_);
  const std::string before = rules_.decode(tokens.subspan(lead, begin - lead));
  const std::string whole = rules_.decode(tokens.subspan(lead, end - lead));
  return whole.starts_with(before) ? whole.substr(before.size()) : rules_.decode(tokens.subspan(begin, end - begin));
}

// Only the end of the text is looked at: the cost of a token does not grow with the text.
bool SampledText::meets_stop() const {
  std::size_t longest = 0;
  for (const std::string& stop : options_.stop) longest = std::max(longest, stop.size());
  const std::size_t enough = longest + rules_.decode({&tokens_.back(), 1}).size() + 1;  // bytes
  const auto prompt = static_cast<std::size_t>(prompt_length_);
  for (std::size_t window = enough;; window *= 2) {
    const std::size_t begin = std::max(prompt, tokens_.size() - std::min(tokens_.size(), window));
    const std::string text = text_from(begin);
    if (first_of(options_.stop, text) != std::string::npos) return true;
    if (begin == prompt || text.size() >= enough) return false;
  }
}

std::string SampledText::text() const {
  std::string text = text_from(static_cast<std::size_t>(prompt_length_));
  if (end_ == EndOfText::stop_text) text.resize(std::min(text.size(), first_of(options_.stop, text)));
  return text;
}

}  // namespace lockstep
