#include "train/best_weights.hpp"

#include "checkpoint/resume.hpp"
#include "comm/together.hpp"
#include "reshard/named_part.hpp"
#include "tensor/runtime.hpp"
#include "tensor/unit.hpp"
#include "train/evaluated_metrics.hpp"

namespace lockstep {

namespace {

CheckpointPart weights_of(const CheckpointReader& reader) {
  const Manifest& manifest = reader.manifest();
  return named_part(manifest.components, manifest.tensors,
                    {.only = {NamePattern::parse("model")}, .skip = {}, .prefix = "checkpoint."});
}

}  // namespace

std::int64_t load_best_weights(const LoopParts& parts) {
  Communicator& world = parts.session.world();
  const CheckpointOptions& options = parts.config.checkpoint;
  parts.session.enter(Phase::load, parts.train_state.step);
  const Resumed resumed = resume(world, parts.world, parts.components,
                                 {.run = parts.files.folder(),
                                  .wanted = {ResumeTarget::Kind::best},
                                  .best_by = best_by(options, parts.plan.deciding_metrics(parts.config)),
                                  .patience_s = options.patience.value,
                                  .threads = thread_count(),
                                  .storage = parts.files.run().storage(),
                                  .local = parts.files.local_tier(),
                                  .part = weights_of,
                                  .tell = [&](const std::string& reason) {
                                    if (world.rank() == 0) parts.output.log().warning("{}", reason);
                                  }});
  if (world.rank() == 0)
    for (const SkippedCheckpoint& passed : resumed.damaged)
      parts.output.log().warning("skipped a damaged checkpoint: {}", to_text(passed));
  together(world, "load the best weights", [&] {
    for (Unit* unit : parts.model.units()) unit->update_compute_copy();
  });
  return resumed.checkpoint->step;
}

}  // namespace lockstep
