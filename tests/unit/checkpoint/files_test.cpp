// Which files a checkpoint has, who writes them, and which of them a reader opens.
#include "base/error.hpp"
#include "checkpoint/load_checkpoint.hpp"
#include "checkpoint/save.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "store/checkpoint_plan.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/retention.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <map>
#include <set>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(checkpoint_files)

namespace {

std::set<std::string> parts_in(const Path& checkpoint) {
  std::set<std::string> parts;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(checkpoint))
    if (entry.path().filename().string().starts_with("part-"))
      parts.insert(entry.path().lexically_relative(checkpoint).string());
  return parts;
}

// State of a node: its ranks have it alike.
Component node_component(std::vector<std::byte>& state, const World& world) {
  Component component;
  component.key = "cache";
  component.pattern = Pattern::per_node;
  component.collect = [&state, &world] {
    StateTree tree;
    tree.add("rows", replicated({std::ssize(state)}, DType::u8, world.mesh), state);
    tree.set("bytes", state.size());
    return tree;
  };
  return component;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(ranks_of_a_node_write_one_part_of_each_pattern_together, TemporaryFolder) {
  for (const std::vector<int>& nodes : {std::vector<int>{0, 0, 1, 1}, {0, 1, 0, 1}, {}}) {
    const Path run = path / fmt::format("{}", fmt::join(nodes, "-"));
    const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}, {"dp_shard", 2}});
    const World world{mesh, nodes, nodes.empty() ? std::vector<std::string>{} : std::vector<std::string>{"ant", "bee"}};
    const auto with_all = [&](Job& job, std::vector<std::byte>& cache) {
      auto components = job.components();
      components.push_back(job.rng_component());
      components.push_back(node_component(cache, world));
      return components;
    };
    const auto cache_of = [&](Rank rank) {
      return std::vector<std::byte>(
          100, static_cast<std::byte>(nodes.empty() ? 7 : 7 + nodes[static_cast<std::size_t>(rank)]));
    };
    on_ranks(4, [&](Communicator& ranks) {
      Job job(world, ranks.rank(), sharded_model(mesh), Pattern::per_group, {"dp_replicate"});
      job.advance_to(3);
      std::vector<std::byte> cache = cache_of(ranks.rank());
      SaveRequest request = job.request(run);
      request.ranks_per_file.reset();
      save(ranks, with_all(job, cache), request);
    });
    const Path checkpoint = checkpoint_folder(run, 3);
    std::set<std::string> expected{"global/part-0000.h5"};
    for (const char* const pattern : {"per_group", "per_rank", "per_node"})
      for (int node = 0; node < (nodes.empty() ? 1 : 2); ++node)
        expected.insert(fmt::format("{}/part-{:04}.h5", pattern, node));
    BOOST_TEST(parts_in(checkpoint) == expected, boost::test_tools::per_element());
    BOOST_TEST(verify_checkpoint(checkpoint, VerifyLevel::fingerprints).defects.empty());
    const Manifest manifest = read_manifest(checkpoint);
    BOOST_REQUIRE_EQUAL(manifest.nodes.size(), nodes.empty() ? 0u : 2u);
    if (!nodes.empty()) BOOST_TEST(manifest.nodes[1].name == "bee");
    BOOST_TEST((world_of(manifest).node_of_rank == nodes));
    BOOST_TEST(find_component(manifest, "cache")->cells.size() == (nodes.empty() ? 1u : 2u));
    BOOST_TEST(find_component(manifest, "rng")->cells.size() == 4u);
    on_ranks(4, [&](Communicator& ranks) {
      Job job(world, ranks.rank(), sharded_model(mesh), Pattern::per_group, {"dp_replicate"});
      std::vector<std::byte> cache(100);
      load(ranks, world, CheckpointReader(checkpoint), with_all(job, cache));
      if (job.wrong_bytes(3) != 0 || cache != cache_of(ranks.rank()) || job.restored_rank != ranks.rank())
        fail(ExitCode::bug, "rank {} has another state", ranks.rank());
    });
  }
}

BOOST_AUTO_TEST_CASE(no_folder_has_more_than_512_parts) {
  for (const int parts : {1, 512, 513, 1100}) {
    const Mesh mesh = make_mesh("world", {{"dp_shard", parts}});
    Layout layout = replicated({parts}, DType::f32, mesh);
    layout.splits.push_back({.axes = {"dp_shard"}});
    const CheckpointPlan plan =
        plan_checkpoint({{.component = "model", .name = "x", .layout = layout}}, {holdings_of(layout)},
                        {{.key = "model", .pattern = Pattern::per_group}}, parts_of_ranks({mesh, {}, {}}, 1));
    std::map<Path, int> in_folder;
    for (const PlannedFile& file : plan.files) ++in_folder[Path(file.path).parent_path()];
    BOOST_TEST(plan.files.size() == static_cast<std::size_t>(parts));
    for (const auto& [folder, count] : in_folder) BOOST_TEST(count <= 512);
    BOOST_TEST(in_folder.size() == static_cast<std::size_t>((parts + 511) / 512));
  }
}

// What a rank has is found without a look at the parts of those that have nothing of it.
BOOST_FIXTURE_TEST_CASE(a_reader_opens_the_parts_that_may_have_what_is_asked_for, TemporaryFolder) {
  const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}, {"dp_shard", 3}});
  Layout layout = replicated({300, 70}, DType::f32, mesh);
  layout.splits.push_back({.axes = {"dp_shard"}});
  on_ranks(6, [&](Communicator& ranks) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(elements(box_of(layout, ranks.rank()))) * 4,
                                 static_cast<std::byte>(ranks.rank() % 3));
    Component component;
    component.key = "model";
    component.pattern = Pattern::per_group;
    component.equal_along = {"dp_replicate"};
    component.collect = [&] {
      StateTree tree;
      tree.add("x", layout, bytes);
      return tree;
    };
    SaveRequest request{path, 1, {mesh, {}, {}}};
    request.ranks_per_file = 1;
    save(ranks, {component}, request);
  });
  const Path checkpoint = checkpoint_folder(path, 1);
  const Manifest manifest = read_manifest(checkpoint);
  BOOST_TEST(manifest.tensors.front().by_layout);
  for (const StoredFile& file : manifest.files) {  // those of other shards are not there
    const bool other = !file.writers.empty() && file.writers.front() % 3 != 1;
    if (other) std::filesystem::remove(checkpoint / file.path);
  }
  const CheckpointReader reader(checkpoint);
  std::vector<std::byte> out(100 * 70 * 4);
  reader.read("model/x", box_of(layout, 1), out);
  BOOST_TEST((out == std::vector<std::byte>(out.size(), std::byte{1})));
  BOOST_CHECK_EXCEPTION(reader.read("model/x", box_of(layout, 2), out), Error,
                        [](const Error& error) { return error.code() == ExitCode::storage; });
}

// A rank may hold rows of each of the matrices that are stacked in a tensor; another layout reads them as any other.
BOOST_FIXTURE_TEST_CASE(a_rank_may_hold_several_boxes_of_a_tensor, TemporaryFolder) {
  const Shape shape{12, 5};  // matrices of 6, 4 and 2 rows, each cut in two
  const auto boxes_of = [](int half) {
    return std::vector<Box>{{{half * 3, 0}, {3, 5}}, {{6 + half * 2, 0}, {2, 5}}, {{10 + half, 0}, {1, 5}}};
  };
  const auto value = [](std::int64_t row, std::int64_t column) { return static_cast<float>(10 * row + column); };
  const auto component_of = [&](const World& world, std::vector<std::vector<float>>& held,
                                const std::vector<Box>& boxes) {
    held.clear();
    for (const Box& box : boxes) held.emplace_back(static_cast<std::size_t>(elements(box)));
    Component component;
    component.key = "model";
    component.pattern = Pattern::per_group;
    component.equal_along = {"dp_replicate"};
    component.collect = [&world, &held, boxes, shape] {
      StateTree tree;
      std::vector<StateRegion> local;
      for (std::size_t i = 0; i < boxes.size(); ++i)
        local.push_back({boxes[i], std::as_writable_bytes(std::span(held[i]))});
      tree.add_boxes("qkv", replicated(shape, DType::f32, world.mesh), local);
      return tree;
    };
    return component;
  };
  const auto each = [&](std::vector<std::vector<float>>& held, const std::vector<Box>& boxes, auto&& visit) {
    for (std::size_t i = 0; i < boxes.size(); ++i)
      for (std::size_t k = 0; k < held[i].size(); ++k)
        visit(held[i][k],
              value(boxes[i].begin[0] + static_cast<std::int64_t>(k) / 5, static_cast<std::int64_t>(k) % 5));
  };
  const World four{make_mesh("world", {{"dp_replicate", 2}, {"tp", 2}}), {}, {}};
  const auto save_with = [&](int flipped) {
    return attempt_on_ranks(4, [&](Communicator& ranks) {
      std::vector<std::vector<float>> held;
      const std::vector<Box> boxes = boxes_of(ranks.rank() % 2);
      const Component component = component_of(four, held, boxes);
      each(held, boxes, [](float& have, float want) { have = want; });
      if (ranks.rank() == flipped) held[1][3] = -1;
      save(ranks, {component}, {path, 1, four});
    });
  };
  for (const auto& problem : save_with(-1)) BOOST_TEST(!problem);
  const Path checkpoint = checkpoint_folder(path, 1);
  BOOST_TEST(verify_checkpoint(checkpoint, VerifyLevel::fingerprints).defects.empty());
  BOOST_TEST((read_manifest(checkpoint).tensors.front().holding == TensorHolding::boxes));
  for (const std::vector<Box>& boxes : {std::vector<Box>{whole(shape)}, boxes_of(0), boxes_of(1)}) {
    const World alone{make_mesh("world", {{"dp_replicate", 1}}), {}, {}};
    std::vector<std::vector<float>> held;
    const Component component = component_of(alone, held, boxes);
    const bool covers = boxes.size() == 1;
    try {
      load(*solo_communicator(), alone, CheckpointReader(checkpoint), {component});
      each(held, boxes, [](float have, float want) { BOOST_TEST(have == want); });
      BOOST_TEST(covers);
    } catch (const Error& error) {  // half of it is nobody's
      BOOST_TEST(!covers);
      BOOST_TEST(std::string(error.what()).find("30 of 60 elements are missing") != std::string::npos, error.what());
    }
  }
  on_ranks(4, [&](Communicator& ranks) {
    std::vector<std::vector<float>> held;
    const std::vector<Box> boxes = boxes_of(ranks.rank() / 2);  // other halves than it had
    const World world{make_mesh("world", {{"tp", 2}, {"dp_replicate", 2}}), {}, {}};
    const Component component = component_of(world, held, boxes);
    load(ranks, world, CheckpointReader(checkpoint), {component});
    each(held, boxes, [](float have, float want) {
      if (have != want) fail(ExitCode::bug, "{} instead of {}", have, want);
    });
  });
  for (const auto& problem : save_with(3)) {  // a replica that differs is named with its box
    BOOST_REQUIRE(problem);
    try {
      std::rethrow_exception(problem);
    } catch (const Error& error) {
      BOOST_TEST((error.code() == ExitCode::verdict));
      BOOST_TEST(std::string(error.what()).find("model/qkv [8:10, 0:5]") != std::string::npos, error.what());
    }
  }
}

// What a saver knows from before changes nothing of what it writes: files, digests and verdicts are those of a new one.
BOOST_FIXTURE_TEST_CASE(a_saver_that_has_saved_before_writes_what_a_new_one_writes, TemporaryFolder) {
  const std::vector<Mesh> meshes{make_mesh("world", {{"dp_replicate", 2}, {"dp_shard", 2}}),
                                 make_mesh("world", {{"dp_replicate", 4}})};
  on_ranks(4, [&](Communicator& ranks) {
    Saver saver(ranks);
    std::int64_t step = 8;  // 10 has a digit more
    for (const std::size_t mesh : {0, 0, 0, 1, 1, 0}) {
      const World world{meshes[mesh], {0, 0, 1, 1}, {}};
      Job job(world, ranks.rank(), sharded_model(meshes[mesh]), Pattern::per_group, {"dp_replicate"});
      job.advance_to(++step);
      auto components = job.components();
      components.push_back(job.rng_component());
      std::vector<float> large(step >= 11 ? 50'000 : 0, static_cast<float>(step));  // a tensor more
      if (!large.empty()) {
        Component more;
        more.key = "more";
        more.collect = [&] {
          StateTree tree;
          tree.add("x", replicated({std::ssize(large)}, DType::f32, world.mesh),
                   std::as_writable_bytes(std::span(large)));
          return tree;
        };
        components.push_back(more);
      }
      SaveRequest request = job.request(path / "kept");
      request.retention.keep_last = 99;
      request.ranks_per_file.reset();
      if (step == 14) request.ranks_per_file = 1;
      const SaveReport kept = saver.save(components, request);
      request.run = path / "new";
      const SaveReport fresh = save(ranks, components, request);
      if (kept.state_digest != fresh.state_digest || kept.bytes != fresh.bytes)
        fail(ExitCode::bug, "step {} is another state", step);
    }
  });
  for (std::int64_t step = 9; step <= 14; ++step) {
    const Path kept = checkpoint_folder(path / "kept", step), fresh = checkpoint_folder(path / "new", step);
    BOOST_TEST(verify_checkpoint(kept, VerifyLevel::fingerprints).defects.empty());
    BOOST_TEST(parts_in(kept) == parts_in(fresh), boost::test_tools::per_element());
    for (const std::string& part : parts_in(kept))
      BOOST_TEST((read_file(kept / part) == read_file(fresh / part)), fmt::format("step {}: {}", step, part));
  }
}

BOOST_FIXTURE_TEST_CASE(a_saver_goes_on_after_a_save_that_failed_on_one_rank, TemporaryFolder) {
  on_ranks(3, [&](Communicator& ranks) {
    Saver saver(ranks);
    const World world = single_axis_world(3);
    for (std::int64_t step = 1; step <= 9; ++step) {
      Job job(world, ranks.rank(), replicated_model(world.mesh));
      job.advance_to(step);
      SaveRequest request = job.request(path);
      request.retention.keep_last = 99;
      if (step == 5 && ranks.rank() == 1) job.buffer(0)[7] ^= std::byte{1};
      request.enter = [&](Phase phase) {
        const std::vector<Phase> fails{Phase::save_plan, Phase::save_stage, Phase::save_write, Phase::save_seal};
        if (step % 2 == 0 && ranks.rank() == 2 && phase == fails[static_cast<std::size_t>(step / 2 - 1)])
          fail(ExitCode::storage, "no space left on device");
      };
      bool failed = false;
      try {
        saver.save(job.components(), request);
      } catch (const Error&) {
        failed = true;
      }
      if (failed != (step % 2 == 0 || step == 5)) fail(ExitCode::bug, "step {} failed or did not", step);
    }
  });
  std::vector<std::int64_t> steps;
  for (const CheckpointEntry& entry : list_checkpoints(path)) steps.push_back(entry.step);
  BOOST_TEST((steps == std::vector<std::int64_t>{1, 3, 7, 9}));
  for (const std::int64_t step : steps)
    BOOST_TEST(verify_checkpoint(checkpoint_folder(path, step), VerifyLevel::fingerprints).defects.empty());
}

// Replicas that drift apart by as much, in opposite directions, are still found: what is added up are hashes.
BOOST_FIXTURE_TEST_CASE(differences_that_would_cancel_in_a_sum_are_found, TemporaryFolder) {
  const World world = single_axis_world(3);
  const auto problems = attempt_on_ranks(3, [&](Communicator& ranks) {
    std::vector<std::uint32_t> values(1000, 500);
    values[321] = 500 + (ranks.rank() == 1 ? 1 : ranks.rank() == 2 ? -1 : 0);
    Component component;
    component.key = "model";
    component.collect = [&] {
      StateTree tree;
      tree.add("x", replicated({1000}, DType::u32, world.mesh), std::as_writable_bytes(std::span(values)));
      return tree;
    };
    save(ranks, {component}, {path, 1, world});
  });
  for (const auto& problem : problems) BOOST_TEST((problem != nullptr));
  BOOST_TEST(list_checkpoints(path).empty());
}

BOOST_FIXTURE_TEST_CASE(the_best_checkpoint_is_that_of_the_better_direction, TemporaryFolder) {
  const auto steps_of = [&](bool higher) {
    const Path run = path / (higher ? "higher" : "lower");
    for (const std::int64_t step : {1, 2, 3}) {
      Job job(single_axis_world(1), 0, replicated_model(single_axis_world(1).mesh));
      job.advance_to(step);
      SaveRequest request = job.request(run);
      request.retention.keep_last = 9;
      request.metrics = {{"score", static_cast<double>(step == 2 ? 9 : step), higher}};
      save(*solo_communicator(), job.components(), request);
    }
    std::vector<std::int64_t> steps;
    for (const CheckpointEntry& entry : best_first(list_checkpoints(run), {"score"})) steps.push_back(entry.step);
    return steps;
  };
  BOOST_TEST((steps_of(false) == std::vector<std::int64_t>{1, 3, 2}));
  BOOST_TEST((steps_of(true) == std::vector<std::int64_t>{2, 3, 1}));
  // What a run asks for counts, whatever it said when it saved.
  const std::vector<CheckpointEntry> saved = list_checkpoints(path / "lower");
  BOOST_TEST(best_first(saved, {"score", true}).front().step == 2);
  BOOST_TEST(best_first(saved, {"score", false}).front().step == 1);
  BOOST_TEST(best_first(saved, {"loss"}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
