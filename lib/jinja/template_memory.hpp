// Owns all values that one rendering of a template makes, and frees them together. Values are therefore trivially
// destructible, refer to each other freely, and need no reference counts. It also limits the memory, steps and depth of
// the rendering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lockstep::jinja {

/// An operation of a template that fails or is not allowed. ChatTemplate adds the line and turns it into an Error.
class TemplateFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Limits of one rendering.
struct TemplateLimits {
  std::uint64_t steps = 100'000'000;             // evaluated expressions, visited items and pieces of text
  std::uint64_t bytes = std::uint64_t{1} << 29;  // of values and output
  int depth = 1000;                              // of nested expressions and macro calls
};

class TemplateMemory {
 public:
  explicit TemplateMemory(const TemplateLimits& limits) : limits_(limits) {}

  /// Allocates bytes for a value. Throws TemplateFault beyond the limit.
  char* bytes(std::size_t count);

  template <class Item>
  Item* items(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<Item>);
    align(alignof(Item));
    if (count > limits_.bytes / sizeof(Item)) refuse_bytes();
    return new (bytes(count * sizeof(Item))) Item[count]{};
  }

  template <class Item, class... Arguments>
  Item* make(Arguments&&... arguments) {
    static_assert(std::is_trivially_destructible_v<Item>);
    align(alignof(Item));
    return new (bytes(sizeof(Item))) Item{std::forward<Arguments>(arguments)...};
  }

  std::string_view copy(std::string_view text);
  std::string_view joined(std::string_view first, std::string_view second);

  /// Counts work. Throws TemplateFault beyond the limit.
  void step(std::uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) refuse_steps();
  }
  /// Counts bytes that are stored elsewhere: the output.
  void count_bytes(std::size_t count) {
    used_ += count;
    if (used_ > limits_.bytes) refuse_bytes();
  }

  /// Throws TemplateFault if `count` more bytes would exceed the limit.
  void require_room(std::size_t count) const {
    if (used_ + count > limits_.bytes) refuse_bytes();
  }

  /// Counts one level of nesting while it lives.
  class Deeper {
   public:
    explicit Deeper(TemplateMemory& memory) : memory_(memory) {
      if (++memory_.depth_ > memory_.limits_.depth) memory_.refuse_depth();
    }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    ~Deeper() { --memory_.depth_; }

   private:
    TemplateMemory& memory_;
  };

 private:
  void align(std::size_t alignment) {
    const std::size_t over = reinterpret_cast<std::uintptr_t>(next_) % alignment;
    if (over != 0) next_ += std::min(alignment - over, static_cast<std::size_t>(end_ - next_));
  }
  char* bytes_of_new_chunk(std::size_t count);
  [[noreturn]] void refuse_steps();
  [[noreturn]] void refuse_bytes() const;
  [[noreturn]] void refuse_depth();

  TemplateLimits limits_;
  std::uint64_t steps_ = 0;
  std::uint64_t used_ = 0;
  int depth_ = 0;
  char* next_ = nullptr;
  char* end_ = nullptr;
  std::vector<std::unique_ptr<char[]>> chunks_;
};

inline char* TemplateMemory::bytes(std::size_t count) {
  if (static_cast<std::size_t>(end_ - next_) < count) return bytes_of_new_chunk(count);
  char* const place = next_;
  next_ += count;
  return place;
}

}  // namespace lockstep::jinja
