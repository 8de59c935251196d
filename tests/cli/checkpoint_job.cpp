// checkpoint-job RUN RANKS STEP…: saves the same small state at each step, by ranks that are threads, for the tests of
// the checkpoint tools. Element i of wte.weight is i / 2 + STEP; the others are in the code.
// checkpoint-job rewrite-config CKPT TEXT OTHER: puts OTHER for TEXT into the config.yaml that a checkpoint carries, as
// another version would have written it.
#include "base/json.hpp"
#include "checkpoint/save.hpp"
#include "harness/thread_ranks.hpp"
#include "quant/bfloat16.hpp"

#include <cstdio>
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
