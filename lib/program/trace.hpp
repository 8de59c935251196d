// What an engine did, in the words of the program, and the comparison of both: in tests they must be equal.
#pragma once

#include "program/step_program.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// One action that was performed or, of a collective, issued.
struct TraceEntry {
  Op op{};
  Subject subject;
  MicroBatch micro_batch = no_micro_batch;
  std::vector<AxisName> group;  // of the communicator that was used
  std::int64_t bytes = 0;       // that were handed to it
  bool operator==(const TraceEntry&) const = default;
};

/// What `rank` must record in one step.
std::vector<TraceEntry> expect_trace(const StepProgram& program, Rank rank);

/// The first difference in words: position, what is expected, what was recorded; nothing if they are equal.
std::optional<std::string> difference(const StepProgram& program, const std::vector<TraceEntry>& expected,
                                      const std::vector<TraceEntry>& recorded);

}  // namespace lockstep
