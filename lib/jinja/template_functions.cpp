#include "jinja/template_functions.hpp"

#include "jinja/template_print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string>

namespace lockstep::jinja {

namespace {

enum class FunctionName : std::uint8_t {
  range,
  dict,
  name_space,
  raise_exception,
  strftime_now,
  cycler,
  joiner,
  lipsum
};
constexpr std::array<std::string_view, 8> names{"range",        "dict",   "namespace", "raise_exception",
                                                "strftime_now", "cycler", "joiner",    "lipsum"};
constexpr std::int64_t longest_range = 100'000;  // as the sandbox bounds it

__extension__ using Wide = __int128;  // holds the difference of any two integers

Value range(const CallArguments& arguments, TemplateMemory& memory) {
  arguments.require_positional("range", 1, 3);
  const auto given = [&](std::size_t index) { return integer_argument("range", arguments.positional[index]); };
  RangeBody body;
  const bool single = arguments.positional.size() == 1;
  body.start = single ? 0 : given(0);
  body.stop = given(single ? 0 : 1);
  body.step = arguments.positional.size() == 3 ? given(2) : 1;
  if (body.step == 0) throw TemplateFault("range step cannot be zero");
  const Wide distance = static_cast<Wide>(body.stop) - body.start;
  const Wide step = body.step;
  const Wide length = (step > 0) == (distance > 0) && distance != 0 ? (distance - (step > 0 ? 1 : -1)) / step + 1 : 0;
  if (length > longest_range) throw TemplateFault(fmt::format("a range has more than {} items", longest_range));
  body.length = static_cast<std::int64_t>(length);
  return Value::object(Kind::range, memory.make<RangeBody>(body));
}

Value dict(std::string_view what, const CallArguments& arguments, TemplateMemory& memory) {
  if (arguments.positional.size() > 1)
    throw TemplateFault(fmt::format("{} takes at most one positional argument", what));
  std::vector<Pair> pairs;
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (from.is(Kind::dict)) {
      pairs.assign(from.pairs().begin(), from.pairs().end());
    } else {
      ItemSource source(from, memory);
      for (Value item; source.next(item);) {
        const std::vector<Value> parts = items_of(item, memory);
        if (parts.size() != 2) throw TemplateFault(fmt::format("{} takes pairs, not {} items", what, parts.size()));
        pairs.push_back({parts[0], parts[1]});
        memory.require_room(pairs.size() * sizeof(Pair));
      }
    }
  }
  pairs.insert(pairs.end(), arguments.named.begin(), arguments.named.end());
  return dict_of(pairs, memory);
}

Value name_space(const CallArguments& arguments, TemplateMemory& memory) {
  auto* const body = memory.make<NamespaceBody>();
  const Value attributes = dict("namespace", arguments, memory);
  for (const Pair& pair : attributes.pairs())
    set_attribute(*body, text_argument("namespace", pair.key), pair.value, memory);
  return Value::object(Kind::name_space, body);
}

Value strftime_now(const CallArguments& arguments, TemplateMemory& memory) {
  const auto [format] = bound<1>("strftime_now", arguments, {"format"}, 1);
  const std::string text(text_argument("strftime_now", format));
  if (text.size() > 1000) throw TemplateFault("strftime_now: the format is longer than 1000 bytes");
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 1 << 16> out{};
  const std::size_t size = text.empty() ? 0 : std::strftime(out.data(), out.size(), text.c_str(), &parts);
  return Value::of(memory.copy({out.data(), size}));
}

Value cycler(const CallArguments& arguments, TemplateMemory& memory) {
  if (arguments.positional.empty() || !arguments.named.empty()) throw TemplateFault("cycler needs at least one value");
  Value* const items = memory.items<Value>(arguments.positional.size());
  std::ranges::copy(arguments.positional, items);
  auto* const body = memory.make<CyclerBody>();
  body->items = {items, arguments.positional.size()};
  return Value::object(Kind::cycler, body);
}

}  // namespace

std::optional<Value> function_named(std::string_view name) {
  const auto* const found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return Value::function(static_cast<int>(found - names.begin()));
}

Value call_function(const Value& function, const CallArguments& arguments, TemplateMemory& memory) {
  switch (static_cast<FunctionName>(function.function_id())) {
    case FunctionName::range: return range(arguments, memory);
    case FunctionName::dict: return dict("dict", arguments, memory);
    case FunctionName::name_space: return name_space(arguments, memory);
    case FunctionName::raise_exception: {
      const auto [message] = bound<1>("raise_exception", arguments, {"message"}, 1);
      throw TemplateFault(fmt::format("the template refuses: {}", text_of(message, memory)));
    }
    case FunctionName::strftime_now: return strftime_now(arguments, memory);
    case FunctionName::cycler: return cycler(arguments, memory);
    case FunctionName::joiner: {
      const auto [separator] = bound<1>("joiner", arguments, {"sep"});
      auto* const body = memory.make<JoinerBody>();
      body->separator = separator.is(Kind::missing) ? Value::of(std::string_view(", ")) : separator;
      return Value::object(Kind::joiner, body);
    }
    case FunctionName::lipsum: break;
  }
  throw TemplateFault("the function lipsum is not supported");
}

Value call_joiner(JoinerBody& joiner, const CallArguments& arguments) {
  arguments.require_positional("joiner", 0, 0);
  if (joiner.used) return joiner.separator;
  joiner.used = true;
  return Value::of(std::string_view());
}

}  // namespace lockstep::jinja
