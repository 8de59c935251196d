// The trace of an execution: the transport records communication (ranks, bytes), the slots their memory, the blocks
// their computation. Nothing of it is copied from the program. Tests require it to be equal to the trace that
// `expect_trace` derives from the program.
#pragma once

#include "program/model_plan.hpp"
#include "program/step_program.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

struct TraceEntry {
  enum class Event : std::uint8_t {
    computed,  // an operation, `what`, on the compute lane
    issued,    // to a lane; `what` is a kind of communication
    waited,    // for the operation that was issued with the other values of the entry
    drained,   // all lanes
    acquired,  // a slot; `what` is its kind
    released
  } event{};
  std::string_view what;  // lives as long as the program text
  Subject subject = {};
  MicroBatch micro_batch = no_micro_batch;
  Lane lane = Lane::compute;
  std::vector<Rank> members = {};  // ranks of the communicator
  std::int64_t bytes = 0;          // bytes that this rank contributes, or bytes of memory whose size the program fixes
  DType dtype = DType::u8;         // of the communicated elements
  bool at_most = false;            // only of expected entries; see BlockExchange
  std::int64_t repeats = 0;        // only of expected entries; see BlockExchange
  bool operator==(const TraceEntry&) const = default;
};

/// The record of one execution.
class TraceLog {
 public:
  void clear() { entries_.clear(); }
  void add(TraceEntry entry) { entries_.push_back(std::move(entry)); }
  const std::vector<TraceEntry>& entries() const { return entries_; }

 private:
  std::vector<TraceEntry> entries_;
};

/// How many tokens each micro-batch of a rank has.
struct MicroBatchTokens {
  std::int64_t planned = 1;                // tokens of the largest micro-batch, as the program assumes
  std::vector<std::int64_t> tokens = {};   // by micro-batch; empty: as planned
  std::vector<std::int64_t> samples = {};  // by micro-batch; empty: as planned
};

/// The entries that `rank` must record in one execution, where units store `types`.
std::vector<TraceEntry> expect_trace(const StepProgram& program, Rank rank, const UnitTypes& types,
                                     const MicroBatchTokens& shape = {});

/// The first difference in words: position, expected entry, recorded entry. Nothing if they are equal.
std::optional<std::string> difference(const StepProgram& program, const std::vector<TraceEntry>& expected,
                                      const std::vector<TraceEntry>& recorded);

}  // namespace lockstep
