#include "data/data_loader.hpp"

#include "base/error.hpp"
#include "data/dataset.hpp"
#include "data/packing_index.hpp"
#include "harness/temporary_folder.hpp"
#include "unit/store/made_dataset.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <numeric>
#include <set>

using namespace lockstep;

namespace {

constexpr std::int64_t vocabulary = 100003;  // so that a token tells its place in the stream

struct Stream : TemporaryFolder {
  test::MadeSplit split = test::made_split({9, 1, 20, 13, 2, 1, 1, 40, 16}, vocabulary);
  DatasetManifest manifest = test::manifest_for(vocabulary, 10);
  Stream() { test::write_split(path, manifest, DataSplit::train, split); }
  TokenStream stream() const { return TokenStream(path, manifest, DataSplit::train); }
  std::int64_t tokens() const { return static_cast<std::int64_t>(split.tokens.size()); }
  std::int64_t place_of(std::int32_t token) const {
    return std::ranges::find(split.tokens, token) - split.tokens.begin();
  }
};

// What holds for every batch: sizes and labels agree, segments cover the rows.
void check_shape(const Batch& batch, std::int64_t length) {
  const auto size = static_cast<std::size_t>(batch.samples * length);
  BOOST_REQUIRE(batch.length == length && batch.samples >= 1);
  BOOST_REQUIRE(batch.tokens.size() == size && batch.labels.size() == size && batch.positions.size() == size);
  BOOST_REQUIRE_EQUAL(std::ssize(batch.labels) - std::ranges::count(batch.labels, ignored_label), batch.valid_tokens);
  BOOST_REQUIRE(batch.documents.front() == 0 && batch.documents.back() == static_cast<std::int64_t>(size));
  BOOST_REQUIRE(std::ranges::is_sorted(batch.documents, std::ranges::less_equal{}));
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(feed, Stream)

BOOST_AUTO_TEST_CASE(a_masked_token_is_no_label_in_windows_nor_in_rows_and_parts_without_one_are_not_packed) {
  DatasetManifest masked = test::manifest_for(vocabulary, 10);
  masked.masks = TokenMasks::present;
  split.mask.assign(split.tokens.size(), 0);
  for (std::size_t i = 0; i < 60; ++i) split.mask[i] = i % 3 == 0 ? 1 : 0;  // the last documents have none
  test::write_split(path / "masked", masked, DataSplit::train, split);
  const TokenStream tokens(path / "masked", masked, DataSplit::train);
  const auto expect = [&](const SampleSource& source, std::int64_t begin, std::int64_t labels) {
    std::set<std::int64_t> seen;
    for (std::int64_t sample = 0; sample < source.samples(); ++sample) {
      const auto length = static_cast<std::size_t>(source.length());
      std::vector<std::int32_t> ids(length), wanted(length, ignored_label), positions(length);
      SampleRow row{ids, wanted, positions};
      source.fill(sample, row);
      BOOST_TEST(row.valid_tokens == std::ssize(wanted) - std::ranges::count(wanted, ignored_label));
      for (const std::int32_t label : wanted)
        if (label != ignored_label) seen.insert(place_of(label));
    }
    std::set<std::int64_t> all;
    for (std::int64_t i = begin; i < begin + labels; ++i) {
      const bool first = std::ranges::count(split.starts, i) > 0;
      if (split.mask[static_cast<std::size_t>(i)] == 1 && !(first && source.packing() != nullptr)) all.insert(i);
    }
    BOOST_TEST((seen == all));
  };
  const std::int64_t windows = (this->tokens() - 1) / 4;
  expect(WindowSource(tokens, 4, Documents::joined, WindowTail::unused), 1, 4 * windows);
  const PackingSettings settings{PackingMethod::best_fit, 8, 1, 100, LongDocuments::split};
  const PackedSource packed(tokens, make_packing(tokens, settings, 1), settings);
  expect(packed, 0, this->tokens());
  const PackingCounts& counts = packed.packing()->counts();
  BOOST_TEST(counts.masked_parts > 2);
  BOOST_TEST(counts.packed_labels + counts.masked_labels == this->tokens() - tokens.documents());
  write_packing(path / "packing.h5", "id", *packed.packing());
  BOOST_TEST((open_packing(path / "packing.h5", "id").counts() == counts));
  const WindowSource isolated(tokens, 4, Documents::isolated, WindowTail::unused);
  for (std::int64_t sample = 0; sample < isolated.samples(); ++sample) {
    std::vector<std::int32_t> ids(4), wanted(4, ignored_label), positions(4);
    SampleRow row{ids, wanted, positions};
    isolated.fill(sample, row);
    BOOST_TEST(row.valid_tokens == 4 - std::ranges::count(wanted, ignored_label));
  }
}

BOOST_AUTO_TEST_CASE(the_global_batch_is_the_same_for_any_ranks_and_accumulation_and_an_epoch_has_every_sample_once) {
  const TokenStream tokens = stream();
  constexpr std::int64_t length = 4;
  const WindowSource windows(tokens, length, Documents::joined, WindowTail::unused);
  const std::int64_t samples = (this->tokens() - 1) / length;
  for (std::int64_t global_batch = 7; global_batch <= 12; ++global_batch) {
    // By arithmetic: the samples of step s are those at positions s·G … of the epochs laid end to end.
    const SampleOrder order({.datasets = {samples}, .seed = 3});
    for (std::int64_t world = 1; world <= 7; ++world) {
      for (const std::int64_t micro_batch : {1, 2, 3, 5, 100}) {
        DataPosition position;
        std::map<std::int64_t, int> seen;
        for (std::int64_t step = 0; step < 2 * samples / global_batch + 1; ++step) {
          std::vector<std::int64_t> numbers;
          for (std::int64_t rank = 0; rank < world; ++rank) {
            const TrainingDataLoader loader(windows,
                                            {global_batch, micro_batch, rank, world, 3, Shuffle::every_epoch, {}, {}});
            const StepBatch batch = loader.make_step(step, position);
            BOOST_REQUIRE_EQUAL(static_cast<std::int64_t>(batch.micro_batches.size()),
                                accumulation_of(global_batch, world, micro_batch));
            std::int64_t valid = 0;
            for (const Batch& micro : batch.micro_batches) {
              check_shape(micro, length);
              BOOST_REQUIRE_LE(micro.samples, micro_batch);
              valid += micro.valid_tokens;
              for (std::int64_t row = 0; row < micro.samples && micro.valid_tokens > 0; ++row) {
                const auto at = static_cast<std::size_t>(row * length);
                const std::int64_t place = place_of(micro.tokens[at]);
                BOOST_REQUIRE_EQUAL(place % length, 0);
                for (std::size_t t = 0; t < length; ++t) {
                  const auto in_stream = static_cast<std::size_t>(place) + t;
                  BOOST_REQUIRE_EQUAL(micro.tokens[at + t], split.tokens[in_stream]);
                  BOOST_REQUIRE_EQUAL(micro.labels[at + t], split.tokens[in_stream + 1]);
                  BOOST_REQUIRE_EQUAL(micro.positions[at + t], static_cast<std::int32_t>(t));
                }
                BOOST_REQUIRE_EQUAL(micro.numbers[static_cast<std::size_t>(row)], std::ssize(numbers));
                numbers.push_back(place / length);
              }
            }
            BOOST_REQUIRE_EQUAL(valid, batch.valid_tokens);
          }
          BOOST_REQUIRE_EQUAL(static_cast<std::int64_t>(numbers.size()), global_batch);
          for (std::int64_t i = 0; i < global_batch; ++i) {
            const std::int64_t index = step * global_batch + i;
            BOOST_REQUIRE_EQUAL(numbers[static_cast<std::size_t>(i)],
                                order.sample_at({index / samples, index % samples}));
            if (index < 2 * samples) ++seen[numbers[static_cast<std::size_t>(i)]];
          }
          position = order.advance(position, global_batch);
        }
        BOOST_REQUIRE_EQUAL(static_cast<std::int64_t>(seen.size()), samples);
        BOOST_REQUIRE(std::ranges::all_of(seen, [](const auto& entry) { return entry.second == 2; }));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_rank_whose_samples_run_out_gets_a_batch_in_which_no_label_counts) {
  const TokenStream tokens = stream();
  const WindowSource windows(tokens, 4, Documents::joined, WindowTail::unused);
  const TrainingDataLoader loader(windows,
                                  {5, 1, 1, 2, 0, Shuffle::never, {}, {}});  // 3 samples on rank 0, 2 on rank 1
  const StepBatch batch = loader.make_step(0, {});
  BOOST_TEST(batch.micro_batches.size() == 3u);
  BOOST_TEST(batch.micro_batches[2].valid_tokens == 0);
  BOOST_TEST(batch.micro_batches[1].numbers == std::vector<std::int64_t>{4});
  BOOST_TEST(batch.micro_batches[2].numbers == std::vector<std::int64_t>{-1});
  check_shape(batch.micro_batches[2], 4);
  BOOST_TEST(batch.valid_tokens == 8);
  BOOST_TEST(batch.samples == 2);
}

BOOST_AUTO_TEST_CASE(an_epoch_that_drops_its_tail_ends_with_a_whole_step) {
  const TokenStream tokens = stream();
  const WindowSource windows(tokens, 4, Documents::joined, WindowTail::unused);  // 25
  const TrainingDataLoader loader(windows, {.global_batch = 4, .micro_batch = 4, .seed = 3, .epoch_multiple = 4});
  const TrainingDataLoader joined(windows, {4, 4, 0, 1, 3, Shuffle::every_epoch, EpochTail::joined, {}});
  BOOST_TEST(loader.samples_per_epoch() == 24);
  BOOST_TEST((loader.next({1, 20}) == DataPosition{2, 0}));
  for (std::int64_t sample = 0; sample < 24; sample += 4)
    BOOST_TEST(loader.make_step(0, {1, sample}).micro_batches[0].tokens ==
               joined.make_step(0, {1, sample}).micro_batches[0].tokens);
  BOOST_CHECK_THROW(TrainingDataLoader(windows, {.global_batch = 26, .micro_batch = 4, .epoch_multiple = 26}), Error);
}

BOOST_AUTO_TEST_CASE(a_short_last_step_has_the_samples_that_the_epoch_has_left_and_some_ranks_perhaps_none) {
  const TokenStream tokens = stream();
  const WindowSource windows(tokens, 4, Documents::joined, WindowTail::unused);  // 25
  for (const std::int64_t multiple : {1, 4}) {
    const std::int64_t samples = multiple == 1 ? 25 : 24, batch = multiple == 1 ? 8 : 10;
    std::multiset<std::int64_t> sizes;
    std::map<std::vector<std::int32_t>, int> seen;  // rows of the second epoch
    DataPosition position{1, 0};
    while (position.epoch == 1) {
      std::int64_t of_step = 0;
      DataPosition next;
      for (std::int64_t rank = 0; rank < 2; ++rank) {
        const TrainingDataLoader loader(windows, {.global_batch = batch,
                                                  .micro_batch = 3,
                                                  .rank = rank,
                                                  .world = 2,
                                                  .seed = 3,
                                                  .tail = EpochTail::short_step,
                                                  .epoch_multiple = multiple});
        BOOST_TEST(loader.samples_per_epoch() == samples);
        const StepBatch step = loader.make_step(0, position);
        BOOST_TEST(std::ssize(step.micro_batches) == loader.accumulation());
        BOOST_TEST(step.valid_tokens == 4 * step.samples);
        of_step += step.samples;
        for (const Batch& micro_batch : step.micro_batches)
          for (std::int64_t row = 0; row < micro_batch.samples; ++row)
            if (micro_batch.numbers[static_cast<std::size_t>(row)] >= 0)
              ++seen[{micro_batch.tokens.begin() + row * 4, micro_batch.tokens.begin() + (row + 1) * 4}];
        BOOST_TEST(of_step <= loader.samples_of_step(position));
        next = loader.next(position);
      }
      sizes.insert(of_step);
      position = next;
    }
    BOOST_TEST((position == DataPosition{2, 0}));
    BOOST_TEST(
        (sizes == (multiple == 1 ? std::multiset<std::int64_t>{8, 8, 8, 1} : std::multiset<std::int64_t>{10, 10, 4})));
    BOOST_TEST(std::accumulate(seen.begin(), seen.end(), std::int64_t{0},
                               [](std::int64_t sum, const auto& row) { return sum + row.second; }) == samples);
    BOOST_TEST(std::ssize(seen) == samples);  // no row twice
  }
}

BOOST_AUTO_TEST_CASE(more_ranks_than_samples_are_refused) {
  const TokenStream tokens = stream();
  const WindowSource windows(tokens, 4, Documents::joined, WindowTail::unused);
  BOOST_CHECK_EXCEPTION(TrainingDataLoader(windows, {3, 1, 0, 4, 0, Shuffle::never, {}, {}}), Error,
                        [](const Error& error) {
                          return error.code() == ExitCode::usage &&
                                 std::string(error.what()) == "cannot divide a step of 3 samples among 4 ranks" &&
                                 error.hint().find("at most 3 ranks") != std::string::npos;
                        });
}

BOOST_AUTO_TEST_CASE(isolated_documents_restart_positions_and_predict_nothing_across_their_end) {
  const TokenStream tokens = stream();
  for (const std::int64_t length : {1, 3, 8, 50}) {
    const WindowSource windows(tokens, length, Documents::isolated, WindowTail::unused);
    const TrainingDataLoader loader(windows, {2, 1, 0, 1, 0, Shuffle::never, {}, {}});
    for (std::int64_t sample = 0; sample < loader.samples_per_epoch(); ++sample) {
      const Batch batch = loader.make_step(0, {0, sample}).micro_batches[0];
      check_shape(batch, length);
      std::vector<std::int64_t> segments{0};
      std::int32_t position = -1;
      for (std::int64_t t = 0; t < length; ++t) {
        const std::int64_t place = sample * length + t;
        const bool starts = std::ranges::count(split.starts, place) > 0;
        const bool ends = std::ranges::count(split.starts, place + 1) > 0;
        if (t > 0 && starts) segments.push_back(t);
        position = starts ? 0 : position + 1;
        const auto at = static_cast<std::size_t>(t);
        BOOST_REQUIRE_EQUAL(batch.positions[at], position);
        BOOST_REQUIRE_EQUAL(batch.labels[at], ends ? ignored_label : split.tokens[static_cast<std::size_t>(place) + 1]);
      }
      segments.push_back(length);
      BOOST_REQUIRE(batch.documents == segments);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_predicts_every_token_but_the_first_exactly_once_on_any_number_of_ranks) {
  const TokenStream tokens = stream();
  for (const Documents documents : {Documents::joined, Documents::isolated}) {
    for (const std::int64_t length : {1, 4, 7, 102, 103, 500}) {
      const WindowSource windows(tokens, length, documents, WindowTail::padded);
      for (std::int64_t world = 1; world <= 7; ++world) {
        for (const std::int64_t micro_batch : {1, 3}) {
          std::map<std::int32_t, int> labels;
          std::int64_t valid = 0;
          for (std::int64_t rank = 0; rank < world; ++rank) {
            const EvaluationDataLoader loader(windows, {1, micro_batch, rank, world, 0, Shuffle::never, {}, {}}, {});
            BOOST_REQUIRE_EQUAL(loader.micro_batches(),
                                accumulation_of((this->tokens() + length - 2) / length, world, micro_batch));
            for (std::int64_t i = 0; i < loader.micro_batches(); ++i) {
              const Batch batch = loader.batch(i);
              check_shape(batch, length);
              valid += batch.valid_tokens;
              for (std::size_t t = 0; t < batch.labels.size(); ++t) {
                if (batch.labels[t] == ignored_label) continue;
                ++labels[batch.labels[t]];
                BOOST_REQUIRE_EQUAL(place_of(batch.labels[t]), place_of(batch.tokens[t]) + 1);
              }
            }
          }
          BOOST_REQUIRE_EQUAL(valid, this->tokens() - 1 - (documents == Documents::isolated ? 8 : 0));
          BOOST_REQUIRE_EQUAL(static_cast<std::int64_t>(labels.size()), valid);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_part_of_a_split_is_the_same_samples_on_any_ranks_and_micro_batch_spread_evenly_over_it) {
  const TokenStream tokens = stream();
  constexpr std::int64_t length = 3;
  const WindowSource source(tokens, length, Documents::joined, WindowTail::padded);
  const std::int64_t windows = (this->tokens() - 1 + length - 1) / length;  // 34
  for (const std::int64_t global_batch : {1, 4, 7}) {
    for (const std::int64_t batches : {1, 2, 3, 5, 1000000000}) {
      const std::int64_t samples = std::min(windows, batches * global_batch);
      std::vector<std::int64_t> first;
      for (std::int64_t world = 1; world <= 5; ++world) {
        for (const std::int64_t micro_batch : {1, 2, 100}) {
          std::vector<std::int64_t> found;
          for (std::int64_t rank = 0; rank < world; ++rank) {
            const EvaluationDataLoader loader(
                source, {global_batch, micro_batch, rank, world, 0, Shuffle::never, {}, {}}, batches);
            BOOST_REQUIRE_EQUAL(loader.samples(), samples);
            for (std::int64_t i = 0; i < loader.micro_batches(); ++i) {
              const Batch batch = loader.batch(i);
              check_shape(batch, length);
              for (std::int64_t row = 0; row < batch.samples && batch.valid_tokens > 0; ++row)
                found.push_back(place_of(batch.tokens[static_cast<std::size_t>(row * length)]) / length);
            }
          }
          BOOST_REQUIRE_EQUAL(static_cast<std::int64_t>(found.size()), samples);
          if (first.empty()) first = found;
          BOOST_REQUIRE(found == first);
        }
      }
      // Evenly: every part of the split that is a multiple of windows / samples long holds its share of them, give or
      // take one.
      for (std::int64_t end = 1; end <= windows; ++end) {
        const auto before = std::ranges::count_if(first, [&](std::int64_t window) { return window < end; });
        BOOST_REQUIRE_LE(std::abs(before * windows - end * samples), windows);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_absent_dataset_is_refused_with_what_to_type) {
  const auto says = [](const std::string& hint) {
    return [hint](const Error& error) { return error.code() == ExitCode::input && error.hint() == hint; };
  };
  BOOST_CHECK_EXCEPTION(
      open_dataset("nowhere/text"), Error,
      says("make it with: prepare-data INPUT… --output nowhere/text --data.tokenizer bytes|chars|TOKENIZER"));
  const Path own = path / "text";  // the folder above has no dataset of another test
  make_folder(own);
  test::write_split(own, manifest, DataSplit::train, split);
  publish_file(own / "DATASET.json", to_text(manifest));
  for (const Path& near : {path, own / "train", own / "train/", own / "DATASET.json"})
    BOOST_CHECK_EXCEPTION(open_dataset(near), Error, says("name the dataset itself: " + own.string()));
  BOOST_CHECK_EXCEPTION(open_dataset(own).open(DataSplit::validation), Error, [](const Error& error) {
    return error.code() == ExitCode::input && std::string(error.what()).ends_with("has no validation split");
  });
}

BOOST_AUTO_TEST_SUITE_END()
