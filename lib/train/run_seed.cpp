#include "train/run_seed.hpp"

#include "base/json.hpp"
#include "base/random.hpp"
#include "comm/together.hpp"
#include "train/kept_run.hpp"

#include <string>

namespace lockstep {

namespace {

/// Short enough to be typed, long enough that no two runs have the same by chance.
std::int64_t draw_seed() {
  constexpr std::uint64_t bits = 40;
  return static_cast<std::int64_t>(std::stoull(make_uuid().substr(0, 16), nullptr, 16) >> (64 - bits));
}

}  // namespace

TrainConfig with_seed(const TrainConfig& config, Communicator& world) {
  TrainConfig seeded = config;
  if (config.train.seed != TrainOptions::drawn_seed) return seeded;
  const std::string told = run_on_rank0(world, "draw the seed of the run", [&] {
    const std::optional<ResolvedRun> kept = kept_run(config);
    return std::to_string(kept && kept->seed ? *kept->seed : draw_seed());
  });
  seeded.train.seed = std::stoll(told);
  return seeded;
}

Settings with_seed(Settings settings, const TrainConfig& config) {
  for (Setting& setting : settings) {
    if (setting.path != "train.seed" || *setting.value == Json(config.train.seed)) continue;
    setting.origin = "drawn for " + setting.origin;
    setting.value = std::make_shared<const Json>(config.train.seed);
  }
  return settings;
}

}  // namespace lockstep
