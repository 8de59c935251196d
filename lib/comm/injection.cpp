#include "comm/injection.hpp"

#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

#include <charconv>
#include <map>

namespace lockstep {

namespace {

const std::map<std::string, Injection::Kind, std::less<>> kinds = {
    {"throw", Injection::Kind::raise}, {"exit", Injection::Kind::exit},  {"stall", Injection::Kind::stall},
    {"nan", Injection::Kind::nan},     {"kill", Injection::Kind::kill},  {"stop", Injection::Kind::stop},
    {"flip", Injection::Kind::flip},   {"pause", Injection::Kind::pause}};

[[noreturn]] void refuse(const std::string& text, const std::string& reason) {
  throw Error(ExitCode::usage, fmt::format("cannot read the injected failure '{}': {}", text, reason),
              fmt::format("rank=N,phase=PHASE[,step=N][,steps=N],kind=KIND[,code=N] with KIND one of throw, exit, "
                          "stall, nan, kill, stop, flip, pause "
                          "and PHASE one of {}",
                          phase_names()));
}

std::int64_t number(const std::string& text, std::string_view key, std::string_view value) {
  std::int64_t result = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (status != std::errc{} || end != value.data() + value.size() || result < 0 || result > 1'000'000'000) {
    refuse(text, fmt::format("{} takes a number, not '{}'", key, value));
  }
  return result;
}

}  // namespace

Injection parse_injection(const std::string& text) {
  Injection injection;
  bool has_kind = false;
  bool has_code = false;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) refuse(text, fmt::format("'{}' is not KEY=VALUE", part));
    const std::string key = part.substr(0, equals);
    const std::string value = part.substr(equals + 1);
    if (key == "rank") {
      injection.rank = checked_cast<int>(number(text, key, value), key, ExitCode::usage);
    } else if (key == "step") {
      injection.step = number(text, key, value);
    } else if (key == "steps") {
      injection.steps = number(text, key, value);
    } else if (key == "code") {
      injection.code = checked_cast<int>(number(text, key, value), key, ExitCode::usage);
      has_code = true;
    } else if (key == "phase") {
      const std::optional<Phase> phase = parse_phase(value);
      if (!phase) refuse(text, fmt::format("there is no phase '{}'", value));
      injection.phase = *phase;
    } else if (key == "kind") {
      const auto kind = kinds.find(value);
      if (kind == kinds.end()) refuse(text, fmt::format("there is no kind '{}'", value));
      injection.kind = kind->second;
      has_kind = true;
    } else {
      refuse(text, fmt::format("there is no key '{}'", key));
    }
  }
  if (!has_kind) refuse(text, "it has no kind");
  if (injection.kind == Injection::Kind::flip && injection.phase != Phase::save_plan)
    refuse(text, "kind flip needs phase save.plan: it flips one bit of the state to save");
  if (injection.kind == Injection::Kind::raise && !has_code) injection.code = static_cast<int>(ExitCode::bug);
  return injection;
}

}  // namespace lockstep
