#include "train/end_report.hpp"

#include "base/process.hpp"
#include "base/text.hpp"
#include "train/stopped_run.hpp"

#include <algorithm>

namespace lockstep {

namespace {

SummaryRecord summary(LoopEnd end, const TrainingLoop& loop, const TrainPlan& plan, const TrainState& now,
                      const std::shared_ptr<const Json>& datasets, double wall_s,
                      const std::vector<std::int64_t>& peak_memory) {
  SummaryRecord record{.reason = end == LoopEnd::finished ? "finished" : "stopped",
                       .exit_code = exit_code_of(end),
                       .step = now.step,
                       .tokens = now.tokens,
                       .datasets = datasets,
                       .skipped = now.skipped,
                       .wall_s = wall_s,
                       .global_batch = plan.batch.global_batch,
                       .peak_memory_bytes = peak_memory,
                       .loss = now.loss,
                       .eval_loss = now.eval_loss,
                       .checkpoint = loop.last_checkpoint(),
                       .records_lost = 0};
  loop.sum_up(record);
  return record;
}

/// The most memory that each rank has had at once, by rank; on rank 0. Collective over `world`.
std::vector<std::int64_t> peak_memory_of_ranks(Communicator& world) {
  std::vector<std::int64_t> bytes;
  for (const std::string& kib : world.gather(std::to_string(holdings_of_process().peak_kib), 0))
    bytes.push_back(std::stoll(kib) * 1024);
  return bytes;
}

/// Speeds and memory, in one line.
std::string performance_text(const SummaryRecord& record) {
  std::string text;
  if (record.speed_from_step)
    text = fmt::format("from step {} on {:.3g} steps/s, {} samples/s, {} tokens/s, {}FLOP/s{}; ",
                       *record.speed_from_step, *record.steps_per_s, human_count(*record.samples_per_s),
                       human_count(*record.tokens_per_s), human_count(*record.flops_per_s),
                       record.mfu ? fmt::format(", MFU {:.3g} %", 100 * *record.mfu) : "");
  const auto most = std::ranges::max_element(record.peak_memory_bytes);
  text += fmt::format("at most {} of memory", human_bytes(static_cast<std::uint64_t>(*most)));
  if (record.peak_memory_bytes.size() > 1)
    text += fmt::format(" per rank, on rank {}", most - record.peak_memory_bytes.begin());
  return text;
}

/// What the same command would do after exit code 75.
std::string next_start_text(const TrainConfig& config, const SummaryRecord& record) {
  if (!saves_all(config.checkpoint))
    return "the same command cannot resume from here: checkpoint.components omits state that resuming needs";
  const bool seen_by_all = !record.checkpoint || step_within(*record.checkpoint, config.train.run_dir);
  return seen_by_all ? "the same command resumes from here" : "the same command resumes from here on the same nodes";
}

void log_end(Log& log, const TrainConfig& config, const SummaryRecord& record) {
  log.info("{} at step {}: loss {}{}, {} tokens in {}{}", record.reason, record.step,
           record.loss ? fmt::format("{:.4f}", *record.loss) : "unknown",
           record.eval_loss ? fmt::format(", validation loss {:.4f}", *record.eval_loss) : "",
           human_count(static_cast<double>(record.tokens)), human_seconds(record.wall_s),
           record.checkpoint ? ", last checkpoint " + *record.checkpoint : "");
  log.info("{}", performance_text(record));
  if (record.exit_code == static_cast<int>(ExitCode::stopped)) log.info("{}", next_start_text(config, record));
  if (record.exit_code == static_cast<int>(ExitCode::verdict))
    log.warning("asked to stop a second time: steps after the last checkpoint are not saved");
}

}  // namespace

int exit_code_of(LoopEnd end) {
  switch (end) {
    case LoopEnd::finished: return static_cast<int>(ExitCode::done);
    case LoopEnd::stopped_saved: return static_cast<int>(ExitCode::stopped);
    case LoopEnd::stopped_now: return static_cast<int>(ExitCode::verdict);
  }
  return static_cast<int>(ExitCode::bug);
}

void report_end(const EndFacts& facts, Communicator& world, RunFiles& files, Log& log) {
  log.debug("left the loop after step {}", facts.state.step);
  const std::vector<std::int64_t> peak_memory = peak_memory_of_ranks(world);
  if (world.rank() != 0) return;
  SummaryRecord record = summary(facts.end, facts.loop, facts.plan, facts.state,
                                 facts.plan.uses_by_name(facts.config, facts.state), facts.wall_s, peak_memory);
  files.records().flush();
  record.records_lost = files.records().lost();
  files.report_end(record);
  if (!facts.had_finished) log_end(log, facts.config, record);
  if (record.records_lost > 0) log.warning("{} records could not be written", record.records_lost);
}

}  // namespace lockstep
