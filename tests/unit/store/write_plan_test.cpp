#include "store/write_plan.hpp"
#include "base/random.hpp"
#include "store/checkpoint_plan.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <numeric>

using namespace lockstep;

namespace {

// By brute force: for each element of the tensor, the ranks whose box holds it.
std::map<std::int64_t, std::vector<Rank>> holders_by_element(const Layout& layout) {
  std::map<std::int64_t, std::vector<Rank>> result;
  for (Rank rank = 0; rank < world_size(layout.mesh); ++rank) {
    const Box box = box_of(layout, rank);
    if (empty(box)) continue;
    for (std::int64_t i = 0; i < elements(layout.global); ++i) {
      std::int64_t rest = i;
      bool inside = true;
      for (std::size_t d = layout.global.size(); d-- > 0; rest /= layout.global[d]) {
        const std::int64_t at = rest % layout.global[d];
        inside = inside && at >= box.begin[d] && at < box.begin[d] + box.extent[d];
      }
      if (inside) result[i].push_back(rank);
    }
  }
  return result;
}

bool holds(const Box& box, const Shape& shape, std::int64_t element) {
  for (std::size_t d = shape.size(); d-- > 0; element /= shape[d]) {
    const std::int64_t at = element % shape[d];
    if (at < box.begin[d] || at >= box.begin[d] + box.extent[d]) return false;
  }
  return true;
}

// Each element of each tensor is in exactly one item, whose writer holds it.
void check_against_elements(const std::vector<Layout>& layouts, std::uint64_t limit) {
  std::vector<std::vector<Holding>> holdings;
  std::vector<int> sizes;
  for (const Layout& layout : layouts) {
    holdings.push_back(holdings_of(layout));
    sizes.push_back(size_of(layout.dtype));
  }
  const auto items = plan_writes(holdings, sizes, limit);
  for (std::size_t tensor = 0; tensor < layouts.size(); ++tensor) {
    const Layout& layout = layouts[tensor];
    const auto holders = holders_by_element(layout);
    BOOST_TEST(static_cast<std::int64_t>(holders.size()) == elements(layout.global));
    for (std::int64_t i = 0; i < elements(layout.global); ++i) {
      std::vector<Rank> writers;
      for (const WriteItem& item : items) {
        if (item.tensor == tensor && holds(item.box, layout.global, i)) writers.push_back(item.writer);
      }
      BOOST_REQUIRE_EQUAL(writers.size(), 1u);
      const auto& allowed = holders.at(i);
      BOOST_REQUIRE(std::find(allowed.begin(), allowed.end(), writers.front()) != allowed.end());
    }
    for (const WriteItem& item : items) {
      const bool small = elements(item.box) * size_of(layout.dtype) <= static_cast<std::int64_t>(limit);
      BOOST_TEST((item.tensor != tensor || small || item.box.extent[0] == 1));
    }
  }
}

const Mesh mesh = make_mesh("world", {{"pp", 2}, {"dp_replicate", 2}, {"dp_shard", 3}, {"tp", 2}});

Layout laid_out(Shape shape, std::vector<Split> splits, std::vector<Pin> pins = {}) {
  return {std::move(shape), DType::f32, mesh, std::move(splits), std::move(pins)};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(write_plan)

BOOST_AUTO_TEST_CASE(every_element_is_written_once_by_a_rank_that_holds_it) {
  const Pin first{"pp", {0}};
  const Pin last{"pp", {1}};
  const Pin ends{"pp", {0, 1}};
  const Split shard{{"dp_shard"}, 0, 1, 0};
  const Split rows{{"tp"}, 0, 1, 0};
  const Split columns{{"tp"}, 1, 1, 0};
  const std::vector<Layout> layouts{
      laid_out({12, 5}, {}),                       // replicated everywhere
      laid_out({13, 4}, {shard}, {first}),         // uneven
      laid_out({2, 7}, {shard}, {last}),           // an empty chunk
      laid_out({10, 6}, {rows, shard}, {first}),   // both on one dim
      laid_out({9, 8}, {columns, shard}, {last}),  // on two dims
      laid_out({9, 4}, {{{"dp_replicate", "dp_shard"}, 0, 1, 0}}, {ends}),
      laid_out({}, {}, {first}),  // a scalar
      laid_out({0, 4}, {shard}),  // no elements
      laid_out({3}, {}, {last}),
      laid_out({4, 6, 2}, {{{"tp"}, 1, 3, 0}, {{"dp_shard"}, 2, 1, 0}}, {first}),
  };
  for (const std::uint64_t limit : {std::uint64_t{8}, std::uint64_t{40}, std::uint64_t{1} << 20})
    check_against_elements(layouts, limit);
}

BOOST_AUTO_TEST_CASE(random_layouts_are_written_once_too) {
  const RandomStream random(11, "layouts");
  std::uint64_t draw = 0;
  const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(random.below(draw++, bound)); };
  for (int trial = 0; trial < 60; ++trial) {
    const Mesh small = make_mesh("world", {{"dp_replicate", 1 + static_cast<int>(below(3))},
                                           {"dp_shard", 1 + static_cast<int>(below(4))},
                                           {"tp", 1 + static_cast<int>(below(3))}});
    std::vector<Layout> layouts;
    for (int tensor = 0; tensor < 4; ++tensor) {
      Layout layout{{below(8), 1 + below(8), 1 + below(4)}, below(2) == 0 ? DType::bf16 : DType::f64, small, {}, {}};
      if (below(2) == 0) layout.splits.push_back({{"tp"}, static_cast<int>(below(3)), 1 + below(2), 0});
      if (below(2) == 0) layout.splits.push_back({{"dp_shard"}, static_cast<int>(below(3)), 1, 0});
      layouts.push_back(layout);
    }
    check_against_elements(layouts, 1 + static_cast<std::uint64_t>(below(64)));
  }
}

// Who plans one part alone, knowing nothing but what its ranks hold, plans of it what all plan together.
BOOST_AUTO_TEST_CASE(a_part_is_planned_alone_as_all_are_together) {
  const RandomStream random(12, "parts");
  std::uint64_t draw = 0;
  const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(random.below(draw++, bound)); };
  for (int trial = 0; trial < 60; ++trial) {
    const Mesh small = make_mesh("world", {{"pp", 1 + static_cast<int>(below(2))},
                                           {"dp_replicate", 1 + static_cast<int>(below(3))},
                                           {"dp_shard", 1 + static_cast<int>(below(4))},
                                           {"tp", 1 + static_cast<int>(below(4))}});
    std::vector<int> part_of_rank(static_cast<std::size_t>(world_size(small)));
    const std::int64_t ranks_per_file = 1 + below(4);
    for (std::size_t rank = 0; rank < part_of_rank.size(); ++rank)
      part_of_rank[rank] = static_cast<int>(static_cast<std::int64_t>(rank) / ranks_per_file);
    const std::vector<StoredComponent> components{
        {"model", Pattern::replicated},
        {"sampled", Pattern::replicated, {}, true, below(2) == 0 ? Validation::quick : Validation::tensor},
        {"trainer", Pattern::global}};
    std::vector<StoredTensor> tensors;
    for (int tensor = 0; tensor < 8; ++tensor) {
      Layout layout{{below(8), 1 + below(8), 1 + below(4)}, below(2) == 0 ? DType::bf16 : DType::f64, small, {}, {}};
      const bool shares = below(2) == 0 && layout.global[0] > 0;  // neighbours along tp have the same rows
      if (shares) layout.splits.push_back({{"tp"}, 0, 1, 2});
      if (!shares && below(2) == 0) layout.splits.push_back({{"tp"}, static_cast<int>(below(3)), 1 + below(2), 0});
      if (below(2) == 0) layout.splits.push_back({{"dp_shard"}, static_cast<int>(below(3)), 1, 0});
      if (below(2) == 0) layout.pins.push_back({"pp", {static_cast<int>(below(2)) % small.axes[0].size}});
      tensors.push_back({.component = components[static_cast<std::size_t>(below(3))].key,
                         .name = fmt::format("t{}", tensor),
                         .layout = std::move(layout)});
    }
    const auto component_of = [&](const StoredTensor& tensor) {
      return *std::ranges::find(components, tensor.component, &StoredComponent::key);
    };
    std::vector<std::vector<Holding>> holdings;
    for (const StoredTensor& tensor : tensors)
      holdings.push_back(holders_of(tensor, component_of(tensor), world_size(small)));
    const CheckpointPlan whole = plan_checkpoint(tensors, holdings, components, part_of_rank);
    std::size_t files = 0, pieces = 0;
    for (int part = 0; part <= part_of_rank.back(); ++part) {
      std::vector<Rank> ranks;
      for (Rank rank = 0; rank < world_size(small); ++rank)
        if (part_of_rank[static_cast<std::size_t>(rank)] == part) ranks.push_back(rank);
      std::vector<std::vector<Holding>> held;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        held.push_back(holders_of(tensors[i], component_of(tensors[i]), world_size(small), ranks));
        for (const Holding& holding : held.back()) {  // as brute force finds it
          const auto same = std::ranges::find(holdings[i], holding.box, &Holding::box);
          BOOST_REQUIRE((same != holdings[i].end()));
          BOOST_TEST(same->ranks == holding.ranks);
          BOOST_TEST(
              std::ranges::any_of(ranks, [&](Rank rank) { return std::ranges::binary_search(same->ranks, rank); }));
        }
        BOOST_TEST(std::ssize(held.back()) == std::ranges::count_if(holdings[i], [&](const Holding& holding) {
                     return std::ranges::any_of(
                         ranks, [&](Rank rank) { return std::ranges::binary_search(holding.ranks, rank); });
                   }));
      }
      const CheckpointPlan alone = plan_part(tensors, held, components, part_of_rank, part);
      BOOST_TEST(alone.folders == whole.folders);
      for (const PlannedFile& file : alone.files) {
        const auto same = std::ranges::find(whole.files, file.path, &PlannedFile::path);
        BOOST_REQUIRE((same != whole.files.end()));
        BOOST_TEST(file.leader == same->leader);
        BOOST_TEST(file.writers == same->writers);
        BOOST_REQUIRE(file.pieces.size() == same->pieces.size());
        for (std::size_t k = 0; k < file.pieces.size(); ++k) {
          const WriteItem& mine = alone.pieces[file.pieces[k]];
          const WriteItem& theirs = whole.pieces[same->pieces[k]];
          BOOST_TEST((mine.tensor == theirs.tensor && mine.box == theirs.box && mine.writer == theirs.writer));
        }
        BOOST_REQUIRE(file.tensors.size() == same->tensors.size());
        for (std::size_t k = 0; k < file.tensors.size(); ++k)
          BOOST_TEST((file.tensors[k].first == same->tensors[k].first &&
                      file.tensors[k].count == same->tensors[k].count &&
                      file.tensors[k].by_layout == same->tensors[k].by_layout));
        ++files;
        pieces += file.pieces.size();
      }
      for (std::size_t i = 0; i < alone.pieces.size(); ++i)
        BOOST_TEST((alone.file_of_piece[i] == elsewhere) ==
                   (part_of_rank[static_cast<std::size_t>(alone.pieces[i].writer)] != part));
    }
    BOOST_TEST(files == whole.files.size());
    BOOST_TEST(pieces == whole.pieces.size());
  }
}

BOOST_AUTO_TEST_CASE(replicas_share_the_writing_evenly) {
  for (const int ranks : {2, 3, 4, 7, 16}) {
    const Mesh dp = make_mesh("world", {{"dp_replicate", ranks}});
    std::vector<std::vector<Holding>> holdings;
    std::vector<int> sizes;
    std::uint64_t total = 0;
    const auto add = [&](Shape shape) {
      total += static_cast<std::uint64_t>(elements(shape)) * 4;
      holdings.push_back(holdings_of(replicated(std::move(shape), DType::f32, dp)));
      sizes.push_back(4);
    };
    add({50257, 768});
    add({1024, 768});
    for (int layer = 0; layer < 12; ++layer) {
      add({768, 2304});
      add({2304});
      add({768, 768});
      add({768});
      add({768, 3072});
      add({3072, 768});
    }
    std::vector<std::uint64_t> load(static_cast<std::size_t>(ranks), 0);
    for (const WriteItem& item : plan_writes(holdings, sizes, piece_limit(total, ranks))) {
      load[static_cast<std::size_t>(item.writer)] += static_cast<std::uint64_t>(elements(item.box)) * 4;
    }
    BOOST_TEST(std::accumulate(load.begin(), load.end(), std::uint64_t{0}) == total);
    const double mean = static_cast<double>(total) / ranks;
    BOOST_TEST(static_cast<double>(*std::max_element(load.begin(), load.end())) / mean <= 1.05);
  }
}

BOOST_AUTO_TEST_CASE(sharded_state_is_written_where_it_is) {
  const Mesh fsdp = make_mesh("world", {{"dp_shard", 4}});
  const Layout layout{{9, 3}, DType::f32, fsdp, {{{"dp_shard"}, 0, 1, 0}}, {}};
  const auto holdings = holdings_of(layout);
  BOOST_TEST(holdings.size() == 3u);  // 3, 3, 3 rows and nothing
  const int size = 4;
  for (const WriteItem& item : plan_writes(std::span(&holdings, 1), std::span(&size, 1), 1 << 20))
    BOOST_TEST((item.box == box_of(layout, item.writer)));
}

BOOST_AUTO_TEST_CASE(holes_overlaps_and_strays_are_named) {
  const std::vector<Box> hole{{{0, 0}, {2, 4}}, {{3, 0}, {2, 4}}};
  BOOST_TEST(coverage_defect({5, 4}, hole).value() == "4 of 20 elements are missing");
  const std::vector<Box> overlap{{{0, 0}, {3, 4}}, {{2, 0}, {3, 4}}};
  BOOST_TEST(coverage_defect({5, 4}, overlap).value() == "[0:3, 0:4] and [2:5, 0:4] overlap");
  const std::vector<Box> stray{{{0, 0}, {6, 4}}};
  BOOST_TEST(coverage_defect({5, 4}, stray).value() == "[0:6, 0:4] lies outside of (5, 4)");
  const std::vector<Box> twice{{{}, {}}, {{}, {}}};
  BOOST_TEST(coverage_defect({}, twice).has_value());
  const std::vector<Box> right{{{0, 0}, {5, 1}}, {{0, 1}, {2, 3}}, {{2, 1}, {3, 3}}};
  BOOST_TEST(!coverage_defect({5, 4}, right).has_value());
  BOOST_TEST(!coverage_defect({0, 4}, {}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
