#include "checkpoint/node_view.hpp"
#include "layout/mesh.hpp"
#include "store/checkpoint_plan.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(node_view)

namespace {

const std::vector<std::string> names{"alpha", "beta", "gamma"};

/// What a node tells that has this manifest, and of its files those that are 1.
std::string node(const std::string& manifest, const std::vector<int>& files) {
  Sighting sighting;
  sighting.manifest = manifest;
  for (const int file : files)
    sighting.defects.push_back(file == 1 ? std::nullopt : std::optional<std::string>("gone"));
  return encode_sighting(sighting);
}

std::string node(Verdict verdict, const std::string& reason) {
  Sighting sighting;
  sighting.judgement = {verdict, reason};
  return encode_sighting(sighting);
}

NodesSighting seen_by(const std::vector<std::string>& told) { return combine_sightings(told, names); }

using Storages = std::vector<std::size_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_checkpoint_counts_where_each_file_lies_on_some_node) {
  const NodesSighting seen = seen_by({node("m", {1, 0, 1}), node("m", {0, 1, 1}), encode_sighting({})});
  BOOST_TEST((seen.judgement.verdict == Verdict::sound));
  BOOST_TEST((seen.have_it == Storages{0, 1}));
  BOOST_TEST((seen.storages_of_file == std::vector<Storages>{{0}, {1}, {0, 1}}));
}

BOOST_AUTO_TEST_CASE(a_file_that_no_node_has_is_damage) {
  const NodesSighting seen = seen_by({node("m", {1, 0, 1}), node("m", {0, 0, 1}), encode_sighting({})});
  BOOST_TEST((seen.judgement.verdict == Verdict::damaged));
  BOOST_TEST(seen.lacking.value() == 1);
  BOOST_TEST(
      (seen_by({encode_sighting({}), encode_sighting({}), encode_sighting({})}).judgement.verdict == Verdict::damaged));
}

BOOST_AUTO_TEST_CASE(files_beside_another_manifest_are_of_another_save) {
  const NodesSighting mixed = seen_by({node("new", {1, 0}), node("old", {0, 1}), node("old", {0, 1})});
  BOOST_TEST((mixed.judgement.verdict == Verdict::damaged));
  const NodesSighting whole = seen_by({node("new", {1, 0}), node("old", {0, 1}), node("old", {1, 0})});
  BOOST_TEST((whole.judgement.verdict == Verdict::sound));
  BOOST_TEST((whole.have_it == Storages{1, 2}));
}

BOOST_AUTO_TEST_CASE(what_one_node_cannot_read_or_does_not_know_is_told_of_it) {
  const NodesSighting failed =
      seen_by({node("m", {1}), node(Verdict::unreadable, "input/output error"), node("m", {1})});
  BOOST_TEST((failed.judgement.verdict == Verdict::unreadable));
  BOOST_TEST(failed.judgement.reason == "beta: input/output error");
  const NodesSighting newer = seen_by({node("m", {1}), node("m", {1}), node(Verdict::foreign, "a newer format")});
  BOOST_TEST((newer.judgement.verdict == Verdict::foreign));
  const NodesSighting one = seen_by({node(Verdict::damaged, "no JSON"), node("m", {1, 1}), node("m", {1, 1})});
  BOOST_TEST((one.judgement.verdict == Verdict::sound));
  const NodesSighting needed = seen_by({node(Verdict::damaged, "no JSON"), node("m", {1, 0}), node("m", {1, 0})});
  BOOST_TEST((needed.judgement.verdict == Verdict::damaged));
  BOOST_TEST(needed.judgement.reason == "alpha: no JSON");
}

BOOST_AUTO_TEST_CASE(ranks_of_two_storages_write_to_no_part_together) {
  const World world{make_mesh("world", {{"dp_replicate", 6}}), {0, 0, 0, 1, 1, 1}, {"alpha", "beta"}};
  const RunStorage storage = storage_of_nodes(world);
  BOOST_TEST((parts_of_ranks(world, {}, storage) == std::vector<int>{0, 0, 0, 1, 1, 1}));
  BOOST_TEST((parts_of_ranks(world, 2, storage) == std::vector<int>{0, 0, 1, 2, 2, 3}));
  BOOST_TEST((parts_of_ranks(world, 2) == std::vector<int>{0, 0, 1, 1, 2, 2}));
  BOOST_TEST((storage.keepers() == std::vector<Rank>{0, 3}));
  BOOST_TEST(storage.node_of(4) == "beta");
}

BOOST_AUTO_TEST_SUITE_END()
