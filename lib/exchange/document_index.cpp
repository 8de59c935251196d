#include "exchange/document_index.hpp"

#include "base/error.hpp"
#include "base/load.hpp"
#include "base/mapped_file.hpp"
#include "base/words.hpp"

#include <array>
#include <cstring>
#include <utility>

namespace lockstep {

namespace {

constexpr std::uint64_t entries_at_once = std::uint64_t{1} << 20;  // between signs of life

// Numbers of the format and ours; it has no unsigned integers of more bits.
constexpr std::array<std::pair<int, DType>, 8> codes{{{1, DType::u8},
                                                      {2, DType::i8},
                                                      {3, DType::i16},
                                                      {4, DType::i32},
                                                      {5, DType::i64},
                                                      {6, DType::f64},
                                                      {7, DType::f32},
                                                      {8, DType::u16}}};

DType dtype_of(int code) {
  for (const auto& [number, dtype] : codes) {
    if (number != code) continue;
    if (is_floating(dtype)) fail(ExitCode::input, "its element type {} cannot hold token ids", name_of(dtype));
    return dtype;
  }
  fail(ExitCode::input, "its element type {} is unknown", code);
}

}  // namespace

int MegatronIndex::code_of(DType dtype) {
  for (const auto& [number, type] : codes) {
    if (type == dtype) return number;
  }
  return 0;
}

MegatronIndex MegatronIndex::read(std::span<const std::byte> header, std::uint64_t bytes) {
  if (header.size() < header_bytes || std::memcmp(header.data(), magic.data(), magic.size()) != 0)
    fail(ExitCode::input, "it does not begin like a Megatron index");
  if (const auto version = load<std::uint64_t>(header, 9); version != 1)
    fail(ExitCode::input, "it has format version {}; only version 1 is supported", version);
  MegatronIndex index;
  index.dtype = dtype_of(static_cast<int>(load<std::uint8_t>(header, 17)));
  index.sequences = load<std::uint64_t>(header, 18);
  index.boundaries = load<std::uint64_t>(header, 26);
  const auto truncated = [&] {
    fail(ExitCode::input, "{} sequences and {} document boundaries need more than its {} bytes", index.sequences,
         index.boundaries, bytes);
  };
  if (index.sequences > bytes || index.boundaries > bytes) truncated();  // and the sums below do not overflow
  const std::uint64_t end = index.boundaries_at() + index.boundaries * sizeof(std::int64_t);
  if (end > bytes) truncated();
  if (index.sequences > 0 && bytes == end + index.sequences)
    fail(ExitCode::input, "it has sequence modes: multimodal datasets are not supported");
  if (bytes > end) fail(ExitCode::input, "{} bytes follow the data that its header announces", bytes - end);
  if (index.sequences == 0 || index.boundaries == 0) fail(ExitCode::input, "it has no documents");
  return index;
}

DocumentIndex::DocumentIndex(const TokenFile& file) : file_(file), map_(file.index) {
  try {
    if (file.format == TokenFormat::megatron) megatron_ = MegatronIndex::read(map_.bytes(), map_.bytes().size());
    require_intact(map_);
  } catch (const Error& error) {
    if (error.code() != ExitCode::input) throw;
    require_intact(map_);
    fail(ExitCode::input, "{}: {}", file.index.string(), error.what());
  }
  if (file.format == TokenFormat::datatrove && (map_.bytes().empty() || map_.bytes().size() % 8 != 0))
    fail(ExitCode::input, "{} has {} bytes: it is not a list of 64-bit document ends", file.index.string(),
         map_.bytes().size());
}

void DocumentIndex::check(const std::function<void()>& alive) const {
  read_mapped(map_, [&] {
    if (file_.format == TokenFormat::megatron) check_megatron(alive);
    if (file_.format == TokenFormat::datatrove) check_datatrove(alive);
  });
}

void DocumentIndex::check_megatron(const std::function<void()>& alive) const {
  const auto bytes = map_.bytes();
  const auto width = static_cast<std::uint64_t>(size_of(megatron_.dtype));
  std::uint64_t end = 0;  // bytes of the sequences before
  for (std::uint64_t i = 0; i < megatron_.sequences; ++i) {
    if (i % entries_at_once == 0) alive();
    const auto length = load<std::int32_t>(bytes, megatron_.lengths_at() + i * sizeof(std::int32_t));
    const auto pointer = load<std::int64_t>(bytes, megatron_.pointers_at() + i * sizeof(std::int64_t));
    if (length < 0) fail(ExitCode::input, "{}: sequence {} has {} tokens", file_.index.string(), i, length);
    if (std::cmp_not_equal(pointer, end)) {
      fail(ExitCode::input, "{}: sequence {} begins at byte {}, {}: the previous one ends at {}", file_.index.string(),
           i, pointer, std::cmp_less(pointer, end) ? "which overlaps" : "which leaves a gap", end);
    }
    end += static_cast<std::uint64_t>(length) * width;
    if (end > file_.bytes) {
      fail(ExitCode::input, "{}: sequence {} ends at byte {}, but {} has {} bytes", file_.index.string(), i, end,
           file_.path.string(), file_.bytes);
    }
  }
  if (end != file_.bytes) {
    fail(ExitCode::input, "{}: its sequences end at byte {}, but {} has {} bytes", file_.index.string(), end,
         file_.path.string(), file_.bytes);
  }
  std::int64_t before = 0;
  for (std::uint64_t i = 0; i < megatron_.boundaries; ++i) {
    if (i % entries_at_once == 0) alive();
    const auto boundary = load<std::int64_t>(bytes, megatron_.boundaries_at() + i * sizeof(std::int64_t));
    if (boundary < before || std::cmp_greater(boundary, megatron_.sequences) || (i == 0 && boundary != 0)) {
      fail(ExitCode::input, "{}: document {} begins with sequence {}, expected {} to {}", file_.index.string(), i,
           boundary, before, i == 0 ? 0 : megatron_.sequences);
    }
    before = boundary;
  }
}

void DocumentIndex::check_datatrove(const std::function<void()>& alive) const {
  std::uint64_t before = 0;
  const std::uint64_t documents = map_.bytes().size() / sizeof(std::uint64_t);
  for (std::uint64_t i = 0; i < documents; ++i) {
    if (i % entries_at_once == 0) alive();
    const auto end = load<std::uint64_t>(map_.bytes(), i * sizeof(std::uint64_t));
    if (end < before || std::cmp_greater(end, file_.tokens)) {
      fail(ExitCode::input, "{}: document {} ends at token {}, expected {} to {}", file_.index.string(), i, end, before,
           file_.tokens);
    }
    before = end;
  }
  if (std::cmp_not_equal(before, file_.tokens)) {
    fail(ExitCode::input, "{}: its documents end at token {}, but {} has {} tokens", file_.index.string(), before,
         file_.path.string(), file_.tokens);
  }
}

std::uint64_t DocumentIndex::entries() const {
  if (file_.format == TokenFormat::megatron) return megatron_.boundaries;
  return map_.bytes().size() / sizeof(std::uint64_t);  // ends; the last one is the start of none
}

std::uint64_t DocumentIndex::entry(std::uint64_t number) const {
  const auto bytes = map_.bytes();
  if (file_.format == TokenFormat::datatrove)
    return number == 0 ? 0 : load<std::uint64_t>(bytes, (number - 1) * sizeof(std::uint64_t));
  const auto sequence = load<std::int64_t>(bytes, megatron_.boundaries_at() + number * sizeof(std::int64_t));
  if (std::cmp_equal(sequence, megatron_.sequences)) return static_cast<std::uint64_t>(file_.tokens);
  const auto pointer =
      load<std::int64_t>(bytes, megatron_.pointers_at() + static_cast<std::uint64_t>(sequence) * sizeof(std::int64_t));
  return static_cast<std::uint64_t>(pointer) / static_cast<std::uint64_t>(size_of(megatron_.dtype));
}

std::uint64_t DocumentIndex::first_entry_from(std::uint64_t token) const {
  std::uint64_t low = 0, high = entries();
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (entry(middle) < token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::optional<std::uint64_t> DocumentIndex::start_from(std::uint64_t token) const {
  return read_mapped(map_, [&]() -> std::optional<std::uint64_t> {
    const std::uint64_t number = first_entry_from(token);
    if (number == entries() || std::cmp_greater_equal(entry(number), file_.tokens)) return std::nullopt;
    return entry(number);
  });
}

std::vector<std::uint64_t> DocumentIndex::starts(std::uint64_t begin, std::uint64_t end) const {
  std::vector<std::uint64_t> found;
  for (std::uint64_t number = first_entry_from(begin); number < entries(); ++number) {
    const std::uint64_t start = entry(number);
    if (start >= end) break;
    if (found.empty() || start > found.back()) found.push_back(start);
  }
  require_intact(map_);
  return found;
}

}  // namespace lockstep
