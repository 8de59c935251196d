#include "checkpoint/load_checkpoint.hpp"

#include "base/error.hpp"
#include "base/words.hpp"
#include "checkpoint/collected_state.hpp"
#include "checkpoint/compare_holders.hpp"
#include "checkpoint/shared_read.hpp"
#include "comm/together.hpp"
#include "store/checkpoint_plan.hpp"
#include "store/stored_file.hpp"
#include "store/verdict.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <set>

namespace lockstep {

namespace {

std::vector<std::string> cell_names(const StoredComponent& component) {
  std::vector<std::string> names;
  for (const auto& cell : component.cells) names.push_back(cell.first);
  std::sort(names.begin(), names.end());
  return names;
}

// Where ranks own state, those of another mesh are others even if they have the same numbers.
bool same_cells(const StoredComponent& saved, const Mesh& mesh_of_saved, const StoredComponent& now, const Mesh& mesh) {
  if (cell_names(saved) != cell_names(now)) return false;
  return saved.pattern != Pattern::per_rank || same_ranks(mesh_of_saved, mesh);
}

// LoadMode says how a component gets its state back.
enum class LoadMode { absent, direct, derive, redistribute, drop };

class Load {
 public:
  Load(const World& world, Rank rank, const CheckpointReader& reader, const std::vector<Component>& components,
       CollectedState& state, const std::optional<CheckpointPart>& part, const FileAccess& access)
      : world_(world),
        rank_(rank),
        reader_(reader),
        components_(components),
        state_(state),
        part_(part),
        access_(access) {}

  void prepare();  // the same on all ranks
  /// What is to be read, values among it. It stays valid until the next call.
  std::vector<SharedTensor> reads();
  /// Whether a tensor of the state comes from the checkpoint.
  bool loads(std::size_t tensor) const { return source_[tensor] >= 0; }
  void check_fingerprints(const std::vector<Fingerprint>& sums) const;
  void restore();
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  void leave_out(std::string what);
  bool belongs(const std::string& component) const { return !part_ || part_->components.contains(component); }
  bool belongs(std::size_t tensor) const { return !part_ || part_->tensors[tensor]; }
  bool belongs_whole(const std::string& component) const;
  bool takes_values(const Component& component) const;
  bool names_differ(const std::string& key) const;
  LoadMode load_mode_of(const Component& component, const StoredComponent* stored);
  void match_tensors();
  void check_nothing_left() const;
  void note_parts();
  void add_values(const Component& component, std::string& mine, std::vector<SharedTensor>& reads);
  LoadMode load_mode(const std::string& key) const;
  std::vector<StoredCellTensor> tensors_of_cell(const std::string& key, const std::string& cell) const;

  const World& world_;
  Rank rank_;
  const CheckpointReader& reader_;
  const std::vector<Component>& components_;
  CollectedState& state_;
  const std::optional<CheckpointPart>& part_;
  const FileAccess& access_;
  std::vector<LoadMode> load_modes_;  // by component
  std::vector<std::ptrdiff_t>
      source_;                       // by tensor of the state: its number in the checkpoint, -1 where nothing is read
  std::vector<std::string> values_;  // by component: those of this rank's cell, where the component is read directly
  std::deque<std::vector<Holding>> holdings_;  // of what the state does not say who holds it
  std::vector<std::string> notes_, left_out_;
};

void Load::leave_out(std::string what) {
  left_out_.push_back(what);
  notes_.push_back(std::move(what));
}

bool Load::belongs_whole(const std::string& component) const {
  if (!belongs(component)) return false;
  for (std::size_t i = 0; i < reader_.manifest().tensors.size(); ++i)
    if (reader_.manifest().tensors[i].component == component && !belongs(i)) return false;
  return true;
}

// Of a component of which some tensors are loaded the values are so if the part has them, or there are none.
bool Load::takes_values(const Component& component) const {
  for (std::size_t i = 0; i < reader_.manifest().tensors.size(); ++i) {
    const StoredTensor& tensor = reader_.manifest().tensors[i];
    if (is_values(tensor) && tensor.component == component.key && !belongs(i)) return false;
  }
  return true;
}

// Whether the tensors that are asked of a component are others than the checkpoint holds: each named by the cell that
// it belongs to, they tell that the cells are others.
bool Load::names_differ(const std::string& key) const {
  const auto names = [&](const std::vector<StoredTensor>& tensors) {
    std::set<std::string> found;
    for (const StoredTensor& tensor : tensors)
      if (tensor.component == key && !is_values(tensor)) found.insert(full_name(tensor));
    return found;
  };
  return names(state_.tensors) != names(reader_.manifest().tensors);
}

LoadMode Load::load_mode(const std::string& key) const {
  const auto found = std::find_if(components_.begin(), components_.end(),
                                  [&](const Component& component) { return component.key == key; });
  return load_modes_[static_cast<std::size_t>(found - components_.begin())];
}

void Load::prepare() {
  for (const Component& component : components_)
    load_modes_.push_back(load_mode_of(component, find_component(reader_.manifest(), component.key)));
  for (const StoredComponent& stored : reader_.manifest().components) {
    const bool asked = std::any_of(components_.begin(), components_.end(),
                                   [&](const Component& component) { return component.key == stored.key; });
    if (asked || !belongs(stored.key)) continue;
    const std::string what = fmt::format("component '{}' of {} is not known", stored.key, reader_.path().string());
    if (stored.required) fail_foreign(what, reader_.manifest().software);
    leave_out(what + ": it is ignored");
  }
  match_tensors();
  check_nothing_left();
  note_parts();
}

// Of components of which the part has some tensors and not others.
void Load::note_parts() {
  for (const Component& component : components_) {
    if (!belongs(component.key) || belongs_whole(component.key)) continue;
    int loaded = 0, all = 0;
    for (std::size_t i = 0; i < state_.tensors.size(); ++i) {
      if (state_.tensors[i].component != component.key) continue;
      ++all;
      loaded += source_[i] >= 0 ? 1 : 0;
    }
    notes_.push_back(fmt::format("{} of {} of component '{}' are loaded: the others start afresh", loaded,
                                 counted(all, "tensor"), component.key));
  }
}

LoadMode Load::load_mode_of(const Component& component, const StoredComponent* stored) {
  const std::string place = reader_.path().string();
  if (stored != nullptr && !belongs(component.key)) {
    notes_.push_back(fmt::format("component '{}' is not loaded: it starts afresh", component.key));
    return LoadMode::absent;
  }
  if (stored == nullptr) {
    if (component.required && !part_)
      throw Error(ExitCode::usage, fmt::format("{} holds no component '{}'", place, component.key),
                  "a run resumes from all of its state; to start from a part of it, use a new train.run_dir with "
                  "checkpoint.resume; checkpoint.components selects what is saved");
    notes_.push_back(fmt::format("the checkpoint holds no component '{}': it starts afresh", component.key));
    return LoadMode::absent;
  }
  if (component.remap_policy == Remap::drop && !cell_owned(stored->pattern) && names_differ(component.key)) {
    leave_out(fmt::format("{} holds component '{}' of other cells, which is ignored: {}", place, component.key,
                          component.dropped));
    return LoadMode::absent;
  }
  if (cell_owned(component.pattern) != cell_owned(stored->pattern)) {
    fail(ExitCode::usage, "component '{}' was saved as {} in {}, but is now declared {}", component.key,
         name_of(stored->pattern), place, name_of(component.pattern));
  }
  const auto owned = [&](const StoredTensor& tensor) {
    return tensor.component == component.key && !tensor.cell.empty();
  };
  const std::vector<StoredTensor>& tensors = reader_.manifest().tensors;
  if (std::none_of(tensors.begin(), tensors.end(), owned))
    return LoadMode::direct;  // all of it is addressed by name and box
  const auto now = std::find_if(state_.components.begin(), state_.components.end(),
                                [&](const StoredComponent& candidate) { return candidate.key == component.key; });
  if (same_cells(*stored, reader_.manifest().mesh, *now, world_.mesh)) return LoadMode::direct;
  switch (component.remap_policy) {
    case Remap::exact:
      throw Error(
          ExitCode::usage,
          fmt::format(
              "component '{}' was saved by {} of {} and is loaded by {} of {}, which its remap policy (exact) does not "
              "allow",
              component.key, counted(std::ssize(stored->cells), "cell"), to_text(reader_.manifest().mesh),
              now->cells.size(), to_text(world_.mesh)),
          "start as many ranks as the checkpoint had, on the same mesh");
    case Remap::derive:
      notes_.push_back(fmt::format("component '{}' is derived again for {}", component.key,
                                   counted(std::ssize(now->cells), "cell")));
      return LoadMode::derive;
    case Remap::redistribute:
      if (!access_.readers.empty())
        throw Error(ExitCode::usage,
                    fmt::format("component '{}' of {} must be redistributed, which needs all cells on each rank, but "
                                "its files lie on different nodes",
                                component.key, place),
                    gather_hint());
      notes_.push_back(fmt::format("component '{}' is redistributed from {} to {}", component.key, stored->cells.size(),
                                   counted(std::ssize(now->cells), "cell")));
      return LoadMode::redistribute;
    case Remap::drop:
      leave_out(fmt::format("component '{}' of the checkpoint is dropped: its cells differ", component.key));
      return LoadMode::drop;
  }
  return LoadMode::drop;
}

// Finds each tensor in the checkpoint, by its name or an alias; shapes and types must be equal.
void Load::match_tensors() {
  for (const StoredTensor& wanted : state_.tensors) {
    const LoadMode how = load_mode(wanted.component);
    const bool read = how == LoadMode::direct ||
                      (how != LoadMode::absent && wanted.cell.empty());  // logical tensors do not care for cells
    source_.push_back(-1);
    if (!read) continue;
    const auto number = reader_.find_tensor(full_name(wanted));
    if (number ? !belongs(*number) : !belongs_whole(wanted.component)) continue;
    if (!number) {
      throw Error(ExitCode::usage, fmt::format("{} holds no {}", reader_.path().string(), full_name(wanted)),
                  "the model differs from the one that was saved");
    }
    source_.back() = static_cast<std::ptrdiff_t>(*number);
    const Layout& stored = reader_.manifest().tensors[*number].layout;
    if (known_shape(stored) == known_shape(wanted.layout) && stored.dtype == wanted.layout.dtype) continue;
    throw Error(ExitCode::usage,
                fmt::format("{} is {} {} in {} and {} {} here", full_name(wanted), name_of(stored.dtype),
                            to_text(known_shape(stored)), reader_.path().string(), name_of(wanted.layout.dtype),
                            to_text(known_shape(wanted.layout))),
                "the model or its precision differs from the one that was saved");
  }
}

// State that is in the checkpoint and silently not loaded would be state lost.
void Load::check_nothing_left() const {
  std::set<std::ptrdiff_t> used(source_.begin(), source_.end());
  std::vector<std::string> left;
  for (std::size_t i = 0; i < reader_.manifest().tensors.size(); ++i) {
    const StoredTensor& tensor = reader_.manifest().tensors[i];
    const bool asked = std::any_of(components_.begin(), components_.end(),
                                   [&](const Component& component) { return component.key == tensor.component; });
    if (!asked || !belongs(i) || is_values(tensor) || used.count(static_cast<std::ptrdiff_t>(i)) > 0) continue;
    const LoadMode how = load_mode(tensor.component);
    if (how == LoadMode::absent || (!tensor.cell.empty() && how != LoadMode::direct)) continue;
    left.push_back(full_name(tensor));
  }
  if (left.empty()) return;
  fail(ExitCode::usage, "{} holds {}{}, which no component loads", reader_.path().string(), left.front(),
       left.size() > 1 ? fmt::format(" and {} more tensors", left.size() - 1) : "");
}

std::vector<Rank> all_ranks(const World& world) {
  std::vector<Rank> ranks(static_cast<std::size_t>(world_size(world.mesh)));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<SharedTensor> Load::reads() {
  std::vector<SharedTensor> reads;
  for (std::size_t i = 0; i < source_.size(); ++i) {
    if (!loads(i)) continue;
    const StoredTensor& tensor = state_.tensors[i];
    SharedTensor read{static_cast<std::size_t>(source_[i]), tensor.layout.global, nullptr, {}, state_.local[i]};
    const auto component = std::ranges::find(state_.components, tensor.component, &StoredComponent::key);
    if (tensor.holding == TensorHolding::boxes) {
      read.holdings = state_.holdings[i];
    } else if (tensor.cell.empty() && component->pattern != Pattern::global) {
      read.layout = &tensor.layout;
    } else {
      holdings_.push_back(holders_of(tensor, *component, world_size(world_.mesh)));
      if (component->pattern == Pattern::global)
        for (Holding& holding : holdings_.back()) holding.ranks = all_ranks(world_);  // all get it back
      read.holdings = holdings_.back();
    }
    reads.push_back(std::move(read));
  }
  values_.assign(components_.size(), {});
  for (std::size_t i = 0; i < components_.size(); ++i)
    if (load_modes_[i] == LoadMode::direct && takes_values(components_[i]))
      add_values(components_[i], values_[i], reads);
  return reads;
}

// Those of each cell, for the ranks of it.
void Load::add_values(const Component& component, std::string& mine, std::vector<SharedTensor>& reads) {
  for (const std::vector<Rank>& cell : cells_of(component, world_)) {
    const auto number = reader_.values_of(component.key, cell_of(component, world_, cell.front()));
    if (!number) continue;
    const Box box = whole(reader_.manifest().tensors[*number].layout.global);
    if (empty(box)) continue;
    holdings_.push_back({{box, cell}});
    reads.push_back({*number, box.extent, nullptr, holdings_.back(), {}});
    if (!std::ranges::binary_search(cell, rank_)) continue;
    mine.assign(static_cast<std::size_t>(elements(box)), '\0');
    reads.back().local = {{box, std::as_writable_bytes(std::span(mine))}};
  }
}

void Load::check_fingerprints(const std::vector<Fingerprint>& sums) const {
  for (std::size_t i = 0; i < source_.size(); ++i) {
    if (!loads(i)) continue;
    const StoredTensor& stored = reader_.manifest().tensors[static_cast<std::size_t>(source_[i])];
    if (stored.fingerprint != sums[i])
      fail(ExitCode::input, "{} in {}: the loaded values do not match its fingerprint", full_name(stored),
           reader_.path().string());
  }
}

std::vector<StoredCellTensor> Load::tensors_of_cell(const std::string& key, const std::string& cell) const {
  std::vector<StoredCellTensor> tensors;
  for (std::size_t i = 0; i < reader_.manifest().tensors.size(); ++i) {
    const StoredTensor& stored = reader_.manifest().tensors[i];
    if (stored.component != key || stored.cell != cell || is_values(stored)) continue;
    const Layout& layout = stored.layout;
    tensors.push_back({stored.name, layout.global, layout.dtype, [this, i, &layout] {
                         const Box box = whole(layout.global);
                         std::vector<std::byte> bytes(static_cast<std::size_t>(elements(box)) *
                                                      static_cast<std::size_t>(size_of(layout.dtype)));
                         reader_.read(i, box, bytes);
                         return bytes;
                       }});
  }
  return tensors;
}

void Load::restore() {
  for (std::size_t i = 0; i < components_.size(); ++i) {
    const Component& component = components_[i];
    StateTree& tree = state_.trees[i];
    if (load_modes_[i] == LoadMode::direct && takes_values(component)) {
      tree.set_values_text(values_[i], reader_.path().string());
      if (component.restore) component.restore(tree);
    } else if (load_modes_[i] == LoadMode::derive && component.remap) {
      component.remap({});
    } else if (load_modes_[i] == LoadMode::redistribute) {
      std::vector<StoredCell> cells;
      for (const auto& cell : find_component(reader_.manifest(), component.key)->cells) {
        cells.push_back({cell.first, {}, tensors_of_cell(component.key, cell.first)});
        cells.back().values.set_values_text(reader_.values_text(component.key, cell.first), reader_.path().string());
      }
      if (!component.remap)
        fail(ExitCode::bug, "component '{}' is to be redistributed but has no function for it", component.key);
      component.remap(cells);
    }
  }
}

// They are put together from the boxes of all ranks, whose holders are compared: what was loaded is always proven.
std::vector<Fingerprint> fingerprints_over_ranks(Communicator& ranks, const CollectedState& state, const Load& load) {
  std::vector<HeldBox> boxes;
  std::vector<Fingerprint> sums(state.tensors.size());
  together(ranks, "comparing replicas", [&] {
    for (std::size_t tensor = 0; tensor < state.tensors.size(); ++tensor) {
      if (!load.loads(tensor)) continue;
      const Layout& layout = state.tensors[tensor].layout;
      for (const Holding& holding : state.holdings[tensor]) {
        if (!std::ranges::binary_search(holding.ranks, ranks.rank())) continue;
        const bool counts = holding.ranks.front() == ranks.rank();
        boxes.push_back({tensor, holding.box, static_cast<int>(holding.ranks.size()), counts, {}});
        const Region memory = memory_of(state, tensor, holding.box);
        const Fingerprint sum = fingerprint_of(layout, holding.box, memory);
        boxes.back().evidence = Evidence{sum.first, sum.second, 0, 0};
        boxes.back().memory = memory;
        if (counts) sums[tensor] += sum;
      }
    }
  });
  compare_holders_in_pieces(ranks, state, boxes, std::numeric_limits<std::uint64_t>::max());
  add_up(ranks, sums);
  return sums;
}

}  // namespace

LoadReport load(Communicator& ranks, const World& world, const CheckpointReader& reader,
                const std::vector<Component>& components, int threads, const std::optional<CheckpointPart>& part,
                const FileAccess& access) {
  const std::string what = fmt::format("loading {}", reader.path().string());
  const Rank rank = ranks.rank();
  CollectedState state = collect_state(ranks, world, components, Contents::tensors, [] {}, {&rank, 1});
  agree_equal(ranks, "the checkpoint to load", reader.manifest().uuid);
  share_tables(ranks, reader, access, what);
  LoadReport report;
  report.state_digest = reader.manifest().state_digest;
  const std::uint64_t read_before = reader.bytes_read();
  Load load(world, ranks.rank(), reader, components, state, part, access);
  std::vector<SharedTensor> reads;
  together(ranks, what, [&] {
    load.prepare();
    reads = load.reads();
  });
  read_together(ranks, reader, reads, threads, what, access);
  const std::vector<Fingerprint> sums = fingerprints_over_ranks(ranks, state, load);
  together(ranks, what, [&] {
    load.check_fingerprints(sums);
    load.restore();
  });
  for (const SharedTensor& read : reads)
    for (const StateRegion& local : read.local) report.bytes += local.memory.bytes;
  report.read = reader.bytes_read() - read_before;
  report.notes = load.notes();
  report.left_out = load.left_out();
  return report;
}

}  // namespace lockstep
