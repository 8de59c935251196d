#include "data/dummy_source.hpp"

#include "base/random.hpp"

namespace lockstep {

void DummySource::fill(std::int64_t sample, SampleRow& row) const {
  const std::optional<RandomStream> random =
      settings_.seed ? std::optional<RandomStream>(std::in_place, *settings_.seed, "dummy tokens") : std::nullopt;
  const auto token = [&](std::int64_t at) -> std::int32_t {
    if (!random) return 0;
    const auto index = static_cast<std::uint64_t>(sample * (settings_.tokens + 1) + at);
    return static_cast<std::int32_t>(random->below(index, static_cast<std::uint64_t>(settings_.vocabulary)));
  };
  std::int32_t next = token(0);
  for (std::int64_t at = 0; at < settings_.tokens; ++at) {
    row.tokens[static_cast<std::size_t>(at)] = next;
    next = token(at + 1);
    row.labels[static_cast<std::size_t>(at)] = next;
  }
  row.valid_tokens += settings_.tokens;
}

}  // namespace lockstep
