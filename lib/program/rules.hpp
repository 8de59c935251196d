// The parts of verify (program/verify.hpp). Each checks for one kind of mistake and throws the Fault that it finds.
// Later parts rely on the earlier ones.
#pragma once

#include "program/verify.hpp"

namespace lockstep::rules {

/// Checks that classes hold every rank once, that subjects, micro-batches, lanes, groups and slot numbers are valid,
/// and that waits point backwards.
void check_form(const StepProgram& program, const ModelPlan& plan);

/// Checks that the collectives of all ranks match, and that no rank waits for ever.
void check_matching(const StepProgram& program);

/// Checks the match for devices that run one operation at a time: each rank issues its collectives, its transfers and
/// the exchanges within its blocks in the order of its list, each after the one before it has ended.
void check_serial_issue(const StepProgram& program);

/// Checks that the list holds exactly the actions of the step, and that dependent actions are ordered.
void check_step(const StepProgram& program, const RankClass& ranks, const ModelPlan& plan, ProgramPhase phase,
                const ProgramOptions& options);

/// Checks that each slot lives from one acquire to one release around all its uses, belongs to the actions that use it,
/// and has no data race; and that weights are not used after their update.
void check_slots(const StepProgram& program, const RankClass& ranks, const ModelPlan& plan, ProgramPhase phase,
                 const ProgramOptions& options);

/// Checks that the peak memory in an arena stays within `limit_bytes` (0: no limit).
void check_memory(const RankClass& ranks, Arena arena, std::int64_t limit_bytes);

}  // namespace lockstep::rules
