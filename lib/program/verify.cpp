#include "program/verify.hpp"

#include "base/error.hpp"
#include "program/rules.hpp"

namespace lockstep {

std::string to_text(const StepProgram& program, const Fault& fault) {
  std::string where = fmt::format("program {}, rank {}", program.name, fault.rank);
  if (fault.action >= 0)
    where += fmt::format(", action {} ({})", fault.action,
                         to_text(program, program.of(fault.rank)[static_cast<std::size_t>(fault.action)]));
  return where + ": " + fault.reason;
}

std::optional<Fault> find_fault(const StepProgram& program, const ModelPlan& plan, ProgramPhase phase,
                                const ProgramOptions& options) {
  try {
    rules::check_form(program, plan);
    for (const RankClass& ranks : program.classes) rules::check_step(program, ranks, plan, phase, options);
    for (const RankClass& ranks : program.classes) rules::check_slots(program, ranks, plan, phase, options);
    rules::check_matching(program);
    if (options.one_queue) rules::check_serial_issue(program);
    for (const RankClass& ranks : program.classes) {
      rules::check_memory(ranks, Arena::device, options.memory_limit_bytes);
      rules::check_memory(ranks, Arena::host, options.offload.host_limit_bytes);
    }
  } catch (const Fault& fault) {
    return fault;
  }
  return std::nullopt;
}

std::optional<Fault> find_serial_stall(const StepProgram& program) {
  try {
    rules::check_serial_issue(program);
  } catch (const Fault& fault) {
    return fault;
  }
  return std::nullopt;
}

void verify(const StepProgram& program, const ModelPlan& plan, ProgramPhase phase, const ProgramOptions& options) {
  const std::optional<Fault> fault = find_fault(program, plan, phase, options);
  if (!fault) return;
  if (!fault->hint.empty()) throw Error(ExitCode::resources, to_text(program, *fault), fault->hint);
  if (options.pipeline.schedule.name() == PipelineSchedule::custom)
    throw Error(ExitCode::usage,
                fmt::format("{} gives no valid step program: {}", options.pipeline.schedule.of_user().who,
                            to_text(program, *fault)),
                "ranks that wait for each other in a cycle deadlock: see lockstep-plugin(7)");
  throw Error(ExitCode::bug, to_text(program, *fault));
}

}  // namespace lockstep
