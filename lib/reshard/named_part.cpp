#include "reshard/named_part.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "options/suggestion.hpp"

#include <algorithm>

namespace lockstep {

namespace {

std::string alias_name(const StoredTensor& tensor, const std::string& alias) {
  const std::string name = full_name(tensor);
  return name.substr(0, name.size() - tensor.name.size()) + alias;
}

enum class Aliases { count, do_not };

// What there is to be named.
struct NamedThings {
  std::span<const StoredComponent> components;
  std::span<const StoredTensor> tensors;
};

bool is_component(const NamedThings& things, const std::string& name) {
  return std::ranges::find(things.components, name, &StoredComponent::key) != things.components.end();
}

bool takes(const NamedThings& things, const NamePattern& pattern, const StoredTensor& tensor, Aliases aliases) {
  if (is_component(things, pattern.text())) return tensor.component == pattern.text();
  if (pattern.matches(full_name(tensor))) return true;
  return aliases == Aliases::count && std::ranges::any_of(tensor.aliases, [&](const std::string& alias) {
           return pattern.matches(alias_name(tensor, alias));
         });
}

[[noreturn]] void fail_nothing(const NamedThings& things, const std::string& option, const NamePattern& pattern) {
  std::vector<std::string> names;
  for (const StoredComponent& component : things.components) names.push_back(component.key);
  const std::size_t components = names.size();
  for (const StoredTensor& tensor : things.tensors) names.push_back(full_name(tensor));
  const auto near = suggested_pattern(pattern.text(), names);
  names.resize(components);
  throw Error(ExitCode::usage,
              fmt::format("{} {}: no component has that name, and no tensor name matches it", option, pattern.text()),
              near ? fmt::format("the nearest name is '{}'", *near)
                   : fmt::format("the components are {}; checkpoint-inspect --tree lists tensors", join(names, ", ")));
}

/// By tensor: whether one of the patterns takes it. Each takes something.
std::vector<bool> taken(const NamedThings& things, const std::string& option, const std::vector<NamePattern>& patterns,
                        Aliases aliases) {
  std::vector<bool> result(things.tensors.size(), false);
  for (const NamePattern& pattern : patterns) {
    bool any = is_component(things, pattern.text());  // it may have no tensors
    for (std::size_t i = 0; i < things.tensors.size(); ++i) {
      if (!takes(things, pattern, things.tensors[i], aliases)) continue;
      result[i] = true;
      any = true;
    }
    if (!any) fail_nothing(things, option, pattern);
  }
  return result;
}

bool names_it(const std::vector<NamePattern>& patterns, const std::string& component) {
  return std::ranges::any_of(patterns, [&](const NamePattern& pattern) { return pattern.text() == component; });
}

}  // namespace

CheckpointPart named_part(std::span<const StoredComponent> components, std::span<const StoredTensor> tensors,
                          const PartNames& names) {
  const NamedThings things{components, tensors};
  const std::vector<bool> kept = taken(things, names.prefix + "only", names.only, Aliases::count);
  // A tensor has more names than its own where it is tied: who skips one of these may want the other.
  const std::vector<bool> skipped = taken(things, names.prefix + "skip", names.skip, Aliases::do_not);
  CheckpointPart part;
  std::set<std::string> with_tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    part.tensors.push_back(!skipped[i] && (names.only.empty() || kept[i]));
    with_tensors.insert(tensors[i].component);
    if (part.tensors.back()) part.components.insert(tensors[i].component);
  }
  for (const StoredComponent& component : components) {  // one without tensors is meant by its name alone
    if (with_tensors.contains(component.key) || names_it(names.skip, component.key)) continue;
    if (names.only.empty() || names_it(names.only, component.key)) part.components.insert(component.key);
  }
  return part;
}

}  // namespace lockstep
