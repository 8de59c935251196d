#include "config/values.hpp"

#include "base/decimal.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "options/interpret.hpp"
#include "options/ranges.hpp"
#include "plugin/plugins.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <new>

namespace lockstep {

namespace {

bool whole_number(const std::string& text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= 0;
}

}  // namespace

std::string Resume::form() { return "auto|never|afresh|latest|best|STEP|PATH"; }

Resume Resume::parse(const std::string& text) {
  if (text == "auto") return {From::automatic, 0, {}};
  if (text == "never") return {From::never, 0, {}};
  if (text == "afresh") return {From::afresh, 0, {}};
  if (text == "latest") return {From::latest, 0, {}};
  if (text == "best") return {From::best, 0, {}};
  std::int64_t step = 0;
  if (whole_number(text, step)) return {From::step, step, {}};
  if (text.find('/') != std::string::npos || text.starts_with('.') || text.starts_with("step-"))
    return {From::path, 0, text};
  fail(ExitCode::usage, "\"{}\" is not one of {}; a path must contain \"/\"", text, form());
}

std::string Resume::text() const {
  switch (from) {
    case From::automatic: return "auto";
    case From::never: return "never";
    case From::afresh: return "afresh";
    case From::latest: return "latest";
    case From::best: return "best";
    case From::step: return fmt::format("{}", step);
    case From::path: return path;
  }
  throw Error(ExitCode::bug, "unknown Resume::From");
}

std::string CheckpointChoice::form() { return "best|last|STEP"; }

CheckpointChoice CheckpointChoice::parse(const std::string& text) {
  if (text == "last") return {};
  if (text == "best") return {.by = Kind::best};
  std::int64_t step = 0;
  if (!whole_number(text, step)) refuse_form(text, form());
  return {.by = Kind::step, .step = step};
}

std::string CheckpointChoice::text() const {
  switch (by) {
    case Kind::last: return "last";
    case Kind::best: return "best";
    case Kind::step: return fmt::format("{}", step);
  }
  throw Error(ExitCode::bug, "a choice of a checkpoint without a text");
}

namespace {

/// "100", "100 steps" or "0.5 epochs"; nothing for what is neither.
struct StepsOrEpochs {
  std::int64_t steps = 0;
  double epochs = 0;
};
std::optional<StepsOrEpochs> steps_or_epochs(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || !(number >= 0) || number > most_count) return std::nullopt;
  const std::string_view unit = trim(std::string_view(read, end));
  if (unit.empty() || unit == "step" || unit == "steps") {
    if (number != std::floor(number)) return std::nullopt;
    return StepsOrEpochs{.steps = static_cast<std::int64_t>(number)};
  }
  if (unit != "epoch" && unit != "epochs") return std::nullopt;
  if (number > 0 && Decimal::nearest(number).billionths == 0) return std::nullopt;
  return StepsOrEpochs{.epochs = number};
}

std::string text_of_epochs(double epochs) { return fmt::format("{} epochs", epochs); }

/// "10m" or "10 minutes"; nothing for what is neither, or has no unit.
std::optional<double> parse_time(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || !(number > 0)) return std::nullopt;
  const std::string_view unit = trim(std::string_view(read, end));
  if (unit.empty()) return std::nullopt;
  for (const auto& [word, seconds] : {std::pair("second", 1.0), {"minute", 60.0}, {"hour", 3600.0}, {"day", 86400.0}})
    if (unit == word || unit == std::string(word) + "s") return number * seconds;
  const std::optional<double> seconds = parse_seconds(text);
  if (!seconds || !std::isfinite(*seconds) || *seconds <= 0) return std::nullopt;
  return seconds;
}

}  // namespace

std::string Cadence::form() { return "CADENCE: 100 steps, 0.5 epochs, 10m, several of them with + between, or never"; }

Cadence Cadence::parse(const std::string& text) {
  if (text == "never") return {};
  if (trim(text).empty()) refuse_form(text, form());
  constexpr std::string_view between = " + ";
  Cadence cadence;
  for (std::size_t begin = 0, end = 0; end < text.size(); begin = end + between.size()) {
    end = std::min(text.find(between, begin), text.size());
    const std::string one(trim(std::string_view(text).substr(begin, end - begin)));
    if (const auto counted = steps_or_epochs(one); counted && (counted->steps > 0 || counted->epochs > 0)) {
      if ((counted->steps > 0 && cadence.steps > 0) || (counted->epochs > 0 && cadence.epochs > 0))
        fail(ExitCode::usage, "\"{}\" has {} twice", text, counted->steps > 0 ? "steps" : "epochs");
      if (counted->steps > 0) cadence.steps = counted->steps;
      if (counted->epochs > 0) cadence.epochs = counted->epochs;
    } else if (const std::optional<double> seconds = parse_time(one)) {
      if (cadence.time.value > 0) fail(ExitCode::usage, "\"{}\" has a time twice", text);
      cadence.time.value = *seconds;
    } else {
      refuse_form(text, form());
    }
  }
  return cadence;
}

std::string Cadence::text() const {
  std::vector<std::string> parts;
  if (steps > 0) parts.push_back(counted(steps, "step"));
  if (epochs > 0) parts.push_back(text_of_epochs(epochs));
  if (time.value > 0) parts.push_back(time.text());
  return parts.empty() ? "never" : join(parts, " + ");
}

std::string Delay::form() { return "DELAY: 100 steps, 0.5 epochs or 0"; }

Delay Delay::parse(const std::string& text) {
  const auto counted = steps_or_epochs(text);
  if (!counted) refuse_form(text, form());
  return {counted->steps, counted->epochs};
}

std::string Delay::text() const { return epochs > 0 ? text_of_epochs(epochs) : counted(steps, "step"); }

std::string SaveInterval::form() { return "auto or a TIME such as 90s, 15m or 1h30m"; }

SaveInterval SaveInterval::parse(const std::string& text) {
  if (text == "auto") return {.automatic = true};
  const std::optional<double> seconds = parse_seconds(text);
  if (!seconds || !std::isfinite(*seconds) || *seconds <= 0) refuse_form(text, form());
  return {.time = {*seconds}};
}

std::string SaveInterval::text() const { return automatic ? "auto" : time.text(); }

std::string Recompute::form() {
  std::string form = "none|block|every:K";
  for (const auto& entry : Plugins::opened().recomputes()) form += fmt::format("|{}", entry.table->name);
  return form;
}

Recompute Recompute::parse(const std::string& text) {
  if (text == "none") return {};
  if (text == "block") return {1};
  for (const auto& entry : Plugins::opened().recomputes())
    if (text == entry.table->name) return {.plugin = text};
  constexpr std::string_view prefix = "every:";
  Recompute recompute;
  if (!text.starts_with(prefix) || !whole_number(text.substr(prefix.size()), recompute.every))
    refuse_form(text, form());
  if (recompute.every < 1 || recompute.every > INT32_MAX)
    fail(ExitCode::usage, "\"{}\": every K-th block needs a K from 1 to {}", text, INT32_MAX);
  return recompute;
}

std::string Recompute::text() const {
  if (!plugin.empty()) return plugin;
  if (every == 0) return "none";
  return every == 1 ? "block" : fmt::format("every:{}", every);
}

std::string ValidationSplit::form() { return "hash:FRACTION|tail:FRACTION|count:N|none"; }

ValidationSplit ValidationSplit::parse(const std::string& text) {
  if (text == "none") return {};
  ValidationSplit split;
  const std::size_t colon = text.find(':');
  if (text.starts_with("hash:")) {
    split.by = Kind::hash;
  } else if (text.starts_with("tail:")) {
    split.by = Kind::tail;
  } else if (text.starts_with("count:")) {
    split.by = Kind::count;
  } else {
    refuse_form(text, form());
  }
  const char* const begin = text.data() + colon + 1;
  const char* const end = text.data() + text.size();
  if (split.by == Kind::count) {
    const auto [read, error] = std::from_chars(begin, end, split.count);
    if (error != std::errc{} || read != end || split.count < 1)
      fail(ExitCode::usage, "\"{}\": the number of documents must be a whole number of at least 1", text);
    return split;
  }
  const auto [read, error] = std::from_chars(begin, end, split.fraction);
  if (error != std::errc{} || read != end || !(split.fraction > 0 && split.fraction < 1)) {
    fail(ExitCode::usage, "\"{}\": the fraction must be a number between 0 and 1", text);
  }
  return split;
}

std::string ValidationSplit::text() const {
  switch (by) {
    case Kind::none: return "none";
    case Kind::hash: return fmt::format("hash:{}", fraction);
    case Kind::tail: return fmt::format("tail:{}", fraction);
    case Kind::count: return fmt::format("count:{}", count);
  }
  return {};
}

std::string TokenizerChoice::form() { return "bytes|chars|PATH"; }

TokenizerChoice TokenizerChoice::parse(const std::string& text) {
  if (text == "bytes") return {Kind::bytes, {}};
  if (text == "chars") return {Kind::chars, {}};
  if (text.empty()) refuse_form(text, form());
  return {Kind::files, text};
}

std::string TokenizerChoice::text() const {
  switch (kind) {
    case Kind::bytes: return "bytes";
    case Kind::chars: return "chars";
    case Kind::files: return path;
  }
  throw Error(ExitCode::bug, "unknown TokenizerChoice::Kind");
}

std::string AfterForward::form() { return "true|false|RANKS"; }

AfterForward AfterForward::parse(const std::string& text) {
  if (const std::optional<bool> lets_go = boolean_word(text)) return {*lets_go ? 0 : 1};
  AfterForward after;
  if (!whole_number(text, after.ranks) || after.ranks < 2) refuse_form(text, form());
  return after;
}

std::string AfterForward::text() const { return ranks < 2 ? (ranks == 0 ? "true" : "false") : fmt::to_string(ranks); }

std::string AxisSize::form() { return "auto|node|RANKS"; }

AxisSize AxisSize::parse(const std::string& text) {
  if (text == "node") return {.ranks = of_node};
  AxisSize size;
  constexpr std::int64_t most = 1 << 30;
  if (text != "auto" && (!whole_number(text, size.ranks) || size.ranks < 1 || size.ranks > most))
    refuse_form(text, form());
  return size;
}

std::string AxisSize::text() const {
  return ranks == 0 ? "auto" : ranks == of_node ? "node" : fmt::format("{}", ranks);
}

std::string RanksPerFile::form() { return "node|RANKS"; }

RanksPerFile RanksPerFile::parse(const std::string& text) {
  RanksPerFile result;
  constexpr std::int64_t most = 1 << 30;
  if (text != "node" && (!whole_number(text, result.ranks) || result.ranks < 1 || result.ranks > most))
    refuse_form(text, form());
  return result;
}

std::string RanksPerFile::text() const { return ranks == 0 ? "node" : fmt::format("{}", ranks); }

std::string PartChoice::form() { return "I/N"; }

PartChoice PartChoice::parse(const std::string& text) {
  const std::size_t slash = text.find('/');
  PartChoice result{0, 0};
  const auto number = [&](std::string_view digits, std::int64_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  const bool well = slash != std::string::npos && number(std::string_view(text).substr(0, slash), result.part) &&
                    number(std::string_view(text).substr(slash + 1), result.parts);
  if (!well) refuse_form(text, form());
  if (result.part < 1 || result.part > result.parts)
    fail(ExitCode::usage, "\"{}\" is not a part of {}: parts are counted from 1, and the last is {}/{}", text,
         std::max<std::int64_t>(result.parts, 1), std::max<std::int64_t>(result.parts, 1),
         std::max<std::int64_t>(result.parts, 1));
  return result;
}

std::string PartChoice::text() const { return fmt::format("{}/{}", part, parts); }

std::string MetadataEntry::form() { return "KEY=VALUE"; }

MetadataEntry MetadataEntry::parse(const std::string& text) {
  const std::size_t equals = text.find('=');
  const auto names = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  const bool well = equals != std::string::npos && equals > 0 &&
                    std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(equals), names) &&
                    std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (!well) refuse_form(text, form());
  return {text.substr(0, equals), text.substr(equals + 1)};
}
std::string MetadataEntry::text() const { return key + "=" + value; }

std::string PlotTarget::form() { return "FILE.svg|FILE.json|text"; }

PlotTarget PlotTarget::parse(const std::string& text) {
  if (text == "text") return {};
  if (text.ends_with(".svg")) return {Kind::svg, text};
  if (text.ends_with(".json")) return {Kind::json, text};
  refuse_form(text, form());
}

std::string PlotTarget::text() const { return kind == Kind::text ? "text" : path; }

}  // namespace lockstep
