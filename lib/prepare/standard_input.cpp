#include "prepare/standard_input.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/together.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

namespace {

// Copies what `from` has for now: for some seconds, or some megabytes. True at the end.
bool copy_some(int from, const FileDescriptor& to, std::uint64_t& bytes, const Path& path) {
  constexpr double most_s = 2;
  constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;
  const double start_s = monotonic_seconds();
  const std::uint64_t start = bytes;
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  while (monotonic_seconds() - start_s < most_s && bytes - start < most_bytes) {
    pollfd ready{from, POLLIN, 0};
    if (::poll(&ready, 1, 500) <= 0) continue;
    const ssize_t got = ::read(from, buffer.data(), buffer.size());
    if (got == 0) return true;
    if (got < 0 && errno != EINTR && errno != EAGAIN) fail_errno("read", "standard input");
    if (got < 0) continue;
    write_at(to, std::span(buffer).first(static_cast<std::size_t>(got)), bytes, path);
    bytes += static_cast<std::uint64_t>(got);
  }
  return false;
}

}  // namespace

std::optional<TextFormat> text_format_of(InputFormat format) {
  switch (format) {
    case InputFormat::txt: return TextFormat::text;
    case InputFormat::jsonl: return TextFormat::json_lines;
    case InputFormat::json: return TextFormat::json;
    case InputFormat::csv: return TextFormat::csv;
    case InputFormat::tsv: return TextFormat::tsv;
    case InputFormat::parquet: return TextFormat::parquet;
    case InputFormat::arrow: return TextFormat::arrow;
    case InputFormat::megatron:
    case InputFormat::llmc:
    case InputFormat::nanogpt:
    case InputFormat::datatrove:
    case InputFormat::mds: return std::nullopt;
  }
  fail(ExitCode::bug, "unknown format of input");
}

InputFile copy_standard_input(Session& session, TextFormat format, const Path& folder) {
  Communicator& world = session.world();
  const Path path = folder / "standard-input";
  FileDescriptor file;
  std::uint64_t bytes = 0;
  for (bool more = true; more;) {
    bool ended = true;
    session.enter(Phase::data);
    together(world, "read standard input", [&] {
      end_if_stopped(session);
      if (world.rank() != 0) return;
      if (file.get() < 0) file = open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC);
      ended = copy_some(STDIN_FILENO, file, bytes, path);
      if (ended && bytes == 0) fail(ExitCode::input, "standard input is empty");
    });
    more = world.all_reduce(std::int64_t{ended ? 0 : 1}, Reduce::sum) > 0;
  }
  bytes = static_cast<std::uint64_t>(world.all_reduce(static_cast<std::int64_t>(bytes), Reduce::max));
  return {path, format, Compression::none, bytes, 0, "standard input"};
}

}  // namespace lockstep
