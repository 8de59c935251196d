#include "reshard/mesh_state.hpp"

#include "architecture/tensor_parallel.hpp"
#include "base/random.hpp"
#include "checkpoint/load_checkpoint.hpp"
#include "checkpoint/save.hpp"
#include "harness/temporary_folder.hpp"
#include "harness/test_job.hpp"
#include "harness/thread_ranks.hpp"
#include "harness/tiny_models.hpp"
#include "reshard/reshard.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/run_directory.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(mesh_state_)

namespace {

/// Axes along which ranks hold every tensor alike.
std::vector<AxisName> held_alike(const std::vector<Tensor>& tensors) {
  std::vector<AxisName> alike = replicated_axes(tensors.front().layout);
  for (const Tensor& tensor : tensors)
    std::erase_if(alike, [&](const AxisName& axis) {
      const auto own = replicated_axes(tensor.layout);
      return std::ranges::find(own, axis) == own.end();
    });
  return alike;
}

Job job_on(const Mesh& mesh, const std::vector<Tensor>& tensors, Rank rank) {
  return {{mesh, {}, {}}, rank, tensors, Pattern::per_group, held_alike(tensors)};
}

Path save_on(const Mesh& mesh, const std::vector<Tensor>& tensors, const Path& run,
             const std::vector<std::pair<std::string, std::string>>& documents = {}) {
  on_ranks(world_size(mesh), [&](Communicator& ranks) {
    Job job = job_on(mesh, tensors, ranks.rank());
    job.advance_to(5);
    SaveRequest request = job.request(run);
    request.documents = documents;
    save(ranks, job.components(), request);
  });
  return checkpoint_folder(run, 5);
}

ReshardTarget target_of(const MeshRequest& asked, std::optional<std::int64_t> parts = {}) {
  ReshardTarget target{parts, {}, asked.ep_outside};
  for (const auto& [name, size] : asked.axes) target.axes.emplace_back(name, size);
  return target;
}

Manifest laid_out_on(const MeshRequest& asked, const Path& from, const Path& to,
                     std::optional<std::int64_t> parts = {}) {
  ReshardConfig config;
  config.to = target_of(asked, parts);
  const auto source = open_checkpoint_source(from);
  Session session(solo_communicator());
  const ReshardPlan plan = plan_reshard(*source, config);
  const Resharded result = reshard(session, *source, plan, to, config.memory.bytes);
  BOOST_TEST(to_hex(plan.before.value()) == to_hex(result.digest));
  BOOST_TEST(judge_checkpoint(to, VerifyLevel::fingerprints).reason == "");
  return read_manifest(to);
}

void check_loads(const Mesh& mesh, const std::vector<Tensor>& tensors, const Path& checkpoint) {
  on_ranks(world_size(mesh), [&](Communicator& ranks) {
    Job job = job_on(mesh, tensors, ranks.rank());
    load(ranks, job.world(), CheckpointReader(checkpoint), job.components());
    if (job.wrong_bytes(5) != 0) throw Error(ExitCode::bug, "the loaded state is another one");
  });
}

/// Two meshes between which a state goes without its model: the same stages, and both with tp or without.
std::pair<MeshRequest, MeshRequest> drawn_meshes(const RandomStream& random, std::uint64_t draw) {
  const auto below = [&](std::uint64_t index, std::uint64_t bound) {
    return static_cast<int>(random.below(draw * 16 + index, bound));
  };
  const int stages = 1 + below(0, 2);
  const bool shared = below(1, 2) == 1;
  const auto mesh = [&](std::uint64_t index) {
    return MeshRequest{{{"tp", shared ? 2 + below(index, 2) : 1},
                        {"dp_shard", 1 + below(index + 1, 3)},
                        {"pp", stages},
                        {"dp_replicate", 1 + below(index + 2, 2)}}};
  };
  return {mesh(2), mesh(6)};
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    BOOST_TEST((error.code() == ExitCode::usage));
    return std::string(error.what()) + "; " + error.hint();
  }
  return {};
}

/// The tensors of a model as one rank holds them.
std::vector<Tensor> tensors_of(const Architecture& architecture) {
  std::vector<Tensor> tensors;
  for (const LogicalTensor& tensor : stored_tensors(architecture))
    tensors.push_back({tensor.name, replicated(tensor.shape, DType::f32, make_mesh("world", {{"dp_replicate", 1}}))});
  return tensors;
}

Path save_model(const Architecture& architecture, const Path& run) {
  return save_on(make_mesh("world", {{"dp_replicate", 1}}), tensors_of(architecture), run,
                 {{"config.json", to_text(*architecture.config.original)}});
}

const Layout& layout_of(const Manifest& manifest, const std::string& name) {
  const auto found = std::ranges::find(manifest.tensors, name, &StoredTensor::name);
  BOOST_REQUIRE((found != manifest.tensors.end()));
  return found->layout;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_state_loads_bit_for_bit_on_a_drawn_mesh_and_comes_back_with_its_digest, TemporaryFolder) {
  const RandomStream random(11, "meshes");
  for (std::uint64_t draw = 0; draw < 12; ++draw) {
    const auto [a, b] = drawn_meshes(random, draw);
    const Path folder = path / std::to_string(draw);
    const Mesh mesh_a = job_mesh(a, 1), mesh_b = job_mesh(b, 1);
    BOOST_TEST_CONTEXT(to_text(mesh_a) << " to " << to_text(mesh_b)) {
      const Path source = save_on(mesh_a, sharded_model(mesh_a), folder / "run");
      const Manifest there = laid_out_on(b, source, folder / "there");
      BOOST_TEST((there.mesh == mesh_b));
      check_loads(mesh_b, sharded_model(mesh_b), folder / "there");
      const Manifest back = laid_out_on(a, folder / "there", folder / "back", 1);
      const Manifest before = read_manifest(source);
      BOOST_TEST((back.mesh == before.mesh));
      BOOST_TEST(to_hex(back.state_digest) == to_hex(before.state_digest));
      BOOST_TEST((layout_of(back, "wte.weight") == layout_of(before, "wte.weight")));
      check_loads(mesh_a, sharded_model(mesh_a), folder / "back");
    }
  }
}

BOOST_FIXTURE_TEST_CASE(axes_that_the_new_mesh_lacks_are_merged_away, TemporaryFolder) {
  const Mesh mesh = make_mesh("world", {{"pp", 2}, {"dp_replicate", 1}, {"dp_shard", 2}, {"tp", 2}});
  const Path source = save_on(mesh, sharded_model(mesh), path / "run");
  const Manifest one = laid_out_on({{{"dp_replicate", 3}}}, source, path / "one");
  BOOST_TEST(to_text(one.mesh) == "dp_replicate 3");
  for (const StoredTensor& tensor : one.tensors)
    BOOST_TEST((tensor.layout.splits.empty() && tensor.layout.pins.empty()));
  const StoredComponent& model = *find_component(one, "model");
  BOOST_TEST((model.pattern == Pattern::replicated));
  BOOST_TEST(model.equal_along.empty());
  check_loads(one.mesh, replicated_model(one.mesh), path / "one");
  // Each of four ranks has a part of its own, in which its own boxes lie.
  const Manifest rows = laid_out_on({{{"dp_shard", 4}}}, source, path / "rows", 4);
  BOOST_TEST((layout_of(rows, "mask").splits == std::vector<Split>{{.axes = {"dp_shard"}, .dim = 0}}));
  BOOST_TEST((find_component(rows, "model")->pattern == Pattern::per_group));
  for (const StoredTensor& tensor : rows.tensors) BOOST_TEST(tensor.by_layout);
}

BOOST_FIXTURE_TEST_CASE(the_model_tells_how_its_tensors_are_cut_over_axes_that_are_new, TemporaryFolder) {
  const Architecture gpt2 = tiny_gpt2({.width = 16, .layers = 3, .heads = 4});
  const Path source = save_model(gpt2, path / "run");
  const Manifest there = laid_out_on({{{"tp", 2}, {"pp", 2}, {"dp_shard", 2}}}, source, path / "there", 2);
  BOOST_TEST(to_text(there.mesh) == "pp 2 x dp_shard 2 x tp 2");
  const Layout& qkv = layout_of(there, "transformer.h.0.attn.c_attn.weight");
  BOOST_TEST((qkv.global == Shape{16, 3, 16} && qkv.known == Shape{16, 48}));
  const Split heads{.axes = {"tp"}, .dim = 2, .granule = 4}, rows{.axes = {"dp_shard"}, .dim = 0};
  BOOST_TEST((qkv.splits == std::vector<Split>{heads, rows}));
  BOOST_TEST((qkv.pins == std::vector<Pin>{{"pp", {0}}}));
  // The embedding is the head's matrix too: the first and the last stage have it.
  BOOST_TEST((layout_of(there, "transformer.wte.weight").pins == std::vector<Pin>{{"pp", {0, 1}}}));
  BOOST_TEST((layout_of(there, "transformer.h.2.ln_1.weight").pins == std::vector<Pin>{{"pp", {1}}}));
  BOOST_TEST((layout_of(there, "transformer.h.2.ln_1.weight").splits == std::vector<Split>{rows}));
  BOOST_TEST((find_component(there, "model")->equal_along == std::vector<AxisName>{"dp_replicate"}));
  std::vector<Tensor> tensors;
  for (const Tensor& tensor : tensors_of(gpt2)) tensors.push_back({tensor.name, layout_of(there, tensor.name)});
  check_loads(there.mesh, tensors, path / "there");
  BOOST_TEST(
      refusal([&] { laid_out_on({{{"pp", 9}}}, source, path / "never"); }).starts_with("cannot cut 5 blocks into 9"));
  laid_out_on({{{"dp_replicate", 1}}}, path / "there", path / "back");
  check_loads(make_mesh("world", {{"dp_replicate", 1}}), tensors_of(gpt2), path / "back");
}

BOOST_FIXTURE_TEST_CASE(ranks_with_the_same_key_heads_are_neighbours_along_an_axis_of_their_own, TemporaryFolder) {
  const Architecture llama = tiny_llama({.width = 16, .heads = 4, .intermediate = 24, .key_value_heads = 2});
  const Path source = save_model(llama, path / "run");
  const Manifest there = laid_out_on({{{"tp", 4}, {"ring", 2}}}, source, path / "there");
  BOOST_TEST(to_text(there.mesh) == "ring 2 x tp 2 x tp_keys 2");
  const Split keys{.axes = {"tp"}, .dim = 0, .granule = 4}, heads{.axes = {"tp", "tp_keys"}, .dim = 0, .granule = 4};
  BOOST_TEST((layout_of(there, "model.layers.0.self_attn.k_proj.weight").splits == std::vector<Split>{keys}));
  BOOST_TEST((layout_of(there, "model.layers.0.self_attn.q_proj.weight").splits == std::vector<Split>{heads}));
  // Ranks that share sequences cut rows only where dp_shard does.
  const Manifest rows = laid_out_on({{{"dp_shard", 1}, {"ring", 2}}}, source, path / "rows");
  BOOST_TEST((layout_of(rows, "model.norm.weight").splits == std::vector<Split>{{.axes = {"ring"}, .dim = 0}}));
  BOOST_TEST(refusal([&] {
               laid_out_on({{{"tp", 3}}}, source, path / "never");
             }).starts_with("cannot divide 4 heads among parallel.tp 3"));
}

BOOST_FIXTURE_TEST_CASE(without_the_model_new_stages_and_shared_blocks_are_refused_with_what_to_do, TemporaryFolder) {
  const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}});
  const Path source = save_on(mesh, sharded_model(mesh), path / "run");
  BOOST_TEST(
      refusal([&] { laid_out_on({{{"tp", 2}}}, source, path / "never"); }) ==
      "cannot lay out the state of dp_replicate 2 as tp=2: dividing the model over tp needs its config.json, and "
      "the checkpoint has none; resume with train and parallel.tp 2: train loads any layout, and its next "
      "save has the new one");
  BOOST_TEST(refusal([&] { laid_out_on({{{"pp", 2}}}, source, path / "never"); }).find("dividing the model over pp") !=
             std::string::npos);
  const Path known =
      save_on(mesh, sharded_model(mesh), path / "other", {{"config.json", to_text(*tiny_gpt2({}).config.original)}});
  BOOST_TEST(refusal([&] {
               laid_out_on({{{"tp", 2}}}, known, path / "never");
             }).find("model/wte.weight is not a tensor of that model") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(state_of_single_ranks_stays_on_their_mesh_and_follows_its_policy_on_others, TemporaryFolder) {
  for (const Remap policy : {Remap::exact, Remap::derive, Remap::redistribute, Remap::drop}) {
    const Path folder = path / std::string(name_of(policy));
    on_ranks(2, [&](Communicator& ranks) {
      Job job = replica(2, ranks.rank());
      job.advance_to(5);
      std::vector<Component> components = job.components();
      components.push_back(job.rng_component(policy));
      save(ranks, components, job.request(folder / "run"));
    });
    const Path source = checkpoint_folder(folder / "run", 5);
    const Manifest same = laid_out_on({{{"dp_replicate", 2}}}, source, folder / "same");
    BOOST_TEST((find_component(same, "rng") != nullptr));
    BOOST_TEST(to_hex(same.state_digest) == to_hex(read_manifest(source).state_digest));
    on_ranks(2, [&](Communicator& ranks) {
      Job job = replica(2, ranks.rank());
      std::vector<Component> components = job.components();
      components.push_back(job.rng_component(policy));
      load(ranks, job.world(), CheckpointReader(folder / "same"), components);
      if (job.restored_rank != ranks.rank() || job.wrong_bytes(5) != 0) throw Error(ExitCode::bug, "not restored");
    });
    const auto elsewhere = [&] { return laid_out_on({{{"dp_shard", 2}}}, source, folder / "other"); };
    if (policy == Remap::derive || policy == Remap::drop) {
      BOOST_TEST((find_component(elsewhere(), "rng") == nullptr));
    } else {
      BOOST_TEST(refusal([&] { elsewhere(); }).find("component 'rng' is per_rank and belongs to the ranks of") !=
                 std::string::npos);
    }
  }
}

// Cells of ranks that train apart have tensors of their own, each named by its cell: other ranks have other cells.
BOOST_FIXTURE_TEST_CASE(tensors_that_are_named_by_their_cell_are_left_out_on_another_mesh, TemporaryFolder) {
  const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}});
  on_ranks(2, [&](Communicator& ranks) {
    Job job = replica(2, ranks.rank());
    std::vector<std::byte> own(8, static_cast<std::byte>(ranks.rank()));
    Component cells;
    cells.key = "cells";
    cells.pattern = Pattern::per_group;
    cells.required = false;
    cells.remap_policy = Remap::drop;
    cells.collect = [&] {
      StateTree tree;
      Layout layout = replicated({8}, DType::u8, mesh);
      layout.pins = {{"dp_replicate", {ranks.rank()}}};
      tree.add(fmt::format("dp_replicate={}/weight", ranks.rank()), layout, own);
      return tree;
    };
    std::vector<Component> components = job.components();
    components.push_back(cells);
    save(ranks, components, job.request(path / "run"));
  });
  const Path source = checkpoint_folder(path / "run", 0);
  const auto has_cells = [](const Manifest& manifest) { return find_component(manifest, "cells") != nullptr; };
  BOOST_TEST(has_cells(laid_out_on({{{"dp_replicate", 2}}}, source, path / "same")));
  BOOST_TEST(!has_cells(laid_out_on({{{"dp_replicate", 3}}}, source, path / "other")));
}

BOOST_AUTO_TEST_SUITE_END()
