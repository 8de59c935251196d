// The parts of verify. Each looks at one kind of mistake and throws the Fault it finds; later parts rely on what
// earlier ones have proven.
#pragma once

#include "program/verify.hpp"

namespace lockstep::rules {

/// Classes hold every rank once; subjects, micro-batches, lanes, groups and slot numbers make sense; waits point
/// backwards.
void check_form(const StepProgram& program, const ModelPlan& plan);

/// Collectives of all ranks meet, and no rank waits for ever.
void check_matching(const StepProgram& program);

/// The same for devices that do one operation at a time: each rank issues its collectives and transfers of all lanes in
/// the order of its list, each after the one before it has ended.
void check_serial_issue(const StepProgram& program);

/// The list holds exactly the actions that the step is made of, and what depends on each other is ordered.
void check_step(const StepProgram& program, const RankClass& ranks, const ModelPlan& plan, ProgramPhase phase,
                const ProgramOptions& options);

/// Slots live from one acquire to one release around all their uses, belong to the actions that use them, and are never
/// raced for; weights are not used once they are updated.
void check_slots(const StepProgram& program, const RankClass& ranks, const ModelPlan& plan, ProgramPhase phase,
                 const ProgramOptions& options);

/// The peak of memory in an arena stays within `limit_bytes` (0: no limit).
void check_memory(const RankClass& ranks, Arena arena, std::int64_t limit_bytes);

}  // namespace lockstep::rules
