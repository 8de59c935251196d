#include "report/recorder.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

using Line = std::shared_ptr<const std::string>;

constexpr double patience_of_failure_s = 1;

}  // namespace

/// One sink and its thread, which shares the ownership: where the sink blocks for ever, the thread outlives the
/// Recorder.
class Recorder::Worker : public std::enable_shared_from_this<Worker> {
 public:
  Worker(std::string name, std::unique_ptr<RecordSink> sink, std::size_t limit)
      : name_(std::move(name)), sink_(std::move(sink)), limit_(limit) {}

  void start() {
    thread_ = std::thread([self = shared_from_this()] { self->run(); });
  }

  const std::string& name() const { return name_; }

  void offer(const Line& line) {
    const std::lock_guard lock(mutex_);
    if (stalled_ && !given_up_ && idle()) {
      stalled_ = false;
      problems_.push_back(fmt::format("accepts records again; {} were lost", lost_));
    }
    if (stalled_ || given_up_) {
      ++lost_;
    } else if (!queue_.empty() && queued_bytes_ + line->size() > limit_) {
      stalled_ = true;
      ++lost_;
      problems_.push_back("accepts no records and the queue is full: records are lost until it accepts them again");
    } else {
      queue_.push_back(line);
      queued_bytes_ += line->size();
      work_.notify_one();
    }
  }

  /// Waits until all is taken, or nothing has been for `patience_s`: then the sink is given up. True if all is taken.
  bool drain(double patience_s) {
    std::unique_lock lock(mutex_);
    return wait(lock, patience_s, [&] { return idle(); });
  }

  /// Ends sink and thread, or leaves the thread to itself.
  void close(double patience_s) {
    std::unique_lock lock(mutex_);
    bool ended = wait(lock, patience_s, [&] { return idle(); });
    closing_ = true;
    work_.notify_one();
    if (ended) ended = wait(lock, patience_s, [&] { return closed_; });
    lock.unlock();
    if (ended)
      thread_.join();
    else
      thread_.detach();
  }

  std::vector<std::string> take_problems() {
    const std::lock_guard lock(mutex_);
    return std::exchange(problems_, {});
  }

  std::int64_t lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  bool idle() const { return queue_.empty() && !busy_; }

  template <class Condition>
  bool wait(std::unique_lock<std::mutex>& lock, double patience_s, const Condition& done) {
    while (!given_up_ && !done()) {
      const std::uint64_t before = progress_;
      if (progressed_.wait_for(lock, std::chrono::duration<double>(patience_s),
                               [&] { return done() || progress_ != before; }))
        continue;
      give_up(patience_s);
    }
    return !given_up_;
  }

  void give_up(double patience_s) {
    given_up_ = true;
    const std::size_t left = queue_.size() + (busy_ ? 1 : 0);
    lost_ += static_cast<std::int64_t>(left);
    queue_.clear();
    problems_.push_back(
        fmt::format("accepted nothing for {} s and gets no more; {} records were lost", patience_s, lost_));
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (work_.wait(lock, [&] { return closing_ || !queue_.empty(); }), !queue_.empty()) {
      const Line line = std::move(queue_.front());
      queue_.pop_front();
      queued_bytes_ -= line->size();
      busy_ = true;
      const std::string problem = problem_of(lock, [&] { sink_->write(*line); });
      if (!given_up_) note(problem);
      busy_ = false;
      ++progress_;
      progressed_.notify_all();
    }
    if (given_up_) return;
    const std::string problem = problem_of(lock, [&] { sink_->close(); });
    if (!problem.empty() && !failing_) problems_.push_back(fmt::format("{}; some may be lost", problem));
    closed_ = true;
    progressed_.notify_all();
  }

  /// Lets the sink work without the lock; what it throws.
  template <class Work>
  static std::string problem_of(std::unique_lock<std::mutex>& lock, const Work& work) {
    lock.unlock();
    std::string problem;
    try {
      work();
    } catch (const std::exception& error) {
      problem = error.what();
    }
    lock.lock();
    return problem;
  }

  /// Notes where lines begin to fail and where they are taken again.
  void note(const std::string& problem) {
    if (!problem.empty()) ++lost_;
    if (problem.empty() && failing_) problems_.push_back(fmt::format("accepts records again; {} were lost", lost_));
    if (!problem.empty() && !failing_)
      problems_.push_back(fmt::format("{}; records are lost until a write succeeds", problem));
    failing_ = !problem.empty();
  }

  const std::string name_;
  const std::unique_ptr<RecordSink> sink_;
  const std::size_t limit_;
  std::thread thread_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  std::condition_variable progressed_;
  std::deque<Line> queue_;
  std::size_t queued_bytes_ = 0;
  std::uint64_t progress_ = 0;  // lines that the sink was given
  std::int64_t lost_ = 0;
  std::vector<std::string> problems_;  // not yet told
  bool busy_ = false;
  bool failing_ = false;   // the last line was an error
  bool stalled_ = false;   // the queue was full, and has not been empty since
  bool given_up_ = false;  // for good
  bool closing_ = false;
  bool closed_ = false;
};

Recorder::Recorder(Log& log) : Recorder(log, Limits{}) {}
Recorder::Recorder(Log& log, const Limits& limits) : log_(log), limits_(limits) {}

Recorder::~Recorder() {
  try {
    finish(std::min(patience_of_failure_s, limits_.patience_s));
  } catch (...) {  // out of memory while telling: the failure that led here is the one to tell
  }
}

void Recorder::add(const std::string& name, std::unique_ptr<RecordSink> sink) {
  workers_.push_back(std::make_shared<Worker>(name, std::move(sink), limits_.queue_bytes));
  workers_.back()->start();
}

namespace {

std::string line_of(const Json& record) { return to_text(record) + "\n"; }

}  // namespace

void Recorder::write(const RunRecord& record) { offer(line_of(to_json(record))); }
void Recorder::write(const StepRecord& record) { offer(line_of(to_json(record))); }
void Recorder::write(const StatisticsRecord& record) { offer(line_of(to_json(record))); }
void Recorder::write(const EvalRecord& record) { offer(line_of(to_json(record))); }
void Recorder::write(const SampleRecord& record) { offer(line_of(to_json(record))); }
void Recorder::write(const CheckpointRecord& record) { offer(line_of(to_json(record))); }
void Recorder::write(const ProfileRecord& record) { offer(line_of(to_json(record))); }
void Recorder::write(const EventRecord& record) { offer(line_of(to_json(record))); }
void Recorder::write(const SummaryRecord& record) { offer(line_of(to_json(record))); }

void Recorder::offer(const std::string& line) {
  const auto shared = std::make_shared<const std::string>(line);
  for (const auto& worker : workers_) worker->offer(shared);
  tell_problems();
}

void Recorder::tell_problems() {
  for (const auto& worker : workers_) {
    for (const std::string& problem : worker->take_problems()) {
      const std::string message = fmt::format("records to {}: {}", worker->name(), problem);
      log_.warning("{}", message);
      const auto line = std::make_shared<const std::string>(
          line_of(to_json(EventRecord{.name = "records_lost", .message = message})));
      for (const auto& other : workers_) {
        if (other != worker) other->offer(line);
      }
    }
  }
}

void Recorder::flush() {
  for (const auto& worker : workers_) worker->drain(limits_.patience_s);
  tell_problems();
}

void Recorder::close() { finish(limits_.patience_s); }

void Recorder::finish(double patience_s) {
  for (const auto& worker : workers_) worker->drain(patience_s);
  tell_problems();
  for (const auto& worker : workers_) worker->close(patience_s);
  tell_problems();
  for (const auto& worker : workers_) lost_by_closed_ += worker->lost();
  workers_.clear();
}

std::int64_t Recorder::lost() const {
  std::int64_t lost = lost_by_closed_;
  for (const auto& worker : workers_) lost += worker->lost();
  return lost;
}

}  // namespace lockstep
