#include "data/prefetcher.hpp"
#include "base/error.hpp"
#include "harness/temporary_folder.hpp"
#include "unit/store/made_dataset.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

using namespace lockstep;

namespace {

struct Prefetching : TemporaryFolder {
  DatasetManifest manifest = test::manifest_for(1009, 64);
  Prefetching() { test::write_split(path, manifest, DataSplit::train, test::made_split({200, 57, 144}, 1009)); }
  TokenStream tokens() const { return TokenStream(path, manifest, DataSplit::train); }
  static inline const DataLoaderSettings settings{.global_batch = 7, .micro_batch = 2, .seed = 3};
};

std::vector<std::int32_t> tokens_of(const StepBatch& step) {
  std::vector<std::int32_t> tokens;
  for (const Batch& batch : step.micro_batches) tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
  return tokens;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(prefetching, Prefetching)

BOOST_AUTO_TEST_CASE(batches_made_ahead_are_those_that_the_loader_makes_one_by_one) {
  const TokenStream stream = tokens();
  const WindowSource windows(stream, 8, Documents::joined, WindowTail::unused);
  const TrainingDataLoader loader(windows, settings);
  for (const std::int64_t ahead : {0, 1, 2, 5, 100}) {
    DataPosition position{2, loader.samples_per_epoch() - 3};
    Prefetcher prefetcher(loader, {.step = 4, .position = position, .end_step = 30, .ahead = ahead});
    for (std::int64_t step = 4; step < 30; ++step) {
      const StepBatch batch = prefetcher.take();
      BOOST_REQUIRE_EQUAL(batch.step, step);
      BOOST_REQUIRE(tokens_of(batch) == tokens_of(loader.make_step(step, position)));
      position = loader.next(position);
    }
  }
}

BOOST_AUTO_TEST_CASE(as_many_batches_are_made_ahead_as_the_setting_says_and_none_beyond_the_last_step) {
  const TokenStream stream = tokens();
  const WindowSource windows(stream, 8, Documents::joined, WindowTail::unused);
  const TrainingDataLoader loader(windows, settings);
  for (const std::int64_t ahead : {0, 1, 3}) {
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t begun = 0;
    Prefetcher prefetcher(loader, {.end_step = 6, .ahead = ahead}, [&](std::int64_t step) {
      const std::lock_guard lock(mutex);
      BOOST_REQUIRE_EQUAL(step, begun++);
      changed.notify_all();
    });
    for (std::int64_t taken = 0; taken <= 6; ++taken) {
      {
        std::unique_lock lock(mutex);
        const std::int64_t due = std::min<std::int64_t>(taken + ahead, 6);
        changed.wait(lock, [&] { return begun >= due; });
        BOOST_REQUIRE_EQUAL(begun, due);
        changed.wait_for(lock, std::chrono::milliseconds(5), [&] { return begun > due; });
        BOOST_REQUIRE_EQUAL(begun, due);
      }
      if (taken < 6) prefetcher.take();
    }
  }
}

BOOST_AUTO_TEST_CASE(a_batch_that_cannot_be_made_fails_where_it_is_taken_behind_those_before_it) {
  const TokenStream stream = tokens();
  const WindowSource windows(stream, 8, Documents::joined, WindowTail::unused);
  const TrainingDataLoader loader(windows, settings);
  for (const std::int64_t ahead : {0, 1, 4}) {
    Prefetcher prefetcher(loader, {.end_step = 9, .ahead = ahead}, [](std::int64_t step) {
      if (step == 3) fail(ExitCode::input, "no batch {}", step);
    });
    for (std::int64_t step = 0; step < 3; ++step) BOOST_REQUIRE_EQUAL(prefetcher.take().step, step);
    BOOST_CHECK_EXCEPTION(prefetcher.take(), Error, [](const Error& error) {
      return error.code() == ExitCode::input && std::string(error.what()) == "no batch 3";
    });
  }
}

BOOST_AUTO_TEST_CASE(the_end_waits_for_the_batch_that_is_being_made_and_for_no_other) {
  const TokenStream stream = tokens();
  const WindowSource windows(stream, 8, Documents::joined, WindowTail::unused);
  const TrainingDataLoader loader(windows, settings);
  std::atomic<int> begun{0}, ended{0};
  {
    const Prefetcher prefetcher(loader, {.end_step = 1000, .ahead = 500}, [&](std::int64_t) {
      ++begun;
      while (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    while (begun == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ended = 1;
  }
  const int at_the_end = begun;
  BOOST_TEST(at_the_end >= 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  BOOST_TEST(begun == at_the_end);
}

BOOST_AUTO_TEST_CASE(the_time_that_was_waited_is_that_of_the_batches_which_were_not_ready) {
  const TokenStream stream = tokens();
  const WindowSource windows(stream, 8, Documents::joined, WindowTail::unused);
  const TrainingDataLoader loader(windows, settings);
  Prefetcher prefetcher(loader, {.end_step = 3, .ahead = 1}, [](std::int64_t step) {
    if (step == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
  });
  prefetcher.take();
  const double before_s = prefetcher.waited_s();
  const auto start = std::chrono::steady_clock::now();
  prefetcher.take();
  const double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  BOOST_TEST(prefetcher.waited_s() - before_s <= took_s);
  BOOST_TEST(prefetcher.waited_s() >= before_s);
}

BOOST_AUTO_TEST_SUITE_END()
