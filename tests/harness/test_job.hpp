// A job with known contents: element i of a tensor is a function of the tensor's name, i and the step, regardless of
// the rank that holds it.
#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "checkpoint/save.hpp"
#include "store/component.hpp"

#include <cstring>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

struct Tensor {
  std::string name;
  Layout layout;
};

inline std::byte expected_byte(const std::string& name, std::int64_t element, int byte, std::int64_t step) {
  return static_cast<std::byte>(
      RandomStream(static_cast<std::uint64_t>(step), name).bits(static_cast<std::uint64_t>(element)) >> (8 * byte));
}

/// Saves with a new saver, which knows of no earlier save.
inline SaveReport save(Communicator& ranks, const std::vector<Component>& components, const SaveRequest& request) {
  return Saver(ranks).save(components, request);
}

/// The state of one rank.
class Job {
 public:
  Job(World world, Rank rank, std::vector<Tensor> tensors, Pattern pattern = Pattern::replicated,
      std::vector<AxisName> equal_along = {})
      : world_(std::move(world)),
        rank_(rank),
        tensors_(std::move(tensors)),
        pattern_(pattern),
        equal_along_(std::move(equal_along)) {
    for (const Tensor& tensor : tensors_) {
      buffers_.emplace_back(static_cast<std::size_t>(elements(box_of(tensor.layout, rank))) *
                            static_cast<std::size_t>(size_of(tensor.layout.dtype)));
    }
  }

  /// Sets the state to that after `target` steps.
  void advance_to(std::int64_t target) {
    step = target;
    auto buffer = buffers_.begin();
    for (const Tensor& tensor : tensors_)
      visit(tensor, *buffer++, step, [](std::byte& have, std::byte want) { have = want; });
    for (int i = 0; i < 16; ++i) rng[static_cast<std::size_t>(i)] = static_cast<std::byte>(step + 16 * rank_ + i);
  }
  /// Returns the number of bytes that differ from the state after `right` steps; a wrong step counts as one.
  std::int64_t wrong_bytes(std::int64_t right) {
    std::int64_t wrong = step == right ? 0 : 1;
    auto buffer = buffers_.begin();
    for (const Tensor& tensor : tensors_)
      visit(tensor, *buffer++, right, [&](std::byte& have, std::byte want) { wrong += have != want; });
    return wrong;
  }
  std::vector<std::byte>& buffer(std::size_t number) {
    return *std::next(buffers_.begin(), static_cast<std::ptrdiff_t>(number));
  }

  std::vector<Component> components() {
    Component model;
    model.key = "model";
    model.pattern = pattern_;
    model.equal_along = equal_along_;
    model.collect = [this] {
      StateTree tree;
      auto buffer = buffers_.begin();
      for (const Tensor& tensor : tensors_) tree.add(tensor.name, tensor.layout, *buffer++);
      if (!tensors_.empty()) tree.add_alias("tied", tensors_.front().name);
      return tree;
    };
    Component trainer;
    trainer.key = "trainer";
    trainer.pattern = Pattern::global;
    trainer.collect = [this] {
      StateTree tree;
      tree.set("step", step);
      tree.set("text", "größe\n");
      return tree;
    };
    trainer.restore = [this](const StateTree& tree) { step = tree.value("step").get<std::int64_t>(); };
    return {model, trainer};
  }
  Component rng_component(Remap remap = Remap::exact) {
    Component component;
    component.key = "rng";
    component.pattern = Pattern::per_rank;
    component.remap_policy = remap;
    component.collect = [this] {
      StateTree tree;
      tree.add("state", replicated({16}, DType::u8, world_.mesh), rng);
      tree.set("rank", rank_);
      return tree;
    };
    component.restore = [this](const StateTree& tree) { restored_rank = tree.value("rank").get<int>(); };
    component.remap = [this](const std::vector<StoredCell>& cells) {
      remapped_cells = static_cast<int>(cells.size());
      for (const StoredCell& cell : cells)
        for (const StoredCellTensor& tensor : cell.tensors) remapped[cell.name + "/" + tensor.name] = tensor.read();
    };
    return component;
  }
  /// Every rank writes files of its own, so that there are several to damage.
  SaveRequest request(const Path& run) const {
    SaveRequest request{run, step, world_};
    request.ranks_per_file = 1;
    return request;
  }
  const World& world() const { return world_; }

  std::int64_t step = 0;
  std::vector<std::byte> rng = std::vector<std::byte>(16);
  int restored_rank = -1;
  int remapped_cells = -1;
  std::map<std::string, std::vector<std::byte>> remapped;  // tensors of cells, by cell and tensor name

 private:
  template <class Action>
  void visit(const Tensor& tensor, std::vector<std::byte>& bytes, std::int64_t at_step, const Action& action) const {
    const Box box = box_of(tensor.layout, rank_);
    const int size = size_of(tensor.layout.dtype);
    for (std::int64_t i = 0; i < elements(box); ++i) {
      std::int64_t rest = i;
      std::int64_t global = 0;
      std::int64_t stride = 1;
      for (std::size_t d = box.extent.size(); d-- > 0; rest /= box.extent[d]) {
        global += (box.begin[d] + rest % box.extent[d]) * stride;
        stride *= tensor.layout.global[d];
      }
      for (int byte = 0; byte < size; ++byte)
        action(bytes[static_cast<std::size_t>(i * size + byte)], expected_byte(tensor.name, global, byte, at_step));
    }
  }
  World world_;
  Rank rank_;
  std::vector<Tensor> tensors_;
  Pattern pattern_;
  std::vector<AxisName> equal_along_;
  std::list<std::vector<std::byte>> buffers_;
};

/// A small model over the ranks of a mesh: every tensor replicated.
inline std::vector<Tensor> replicated_model(const Mesh& mesh) {
  return {{"wte.weight", replicated({37, 8}, DType::f32, mesh)},
          {"h.0/bias", replicated({5}, DType::bf16, mesh)},
          {"scale", replicated({}, DType::f64, mesh)},
          {"none", replicated({0, 3}, DType::f32, mesh)},
          {"mask", replicated({3, 3}, DType::boolean, mesh)}};
}

/// The job of one of `ranks` ranks that all hold that model.
inline Job replica(int ranks, Rank rank) {
  const World world = single_axis_world(ranks);
  return {world, rank, replicated_model(world.mesh)};
}

/// The tensors of replicated_model, cut over those axes of tp, dp_shard and pp that the mesh has.
inline std::vector<Tensor> sharded_model(const Mesh& mesh) {
  std::vector<Tensor> tensors = replicated_model(mesh);
  const auto has = [&](const char* axis) { return find_axis(mesh, axis) != nullptr; };
  if (has("tp")) tensors[0].layout.splits.push_back({{"tp"}, 1, 2, 0});
  if (has("dp_shard")) {
    tensors[0].layout.splits.push_back({{"dp_shard"}, 0, 1, 0});
    tensors[1].layout.splits.push_back({{"dp_shard"}, 0, 1, 0});
    tensors[3].layout.splits.push_back({{"dp_shard"}, 0, 1, 0});
  }
  if (has("pp")) {
    tensors[0].layout.pins.push_back({"pp", {0}});
    tensors[1].layout.pins.push_back({"pp", {find_axis(mesh, "pp")->size - 1}});
    tensors[2].layout.pins.push_back({"pp", {0}});
  }
  return tensors;
}

}  // namespace lockstep::test
