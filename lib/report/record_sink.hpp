// Where records go: standard output, the run's records.jsonl, TensorBoard. Only the rank that owns the records has
// sinks; all Local.
#pragma once

#include "base/files.hpp"
#include "base/json_fwd.hpp"
#include "report/record.hpp"

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// Takes a record as to_json() makes it. Throws Error(storage) if it cannot be kept.
  virtual void write(const Json& record) = 0;
  /// No record follows. Throws Error(storage) if what was written may be lost.
  virtual void close() = 0;
};

/// JSON lines on a file descriptor, flushed line by line. If the reader goes away (closed pipe) the rest is dropped
/// quietly; a full disk throws. The process ignores SIGPIPE (app sees to it).
std::unique_ptr<RecordSink> line_sink(int fd, const std::string& name);

/// JSON lines appended to a file. A last line that a killed run left half written is removed first.
std::unique_ptr<RecordSink> file_sink(const Path& path);

/// A TensorBoard event file in `folder`, made if need be: numbers of step and eval records as scalars "step/loss",
/// samples as text.
std::unique_ptr<RecordSink> tensorboard_sink(const Path& folder);

/// All sinks of a run, written to in turn.
class Recorder {
 public:
  void add(std::unique_ptr<RecordSink> sink) { sinks_.push_back(std::move(sink)); }
  // Throw what a sink throws, after all sinks had their turn.
  void write(const RunRecord& record);
  void write(const StepRecord& record);
  void write(const EvalRecord& record);
  void write(const SampleRecord& record);
  void write(const CheckpointRecord& record);
  void write(const ProfileRecord& record);
  void write(const EventRecord& record);
  void write(const SummaryRecord& record);
  void close();

 private:
  void write_json(const Json& record);
  std::vector<std::unique_ptr<RecordSink>> sinks_;
};

}  // namespace lockstep
