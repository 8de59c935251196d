#include "jinja/template_arithmetic.hpp"
#include "jinja/template_builtins.hpp"
#include "jinja/template_print.hpp"
#include "jinja/template_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

namespace lockstep::jinja {

namespace {

using Filter = Value (*)(const Value& value, const CallArguments& arguments, TemplateMemory& memory);

/// soft_str of markupsafe: text as it is, else what str() says.
std::string_view soft_text(const Value& value, TemplateMemory& memory) { return text_of(value, memory); }

template <std::string (*change)(std::string_view)>
Value changed_text(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("the filter", 0, 0);
  const std::string_view text = soft_text(value, memory);
  memory.step(text.size() / 16);
  return Value::of(memory.copy(change(text)));
}

/// The filter `title`, of which words begin behind white space, hyphens and brackets.
std::string filter_title(std::string_view text) {
  std::string out;
  const auto begins_word = [](char32_t c) {
    return is_white_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    std::size_t first_end = at;
    const bool between = begins_word(next_point(text, first_end));
    for (std::size_t next = at; next < text.size(); end = next) {
      if (begins_word(next_point(text, next)) != between) break;
    }
    const std::string_view word = text.substr(at, end - at);
    out.append(to_upper(word.substr(0, first_end - at))).append(to_lower(word.substr(first_end - at)));
    at = end;
  }
  return out;
}

Value trim(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [chars] = bound<1>("trim", arguments, {"chars"});
  const std::string_view text = soft_text(value, memory);
  if (chars.is(Kind::missing) || chars.is(Kind::none)) return Value::of(stripped(text, StripSide::both));
  const std::string_view these = text_argument("trim", chars);
  memory.step(text.size() * these.size() / 64);
  return Value::of(stripped(text, StripSide::both, these));
}

Value to_json(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [ascii, indent, separators, sort_keys] =
      bound<4>("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ascii = is_true(ascii), .sorted_keys = is_true(sort_keys)};
  if (!indent.is(Kind::missing) && !indent.is(Kind::none)) {
    if (indent.is(Kind::text)) {
      style.indent = std::string(indent.text());
    } else {
      const std::int64_t width = integer_argument("indent of tojson", indent);
      if (width > 1000) throw TemplateFault("tojson: the indent is wider than 1000");
      style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
    style.between_items = ",";
  }
  if (!separators.is(Kind::missing) && !separators.is(Kind::none)) {
    if (!separators.is_sequence() || separators.sequence().size() != 2)
      throw TemplateFault("tojson: separators must be two strings");
    style.between_items = text_argument("tojson", separators.sequence()[0]);
    style.after_key = text_argument("tojson", separators.sequence()[1]);
  }
  return Value::of(memory.copy(json_text(value, style, memory)));
}

Value length(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("length", 0, 0);
  if (value.is(Kind::text)) memory.step(value.text().size() / 64);
  const auto count = length_of(value);
  if (!count) throw TemplateFault(fmt::format("a {} has no length", type_name(value)));
  return Value::of(*count);
}

Value otherwise(const Value& value, const CallArguments& arguments, TemplateMemory&) {
  const auto [fallback, boolean] = bound<2>("default", arguments, {"default_value", "boolean"});
  const bool falls = value.is(Kind::undefined) || (is_true(boolean) && !is_true(value));
  if (!falls) return value;
  return fallback.is(Kind::missing) ? Value::of(std::string_view()) : fallback;
}

Value replace(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [old, by, count] = bound<3>("replace", arguments, {"old", "new", "count"}, 2);
  const std::int64_t most = count.is(Kind::missing) || count.is(Kind::none) ? -1 : integer_argument("replace", count);
  const std::string_view text = text_of(value, memory);
  const std::string_view from = text_of(old, memory);
  const std::string_view to = text_of(by, memory);
  memory.step(text.size() / 16);
  memory.require_room(text.size() + static_cast<std::size_t>(count_of(text, from)) * to.size());
  return Value::of(memory.copy(replaced(text, from, to, most)));
}

Value to_list(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("list", 0, 0);
  return list_of(value, memory);
}

Value items(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("items", 0, 0);
  if (value.is(Kind::undefined)) return generator_over(Value::list(nullptr, 0), memory);
  if (!value.is(Kind::dict))
    throw TemplateFault(fmt::format("items of a {} is not supported: it takes a dict", type_name(value)));
  return generator_over(list_of(Value::view(Kind::items, value), memory), memory);
}

Value first(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("first", 0, 0);
  ItemSource source(value, memory);
  Value item;
  return source.next(item) ? item : Value::undefined("an empty sequence has no first item");
}

Value reversed(const Value& value, TemplateMemory& memory) {
  if (value.is(Kind::text) || value.is_sequence())
    return slice_of(value, Value::missing(), Value::missing(), Value::of(std::int64_t{-1}), memory);
  std::vector<Value> all = items_of(value, memory);
  std::ranges::reverse(all);
  return list_from(all, memory);
}

Value last(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("last", 0, 0);
  if (value.is(Kind::generator))
    throw TemplateFault("last of a generator is not possible: apply the filter list first");
  const Value backwards = reversed(value, memory);
  return first(backwards, {}, memory);
}

Value reverse(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("reverse", 0, 0);
  const Value backwards = reversed(value, memory);
  if (value.is(Kind::text)) return backwards;
  if (value.is(Kind::generator) || value.is(Kind::undefined)) return list_of(backwards, memory);
  return generator_over(backwards, memory);
}

/// float(text); nothing if it is none.
std::optional<double> number_in(std::string_view text) {
  std::string plain(stripped(text, StripSide::both));
  for (std::size_t i = 1; i + 1 < plain.size(); ++i) {
    const auto digit = [&](std::size_t at) { return plain[at] >= '0' && plain[at] <= '9'; };
    if (plain[i] == '_' && digit(i - 1) && digit(i + 1)) plain.erase(i, 1);
  }
  std::string_view body = plain;
  if (body.starts_with('+') || body.starts_with('-')) body.remove_prefix(1);
  const std::string lower = to_lower(body);
  const double sign = plain.starts_with('-') ? -1 : 1;
  if (lower == "inf" || lower == "infinity") return sign * HUGE_VAL;
  if (lower == "nan") return std::nan("");
  if (body.empty() || !(body[0] == '.' || (body[0] >= '0' && body[0] <= '9'))) return std::nullopt;
  double value = 0;
  const auto read = std::from_chars(body.data(), body.data() + body.size(), value);
  if (read.ec == std::errc::result_out_of_range && read.ptr == body.data() + body.size())
    throw TemplateFault("a number beyond the range of a float is not supported");
  if (read.ec != std::errc() || read.ptr != body.data() + body.size()) return std::nullopt;
  return sign * value;
}

/// int(text, base); nothing if it is none.
std::optional<std::int64_t> integer_in(std::string_view text, int base) {
  std::string plain(stripped(text, StripSide::both));
  for (std::size_t i = 1; i + 1 < plain.size(); ++i) {
    if (plain[i] == '_' && plain[i - 1] != '_' && plain[i - 1] != '+' && plain[i - 1] != '-' && plain[i + 1] != '_')
      plain.erase(i, 1);
  }
  std::string_view body = plain;
  if (body.starts_with('+')) body.remove_prefix(1);
  if (body.size() < plain.size() && body.starts_with('-')) return std::nullopt;
  std::int64_t value = 0;
  const auto read = std::from_chars(body.data(), body.data() + body.size(), value, base);
  const bool whole = read.ptr == body.data() + body.size();
  if (read.ec == std::errc::result_out_of_range && whole)
    throw TemplateFault("an integer beyond 64 bits is not supported");
  return read.ec == std::errc() && whole ? std::optional(value) : std::nullopt;
}

Value truncated_number(double number, const Value& otherwise_value) {
  if (!std::isfinite(number)) return otherwise_value;
  if (!(std::abs(number) < 0x1p63)) throw TemplateFault("an integer beyond 64 bits is not supported");
  return Value::of(static_cast<std::int64_t>(number));
}

Value to_integer(const Value& value, const CallArguments& arguments, TemplateMemory&) {
  const auto [fallback, given_base] = bound<2>("int", arguments, {"default", "base"});
  const Value other = fallback.is(Kind::missing) ? Value::of(std::int64_t{0}) : fallback;
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (value.is_integral()) return Value::of(value.integer());
  if (value.is(Kind::number)) {
    if (std::isinf(value.number())) throw TemplateFault("cannot convert infinity to an integer");
    return truncated_number(value.number(), other);
  }
  if (!value.is(Kind::text)) return other;
  const std::int64_t base = given_base.is(Kind::missing) ? 10 : integer_argument("int", given_base);
  if (base < 2 || base > 36 ||
      (base != 10 && value.text().find_first_of("xXoObB") != std::string_view::npos && base != 36))
    throw TemplateFault("int with a prefix, or with a base outside 2 to 36, is not supported");
  if (!is_ascii(value.text())) throw TemplateFault("int of non-ASCII digits is not supported");
  if (const auto integer = integer_in(value.text(), static_cast<int>(base))) return Value::of(*integer);
  const auto number = number_in(value.text());
  return number ? truncated_number(*number, other) : other;
}

Value to_number(const Value& value, const CallArguments& arguments, TemplateMemory&) {
  const auto [fallback] = bound<1>("float", arguments, {"default"});
  const Value other = fallback.is(Kind::missing) ? Value::of(0.0) : fallback;
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (value.is_numeric()) return Value::of(value.number());
  if (!value.is(Kind::text)) return other;
  if (!is_ascii(value.text())) throw TemplateFault("float of non-ASCII digits is not supported");
  const auto number = number_in(value.text());
  return number ? Value::of(*number) : other;
}

Value to_string(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("string", 0, 0);
  if (value.is(Kind::text)) return value;
  return Value::of(text_of(value, memory));
}

Value safe(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("safe", 0, 0);
  return Value::of(text_of(value, memory)).marked_safe();
}

Value escaped(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("escape", 0, 0);
  if (value.is_safe()) return value;
  std::string out;
  for (const char c : text_of(value, memory)) {
    if (c == '&')
      out.append("&amp;");
    else if (c == '<')
      out.append("&lt;");
    else if (c == '>')
      out.append("&gt;");
    else if (c == '\'')
      out.append("&#39;");
    else if (c == '"')
      out.append("&#34;");
    else
      out.push_back(c);
  }
  return Value::of(memory.copy(out)).marked_safe();
}

Value indent(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [width, first_line, blank] = bound<3>("indent", arguments, {"width", "first", "blank"});
  std::string by(4, ' ');
  if (width.is(Kind::text)) {
    by = width.text();
  } else if (!width.is(Kind::missing)) {
    const std::int64_t count = integer_argument("indent", width);
    if (count > 10'000) throw TemplateFault("indent: the indent is wider than 10,000");
    by.assign(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)), ' ');
  }
  const std::string text = std::string(text_argument("indent", value)) + "\n";
  memory.step(text.size() / 8);
  std::string out;
  bool first = true;
  for (const std::string_view line : split_lines(text, false)) {
    if (!first) out.push_back('\n');
    const bool indents = first ? is_true(first_line) : !line.empty() || is_true(blank);
    if (indents) out.append(by);
    out.append(line);
    memory.require_room(out.size());
    first = false;
  }
  return Value::of(memory.copy(out));
}

Value magnitude(const Value& value, const CallArguments& arguments, TemplateMemory&) {
  arguments.require_positional("abs", 0, 0);
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (!value.is_numeric()) throw TemplateFault(fmt::format("abs takes a number, not a {}", type_name(value)));
  if (value.is(Kind::number)) return Value::of(std::abs(value.number()));
  return value.integer() < 0 ? negative(value) : positive(value);
}

Value rounded(const Value& value, const CallArguments& arguments, TemplateMemory&) {
  const auto [precision, method] = bound<2>("round", arguments, {"precision", "method"});
  const std::int64_t digits = precision.is(Kind::missing) ? 0 : integer_argument("round", precision);
  const std::string_view how = method.is(Kind::missing) ? "common" : text_argument("round", method);
  if (how != "common" && how != "ceil" && how != "floor")
    throw TemplateFault("round: the method must be common, ceil or floor");
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (!value.is_numeric()) throw TemplateFault(fmt::format("round takes a number, not a {}", type_name(value)));
  if (digits < 0 || digits > 15) throw TemplateFault("round with a precision outside 0 to 15 is not supported");
  if (how == "common") {
    if (value.is_integral()) return Value::of(value.integer());
    // The decimal digits of the exact value, ties to even, as Python rounds.
    return Value::of(std::strtod(fmt::format("{:.{}f}", value.number(), digits).c_str(), nullptr));
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value.number() * scale;
  if (!(std::abs(scaled) < 0x1p63)) throw TemplateFault("round of a number beyond 64 bits is not supported");
  return Value::of((how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value format_by_filter(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    throw TemplateFault("format takes positional or keyword values, not both");
  const std::string_view text = soft_text(value, memory);
  if (!arguments.named.empty())
    return formatted(text, Value::dict(arguments.named.data(), arguments.named.size()), memory);
  return formatted(text, Value::tuple(arguments.positional.data(), arguments.positional.size()), memory);
}

Value attribute(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("attr", 1, 1);
  const std::string_view name = text_argument("attr", arguments.positional[0]);
  if (value.is(Kind::dict) && !has_attribute(Kind::dict, name)) return Value::undefined("a dict has no such attribute");
  return attribute_of(value, name, memory);
}

Value truncate(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [length_given, kill, end_given, leeway_given] =
      bound<4>("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::int64_t most = length_given.is(Kind::missing) ? 255 : integer_argument("truncate", length_given);
  const std::int64_t leeway =
      leeway_given.is(Kind::missing) || leeway_given.is(Kind::none) ? 5 : integer_argument("truncate", leeway_given);
  const std::string_view end = end_given.is(Kind::missing) ? "..." : text_argument("truncate", end_given);
  if (value.is(Kind::undefined)) return value;
  if (!value.is(Kind::text)) throw TemplateFault(fmt::format("truncate of a {} is not supported", type_name(value)));
  const std::string_view text = value.text();
  const auto end_length = static_cast<std::int64_t>(count_points(end));
  if (most < end_length || leeway < 0) throw TemplateFault("truncate: the length is smaller than that of the end");
  if (static_cast<std::int64_t>(count_points(text)) <= most + leeway) return value;
  std::string_view head = text.substr(0, byte_of_point(text, static_cast<std::size_t>(most - end_length)));
  if (!is_true(kill) && head.rfind(' ') != std::string_view::npos) head = head.substr(0, head.rfind(' '));
  return Value::of(memory.joined(head, end));
}

Value center(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const auto [width] = bound<1>("center", arguments, {"width"});
  const std::string_view text = soft_text(value, memory);
  const std::int64_t wanted = width.is(Kind::missing) ? 80 : integer_argument("center", width);
  const std::int64_t missing = wanted - static_cast<std::int64_t>(count_points(text));
  if (missing <= 0) return Value::of(text);
  memory.require_room(static_cast<std::size_t>(missing));
  const std::int64_t left = missing / 2 + (missing & wanted & 1);
  return Value::of(memory.copy(std::string(static_cast<std::size_t>(left), ' ')
                                   .append(text)
                                   .append(static_cast<std::size_t>(missing - left), ' ')));
}

Value count_words(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("wordcount", 0, 0);
  const std::string_view text = soft_text(value, memory);
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next_point(text, at);
    const std::string_view point = text.substr(begin, at - begin);
    const bool word = point == "_" || all_have(point, 2 | 4 | 8 | 16);
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::of(count);
}

template <SelectMode selecting>
Value selected(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  return select_items(selecting, value, arguments, memory);
}

template <Extreme extreme>
Value extreme_of(const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  return extreme_item(extreme, value, arguments, memory);
}

struct NamedFilter {
  std::string_view name;
  Filter filter;
  bool takes_safe = false;  // text that is marked safe
};

constexpr std::array filters{NamedFilter{"trim", trim},
                             NamedFilter{"tojson", to_json, true},
                             NamedFilter{"length", length, true},
                             NamedFilter{"count", length, true},
                             NamedFilter{"default", otherwise, true},
                             NamedFilter{"d", otherwise, true},
                             NamedFilter{"join", joined_items},
                             NamedFilter{"upper", changed_text<to_upper>},
                             NamedFilter{"lower", changed_text<to_lower>},
                             NamedFilter{"title", changed_text<filter_title>},
                             NamedFilter{"capitalize", changed_text<capitalized>},
                             NamedFilter{"replace", replace},
                             NamedFilter{"list", to_list},
                             NamedFilter{"items", items},
                             NamedFilter{"map", map_items},
                             NamedFilter{"select", selected<SelectMode::select>},
                             NamedFilter{"reject", selected<SelectMode::reject>},
                             NamedFilter{"selectattr", selected<SelectMode::select_by_attribute>},
                             NamedFilter{"rejectattr", selected<SelectMode::reject_by_attribute>},
                             NamedFilter{"first", first},
                             NamedFilter{"last", last},
                             NamedFilter{"int", to_integer},
                             NamedFilter{"float", to_number},
                             NamedFilter{"string", to_string, true},
                             NamedFilter{"safe", safe, true},
                             NamedFilter{"escape", escaped, true},
                             NamedFilter{"e", escaped, true},
                             NamedFilter{"indent", indent},
                             NamedFilter{"unique", unique_items},
                             NamedFilter{"sort", sorted_items},
                             NamedFilter{"dictsort", sorted_pairs},
                             NamedFilter{"groupby", grouped_items},
                             NamedFilter{"sum", sum_of_items},
                             NamedFilter{"min", extreme_of<Extreme::least>},
                             NamedFilter{"max", extreme_of<Extreme::greatest>},
                             NamedFilter{"reverse", reverse},
                             NamedFilter{"abs", magnitude},
                             NamedFilter{"round", rounded},
                             NamedFilter{"format", format_by_filter},
                             NamedFilter{"attr", attribute},
                             NamedFilter{"batch", batched_items},
                             NamedFilter{"truncate", truncate},
                             NamedFilter{"center", center},
                             NamedFilter{"wordcount", count_words}};

}  // namespace

int filter_index(std::string_view name) {
  const auto found = std::ranges::find(filters, name, &NamedFilter::name);
  return found == filters.end() ? -1 : static_cast<int>(found - filters.begin());
}

Value apply_filter(int index, const Value& value, const CallArguments& arguments, TemplateMemory& memory) {
  const NamedFilter& named = filters[static_cast<std::size_t>(index)];
  memory.step();
  if (value.is_safe() && !named.takes_safe)
    throw TemplateFault(fmt::format("the filter '{}' on text marked safe is not supported", named.name));
  return named.filter(value, arguments, memory);
}

}  // namespace lockstep::jinja
