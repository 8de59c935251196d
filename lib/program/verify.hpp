// Proof before the first step that a program does what the model and the options ask for, on every rank, without
// deadlock and within memory. It knows nothing of the passes: what must happen is derived from the plan anew.
#pragma once

#include "program/model_plan.hpp"
#include "program/program_options.hpp"
#include "program/step_program.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// The first thing that is wrong.
struct Fault {
  Rank rank = 0;
  int action = -1;  // position in the rank's list; −1: something is missing or not of one action
  std::string reason;
  std::string hint = {};  // of a program that is right but needs more than a limit: what needs less
};

/// "program train, rank 3, action 17 (all_reduce unit layer.2 over dp_replicate, 2.0 KiB): …".
std::string to_text(const StepProgram& program, const Fault& fault);

/// Nothing if all of this holds: every rank has a list; lanes and waits order what depends on each other; collectives
/// meet, with the same payload, in one order on all ranks; each block runs forward once a micro-batch and in training
/// backward once after it, recomputed in between where its stash was dropped; each unit's gradient is finished once
/// after its last contribution, reduced once over the data axes, then counted in the norm, and updated once after the
/// heartbeat; memory is acquired before use and released once after it; no two lanes touch the same memory at once; the
/// peak stays within the limit.
std::optional<Fault> find_fault(const StepProgram& program, const ModelPlan& plan, ProgramPhase phase,
                                const ProgramOptions& options);

/// Where a verified program would wait for ever if each rank issued its collectives and transfers one at a time, in the
/// order of its list whatever their lanes, as a device with one queue does; nothing if it would end: issue order is
/// acyclic. Of collectives alone find_fault proves it, so that only transfers, which wait for each other's ends, can
/// need lanes side by side.
/// This is a property, not a mistake: some order that is acyclic always exists, that of a run on lanes.
std::optional<Fault> find_serial_stall(const StepProgram& program);

/// Throws Error(resources) if only the memory limit is exceeded, Error(usage) for any other fault of a custom schedule,
/// Error(bug) of another one.
void verify(const StepProgram& program, const ModelPlan& plan, ProgramPhase phase, const ProgramOptions& options);

}  // namespace lockstep
