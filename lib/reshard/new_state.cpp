#include "reshard/new_state.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep {

namespace {

bool is_component(const NewState& state, const std::string& name) {
  return std::ranges::any_of(state.facts.components, [&](const StoredComponent& of) { return of.key == name; });
}

std::string alias_name(const StoredTensor& tensor, const std::string& alias) {
  const std::string name = full_name(tensor);
  return name.substr(0, name.size() - tensor.name.size()) + alias;
}

enum class Aliases { count, do_not };

bool takes(const NewState& state, const NamePattern& pattern, const StoredTensor& tensor, Aliases aliases) {
  if (is_component(state, pattern.text())) return tensor.component == pattern.text();
  if (pattern.matches(full_name(tensor))) return true;
  return aliases == Aliases::count && std::ranges::any_of(tensor.aliases, [&](const std::string& alias) {
           return pattern.matches(alias_name(tensor, alias));
         });
}

[[noreturn]] void fail_nothing(const NewState& state, const std::string& option, const NamePattern& pattern) {
  std::vector<std::string> names;
  for (const StoredComponent& component : state.facts.components) names.push_back(component.key);
  const std::size_t components = names.size();
  for (const StoredTensor& tensor : state.tensors) names.push_back(full_name(tensor));
  const auto near = nearest(pattern.text(), names);
  names.resize(components);
  throw Error(ExitCode::usage,
              fmt::format("--{} {}: no component has that name, and no tensor a name with a match of it", option,
                          pattern.text()),
              near ? fmt::format("the nearest name is '{}'", *near)
                   : fmt::format("the components are {}; checkpoint-inspect --tree lists tensors", join(names, ", ")));
}

/// By tensor: whether one of the patterns takes it. Each takes something.
std::vector<bool> taken(const NewState& state, const std::string& option, const std::vector<NamePattern>& patterns,
                        Aliases aliases) {
  std::vector<bool> result(state.tensors.size(), false);
  for (const NamePattern& pattern : patterns) {
    bool any = is_component(state, pattern.text());  // it may have no tensors
    for (std::size_t i = 0; i < state.tensors.size(); ++i) {
      if (!takes(state, pattern, state.tensors[i], aliases)) continue;
      result[i] = true;
      any = true;
    }
    if (!any) fail_nothing(state, option, pattern);
  }
  return result;
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
  return words.empty() ? ""
                       : fmt::format("left out: {}; a run that needs them does not go on from this", join(words, ", "));
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
  const std::vector<bool> kept = taken(state, "only", only, Aliases::count);
  // A tensor has more names than its own where it is tied: who skips one of these may want the other.
  const std::vector<bool> skipped = taken(state, "skip", skip, Aliases::do_not);
  std::vector<bool> leaves(state.tensors.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i] = skipped[i] || (!only.empty() && !kept[i]);
  if (std::ranges::all_of(leaves, [](bool left) { return left; }))
    fail(ExitCode::usage, "--only and --skip leave nothing to write");
  const std::string note = note_on(state, leaves);
  leave_out(state, leaves);
  if (!only.empty()) {  // a component without tensors is asked for by its name alone
    std::erase_if(state.facts.components, [&](const StoredComponent& component) {
      const bool has = std::ranges::any_of(
          state.tensors, [&](const StoredTensor& tensor) { return tensor.component == component.key; });
      return !has &&
             std::ranges::none_of(only, [&](const NamePattern& pattern) { return pattern.text() == component.key; });
    });
  }
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
