#include "base/error.hpp"
#include "exchange/safetensors.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

namespace lockstep {

namespace {

constexpr std::uint64_t longest_header = 100'000'000;  // bytes, as the format says
constexpr std::size_t most_dims = 32;

constexpr std::array<std::pair<DType, std::string_view>, 15> spellings{{
    {DType::f64, "F64"},
    {DType::f32, "F32"},
    {DType::bf16, "BF16"},
    {DType::f16, "F16"},
    {DType::f8_e4m3, "F8_E4M3"},
    {DType::f8_e5m2, "F8_E5M2"},
    {DType::i64, "I64"},
    {DType::i32, "I32"},
    {DType::i16, "I16"},
    {DType::i8, "I8"},
    {DType::u64, "U64"},
    {DType::u32, "U32"},
    {DType::u16, "U16"},
    {DType::u8, "U8"},
    {DType::boolean, "BOOL"},
}};

using simdjson::ondemand::value;

std::vector<std::uint64_t> read_numbers(value json, std::size_t most) {
  std::vector<std::uint64_t> numbers;
  for (auto number : json.get_array()) {
    if (numbers.size() == most) fail(ExitCode::input, "more than {} numbers", most);
    numbers.push_back(number.get_uint64());
  }
  return numbers;
}

/// elements × size, if that fits into 63 bits.
std::optional<std::uint64_t> bytes_of(const std::vector<std::uint64_t>& shape, DType dtype) {
  std::int64_t bytes = size_of(dtype);
  for (const std::uint64_t extent : shape) {
    if (!std::in_range<std::int64_t>(extent) ||
        __builtin_mul_overflow(bytes, static_cast<std::int64_t>(extent), &bytes))
      return std::nullopt;
  }
  return static_cast<std::uint64_t>(bytes);
}

/// One tensor of the header; begin and end count from the data section. What is wrong is thrown without file and name.
SafetensorsEntry read_entry(std::string name, value json) {
  std::optional<DType> dtype;
  std::optional<std::vector<std::uint64_t>> shape;
  std::optional<std::vector<std::uint64_t>> offsets;
  for (auto field : json.get_object()) {
    const std::string_view key = field.unescaped_key();
    const auto once = [&](bool seen) {
      if (seen) fail(ExitCode::input, "{} appears twice", key);
    };
    if (key == "dtype") {
      once(dtype.has_value());
      const std::string_view spelling = field.value().get_string();
      dtype = dtype_from_safetensors(spelling);
      if (!dtype) fail(ExitCode::input, "type {} is not supported", spelling);
    } else if (key == "shape") {
      once(shape.has_value());
      shape = read_numbers(field.value(), most_dims);
    } else if (key == "data_offsets") {
      once(offsets.has_value());
      offsets = read_numbers(field.value(), 2);
    } else {
      fail(ExitCode::input, "unknown key {}", key);
    }
  }
  if (!dtype || !shape || !offsets || offsets->size() != 2)
    fail(ExitCode::input, "dtype, shape or data_offsets is missing");
  const auto bytes = bytes_of(*shape, *dtype);
  const std::uint64_t begin = offsets->front();
  const std::uint64_t end = offsets->back();
  if (!bytes || end < begin || end - begin != *bytes) {
    fail(ExitCode::input, "shape ({}) of {} does not fill bytes {} to {}", fmt::join(*shape, ", "), name_of(*dtype),
         begin, end);
  }
  return {{std::move(name), Shape(shape->begin(), shape->end()), *dtype}, begin, end};
}

std::vector<SafetensorsEntry> read_entries(const simdjson::padded_string& header) {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document = parser.iterate(header);
  std::vector<SafetensorsEntry> entries;
  std::unordered_set<std::string> names;
  for (auto field : document.get_object()) {
    std::string name(std::string_view(field.unescaped_key()));
    if (!names.insert(name).second) fail(ExitCode::input, "tensor '{}' appears twice", name);
    if (name == "__metadata__") {
      for (auto pair : field.value().get_object()) {
        [[maybe_unused]] const std::string_view key = pair.unescaped_key();
        [[maybe_unused]] const std::string_view text = pair.value().get_string();  // the format allows nothing else
      }
      continue;
    }
    try {
      entries.push_back(read_entry(name, field.value()));
    } catch (const Error& error) {
      fail(ExitCode::input, "tensor '{}': {}", name, error.what());
    }
  }
  if (document.current_location().error() == simdjson::SUCCESS)
    fail(ExitCode::input, "text follows the header's object");
  return entries;
}

/// Sorts by place and refuses holes, overlaps and bytes behind the last tensor.
void check_places(std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  std::uint64_t next = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != next) {
      fail(ExitCode::input, "tensor '{}' begins at data byte {}, {} at {}", entry.tensor.name, entry.begin,
           entry.begin < next ? "inside the tensor that ends" : "after a gap that starts", next);
    }
    next = entry.end;
  }
  if (next > data_bytes)
    fail(ExitCode::input, "the file is truncated: its tensors need {} data bytes, it has {}", next, data_bytes);
  if (next < data_bytes) fail(ExitCode::input, "{} bytes follow the last tensor", data_bytes - next);
}

}  // namespace

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const auto& [dtype, spelling] : spellings) {
    if (spelling == name) return dtype;
  }
  return std::nullopt;
}

std::string_view safetensors_name(DType dtype) {
  for (const auto& [known, spelling] : spellings) {
    if (known == dtype) return spelling;
  }
  fail(ExitCode::bug, "a DType without a safetensors name");
}

std::vector<SafetensorsEntry> parse_safetensors_header(std::span<const std::byte> bytes, const std::string& origin) {
  constexpr std::size_t prefix = 8;
  if (bytes.size() < prefix) fail(ExitCode::input, "{}: not a safetensors file: {} bytes", origin, bytes.size());
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < prefix; ++i) length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  if (length > longest_header || length > bytes.size() - prefix || length < 2) {
    fail(ExitCode::input, "{}: not a safetensors file, or a truncated one: a header of {} bytes in a file of {}",
         origin, length, bytes.size());
  }
  const std::size_t data = prefix + static_cast<std::size_t>(length);
  const std::span header = bytes.subspan(prefix, static_cast<std::size_t>(length));
  if (header.front() != std::byte{'{'})
    fail(ExitCode::input, "{}: not a safetensors file: the header is not a JSON object", origin);
  try {
    const simdjson::padded_string text(std::string_view(reinterpret_cast<const char*>(header.data()), header.size()));
    std::vector<SafetensorsEntry> entries = read_entries(text);
    check_places(entries, bytes.size() - data);
    for (SafetensorsEntry& entry : entries) {
      entry.begin += data;
      entry.end += data;
    }
    return entries;
  } catch (const Error& error) {
    fail(ExitCode::input, "{}: damaged safetensors header: {}", origin, error.what());
  } catch (const simdjson::simdjson_error&) {
    fail(ExitCode::input, "{}: damaged safetensors header: its JSON does not follow the format", origin);
  }
}

}  // namespace lockstep
