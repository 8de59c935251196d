// Every schedule for all p ≤ 16, m ≤ 64, v ≤ 4 against what the papers state, by two simulators of a few lines: one
// that keeps time, one whose sends are unbuffered.
#include "program/pipeline_schedule.hpp"

#include "base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>

BOOST_AUTO_TEST_SUITE(pipeline_schedule)

using namespace lockstep;

namespace {

using Kind = StagePass::Kind;
using Lists = std::vector<std::vector<StagePass>>;  // by rank

Lists lists_of(const Pipeline& pipeline) {
  Lists lists;
  for (int rank = 0; rank < pipeline.ranks; ++rank) lists.push_back(passes_of(pipeline, rank));
  return lists;
}

std::string words(const Pipeline& pipeline) {
  return fmt::format("{} p {} v {} m {}", name_of(pipeline.schedule), pipeline.ranks, pipeline.chunks,
                     pipeline.micro_batches);
}

/// "F0.1" is forward of stage 0 on micro-batch 1; B is backward or its input half, W the weight half.
std::string text(const Pipeline& pipeline, int rank) {
  std::string text;
  for (const StagePass& pass : passes_of(pipeline, rank))
    text += fmt::format("{}{}{}.{}", text.empty() ? "" : " ",
                        pass.kind == Kind::forward           ? 'F'
                        : pass.kind == Kind::backward_weight ? 'W'
                                                             : 'B',
                        pass.stage, pass.micro_batch);
  return text;
}

bool goes_back(Kind kind) { return kind == Kind::backward || kind == Kind::backward_input; }

/// What has run, and thereby what can run next.
class Progress {
 public:
  explicit Progress(const Pipeline& pipeline)
      : micro_batches_(pipeline.micro_batches),
        last_stage_(stage_count(pipeline) - 1),
        forward_(static_cast<std::size_t>(stage_count(pipeline) * pipeline.micro_batches), -1),
        backward_(forward_) {}
  /// When the pass can start at the earliest; −1 if something that it needs has not run.
  int ready(const StagePass& pass) const {
    if (pass.kind == Kind::forward) return pass.stage == 0 ? 0 : forward_[index(pass.stage - 1, pass.micro_batch)];
    if (pass.kind == Kind::backward_weight) return backward_[index(pass.stage, pass.micro_batch)];
    const int own = forward_[index(pass.stage, pass.micro_batch)];
    if (own < 0 || pass.stage == last_stage_) return own;
    return backward_[index(pass.stage + 1, pass.micro_batch)];
  }
  void end(const StagePass& pass, int time) {
    if (pass.kind == Kind::forward) forward_[index(pass.stage, pass.micro_batch)] = time;
    if (goes_back(pass.kind)) backward_[index(pass.stage, pass.micro_batch)] = time;
  }

 private:
  std::size_t index(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage * micro_batches_ + micro_batch);
  }
  int micro_batches_;
  int last_stage_;
  std::vector<int> forward_;  // by stage and micro-batch: when it ended
  std::vector<int> backward_;
};

/// Calls `run` for the next pass of a rank until it says no for all; whether all lists came to their end.
bool run_all(const Lists& lists, const std::function<bool(int rank, const StagePass& pass)>& run) {
  std::vector<std::size_t> next(lists.size());
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t rank = 0; rank < lists.size(); ++rank)
      for (; next[rank] < lists[rank].size() && run(static_cast<int>(rank), lists[rank][next[rank]]); ++next[rank])
        moved = true;
  }
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    if (next[rank] < lists[rank].size()) return false;
  return true;
}

struct Times {
  int forward = 1;
  int backward = 2;  // or its input half
  int weight = 0;
};

struct Timeline {
  int bubble = 0;       // makespan − busy time of a rank, all having the same
  int idle_inside = 0;  // of the rank that idles most between its first and its last pass
};

/// Each pass as soon as its rank and its input are there, transfers free.
std::optional<Timeline> timeline_of(const Pipeline& pipeline, const Lists& lists, const Times& times) {
  Progress progress(pipeline);
  std::vector<int> now(lists.size(), -1);
  std::vector<int> idle(lists.size());
  const bool ended = run_all(lists, [&](int rank, const StagePass& pass) {
    const int ready = progress.ready(pass);
    if (ready < 0) return false;
    int& time = now[static_cast<std::size_t>(rank)];
    if (time >= 0) idle[static_cast<std::size_t>(rank)] += std::max(0, ready - time);
    time = std::max(time, ready) + (pass.kind == Kind::forward           ? times.forward
                                    : pass.kind == Kind::backward_weight ? times.weight
                                                                         : times.backward);
    progress.end(pass, time);
    return true;
  });
  if (!ended) return std::nullopt;
  const int busy = pipeline.micro_batches * pipeline.chunks * (times.forward + times.backward + times.weight);
  return Timeline{std::ranges::max(now) - busy, std::ranges::max(idle)};
}

enum class SendsWait : std::uint8_t { per_direction_and_receiver, per_direction };

/// Runs the lists with sends that end when they are received, and wait in front of each other as `sends_wait` says. A
/// pass posts its receive when its rank has come to it, in the order of the list, and takes nothing else.
bool ends_with_unbuffered_sends(const Pipeline& pipeline, const Lists& lists, SendsWait sends_wait) {
  struct Send {
    int receiver = 0;
    StagePass pass;  // whose output it is
  };
  const int ranks = pipeline.ranks;
  std::vector<std::deque<Send>> queues(static_cast<std::size_t>(2 * ranks * ranks));
  const auto queue = [&](int sender, int receiver, bool back) -> std::deque<Send>& {
    const int target = sends_wait == SendsWait::per_direction ? 0 : receiver;
    return queues[static_cast<std::size_t>((sender * ranks + target) * 2 + (back ? 1 : 0))];
  };
  const auto peer = [&](int rank, const StagePass& pass,
                        int distance) {  // the rank of a neighbouring stage, if another
    const int stage = pass.stage + distance;
    if (pass.kind == Kind::backward_weight || stage < 0 || stage >= stage_count(pipeline)) return -1;
    const int other = rank_of(pipeline, stage);
    return other == rank ? -1 : other;
  };
  Progress progress(pipeline);
  return run_all(lists, [&](int rank, const StagePass& pass) {
    const bool back = pass.kind != Kind::forward;
    const int ahead = back ? -1 : 1;
    if (const int sender = peer(rank, pass, -ahead); sender >= 0) {
      std::deque<Send>& sends = queue(sender, rank, back);
      if (sends.empty() || sends.front().receiver != rank || sends.front().pass.stage != pass.stage - ahead ||
          sends.front().pass.micro_batch != pass.micro_batch)
        return false;
      sends.pop_front();
    }
    if (progress.ready(pass) < 0) return false;
    progress.end(pass, 0);
    if (const int receiver = peer(rank, pass, ahead); receiver >= 0)
      queue(rank, receiver, back).push_back({receiver, pass});
    return true;
  });
}

/// Each stage × micro-batch is on its rank forward once, then backward once or by its input and then its weight half.
bool is_complete(const Pipeline& pipeline, const Lists& lists) {
  std::vector<int> state(static_cast<std::size_t>(stage_count(pipeline) * pipeline.micro_batches));
  const bool split = splits_backward(pipeline.schedule);
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    for (const StagePass& pass : lists[rank]) {
      if (rank_of(pipeline, pass.stage) != static_cast<int>(rank)) return false;
      const std::array<int, 4> states = split ? std::array{0, -1, 1, 2} : std::array{0, 1, -1, -1};
      int& now = state[static_cast<std::size_t>(pass.stage * pipeline.micro_batches + pass.micro_batch)];
      if (now++ != states[static_cast<std::size_t>(pass.kind)]) return false;
    }
  return std::ranges::all_of(state, [&](int end) { return end == (split ? 3 : 2); });
}

/// The most micro-batches of a chunk that a rank keeps something of at a time.
int peak_of(const std::vector<StagePass>& passes) {
  int stashes = 0;
  int peak = 0;
  for (const StagePass& pass : passes) {
    if (pass.kind == Kind::forward) peak = std::max(peak, ++stashes);
    if (pass.kind == Kind::backward || pass.kind == Kind::backward_weight) --stashes;
  }
  return peak;
}

/// Calls `look` for all p ≤ 16, m ≤ 64 and v ≤ 4 that a schedule takes; there must be `expected` of them.
template <class Look>
void for_all(PipelineSchedule schedule, int expected, const Look& look) {
  int seen = 0;
  for (int p = 1; p <= 16; ++p)
    for (int m = 1; m <= 64; ++m)
      for (int v = 1; v <= 4; ++v) {
        const Pipeline pipeline{schedule, p, v, m};
        try {
          check(pipeline);
        } catch (const Error&) {
          continue;
        }
        const Lists lists = lists_of(pipeline);
        if (!is_complete(pipeline, lists)) BOOST_ERROR(words(pipeline) << " is not complete");
        if (!ends_with_unbuffered_sends(pipeline, lists, SendsWait::per_direction_and_receiver))
          BOOST_ERROR(words(pipeline) << " deadlocks");
        look(pipeline, lists);
        ++seen;
      }
  BOOST_TEST(seen == expected);
}

void expect_peak(const Pipeline& pipeline, const Lists& lists, int rank, int expected) {
  const int peak = peak_of(lists[static_cast<std::size_t>(rank)]);
  if (peak > expected || (rank == 0 && peak != expected))
    BOOST_ERROR(words(pipeline) << ": rank " << rank << " keeps " << peak << ", not " << expected);
}

void expect_bubble(const Pipeline& pipeline, const Lists& lists, const Times& times, int expected) {
  const auto timeline = timeline_of(pipeline, lists, times);
  if (!timeline || timeline->bubble != expected)
    BOOST_ERROR(words(pipeline) << ": the bubble is " << (timeline ? timeline->bubble : -1) << ", not " << expected);
}

constexpr Times unequal{3, 5, 0};
constexpr Times equal_halves{1, 1, 1};

int rounds_of(const Pipeline& pipeline) { return std::max(1, pipeline.micro_batches / pipeline.ranks); }

}  // namespace

BOOST_AUTO_TEST_CASE(stages_lie_in_a_loop_or_in_a_v) {
  const auto ranks_of_stages = [](const Pipeline& pipeline) {
    std::vector<int> ranks;
    for (int stage = 0; stage < stage_count(pipeline); ++stage) ranks.push_back(rank_of(pipeline, stage));
    return ranks;
  };
  BOOST_TEST((ranks_of_stages({PipelineSchedule::interleaved_1f1b, 3, 2, 3}) == std::vector{0, 1, 2, 0, 1, 2}));
  BOOST_TEST((ranks_of_stages({PipelineSchedule::zbv, 3, 2, 3}) == std::vector{0, 1, 2, 2, 1, 0}));
  for (const PipelineSchedule schedule : {PipelineSchedule::interleaved_zero_bubble, PipelineSchedule::zbv}) {
    const Pipeline pipeline{schedule, 5, 2, 5};
    for (int rank = 0; rank < 5; ++rank)
      for (int chunk = 0; chunk < 2; ++chunk) BOOST_TEST(rank_of(pipeline, stage_of(pipeline, rank, chunk)) == rank);
  }
}

BOOST_AUTO_TEST_CASE(small_schedules_are_as_drawn) {
  BOOST_TEST(text({PipelineSchedule::gpipe, 2, 1, 2}, 1) == "F1.0 F1.1 B1.0 B1.1");
  BOOST_TEST(text({PipelineSchedule::one_f_one_b, 3, 1, 4}, 0) == "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3");
  BOOST_TEST(text({PipelineSchedule::one_f_one_b, 3, 1, 4}, 2) == "F2.0 B2.0 F2.1 B2.1 F2.2 B2.2 F2.3 B2.3");
  BOOST_TEST(text({PipelineSchedule::one_f_one_b, 1, 1, 2}, 0) == "F0.0 B0.0 F0.1 B0.1");
  BOOST_TEST(text({PipelineSchedule::interleaved_1f1b, 2, 2, 4}, 0) ==
             "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3");
  BOOST_TEST(text({PipelineSchedule::interleaved_1f1b, 2, 2, 4}, 1) ==
             "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3");
  BOOST_TEST(text({PipelineSchedule::interleaved_zero_bubble, 2, 1, 3}, 0) ==
             "F0.0 F0.1 B0.0 W0.0 F0.2 B0.1 W0.1 B0.2 W0.2");
  BOOST_TEST(text({PipelineSchedule::interleaved_zero_bubble, 2, 1, 3}, 1) ==
             "F1.0 B1.0 F1.1 B1.1 W1.0 F1.2 B1.2 W1.1 W1.2");
  BOOST_TEST(text({PipelineSchedule::zbv, 2, 2, 3}, 0) ==
             "F0.0 F0.1 F0.2 F3.0 B3.0 W3.0 F3.1 B3.1 W3.1 B0.0 W0.0 F3.2 B3.2 W3.2 B0.1 W0.1 B0.2 W0.2");
  BOOST_TEST(text({PipelineSchedule::zbv, 2, 2, 3}, 1) ==
             "F1.0 F2.0 F1.1 F2.1 B2.0 W2.0 F1.2 B1.0 W1.0 F2.2 B2.1 W2.1 B1.1 B2.2 B1.2 W1.1 W2.2 W1.2");
}

BOOST_AUTO_TEST_CASE(gpipe_keeps_every_micro_batch_and_idles_while_the_pipeline_fills_and_drains) {
  for_all(PipelineSchedule::gpipe, 16 * 64, [](const Pipeline& pipeline, const Lists& lists) {
    expect_bubble(pipeline, lists, unequal, (pipeline.ranks - 1) * (3 + 5));
    for (int rank = 0; rank < pipeline.ranks; ++rank) expect_peak(pipeline, lists, rank, pipeline.micro_batches);
  });
}

BOOST_AUTO_TEST_CASE(one_f_one_b_idles_as_gpipe_and_keeps_no_more_than_the_ranks_behind) {
  for_all(PipelineSchedule::one_f_one_b, 16 * 64, [](const Pipeline& pipeline, const Lists& lists) {
    expect_bubble(pipeline, lists, unequal, (pipeline.ranks - 1) * (3 + 5));
    for (int rank = 0; rank < pipeline.ranks; ++rank)
      expect_peak(pipeline, lists, rank, std::min(pipeline.micro_batches, pipeline.ranks - rank));
  });
}

BOOST_AUTO_TEST_CASE(interleaved_1f1b_idles_as_1f1b_but_in_units_of_a_chunk) {
  for_all(PipelineSchedule::interleaved_1f1b, 2280, [](const Pipeline& pipeline, const Lists& lists) {
    const auto& [schedule, p, v, m] = pipeline;
    if (m >= p) expect_bubble(pipeline, lists, unequal, (p - 1) * (3 + 5));
    for (int rank = 0; rank < p; ++rank)
      expect_peak(pipeline, lists, rank, std::min(m * v, (v - 1) * (m / rounds_of(pipeline)) + 2 * (p - rank) - 1));
  });
}

BOOST_AUTO_TEST_CASE(interleaved_zero_bubble_fills_two_thirds_of_it_with_weight_passes_in_the_memory_of_1f1b) {
  for_all(PipelineSchedule::interleaved_zero_bubble, 2280, [](const Pipeline& pipeline, const Lists& lists) {
    const auto& [schedule, p, v, m] = pipeline;
    if (m >= p) expect_bubble(pipeline, lists, equal_halves, p - 1);
    for (int rank = 0; rank < p; ++rank)
      expect_peak(pipeline, lists, rank, std::min(m * v, (v - 1) * (m / rounds_of(pipeline)) + p));
  });
}

BOOST_AUTO_TEST_CASE(zbv_never_idles_between_the_first_and_the_last_pass_of_a_rank) {
  for_all(PipelineSchedule::zbv, 16 * 64, [](const Pipeline& pipeline, const Lists& lists) {
    const int p = pipeline.ranks;
    for (int rank = 0; rank < p; ++rank)
      if (const int peak = peak_of(lists[static_cast<std::size_t>(rank)]); peak > 2 * p)
        BOOST_ERROR(words(pipeline) << ": rank " << rank << " keeps " << peak << " of at most " << 2 * p);
    const auto timeline = timeline_of(pipeline, lists, equal_halves);
    if (!timeline || (pipeline.micro_batches >= 2 * p - 1 && (timeline->bubble != p - 1 || timeline->idle_inside != 0)))
      BOOST_ERROR(words(pipeline) << " idles");
  });
}

BOOST_AUTO_TEST_CASE(what_comes_down_a_v_must_not_wait_for_what_goes_up) {
  const Pipeline pipeline{PipelineSchedule::zbv, 4, 2, 8};
  BOOST_TEST(ends_with_unbuffered_sends(pipeline, lists_of(pipeline), SendsWait::per_direction_and_receiver));
  BOOST_TEST(!ends_with_unbuffered_sends(pipeline, lists_of(pipeline), SendsWait::per_direction));
}

BOOST_AUTO_TEST_CASE(the_simulators_see_a_damaged_schedule) {
  const Pipeline pipeline{PipelineSchedule::one_f_one_b, 3, 1, 4};
  const auto both = [&](const Lists& lists) {
    return std::pair(timeline_of(pipeline, lists, unequal).has_value(),
                     ends_with_unbuffered_sends(pipeline, lists, SendsWait::per_direction_and_receiver));
  };
  Lists swapped = lists_of(pipeline);  // backward of the first micro-batch before the third is on its way
  std::swap(swapped[0][2], swapped[0][3]);
  BOOST_TEST((both(swapped) == std::pair(true, true)));
  BOOST_TEST(timeline_of(pipeline, swapped, unequal)->bubble > 2 * 8);
  swapped = lists_of(pipeline);  // the second micro-batch is sent first: received in another order
  std::swap(swapped[0][0], swapped[0][1]);
  BOOST_TEST((both(swapped) == std::pair(true, false)));
  swapped = lists_of(pipeline);  // backward before its forward
  std::swap(swapped[2][0], swapped[2][1]);
  BOOST_TEST((both(swapped) == std::pair(false, false)));
  BOOST_TEST(!is_complete(pipeline, swapped));
  Lists dropped = lists_of(pipeline);
  dropped[1].pop_back();
  BOOST_TEST(!is_complete(pipeline, dropped));
}

BOOST_AUTO_TEST_CASE(what_a_schedule_cannot_do_is_refused_with_the_arithmetic) {
  const auto refused = [](const Pipeline& pipeline, const std::string& message, const std::string& hint) {
    BOOST_CHECK_EXCEPTION(check(pipeline), Error, [&](const Error& error) {
      BOOST_TEST(error.what() == message);
      BOOST_TEST(error.hint() == hint);
      return error.code() == ExitCode::usage;
    });
  };
  refused({PipelineSchedule::interleaved_1f1b, 4, 2, 9},
          "schedule interleaved_1f1b cannot run 9 micro-batches on 4 pipeline ranks: 9 div 4 = 2 rounds, and 9 mod 2 = "
          "1, not 0",
          "the next number of micro-batches that fits is 10");
  refused({PipelineSchedule::interleaved_zero_bubble, 4, 1, 17},
          "schedule interleaved_zero_bubble cannot run 17 micro-batches on 4 pipeline ranks: 17 div 4 = 4 rounds, and "
          "17 mod 4 = 1, not 0",
          "the next number of micro-batches that fits is 20");
  const std::string others = "interleaved_1f1b and interleaved_zero_bubble take any number of stages per rank";
  refused({PipelineSchedule::gpipe, 2, 2, 4}, "schedule gpipe has 1 stage per rank, not 2", others);
  refused({PipelineSchedule::one_f_one_b, 2, 3, 4}, "schedule 1f1b has 1 stage per rank, not 3", others);
  refused({PipelineSchedule::zbv, 2, 1, 4}, "schedule zbv has 2 stages per rank, not 1", others);
  refused({PipelineSchedule::gpipe, 2, 1, 0},
          "a pipeline needs at least one rank, one stage per rank and one micro-batch, not 2, 1 and 0", "");
}

BOOST_AUTO_TEST_CASE(schedules_have_the_names_of_options) {
  std::vector<std::string_view> names;
  for (const PipelineSchedule schedule : pipeline_schedules) names.push_back(name_of(schedule));
  BOOST_TEST(
      (names == std::vector<std::string_view>{"gpipe", "1f1b", "interleaved_1f1b", "interleaved_zero_bubble", "zbv"}));
}

BOOST_AUTO_TEST_SUITE_END()
