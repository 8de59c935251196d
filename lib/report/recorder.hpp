// The records of a run, written beside it: each sink has a thread of its own, which takes lines from a bounded queue. A
// disk that is full, a reader that is gone or does not read costs records, which are counted, and never a step. Sinks:
// report/record_sink.hpp.
#pragma once

#include "report/log.hpp"
#include "report/record.hpp"
#include "report/record_sink.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class Recorder {
 public:
  struct Limits {
    std::size_t queue_bytes = std::size_t{8} << 20;  // that wait for one sink; what comes then is lost to it
    double patience_s = 5;                           // flush and close wait so long for a sink that takes nothing
  };
  /// `log`, which gets a warning where a sink fails or does not take records, outlives it. All members are Local and of
  /// one thread.
  explicit Recorder(Log& log);
  Recorder(Log& log, const Limits& limits);
  ~Recorder();  // as close(), with little patience: what destroys it unclosed is a failure that others wait to learn of
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// `name`: what warnings call it, "standard output".
  void add(const std::string& name, std::unique_ptr<RecordSink> sink);

  // Never throw, never wait. Where a sink begins to fail or to stall, and where it recovers, an event record
  // "records_lost" tells the other sinks.
  void write(const RunRecord& record);
  void write(const StepRecord& record);
  void write(const StatisticsRecord& record);
  void write(const EvalRecord& record);
  void write(const SampleRecord& record);
  void write(const CheckpointRecord& record);
  void write(const ProfileRecord& record);
  void write(const EventRecord& record);
  void write(const SummaryRecord& record);

  /// Waits until the sinks have taken all that was written; one that takes nothing for patience_s gets no more.
  void flush();
  /// Flushes and ends the sinks.
  void close();
  /// Records that sinks did not take so far, added up over sinks.
  std::int64_t lost() const;

 private:
  class Worker;
  void offer(const std::string& line);
  void tell_problems();
  void finish(double patience_s);

  Log& log_;
  Limits limits_;
  std::vector<std::shared_ptr<Worker>> workers_;
  std::int64_t lost_by_closed_ = 0;
};

}  // namespace lockstep
