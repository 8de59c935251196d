#include "checkpoint/collected_state.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "comm/together.hpp"
#include "layout/layout_json.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep {

namespace {

// One tensor as a rank describes it to the others.
struct Descriptor {
  StoredTensor tensor;
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

Json to_json(const StoredTensor& tensor) {
  Json result = lockstep::to_json(tensor.layout);
  result["mesh"] = lockstep::to_json(tensor.layout.mesh);
  result["component"] = tensor.component;
  result["cell"] = tensor.cell;
  result["name"] = tensor.name;
  result["aliases"] = tensor.aliases;
  return result;
}

StoredTensor tensor_from_json(Json value) {
  const Mesh mesh = mesh_from_json(value.at("mesh"), "a rank's description");
  value["mesh"] = mesh.id;
  StoredTensor tensor;
  tensor.component = value.at("component");
  tensor.cell = value.at("cell");
  tensor.name = value.at("name");
  tensor.layout = layout_from_json(value, {mesh}, "a rank's description");
  tensor.aliases = value.at("aliases").get<std::vector<std::string>>();
  return tensor;
}

std::string encode(const std::vector<StoredTensor>& tensors) {
  Json list = Json::array();
  for (const StoredTensor& tensor : tensors) list.push_back(to_json(tensor));
  return to_text(list);
}

// A contribution is what one rank brings along: descriptions by how far they are shared, and its bytes by full name.
class Contribution {
 public:
  Contribution(const World& world, Rank rank, Contents contents) : world_(world), rank_(rank), contents_(contents) {}

  void add(const Component& component, const StateTree& tree, std::deque<std::string>& values) {
    for (const StateTensor& tensor : tree.tensors()) add_tensor(component, tree, tensor);
    if (contents_ == Contents::tensors || tree.values_text().empty()) return;
    values.push_back(tree.values_text());
    StoredTensor entry{component.key, owner_of_values(component, world_, rank_), std::string(values_entry), {}, {}, {}};
    entry.layout = replicated({static_cast<std::int64_t>(values.back().size())}, DType::u8,
                              entry.cell.empty() ? world_.mesh : cell_mesh);
    place(component, std::move(entry), std::as_writable_bytes(std::span(values.back())),
          whole({static_cast<std::int64_t>(values.back().size())}));
  }

  const std::vector<StoredTensor>& common() const { return common_; }  // of components that all ranks describe
  const std::vector<StoredTensor>& own() const { return own_; }        // which only this rank describes
  LocalBox local(const std::string& name) const {
    const auto found = local_.find(name);
    return found == local_.end() ? LocalBox{} : found->second;
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
    const Box box = cell_owned(component.pattern) ? whole(tensor.layout.global) : box_of(tensor.layout, rank_);
    const auto bytes = static_cast<std::size_t>(elements(box)) * static_cast<std::size_t>(size_of(tensor.layout.dtype));
    if (tensor.bytes.size() != bytes) {
      fail(ExitCode::bug, "'{}' of component '{}' brings {} bytes for its box {} of {}, which has {}", tensor.name,
           component.key, tensor.bytes.size(), to_text(box), name_of(tensor.layout.dtype), bytes);
    }
    place(component, std::move(entry), tensor.bytes, box);
  }

  void place(const Component& component, StoredTensor entry, std::span<std::byte> bytes, const Box& box) {
    local_[full_name(entry)] = {box, bytes};
    if (component.pattern != Pattern::global) shared_.push_back(full_name(entry));
    if (component.pattern == Pattern::global) {
      if (rank_ == 0) own_.push_back(std::move(entry));
    } else if (entry.cell.empty()) {
      common_.push_back(std::move(entry));
    } else if (lowest_of_cell(component)) {
      own_.push_back(std::move(entry));
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
  std::vector<StoredTensor> common_;
  std::vector<StoredTensor> own_;
  std::vector<std::string> shared_;
  std::map<std::string, LocalBox> local_;
};

std::vector<Descriptor> decode(const std::vector<std::string>& texts) {
  std::vector<Descriptor> result;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    for (const Json& entry : parse_json(texts[rank], "a rank's description"))
      result.push_back({tensor_from_json(entry), static_cast<Rank>(rank)});
  }
  return result;
}

// Each tensor once, as the first rank that has it describes it; the others must agree.
std::vector<StoredTensor> merge(const std::vector<Descriptor>& descriptors) {
  std::vector<StoredTensor> result;
  std::map<std::string, std::pair<std::size_t, Rank>> known;
  for (const Descriptor& descriptor : descriptors) {
    const std::string name = full_name(descriptor.tensor);
    const auto [entry, is_new] = known.try_emplace(name, result.size(), descriptor.rank);
    if (is_new) {
      result.push_back(descriptor.tensor);
      continue;
    }
    const auto [first, first_rank] = entry->second;
    if (result[first].layout == descriptor.tensor.layout && result[first].aliases == descriptor.tensor.aliases)
      continue;
    if (is_values(descriptor.tensor)) {
      throw Error(
          ExitCode::verdict,
          fmt::format("the values of component '{}' are declared replicated, but rank {} has others than rank {}",
                      descriptor.tensor.component, descriptor.rank, first_rank),
          "declare the component per_rank, or find out why the ranks diverged");
    }
    fail(ExitCode::usage, "ranks {} and {} lay out {} differently: {} {} against {} {}", first_rank, descriptor.rank,
         name, name_of(result[first].layout.dtype), to_text(result[first].layout.global),
         name_of(descriptor.tensor.layout.dtype), to_text(descriptor.tensor.layout.global));
  }
  return result;
}

std::vector<Rank> all_ranks(int count) {
  std::vector<Rank> ranks(static_cast<std::size_t>(count));
  for (int rank = 0; rank < count; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
  return ranks;
}

std::vector<Holding> holders(const StoredTensor& tensor, const StoredComponent& component, int ranks) {
  const Box box = whole(tensor.layout.global);
  if (empty(box)) return {};
  if (component.pattern == Pattern::global) return {{box, {0}}};
  if (is_values(tensor) && tensor.cell.empty()) return {{box, all_ranks(ranks)}};
  if (tensor.cell.empty()) return holdings_of(tensor.layout);
  const auto cell = std::find_if(component.cells.begin(), component.cells.end(),
                                 [&](const auto& entry) { return entry.first == tensor.cell; });
  invariant(cell != component.cells.end(), "a cell-owned tensor belongs to a cell of its component");
  return {{box, cell->second}};
}

std::vector<std::vector<Holding>> holders_of_all(const CollectedState& state, int ranks) {
  std::map<std::string, const StoredComponent*> by_key;
  for (const StoredComponent& component : state.components) by_key[component.key] = &component;
  std::vector<std::vector<Holding>> result;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const StoredTensor& tensor = state.tensors[i];
    const StoredComponent& component = *by_key.at(tensor.component);
    // Neighbours mostly share a layout, and the holders of a layout cost a pass over all ranks.
    const bool like_last = i > 0 && tensor.cell.empty() && !is_values(tensor) &&
                           state.tensors[i - 1].component == tensor.component &&
                           state.tensors[i - 1].layout == tensor.layout;
    result.push_back(like_last ? result.back() : holders(tensor, component, ranks));
  }
  return result;
}

[[noreturn]] void fail_different(const std::string& what, const std::string& how) {
  throw Error(ExitCode::verdict, fmt::format("replicas differ in {}: {}", what, how),
              "the ranks do not hold the same state: go on from the last checkpoint");
}

// A holder brings the bytes of its box: what it lacks cannot be compared, nor written by it. Which of two ranks is
// wrong nobody can say here.
void check_held(const CollectedState& state, std::size_t tensor, Rank rank) {
  const StoredTensor& stored = state.tensors[tensor];
  const LocalBox& local = state.local[tensor];
  const auto size = static_cast<std::size_t>(size_of(stored.layout.dtype));
  for (const Holding& holding : state.holdings[tensor]) {
    if (std::find(holding.ranks.begin(), holding.ranks.end(), rank) == holding.ranks.end()) continue;
    const std::size_t bytes = static_cast<std::size_t>(elements(holding.box)) * size;
    if (local.box == holding.box && local.bytes.size() == bytes) continue;
    const std::string what = is_values(stored) ? fmt::format("the values of component '{}'", stored.component)
                                               : fmt::format("{} {}", full_name(stored), to_text(holding.box));
    fail_different(what, local.bytes.empty()
                             ? std::string("this rank lacks it")
                             : fmt::format("this rank has {} bytes, others {}", local.bytes.size(), bytes));
  }
}

}  // namespace

CollectedState collect_state(Communicator& ranks, const World& world, const std::vector<Component>& components,
                             Contents contents, const std::function<void()>& before) {
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
  const std::string common = encode(mine.common());
  std::vector<std::string> described{common};
  const std::string digest = to_hex(hash128(common));
  const std::vector<std::string> digests = ranks.all_gather(digest);
  if (std::any_of(digests.begin(), digests.end(), [&](const std::string& other) { return other != digests.front(); }))
    described = ranks.all_gather(common);
  const std::vector<std::string> owned = ranks.all_gather(encode(mine.own()));
  together(ranks, "agreeing on the state", [&] {
    std::vector<Descriptor> descriptors = decode(described);
    for (Descriptor& descriptor : decode(owned)) descriptors.push_back(std::move(descriptor));
    state.tensors = merge(descriptors);
    state.holdings = holders_of_all(state, ranks.size());
    std::set<std::string> known;
    for (std::size_t i = 0; i < state.tensors.size(); ++i) {
      known.insert(full_name(state.tensors[i]));
      state.local.push_back(mine.local(full_name(state.tensors[i])));
      check_held(state, i, ranks.rank());
    }
    for (const std::string& name : mine.shared()) {
      if (!known.contains(name)) fail_different(name, "this rank has it, the first rank of its cell lacks it");
    }
  });
  return state;
}

}  // namespace lockstep
