#include "report/wandb_file.hpp"

#include "base/json.hpp"
#include "report/wire_format.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

constexpr std::uint64_t block_bytes = 32768;
constexpr std::uint64_t frame_header_bytes = 7;  // checksum, length, kind

enum class FrameKind : unsigned char { whole = 1, first = 2, middle = 3, last = 4 };

std::string frame(std::string_view data, FrameKind kind) {
  const std::string begin(1, static_cast<char>(kind));
  const auto add = [](uLong sum, std::string_view bytes) {
    return ::crc32(sum, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
  };
  return little_endian(add(add(0, begin), data), 4) + little_endian(data.size(), 2) + begin + std::string(data);
}

std::string record(std::int64_t number, std::uint64_t kind, const std::string& message) {
  return integer_field(1, static_cast<std::uint64_t>(number)) + bytes_field(kind, message);
}

/// Items of a history, a summary or a configuration: each a key and its value as JSON.
std::string items_of(const Json& values) {
  std::string items;
  for (const auto& [name, value] : values.items())
    items += bytes_field(1, bytes_field(1, name) + bytes_field(16, to_text(value)));
  return items;
}

}  // namespace

std::string wandb_file_header() { return ":W&B" + little_endian(0xBEE1, 2) + little_endian(0, 1); }

std::string wandb_frames(std::string_view message, std::uint64_t size) {
  std::string bytes;
  bool first = true;
  do {
    std::uint64_t room = block_bytes - (size + bytes.size()) % block_bytes;
    if (room < frame_header_bytes) {
      bytes.append(room, '\0');
      room = block_bytes;
    }
    const std::string_view part = message.substr(0, room - frame_header_bytes);
    message.remove_prefix(part.size());
    const FrameKind kind =
        message.empty() ? (first ? FrameKind::whole : FrameKind::last) : (first ? FrameKind::first : FrameKind::middle);
    bytes += frame(part, kind);
    first = false;
  } while (!message.empty());
  return bytes;
}

std::string wandb_version_message(std::int64_t number, std::string_view producer) {
  return record(number, 21, bytes_field(1, bytes_field(1, producer)));
}

std::string wandb_run_message(std::int64_t number, const WandbRunFacts& run, const Json& config) {
  const double seconds = std::floor(run.start_wall_s);
  const auto nanoseconds = static_cast<std::uint64_t>((run.start_wall_s - seconds) * 1e9);
  std::string message = bytes_field(1, run.id);
  if (!run.project.empty()) message += bytes_field(3, run.project);
  message += bytes_field(4, items_of(config)) + bytes_field(8, run.name);
  for (const std::string& tag : run.tags) message += bytes_field(10, tag);
  message += bytes_field(13, run.host);
  if (run.start_step > 0) message += integer_field(14, static_cast<std::uint64_t>(run.start_step));
  message += bytes_field(17, integer_field(1, static_cast<std::uint64_t>(seconds)) + integer_field(2, nanoseconds));
  if (run.start_step > 0) message += integer_field(18, 1);  // resumed
  return record(number, 17, message);
}

std::string wandb_history_message(std::int64_t number, std::int64_t step, const Json& values) {
  return record(number, 2, items_of(values) + bytes_field(2, integer_field(1, static_cast<std::uint64_t>(step))));
}

std::string wandb_summary_message(std::int64_t number, const Json& values) {
  return record(number, 3, items_of(values));
}

std::string wandb_exit_message(std::int64_t number, std::int64_t exit_code, std::int64_t seconds) {
  return record(
      number, 18,
      integer_field(1, static_cast<std::uint64_t>(exit_code)) + integer_field(2, static_cast<std::uint64_t>(seconds)));
}

}  // namespace lockstep
