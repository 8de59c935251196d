#include "data/packing.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "base/rounding.hpp"
#include "data/batch.hpp"
#include "data/data_loader.hpp"
#include "data/packing_index.hpp"
#include "harness/temporary_folder.hpp"
#include "unit/store/made_dataset.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

using namespace lockstep;

namespace {

constexpr std::int64_t packed_vocabulary = 100003;  // so that a token tells its place in the stream
constexpr std::array all_methods{PackingMethod::none, PackingMethod::sequential, PackingMethod::multipack,
                                 PackingMethod::best_fit};

/// Lengths of documents, drawn: many short ones and some beyond any row.
std::vector<std::int64_t> drawn_lengths(std::uint64_t draw, std::int64_t count, std::int64_t most) {
  const RandomStream random(draw, "lengths");
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint64_t>(2 * i);
    const std::int64_t limit = random.below(at, 3) == 0 ? most : std::max<std::int64_t>(most / 6, 1);
    lengths.push_back(1 + static_cast<std::int64_t>(random.below(at + 1, static_cast<std::uint64_t>(limit))));
  }
  return lengths;
}

struct MadeStream : TemporaryFolder {
  test::MadeSplit split;
  DatasetManifest manifest = test::manifest_for(packed_vocabulary, 50);
  explicit MadeStream(const std::vector<std::int64_t>& lengths = {9, 1, 20, 13, 2, 1, 1, 40, 16})
      : split(test::made_split(lengths, packed_vocabulary)) {
    test::write_split(path, manifest, DataSplit::train, split);
  }
  TokenStream stream() const { return TokenStream(path, manifest, DataSplit::train); }
  std::int64_t end_of(std::size_t document) const {
    return document + 1 < split.starts.size() ? split.starts[document + 1] : std::ssize(split.tokens);
  }
};

/// Each row with its documents.
std::vector<std::vector<PackedDocument>> rows_of(const Packing& packing) {
  std::vector<std::vector<PackedDocument>> rows;
  for (std::int64_t row = 0; row < packing.rows(); ++row) {
    rows.emplace_back();
    for (std::int64_t i = 0; i < packing.documents(row); ++i) rows.back().push_back(packing.document(row, i));
  }
  return rows;
}

/// As the words say it: by search through all rows, for each document.
std::vector<std::uint64_t> placed_by_search(PackingMethod method, const std::vector<std::int64_t>& costs,
                                            std::int64_t length) {
  struct SearchedRow {
    std::int64_t left = 0;
    int filled = 0;  // when
  };
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  if (method == PackingMethod::multipack || method == PackingMethod::best_fit)
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return costs[i]; });
  std::vector<SearchedRow> rows;
  std::vector<std::uint64_t> placed(costs.size());
  int now = 0;
  for (const std::size_t document : order) {
    std::optional<std::size_t> chosen;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows[row].left < costs[document]) continue;
      if (method == PackingMethod::sequential && row + 1 < rows.size()) continue;
      if (method == PackingMethod::none) continue;
      const auto better = [&](const SearchedRow& a, const SearchedRow& b) {
        return a.left < b.left || (a.left == b.left && a.filled > b.filled);
      };
      if (!chosen || (method == PackingMethod::best_fit && better(rows[row], rows[*chosen]))) chosen = row;
    }
    if (!chosen) {
      chosen = rows.size();
      rows.push_back({length, 0});
    }
    rows[*chosen].left -= costs[document];
    rows[*chosen].filled = ++now;
    placed[document] = *chosen;
  }
  return placed;
}

/// The least number of rows that take all: tries everything.
std::size_t fewest_rows(std::vector<std::int64_t> costs, std::int64_t length) {
  std::ranges::sort(costs, std::greater());
  std::size_t best = costs.size();
  std::vector<std::int64_t> left;
  const std::function<void(std::size_t)> place = [&](std::size_t document) {
    if (left.size() >= best) return;
    if (document == costs.size()) {
      best = left.size();
      return;
    }
    std::set<std::int64_t> tried;
    for (std::size_t row = 0; row < left.size(); ++row) {
      if (left[row] < costs[document] || !tried.insert(left[row]).second) continue;
      left[row] -= costs[document];
      place(document + 1);
      left[row] += costs[document];
    }
    left.push_back(length - costs[document]);
    place(document + 1);
    left.pop_back();
  };
  place(0);
  return best;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(packings)

BOOST_AUTO_TEST_CASE(documents_go_where_a_search_through_all_rows_puts_them) {
  for (std::uint64_t draw = 0; draw < 60; ++draw) {
    for (const std::int64_t length : {1, 7, 64, 65, 200, 5000}) {
      std::vector<std::int64_t> costs = drawn_lengths(draw, 1 + static_cast<std::int64_t>(draw * 3), length);
      for (const PackingMethod method : all_methods)
        BOOST_REQUIRE(place_documents(method, costs, length) == placed_by_search(method, costs, length));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_longest_first_take_no_more_rows_than_first_fit_decreasing_is_bound_to) {
  int more_than_best = 0;
  for (std::uint64_t draw = 0; draw < 120; ++draw) {
    const std::int64_t length = 10 + static_cast<std::int64_t>(draw % 23);
    const std::vector<std::int64_t> costs = drawn_lengths(draw, 12, length * 2 / 3);
    const std::size_t fewest = fewest_rows(costs, length);
    for (const PackingMethod method : {PackingMethod::multipack, PackingMethod::best_fit}) {
      const std::size_t rows = std::ranges::max(place_documents(method, costs, length)) + 1;
      BOOST_REQUIRE_GE(rows, fewest);
      BOOST_REQUIRE_LE(9 * rows, 11 * fewest + 6);  // Dósa 2007
      more_than_best += rows > fewest ? 1 : 0;
    }
  }
  BOOST_TEST(more_than_best < 24);
}

BOOST_AUTO_TEST_CASE(no_label_is_lost_or_doubled_and_what_is_left_out_is_counted) {
  for (std::uint64_t draw = 0; draw < 12; ++draw) {
    const MadeStream made(drawn_lengths(draw, 60, 50));
    const TokenStream stream = made.stream();
    for (const PackingMethod method : all_methods) {
      for (const LongDocuments fate : {LongDocuments::split, LongDocuments::truncate, LongDocuments::drop}) {
        for (const auto& [length, multiple] : {std::pair(12, 1), {12, 4}, {1, 1}, {64, 1}}) {
          const PackingSettings settings{method, length, multiple, 7, fate};
          PackingCounts expected{.documents = std::ssize(made.split.starts)};
          std::map<std::int64_t, int> labels;  // by place: those that are due
          for (std::size_t document = 0; document < made.split.starts.size(); ++document) {
            const std::int64_t begin = made.split.starts[document], count = made.end_of(document) - begin - 1;
            const bool is_long = count > length;
            std::int64_t kept = count;
            if (count == 0) ++expected.empty_documents;
            if (is_long && fate == LongDocuments::split) ++expected.split_documents;
            if (is_long && fate == LongDocuments::truncate) {
              ++expected.truncated_documents;
              expected.truncated_labels += count - length;
              kept = length;
            }
            if (is_long && fate == LongDocuments::drop) {
              ++expected.dropped_documents;
              expected.dropped_labels += count;
              kept = 0;
            }
            expected.packed_labels += kept;
            for (std::int64_t label = 0; label < kept; ++label) labels[begin + 1 + label] = 1;
          }
          if (labels.empty()) {
            BOOST_CHECK_THROW(make_packing(stream, settings, 1), Error);
            continue;
          }
          const Packing packing = make_packing(stream, settings, 1);
          for (const std::vector<PackedDocument>& row : rows_of(packing)) {
            expected.most_documents = std::max(expected.most_documents, std::ssize(row));
            std::int64_t taken = 0, behind = -1;
            for (const PackedDocument& document : row) {
              BOOST_REQUIRE_GT(document.begin, behind);  // in the order of the stream
              behind = document.begin;
              taken += rounded_up(document.labels, multiple);
              for (std::int64_t label = 0; label < document.labels; ++label) --labels[document.begin + 1 + label];
            }
            BOOST_REQUIRE(taken >= 1 && taken <= length);
          }
          BOOST_REQUIRE(std::ranges::all_of(labels, [](const auto& label) { return label.second == 0; }));
          BOOST_REQUIRE((packing.counts() == expected));
          BOOST_REQUIRE_EQUAL(expected.packed_labels + expected.truncated_labels + expected.dropped_labels,
                              std::ssize(made.split.tokens) - expected.documents);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(documents_share_rows_with_those_of_their_group_alone) {
  const MadeStream made(drawn_lengths(5, 200, 30));
  const TokenStream stream = made.stream();
  for (const PackingMethod method : {PackingMethod::multipack, PackingMethod::best_fit}) {
    for (const std::int64_t group : {1, 9, 64, 1000}) {
      const PackingSettings settings{method, 30, 1, group, LongDocuments::split};
      std::vector<std::int64_t> begins;  // of those that are packed, in order
      for (std::size_t i = 0; i < made.split.starts.size(); ++i)
        if (made.end_of(i) - made.split.starts[i] > 1) begins.push_back(made.split.starts[i]);
      std::int64_t group_before = 0;
      for (const std::vector<PackedDocument>& row : rows_of(make_packing(stream, settings, 1))) {
        std::set<std::int64_t> groups;
        for (const PackedDocument& document : row)
          groups.insert((std::ranges::lower_bound(begins, document.begin) - begins.begin()) / group);
        BOOST_REQUIRE_EQUAL(groups.size(), 1);
        BOOST_REQUIRE_GE(*groups.begin(), group_before);
        group_before = *groups.begin();
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_packing_is_the_same_for_any_number_of_threads_and_its_file_has_the_same_bytes) {
  const MadeStream made(drawn_lengths(6, 500, 40));
  const TokenStream stream = made.stream();
  for (const PackingMethod method : all_methods) {
    const PackingSettings settings{method, 32, 1, 16, LongDocuments::split};
    const std::string identity = identity_of(settings, made.manifest.train);
    std::string bytes;
    for (const int threads : {1, 2, 3, 7, 64}) {
      write_packing(made.path / "packing.h5", identity, make_packing(stream, settings, threads));
      if (bytes.empty()) bytes = read_file(made.path / "packing.h5");
      BOOST_REQUIRE(read_file(made.path / "packing.h5") == bytes);
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_hold_their_documents_each_a_segment_with_positions_of_its_own_and_no_label_across) {
  const MadeStream made(drawn_lengths(7, 80, 40));
  const TokenStream stream = made.stream();
  for (const PackingMethod method : all_methods) {
    for (const std::int64_t pads : {1, 4}) {
      const bool alone = method == PackingMethod::none;  // then rows are padded, else documents
      const std::int64_t multiple = alone ? 1 : pads;
      const PackingSettings settings{method, 24, multiple, 11, LongDocuments::split};
      const PackedSource source(stream, make_packing(stream, settings, 1), settings);
      const auto pad = alone ? std::optional(pads) : std::nullopt;
      const TrainingDataLoader loader(source, {3, 2, 0, 1, 5, Shuffle::every_epoch, {}, pad});
      const SampleOrder order({.datasets = {source.samples()}, .seed = 5});
      for (DataPosition position; position.epoch == 0; position = loader.next(position)) {
        const StepBatch step = loader.make_step(0, position);
        std::int64_t longest = 0, number = 0, valid = 0;
        for (const Batch& batch : step.micro_batches) {
          BOOST_REQUIRE_EQUAL(batch.length, step.length);
          std::vector<std::int64_t> segments;
          for (std::int64_t row = 0; row < batch.samples; ++row, ++number) {
            const std::int64_t sample = order.sample_at(order.advance(position, number));
            longest = std::max(longest, source.cost(sample));
            std::int64_t at = row * batch.length;
            const auto end = at + batch.length;
            const auto padding = [&](std::int64_t up_to, std::int32_t from) {
              for (; at < up_to; ++at, ++from) {
                BOOST_REQUIRE_EQUAL(batch.tokens[static_cast<std::size_t>(at)], 0);
                BOOST_REQUIRE_EQUAL(batch.labels[static_cast<std::size_t>(at)], ignored_label);
                BOOST_REQUIRE_EQUAL(batch.positions[static_cast<std::size_t>(at)], from);
              }
            };
            for (std::int64_t i = 0; i < source.packing()->documents(sample); ++i) {
              const PackedDocument document = source.packing()->document(sample, i);
              segments.push_back(at);
              const std::int64_t ends = at + rounded_up(document.labels, multiple);
              for (std::int64_t t = 0; t < document.labels; ++t, ++at) {
                const auto place = static_cast<std::size_t>(document.begin + t);
                BOOST_REQUIRE_EQUAL(batch.tokens[static_cast<std::size_t>(at)], made.split.tokens[place]);
                BOOST_REQUIRE_EQUAL(batch.labels[static_cast<std::size_t>(at)], made.split.tokens[place + 1]);
                BOOST_REQUIRE_EQUAL(batch.positions[static_cast<std::size_t>(at)], static_cast<std::int32_t>(t));
                ++valid;
              }
              padding(ends, static_cast<std::int32_t>(document.labels));
            }
            if (at < end) segments.push_back(at);
            padding(end, 0);
          }
          segments.push_back(batch.samples * batch.length);
          BOOST_REQUIRE(batch.documents == segments);
          BOOST_REQUIRE_LE(std::ssize(segments) - 1, batch.samples * source.most_segments());
        }
        BOOST_REQUIRE_EQUAL(valid, step.valid_tokens);
        BOOST_REQUIRE_EQUAL(step.length, pad ? std::min<std::int64_t>(rounded_up(longest, *pad), 24) : 24);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_of_packed_documents_has_each_label_once_on_any_number_of_ranks) {
  const MadeStream made(drawn_lengths(8, 50, 30));
  const TokenStream stream = made.stream();
  for (const PackingMethod method : all_methods) {
    const PackingSettings settings{method, 16, 1, 1000, LongDocuments::split};
    const PackedSource source(stream, make_packing(stream, settings, 1), settings);
    const auto pad = method == PackingMethod::none ? std::optional<std::int64_t>(1) : std::nullopt;
    for (std::int64_t world = 1; world <= 4; ++world) {
      std::map<std::int32_t, int> labels;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        const EvaluationDataLoader loader(source, {8, 3, rank, world, 0, Shuffle::never, {}, pad}, {});
        for (std::int64_t i = 0; i < loader.micro_batches(); ++i)
          for (const std::int32_t label : loader.batch(i).labels)
            if (label != ignored_label) ++labels[label];
      }
      BOOST_REQUIRE_EQUAL(std::ssize(labels), source.packing()->counts().packed_labels);
      BOOST_REQUIRE(std::ranges::all_of(labels, [](const auto& label) { return label.second == 1; }));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_packing_of_other_documents_is_refused_where_it_would_leave_the_stream_or_the_row) {
  const MadeStream made;
  const TokenStream stream = made.stream();
  const PackingSettings settings{PackingMethod::sequential, 16, 1, 1, LongDocuments::split};
  struct Rows {
    std::vector<std::uint64_t> starts, begins;
    std::vector<std::uint32_t> labels;
  };
  const auto tokens = static_cast<std::uint64_t>(stream.tokens());
  for (const Rows& rows : {Rows{{0, 1}, {tokens}, {1}}, Rows{{0, 1}, {tokens - 3}, {3}}, Rows{{0, 1}, {~0ull}, {1}},
                           Rows{{0, 1}, {0}, {0}}, Rows{{0, 1}, {0}, {17}}, Rows{{0, 2}, {0, 20}, {9, 8}},
                           Rows{{0, 1}, {0}, {~0u}}, Rows{{0, 0}, {}, {}}}) {
    const PackedSource source(stream, Packing(rows.starts, rows.begins, rows.labels, {}, {}, nullptr), settings);
    std::vector<std::int32_t> filled(48);
    SampleRow row{std::span(filled).first(16), std::span(filled).subspan(16, 16), std::span(filled).subspan(32)};
    BOOST_CHECK_EXCEPTION(source.fill(0, row), Error, [](const Error& error) {
      return error.code() == ExitCode::input &&
             std::string(error.what()).find("row 0 of the packing is damaged") != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_packed_is_refused_with_the_reason) {
  const MadeStream made;
  const TokenStream stream = made.stream();
  const auto refuses = [&](const PackingSettings& settings, const std::string& reason) {
    BOOST_CHECK_EXCEPTION(make_packing(stream, settings, 1), Error, [&](const Error& error) {
      BOOST_TEST_MESSAGE(error.what());
      return std::string(error.what()).find(reason) != std::string::npos;
    });
  };
  refuses({PackingMethod::sequential, 10, 4, 1, LongDocuments::split}, "multiples of 4, which does not divide 10");
  refuses({PackingMethod::sequential, 0, 1, 1, LongDocuments::split}, "a length of 0 tokens");
  const MadeStream short_ones({1, 1, 30});
  const TokenStream of_short_ones = short_ones.stream();
  BOOST_CHECK_EXCEPTION(make_packing(of_short_ones, {PackingMethod::sequential, 8, 1, 1, LongDocuments::drop}, 1),
                        Error, [](const Error& error) {
                          return std::string(error.what()) ==
                                 "none of 3 documents can be packed: 2 have no label, 0 have only masked labels, 1 are "
                                 "longer than 8 tokens";
                        });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(packing_files)

BOOST_AUTO_TEST_CASE(a_file_gives_the_packing_that_was_written) {
  const MadeStream made(drawn_lengths(9, 3000, 40));
  const TokenStream stream = made.stream();
  const PackingSettings settings{PackingMethod::best_fit, 32, 1, 64, LongDocuments::truncate};
  const std::string identity = identity_of(settings, made.manifest.train);
  const Packing packing = make_packing(stream, settings, 2);
  const Path file = keep_packing({made.path}, identity, packing);
  BOOST_TEST(file == made.path / packing_file_name(identity));
  std::vector<std::string> problems;
  const std::optional<Packing> found = find_packing({"nowhere", made.path}, identity, problems);
  BOOST_REQUIRE(found && problems.empty());
  BOOST_TEST(std::ranges::equal(found->starts(), packing.starts()));
  BOOST_TEST(std::ranges::equal(found->begins(), packing.begins()));
  BOOST_TEST(std::ranges::equal(found->labels(), packing.labels()));
  BOOST_TEST((found->counts() == packing.counts()));
  BOOST_TEST((found->made_from() == hash_of_documents(stream)));
}

BOOST_AUTO_TEST_CASE(a_packing_knows_the_documents_that_it_was_made_from) {
  const MadeStream made({9, 1, 20, 13});
  const MadeStream other({9, 2, 19, 13});
  BOOST_TEST((hash_of_documents(made.stream()) == hash_of_documents(made.stream())));
  BOOST_TEST((hash_of_documents(made.stream()) != hash_of_documents(other.stream())));
}

BOOST_AUTO_TEST_CASE(all_that_changes_a_packing_changes_its_name) {
  MadeStream made;
  const MadeStream other({9, 1, 20, 13, 2, 1, 1, 41, 15});
  const PackingSettings settings{PackingMethod::multipack, 32, 1, 64, LongDocuments::split};
  std::set<std::string> names{packing_file_name(identity_of(settings, made.manifest.train)),
                              packing_file_name(identity_of(settings, other.manifest.train))};
  PackingSettings changed = settings;
  const auto add = [&] {
    names.insert(packing_file_name(identity_of(changed, made.manifest.train)));
    changed = settings;
  };
  changed.method = PackingMethod::best_fit, add();
  changed.length = 64, add();
  changed.multiple = 2, add();
  changed.group = 65, add();
  changed.long_documents = LongDocuments::drop, add();
  BOOST_TEST(names.size() == 7);
  for (const std::string& name : names) BOOST_TEST(is_packing_file(name));
  BOOST_TEST(!is_packing_file("DATASET.json"));
}

BOOST_AUTO_TEST_CASE(a_file_with_any_other_byte_or_cut_anywhere_is_refused_and_another_folder_is_looked_into) {
  const MadeStream made(drawn_lengths(10, 40, 20));
  const TokenStream stream = made.stream();
  const PackingSettings settings{PackingMethod::sequential, 16, 1, 1, LongDocuments::split};
  const std::string identity = identity_of(settings, made.manifest.train);
  const Packing packing = make_packing(stream, settings, 1);
  make_folder(made.path / "a");
  const Path file = keep_packing({made.path / "a"}, identity, packing);
  keep_packing({made.path / "none", made.path / "b"}, identity, packing);
  const std::string sound = read_file(file);
  int refused = 0;
  const auto damaged = [&](const std::string& bytes) {
    publish_file(file, bytes);
    std::vector<std::string> problems;
    const auto found = find_packing({made.path / "a", made.path / "b"}, identity, problems);
    BOOST_REQUIRE(found && std::ranges::equal(found->begins(), packing.begins()));
    for (const std::string& problem : problems) BOOST_REQUIRE(problem.starts_with(file.string() + " cannot be used: "));
    refused += static_cast<int>(problems.size());
  };
  const std::size_t step = std::max<std::size_t>(sound.size() / 150, 1);
  for (std::size_t at = 0; at < sound.size(); at += step) {
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x21);
    damaged(bytes);
    damaged(sound.substr(0, at));
  }
  BOOST_TEST(refused > 150);  // a byte between the datasets may be any
  damaged("");
  publish_file(file, sound);
  BOOST_CHECK_EXCEPTION(open_packing(file, identity + "?"), Error, [](const Error& error) {
    return error.code() == ExitCode::input &&
           std::string(error.what()).find("its name belongs to another packing") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_hands_the_file_to_the_next_one) {
  const MadeStream made;
  const TokenStream stream = made.stream();
  const PackingSettings settings{PackingMethod::sequential, 16, 1, 1, LongDocuments::split};
  const std::string identity = identity_of(settings, made.manifest.train);
  const Packing packing = make_packing(stream, settings, 1);
  const Path none = made.path / "DATASET.json/below";  // no folder can be there
  publish_file(made.path / "DATASET.json", "{}");
  const Path file = keep_packing({none, made.path / "run"}, identity, packing);
  BOOST_TEST(file.parent_path() == made.path / "run");
  BOOST_CHECK_THROW(keep_packing({none}, identity, packing), Error);
  BOOST_TEST(list_folder(made.path / "run").size() == 1);
}

BOOST_AUTO_TEST_CASE(a_packing_that_is_cut_short_while_it_is_read_is_an_error_of_storage_that_names_it) {
  const MadeStream made(drawn_lengths(11, 3000, 20));
  const TokenStream stream = made.stream();
  const PackingSettings settings{PackingMethod::sequential, 16, 1, 1, LongDocuments::split};
  const std::string identity = identity_of(settings, made.manifest.train);
  const Path file = keep_packing({made.path}, identity, make_packing(stream, settings, 1));
  const PackedSource source(stream, open_packing(file, identity), settings);
  std::vector<std::int32_t> filled(48);
  const auto fill = [&](std::int64_t sample) {
    SampleRow row{std::span(filled).first(16), std::span(filled).subspan(16, 16), std::span(filled).subspan(32)};
    source.fill(sample, row);
  };
  fill(0);
  std::filesystem::resize_file(file, 2 * 4096 + 100);
  for (const std::int64_t sample : {std::int64_t{0}, source.samples() / 2, source.samples() - 1})
    BOOST_CHECK_EXCEPTION(fill(sample), Error, [&](const Error& error) {
      return error.code() == ExitCode::storage &&
             std::string(error.what()).find(file.string() + " from byte 8292 on") != std::string::npos;
    });
}

BOOST_AUTO_TEST_SUITE_END()
