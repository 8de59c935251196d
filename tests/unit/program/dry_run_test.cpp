#include "program/dry_run.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "program/memory_estimate.hpp"
#include "unit/program/models.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(batches)

BOOST_AUTO_TEST_CASE(every_sample_is_computed_once_in_micro_batches_of_at_most_the_asked_size) {
  for (std::int64_t global = 1; global <= 24; ++global)
    for (std::int64_t ranks = 1; ranks <= global; ++ranks)
      for (std::int64_t micro = 1; micro <= global + 1; ++micro) {
        const BatchPlan plan = plan_batch(global, ranks, micro);
        std::vector<int> computed(static_cast<std::size_t>(global), 0);
        std::int64_t largest = 0;
        std::int64_t busy = 0;  // micro-batches that some rank needs
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const SampleRange share = samples_of(plan, rank);
          largest = std::max(largest, share.count);
          BOOST_REQUIRE(share.count == global / ranks || share.count == global / ranks + 1);
          for (std::int64_t index = 0; index < plan.accumulation; ++index) {
            const SampleRange range = samples_of(plan, rank, index);
            BOOST_REQUIRE(range.count <= micro);
            if (range.count > 0) busy = std::max(busy, index + 1);
            for (std::int64_t i = 0; i < range.count; ++i) {
              BOOST_REQUIRE(range.begin + i >= share.begin && range.begin + i < share.begin + share.count);
              ++computed[static_cast<std::size_t>(range.begin + i)];
            }
          }
        }
        BOOST_REQUIRE(std::all_of(computed.begin(), computed.end(), [](int times) { return times == 1; }));
        BOOST_REQUIRE_EQUAL(busy, plan.accumulation);                         // not one round too many
        BOOST_REQUIRE(plan.micro_batch * (plan.accumulation - 1) < largest);  // nor one that a fuller batch would save
      }
}

BOOST_AUTO_TEST_CASE(without_a_micro_batch_a_rank_computes_all_of_its_samples_at_once) {
  BOOST_TEST((plan_batch(10, 4, std::nullopt) == BatchPlan{10, 4, 3, 1}));
  BOOST_TEST((samples_of(plan_batch(10, 4, std::nullopt), 3) == SampleRange{8, 2}));
}

BOOST_AUTO_TEST_CASE(more_ranks_than_samples_are_refused_with_both_numbers) {
  BOOST_CHECK_EXCEPTION(plan_batch(3, 4, std::nullopt), Error, [](const Error& error) {
    return error.code() == ExitCode::usage &&
           std::string(error.what()) ==
               "cannot divide a global batch of 3 samples among 4 ranks: 1 of them would have no sample" &&
           error.hint() == "start at most 3 ranks, or raise the global batch";
  });
  BOOST_CHECK_THROW(plan_batch(3, 1, 0), Error);
  BOOST_CHECK_THROW(plan_batch(0, 1, std::nullopt), Error);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(dry_runs)

BOOST_AUTO_TEST_CASE(passes_and_micro_batches_follow_from_what_is_asked_or_contradict_it) {
  const auto plan = [](const BatchRequest& wishes) { return plan_passes(24, 2, wishes); };
  BOOST_TEST((plan({}) == std::pair(BatchPlan{24, 2, 12, 1}, PassPlan{1, 1})));
  BOOST_TEST((plan({.micro_batch = 5}) == std::pair(BatchPlan{24, 2, 5, 3}, PassPlan{1, 3})));
  BOOST_TEST((plan({.micro_batches = 4}) == std::pair(BatchPlan{24, 2, 3, 4}, PassPlan{1, 4})));
  BOOST_TEST((plan({.passes = 3}) == std::pair(BatchPlan{24, 2, 4, 3}, PassPlan{3, 1})));
  BOOST_TEST((plan({.micro_batches = 3, .passes = 2}) == std::pair(BatchPlan{24, 2, 2, 6}, PassPlan{2, 3})));
  BOOST_TEST((plan({.micro_batch = 2, .passes = 3}) == std::pair(BatchPlan{24, 2, 2, 6}, PassPlan{3, 2})));
  BOOST_TEST((plan({.micro_batch = 2, .micro_batches = 2}) == std::pair(BatchPlan{24, 2, 2, 6}, PassPlan{3, 2})));
  for (const BatchRequest& wishes : {BatchRequest{.micro_batches = 5},
                                     {.passes = 5},
                                     {.micro_batches = 13},
                                     {.micro_batch = 2, .passes = 4},
                                     {.micro_batch = 2, .micro_batches = 2, .passes = 2}})
    BOOST_CHECK_EXCEPTION(plan(wishes), Error, [](const Error& error) {
      return error.code() == ExitCode::usage &&
             std::string(error.what()).find("cannot divide the 12 samples of a rank into") != std::string::npos;
    });
}

BOOST_AUTO_TEST_CASE(a_dry_run_adds_up_what_the_program_needs) {
  const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}});
  const ModelPlan plan = models::tied({DType::f32, DType::bf16, models::moments(DType::f32)});
  const Catalogue programs = make_catalogue(mesh, plan, {});
  DryRunFacts facts;
  facts.mesh = mesh;
  facts.batch = plan_batch(5, 2, 2);
  facts.length = 8;
  facts.steps = 25;
  facts.samples = 123;  // the last step of an epoch is shorter
  facts.parameters = 144;
  facts.flops_per_token = 1e6;
  facts.weight_bytes = 576;
  facts.optimizer_state_bytes = 1152;
  const Json json = to_json(dry_run(facts, plan, programs));
  BOOST_TEST(json["mesh"]["ranks"] == 2);
  BOOST_TEST(json["batch"]["rank_samples_max"] == 3);
  BOOST_TEST(json["batch"]["accumulation"] == 2);
  BOOST_TEST(json["batch"]["step_tokens"] == 40);
  BOOST_TEST(json["work"]["step_flops"] == 40e6);
  BOOST_TEST(json["work"]["run_tokens"] == 123 * 8);
  BOOST_TEST(json["work"]["run_flops"] == 123 * 8e6);
  BOOST_TEST(json["checkpoint"]["total_bytes"] == 1728);
  // 144 elements in buffers of 4 bytes, two moments, a copy of 2 bytes.
  const Json& memory = json["memory_per_rank"];
  BOOST_TEST(memory["master_bytes"] == 576);
  BOOST_TEST(memory["compute_copy_bytes"] == 288);
  BOOST_TEST(memory["gradient_bytes"] == 576);
  BOOST_TEST(memory["optimizer_state_bytes"] == 1152);
  // Most is held where the head's backward begins: all stashes, three outputs, a gradient of one and the head's
  // workspace.
  BOOST_TEST(memory["peak_action"] == "backward block head mb 0");
  BOOST_TEST(memory["activation_bytes"] == 10 + 1000 + 1000 + 500);
  BOOST_TEST(memory["buffer_bytes"] == 3 * 100 + 100 + 3);
  BOOST_TEST(memory["peak_bytes"] == 576 + 288 + 576 + 1152 + 2510 + 403);
}

BOOST_AUTO_TEST_CASE(rows_print_in_sections_with_aligned_values) {
  const std::vector<Row> rows{{"mesh", "ranks", "ranks", std::int64_t{4}, "4"},
                              {"memory per rank", "peak_bytes", "peak", std::int64_t{2048}, "2.0 KiB"}};
  BOOST_TEST(to_text(rows) == "mesh\n  ranks          4\nmemory per rank\n  peak           2.0 KiB\n");
  BOOST_TEST(to_text(to_json(rows)) == R"({"mesh":{"ranks":4},"memory_per_rank":{"peak_bytes":2048}})");
}

BOOST_AUTO_TEST_CASE(what_fits_on_a_screen_is_every_axis_and_what_one_looks_at_first) {
  const auto row = [](const char* section, const char* key) { return Row{section, key, key, std::int64_t{1}, "1"}; };
  const std::vector<Row> rows{row("mesh", "ranks"), row("mesh", "some_axis"), row("batch", "rank_samples_max"),
                              row("memory per rank", "buffer_bytes"), row("memory per rank", "peak_bytes")};
  BOOST_TEST(to_text(to_json(brief(rows))) ==
             R"({"mesh":{"ranks":1,"some_axis":1},"memory_per_rank":{"peak_bytes":1}})");
  // The cost has the bytes of checkpoints, and takes the lines of other rows.
  std::vector<Row> more{row("memory per rank", "peak_action"), row("checkpoint", "total_bytes")};
  BOOST_TEST(brief(more).size() == 2u);
  more.push_back(row("cost", "checkpoints_on_disk_bytes"));
  BOOST_TEST(to_text(to_json(brief(more))) == R"({"cost":{"checkpoints_on_disk_bytes":1}})");
}

BOOST_AUTO_TEST_CASE(ranks_are_shown_with_their_coordinates_and_nodes_the_first_of_many_and_classes) {
  DryRunFacts facts;
  facts.mesh = make_mesh("world", {{"pp", 2}, {"dp_replicate", 1}, {"dp_shard", 3}});
  facts.placement.nodes = full_nodes(6, 4);
  facts.batch = plan_batch(6, 3, 1);
  const ModelPlan plan =
      models::plan_of({{"a", 1, 1, 0, 1, 2, false, 0, 0, 0, 0}, {"b", 1, 0, 0, 1, 2, false, 0, 0, 0, 0}},
                      {{"w", {8}, {0}}, {"v", {8}, {1}}});
  const auto ranks_of = [&] { return to_json(dry_run(facts, plan, make_catalogue(facts.mesh, plan, {})))["ranks"]; };
  Json ranks = ranks_of();
  BOOST_TEST(ranks["0"] == "pp 0, dp_shard 0, node 0");
  BOOST_TEST(ranks["4"] == "pp 1, dp_shard 1, node 1");
  BOOST_TEST(ranks["class_1"] == "ranks 3-5");
  facts.placement.launcher_ranks = {0, 2, 3, 1, 4, 5};
  BOOST_TEST(ranks_of()["3"] == "pp 1, dp_shard 0, node 0, launcher's rank 1");
  BOOST_TEST(ranks_of()["4"] == "pp 1, dp_shard 1, node 1");
  // Two stages of F 1 and B 2, one micro-batch: each computes for 3 of 6.
  const Json simulated = to_json(dry_run(facts, plan, make_catalogue(facts.mesh, plan, {})))["simulation"];
  BOOST_TEST(simulated["bubble_share"].get<double>() == 0.5);
  BOOST_TEST(simulated["serial_issue_safe"] == "no");  // a receive is posted before the send that it answers
  facts.mesh = make_mesh("world", {{"dp_shard", 100}, {"pp", 2}});
  facts.placement = {};
  ranks = ranks_of();
  BOOST_TEST(ranks.size() == 11);  // eight, the last, and two classes
  BOOST_TEST(ranks["199"] == "dp_shard 99, pp 1");
  BOOST_TEST(ranks["class_1"] == "ranks 1, 3, 5, 7, 9, 11, 13, … 199 (100 in all)");
}

BOOST_AUTO_TEST_CASE(recompute_trades_stashes_for_one_at_a_time) {
  const Mesh mesh = make_mesh("world", {{"dp_replicate", 1}});
  const ModelPlan plan = models::tied();
  ProgramOptions options;
  const std::int64_t kept =
      memory_of(make_catalogue(mesh, plan, options).train.classes.front()).bytes.at(SlotKind::stash);
  options.recompute = RecomputePolicy::block;
  const std::int64_t recomputed =
      memory_of(make_catalogue(mesh, plan, options).train.classes.front()).bytes.at(SlotKind::stash);
  BOOST_TEST(kept == 2510);
  BOOST_TEST(recomputed == 10 + 1000 + 100);  // the embedding's, and one layer's with its new output
}

BOOST_AUTO_TEST_CASE(a_plan_tells_which_blocks_are_recomputed_what_they_keep_and_how_much_is_computed_again) {
  std::vector<BlockPlan> blocks;
  for (int i = 0; i < 16; ++i) {
    blocks.push_back({"layer." + std::to_string(i), 100, i < 15 ? 10 : 0, 0, 5, 10, true});
    blocks.back().recomputations.resize(KeepSet::count, {.kept_bytes = 40, .flops = 3});
  }
  DryRunFacts facts;
  facts.mesh = make_mesh("world", {{"dp_replicate", 1}});
  facts.batch = plan_batch(1, 1, 1);
  const ModelPlan plan = models::plan_of(blocks, {{"w", {8}, {0}}});
  ProgramOptions options;
  options.recompute.blocks.resize(16);
  const auto rows = [&] { return dry_run(facts, plan, make_catalogue(facts.mesh, plan, options)); };
  const auto text_of = [&](const std::string& key) {
    const std::vector<Row> all = rows();
    const auto found = std::ranges::find(all, key, &Row::key);
    return found == all.end() ? "" : found->text;
  };
  BOOST_TEST(text_of("recomputed_blocks") == "");
  for (const std::size_t block : {0, 1, 4}) options.recompute.blocks[block] = KeepSet{};
  options.recompute.blocks[5] = KeepSet{Keep::attention, Keep::projections, Keep::mlp};
  BOOST_TEST(text_of("recomputed_blocks") == "layer.0-layer.1; layer.4; layer.5 without attention+matmul");
  BOOST_TEST(text_of("recomputed_share") == "15.0 % of the forward pass");  // 4 · 3 of 16 · 5
  // 12 stashes, 4 times what is kept, all boundaries, and the gradient of the last as the last layer begins.
  BOOST_TEST(to_json(rows())["recompute"]["activation_peak_bytes"] == 12 * 100 + 4 * 40 + 15 * 10 + 10);
  for (std::size_t block = 0; block < 16; block += 2) options.recompute.blocks[block] = KeepSet{Keep::attention};
  BOOST_TEST(text_of("recomputed_blocks") == "10: 1 fully, 8 without attention, 1 without attention+matmul");
  options.recompute.blocks.assign(16, std::nullopt);
  options.recompute.blocks[2] = KeepSet{Keep::attention, Keep::projections};
  options.recompute.blocks[3] = KeepSet{Keep::mlp, Keep::experts};
  BOOST_TEST(text_of("recomputed_blocks") == "layer.2 without attention+projections; layer.3 without mlp+experts");
}

BOOST_AUTO_TEST_CASE(memory_that_another_lane_releases_counts_until_an_action_certainly_comes_after_it) {
  RankClass ranks;
  for (int i = 0; i < 3; ++i) ranks.slots.push_back({SlotKind::stash, block_subject(i), 0, 100});
  ranks.actions.resize(4);
  ranks.actions[0].slots.acquires = {0};
  ranks.actions[1].lane = Lane::reduction;
  ranks.actions[1].waits = {0};
  ranks.actions[1].slots.releases = {0};
  ranks.actions[2].slots = {{1}, {}, {}, {1}};
  ranks.actions[3].slots = {{2}, {}, {}, {2}};
  BOOST_TEST(memory_of(ranks).peak_bytes == 200);  // slot 0 may still be held beside slot 1 or slot 2
  ranks.actions[2].waits = {1};
  BOOST_TEST(memory_of(ranks).peak_bytes == 100);
}

BOOST_AUTO_TEST_SUITE_END()
