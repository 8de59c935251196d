#include "config/all_options.hpp"

#include "config/finalize_config.hpp"
#include "config/inspect_config.hpp"
#include "config/prepare_config.hpp"
#include "config/reshard_config.hpp"
#include "config/train_config.hpp"
#include "options/tool.hpp"
#include "plugin/plugins.hpp"

#include <map>
#include <mutex>
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
      Declaration own;
      describe(own, config);
      options.add_all(own);
      programs.insert(tool_of(config).name);
    };
    std::apply([&](auto&... config) { (declare(config), ...); }, configs);
  }
};

}  // namespace

const Declaration* options_of_all_programs(const std::string& program) {
  static std::mutex mutex;
  static std::map<std::size_t, AllConfigs> by_plugins;  // each as long as it may be in use
  const std::lock_guard lock(mutex);
  const AllConfigs& all = by_plugins[Plugins::opened().all().size()];
  return all.programs.contains(program) ? &all.options : nullptr;
}

}  // namespace lockstep
