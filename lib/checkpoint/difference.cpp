#include "checkpoint/difference.hpp"

#include "base/json.hpp"
#include "base/load.hpp"
#include "base/words.hpp"
#include "store/element_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

std::string shown(const Json* value) {
  constexpr std::size_t most = 60;
  if (value == nullptr) return "nothing";
  std::string text = to_text(*value);
  if (text.size() > most) text = fmt::format("{}... ({} bytes)", text.substr(0, most), text.size());
  return text;
}

std::string told(const std::string& path, const Json* one, const Json* other) {
  return fmt::format("{} is {} against {}", path.empty() ? "all" : path, shown(one), shown(other));
}

std::string first_difference(const std::string& path, const Json& one, const Json& other) {
  if (one.is_object() && other.is_object()) {
    const auto inside = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
    for (const auto& [key, value] : one.items()) {
      const auto same = other.find(key);
      if (same == other.end()) return told(inside(key), &value, nullptr);
      if (std::string found = first_difference(inside(key), value, *same); !found.empty()) return found;
    }
    for (const auto& [key, value] : other.items())
      if (!one.contains(key)) return told(inside(key), nullptr, &value);
  } else if (one.is_array() && other.is_array()) {
    for (std::size_t i = 0; i < std::max(one.size(), other.size()); ++i) {
      const std::string inside = fmt::format("{}[{}]", path, i);
      if (i >= one.size()) return told(inside, nullptr, &other[i]);
      if (i >= other.size()) return told(inside, &one[i], nullptr);
      if (std::string found = first_difference(inside, one[i], other[i]); !found.empty()) return found;
    }
  }
  return to_text(one) == to_text(other) ? std::string() : told(path, &one, &other);
}

// Integers of 64 bits have values and distances that no double tells apart.
double distance(DType dtype, std::span<const std::byte> one, std::span<const std::byte> other) {
  if (dtype == DType::i64 || dtype == DType::u64) {
    const auto a = load<std::uint64_t>(one), b = load<std::uint64_t>(other);
    const bool less = dtype == DType::i64 ? load<std::int64_t>(one) < load<std::int64_t>(other) : a < b;
    return static_cast<double>(less ? b - a : a - b);
  }
  return std::abs(value_of(dtype, one) - value_of(dtype, other));
}

std::string element_text(DType dtype, std::span<const std::byte> bytes) {
  if (dtype == DType::i64) return fmt::format("{}", load<std::int64_t>(bytes));
  if (dtype == DType::u64) return fmt::format("{}", load<std::uint64_t>(bytes));
  const double value = value_of(dtype, bytes);
  return is_floating(dtype) && dtype != DType::f64 ? fmt::format("{}", static_cast<float>(value))
                                                   : fmt::format("{}", value);
}

// The place of an element of a box in the tensor, by its number in the box.
Shape place_of(std::int64_t number, const Box& box) {
  Shape place(box.extent.size(), 0);
  for (std::size_t d = place.size(); d-- > 0; number /= box.extent[d]) place[d] = box.begin[d] + number % box.extent[d];
  return place;
}

}  // namespace

std::string first_difference(const Json& one, const Json& other) { return first_difference("", one, other); }

void ElementDifferences::add(const Box& box, std::int64_t first, std::span<const std::byte> one,
                             std::span<const std::byte> other) {
  const auto size = static_cast<std::size_t>(size_of(dtype_));
  looked_at_ += static_cast<std::int64_t>(one.size() / size);
  if (std::ranges::equal(one, other)) return;
  for (std::size_t at = 0; at < one.size(); at += size) {
    const std::span<const std::byte> a = one.subspan(at, size), b = other.subspan(at, size);
    if (std::ranges::equal(a, b)) continue;
    if (different_++ == 0)
      first_ = fmt::format("{}: {} against {}", to_text(place_of(first + static_cast<std::int64_t>(at / size), box)),
                           element_text(dtype_, a), element_text(dtype_, b));
    if (std::isnan(value_of(dtype_, a)) || std::isnan(value_of(dtype_, b)))
      ++no_numbers_;
    else
      most_ = std::max(most_, distance(dtype_, a, b));
  }
}

std::string ElementDifferences::text() const {
  if (different_ == 0) return "no element";
  std::string text = fmt::format("{} of {}, the first at {}", different_, counted(looked_at_, "element"), first_);
  if (different_ > no_numbers_) text += fmt::format(", by at most {:.6g}", most_);
  if (no_numbers_ > 0) text += fmt::format(", {} of them NaN on one side", no_numbers_);
  return text;
}

}  // namespace lockstep
