#include "prepare/spill_units.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "base/mapped_file.hpp"
#include "base/random.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

namespace lockstep {

namespace {

constexpr const char* description_suffix = ".json";

std::string hex_of(std::span<const std::byte> bytes) {
  std::string digits;
  for (const std::byte byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return digits;
}

/// A value as it lies in memory; the description is read by the program that wrote it, on machines of one kind.
template <class Value>
Json json_of_value(const Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  return hex_of(std::as_bytes(std::span(&value, 1)));
}

template <class Value>
Value value_from(const Json& json) {
  const std::string digits = json.get<std::string>();
  Value value;
  if (digits.size() != 2 * sizeof value) fail(ExitCode::input, "a value has the wrong size");
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

Json json_of(const SpillUnit& unit, const std::vector<InputFile>& files, const std::string& form,
             const std::vector<Hash128>& hashes) {
  Json json{{"form", form},
            {"range", {unit.range.begin, unit.range.end}},
            {"name", unit.name},
            {"empty_documents", unit.empty_documents},
            {"malformed_lines", unit.malformed_lines},
            {"left_out", unit.left_out},
            {"records", json_of_value(unit.records)},
            {"blocks", Json::array()},
            {"places", Json::array()},
            {"contents", Json::array()},
            {"hashes", Json::array()}};
  for (const TokenizedBlock& block : unit.blocks) json["blocks"].push_back(json_of_value(block));
  for (const UnitContent& content : unit.contents) json["contents"].push_back(json_of_value(content));
  for (const Hash128& hash : hashes) json["hashes"].push_back(to_hex(hash));
  for (const BadText& bad : unit.places)
    json["places"].push_back({bad.file - files.data(), bad.offset ? Json(*bad.offset) : Json(), bad.reason, bad.hint});
  return json;
}

/// Of a file that describes a finished unit: its name begins with the range.
std::optional<InputRange> range_in(const Path& path) {
  unsigned long long begin = 0, end = 0;
  if (path.extension() != description_suffix || std::sscanf(path.filename().c_str(), "%llu-%llu-", &begin, &end) != 2)
    return std::nullopt;
  return begin < end ? std::optional(InputRange{begin, end}) : std::nullopt;
}

/// Whether the file is there and has the hash.
bool has_hash(const Path& path, const std::string& hash, const std::function<void()>& alive) {
  if (!length_of(path)) return false;
  constexpr std::size_t step = std::size_t{16} << 20;
  const MappedFile file(path);
  StreamHash found;
  for (std::size_t at = 0; at < file.bytes().size(); at += step) {
    alive();
    found.add(file.bytes().subspan(at, std::min(step, file.bytes().size() - at)));
  }
  require_intact(file);
  return to_hex(found.digest()) == hash;
}

/// Of the form of a list of files: numbers of blocks mean the same where it is equal.
std::string form_of(const std::vector<InputFile>& files, int token_bytes) {
  StreamHash hash;
  hash.add(fmt::format("{}", token_bytes));
  for (const InputFile& file : files) hash.add(fmt::format(" {}{}", file.bytes, file.is_plain() ? "" : "w"));
  return to_hex(hash.digest());
}

}  // namespace

std::uint64_t SpillUnit::tokens() const {
  return blocks.empty() ? 0 : blocks.back().first_token + blocks.back().tokens;
}
std::uint64_t SpillUnit::fragments() const {
  return blocks.empty() ? 0 : blocks.back().first_fragment + blocks.back().fragments;
}

UnitStore::UnitStore(const Path& folder, const std::vector<InputFile>& files, int token_bytes)
    : folder_(folder), files_(files), numbers_(files), form_(form_of(files, token_bytes)) {}

std::string UnitStore::new_name(const InputRange& range) const {
  return fmt::format("{}-{}-{}", range.begin, range.end, make_uuid());
}

void UnitStore::publish(const SpillUnit& unit, const std::vector<Hash128>& hashes) const {
  Json json = json_of(unit, files_, form_, hashes);
  json["self_hash"] = to_hex(hash128(to_text(json)));
  publish_file(folder_ / (unit.name + description_suffix), to_text(json) + "\n");
}

std::optional<SpillUnit> UnitStore::read(const Path& description, const std::function<void()>& alive) const {
  Json json = Json::parse(read_file(description), nullptr, false);
  try {
    const std::string self = json.at("self_hash");
    json.erase("self_hash");
    if (self != to_hex(hash128(to_text(json))) || json.at("form") != form_) return std::nullopt;
    SpillUnit unit;
    unit.range = {integer_from<std::uint64_t>(json["range"].at(0)), integer_from<std::uint64_t>(json["range"].at(1))};
    unit.name = json["name"];
    unit.empty_documents = integer_from<std::int64_t>(json["empty_documents"]);
    unit.malformed_lines = integer_from<std::int64_t>(json["malformed_lines"]);
    unit.left_out = integer_from<std::int64_t>(json.at("left_out"));
    unit.records = value_from<RecordCounts>(json["records"]);
    for (const Json& block : json["blocks"]) unit.blocks.push_back(value_from<TokenizedBlock>(block));
    for (const Json& content : json["contents"]) unit.contents.push_back(value_from<UnitContent>(content));
    for (const Json& bad : json["places"]) {
      BadText& place = unit.places.emplace_back();
      place.file = &files_.at(integer_from<std::size_t>(bad.at(0)));
      if (!bad.at(1).is_null()) place.offset = integer_from<std::uint64_t>(bad.at(1));
      place.reason = bad.at(2);
      place.hint = bad.at(3);
    }
    const std::vector<Path> paths = spill_files(folder_, unit.name);
    for (std::size_t i = 0; i < paths.size(); ++i)
      if (!has_hash(paths[i], json["hashes"].at(i), alive)) return std::nullopt;
    return unit;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() != ExitCode::input) throw;
    return std::nullopt;
  }
}

std::vector<SpillUnit> UnitStore::plan(const InputRange& own, const std::function<void()>& alive) const {
  std::vector<std::pair<InputRange, Path>> found;
  for (const Path& path : list_folder(folder_)) {
    const auto range = range_in(path);
    if (range && range->begin >= own.begin && range->end <= own.end) found.emplace_back(*range, path);
  }
  std::ranges::sort(found, [](const auto& a, const auto& b) {  // longer ones of those that begin at one place first
    return std::pair(a.first.begin, ~a.first.end) < std::pair(b.first.begin, ~b.first.end);
  });
  std::vector<SpillUnit> units;
  const auto make_up_to = [&](std::uint64_t begin, std::uint64_t end) {
    while (begin < end) {
      const std::uint64_t aligned = numbers_.border_at((begin / unit_blocks + 1) * unit_blocks);
      SpillUnit& unit = units.emplace_back();
      unit.range = {begin, std::min(aligned, end)};
      begin = unit.range.end;
    }
  };
  std::uint64_t at = own.begin;
  for (const auto& [range, path] : found) {
    if (range.begin < at) continue;
    std::optional<SpillUnit> unit = read(path, alive);
    if (!unit || !(unit->range == range)) continue;
    make_up_to(at, range.begin);
    at = range.end;
    units.push_back(std::move(*unit));
  }
  make_up_to(at, own.end);
  return units;
}

bool holds_full_units(const Path& folder) {
  return std::ranges::any_of(list_folder(folder), [](const Path& path) {
    const auto range = range_in(path);
    return range && range->end - range->begin >= UnitStore::unit_blocks;
  });
}

}  // namespace lockstep
