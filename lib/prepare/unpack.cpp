#include "prepare/unpack.hpp"

#include "base/error.hpp"
#include "comm/long_work.hpp"
#include "prepare/gather_values.hpp"
#include "prepare/input_contents.hpp"
#include "readers/byte_reader.hpp"
#include "readers/input_parts.hpp"

#include <fcntl.h>

#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace lockstep {

namespace {

/// Returns the reader at the end of the file; the copy's `bytes` are set.
std::unique_ptr<ByteReader> unpack(const InputFile& file, InputFile& copy, const std::function<void()>& alive) {
  std::unique_ptr<ByteReader> bytes = open_bytes(file);
  FileDescriptor out = open_file(copy.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC);
  std::vector<char> buffer(std::size_t{1} << 20);
  copy.bytes = 0;
  while (const std::size_t got = bytes->read(buffer)) {
    alive();
    write_at(out, std::as_bytes(std::span(buffer).first(got)), copy.bytes, copy.path);
    copy.bytes += got;
  }
  out.close(copy.path);
  return bytes;
}

}  // namespace

UnpackedInput unpack_large_files(Session& session, const std::vector<InputFile>& files, const Path& folder) {
  Communicator& world = session.world();
  UnpackedInput result{files, 0, std::vector<ReadContent>(files.size())};
  std::vector<std::size_t> large;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (exceeds_equal_share(files, i, world.size())) large.push_back(i);
  }
  if (large.empty()) return result;
  std::int64_t bytes_read = 0;
  std::vector<ReadContent> contents(files.size());
  std::vector<std::string> warnings;
  long_work_together(session, "unpack the input", [&](const std::function<void()>& alive) {
    for (const std::size_t i : large) {
      const bool is_text = files[i].format == TextFormat::text;
      result.files[i] = {folder / fmt::format("input-{}.{}", i, is_text ? "txt" : "jsonl"),
                         is_text ? TextFormat::text : TextFormat::json_lines,
                         Compression::none,
                         0,
                         0,
                         files[i].name(),
                         files[i].format};
      if (reader_of(files, i, world.size()) != world.rank()) continue;
      const std::unique_ptr<ByteReader> read = unpack(files[i], result.files[i], alive);
      bytes_read += static_cast<std::int64_t>(read->consumed());
      contents[i] = read->content();
      if (std::string warning = read->warning(); !warning.empty()) warnings.push_back(std::move(warning));
    }
  });
  for (const std::size_t i : large) {
    result.files[i].bytes =
        static_cast<std::uint64_t>(world.all_reduce(static_cast<std::int64_t>(result.files[i].bytes), Reduce::sum));
  }
  result.contents = gather_contents(world, contents);
  result.warnings = gather_texts(world, warnings);
  result.bytes_read = static_cast<std::uint64_t>(world.all_reduce(bytes_read, Reduce::sum));
  return result;
}

}  // namespace lockstep
