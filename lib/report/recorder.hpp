// Writes the records of a run in the background: each sink has its own thread, which takes lines from a bounded queue.
// A full disk or a reader that does not read loses records, which are counted, but never delays a step. Sinks:
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
    std::size_t queue_bytes = std::size_t{8} << 20;  // limit of a sink's queue; further records are lost for it
    double patience_s = 5;                           // flush and close wait this long for a sink that makes no progress
  };
  /// `log` must outlive it; it gets a warning when a sink fails or does not accept records. All members are Local and
  /// belong to one thread.
  explicit Recorder(Log& log);
  Recorder(Log& log, const Limits& limits);
  // Closes with a short patience: an unclosed Recorder is destroyed after a failure, and others wait to learn of it.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// `name`: the sink's name in warnings, such as "standard output".
  void add(const std::string& name, std::unique_ptr<RecordSink> sink);

  // Never throw and never wait. When a sink begins to fail or to stall, or recovers, the other sinks get an event
  // record "records_lost".
  void write(const RunRecord& record);
  void write(const StepRecord& record);
  void write(const StatisticsRecord& record);
  void write(const EvalRecord& record);
  void write(const SampleRecord& record);
  void write(const CheckpointRecord& record);
  void write(const ProfileRecord& record);
  void write(const EventRecord& record);
  void write(const SummaryRecord& record);

  /// Waits until the sinks have written all records. A sink without progress for patience_s gets no more records.
  void flush();
  /// Flushes and closes the sinks.
  void close();
  /// Number of records lost so far, summed over sinks.
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
