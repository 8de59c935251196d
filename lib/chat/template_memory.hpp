// What a rendering of a template makes lives in one TemplateMemory and goes with it: values are plain, refer to each
// other freely, and need no counts of owners. It also bounds a rendering: how much it makes and how many steps it
// takes.
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

/// What a template cannot do with the values that it meets, or may not; who renders adds the line and makes an Error of
/// it.
class TemplateFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Bounds of one rendering.
struct TemplateLimits {
  std::uint64_t steps = 100'000'000;  // evaluated expressions, items and pieces of text that are gone through
  std::uint64_t bytes = std::uint64_t{1} << 29;  // of values and text that it makes
  int depth = 1000;                              // of expressions and macros that wait for others
};

class TemplateMemory {
 public:
  explicit TemplateMemory(const TemplateLimits& limits) : limits_(limits) {}

  /// Bytes for a value; throws TemplateFault beyond the bound.
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

  /// Counts work; throws TemplateFault beyond the bound.
  void step(std::uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) refuse_steps();
  }
  /// Counts bytes that stand elsewhere: what is put out.
  void count_bytes(std::size_t count) {
    used_ += count;
    if (used_ > limits_.bytes) refuse_bytes();
  }

  /// Throws TemplateFault if `count` bytes more would be beyond the bound.
  void require_room(std::size_t count) const {
    if (used_ + count > limits_.bytes) refuse_bytes();
  }

  /// Going deeper and coming back.
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
