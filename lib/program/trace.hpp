// What an engine did, recorded where it was done: by the transport (which ranks, how many bytes), by the memory of
// slots, and by what computes; never copied from the program. And what a program says must be recorded: in tests both
// are equal.
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
    computed,  // on the compute lane, by `what`: an operation
    issued,    // to a lane: `what` is a kind of communication
    waited,    // for what was issued before as the rest of the entry says
    drained,   // all lanes
    acquired,  // a slot: `what` is its kind
    released
  } event{};
  std::string_view what;  // lives as the program text does
  Subject subject = {};
  MicroBatch micro_batch = no_micro_batch;
  Lane lane = Lane::compute;
  std::vector<Rank> members = {};  // of the communicator
  std::int64_t bytes = 0;          // handed to it, or of memory whose size the program fixes
  DType dtype = DType::u8;         // of what is communicated
  bool at_most = false;            // of what is expected, as BlockExchange says it
  std::int64_t repeats = 0;        // likewise
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

/// How many tokens the micro-batches of a rank have.
struct MicroBatchTokens {
  std::int64_t planned = 1;                // those that the program counts with: the most
  std::vector<std::int64_t> tokens = {};   // by micro-batch; empty: as planned
  std::vector<std::int64_t> samples = {};  // likewise
};

/// What `rank` must record in one execution, where units store `types`.
std::vector<TraceEntry> expect_trace(const StepProgram& program, Rank rank, const UnitTypes& types,
                                     const MicroBatchTokens& shape = {});

/// The first difference in words: position, what is expected, what was recorded; nothing if they are equal.
std::optional<std::string> difference(const StepProgram& program, const std::vector<TraceEntry>& expected,
                                      const std::vector<TraceEntry>& recorded);

}  // namespace lockstep
