#include "config/configured_mesh.hpp"

#include "base/error.hpp"
#include "config/all_options.hpp"
#include "config/train_config.hpp"
#include "dialects/layers.hpp"
#include "options/document.hpp"
#include "options/interpret.hpp"

#include <fmt/format.h>

namespace lockstep {

namespace {

void refuse_first(const std::string& path, const Problems& problems) {
  if (problems.empty()) return;
  const Problems::Entry& first = problems.entries().front();
  fail(ExitCode::usage, "{} is not a train configuration: {}{}", path,
       first.where.empty() ? "" : fmt::format("{}: ", first.where), first.text);
}

/// By which options, besides the sizes of axes, ranks would hold other parts of the state.
std::vector<std::string> options_of_layouts(const ParallelOptions& parallel, const PostLocalSgdOptions& local) {
  const bool stages = parallel.pp.value_or(AxisSize{1}).ranks != 1;
  const PipelineOrder schedule = parallel.schedule.value();
  const bool one_a_rank = schedule == PipelineOrder::one_f_one_b || schedule == PipelineOrder::gpipe;
  std::vector<std::string> options;
  if (!parallel.order.empty()) options.emplace_back("parallel.order");
  if (stages && !one_a_rank) options.emplace_back("parallel.schedule");
  if (stages && one_a_rank && parallel.stages_per_rank.value_or(1) > 1)
    options.emplace_back("parallel.stages_per_rank");
  if (stages && !parallel.split_points.empty()) options.emplace_back("parallel.split_points");
  if (stages && parallel.stage_splitter.value() != StageSplitter::balanced)
    options.emplace_back("parallel.stage_splitter");
  if (parallel.cp_fsdp_mode.value() != CpFsdpMode::all) options.emplace_back("parallel.cp_fsdp_mode");
  if (parallel.reshard_after_forward.value_or(AfterForward{}).ranks > 1)
    options.emplace_back("parallel.reshard_after_forward");
  if (local.start_step) options.emplace_back("post_local_sgd.start_step");
  return options;
}

}  // namespace

ConfiguredMesh read_configured_mesh(const std::string& path) {
  Problems problems;
  const Declaration* const all = options_of_all_programs("train");
  const Node document = canonical_document(load_layers({path}, "", all, problems), problems);
  TrainConfig config;
  Declaration declaration;
  describe(declaration, config);
  apply(declaration, document, problems, all);
  refuse_first(path, problems);
  const ParallelOptions& parallel = config.parallel;
  if (const auto others = options_of_layouts(parallel, config.post_local_sgd); !others.empty())
    fail(ExitCode::usage,
         "{} sets {}, a layout that axis sizes cannot describe: resume with train and this configuration, and its next "
         "save has the layout",
         path, fmt::join(others, ", "));
  ConfiguredMesh mesh{.axes = {}, .ep_outside = parallel.ep_outside.set()};
  bool left_to_others = false;
  for (const auto& [name, size] : {std::pair("pp", parallel.pp),
                                   {"dp_shard", parallel.dp_shard},
                                   {"ring", parallel.ring},
                                   {"ulysses", parallel.ulysses},
                                   {"tp", parallel.tp}}) {
    if (!size) continue;
    mesh.axes.emplace_back(name, size->ranks);
    left_to_others = left_to_others || size->ranks == 0;
  }
  mesh.axes.emplace_back("dp_replicate", parallel.dp_replicate.value_or(AxisSize{left_to_others ? 1 : 0}).ranks);
  if (parallel.ep.is_set()) mesh.axes.emplace_back("ep", parallel.ep.value());
  return mesh;
}

}  // namespace lockstep
