// A state of the size and shapes of GPT-2 124M, in memory as that of a run's tensors is.
#pragma once

#include "store/component.hpp"

#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::bench {

inline std::vector<std::pair<std::string, Shape>> gpt2_shapes() {
  std::vector<std::pair<std::string, Shape>> result{{"wte", {50257, 768}}, {"wpe", {1024, 768}}};
  for (int layer = 0; layer < 12; ++layer) {
    const auto add = [&](const char* name, Shape shape) {
      result.emplace_back(fmt::format("h.{}.{}", layer, name), std::move(shape));
    };
    add("attn.weight", {768, 2304});
    add("attn.bias", {2304});
    add("proj.weight", {768, 768});
    add("proj.bias", {768});
    add("up.weight", {768, 3072});
    add("up.bias", {3072});
    add("down.weight", {3072, 768});
    add("down.bias", {768});
  }
  return result;
}

/// The tensors of one rank, of `ranks` that all hold the same.
struct Gpt2State {
  struct Tensor {
    std::string name;
    Layout layout;
    c10::DataPtr memory;  // as that of a run's tensors
    std::span<float> values;
  };
  World world;
  std::vector<Tensor> tensors;
  std::uint64_t bytes = 0;

  /// `kinds` go before names: "", and those of moments.
  Gpt2State(const std::vector<std::string>& kinds, int ranks) : world(single_axis_world(ranks)) {
    std::uint32_t bits = 1;
    for (const std::string& kind : kinds) {
      for (const auto& [name, shape] : gpt2_shapes()) {
        const auto count = static_cast<std::size_t>(elements(whole(shape)));
        c10::DataPtr memory = c10::GetCPUAllocator()->allocate(count * sizeof(float));
        const std::span<float> values(static_cast<float*>(memory.get()), count);
        tensors.push_back({kind + name, replicated(shape, DType::f32, world.mesh), std::move(memory), values});
        for (float& value : tensors.back().values) value = static_cast<float>(bits = bits * 1664525 + 1013904223);
        bytes += tensors.back().values.size() * sizeof(float);
      }
    }
  }
  Component component() {
    return {.key = "model", .collect = [this] {
              StateTree tree;
              for (Tensor& tensor : tensors)
                tree.add(tensor.name, tensor.layout, std::as_writable_bytes(tensor.values));
              return tree;
            }};
  }
};

}  // namespace lockstep::bench
