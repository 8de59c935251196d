#include "config/all_options.hpp"

#include "config/finalize_config.hpp"
#include "config/inspect_config.hpp"
#include "config/prepare_config.hpp"
#include "config/reshard_config.hpp"
#include "config/tool.hpp"
#include "config/train_config.hpp"

#include <set>
#include <tuple>

namespace lockstep {

namespace {

struct AllConfigs {
  std::tuple<TrainConfig, PrepareConfig, InspectConfig, ReshardConfig, FinalizeConfig> configs;
  std::set<std::string> programs;
  Declaration options;

  AllConfigs() {
    const auto declare = [this](auto& config) {
      describe(options, config);
      programs.insert(tool_of(config).name);
    };
    std::apply([&](auto&... config) { (declare(config), ...); }, configs);
  }
};

}  // namespace

const Declaration* options_of_all_programs(const std::string& program) {
  static const AllConfigs all;
  return all.programs.contains(program) ? &all.options : nullptr;
}

}  // namespace lockstep
