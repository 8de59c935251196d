// Writes a run of Weights & Biases without a network: the folder that W&B's own client makes when it is offline.
// "wandb sync" uploads it later. The bytes of its file: report/wandb_file.hpp.
#pragma once

#include "report/record_sink.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct WandbSettings {
  Path folder;  // gets the folder of this start
  std::string id;
  std::string project;
  std::string name;
  std::vector<std::string> tags;
  std::optional<std::int64_t> every;  // in steps: only step records at its multiples are written; not set: all are
};

class WandbSink : public RecordSink {
 public:
  /// Makes the folder offline-run-TIME-ID with a run file. Local. Throws Error(storage).
  explicit WandbSink(const WandbSettings& settings);
  ~WandbSink() override;

  const Path& folder() const { return folder_; }

  /// Numbers of step, eval and statistics records become one row of the history for each step, with the names that
  /// TensorBoard uses; samples become texts of the row. A row is written when a record of another step or the summary
  /// arrives, or at close().
  void write(std::string_view line) override;
  void close() override;

 private:
  struct State;
  Path folder_;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
