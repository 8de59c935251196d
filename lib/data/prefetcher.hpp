// The batches of the next steps, made while a step runs. What a batch is made of: data/data_loader.hpp.
#pragma once

#include "data/batch.hpp"
#include "data/data_loader.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace lockstep {

class Prefetcher {
 public:
  struct Settings {
    std::int64_t step = 0;       // the first that is taken
    DataPosition position = {};  // of its first sample
    std::int64_t end_step = 0;   // behind the last
    std::int64_t ahead = 0;      // batches that wait to be taken, at most; 0: there is no thread, each is made as it is
                                 // taken
  };
  /// Calls `begins` with the number of a step before its batch is made, on the thread that makes it; what it throws is
  /// a failure of this batch. The loader, and what `begins` uses, outlive the prefetcher. Local.
  Prefetcher(const TrainingDataLoader& loader, const Settings& settings,
             std::function<void(std::int64_t step)> begins = {});
  /// Waits for the batch that is being made, and drops those that nobody took.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The batch of the next step, once it is made; steps come in order. Throws what the making of this batch threw; from
  /// then on no other is made. Local.
  StepBatch take();
  double waited_s() const;  // in take(), all of them together

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
