#include "reshard/new_state.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "reshard/named_part.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep {

namespace {

bool is_component(const NewState& state, const std::string& name) {
  return std::ranges::any_of(state.facts.components, [&](const StoredComponent& of) { return of.key == name; });
}

// What a job requires and does not find, it does not go on from: that is told now rather than then.
std::string note_on(const NewState& before, const std::vector<bool>& leaves) {
  std::map<std::string, std::pair<int, int>> counts;  // by component: left out, all
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    auto& [left, all] = counts[before.tensors[i].component];
    left += leaves[i] ? 1 : 0;
    ++all;
  }
  std::vector<std::string> words;
  for (const auto& [key, count] : counts) {
    const auto [left, all] = count;
    if (left == all)
      words.push_back(key);
    else if (left > 0)
      words.push_back(fmt::format("{} of {} of {}", left, counted(all, "tensor"), key));
  }
  return words.empty()
             ? ""
             : fmt::format("left out: {}; a run that needs them cannot resume from this checkpoint", join(words, ", "));
}

}  // namespace

NewState whole_state(const Manifest& source) {
  NewState state{source, source.tensors, {}, {}};
  state.facts.tensors.clear();
  state.facts.files.clear();
  for (std::size_t i = 0; i < source.tensors.size(); ++i) state.sources.push_back(i);
  return state;
}

void leave_out(NewState& state, const std::vector<bool>& leaves) {
  std::set<std::string> had, have;  // components with tensors
  std::vector<StoredTensor> tensors;
  std::vector<std::size_t> sources;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    had.insert(state.tensors[i].component);
    if (leaves[i]) continue;
    have.insert(state.tensors[i].component);
    tensors.push_back(std::move(state.tensors[i]));
    sources.push_back(state.sources[i]);
  }
  state.tensors = std::move(tensors);
  state.sources = std::move(sources);
  std::erase_if(state.facts.components, [&](const StoredComponent& component) {
    return had.contains(component.key) && !have.contains(component.key);
  });
}

void select(NewState& state, const std::vector<NamePattern>& only, const std::vector<NamePattern>& skip) {
  if (only.empty() && skip.empty()) return;
  const CheckpointPart part = named_part(state.facts.components, state.tensors, {only, skip, "--"});
  std::vector<bool> leaves = part.tensors;
  leaves.flip();
  if (std::ranges::all_of(leaves, [](bool left) { return left; }))
    fail(ExitCode::usage, "--only and --skip leave nothing to write");
  const std::string note = note_on(state, leaves);
  leave_out(state, leaves);
  std::erase_if(state.facts.components,
                [&](const StoredComponent& component) { return !part.components.contains(component.key); });
  if (!note.empty()) state.notes.push_back(note);
}

void retype_weights(NewState& state, DType dtype) {
  const bool has_model = is_component(state, "model");
  if (!has_model) throw Error(ExitCode::usage, "--cast has no effect: there is no component model", "leave it out");
  for (StoredTensor& tensor : state.tensors) {
    const DType from = tensor.layout.dtype;
    if (tensor.component == "model" && is_floating(from) && size_of(from) > 1) tensor.layout.dtype = dtype;
  }
}

}  // namespace lockstep
