// Where rows go that ranks send to each other's experts, against rows that are carried there one by one.
#include "tensor/functions/parallel_experts.hpp"
#include "base/rounding.hpp"

#include <boost/test/unit_test.hpp>

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <compare>
#include <numeric>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(experts_of_several_ranks)

using namespace lockstep;

namespace {

/// One row, in the order in which experts take rows.
struct Row {
  std::int64_t expert = 0, from = 0, number = 0;
  auto operator<=>(const Row&) const = default;
};

/// How many rows of each rank go to each expert.
struct Table {
  std::int64_t ranks = 1, experts = 1;
  std::vector<std::int64_t> counts;

  std::int64_t of(std::int64_t from, std::int64_t expert) const {
    return counts[static_cast<std::size_t>(from * experts + expert)];
  }
  std::int64_t total() const { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }
  at::Tensor tensor() const {
    const at::Tensor table = at::zeros({ranks, experts}, at::TensorOptions().dtype(at::kDouble));
    std::ranges::copy(counts, table.mutable_data_ptr<double>());
    return table;
  }
  /// As a rank has them: grouped by expert.
  std::vector<Row> rows_of(std::int64_t from) const {
    std::vector<Row> rows;
    for (std::int64_t expert = 0; expert < experts; ++expert)
      for (std::int64_t number = 0; number < of(from, expert); ++number) rows.push_back({expert, from, number});
    return rows;
  }
  /// That the experts of a rank are due, in order.
  std::vector<Row> rows_for(std::int64_t to) const {
    std::vector<Row> rows;
    const std::int64_t each = experts / ranks;
    for (std::int64_t from = 0; from < ranks; ++from)
      for (const Row& row : rows_of(from))
        if (row.expert / each == to) rows.push_back(row);
    std::ranges::sort(rows);
    return rows;
  }
};

std::string words(const Table& table, double capacity) {
  std::string text = "capacity " + std::to_string(capacity) + ", ranks " + std::to_string(table.ranks) + ", rows";
  for (const std::int64_t count : table.counts) text += " " + std::to_string(count);
  return text;
}

/// Rows anywhere, or all of them with one expert, or none from some ranks, or none for some experts.
Table random_table(std::mt19937& engine, std::int64_t ranks) {
  const auto roll = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); };
  Table table{.ranks = ranks, .experts = ranks * roll(1, 3), .counts = {}};
  const int kind = roll(0, 3), most = roll(0, 9), chosen = roll(0, static_cast<int>(table.experts) - 1);
  std::vector<bool> silent;  // ranks, and experts that nobody asks
  for (std::int64_t i = 0; i < ranks + table.experts; ++i) silent.push_back(kind == 2 && roll(0, 1) == 0);
  for (std::int64_t from = 0; from < ranks; ++from)
    for (std::int64_t expert = 0; expert < table.experts; ++expert) {
      const bool none = (kind == 1 && expert != chosen) || silent[static_cast<std::size_t>(from)] ||
                        silent[static_cast<std::size_t>(ranks + expert)];
      table.counts.push_back(none ? 0 : roll(0, most));
    }
  return table;
}

/// What a rank is given in a round: of each rank in turn the rows that this says it sends there.
std::vector<Row> arrived_at(const Table& table, std::int64_t to, const std::vector<ExpertRoutePlan::Round>& rounds) {
  std::vector<Row> arrived;
  for (std::int64_t from = 0; from < table.ranks; ++from) {
    const ExpertRoutePlan::Round& round = rounds[static_cast<std::size_t>(from)];
    const std::vector<Row> rows = table.rows_of(from);
    const std::int64_t first = round.first[static_cast<std::size_t>(to)],
                       sent = round.sent[static_cast<std::size_t>(to)];
    BOOST_REQUIRE(sent == rounds[static_cast<std::size_t>(to)].received[static_cast<std::size_t>(from)]);
    BOOST_REQUIRE((first >= 0 && sent >= 0 && first + sent <= std::ssize(rows)));
    arrived.insert(arrived.end(), rows.begin() + first, rows.begin() + first + sent);
  }
  return arrived;
}

/// The same as experts take them. Each row has one place.
std::vector<Row> grouped(const std::vector<Row>& arrived, const ExpertRoutePlan::Round& round) {
  std::vector<Row> rows(arrived.size(), Row{-1, -1, -1});
  std::vector<int> taken(arrived.size());
  for (const auto& [from, to, count] : round.segments)
    for (std::int64_t i = 0; i < count; ++i) {
      rows.at(static_cast<std::size_t>(to + i)) = arrived.at(static_cast<std::size_t>(from + i));
      ++taken[static_cast<std::size_t>(from + i)];
    }
  BOOST_REQUIRE(std::ranges::all_of(taken, [](int times) { return times == 1; }));
  return rows;
}

void check_offsets(const std::vector<Row>& rows, const ExpertRoutePlan::Round& round, std::int64_t first_expert) {
  const auto* const offsets = round.offsets.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < round.offsets.numel(); ++i)
    BOOST_REQUIRE(offsets[i] ==
                  std::ranges::count_if(rows, [&](const Row& row) { return row.expert < first_expert + i; }));
}

/// `quarters` of a capacity.
void check_ways(const Table& table, std::int64_t quarters) {
  const double capacity = static_cast<double>(quarters) / 4;
  std::vector<ExpertRoutePlan> ways;
  for (std::int64_t rank = 0; rank < table.ranks; ++rank)
    ways.emplace_back(table.tensor(), static_cast<int>(rank), capacity);
  for (const ExpertRoutePlan& way : ways) BOOST_REQUIRE(way.rounds() == ways.front().rounds());
  BOOST_REQUIRE(ways.front().rounds() <= ceil_div(4 * table.ranks, quarters));
  const std::int64_t at_once = ceil_div(quarters * table.total(), 4 * table.ranks);
  std::vector<std::vector<Row>> taken(ways.size());  // by rank, over all rounds
  for (std::int64_t number = 0; number < ways.front().rounds(); ++number) {
    std::vector<ExpertRoutePlan::Round> rounds;
    for (const ExpertRoutePlan& way : ways) rounds.push_back(way.round(number));
    for (std::int64_t to = 0; to < table.ranks; ++to) {
      const ExpertRoutePlan::Round& round = rounds[static_cast<std::size_t>(to)];
      const std::vector<Row> rows = grouped(arrived_at(table, to, rounds), round);
      BOOST_REQUIRE(round.taken() == std::ssize(rows));
      BOOST_REQUIRE(round.taken() <= at_once);
      check_offsets(rows, round, to * (table.experts / table.ranks));
      std::vector<Row>& all = taken[static_cast<std::size_t>(to)];
      all.insert(all.end(), rows.begin(), rows.end());
    }
  }
  for (std::int64_t to = 0; to < table.ranks; ++to)
    BOOST_REQUIRE((taken[static_cast<std::size_t>(to)] == table.rows_for(to)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(over_all_rounds_each_row_goes_once_to_its_expert_in_order_and_never_more_than_fit) {
  std::mt19937 engine(1);
  for (std::int64_t ranks = 1; ranks <= 5; ++ranks)
    for (int trial = 0; trial < 200; ++trial) {
      const Table table = random_table(engine, ranks);
      for (const std::int64_t quarters : {4L, 5L, 6L, 8L, 11L, 4 * ranks, 40L}) {
        BOOST_TEST_CONTEXT(words(table, static_cast<double>(quarters) / 4)) { check_ways(table, quarters); }
      }
    }
}

BOOST_AUTO_TEST_CASE(a_table_without_rows_has_one_round_in_which_nothing_goes) {
  const ExpertRoutePlan ways(at::zeros({3, 6}, at::TensorOptions().dtype(at::kDouble)), 1, 1);
  BOOST_TEST(ways.rounds() == 1);
  const ExpertRoutePlan::Round round = ways.round(0);
  BOOST_TEST(round.taken() == 0);
  BOOST_TEST(round.segments.empty());
  BOOST_TEST(round.sent == std::vector<std::int64_t>(3), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rows_that_all_go_to_one_rank_take_as_many_rounds_as_ranks_over_capacity) {
  for (const auto& [capacity, rounds] : {std::pair{1.0, 4}, {1.5, 3}, {2.0, 2}, {4.0, 1}}) {
    Table table{.ranks = 4, .experts = 4, .counts = std::vector<std::int64_t>(16)};
    for (std::size_t from = 0; from < 4; ++from) table.counts[4 * from + 2] = 8;
    for (int rank = 0; rank < 4; ++rank) BOOST_TEST(ExpertRoutePlan(table.tensor(), rank, capacity).rounds() == rounds);
  }
}

BOOST_AUTO_TEST_SUITE_END()
