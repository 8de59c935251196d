#include "data/mixture.hpp"
#include "base/error.hpp"
#include "data/data_loader.hpp"
#include "data/sample_order.hpp"
#include "data/sample_source.hpp"
#include "harness/temporary_folder.hpp"
#include "unit/store/made_dataset.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(mixture)

std::vector<std::string> names_for(const std::vector<double>& weights) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < weights.size(); ++i) names.push_back(fmt::format("d{}", i));
  return names;
}

Proportions resolved(const std::vector<double>& weights) { return resolve_weights(weights, names_for(weights)); }

BOOST_AUTO_TEST_CASE(weights_of_few_digits_are_exact_fractions) {
  BOOST_TEST((resolved({0.7, 0.3}) == Proportions{{7, 3}, 10}));
  BOOST_TEST((resolved({3, 1}) == Proportions{{3, 1}, 4}));
  BOOST_TEST((resolved({0.5, 0.5}) == Proportions{{1, 1}, 2}));
  BOOST_TEST((resolved({2.5}) == Proportions{{1}, 1}));
  BOOST_TEST((resolved({0.001, 0.125, 10}) == Proportions{{1, 125, 10000}, 10126}));
  BOOST_TEST((resolved({16777215, 1}) == Proportions{{16777215, 1}, 1 << 24}));
  BOOST_TEST((resolved({1e-9, 3e-9}) == Proportions{{1, 3}, 4}));
}

BOOST_AUTO_TEST_CASE(other_weights_are_the_nearest_fractions_of_two_to_the_24) {
  const RandomStream random(7, "weights");
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    std::vector<double> weights;
    const std::uint64_t count = 1 + random.below(100 * trial, 30);
    for (std::uint64_t i = 1; i <= count; ++i) weights.push_back(0.001 + random.uniform(100 * trial + i));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const Proportions proportions = resolved(weights);
    BOOST_REQUIRE_LE(proportions.whole, 1 << 24);
    BOOST_REQUIRE_EQUAL(std::accumulate(proportions.parts.begin(), proportions.parts.end(), std::int64_t{0}),
                        proportions.whole);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double share = static_cast<double>(proportions.parts[i]) / static_cast<double>(proportions.whole);
      BOOST_REQUIRE_LT(std::abs(share - weights[i] / sum), 1.0 / (1 << 24));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_weight_that_would_become_0_is_refused_by_the_name_of_its_dataset) {
  const auto says = [](const std::string& text) {
    return [text](const Error& error) {
      return error.code() == ExitCode::usage && std::string(error.what()).find(text) != std::string::npos;
    };
  };
  BOOST_CHECK_EXCEPTION(resolved({1, 1e-9}), Error, says("the weight of the dataset d1, 1e-09, rounds to 0"));
  BOOST_CHECK_EXCEPTION(resolved({0, 1}), Error, says("the weight of the dataset d0 is 0: it must be above 0"));
  BOOST_CHECK_EXCEPTION(resolved({1, -1}), Error, says("the weight of the dataset d1 is -1"));
}

/// Proportions of many shapes: a few, many, equal, one that outweighs all, each twice the next.
std::vector<Proportions> made_proportions() {
  const RandomStream random(11, "proportions");
  std::vector<Proportions> made{{{1}, 1}, {{1, 1}, 2}, {{999, 1}, 1000}, {{1, 999}, 1000}, {{7, 3}, 10}};
  made.push_back({std::vector<std::int64_t>(37, 1), 37});
  made.push_back({{512, 256, 128, 64, 32, 16, 8, 4, 2, 1}, 1023});
  made.push_back({{1, 1, 1, 997}, 1000});
  std::uint64_t index = 0;
  const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(random.below(index++, bound)); };
  for (int trial = 0; trial < 400; ++trial) {
    Proportions proportions;
    const std::int64_t count = 1 + below(trial % 10 == 0 ? 60 : 7), most = 1 + below(trial % 3 == 0 ? 900 : 30);
    for (std::int64_t i = 0; i < count; ++i) {
      proportions.parts.push_back(1 + below(static_cast<std::uint64_t>(i % 2 == 0 ? most : 1 + most / 10)));
      proportions.whole += proportions.parts.back();
    }
    made.push_back(proportions);
  }
  return made;
}

BOOST_AUTO_TEST_CASE(every_prefix_has_each_dataset_to_within_two_samples_and_numbers_count_them) {
  for (const Proportions& proportions : made_proportions()) {
    const MixtureSchedule turns(proportions);
    std::vector<std::int64_t> taken(proportions.parts.size(), 0);
    for (std::int64_t sample = 0; sample < 3 * proportions.whole; ++sample) {
      const MixtureSchedule::Slot turn = turns.at(sample);
      BOOST_REQUIRE_LT(turn.dataset, taken.size());
      BOOST_REQUIRE_EQUAL(turn.number, taken[turn.dataset]);
      ++taken[turn.dataset];
      for (std::size_t i = 0; i < taken.size(); ++i) {
        // |taken − share| < 2, in integers
        const std::int64_t off = taken[i] * proportions.whole - (sample + 1) * proportions.parts[i];
        BOOST_REQUIRE_LT(std::abs(off), 2 * proportions.whole);
      }
      if (sample % 97 == 0 || (sample + 1) % proportions.whole == 0)
        for (std::size_t i = 0; i < taken.size(); ++i) BOOST_REQUIRE_EQUAL(turns.taken(i, sample + 1), taken[i]);
    }
    for (std::size_t i = 0; i < taken.size(); ++i) BOOST_REQUIRE_EQUAL(taken[i], 3 * proportions.parts[i]);
  }
}

BOOST_AUTO_TEST_CASE(a_look_up_far_on_in_a_long_period_continues_what_came_before) {
  const std::vector<double> weights{0.6180339887498949, 0.3141592653589793, 0.0001234567890123, 0.27182818284590454};
  const Proportions proportions = resolved(weights);
  BOOST_TEST(proportions.whole > 1 << 20);
  const MixtureSchedule turns(proportions);
  for (const std::int64_t begin :
       {std::int64_t{0}, std::int64_t{1} << 23, (std::int64_t{1} << 24) - 500, std::int64_t{1} << 50}) {
    std::vector<std::int64_t> taken;
    for (std::size_t i = 0; i < weights.size(); ++i) taken.push_back(turns.taken(i, begin));
    BOOST_REQUIRE_EQUAL(std::accumulate(taken.begin(), taken.end(), std::int64_t{0}), begin);
    for (std::int64_t sample = begin; sample < begin + 1000; ++sample) {
      const MixtureSchedule::Slot turn = turns.at(sample);
      BOOST_REQUIRE_EQUAL(turn.number, taken[turn.dataset]++);
    }
  }
}

BOOST_AUTO_TEST_CASE(by_weights_each_dataset_has_each_of_its_samples_once_in_every_epoch_of_its_own) {
  const std::vector<std::int64_t> sizes{5, 17, 3}, begins{0, 5, 22};
  for (const Shuffled shuffled : {Shuffled::mixture, Shuffled::datasets, Shuffled::both}) {
    for (const Shuffle shuffle : {Shuffle::every_epoch, Shuffle::once, Shuffle::never}) {
      const SampleOrder order({.datasets = sizes,
                               .proportions = Proportions{{3, 5, 2}, 10},
                               .seed = 9,
                               .shuffle = shuffle,
                               .shuffled = shuffled});
      BOOST_TEST(order.samples() == 25);
      const std::int64_t epochs = 40;
      std::vector<std::vector<std::int64_t>> seen(3);
      for (std::int64_t n = 0; n < epochs * 25; ++n) {
        const std::int64_t sample = order.sample_at({n / 25, n % 25});
        const std::size_t dataset = sample < 5 ? 0 : sample < 22 ? 1 : 2;
        seen[dataset].push_back(sample - begins[dataset]);
      }
      const std::vector<std::int64_t> shares{300, 500, 200};
      for (std::size_t i = 0; i < 3; ++i) {
        BOOST_REQUIRE_EQUAL(std::ssize(seen[i]), shares[i]);
        // Where the mixture is shuffled too, samples of two epochs of a dataset may lie in one of the whole: there each
        // comes as often as any other, to within one.
        std::map<std::int64_t, std::int64_t> often;
        for (const std::int64_t sample : seen[i]) ++often[sample];
        for (const auto& [sample, times] : often)
          BOOST_REQUIRE(times == shares[i] / sizes[i] || times == shares[i] / sizes[i] + 1);
        if (shuffled != Shuffled::datasets && shuffle != Shuffle::never) continue;
        std::set<std::vector<std::int64_t>> orders;
        for (std::int64_t first = 0; first + sizes[i] <= std::ssize(seen[i]); first += sizes[i]) {
          std::vector<std::int64_t> epoch(seen[i].begin() + first, seen[i].begin() + first + sizes[i]);
          orders.insert(epoch);
          std::ranges::sort(epoch);
          for (std::int64_t k = 0; k < sizes[i]; ++k) BOOST_REQUIRE_EQUAL(epoch[static_cast<std::size_t>(k)], k);
        }
        BOOST_TEST((shuffle == Shuffle::every_epoch ? orders.size() > 3 : orders.size() == 1));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(without_weights_each_sample_of_all_datasets_comes_once_an_epoch) {
  const std::vector<std::int64_t> sizes{5, 17, 3};
  for (const Shuffled shuffled : {Shuffled::mixture, Shuffled::datasets, Shuffled::both}) {
    const SampleOrder order({.datasets = sizes, .seed = 9, .shuffled = shuffled});
    std::set<std::vector<std::int64_t>> orders;
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      std::vector<std::int64_t> samples;
      for (std::int64_t n = 0; n < 25; ++n) samples.push_back(order.sample_at({epoch, n}));
      orders.insert(samples);
      if (shuffled == Shuffled::datasets)  // one dataset after the other
        for (std::size_t n = 0; n < 25; ++n)
          BOOST_REQUIRE((samples[n] < 5) == (n < 5) && (samples[n] < 22) == (n < 22));
      std::ranges::sort(samples);
      for (std::int64_t k = 0; k < 25; ++k) BOOST_REQUIRE_EQUAL(samples[static_cast<std::size_t>(k)], k);
    }
    BOOST_TEST(orders.size() == 5u);
  }
}

BOOST_AUTO_TEST_CASE(samples_of_several_datasets_shuffled_together_have_the_order_of_one_dataset_made_of_them) {
  const SampleOrder several({.datasets = {5, 17, 3}, .seed = 4}), one({.datasets = {25}, .seed = 4});
  for (std::int64_t n = 0; n < 75; ++n)
    BOOST_TEST(several.sample_at({n / 25, n % 25}) == one.sample_at({n / 25, n % 25}));
}

BOOST_AUTO_TEST_CASE(a_dataset_twice_with_equal_weights_comes_twice_an_epoch) {
  const SampleOrder order(
      {.datasets = {11, 11}, .proportions = resolved({0.5, 0.5}), .seed = 4, .shuffled = Shuffled::datasets});
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    std::map<std::int64_t, int> often;
    for (std::int64_t n = 0; n < 22; ++n) ++often[order.sample_at({epoch, n}) % 11];
    BOOST_TEST(often.size() == 11u);
    BOOST_TEST(std::ranges::all_of(often, [](const auto& entry) { return entry.second == 2; }));
  }
}

/// Two datasets whose tokens tell which of them they are of, and where in it they lie.
struct TwoDatasets : TemporaryFolder {
  static constexpr std::int64_t vocabulary = 100003;
  std::vector<TokenStream> streams;
  std::vector<test::MadeSplit> splits;
  TwoDatasets() {
    for (const auto& [name, lengths] : {std::pair("first", std::vector<std::int64_t>{9, 1, 20, 13, 2}),
                                        std::pair("second", std::vector<std::int64_t>{1, 40, 16, 30})}) {
      test::MadeSplit split = test::made_split(lengths, vocabulary);
      for (std::int32_t& token : split.tokens) token += splits.empty() ? 0 : 1;
      DatasetManifest manifest = test::manifest_for(vocabulary, 10);
      make_folder(path / name);
      test::write_split(path / name, manifest, DataSplit::train, split);
      streams.emplace_back(path / name, manifest, DataSplit::train);
      splits.push_back(split);
    }
  }
};

BOOST_FIXTURE_TEST_CASE(joined_sources_fill_rows_as_each_of_them_does_and_a_part_has_those_from_its_first_on,
                        TwoDatasets) {
  std::vector<std::shared_ptr<const SampleSource>> sources;
  for (const TokenStream& stream : streams)
    sources.push_back(std::make_shared<WindowSource>(stream, 4, Documents::isolated, WindowTail::unused));
  const JoinedSource joined(sources);
  BOOST_TEST(joined.samples() == sources[0]->samples() + sources[1]->samples());
  BOOST_TEST(joined.samples_by_dataset() == (std::vector<std::int64_t>{sources[0]->samples(), sources[1]->samples()}));
  BOOST_TEST(joined.streams().size() == 2u);
  struct Row {
    std::vector<std::int32_t> tokens = std::vector<std::int32_t>(4), labels = tokens, positions = tokens;
    SampleRow row{tokens, labels, positions};
  };
  for (std::int64_t sample = 0; sample < joined.samples(); ++sample) {
    const std::size_t of = sample < sources[0]->samples() ? 0 : 1;
    const std::int64_t within = sample - (of == 0 ? 0 : sources[0]->samples());
    Row mine, theirs, part;
    joined.fill(sample, mine.row);
    sources[of]->fill(within, theirs.row);
    PartOfSource(sources[of], within, 1).fill(0, part.row);
    BOOST_TEST(mine.tokens == theirs.tokens);
    BOOST_TEST(mine.labels == theirs.labels);
    BOOST_TEST(mine.positions == theirs.positions);
    BOOST_TEST(mine.row.segments == theirs.row.segments);
    BOOST_TEST(part.tokens == theirs.tokens);
    BOOST_TEST(mine.tokens[0] == splits[of].tokens[static_cast<std::size_t>(4 * within)]);
  }
}

BOOST_FIXTURE_TEST_CASE(the_samples_of_a_weighted_mixture_are_the_same_on_any_ranks_and_from_any_position_on,
                        TwoDatasets) {
  std::vector<std::shared_ptr<const SampleSource>> sources;
  for (const TokenStream& stream : streams)
    sources.push_back(std::make_shared<WindowSource>(stream, 4, Documents::joined, WindowTail::unused));
  const JoinedSource joined(sources);
  const Proportions proportions{{3, 1}, 4};
  constexpr std::int64_t global_batch = 8;
  const SampleOrder order(
      {.datasets = joined.samples_by_dataset(), .proportions = proportions, .seed = 3, .shuffled = Shuffled::datasets});
  const std::vector<std::int64_t> ranks_by_step{1, 2, 3, 8, 5};
  DataPosition position;
  for (std::int64_t step = 0; step < 25; ++step) {
    const std::int64_t world = ranks_by_step[static_cast<std::size_t>(step / 5)];
    std::vector<std::int32_t> first_tokens;
    std::int64_t of_first = 0;
    DataPosition next;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      DataLoaderSettings settings{
          .global_batch = global_batch, .micro_batch = 2, .rank = rank, .world = world, .seed = 3};
      settings.proportions = proportions;
      settings.shuffled = Shuffled::datasets;
      const TrainingDataLoader loader(joined, settings);
      for (const Batch& micro : loader.make_step(step, position).micro_batches)
        for (std::int64_t row = 0; row < micro.samples && micro.valid_tokens > 0; ++row)
          first_tokens.push_back(micro.tokens[static_cast<std::size_t>(4 * row)]);
      next = loader.next(position);
    }
    BOOST_REQUIRE_EQUAL(std::ssize(first_tokens), global_batch);
    for (std::int64_t i = 0; i < global_batch; ++i) {
      const std::int64_t n = step * global_batch + i;
      const std::int64_t sample = order.sample_at({n / joined.samples(), n % joined.samples()});
      const std::size_t of = sample < sources[0]->samples() ? 0 : 1;
      const std::int64_t within = sample - (of == 0 ? 0 : sources[0]->samples());
      of_first += of == 0 ? 1 : 0;
      BOOST_REQUIRE_EQUAL(first_tokens[static_cast<std::size_t>(i)],
                          splits[of].tokens[static_cast<std::size_t>(4 * within)]);
    }
    BOOST_TEST(of_first == 6);  // a step is two periods
    position = next;
  }
  BOOST_TEST(position.epoch > 3);
}

BOOST_AUTO_TEST_SUITE_END()
