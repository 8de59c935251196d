#include "train/export_at_end.hpp"

#include "artifact/export_report.hpp"
#include "artifact/finalize.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"

namespace lockstep {

namespace {

/// Whether an earlier job of the run has exported that state. Local.
bool is_exported(const Path& folder, const ModelSource& source) {
  const Path file = folder / export_report_file;
  if (!is_there(file)) return false;
  const Json report = parse_json(read_file(file), file.string());
  return report.contains("source") && report.at("source").value("state_digest", "") == source.state_digest;
}

}  // namespace

bool export_at_end(const TrainConfig& config, RunFiles& files, Session& session, Log& log) {
  Communicator& world = session.world();
  const Path run = files.folder();
  FinalizeConfig request;
  request.checkpoint = run.string();
  if (config.checkpoint.load_best_at_end) request.which.by = CheckpointChoice::Kind::best;
  try {
    const double start_s = monotonic_seconds();
    const ModelSource source = agreed_source(world, request);
    const Path folder = run / "export" / fmt::format("step-{}", *source.step);
    const std::string known = run_on_rank0(
        world, "check the export", [&] { return is_exported(folder, source) ? std::string("known") : std::string(); });
    if (!known.empty()) return true;
    request.output = folder.string();
    request.overwrite = true;  // that of another state of this step, and nothing but an export
    together(world, "create the folder of exports", [&] {
      if (world.rank() == 0) make_folder(folder.parent_path());
    });
    const ExportResult exported = finalize(request, source, session, [](std::int64_t, std::int64_t) {});
    if (world.rank() == 0)
      log.info("exported step {} to {} ({} in {})", *source.step, folder.string(), human_bytes(exported.weights.bytes),
               human_seconds(monotonic_seconds() - start_s));
    return true;
  } catch (const AgreedError& error) {
    if (error.code() == ExitCode::verdict) {
      if (world.rank() == 0) log.info("asked to stop during the export: the same command exports the model");
      return false;
    }
    throw AgreedError(
        Error(error.code(), fmt::format("export at the end of the run: {}", error.what()),
              fmt::format(
                  "the checkpoints are complete: run the same command again, or finalize-quantize {} --output DIR",
                  run.string())),
        error.owner());
  }
}

}  // namespace lockstep
