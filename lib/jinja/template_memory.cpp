#include "jinja/template_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lockstep::jinja {

namespace {

constexpr std::size_t first_chunk = std::size_t{1} << 15;
constexpr std::size_t largest_chunk = std::size_t{1} << 22;

}  // namespace

char* TemplateMemory::bytes_of_new_chunk(std::size_t count) {
  // Of a large value the rest of the chunk before stays in use.
  const std::size_t usual = std::min(first_chunk << std::min<std::size_t>(chunks_.size(), 7), largest_chunk);
  const bool large = count > usual / 4;
  const std::size_t size = large ? count : usual;
  count_bytes(size);
  chunks_.push_back(std::make_unique_for_overwrite<char[]>(std::max<std::size_t>(size, 1)));
  char* const place = chunks_.back().get();
  if (!large) {
    next_ = place + count;
    end_ = place + size;
  }
  return place;
}

std::string_view TemplateMemory::copy(std::string_view text) {
  if (text.empty()) return {};
  char* const place = bytes(text.size());
  std::memcpy(place, text.data(), text.size());
  return {place, text.size()};
}

std::string_view TemplateMemory::joined(std::string_view first, std::string_view second) {
  if (first.empty() && second.empty()) return {};
  char* const place = bytes(first.size() + second.size());
  std::copy(first.begin(), first.end(), place);
  std::copy(second.begin(), second.end(), place + first.size());
  return {place, first.size() + second.size()};
}

void TemplateMemory::refuse_steps() {
  steps_ = limits_.steps;
  throw TemplateFault(fmt::format("the template takes more than {} steps", limits_.steps));
}

void TemplateMemory::refuse_bytes() const {
  throw TemplateFault(fmt::format("the template uses more than {} bytes of memory", limits_.bytes));
}

void TemplateMemory::refuse_depth() {
  --depth_;
  throw TemplateFault(fmt::format("the template is nested deeper than {} levels: does a macro call itself without end?",
                                  limits_.depth));
}

}  // namespace lockstep::jinja
