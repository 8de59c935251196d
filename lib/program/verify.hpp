// Proves before the first step that a program does the work that the model and the options require, on every rank,
// without deadlock and within memory. It knows nothing of the passes: it derives the requirements from the plan again.
#pragma once

#include "program/model_plan.hpp"
#include "program/program_options.hpp"
#include "program/step_program.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// The first error that was found.
struct Fault {
  Rank rank = 0;
  int action = -1;  // position in the rank's list; −1: an action is missing, or the error concerns several
  std::string reason;
  std::string hint = {};  // for a correct program that exceeds a limit: how to need less
};

/// "program train, rank 3, action 17 (all_reduce unit layer.2 over dp_replicate, 2.0 KiB): …".
std::string to_text(const StepProgram& program, const Fault& fault);

/// Returns nothing if all of these hold:
/// - Every rank has a list. Lanes and waits order all actions that depend on each other.
/// - Collectives match, with equal payload and in one order on all ranks. With options.one_queue, no rank waits for
/// ever
///   if all communication is issued one at a time.
/// - Each block runs forward once per micro-batch and in training backward once after it. It is recomputed in between
///   if its stash was dropped.
/// - Each unit's gradient is finished once after its last contribution, reduced once over the data axes, then counted
///   in the norm, and updated once after the heartbeat.
/// - Memory is acquired before use and released once after it. No two lanes touch the same memory at once.
/// - The peak of memory in each arena stays within its limit.
std::optional<Fault> find_fault(const StepProgram& program, const ModelPlan& plan, ProgramPhase phase,
                                const ProgramOptions& options);

/// Where a verified program would wait for ever if each rank issued its collectives, its transfers and the exchanges
/// within its blocks one at a time, in the order of its list, as a device with one queue does. Returns nothing if it
/// would end (the issue order is acyclic). For collectives alone find_fault proves this, so only transfers, whose two
/// ends wait for each other, can need lanes side by side. A stall is a property, not a mistake: an acyclic order always
/// exists, the order of a run on lanes (issue_one_at_a_time of program/passes.hpp).
std::optional<Fault> find_serial_stall(const StepProgram& program);

/// Throws Error(resources) if only the memory limit is exceeded, Error(usage) for any other fault of a custom schedule,
/// and Error(bug) for any other fault.
void verify(const StepProgram& program, const ModelPlan& plan, ProgramPhase phase, const ProgramOptions& options);

}  // namespace lockstep
