#include "jinja/template_print.hpp"

#include "jinja/template_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

namespace lockstep::jinja {

namespace {

[[noreturn]] void fail_without_text(const Value& value) {
  throw TemplateFault(
      fmt::format("printing a {} is not supported: Jinja would print its Python representation{}", type_name(value),
                  value.is(Kind::method)      ? fmt::format(" (did you mean {}()?)", value.body<MethodBody>().name)
                  : value.is(Kind::generator) ? " (is the filter list or join missing?)"
                                              : ""));
}

template <class Range, class Append>
void append_joined(std::string& out, const Range& range, Append append) {
  bool first = true;
  for (const auto& item : range) {
    if (!first) out.append(", ");
    first = false;
    append(item);
  }
}

void append_number(std::string& out, const Value& value) {
  if (value.is(Kind::boolean))
    out.append(value.boolean() ? "True" : "False");
  else if (value.is(Kind::integer))
    fmt::format_to(std::back_inserter(out), "{}", value.integer());
  else
    out.append(number_text(value.number()));
}

void append_range(std::string& out, const RangeBody& range) {
  fmt::format_to(std::back_inserter(out), "range({}, {}", range.start, range.stop);
  if (range.step != 1) fmt::format_to(std::back_inserter(out), ", {}", range.step);
  out.push_back(')');
}

/// A dict, or a view of one: {k: v}, dict_keys([k]), dict_items([(k, v)]).
template <class Repr>
void append_pairs(std::string& out, const Value& value, Repr repr) {
  const bool dict = value.is(Kind::dict);
  const bool items = value.is(Kind::items);
  out.append(dict ? "{" : fmt::format("{}([", type_name(value)));
  append_joined(out, value.pairs(), [&](const Pair& pair) {
    if (items) out.push_back('(');
    if (!value.is(Kind::values)) repr(pair.key);
    if (dict || items) out.append(dict ? ": " : ", ");
    if (!value.is(Kind::keys)) repr(pair.value);
    if (items) out.push_back(')');
  });
  out.append(dict ? "}" : "])");
}

}  // namespace

void append_repr_of(std::string& out, const Value& value, TemplateMemory& memory) {
  memory.step(1 + (value.is(Kind::text) ? value.text().size() / 16 : 0));
  memory.require_room(out.size());
  const auto repr = [&](const Value& item) { append_repr_of(out, item, memory); };
  switch (value.content()) {
    case Content::nothing: out.append(value.is(Kind::none) ? "None" : "Undefined"); return;
    case Content::number: append_number(out, value); return;
    case Content::text:
      if (value.is_safe()) fail_without_text(value);
      append_repr(out, value.text());
      return;
    case Content::sequence: {
      const TemplateMemory::Deeper deeper(memory);
      const bool list = value.is(Kind::list);
      out.push_back(list ? '[' : '(');
      append_joined(out, value.sequence(), repr);
      if (!list && value.sequence().size() == 1) out.push_back(',');
      out.push_back(list ? ']' : ')');
      return;
    }
    case Content::pairs: {
      std::optional<TemplateMemory::Deeper> deeper;
      if (value.is(Kind::dict)) deeper.emplace(memory);
      append_pairs(out, value, repr);
      return;
    }
    case Content::range: append_range(out, value.body<RangeBody>()); return;
    case Content::object: fail_without_text(value);
  }
}

void append_text(std::string& out, const Value& value, TemplateMemory& memory) {
  if (value.is(Kind::undefined)) return;
  if (value.is(Kind::text)) {
    out.append(value.text());
  } else {
    append_repr_of(out, value, memory);
  }
}

std::string_view text_of(const Value& value, TemplateMemory& memory) {
  if (value.is(Kind::undefined)) return {};
  if (value.is(Kind::text)) return value.text();
  std::string out;
  append_repr_of(out, value, memory);
  return memory.copy(out);
}

namespace {

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, TemplateMemory& memory) : style_(style), memory_(memory) {}

  void write(const Value& value);
  std::string take() { return std::move(out_); }

 private:
  void write_text(std::string_view text);
  void write_number(double number) {
    out_.append(std::isnan(number)   ? "NaN"
                : std::isinf(number) ? (number < 0 ? "-Infinity" : "Infinity")
                                     : number_text(number));
  }
  void write_key(const Value& key);
  void write_dict(std::span<const Pair> pairs);
  void new_line() {
    if (!style_.indent) return;
    out_.push_back('\n');
    memory_.step(level_);
    memory_.require_room(out_.size() + level_ * style_.indent->size());
    for (std::size_t i = 0; i < level_; ++i) out_.append(*style_.indent);
  }
  template <class Range, class Write>
  void write_items(char begin, char end, const Range& range, Write write_item) {
    const TemplateMemory::Deeper deeper(memory_);
    out_.push_back(begin);
    ++level_;
    bool first = true;
    for (const auto& item : range) {
      if (!first) out_.append(style_.between_items);
      first = false;
      new_line();
      write_item(item);
    }
    --level_;
    if (!first) new_line();
    out_.push_back(end);
  }

  const JsonStyle& style_;
  TemplateMemory& memory_;
  std::string out_;
  std::size_t level_ = 0;
};

void JsonWriter::write_text(std::string_view text) {
  memory_.step(text.size() / 32);
  out_.push_back('"');
  std::size_t plain = 0;
  const auto escape = [&](std::size_t begin, std::size_t end, std::string_view by) {
    out_.append(text.substr(plain, begin - plain)).append(by);
    plain = end;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x80) {
      const char32_t point = next_point(text, at);
      if (!style_.ascii) continue;
      const auto unit = [](char32_t bits) { return fmt::format("\\u{:04x}", static_cast<unsigned>(bits)); };
      const char32_t high = point - 0x10000;
      escape(begin, at, point < 0x10000 ? unit(point) : unit(0xD800 | high >> 10) + unit(0xDC00 | (high & 0x3FF)));
      continue;
    }
    ++at;
    switch (byte) {
      case '"': escape(begin, at, "\\\""); break;
      case '\\': escape(begin, at, "\\\\"); break;
      case '\n': escape(begin, at, "\\n"); break;
      case '\r': escape(begin, at, "\\r"); break;
      case '\t': escape(begin, at, "\\t"); break;
      case '\f': escape(begin, at, "\\f"); break;
      case '\b': escape(begin, at, "\\b"); break;
      default:
        if (byte < 0x20) escape(begin, at, fmt::format("\\u{:04x}", byte));
    }
  }
  out_.append(text.substr(plain)).push_back('"');
}

void JsonWriter::write_key(const Value& key) {
  if (key.is(Kind::text)) return write_text(key.text());
  if (!key.is(Kind::none) && !key.is_numeric())
    throw TemplateFault(fmt::format("tojson: a {} cannot be a key of JSON", type_name(key)));
  out_.push_back('"');
  write(key);
  out_.push_back('"');
}

void JsonWriter::write_dict(std::span<const Pair> pairs) {
  const auto write_pair = [&](const Pair& pair) {
    write_key(pair.key);
    out_.append(style_.after_key);
    write(pair.value);
  };
  if (!style_.sorted_keys) return write_items('{', '}', pairs, write_pair);
  std::vector<Pair> sorted(pairs.begin(), pairs.end());
  std::ranges::stable_sort(sorted, [&](const Pair& a, const Pair& b) { return less(a.key, b.key, memory_); });
  write_items('{', '}', sorted, write_pair);
}

void JsonWriter::write(const Value& value) {
  memory_.step();
  memory_.require_room(out_.size());
  if (value.is(Kind::none)) return void(out_.append("null"));
  if (value.is(Kind::boolean)) return void(out_.append(value.boolean() ? "true" : "false"));
  if (value.is(Kind::integer)) return void(fmt::format_to(std::back_inserter(out_), "{}", value.integer()));
  if (value.is(Kind::number)) return write_number(value.number());
  if (value.is(Kind::text)) return write_text(value.text());
  if (value.is(Kind::dict)) return write_dict(value.pairs());
  if (value.is_sequence()) return write_items('[', ']', value.sequence(), [&](const Value& item) { write(item); });
  throw TemplateFault(fmt::format("tojson: a {} cannot be written as JSON", type_name(value)));
}

}  // namespace

std::string json_text(const Value& value, const JsonStyle& style, TemplateMemory& memory) {
  JsonWriter writer(style, memory);
  writer.write(value);
  return writer.take();
}

}  // namespace lockstep::jinja
