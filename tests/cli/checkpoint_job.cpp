// checkpoint-job RUN RANKS STEP…: saves the same small state at each step, by ranks that are threads, for the tests of
// the checkpoint tools. Element i of wte.weight is i / 2 + STEP; the others are in the code.
// checkpoint-job shapes RUN RANKS: the same for tensors of many shapes and types, shared out among ranks, at step 1.
// Element i of each, in row-major order, is i mod 113; of rank=R/rng/state i + R; booleans are i mod 2.
// checkpoint-job blocks RUN: a tensor of two rows of 12 MB, by one rank, at step 1; element i is i mod 1009.
// checkpoint-job model RUN RANKS CONFIG.json: the first weights of a model at step 1, each rank with its columns.
// checkpoint-job many RUN COUNT: COUNT tensors of one element, by one rank, at step 1.
// checkpoint-job values RUN JSON: a component "state" with the values of a JSON object, by one rank, at step 1.
// checkpoint-job load CKPT RANKS CUT FOLDER: loads a checkpoint by ranks that are threads and cut each tensor along its
// first or last dim (CUT first, last) or not (whole). Prints a JSON line for what each rank got of a tensor, which lies
// in FOLDER, and one for what it read. checkpoint-job rewrite-config CKPT TEXT OTHER: puts OTHER for TEXT into the
// config.yaml that a checkpoint carries, as another version would have written it.
#include "base/json.hpp"
#include "checkpoint/load_checkpoint.hpp"
#include "checkpoint/save.hpp"
#include "exchange/hf_config.hpp"
#include "harness/sharded_model.hpp"
#include "harness/thread_ranks.hpp"
#include "layout/box_runs.hpp"
#include "quant/bfloat16.hpp"

#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace lockstep;

struct State {
  std::vector<float> wte = std::vector<float>(37 * 8);
  std::vector<float> wide = std::vector<float>(160 * 128, 0.5F);  // too large to be packed
  std::vector<std::uint16_t> norm{to_bf16(1.0F), to_bf16(-2.5F), to_bf16(std::numeric_limits<float>::infinity()),
                                  0x7fc0, 1};  // 1: a denormal
  std::vector<double> moment = std::vector<double>(6, 0.25);
  std::vector<std::uint8_t> fp8{0x38, 0x7e, 0x7f, 0xb8};  // E4M3: 1, 448, nan, -1
  std::int64_t step = 0;
};

template <class Value>
std::span<std::byte> bytes(std::vector<Value>& values) {
  return std::as_writable_bytes(std::span(values));
}

std::vector<Component> components_of(State& state, const Mesh& mesh, Rank rank) {
  Component model;
  model.key = "model";
  model.collect = [&state, mesh] {
    StateTree tree;
    tree.add("wte.weight", replicated({37, 8}, DType::f32, mesh), bytes(state.wte));
    tree.add("norm.weight", replicated({5}, DType::bf16, mesh), bytes(state.norm));
    tree.add("codes", replicated({2, 2}, DType::f8_e4m3, mesh), bytes(state.fp8));
    tree.add("wide.weight", replicated({160, 128}, DType::f32, mesh), bytes(state.wide));
    tree.add_alias("lm_head.weight", "wte.weight");
    return tree;
  };
  Component optimizer;
  optimizer.key = "optimizer";
  optimizer.collect = [&state, mesh] {
    StateTree tree;
    tree.add("exp_avg/wte.weight", replicated({2, 3}, DType::f64, mesh), bytes(state.moment));
    tree.set("step", state.step);
    return tree;
  };
  Component rng;
  rng.key = "rng";
  rng.pattern = Pattern::per_rank;
  rng.collect = [rank] {
    StateTree tree;
    tree.set("rank", rank);
    return tree;
  };
  return {model, optimizer, rng};
}

/// The box of a rank, filled as the head of this file says.
struct Filled {
  std::string name;
  Layout layout;
  std::vector<std::byte> bytes;
};

Filled filled(std::string name, const Layout& layout, Rank rank) {
  const Box box = box_of(layout, rank);
  const auto size = static_cast<std::size_t>(size_of(layout.dtype));
  Filled result{std::move(name), layout, std::vector<std::byte>(static_cast<std::size_t>(elements(box)) * size)};
  std::byte* at = result.bytes.data();
  const auto put = [&](auto value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  for_each_run(box, whole(layout.global), box, [&](const BoxRun& run) {
    for (std::int64_t i = run.in_a; i < run.in_a + run.length; ++i) {
      const std::int64_t value = i % 113;
      if (layout.dtype == DType::f32) put(static_cast<float>(value));
      if (layout.dtype == DType::bf16) put(to_bf16(static_cast<float>(value)));
      if (layout.dtype == DType::f64) put(static_cast<double>(value));
      if (layout.dtype == DType::i64) put(value);
      if (layout.dtype == DType::u8) put(static_cast<std::uint8_t>(value));
      if (layout.dtype == DType::boolean) put(static_cast<std::uint8_t>(i % 2));
    }
  });
  return result;
}

void save_shapes(const Path& run, int count) {
  test::on_ranks(count, [&](Communicator& ranks) {
    const World world{make_mesh("world", {{"dp_replicate", 1}, {"dp_shard", ranks.size()}}), {}};
    const auto cut = [&](Shape global, DType dtype, int dim, Shape known = {}) {
      return Layout{std::move(global), dtype, world.mesh, {{{"dp_shard"}, dim}}, {}, std::move(known)};
    };
    std::vector<Filled> tensors;
    const auto add = [&](const std::string& name, const Layout& layout) {
      tensors.push_back(filled(name, layout, ranks.rank()));
    };
    add("rows", cut({7, 5}, DType::f32, 0));
    add("columns", cut({7, 5}, DType::bf16, 1));
    add("wide_columns", cut({300, 400}, DType::f64, 1));
    add("middle", cut({3, 4, 5}, DType::i64, 1));
    add("fused_rows", cut({8, 3, 4}, DType::f32, 0, {8, 12}));
    add("fused_heads", cut({8, 3, 4}, DType::f32, 2, {8, 12}));
    add("scalar", replicated({}, DType::f32, world.mesh));
    add("nothing", replicated({0, 4}, DType::f32, world.mesh));
    add("mask", replicated({9}, DType::boolean, world.mesh));
    add("50%d of it", replicated({3}, DType::f32, world.mesh));
    add("nested/deep/name", replicated({3}, DType::f32, world.mesh));
    add("nested", replicated({2}, DType::f32, world.mesh));  // a name on the way to another
    Component model;
    model.key = "model";
    model.pattern = Pattern::per_group;
    model.equal_along = {"dp_replicate"};
    model.collect = [&] {
      StateTree tree;
      for (Filled& tensor : tensors) tree.add(tensor.name, tensor.layout, tensor.bytes);
      tree.add_alias("aliases/rows", "rows");
      return tree;
    };
    std::vector<std::uint8_t> state(4);
    for (std::size_t i = 0; i < state.size(); ++i)
      state[i] = static_cast<std::uint8_t>(i + static_cast<std::size_t>(ranks.rank()));
    Component rng;
    rng.key = "rng";
    rng.pattern = Pattern::per_rank;
    rng.collect = [&] {
      StateTree tree;
      tree.add("state", replicated({4}, DType::u8, world.mesh), bytes(state));
      return tree;
    };
    SaveRequest request{run, 1, world};
    request.ranks_per_file = 1;
    const SaveReport report = Saver(ranks).save({model, rng}, request);
    if (ranks.rank() == 0) std::printf("%s\n", report.path.c_str());
  });
}

void save_many(const Path& run, int count) {
  test::on_ranks(1, [&](Communicator& ranks) {
    const World world = single_axis_world(1);
    std::vector<float> values(static_cast<std::size_t>(count));
    Component model;
    model.key = "model";
    model.collect = [&] {
      StateTree tree;
      for (std::size_t i = 0; i < values.size(); ++i)
        tree.add(std::to_string(i), replicated({}, DType::f32, world.mesh),
                 std::as_writable_bytes(std::span(values).subspan(i, 1)));
      return tree;
    };
    std::printf("%s\n", Saver(ranks).save({model}, {run, 1, world}).path.c_str());
  });
}

void save_blocks(const Path& run) {
  test::on_ranks(1, [&](Communicator& ranks) {
    const World world = single_axis_world(1);
    std::vector<float> values(2 * 3 * 1'000'000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1009);
    Component model;
    model.key = "model";
    model.collect = [&] {
      StateTree tree;
      tree.add("long_rows", replicated({2, 3, 1'000'000}, DType::f32, world.mesh), bytes(values));
      return tree;
    };
    std::printf("%s\n", Saver(ranks).save({model}, {run, 1, world}).path.c_str());
  });
}

void save_values(const Path& run, const std::string& json) {
  test::on_ranks(1, [&](Communicator& ranks) {
    Component state;
    state.key = "state";
    state.pattern = Pattern::global;
    state.collect = [&] {
      StateTree tree;
      tree.set_values_text(json, "the command line");
      return tree;
    };
    std::printf("%s\n", Saver(ranks).save({state}, {run, 1, single_axis_world(1)}).path.c_str());
  });
}

/// Memory for all that a component of a checkpoint has, on one of the ranks that load it.
struct Loaded {
  struct Tensor {
    std::string name;
    Layout layout;
    Box box;
    std::vector<std::byte> bytes;
  };
  Component component;
  std::vector<Tensor> tensors;
};

Loaded memory_for(const StoredComponent& stored, const Manifest& manifest, const Mesh& mesh, const std::string& cut,
                  Rank rank) {
  Loaded loaded;
  loaded.component.key = stored.key;
  const bool owned = cell_owned(stored.pattern);
  const bool is_cut = !owned && stored.pattern != Pattern::global;
  loaded.component.pattern = is_cut ? Pattern::per_group : stored.pattern;
  if (is_cut) loaded.component.equal_along = {"dp_replicate"};
  loaded.component.remap_policy = Remap::drop;
  for (const StoredTensor& tensor : manifest.tensors) {
    const bool here = !owned || tensor.cell == fmt::format("rank={}", rank);
    if (tensor.component != stored.key || is_values(tensor) || !here) continue;
    Layout layout = replicated(known_shape(tensor.layout), tensor.layout.dtype, mesh);
    const auto dims = static_cast<int>(layout.global.size());
    if (is_cut && cut != "whole" && dims > 0) layout.splits = {{{"dp_shard"}, cut == "first" ? 0 : dims - 1}};
    const Box box = box_of(layout, rank);
    const auto size = static_cast<std::size_t>(elements(box)) * static_cast<std::size_t>(size_of(layout.dtype));
    loaded.tensors.push_back({tensor.name, layout, box, std::vector<std::byte>(size)});
  }
  return loaded;
}

void load_cut(const Path& checkpoint, int count, const std::string& cut, const Path& folder) {
  std::vector<std::string> lines(static_cast<std::size_t>(count));
  test::on_ranks(count, [&](Communicator& ranks) {
    const World world{make_mesh("world", {{"dp_replicate", 1}, {"dp_shard", ranks.size()}}), {}};
    const CheckpointReader reader(checkpoint);
    std::vector<Loaded> memory;
    for (const StoredComponent& stored : reader.manifest().components)
      memory.push_back(memory_for(stored, reader.manifest(), world.mesh, cut, ranks.rank()));
    std::vector<Component> components;
    for (Loaded& loaded : memory) {
      loaded.component.collect = [&loaded] {
        StateTree tree;
        for (Loaded::Tensor& tensor : loaded.tensors) tree.add(tensor.name, tensor.layout, tensor.bytes);
        return tree;
      };
      components.push_back(loaded.component);
    }
    const LoadReport report = load(ranks, world, reader, components, 2);
    std::string& text = lines[static_cast<std::size_t>(ranks.rank())];
    int number = 0;
    for (const Loaded& loaded : memory) {
      for (const Loaded::Tensor& tensor : loaded.tensors) {
        const Path file = folder / fmt::format("{}-{}", ranks.rank(), number++);
        publish_file(file, {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
        text += to_text(Json{{"rank", ranks.rank()},
                             {"component", loaded.component.key},
                             {"name", tensor.name},
                             {"begin", tensor.box.begin},
                             {"extent", tensor.box.extent},
                             {"file", file.string()}}) +
                "\n";
      }
    }
    text += to_text(Json{{"rank", ranks.rank()}, {"read", report.read}}) + "\n";
  });
  for (const std::string& text : lines) std::fputs(text.c_str(), stdout);
}

void rewrite_config(const Path& checkpoint, const std::string& text, const std::string& other) {
  Manifest manifest = read_manifest(checkpoint);
  for (auto& [name, document] : manifest.documents) {
    const std::size_t at = name == "config.yaml" ? document.find(text) : std::string::npos;
    if (at != std::string::npos) document.replace(at, text.size(), other);
  }
  publish_file(checkpoint / manifest_file, manifest_text(manifest));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "rewrite-config") {
    rewrite_config(argv[2], argv[3], argv[4]);
    return 0;
  }
  if (argc == 6 && std::string(argv[1]) == "load") {
    load_cut(argv[2], std::stoi(argv[3]), argv[4], argv[5]);
    return 0;
  }
  if (argc == 4 && std::string(argv[1]) == "shapes") {
    save_shapes(argv[2], std::stoi(argv[3]));
    return 0;
  }
  if (argc == 5 && std::string(argv[1]) == "model") {
    test::save_sharded(argv[2], parse_hf_config(read_file(argv[4]), argv[4]), std::stoi(argv[3]), 1);
    return 0;
  }
  if (argc == 3 && std::string(argv[1]) == "blocks") {
    save_blocks(argv[2]);
    return 0;
  }
  if (argc == 4 && std::string(argv[1]) == "many") {
    save_many(argv[2], std::stoi(argv[3]));
    return 0;
  }
  if (argc == 4 && std::string(argv[1]) == "values") {
    save_values(argv[2], argv[3]);
    return 0;
  }
  for (int argument = 3; argument < argc; ++argument) {
    const std::int64_t step = std::stoll(argv[argument]);
    test::on_ranks(std::stoi(argv[2]), [&](Communicator& ranks) {
      State state;
      state.step = step;
      for (std::size_t i = 0; i < state.wte.size(); ++i)
        state.wte[i] = static_cast<float>(i) / 2 + static_cast<float>(step);
      const World world = single_axis_world(ranks.size());
      SaveRequest request{argv[1], step, world};
      request.retention.keep_last = 9;
      request.metrics = {{"validation_loss", 3.0 / static_cast<double>(step)}};
      request.ranks_per_file = 1;
      request.documents = {{"config.yaml", "model:\n  path: tiny\n"}};
      const SaveReport report = Saver(ranks).save(components_of(state, world.mesh, ranks.rank()), request);
      if (ranks.rank() == 0) std::printf("%s\n", report.path.c_str());
    });
  }
}
