// What lies in host memory comes to the device for its use, two units at most at once, and a program that forgets it is
// caught.
#include "program/memory_estimate.hpp"
#include "program/verify.hpp"
#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace lockstep;

namespace {

/// Ten blocks, each with one unit, over so many shards.
ModelPlan ten_units(int shards) {
  std::vector<BlockPlan> blocks;
  std::vector<ParameterPlan> parameters;
  for (int block = 0; block < 10; ++block) {
    blocks.push_back({fmt::format("block.{}", block), 10, block == 9 ? 0 : 1, 0, 1, 2, false});
    parameters.push_back({fmt::format("w{}", block), {1000}, {block}});
  }
  return models::plan_of(blocks, parameters, {DType::f32, DType::bf16, models::moments(DType::f32)}, 0,
                         shards > 1 ? Sharding{{"dp_shard"}, shards} : Sharding{});
}

struct Offloaded {
  ModelPlan plan;
  ProgramOptions options;
  StepProgram train;
  Offloaded(int shards, const OffloadOptions& offload, bool in_backward = false) : plan(ten_units(shards)) {
    options.offload = offload;
    options.update = {.clips = !in_backward, .heartbeat_bytes = 88, .in_backward = in_backward};
    train = make_catalogue(make_mesh("world", {{"dp_shard", shards}}), plan, options).train;
  }
  RankClass& ranks() { return train.classes.front(); }
  /// Of slots of a kind on the device, the most at once by the plan of memory.
  std::size_t most_at_once(SlotKind kind) {
    std::int64_t bytes = 0;
    for (const Slot& slot : ranks().slots)
      if (slot.kind == kind && slot.arena == Arena::device) bytes = slot.bytes;
    // The same list with nothing but these slots: its peak counts them.
    RankClass alone = ranks();
    for (Slot& slot : alone.slots)
      if (slot.kind != kind || slot.arena != Arena::device) slot.bytes = 0;
    return bytes == 0 ? 0 : static_cast<std::size_t>(memory_of(alone).peak_bytes / bytes);
  }
  Action& first(Op op) { return *std::ranges::find(ranks().actions, op, &Action::op); }
  std::string fault() const {
    const auto found = find_fault(train, plan, ProgramPhase::training, options);
    return found ? to_text(train, *found) : "";
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(offloads)

BOOST_AUTO_TEST_CASE(the_device_holds_what_two_units_need_of_host_memory_at_most) {
  for (const bool in_backward : {false, true}) {
    for (const int shards : {1, 4}) {
      Offloaded optimizer(shards, {.optimizer = true}, in_backward);
      BOOST_TEST(optimizer.most_at_once(SlotKind::fetched_state) == 2);
      BOOST_TEST(optimizer.most_at_once(SlotKind::optimizer_state) == 0);
    }
    Offloaded shards(4, {.shards = true}, in_backward);
    BOOST_TEST(shards.most_at_once(SlotKind::fetched_state) == 2);
    BOOST_TEST(shards.most_at_once(SlotKind::fetched_weights) <= 2);
    for (const SlotKind kind :
         {SlotKind::master, SlotKind::compute_copy, SlotKind::gradient, SlotKind::optimizer_state})
      BOOST_TEST(shards.most_at_once(kind) == 0);
    BOOST_TEST(shards.most_at_once(SlotKind::step_gradient) <= 3);  // summed, measured, and on its way out
  }
}

BOOST_AUTO_TEST_CASE(what_is_offloaded_is_counted_in_host_memory_and_limited_there) {
  Offloaded plain(4, {}), shards(4, {.shards = true});
  const auto held = [](RankClass& ranks) {
    std::int64_t sum = 0;
    for (const Slot& slot : ranks.slots) sum += lives_all_run(slot.kind) ? slot.bytes : 0;
    return sum;
  };
  BOOST_TEST(memory_of(plain.ranks(), Arena::host).peak_bytes == 0);
  BOOST_TEST(memory_of(shards.ranks(), Arena::host).peak_bytes == held(plain.ranks()));
  BOOST_CHECK_EXCEPTION(Offloaded(4, {.shards = true, .host_limit_bytes = 100}), Error, [](const Error& error) {
    return error.code() == ExitCode::resources &&
           std::string(error.what()).find("of host memory, the limit is 100 B") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_program_that_forgets_a_copy_or_its_order_is_caught) {
  const auto told = [](const auto& change) {
    Offloaded made(4, {.shards = true});
    BOOST_REQUIRE(made.fault().empty());
    change(made);
    return made.fault();
  };
  const auto has = [](const std::string& text, std::string_view words) {
    return text.find(words) != std::string::npos;
  };
  std::string found = told([](Offloaded& made) { made.first(Op::optimizer).waits.clear(); });
  BOOST_TEST(has(found, "may start before action"), found);
  found = told([](Offloaded& made) { made.first(Op::unshard).waits.clear(); });
  BOOST_TEST(has(found, "may use fetched_weights of unit block.0"), found);
  found = told([](Offloaded& made) { made.first(Op::offload_state).op = Op::fetch_state; });
  BOOST_TEST(!found.empty());
  found = told([](Offloaded& made) { made.first(Op::offload_gradient).waits.clear(); });
  BOOST_TEST(has(found, "may start before action"), found);
  found = told([](Offloaded& made) { made.first(Op::fetch_state).bytes += 4; });
  BOOST_TEST(has(found, "carries"), found);
  found = told([](Offloaded& made) { made.first(Op::fetch_weights).lane = Lane::compute; });
  BOOST_TEST(has(found, "is on the compute lane"), found);
}

BOOST_AUTO_TEST_SUITE_END()
