#include "reshard/mesh_state.hpp"

#include "architecture/tensor_parallel.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "exchange/hf_config.hpp"
#include "layout/sequence.hpp"
#include "options/document.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace lockstep {

namespace {

/// Axes that cut rows, in any of the factors that meshes have of them, and those of experts, which cut what a model's
/// config.json tells: another mesh has other ones, or none.
bool is_cut_anew(const AxisName& axis) {
  return axis.starts_with("dp_shard") || axis == ring_axis || axis == ulysses_axis || axis == expert_axis ||
         axis == expert_shard_axis;
}

int size_in(const Mesh& mesh, const AxisName& axis) {
  const Axis* const found = find_axis(mesh, axis);
  return found == nullptr ? 1 : found->size;
}

std::string text_of(const MeshRequest& asked) {
  std::vector<std::string> words;
  for (const auto& [name, size] : asked.axes) words.push_back(fmt::format("{}={}", name, size));
  return join(words, ",");
}

/// The state on its way from one mesh to another.
class Move {
 public:
  Move(const MeshRequest& asked, const KnownModel& model, NewState& state);
  void run();

 private:
  std::optional<AxisName> axis_of_model() const;
  void need_model(const std::string& lacks) const;
  void leave_cells();
  std::string what_becomes_of(const StoredComponent& component, std::vector<bool>& leaves) const;
  std::optional<Layout> layout_of_model(const StoredTensor& tensor) const;
  Layout moved(const StoredTensor& tensor) const;
  Layout by_model(const Layout& old, Layout layout) const;
  Layout by_splits(const Layout& old) const;
  void share(StoredComponent& component) const;

  const MeshRequest& asked_;
  const KnownModel& model_;
  NewState& state_;
  const Mesh old_;
  Mesh mesh_;
  std::vector<AxisName> row_axes_;
  std::map<std::string, Layout> of_model_;  // by the names of weights
};

/// Neighbours along tp with the same key heads.
int key_replicas(const MeshRequest& asked, const KnownModel& model, const Mesh& old) {
  const int ranks = size_along(asked, tensor_axis);
  if (model.facts) return sharing_among(ranks, model.facts->config).key_replicas;
  const int old_keys = size_in(old, key_replica_axis);
  return ranks == old_keys * size_in(old, tensor_axis) ? old_keys : 1;
}

Move::Move(const MeshRequest& asked, const KnownModel& model, NewState& state)
    : asked_(asked), model_(model), state_(state), old_(state.facts.mesh) {
  if (!model.facts) need_model(model.lacks);
  mesh_ = job_mesh(asked, key_replicas(asked, model, old_));
  row_axes_ = row_axes(asked, mesh_);
  if (model.facts) of_model_ = model_layouts(*model.facts, mesh_, row_axes_);
}

// The axis along which the model has to be divided anew: which heads lie together, which layers, and which rows are
// experts, no split of the old layouts tells.
std::optional<AxisName> Move::axis_of_model() const {
  const int stages = size_along(asked_, pipeline_axis), shares = size_along(asked_, tensor_axis);
  if (size_along(asked_, expert_axis) > 1) return expert_axis;
  const int keys = size_in(old_, key_replica_axis), old_shares = size_in(old_, tensor_axis) * keys;
  if (shares > 1 && (old_shares == 1 || (keys > 1 && shares != old_shares))) return tensor_axis;
  if (stages > 1 && stages != size_in(old_, pipeline_axis)) return pipeline_axis;
  return std::nullopt;
}

void Move::need_model(const std::string& lacks) const {
  const auto axis = axis_of_model();
  if (!axis) return;
  throw Error(
      ExitCode::usage,
      fmt::format("cannot lay out the state of {} as {}: dividing the model over {} needs its config.json, and {}",
                  to_text(old_), text_of(asked_), *axis, lacks),
      fmt::format("resume with train and parallel.{} {}: train loads any layout, and its next save has the "
                  "new one",
                  *axis, size_along(asked_, *axis)));
}

void Move::run() {
  leave_cells();
  for (StoredTensor& tensor : state_.tensors) {
    if (!tensor.cell.empty()) continue;
    tensor.layout = moved(tensor);
    tensor.holding = TensorHolding::layout;
    check(tensor.layout);
  }
  state_.facts.mesh = mesh_;
  if (!same_ranks(old_, mesh_)) state_.facts.nodes.clear();  // nobody knows where such ranks would run
  for (StoredComponent& component : state_.facts.components) {
    share(component);
    add_cells(component, world_of(state_.facts));
  }
}

// State that belongs to cells stays where the cells do.
void Move::leave_cells() {
  if (same_ranks(old_, mesh_)) return;
  std::vector<bool> leaves(state_.tensors.size(), false);
  for (const StoredComponent& component : state_.facts.components) {
    const std::string note = what_becomes_of(component, leaves);
    if (!note.empty()) state_.notes.push_back(note);
  }
  leave_out(state_, leaves);
}

std::string Move::what_becomes_of(const StoredComponent& component, std::vector<bool>& leaves) const {
  bool of_cells = false, of_all = false;
  for (const StoredTensor& tensor : state_.tensors) {
    if (tensor.component != component.key) continue;
    of_cells = of_cells || !tensor.cell.empty();
    of_all = of_all || tensor.cell.empty();
  }
  // Tensors that a load drops on other ranks may be named by their cell, whatever their pattern.
  const bool by_names = of_all && component.remap_policy == Remap::drop;
  if (!of_cells && !by_names) return {};
  const bool left = component.remap_policy == Remap::drop || (component.remap_policy == Remap::derive && !of_all);
  if (!left)
    throw Error(ExitCode::usage,
                fmt::format("component '{}' is {} and belongs to the ranks of {}: with its remap policy ({}) only the "
                            "program that saved it can move it to other ranks",
                            component.key, name_of(component.pattern), to_text(old_), name_of(component.remap_policy)),
                fmt::format("--skip {} leaves it out", component.key));
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (state_.tensors[i].component == component.key) leaves[i] = true;
  return fmt::format("component {} is left out: it belongs to the ranks of {}, and a load on other ranks {}",
                     component.key, to_text(old_),
                     component.remap_policy == Remap::drop ? "drops it" : "derives it again");
}

// Weights by their names; what an optimizer keeps of them by these behind a word of its own: exp_avg/wte.weight. What
// it keeps of rows or columns has another shape.
std::optional<Layout> Move::layout_of_model(const StoredTensor& tensor) const {
  const std::size_t slash = tensor.name.find('/');
  for (const std::string& name : {tensor.name, slash == std::string::npos ? "" : tensor.name.substr(slash + 1)}) {
    const auto found = of_model_.find(name);
    if (found == of_model_.end()) continue;
    if (known_shape(found->second) == known_shape(tensor.layout)) return like(found->second, tensor.layout.dtype);
    if (tensor.component == "optimizer" && !tensor.layout.global.empty())
      return matrix_state_layout(found->second, tensor.layout.global, tensor.layout.dtype);
  }
  return std::nullopt;
}

Layout Move::moved(const StoredTensor& tensor) const {
  if (is_values(tensor)) return replicated(tensor.layout.global, tensor.layout.dtype, mesh_);
  const bool of_model = tensor.component == "model" || tensor.component == "optimizer";
  if (auto known = of_model ? layout_of_model(tensor) : std::nullopt) return by_model(tensor.layout, std::move(*known));
  if (tensor.component == "model" && model_.facts)
    need_model(fmt::format("{} is not a tensor of that model", full_name(tensor)));
  return by_splits(tensor.layout);
}

// Stages that stay as many stay where they were cut.
Layout Move::by_model(const Layout& old, Layout layout) const {
  const int stages = size_in(mesh_, pipeline_axis);
  if (stages == 1 || stages != size_in(old_, pipeline_axis)) return layout;
  layout.pins.clear();
  for (const Pin& pin : old.pins)
    if (pin.axis == pipeline_axis) layout.pins.push_back(pin);
  return layout;
}

Layout Move::by_splits(const Layout& old) const {
  Layout layout = old;
  layout.mesh = mesh_;
  layout.splits.clear();
  for (Split split : old.splits) {
    std::erase_if(split.axes,
                  [&](const AxisName& axis) { return is_cut_anew(axis) || find_axis(mesh_, axis) == nullptr; });
    if (!split.axes.empty()) layout.splits.push_back(std::move(split));
  }
  std::erase_if(layout.pins, [&](const Pin& pin) {
    return find_axis(mesh_, pin.axis) == nullptr || size_in(mesh_, pin.axis) != size_in(old_, pin.axis);
  });
  if (layout.splits.empty() && !layout.known.empty()) {  // the view was for them
    layout.global = layout.known;
    layout.known.clear();
  }
  if (!row_axes_.empty() && !layout.global.empty()) layout.splits.push_back({.axes = row_axes_, .dim = 0});
  return layout;
}

// As a job declares it: equal along the axes along which all its tensors are.
void Move::share(StoredComponent& component) const {
  if (component.pattern != Pattern::replicated && component.pattern != Pattern::per_group) return;
  std::vector<AxisName> alike;
  for (const Axis& axis : mesh_.axes) alike.push_back(axis.name);
  bool of_cells = false;
  for (const StoredTensor& tensor : state_.tensors) {
    if (tensor.component != component.key) continue;
    of_cells = of_cells || !tensor.cell.empty();
    if (!tensor.cell.empty() || is_values(tensor)) continue;
    const std::vector<AxisName> own = replicated_axes(tensor.layout);
    std::erase_if(alike, [&](const AxisName& axis) { return std::ranges::find(own, axis) == own.end(); });
  }
  if (of_cells) return;  // the same ranks: their cells have the names that they had
  const bool everywhere = alike.size() == mesh_.axes.size();
  component.pattern = everywhere ? Pattern::replicated : Pattern::per_group;
  component.equal_along = everywhere ? std::vector<AxisName>{} : std::move(alike);
}

/// The length of a run's sequences as its configuration has it.
std::optional<std::int64_t> sequence_length(const std::string& config) {
  Problems problems;
  const Node document = parse_yaml(config, "config.yaml", problems);
  const Node* const data = document.kind == Node::Kind::map ? document.find("data") : nullptr;
  const Node* const length = data != nullptr && data->kind == Node::Kind::map ? data->find("sequence_length") : nullptr;
  if (length == nullptr) return std::nullopt;
  constexpr std::int64_t longest = std::int64_t{1} << 24;  // of a file that says anything: a balance needs no more
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(length->text.data(), length->text.data() + length->text.size(), value);
  return error == std::errc{} && value > 0 ? std::optional(std::min(value, longest)) : std::nullopt;
}

std::string document_of(const Manifest& manifest, const std::string& name) {
  for (const auto& [key, text] : manifest.documents)
    if (key == name) return text;
  return {};
}

std::string config_of_model(const Manifest& source, const std::string& values) {
  if (std::string text = document_of(source, "config.json"); !text.empty()) return text;
  if (values.empty()) return {};
  const Json trainer = parse_json(values, "the values of component trainer");
  const auto found = trainer.find("hf_config");
  return found == trainer.end() ? "" : to_text(*found);
}

}  // namespace

KnownModel model_known_to(const Manifest& source, const std::string& values) {
  const std::string config = config_of_model(source, values);
  if (config.empty()) return {.lacks = "the checkpoint has none"};
  try {
    ModelFacts facts{parse_hf_config(config, "the checkpoint's config.json"), 1};
    const std::int64_t most = std::max<std::int64_t>(facts.config.max_positions, 1);
    facts.sequence_length = sequence_length(document_of(source, "config.yaml")).value_or(most);
    return {.facts = std::move(facts)};
  } catch (const Error& error) {  // of a model that this program does not know, its state can be moved all the same
    return {.lacks = error.what()};
  }
}

void lay_out_on(const MeshRequest& asked, const KnownModel& model, NewState& state) { Move(asked, model, state).run(); }

}  // namespace lockstep
