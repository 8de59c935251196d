// A state tree is the state that a component saves: small values and named tensors, each as the box of a logical tensor
// that this rank holds, in memory of the host or of its device. A load fills the same tree again. Which ranks hold
// equal state: store/component.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "device/region.hpp"
#include "layout/layout.hpp"

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// The elements of a box of a tensor in host memory, row-major.
struct StateBox {
  Box box;
  std::span<std::byte> bytes;
};

/// The elements of a box of a tensor, row-major: the source of a save, or the destination of a load.
struct StateRegion {
  Box box;
  Region memory;
};

struct StateTensor {
  std::string name;  // logical, within its component: "h.0.attn.c_attn.weight", "exp_avg/wte.weight"
  Layout layout;
  /// If true, each rank holds the box that the layout gives it. If false, the layout is replicated(), and only `boxes`
  /// say which elements this rank holds.
  bool by_layout = true;
  std::vector<StateRegion> boxes;  // of this rank; by_layout: one entry, whose box is left empty
};

struct StateAlias {
  std::string name;    // "lm_head.weight"
  std::string target;  // a tensor of the same tree with the same bytes, which are stored once
};

/// Entries keep the order in which they are added. Names are free text without control characters, and each is unique.
class StateTree {
 public:
  /// Adds a tensor. The memory must stay valid until the save or load that asked for the tree has returned. Throws
  /// Error(bug) for a name that is taken or empty.
  void add(std::string name, Layout layout, const Region& memory);
  /// Adds a tensor in several boxes, or in a box that no layout gives this rank, such as rows of each of several
  /// stacked matrices. All ranks together hold each element, and two boxes are either equal or disjoint.
  void add_boxes(std::string name, Layout layout, std::vector<StateRegion> boxes);
  void add_alias(std::string name, std::string target);
  /// Sets a small value, such as a step count or a data position. Replaces a value of the same name.
  void set(const std::string& name, const Json& value);

  const std::vector<StateTensor>& tensors() const { return tensors_; }
  const std::vector<StateAlias>& aliases() const { return aliases_; }
  bool has_value(const std::string& name) const;
  /// Throws Error(usage) if there is none.
  Json value(const std::string& name) const;
  /// Returns all values as one JSON object, as stored; empty text if there are none.
  std::string values_text() const;
  /// Replaces all values by those of `text`. Throws Error(input) naming `origin`.
  void set_values_text(const std::string& text, const std::string& origin);

 private:
  void claim(const std::string& name);
  std::vector<StateTensor> tensors_;
  std::vector<StateAlias> aliases_;
  std::set<std::string> names_;                              // of tensors and aliases
  std::vector<std::pair<std::string, std::string>> values_;  // name, JSON text
};

}  // namespace lockstep
