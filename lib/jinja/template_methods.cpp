#include "jinja/template_methods.hpp"

#include "jinja/character_tables.hpp"
#include "jinja/template_print.hpp"
#include "jinja/template_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace lockstep::jinja {

namespace {

Value list_of_texts(const std::vector<std::string_view>& parts, TemplateMemory& memory) {
  Value* const items = memory.items<Value>(parts.size());
  std::ranges::transform(parts, items, [](std::string_view part) { return Value::of(part); });
  return Value::list(items, parts.size());
}

Value tuple_of(std::initializer_list<Value> values, TemplateMemory& memory) {
  Value* const items = memory.items<Value>(values.size());
  std::ranges::copy(values, items);
  return Value::tuple(items, values.size());
}

/// A method of text with its name and arguments.
class TextMethod {
 public:
  TextMethod(std::string_view text, std::string_view name, const CallArguments& arguments, TemplateMemory& memory)
      : text_(text), name_(name), arguments_(arguments), memory_(memory) {}

  Value call() {
    memory_.step(text_.size() / 16);
    if (const auto plain = without_arguments()) {
      arguments_.require_positional(name_, 0, 0);
      return *plain;
    }
    if (name_ == "strip") return strip(StripSide::both);
    if (name_ == "lstrip") return strip(StripSide::left);
    if (name_ == "rstrip") return strip(StripSide::right);
    if (name_ == "split" || name_ == "rsplit") return split();
    if (name_ == "splitlines") {
      const auto [keep] = bound<1>(name_, arguments_, {"keepends"});
      return list_of_texts(split_lines(text_, is_true(keep)), memory_);
    }
    if (name_ == "startswith" || name_ == "endswith") return has_end();
    if (name_ == "replace") return replace();
    if (name_ == "join") return join();
    if (name_ == "find" || name_ == "rfind" || name_ == "index" || name_ == "rindex" || name_ == "count")
      return search();
    if (name_ == "partition" || name_ == "rpartition") return partition();
    if (name_ == "removeprefix" || name_ == "removesuffix") {
      arguments_.require_positional(name_, 1, 1);
      const std::string_view end = text(0);
      if (name_ == "removeprefix") return Value::of(text_.starts_with(end) ? text_.substr(end.size()) : text_);
      return Value::of(text_.ends_with(end) ? text_.substr(0, text_.size() - end.size()) : text_);
    }
    if (name_ == "ljust" || name_ == "rjust" || name_ == "center" || name_ == "zfill") return padded();
    if (name_ == "format") return format();
    throw TemplateFault(fmt::format("the method str.{} is not supported", name_));
  }

 private:
  std::string_view text(std::size_t index) const { return text_argument(name_, arguments_.positional[index]); }
  Value made(const std::string& text) { return Value::of(memory_.copy(text)); }

  std::optional<Value> without_arguments() {
    if (name_ == "upper") return made(to_upper(text_));
    if (name_ == "lower") return made(to_lower(text_));
    if (name_ == "title") return made(to_title(text_));
    if (name_ == "capitalize") return made(capitalized(text_));
    if (name_ == "casefold") return made(to_folded(text_));
    if (name_ == "swapcase") return made(with_cases_swapped(text_));
    if (name_ == "isdigit") return Value::of(all_have(text_, digit));
    if (name_ == "isdecimal") return Value::of(all_have(text_, decimal));
    if (name_ == "isnumeric") return Value::of(all_have(text_, numeric));
    if (name_ == "isalpha") return Value::of(all_have(text_, alphabetic));
    if (name_ == "isalnum") return Value::of(all_have(text_, alphabetic | decimal | digit | numeric));
    if (name_ == "isspace") return Value::of(all_have(text_, white_space));
    if (name_ == "isprintable") return Value::of(text_.empty() || all_have(text_, printable));
    if (name_ == "isascii") return Value::of(is_ascii(text_));
    if (name_ == "islower") return Value::of(is_lower(text_));
    if (name_ == "isupper") return Value::of(is_upper(text_));
    if (name_ == "istitle") return Value::of(is_title(text_));
    return std::nullopt;
  }

  Value strip(StripSide side) {
    arguments_.require_positional(name_, 0, 1);
    if (arguments_.positional.empty() || arguments_.positional[0].is(Kind::none))
      return Value::of(stripped(text_, side));
    memory_.step(text_.size() * text(0).size() / 64);
    return Value::of(stripped(text_, side, text(0)));
  }

  Value split() {
    const auto [separator, most] = bound<2>(name_, arguments_, {"sep", "maxsplit"});
    const std::int64_t times = most.is(Kind::missing) ? -1 : integer_argument(name_, most);
    const bool right = name_ == "rsplit";
    if (separator.is(Kind::missing) || separator.is(Kind::none))
      return list_of_texts(split_at_space(text_, times, right), memory_);
    const std::string_view at = text_argument(name_, separator);
    if (at.empty()) throw TemplateFault(fmt::format("{} needs a separator that is not empty", name_));
    return list_of_texts(split_at(text_, at, times, right), memory_);
  }

  /// The part of the text that arguments from `first` on bound, by code points; nothing if they are beyond it.
  std::optional<std::string_view> bounded(std::size_t first, std::size_t& begin) const {
    const auto length = static_cast<std::int64_t>(count_points(text_));
    const auto position = [&](std::size_t index, std::int64_t otherwise) {
      if (arguments_.positional.size() <= index || arguments_.positional[index].is(Kind::none)) return otherwise;
      const std::int64_t given = integer_argument(name_, arguments_.positional[index]);
      return given < 0 ? std::max<std::int64_t>(given + length, 0) : given;
    };
    const std::int64_t from = position(first, 0);
    const std::int64_t to = std::min(position(first + 1, length), length);
    if (from > length || from > to) return std::nullopt;
    begin = static_cast<std::size_t>(from);
    const std::size_t byte = byte_of_point(text_, begin);
    return text_.substr(byte, byte_of_point(text_.substr(byte), static_cast<std::size_t>(to - from)));
  }

  Value has_end() {
    arguments_.require_positional(name_, 1, 3);
    std::size_t begin = 0;
    const auto part = bounded(1, begin);
    const auto fits = [&](const Value& end) {
      const std::string_view wanted = text_argument(name_, end);
      return part && (name_ == "startswith" ? part->starts_with(wanted) : part->ends_with(wanted));
    };
    const Value& ends = arguments_.positional[0];
    if (!ends.is(Kind::tuple)) return Value::of(fits(ends));
    return Value::of(std::ranges::any_of(ends.sequence(), fits));
  }

  Value replace() {
    const auto [old, by, most] = bound<3>(name_, arguments_, {"old", "new", "count"}, 2);
    const std::int64_t times = most.is(Kind::missing) ? -1 : integer_argument(name_, most);
    const std::string_view from = text_argument(name_, old);
    const std::string_view to = text_argument(name_, by);
    memory_.require_room(text_.size() + (static_cast<std::size_t>(count_of(text_, from)) + 1) * to.size());
    return made(replaced(text_, from, to, times));
  }

  Value join() {
    arguments_.require_positional(name_, 1, 1);
    std::string out;
    bool first = true;
    ItemSource source(arguments_.positional[0], memory_);
    for (Value item; source.next(item); first = false) {
      if (!first) out.append(text_);
      out.append(text_argument("join", item));
      memory_.require_room(out.size());
    }
    return made(out);
  }

  Value search() {
    arguments_.require_positional(name_, 1, 3);
    const std::string_view wanted = text(0);
    std::size_t begin = 0;
    const auto part = bounded(1, begin);
    if (name_ == "count") return Value::of(part ? count_of(*part, wanted) : std::int64_t{0});
    const bool right = name_ == "rfind" || name_ == "rindex";
    const std::size_t at = !part ? std::string_view::npos : right ? part->rfind(wanted) : part->find(wanted);
    if (at != std::string_view::npos)
      return Value::of(static_cast<std::int64_t>(begin + count_points(part->substr(0, at))));
    if (name_ == "index" || name_ == "rindex") throw TemplateFault("the string does not contain this part");
    return Value::of(std::int64_t{-1});
  }

  Value partition() {
    arguments_.require_positional(name_, 1, 1);
    const std::string_view separator = text(0);
    if (separator.empty()) throw TemplateFault(fmt::format("{} needs a separator that is not empty", name_));
    const bool right = name_ == "rpartition";
    const std::size_t at = right ? text_.rfind(separator) : text_.find(separator);
    const Value empty = Value::of(std::string_view());
    const Value whole = Value::of(text_);
    if (at == std::string_view::npos)
      return right ? tuple_of({empty, empty, whole}, memory_) : tuple_of({whole, empty, empty}, memory_);
    return tuple_of(
        {Value::of(text_.substr(0, at)), Value::of(separator), Value::of(text_.substr(at + separator.size()))},
        memory_);
  }

  Value padded() {
    arguments_.require_positional(name_, 1, name_ == "zfill" ? 1 : 2);
    const std::int64_t width = integer_argument(name_, arguments_.positional[0]);
    const std::string_view fill = name_ == "zfill" ? "0" : arguments_.positional.size() > 1 ? text(1) : " ";
    if (count_points(fill) != 1) throw TemplateFault(fmt::format("the fill of {} must be one character", name_));
    const auto length = static_cast<std::int64_t>(count_points(text_));
    if (width <= length) return Value::of(text_);
    const std::int64_t missing = width - length;
    memory_.require_room(static_cast<std::size_t>(missing) * fill.size());
    // As CPython shares them out.
    const std::int64_t left = name_ == "ljust" ? 0 : name_ == "center" ? missing / 2 + (missing & width & 1) : missing;
    std::string_view rest = text_;
    std::string out;
    if (name_ == "zfill" && (rest.starts_with('-') || rest.starts_with('+'))) {
      out.push_back(rest.front());
      rest.remove_prefix(1);
    }
    for (std::int64_t i = 0; i < left; ++i) out.append(fill);
    out.append(rest);
    for (std::int64_t i = left; i < missing; ++i) out.append(fill);
    return made(out);
  }

  /// "{}", "{0}" and "{name}" only.
  Value format() {
    std::string out;
    std::size_t next = 0;
    for (std::size_t at = 0; at < text_.size(); ++at) {
      const char c = text_[at];
      if (c != '{' && c != '}') {
        out.push_back(c);
        continue;
      }
      if (at + 1 < text_.size() && text_[at + 1] == c) {
        out.push_back(c);
        ++at;
        continue;
      }
      const std::size_t end = text_.find('}', at);
      if (c == '}' || end == std::string_view::npos) throw TemplateFault("format: a brace has no counterpart");
      const std::string_view field = text_.substr(at + 1, end - at - 1);
      if (field.find_first_of("!:.[{") != std::string_view::npos)
        throw TemplateFault(fmt::format("format: the field '{{{}}}' is not supported", field));
      append_text(out, field_value(field, next), memory_);
      memory_.require_room(out.size());
      at = end;
    }
    return made(out);
  }
  Value field_value(std::string_view field, std::size_t& next) const {
    const bool number = std::ranges::all_of(field, [](char c) { return c >= '0' && c <= '9'; });
    if (number) {
      std::size_t index = 0;
      for (const char c : field.substr(0, 9)) index = index * 10 + static_cast<std::size_t>(c - '0');
      if (field.empty()) index = next++;
      if (index >= arguments_.positional.size()) throw TemplateFault("format: there are more fields than values");
      return arguments_.positional[index];
    }
    const Value* const found = find(arguments_.named, Value::of(field), memory_);
    if (found == nullptr) throw TemplateFault(fmt::format("format: there is no value '{}'", field));
    return *found;
  }

  std::string_view text_;
  std::string_view name_;
  const CallArguments& arguments_;
  TemplateMemory& memory_;
};

Value sequence_method(const Value& self, std::string_view name, const CallArguments& arguments,
                      TemplateMemory& memory) {
  if (name == "copy" && self.is(Kind::list)) {
    arguments.require_positional(name, 0, 0);
    return self;
  }
  if (name == "count") {
    arguments.require_positional(name, 1, 1);
    return Value::of(static_cast<std::int64_t>(std::ranges::count_if(
        self.sequence(), [&](const Value& item) { return equal(item, arguments.positional[0], memory); })));
  }
  if (name == "index") {
    arguments.require_positional(name, 1, 1);
    const auto items = self.sequence();
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (equal(items[i], arguments.positional[0], memory)) return Value::of(static_cast<std::int64_t>(i));
    }
    throw TemplateFault("the list has no such item");
  }
  throw TemplateFault(fmt::format("the method {}.{} is not supported", type_name(self), name));
}

Value dict_method(const Value& self, std::string_view name, const CallArguments& arguments, TemplateMemory& memory) {
  if (name == "get") {
    arguments.require_positional(name, 1, 2);
    const Value* const found = find(self.pairs(), arguments.positional[0], memory);
    if (found != nullptr) return *found;
    return arguments.positional.size() > 1 ? arguments.positional[1] : Value::none();
  }
  if (name == "fromkeys") throw TemplateFault("the method dict.fromkeys is not supported");
  arguments.require_positional(name, 0, 0);
  if (name == "items") return Value::view(Kind::items, self);
  if (name == "keys") return Value::view(Kind::keys, self);
  if (name == "values") return Value::view(Kind::values, self);
  if (name == "copy") return self;
  throw TemplateFault(fmt::format("the method dict.{} is not supported", name));
}

Value loop_method(LoopBody& loop, std::string_view name, const CallArguments& arguments, TemplateMemory& memory) {
  const auto given = arguments.positional;
  if (!arguments.named.empty()) throw TemplateFault(fmt::format("loop.{} takes no keyword arguments", name));
  if (name == "cycle") {
    if (given.empty()) throw TemplateFault("loop.cycle needs at least one value");
    return given[static_cast<std::size_t>(loop.index0) % given.size()];
  }
  Value* const kept = memory.items<Value>(given.size());
  std::ranges::copy(given, kept);
  const Value now = Value::tuple(kept, given.size());
  if (!loop.last_changed.is(Kind::missing) && equal(loop.last_changed, now, memory)) return Value::of(false);
  loop.last_changed = now;
  return Value::of(true);
}

Value cycler_method(CyclerBody& cycler, std::string_view name, const CallArguments& arguments) {
  arguments.require_positional(name, 0, 0);
  if (name == "current") throw TemplateFault("the attribute cycler.current is not supported");
  if (name == "reset") {
    cycler.position = 0;
    return Value::none();
  }
  const Value item = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return item;
}

}  // namespace

Value call_method(const MethodBody& method, const CallArguments& arguments, TemplateMemory& memory) {
  const Value& self = method.self;
  if (self.is_safe())
    throw TemplateFault(fmt::format("the method {} of text marked safe is not supported", method.name));
  if (self.is(Kind::text)) return TextMethod(self.text(), method.name, arguments, memory).call();
  if (self.is_sequence()) return sequence_method(self, method.name, arguments, memory);
  if (self.is(Kind::dict)) return dict_method(self, method.name, arguments, memory);
  if (self.is(Kind::loop)) return loop_method(self.body<LoopBody>(), method.name, arguments, memory);
  if (self.is(Kind::cycler)) return cycler_method(self.body<CyclerBody>(), method.name, arguments);
  throw TemplateFault(fmt::format("the method {}.{} is not supported", type_name(self), method.name));
}

}  // namespace lockstep::jinja
