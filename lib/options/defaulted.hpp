// The value of an option that may be left unset: its default stands beside it, and nowhere else.
#pragma once

#include <optional>
#include <utility>

namespace lockstep {

/// An option that has a value in any case, and remembers whether a user set it. Rules ask is_set(), because an option
/// that has no effect may not be set; everything else asks value().
template <class T>
class Defaulted {
 public:
  constexpr Defaulted(T otherwise)
      : default_(std::move(otherwise)) {}  // NOLINT: a member is initialised by its default

  constexpr bool is_set() const { return set_.has_value(); }
  constexpr const T& value() const { return set_ ? *set_ : default_; }
  constexpr const T& default_value() const { return default_; }
  /// Returns the value that the user set, if any.
  constexpr const std::optional<T>& set() const { return set_; }
  /// The default stays.
  Defaulted& operator=(std::optional<T> value) {
    set_ = std::move(value);
    return *this;
  }

  bool operator==(const Defaulted&) const = default;

 private:
  std::optional<T> set_;
  T default_;
};

}  // namespace lockstep
