#include "store/inspected.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "layout/box_runs.hpp"
#include "options/suggestion.hpp"

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
  const std::vector<StoredTensor>& tensors = checkpoint.manifest().tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {  // a weight goes by its own name too
    const bool alias = std::ranges::find(tensors[i].aliases, name) != tensors[i].aliases.end();
    if (tensors[i].component == "model" && (tensors[i].name == name || alias)) return i;
  }
  if (const auto number = checkpoint.find_tensor(name)) return *number;
  std::vector<std::string> names;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.component == "model" && !is_values(tensor)) names.push_back(tensor.name);
    names.push_back(full_name(tensor));
  }
  const auto near = suggested_tensor(name, names);
  throw Error(ExitCode::input, fmt::format("{} holds no '{}'", checkpoint.path().string(), name),
              near ? fmt::format("did you mean '{}'?", *near) : "checkpoint-inspect --tree lists the tensors");
}

TensorBlocks::TensorBlocks(const CheckpointReader& checkpoint, std::size_t number)
    : checkpoint_(checkpoint),
      number_(number),
      all_(whole(checkpoint.manifest().tensors[number].layout.global)),
      element_bytes_(static_cast<std::size_t>(size_of(checkpoint.manifest().tensors[number].layout.dtype))) {
  const std::int64_t count = elements(all_);
  if (count == 0) return;
  rows_ = all_.extent.empty() ? 1 : all_.extent[0];
  at_once_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(block_bytes / element_bytes_) * rows_ / count);
}

std::span<const std::byte> TensorBlocks::next() {
  if (row_ == rows_) return {};
  const std::int64_t count = std::min(at_once_, rows_ - row_);
  const Box part = all_.extent.empty() ? all_ : rows_of(all_, row_, count);
  row_ += count;
  bytes_.resize(static_cast<std::size_t>(elements(part)) * element_bytes_);
  checkpoint_.read(number_, part, bytes_);
  return bytes_;
}

void for_each_element(const CheckpointReader& checkpoint, std::size_t number,
                      const std::function<void(std::span<const std::byte>)>& visit) {
  const auto size = static_cast<std::size_t>(size_of(checkpoint.manifest().tensors[number].layout.dtype));
  TensorBlocks blocks(checkpoint, number);
  for (auto bytes = blocks.next(); !bytes.empty(); bytes = blocks.next())
    for (std::size_t at = 0; at < bytes.size(); at += size) visit(bytes.subspan(at, size));
}

}  // namespace lockstep
