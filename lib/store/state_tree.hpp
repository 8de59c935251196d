// A state tree is what a component has to save: named tensors, each as the box of a logical tensor that this rank holds
// in host memory, and small values. A load fills the same tree again. store/component.hpp says which ranks hold equal
// state.
#pragma once

#include "base/json_fwd.hpp"
#include "layout/layout.hpp"

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// The elements of a box of a tensor, row-major: what a rank holds of it, read by a save, or where a load puts it.
struct StateBox {
  Box box;
  std::span<std::byte> bytes;
};

struct StateTensor {
  std::string name;  // logical, within its component: "h.0.attn.c_attn.weight", "exp_avg/wte.weight"
  Layout layout;
  bool by_layout = true;        // each rank holds the box that the layout gives it; else the layout is replicated() and
                                // `boxes` alone say what this rank holds
  std::vector<StateBox> boxes;  // of this rank; by_layout: the one box, which is left empty
};

struct StateAlias {
  std::string name;    // "lm_head.weight"
  std::string target;  // a tensor of the same tree, whose bytes are this one's: stored once
};

/// Entries keep the order in which they are added. Names are free text without control characters; two entries never
/// share one.
class StateTree {
 public:
  /// The bytes must stay valid until the save or load that asked for the tree has returned. Throws Error(bug) for a
  /// name taken or empty.
  void add(std::string name, Layout layout, std::span<std::byte> bytes);
  /// The same where this rank holds several boxes, or one that no layout gives it: rows of each of the matrices that
  /// are stacked in a tensor. All ranks together hold each element, and equal boxes or such as have nothing in common.
  void add_boxes(std::string name, Layout layout, std::vector<StateBox> boxes);
  void add_alias(std::string name, std::string target);
  /// A small value: a step count, a data position. Replaces one of the same name.
  void set(const std::string& name, const Json& value);

  const std::vector<StateTensor>& tensors() const { return tensors_; }
  const std::vector<StateAlias>& aliases() const { return aliases_; }
  bool has_value(const std::string& name) const;
  /// Throws Error(usage) if there is none.
  Json value(const std::string& name) const;
  /// All values as one JSON object, as stored; empty text without any.
  std::string values_text() const;
  /// Replaces all values by those of `text`. Throws Error(input) naming `origin`.
  void set_values_text(const std::string& text, const std::string& origin);

 private:
  void claim(const std::string& name);
  std::vector<StateTensor> tensors_;
  std::vector<StateAlias> aliases_;
  std::set<std::string> names_;                              // of both
  std::vector<std::pair<std::string, std::string>> values_;  // name, JSON text
};

}  // namespace lockstep
