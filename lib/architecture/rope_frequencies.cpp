#include "architecture/rope_frequencies.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep {

namespace {

constexpr double turn = 2 * std::numbers::pi;
constexpr std::int64_t any_length = std::int64_t{1} << 31;

std::vector<double> unscaled(double theta, std::int64_t head_size) {
  const std::int64_t half = head_size / 2;
  std::vector<double> radians;
  for (std::int64_t i = 0; i < half; ++i)
    radians.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(half)));
  return radians;
}

/// "NTK": a larger θ, so that the slowest pair turns as far over the whole text as it did over the original length.
double stretched_theta(const Rope& rope, std::int64_t head_size, std::int64_t length) {
  const double original = static_cast<double>(rope.original_positions), size = static_cast<double>(head_size);
  const double stretch = rope.factor * static_cast<double>(length) / original - (rope.factor - 1);
  return rope.theta * std::pow(stretch, size / (size - 2));
}

/// Slow pairs, whose waves are longer than the original text over low_freq_factor, turn slower by the factor; fast ones
/// as before; between them a mixture.
double llama3(const Rope& rope, double radians) {
  const double waves = static_cast<double>(rope.original_positions) * radians / turn;  // over the original text
  if (waves > rope.high_freq_factor) return radians;
  if (waves < rope.low_freq_factor) return radians / rope.factor;
  const double fast = (waves - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return fast * radians + (1 - fast) * radians / rope.factor;
}

/// YaRN: a ramp over the pairs, from those that turn more than beta_fast times over the original text and stay as they
/// are to those that turn less than beta_slow times and become slower by the factor.
void apply_yarn(const Rope& rope, std::int64_t head_size, std::vector<double>& radians) {
  const auto pair_that_turns = [&](double times) {
    const double reach = std::log(static_cast<double>(rope.original_positions) / (times * turn));
    return static_cast<double>(head_size) * reach / (2 * std::log(rope.theta));
  };
  double first = pair_that_turns(rope.beta_fast), last = pair_that_turns(rope.beta_slow);
  if (rope.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(head_size - 1));
  if (first == last) last += 0.001;
  for (std::size_t i = 0; i < radians.size(); ++i) {
    const double slow = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    radians[i] = slow * radians[i] / rope.factor + (1 - slow) * radians[i];
  }
}

double yarn_attention(const Rope& rope) {
  const auto scale = [&](double weight) { return rope.factor <= 1 ? 1 : 0.1 * weight * std::log(rope.factor) + 1; };
  if (rope.attention_factor) return *rope.attention_factor;
  return rope.mscale > 0 && rope.mscale_all_dim > 0 ? scale(rope.mscale) / scale(rope.mscale_all_dim) : scale(1);
}

double longrope_attention(const Rope& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.factor <= 1) return 1;
  return std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(rope.original_positions)));
}

}  // namespace

RopeFrequencies rope_frequencies(const Rope& rope, std::int64_t head_size, std::int64_t length) {
  RopeFrequencies result{unscaled(rope.theta, head_size), 1};
  std::vector<double>& radians = result.radians;
  switch (rope.kind) {
    case RopeKind::unscaled: break;
    case RopeKind::linear:
      for (double& of_pair : radians) of_pair /= rope.factor;
      break;
    case RopeKind::dynamic:
      if (length > rope.original_positions) radians = unscaled(stretched_theta(rope, head_size, length), head_size);
      break;
    case RopeKind::yarn:
      apply_yarn(rope, head_size, radians);
      result.attention_factor = yarn_attention(rope);
      break;
    case RopeKind::longrope: {
      const std::vector<double>& divisors = length > rope.original_positions ? rope.long_factor : rope.short_factor;
      for (std::size_t i = 0; i < radians.size(); ++i) radians[i] /= divisors[i];
      result.attention_factor = longrope_attention(rope);
      break;
    }
    case RopeKind::llama3:
      for (double& of_pair : radians) of_pair = llama3(rope, of_pair);
      break;
  }
  return result;
}

std::int64_t representative_length(const Rope& rope, std::int64_t length) {
  switch (rope.kind) {
    case RopeKind::dynamic: return std::max(length, rope.original_positions);
    case RopeKind::longrope: return length > rope.original_positions ? rope.original_positions + 1 : 0;
    case RopeKind::unscaled:
    case RopeKind::linear:
    case RopeKind::yarn:
    case RopeKind::llama3: break;
  }
  return 0;
}

std::int64_t longest_length(const ModelConfig& config) {
  const Rope& rope = config.rope;
  if (config.positions == Positions::learned) return config.max_positions;
  const auto times_longer = [&](std::int64_t positions) {
    const double length = rope.factor * static_cast<double>(positions);
    return std::max(config.max_positions, static_cast<std::int64_t>(std::min(length, static_cast<double>(any_length))));
  };
  switch (rope.kind) {
    case RopeKind::unscaled: break;
    case RopeKind::linear: return times_longer(config.max_positions);
    case RopeKind::dynamic: return any_length;
    case RopeKind::yarn:
    case RopeKind::longrope:
    case RopeKind::llama3: return times_longer(rope.original_positions);
  }
  return config.max_positions;
}

}  // namespace lockstep
