#include "store/state_tree.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

#include <algorithm>

namespace lockstep {

void StateTree::claim(const std::string& name) {
  const bool readable =
      !name.empty() && std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  invariant(readable && name.front() != '/' && name.back() != '/' && name.find("//") == std::string::npos,
            fmt::format("'{}' is a valid name of state", name));
  invariant(names_.insert(name).second, fmt::format("the name '{}' is used once in a state tree", name));
}

void StateTree::add(std::string name, Layout layout, const Region& memory) {
  claim(name);
  tensors_.push_back({std::move(name), std::move(layout), true, {{{}, memory}}});
}

void StateTree::add_boxes(std::string name, Layout layout, std::vector<StateRegion> boxes) {
  claim(name);
  invariant(layout.splits.empty() && layout.pins.empty(),
            fmt::format("the boxes of '{}' are given, or follow from its layout", name));
  tensors_.push_back({std::move(name), std::move(layout), false, std::move(boxes)});
}

void StateTree::add_alias(std::string name, std::string target) {
  claim(name);
  aliases_.push_back({std::move(name), std::move(target)});
}

void StateTree::set(const std::string& name, const Json& value) {
  const auto same =
      std::find_if(values_.begin(), values_.end(), [&](const auto& entry) { return entry.first == name; });
  if (same != values_.end()) {
    same->second = to_text(value);
  } else {
    values_.emplace_back(name, to_text(value));
  }
}

bool StateTree::has_value(const std::string& name) const {
  return std::any_of(values_.begin(), values_.end(), [&](const auto& entry) { return entry.first == name; });
}

Json StateTree::value(const std::string& name) const {
  for (const auto& [key, text] : values_) {
    if (key == name) return parse_json(text, name);
  }
  fail(ExitCode::usage, "the checkpoint holds no value '{}': another program wrote it", name);
}

std::string StateTree::values_text() const {
  if (values_.empty()) return {};
  Json object = Json::object();
  for (const auto& [name, text] : values_) object[name] = parse_json(text, name);
  return to_text(object);
}

void StateTree::set_values_text(const std::string& text, const std::string& origin) {
  values_.clear();
  if (text.empty()) return;
  const Json object = parse_json(text, origin);
  if (!object.is_object()) fail(ExitCode::input, "{}: values are not a JSON object", origin);
  for (const auto& [name, value] : object.items()) values_.emplace_back(name, to_text(value));
}

}  // namespace lockstep
