#include "report/recorder.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "harness/temporary_folder.hpp"

#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

using namespace lockstep;

namespace {

struct Places : TemporaryFolder {
  Path records = path / "records.jsonl";
  Path log_file = path / "log";
  FileDescriptor log_fd = open_file(log_file, O_WRONLY | O_CREAT | O_APPEND);
  Log log{{.program = "train", .color = When::never, .fd = log_fd.get()}};
  Places() { ::signal(SIGPIPE, SIG_IGN); }

  std::string logged() const { return read_file(log_file); }
  /// The names of the event records in records.jsonl.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const std::string& line : split(read_file(records), '\n')) {
      if (!line.empty()) names.push_back(parse_json(line, "records").at("name").get<std::string>());
    }
    return names;
  }
};

EventRecord event(const std::string& name) { return {.name = name}; }

/// Takes lines when it is let: one for each permit.
class Gate {
 public:
  void open(int lines) {
    const std::lock_guard lock(mutex_);
    permits_ += lines;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return permits_ > 0; });
    --permits_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int permits_ = 0;
};

class GatedSink : public RecordSink {
 public:
  GatedSink(std::shared_ptr<Gate> gate, std::shared_ptr<std::vector<std::string>> lines)
      : gate_(std::move(gate)), lines_(std::move(lines)) {}
  void write(std::string_view line) override {
    gate_->pass();
    lines_->emplace_back(line);
  }
  void close() override {}

 private:
  std::shared_ptr<Gate> gate_;
  std::shared_ptr<std::vector<std::string>> lines_;
};

/// Fails while `full` says so.
class FullSink : public RecordSink {
 public:
  explicit FullSink(const bool& full) : full_(full) {}
  void write(std::string_view) override {
    if (full_) fail(ExitCode::storage, "cannot write it: no space left on device");
  }
  void close() override {}

 private:
  const bool& full_;
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(recorder, Places)

BOOST_AUTO_TEST_CASE(all_that_was_written_is_there_after_a_flush_in_its_order) {
  Recorder recorder(log);
  recorder.add("records.jsonl", file_sink(records));
  std::vector<std::string> expected;
  for (int i = 0; i < 2000; ++i) {
    expected.push_back(std::to_string(i));
    recorder.write(event(expected.back()));
  }
  recorder.flush();
  BOOST_TEST(names() == expected, boost::test_tools::per_element());
  recorder.write(event("last"));
  recorder.close();
  BOOST_TEST(names().back() == "last");
  BOOST_TEST(recorder.lost() == 0);
  BOOST_TEST(logged().empty());
}

BOOST_AUTO_TEST_CASE(a_sink_that_fails_costs_its_own_records_is_told_of_once_and_counted) {
  const FileDescriptor full = open_file("/dev/full", O_WRONLY);
  std::array<int, 2> ends{};
  BOOST_REQUIRE(::pipe(ends.data()) == 0);
  ::close(ends[0]);  // the reader is gone
  const FileDescriptor gone(ends[1]);
  Recorder recorder(log);
  recorder.add("records.jsonl", file_sink(records));
  recorder.add("a full disk", line_sink(full.get(), "it"));
  recorder.add("standard output", line_sink(gone.get(), "it"));
  recorder.write(event("one"));
  recorder.flush();
  recorder.write(event("two"));
  recorder.flush();
  recorder.close();
  const std::vector<std::string> expected{"one", "records_lost", "records_lost", "two"};
  BOOST_TEST(names() == expected, boost::test_tools::per_element());
  BOOST_TEST(count_of(logged(), "records to a full disk: cannot write it: No space left on device;") == 1U);
  BOOST_TEST(count_of(logged(), "records to standard output: cannot write it: Broken pipe;") == 1U);
  BOOST_TEST(recorder.lost() == 6);  // one, two, and each the event that tells of the other
}

BOOST_AUTO_TEST_CASE(a_sink_that_recovers_gets_records_again) {
  bool full = true;
  Recorder recorder(log);
  recorder.add("a disk", std::make_unique<FullSink>(full));
  recorder.write(event("one"));
  recorder.write(event("two"));
  recorder.flush();
  full = false;
  recorder.write(event("three"));
  recorder.close();
  BOOST_TEST(recorder.lost() == 2);
  BOOST_TEST(count_of(logged(), "records are lost until a write succeeds") == 1U);
  BOOST_TEST(count_of(logged(), "accepts records again; 2 were lost") == 1U);
}

BOOST_AUTO_TEST_CASE(a_sink_that_stalls_never_holds_up_the_writer_and_goes_on_once_its_queue_is_empty) {
  const auto gate = std::make_shared<Gate>();
  const auto lines = std::make_shared<std::vector<std::string>>();
  Recorder recorder(log, {.queue_bytes = 2000, .patience_s = 60});
  recorder.add("a pager", std::make_unique<GatedSink>(gate, lines));
  for (int i = 0; i < 1000; ++i) recorder.write(event(std::to_string(i)));  // returns at once
  const std::int64_t lost = recorder.lost();
  BOOST_TEST(lost > 900);
  BOOST_TEST(count_of(logged(), "records to a pager: accepts no records and the queue is full") == 1U);
  gate->open(1000);
  recorder.flush();
  BOOST_TEST(static_cast<std::int64_t>(lines->size()) + lost == 1000);
  recorder.write(event("again"));
  recorder.close();
  BOOST_TEST(lines->back().find("\"again\"") != std::string::npos);
  BOOST_TEST(recorder.lost() == lost);
  BOOST_TEST(count_of(logged(), fmt::format("accepts records again; {} were lost", lost)) == 1U);
}

BOOST_AUTO_TEST_CASE(a_sink_that_takes_nothing_at_the_end_is_given_up_and_what_it_held_is_counted) {
  const auto gate = std::make_shared<Gate>();
  const auto lines = std::make_shared<std::vector<std::string>>();
  Recorder recorder(log, {.queue_bytes = 1 << 20, .patience_s = 2});
  recorder.add("a pager", std::make_unique<GatedSink>(gate, lines));
  recorder.add("records.jsonl", file_sink(records));
  for (int i = 0; i < 7; ++i) recorder.write(event(std::to_string(i)));
  while (count_of(read_file(records), "\n") < 7) std::this_thread::yield();  // the other sink has all of them
  recorder.flush();
  BOOST_TEST(recorder.lost() == 7);
  recorder.write(event("summary"));
  recorder.close();
  BOOST_TEST(recorder.lost() == 8);
  BOOST_TEST(count_of(logged(), "records to a pager: accepted nothing for 2 s and gets no more; 7 records") == 1U);
  BOOST_TEST(names().size() == 9U);
  gate->open(100);  // its thread is on its own now, and ends
}

BOOST_AUTO_TEST_SUITE_END()
