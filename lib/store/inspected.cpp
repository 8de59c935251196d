#include "store/inspected.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "layout/box_runs.hpp"

#include <algorithm>
#include <vector>

namespace lockstep {

std::string pattern_text(const StoredComponent& component) {
  return component.equal_along.empty()
             ? std::string(name_of(component.pattern))
             : fmt::format("{}({})", name_of(component.pattern), join(component.equal_along, ", "));
}

std::string layout_text(const Layout& layout) {
  std::vector<std::string> parts;
  for (const Split& split : layout.splits)
    parts.push_back(fmt::format("dim {} over {}", split.dim, join(split.axes, "+")));
  for (const Pin& pin : layout.pins)
    parts.push_back(fmt::format("on {} {}", pin.axis, fmt::join(pin.coordinates, ",")));
  const std::string view = layout.known.empty() ? "" : fmt::format(" of {}", to_text(layout.global));
  return parts.empty() ? "whole" : join(parts, "; ") + view;
}

std::string number_text(double value) { return fmt::format("{:.9g}", value); }

std::size_t find_number(const CheckpointReader& checkpoint, const std::string& name) {
  const StoredComponent* const model = find_component(checkpoint.manifest(), "model");
  if (model != nullptr) {  // a weight goes by its own name too
    for (std::size_t i = 0; i < checkpoint.manifest().tensors.size(); ++i) {
      const StoredTensor& tensor = checkpoint.manifest().tensors[i];
      const bool alias = std::find(tensor.aliases.begin(), tensor.aliases.end(), name) != tensor.aliases.end();
      if (tensor.component == "model" && (tensor.name == name || alias)) return i;
    }
  }
  return checkpoint.number_of(name);
}

// All elements of a tensor, a few rows at a time.
void for_each_element(const CheckpointReader& checkpoint, std::size_t number,
                      const std::function<void(std::span<const std::byte>)>& visit) {
  const StoredTensor& tensor = checkpoint.manifest().tensors[number];
  const Box all = whole(tensor.layout.global);
  const auto size = static_cast<std::size_t>(size_of(tensor.layout.dtype));
  const std::int64_t count = elements(all);
  if (count == 0) return;
  const std::int64_t rows = all.extent.empty() ? 1 : all.extent[0];
  const std::int64_t at_once = std::max<std::int64_t>(1, static_cast<std::int64_t>(block_bytes / size) * rows / count);
  std::vector<std::byte> bytes;
  for (std::int64_t row = 0; row < rows; row += at_once) {
    const Box part = all.extent.empty() ? all : rows_of(all, row, std::min(at_once, rows - row));
    bytes.resize(static_cast<std::size_t>(elements(part)) * size);
    checkpoint.read(number, part, bytes);
    for (std::size_t at = 0; at < bytes.size(); at += size) visit(std::span<const std::byte>(bytes).subspan(at, size));
  }
}

}  // namespace lockstep
