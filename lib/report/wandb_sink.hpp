// A run of Weights & Biases without its network: the folder that its own client makes when it is offline, from which
// "wandb sync" sends the run.
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
  std::optional<std::int64_t> every;  // steps at whose multiples step records count; absent: all do
};

class WandbSink : public RecordSink {
 public:
  /// Makes the folder offline-run-TIME-ID with a run file. Local. Throws Error(storage).
  explicit WandbSink(const WandbSettings& settings);
  ~WandbSink() override;

  const Path& folder() const { return folder_; }

  /// Numbers of step, eval and statistics records become a row of the history, one for each step, named as
  /// TensorBoard's; samples texts of it. A row is written when such a record of another step, or the summary, comes.
  void write(std::string_view line) override;
  void close() override;

 private:
  struct State;
  Path folder_;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
