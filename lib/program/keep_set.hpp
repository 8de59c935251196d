// A KeepSet names the activations that the forward of a recomputed block keeps, so that its recomputation does not
// compute them again. Their costs: Recomputation of program/model_plan.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace lockstep {

enum class Keep : std::uint8_t {
  attention,    // output of attention, and the logarithms of its softmax sums
  projections,  // outputs of the matrix products before and after attention: queries, keys and values; the stream
  mlp,          // input of the activation function, except that of experts
  experts,      // outputs of the matrix products of experts
};
inline constexpr std::array all_keeps{Keep::attention, Keep::projections, Keep::mlp, Keep::experts};
constexpr std::string_view name_of(Keep value) {
  switch (value) {
    case Keep::attention: return "attention";
    case Keep::projections: return "projections";
    case Keep::mlp: return "mlp";
    case Keep::experts: return "experts";
  }
  return "unknown";
}

class KeepSet {
 public:
  static constexpr std::size_t count = std::size_t{1} << all_keeps.size();  // number of all sets
  constexpr KeepSet() = default;
  constexpr KeepSet(std::initializer_list<Keep> values) {
    for (const Keep value : values) add(value);
  }
  static constexpr KeepSet at(std::size_t index) {
    KeepSet set;
    set.index_ = index;
    return set;
  }
  constexpr void add(Keep value) { index_ |= bit(value); }
  constexpr bool has(Keep value) const { return (index_ & bit(value)) != 0; }
  constexpr bool empty() const { return index_ == 0; }
  constexpr std::size_t index() const { return index_; }  // less than count
  bool operator==(const KeepSet&) const = default;

  /// "attention+matmul", where matmul stands for projections and mlp; empty for the empty set.
  std::string text() const {
    const bool products = has(Keep::projections) && has(Keep::mlp);
    std::string words;
    for (const Keep value : all_keeps) {
      if (!has(value) || (products && value == Keep::mlp)) continue;
      words += words.empty() ? "" : "+";
      words += products && value == Keep::projections ? "matmul" : name_of(value);
    }
    return words;
  }

 private:
  static constexpr std::size_t bit(Keep value) { return std::size_t{1} << static_cast<std::size_t>(value); }
  std::size_t index_ = 0;
};

}  // namespace lockstep
