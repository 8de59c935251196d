// Makes the batches of the next steps while a step runs. Their content: data/data_loader.hpp.
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
    std::int64_t step = 0;       // the first step whose batch is taken
    DataPosition position = {};  // of the first sample of that step
    std::int64_t end_step = 0;   // one after the last step
    // most finished batches that wait; 0: without a thread, take() makes each batch
    std::int64_t ahead = 0;
  };
  /// Before a batch is made, calls `begins` with the number of its step on the thread that makes it. An exception of
  /// `begins` is a failure of this batch. The loader and the objects used by `begins` must outlive the prefetcher.
  /// Local.
  Prefetcher(const TrainingDataLoader& loader, const Settings& settings,
             std::function<void(std::int64_t step)> begins = {});
  /// Waits for the batch in progress, and drops batches that were not taken.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Returns the batch of the next step, waiting until it is made; steps come in order. Throws the exception that
  /// making this batch threw; no further batch is made then. Local.
  StepBatch take();
  double waited_s() const;  // in all calls of take() together

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
