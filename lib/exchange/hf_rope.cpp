#include "exchange/hf_rope.hpp"

#include "base/json.hpp"
#include "exchange/hf_keys.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep {

namespace {

constexpr std::array kinds{RopeKind::unscaled, RopeKind::linear,   RopeKind::dynamic,
                           RopeKind::yarn,     RopeKind::longrope, RopeKind::llama3};
constexpr double largest_theta = 1e18;
constexpr double largest_factor = 1e6;
constexpr double smallest_divisor = 1e-6;
constexpr std::int64_t most_positions = std::int64_t{1} << 31;
constexpr const char* original_key = "original_max_position_embeddings";

std::optional<RopeKind> read_kind(HfKeys& map) {
  const std::string type = map.string("type", "default");
  const std::string name = map.string("rope_type", type);
  std::string names;
  for (const RopeKind kind : kinds) {
    if (name == name_of(kind)) return kind;
    names += (names.empty() ? "" : ", ") + std::string(name_of(kind));
  }
  map.unsupported("rope_type", fmt::format("{} is not supported (only {})", excerpt(Json(name)), names));
  return std::nullopt;
}

double required_number(HfKeys& map, std::string_view key, double least, double most) {
  if (map.find(key) == nullptr) map.malformed(key, "is missing");
  return map.number(key, least, least, most);
}

/// null and 0 are the value that is meant where there is none.
double number_or(HfKeys& map, std::string_view key, double otherwise) {
  const double found = map.number(key, otherwise, 0, largest_factor);
  return found == 0 ? otherwise : found;
}

std::vector<double> read_divisors(HfKeys& map, std::string_view key, std::int64_t count) {
  const Json* const list = map.find(key);
  std::vector<double> values;
  if (list != nullptr && list->is_array()) {
    for (const Json& value : *list) values.push_back(value.is_number() ? value.get<double>() : std::nan(""));
  }
  const bool usable =
      std::ranges::all_of(values, [](double value) { return value >= smallest_divisor && value <= largest_factor; });
  if (std::ssize(values) == count && usable) return values;
  map.malformed(key, fmt::format("is {}, not a list of {} positive numbers, head_dim / 2",
                                 list == nullptr ? "missing" : excerpt(*list), count));
  return std::vector<double>(static_cast<std::size_t>(count), 1.0);
}

/// The text's length before it grew: beside the map, in it, or what the model has.
std::int64_t read_original(HfKeys& keys, HfKeys& map, std::int64_t positions) {
  const auto inside = map.integer({original_key}, 1, most_positions);
  const auto beside = keys.integer({original_key}, 1, most_positions);
  return beside.value_or(inside.value_or(positions));
}

/// The factor, or where it is left out by how much the model's positions are more than the original ones.
double read_factor(HfKeys& map, double ratio) {
  return map.find("factor") == nullptr ? ratio : map.number("factor", 1, smallest_divisor, largest_factor);
}

void read_kind_of(RopeKind kind, HfKeys& keys, HfKeys& map, std::int64_t head_size, std::int64_t positions,
                  Rope& rope) {
  const auto ratio = [&] { return static_cast<double>(positions) / static_cast<double>(rope.original_positions); };
  const auto read_attention_factor = [&] {
    if (map.find("attention_factor") != nullptr)
      rope.attention_factor = map.number("attention_factor", 1, 0, largest_factor);
  };
  rope.kind = kind;
  switch (kind) {
    case RopeKind::unscaled: return;
    case RopeKind::linear: rope.factor = required_number(map, "factor", smallest_divisor, largest_factor); return;
    case RopeKind::dynamic:
      rope.factor = required_number(map, "factor", smallest_divisor, largest_factor);
      rope.original_positions = positions;
      if (head_size < 4) map.malformed("rope_type", fmt::format("\"dynamic\" needs heads larger than {}", head_size));
      return;
    case RopeKind::yarn:
      rope.original_positions = read_original(keys, map, positions);
      rope.factor = read_factor(map, ratio());
      read_attention_factor();
      rope.beta_fast = number_or(map, "beta_fast", 32);
      rope.beta_slow = number_or(map, "beta_slow", 1);
      rope.mscale = map.number("mscale", 0, 0, largest_factor);
      rope.mscale_all_dim = map.number("mscale_all_dim", 0, 0, largest_factor);
      rope.truncate = map.boolean("truncate", true);
      if (rope.theta == 1) map.malformed("rope_type", "\"yarn\" needs a rope_theta above 1");
      return;
    case RopeKind::longrope:
      rope.original_positions = read_original(keys, map, positions);
      rope.factor = read_factor(map, ratio());
      read_attention_factor();
      rope.short_factor = read_divisors(map, "short_factor", head_size / 2);
      rope.long_factor = read_divisors(map, "long_factor", head_size / 2);
      if (rope.original_positions == 1) map.malformed(original_key, "is 1, but must be greater than 1");
      return;
    case RopeKind::llama3:
      rope.original_positions = read_original(keys, map, positions);
      rope.factor = required_number(map, "factor", smallest_divisor, largest_factor);
      rope.low_freq_factor = required_number(map, "low_freq_factor", smallest_divisor, largest_factor);
      rope.high_freq_factor = required_number(map, "high_freq_factor", smallest_divisor, largest_factor);
      if (rope.high_freq_factor <= rope.low_freq_factor) {
        map.malformed("high_freq_factor",
                      fmt::format("is {}, not above low_freq_factor {}", rope.high_freq_factor, rope.low_freq_factor));
      }
      return;
  }
}

Rope read_map(HfKeys& keys, HfKeys& map, double theta, std::int64_t head_size, std::int64_t positions) {
  Rope rope;
  rope.theta = theta;
  const bool on_top = keys.find("rope_theta") != nullptr;
  const double top = keys.number("rope_theta", rope.theta, 1, largest_theta);
  rope.theta = map.number("rope_theta", top, 1, largest_theta);
  if (on_top && rope.theta != top)
    map.malformed("rope_theta", fmt::format("is {}, but rope_theta is {}", rope.theta, top));
  for (const char* const layers : {"full_attention", "sliding_attention"}) {
    if (map.find(layers) != nullptr)
      map.unsupported(layers, "is not supported: all layers use the same rotary positions");
  }
  const Json* const part = map.find("partial_rotary_factor");
  if (part != nullptr && *part != 1.0)
    map.unsupported("partial_rotary_factor", fmt::format("{} is not supported (only 1.0)", excerpt(*part)));
  if (const auto kind = read_kind(map)) read_kind_of(*kind, keys, map, head_size, positions, rope);
  return rope;
}

}  // namespace

std::string_view name_of(RopeKind kind) {
  switch (kind) {
    case RopeKind::unscaled: return "default";
    case RopeKind::linear: return "linear";
    case RopeKind::dynamic: return "dynamic";
    case RopeKind::yarn: return "yarn";
    case RopeKind::longrope: return "longrope";
    case RopeKind::llama3: return "llama3";
  }
  fail(ExitCode::bug, "unknown RopeKind {}", static_cast<int>(kind));
}

Rope read_rope(HfKeys& keys, double theta, std::int64_t head_size, std::int64_t positions, const std::string& origin) {
  std::optional<Rope> found;
  for (const char* const key : {"rope_scaling", "rope_parameters"}) {
    const Json* const value = keys.find(key);
    if (value == nullptr || (value->is_object() && value->empty())) continue;
    if (!value->is_object()) {
      keys.malformed(key, fmt::format("is {}, not a map", excerpt(*value)));
      continue;
    }
    HfKeys map(*value, origin);
    const Rope rope = read_map(keys, map, theta, head_size, positions);
    keys.take(key, map);
    if (found && *found != rope) keys.malformed(key, "contradicts rope_scaling");
    found = rope;
  }
  if (found) return *found;
  const Json none = Json::object();
  HfKeys map(none, origin);
  return read_map(keys, map, theta, head_size, positions);
}

void write_rope(Json& document, const Rope& rope) {
  Json map{{"rope_type", name_of(rope.kind)}};
  const auto write_scaling = [&] {
    map["factor"] = rope.factor;
    map[original_key] = rope.original_positions;
    if (rope.attention_factor) map["attention_factor"] = *rope.attention_factor;
  };
  switch (rope.kind) {
    case RopeKind::unscaled: break;
    case RopeKind::linear:
    case RopeKind::dynamic: map["factor"] = rope.factor; break;
    case RopeKind::yarn:
      write_scaling();
      map["beta_fast"] = rope.beta_fast;
      map["beta_slow"] = rope.beta_slow;
      if (rope.mscale > 0) map["mscale"] = rope.mscale;
      if (rope.mscale_all_dim > 0) map["mscale_all_dim"] = rope.mscale_all_dim;
      if (!rope.truncate) map["truncate"] = false;
      break;
    case RopeKind::longrope:
      write_scaling();
      map["short_factor"] = rope.short_factor;
      map["long_factor"] = rope.long_factor;
      break;
    case RopeKind::llama3:
      write_scaling();
      map["low_freq_factor"] = rope.low_freq_factor;
      map["high_freq_factor"] = rope.high_freq_factor;
      break;
  }
  document["rope_theta"] = rope.theta;
  document.erase("rope_scaling");
  if (rope.kind != RopeKind::unscaled) document["rope_scaling"] = map;
  map["rope_theta"] = rope.theta;
  document["rope_parameters"] = map;
}

}  // namespace lockstep
