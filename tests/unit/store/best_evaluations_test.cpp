#include "store/best_evaluations.hpp"

#include "base/random.hpp"
#include "store/retention.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

BOOST_AUTO_TEST_SUITE(best_evaluations)

using namespace lockstep;

namespace {

/// Small whole numbers, so that values are often equal.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : stream_(seed, "draws") {}
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(stream_.uniform(next_++) * static_cast<double>(limit));
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

/// Steps of the values, the best first, of equal ones the earlier step: each compared with all others.
std::vector<std::int64_t> steps_by_rank(const std::map<std::int64_t, double>& values, bool higher) {
  const auto before = [&](const auto& a, const auto& b) {
    if (a.second != b.second) return higher ? a.second > b.second : a.second < b.second;
    return a.first < b.first;
  };
  std::vector<std::int64_t> steps(values.size());
  for (const auto& one : values) {
    const auto rank = std::ranges::count_if(values, [&](const auto& other) { return before(other, one); });
    steps[static_cast<std::size_t>(rank)] = one.first;
  }
  return steps;
}

}  // namespace

// Steps go up, as in a run, and some are evaluated twice, as by a run that goes on from an older checkpoint.
BOOST_AUTO_TEST_CASE(the_ten_best_of_random_sequences_are_those_that_brute_force_finds) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Draws draws(seed);
    const bool higher = draws.below(2) == 1;
    BestEvaluations best{.by = {"score", higher}, .ranked = {}};
    std::map<std::int64_t, double> values;
    for (std::int64_t step = 1, count = draws.below(40); count > 0; --count) {
      const auto value = static_cast<double>(draws.below(12));
      const std::vector<std::int64_t> before = steps_by_rank(values, higher);
      const bool better =
          before.empty() || (higher ? value > values.at(before.front()) : value < values.at(before.front()));
      BOOST_REQUIRE(is_better(best, value) == better);
      rank_evaluation(best, {step, value, value});
      values[step] = value;
      std::vector<std::int64_t> ranked;
      for (const BestEvaluation& one : best.ranked) ranked.push_back(one.step);
      std::vector<std::int64_t> wanted = steps_by_rank(values, higher);
      if (wanted.size() > 10) wanted.resize(10);
      BOOST_REQUIRE(ranked == wanted);
      Manifest manifest;
      manifest.documents = {{best_evaluations_document, document_of(best)}};
      const BestEvaluations read = best_evaluations_of(manifest);
      BOOST_REQUIRE(document_of(read) == document_of(best) && read.by == best.by);
      step += 1 + draws.below(3);
    }
  }
}

// After each save what may go goes: what stays is at every time the last K of all that were saved, and of those that
// were evaluated as they were saved the N best.
BOOST_AUTO_TEST_CASE(strictly_the_n_best_stay_beside_the_last_k_after_each_save_of_a_run) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Draws draws(seed);
    const Retention retention{.keep_last = 1 + draws.below(4), .keep_best = draws.below(5)};
    std::vector<Candidate> held;
    std::vector<std::int64_t> saved;
    std::map<std::int64_t, double> values;
    for (std::int64_t step = 1; step <= 40; ++step) {
      Candidate candidate{.entry = {{}, step}};
      if (draws.below(3) > 0) {
        values[step] = static_cast<double>(draws.below(9));
        candidate.metric = values[step];
      }
      held.push_back(candidate);
      saved.push_back(step);
      std::set<std::int64_t> gone;
      for (const CheckpointEntry& entry : prunable(held, retention)) gone.insert(entry.step);
      std::erase_if(held, [&](const Candidate& one) { return gone.contains(one.entry.step); });
      std::set<std::int64_t> wanted(saved.end() - std::min(std::ssize(saved), retention.keep_last), saved.end());
      const std::vector<std::int64_t> ranked = steps_by_rank(values, false);
      wanted.insert(ranked.begin(), ranked.begin() + std::min(std::ssize(ranked), retention.keep_best));
      std::set<std::int64_t> stayed;
      for (const Candidate& one : held) stayed.insert(one.entry.step);
      BOOST_REQUIRE(stayed == wanted);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
