#include "checkpoint/collected_state.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/compare_values.hpp"
#include "comm/together.hpp"
#include "layout/box_runs.hpp"
#include "layout/layout_json.hpp"
#include "store/checkpoint_plan.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace lockstep {

namespace {

// One tensor as a rank describes it to the others.
struct Description {
  StoredTensor tensor;
  std::vector<Box> boxes = {};  // that the rank holds, where no layout tells
};

struct Descriptor {
  Description description;
  Rank rank = 0;  // who described it
};

const Mesh cell_mesh{"cell", {}};

// The cell that owns a component's values; nothing where they belong to all.
std::string owner_of_values(const Component& component, const World& world, Rank rank) {
  return component.pattern == Pattern::global || component.pattern == Pattern::replicated
             ? ""
             : cell_of(component, world, rank);
}

StoredComponent stored(const Component& component, const World& world) {
  StoredComponent result{component.key,
                         component.pattern,
                         component.equal_along,
                         component.required,
                         component.validation,
                         component.remap_policy,
                         {}};
  if (component.pattern == Pattern::global || component.pattern == Pattern::replicated) return result;
  for (const std::vector<Rank>& cell : cells_of(component, world))
    result.cells.emplace_back(cell_of(component, world, cell.front()), cell);
  return result;
}

Json to_json(const Description& description) {
  const StoredTensor& tensor = description.tensor;
  Json result = lockstep::to_json(tensor.layout);
  result["mesh"] = lockstep::to_json(tensor.layout.mesh);
  result["component"] = tensor.component;
  result["cell"] = tensor.cell;
  result["name"] = tensor.name;
  result["aliases"] = tensor.aliases;
  if (tensor.holding == TensorHolding::boxes) result["boxes"] = Json::array();
  for (const Box& box : description.boxes) result["boxes"].push_back(Json::array({box.begin, box.extent}));
  return result;
}

Description description_from_json(Json value) {
  const Mesh mesh = mesh_from_json(value.at("mesh"), "a rank's description");
  value["mesh"] = mesh.id;
  StoredTensor tensor;
  tensor.component = value.at("component");
  tensor.cell = value.at("cell");
  tensor.name = value.at("name");
  tensor.layout = layout_from_json(value, {mesh}, "a rank's description");
  tensor.aliases = value.at("aliases").get<std::vector<std::string>>();
  Description description{std::move(tensor)};
  if (const auto boxes = value.find("boxes"); boxes != value.end()) {
    description.tensor.holding = TensorHolding::boxes;
    for (const Json& box : *boxes) description.boxes.push_back({box.at(0), box.at(1)});
  }
  return description;
}

// What is in a description, for comparison alone: a save has no time to make text of it each time.
void append(std::string& out, std::string_view text) {
  out += text;
  out += '\n';
}

template <class Number>
void append(std::string& out, const std::vector<Number>& numbers) {
  out += fmt::format("{}:", numbers.size());
  out.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
}

void append(std::string& out, const std::vector<Axis>& axes) {
  for (const Axis& axis : axes) {
    append(out, axis.name);
    append(out, std::vector<int>{axis.size, axis.stride});
  }
}

void append(std::string& out, const Layout& layout) {
  append(out, layout.global);
  append(out, layout.known);
  append(out, name_of(layout.dtype));
  append(out, layout.mesh.id);
  append(out, layout.mesh.axes);
  append(out, layout.mesh.expert_axes);
  for (const Split& split : layout.splits) {
    for (const AxisName& axis : split.axes) append(out, axis);
    append(out, std::vector<std::int64_t>{split.dim, split.granule, split.parts});
  }
  for (const Pin& pin : layout.pins) {
    append(out, pin.axis);
    append(out, pin.coordinates);
  }
}

void append(std::string& out, const std::vector<Description>& descriptions) {
  for (const Description& description : descriptions) {
    for (const std::string& text : {description.tensor.component, description.tensor.cell, description.tensor.name})
      append(out, text);
    for (const std::string& alias : description.tensor.aliases) append(out, alias);
    append(out, description.tensor.layout);
    append(out, description.tensor.holding == TensorHolding::boxes ? "boxes" : "layout");
    for (const Box& box : description.boxes) {
      append(out, box.begin);
      append(out, box.extent);
    }
  }
}

std::string encode(const std::vector<Description>& descriptions) {
  Json list = Json::array();
  for (const Description& description : descriptions) list.push_back(to_json(description));
  return to_text(list);
}

// Values change at each save and mostly need as many digits as before: with room to spare their place stays the same,
// and so does the plan.
std::string filled_up(std::string text) {
  constexpr std::size_t least = 256;
  text.resize(std::bit_ceil(std::max(text.size(), least)), ' ');
  return text;
}

// A contribution is what one rank brings along: descriptions by how far they are shared, and its bytes by full name.
class Contribution {
 public:
  Contribution(const World& world, Rank rank, Contents contents) : world_(world), rank_(rank), contents_(contents) {}

  void add(const Component& component, const StateTree& tree, std::deque<std::string>& values) {
    for (const StateTensor& tensor : tree.tensors()) add_tensor(component, tree, tensor);
    if (contents_ == Contents::tensors || tree.values_text().empty()) return;
    // Where nobody compares them they may have any length on the others.
    if (component.validation == Validation::none && !lowest_of_cell(component)) return;
    values.push_back(filled_up(tree.values_text()));
    StoredTensor entry{component.key, owner_of_values(component, world_, rank_), std::string(values_entry), {}, {}, {}};
    entry.layout = replicated({static_cast<std::int64_t>(values.back().size())}, DType::u8,
                              entry.cell.empty() ? world_.mesh : cell_mesh);
    place(
        component, std::move(entry),
        {{whole({static_cast<std::int64_t>(values.back().size())}), std::as_writable_bytes(std::span(values.back()))}});
  }

  const std::vector<Description>& common() const { return common_; }  // of components that all ranks describe
  const std::vector<Description>& own() const { return own_; }        // which this rank describes for itself
  std::vector<StateRegion> local(const std::string& name) const {
    const auto found = local_.find(name);
    return found == local_.end() ? std::vector<StateRegion>{} : found->second;
  }
  Hash128 described(const std::string& keys, const World& world) const {
    std::string all = keys;
    append(all, world.mesh.axes);
    append(all, world.mesh.expert_axes);
    append(all, world.node_of_rank);
    append(all, common_);
    append(all, "own");
    append(all, own_);
    return hash128(all);
  }
  /// Names of what ranks besides this one hold or describe as well.
  const std::vector<std::string>& shared() const { return shared_; }

 private:
  void add_tensor(const Component& component, const StateTree& tree, const StateTensor& tensor) {
    check(tensor.layout);
    if (tensor.name == values_entry)
      fail(ExitCode::bug, "component '{}' names a tensor {}, which is reserved", component.key, values_entry);
    if (!cell_owned(component.pattern) && world_size(tensor.layout.mesh) != world_size(world_.mesh)) {
      fail(ExitCode::usage, "'{}' of component '{}' is laid out over {} ranks in a job of {}", tensor.name,
           component.key, world_size(tensor.layout.mesh), world_size(world_.mesh));
    }
    StoredTensor entry{component.key, "", tensor.name, tensor.layout, {}, {}};
    if (cell_owned(component.pattern)) {
      entry.cell = cell_of(component, world_, rank_);
      entry.layout.mesh = cell_mesh;
    }
    for (const StateAlias& alias : tree.aliases()) {
      if (alias.target == tensor.name) entry.aliases.push_back(alias.name);
    }
    std::vector<StateRegion> boxes = tensor.boxes;
    if (tensor.by_layout) {
      boxes.front().box = cell_owned(component.pattern) ? whole(tensor.layout.global) : box_of(tensor.layout, rank_);
    } else {
      entry.holding = TensorHolding::boxes;
      if (component.pattern == Pattern::global || cell_owned(component.pattern))
        fail(ExitCode::bug, "component '{}' is {}, so '{}' is held whole, not by boxes", component.key,
             name_of(component.pattern), tensor.name);
    }
    for (const StateRegion& held : boxes) {
      const auto bytes =
          static_cast<std::size_t>(elements(held.box)) * static_cast<std::size_t>(size_of(tensor.layout.dtype));
      if (held.memory.bytes != bytes || (!empty(held.box) && !contains(whole(tensor.layout.global), held.box)))
        fail(ExitCode::bug, "'{}' of component '{}' has {} bytes for its box {} of {} {}, which needs {}", tensor.name,
             component.key, held.memory.bytes, to_text(held.box), name_of(tensor.layout.dtype),
             to_text(tensor.layout.global), bytes);
    }
    place(component, std::move(entry), std::move(boxes));
  }

  void place(const Component& component, StoredTensor entry, std::vector<StateRegion> boxes) {
    std::vector<Box> told;
    if (entry.holding == TensorHolding::boxes)
      for (const StateRegion& held : boxes) told.push_back(held.box);
    local_[full_name(entry)] = std::move(boxes);
    if (component.pattern != Pattern::global) shared_.push_back(full_name(entry));
    if (component.pattern == Pattern::global) {
      if (rank_ == 0) own_.push_back({std::move(entry)});
    } else if (entry.holding == TensorHolding::boxes) {
      own_.push_back({std::move(entry), std::move(told)});
    } else if (entry.cell.empty() && !(is_values(entry) && component.validation == Validation::none)) {
      common_.push_back({std::move(entry)});
    } else if (lowest_of_cell(component)) {
      own_.push_back({std::move(entry)});
    }
  }

  bool lowest_of_cell(const Component& component) const {
    for (Rank rank = 0; rank < rank_; ++rank) {
      if (cell_of(component, world_, rank) == cell_of(component, world_, rank_)) return false;
    }
    return true;
  }

  const World& world_;
  Rank rank_;
  Contents contents_;
  std::vector<Description> common_;
  std::vector<Description> own_;
  std::vector<std::string> shared_;
  std::map<std::string, std::vector<StateRegion>> local_;
};

// What all ranks say together: each tensor once, and who holds which boxes where no layout tells.
struct Merged {
  std::vector<StoredTensor> tensors;
  std::map<std::size_t, std::vector<Holding>> holdings;  // by tensor
};

void add_holder(std::vector<Holding>& holdings, const Box& box, Rank rank) {
  if (empty(box)) return;
  const auto same = std::ranges::find(holdings, box, &Holding::box);
  if (same == holdings.end()) {
    holdings.push_back({box, {rank}});
  } else if (same->ranks.back() != rank) {
    same->ranks.push_back(rank);
  }
}

// As the first rank that has a tensor describes it; the others must agree.
Merged merge(const std::vector<Descriptor>& descriptors) {
  Merged merged;
  std::map<std::string, std::pair<std::size_t, Rank>> known;
  for (const Descriptor& descriptor : descriptors) {
    const StoredTensor& tensor = descriptor.description.tensor;
    const std::string name = full_name(tensor);
    const auto [entry, is_new] = known.try_emplace(name, merged.tensors.size(), descriptor.rank);
    const auto [first, first_rank] = entry->second;
    if (is_new) merged.tensors.push_back(tensor);
    for (const Box& box : descriptor.description.boxes) add_holder(merged.holdings[first], box, descriptor.rank);
    const StoredTensor& known_as = merged.tensors[first];
    if (known_as.layout == tensor.layout && known_as.aliases == tensor.aliases && known_as.holding == tensor.holding)
      continue;
    fail(ExitCode::usage, "ranks {} and {} lay out {} differently: {} {} against {} {}", first_rank, descriptor.rank,
         name, name_of(known_as.layout.dtype), to_text(known_as.layout.global), name_of(tensor.layout.dtype),
         to_text(tensor.layout.global));
  }
  for (const auto& [tensor, holdings] : merged.holdings) {
    std::vector<Box> boxes;
    for (const Holding& holding : holdings) boxes.push_back(holding.box);
    if (const auto defect = coverage_defect(merged.tensors[tensor].layout.global, boxes))
      fail(ExitCode::usage, "the ranks do not hold {} exactly once: {}", full_name(merged.tensors[tensor]), *defect);
  }
  return merged;
}

// Of values that are not compared the first rank of a cell alone brings its own.
std::vector<Holding> only_first(std::vector<Holding> holdings) {
  for (Holding& holding : holdings) holding.ranks.resize(1);
  return holdings;
}

std::vector<std::vector<Holding>> holders_of_all(const CollectedState& state,
                                                 const std::map<std::size_t, std::vector<Holding>>& told, int ranks,
                                                 std::span<const Rank> among) {
  std::map<std::string, const StoredComponent*> by_key;
  for (const StoredComponent& component : state.components) by_key[component.key] = &component;
  std::vector<std::vector<Holding>> result;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const StoredTensor& tensor = state.tensors[i];
    const StoredComponent& component = *by_key.at(tensor.component);
    // Neighbours mostly share a layout, and the holders of a layout cost a pass over all ranks.
    if (tensor.holding == TensorHolding::boxes) {
      const auto holdings = told.find(i);
      result.push_back(holdings == told.end() ? std::vector<Holding>{} : holdings->second);
      continue;
    }
    const bool like_last = i > 0 && tensor.cell.empty() && state.tensors[i - 1].holding == tensor.holding &&
                           !is_values(tensor) && state.tensors[i - 1].component == tensor.component &&
                           state.tensors[i - 1].layout == tensor.layout;
    if (like_last)
      result.push_back(result.back());
    else
      result.push_back(among.empty() ? holders_of(tensor, component, ranks)
                                     : holders_of(tensor, component, ranks, among));
    if (is_values(tensor) && component.validation == Validation::none) result.back() = only_first(result.back());
  }
  return result;
}

[[noreturn]] void fail_different(const std::string& what, const std::string& how) {
  throw Error(ExitCode::verdict, fmt::format("replicas differ in {}: {}", what, how),
              "the ranks do not hold the same state: resume from the last checkpoint");
}

// A holder brings the bytes of its box: what it lacks cannot be compared, nor written by it. Which of two ranks is
// wrong nobody can say here.
void check_held(const CollectedState& state, std::size_t tensor, Rank rank) {
  const StoredTensor& stored = state.tensors[tensor];
  const auto size = static_cast<std::size_t>(size_of(stored.layout.dtype));
  for (const Holding& holding : state.holdings[tensor]) {
    if (!std::ranges::binary_search(holding.ranks, rank)) continue;
    const std::size_t bytes = static_cast<std::size_t>(elements(holding.box)) * size;
    const std::vector<StateRegion>& local = state.local[tensor];
    const auto same = std::ranges::find(local, holding.box, &StateRegion::box);
    if (same != local.end() && same->memory.bytes == bytes) continue;
    std::size_t have = 0;
    for (const StateRegion& held : local) have += held.memory.bytes;
    fail_different(
        fmt::format("{} {}", full_name(stored), to_text(holding.box)),
        have == 0 ? std::string("this rank lacks it") : fmt::format("this rank has {} bytes, others {}", have, bytes));
  }
}

struct SharedText {
  Rank rank = 0;
  std::string text;
};

enum class Reporting { equal_texts_once, each_rank };

// The texts of all ranks that have one, of equal ones that of the lowest rank if they are told once. What is exchanged
// grows with the texts and not with the ranks: a stage of a pipeline describes itself once.
std::vector<SharedText> texts_of_ranks(Communicator& ranks, const std::string& mine, Reporting reporting) {
  std::vector<SharedText> result;
  bool told = mine.empty();
  while (true) {
    const std::int64_t next = ranks.all_reduce(std::int64_t{told ? ranks.size() : ranks.rank()}, Reduce::min);
    if (next == ranks.size()) return result;
    const auto teller = static_cast<Rank>(next);
    result.push_back({teller, ranks.broadcast(mine, teller)});
    told = told || teller == ranks.rank() || (reporting == Reporting::equal_texts_once && result.back().text == mine);
  }
}

std::vector<Descriptor> descriptions_of_all(Communicator& ranks, const Contribution& mine) {
  std::vector<SharedText> told = texts_of_ranks(ranks, encode(mine.common()), Reporting::equal_texts_once);
  const std::string own = mine.own().empty() ? std::string() : encode(mine.own());
  for (SharedText& one : texts_of_ranks(ranks, own, Reporting::each_rank)) told.push_back(std::move(one));
  std::vector<Descriptor> descriptors;
  together(ranks, "agreeing on the state", [&] {
    for (const SharedText& one : told) {
      for (const Json& entry : parse_json(one.text, "a rank's description"))
        descriptors.push_back({description_from_json(entry), one.rank});
    }
  });
  return descriptors;
}

}  // namespace

Region memory_of(const CollectedState& state, std::size_t tensor, const Box& box) {
  const auto size = static_cast<std::size_t>(size_of(state.tensors[tensor].layout.dtype));
  for (const StateRegion& held : state.local[tensor]) {
    if (empty(box) || empty(held.box) || !contains(held.box, box)) continue;
    std::size_t begin = 0;
    for_each_run(box, held.box, box, [&](const BoxRun& run) {
      if (run.in_b == 0) begin = static_cast<std::size_t>(run.in_a);
    });
    return part_of(held.memory, begin * size, static_cast<std::size_t>(elements(box)) * size);
  }
  return {};
}

CollectedState collect_state(Communicator& ranks, const World& world, const std::vector<Component>& components,
                             Contents contents, const std::function<void()>& before,
                             std::span<const Rank> holders_among, std::optional<CollectedState> earlier,
                             bool* taken_over) {
  CollectedState state;
  Contribution mine(world, ranks.rank(), contents);
  std::string keys;
  together(ranks, "collecting the state", [&] {
    before();
    if (world_size(world.mesh) != ranks.size())
      fail(ExitCode::bug, "a mesh of {} ranks for a communicator of {}", world_size(world.mesh), ranks.size());
    for (const Component& component : components) {
      state.trees.push_back(component.collect());
      check(component, state.trees.back());
      mine.add(component, state.trees.back(), state.values);
      state.components.push_back(stored(component, world));
      keys += fmt::format("{} {} {}; ", component.key, name_of(component.pattern), name_of(component.validation));
    }
  });
  agree_equal(ranks, "the list of checkpoint components", keys);
  if (contents == Contents::tensors_and_values) compare_values(ranks, world, components, state.trees);
  state.described = mine.described(keys, world);
  const std::int64_t as_before = earlier && earlier->described == state.described ? 1 : 0;
  const bool known = ranks.all_reduce(as_before, Reduce::min) == 1;
  if (taken_over != nullptr) *taken_over = known;
  std::vector<Descriptor> descriptors;
  if (!known) descriptors = descriptions_of_all(ranks, mine);
  together(ranks, "agreeing on the state", [&] {
    if (known) {
      state.tensors = std::move(earlier->tensors);
      state.holdings = std::move(earlier->holdings);
    } else {
      Merged merged = merge(descriptors);
      state.tensors = std::move(merged.tensors);
      state.holdings = holders_of_all(state, merged.holdings, ranks.size(), holders_among);
    }
    std::set<std::string> names;
    for (std::size_t i = 0; i < state.tensors.size(); ++i) {
      const std::string name = full_name(state.tensors[i]);
      state.local.push_back(mine.local(name));
      check_held(state, i, ranks.rank());
      if (!known) names.insert(name);
    }
    for (const std::string& name : mine.shared()) {
      if (!known && !names.contains(name))
        fail_different(name, "this rank has it, the first rank of its cell lacks it");
    }
  });
  return state;
}

}  // namespace lockstep
