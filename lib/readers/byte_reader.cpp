#include "readers/byte_reader.hpp"

#include "base/content_sum.hpp"
#include "base/error.hpp"
#include "readers/object_store.hpp"
#include "readers/plugin_reader.hpp"
#include "readers/record_lines.hpp"
#include "readers/table_files.hpp"
#include "readers/zstd_window.hpp"

#include <bzlib.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

class PlainReader : public ByteReader {
 public:
  PlainReader(const Path& path, std::uint64_t offset) : path_(path), file_(open_regular(path)), offset_(offset) {}
  std::size_t read(std::span<char> out) override {
    while (true) {
      const ssize_t got = ::pread(file_.get(), out.data(), out.size(), static_cast<off_t>(offset_ + consumed_));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_errno("read", path_);
      consumed_ += static_cast<std::uint64_t>(got);
      return static_cast<std::size_t>(got);
    }
  }
  std::uint64_t consumed() const override { return consumed_; }

 private:
  Path path_;
  FileDescriptor file_;
  std::uint64_t offset_;
  std::uint64_t consumed_ = 0;
};

// A file that is read from its start, and summed on the way.
class SummedReader : public ByteReader {
 public:
  explicit SummedReader(const Path& path) : stored_(open_stored(path, 0)) {}
  std::size_t read(std::span<char> out) override {
    const std::uint64_t offset = stored_->consumed();
    const std::size_t got = stored_->read(out);
    content_.add({got, content_sum(std::as_bytes(out.first(got)), offset)});
    return got;
  }
  std::uint64_t consumed() const override { return stored_->consumed(); }
  ReadContent content() const override { return content_; }

 private:
  std::unique_ptr<ByteReader> stored_;
  ReadContent content_;
};

// The compressed bytes that a decoder has not taken yet.
class CompressedInput {
 public:
  explicit CompressedInput(const Path& path) : path_(path), summed_(path), buffer_(std::size_t{1} << 17) {}
  /// Has `least` bytes ready, or all that are left. False at the end of the file.
  bool refill(std::size_t least = 1) {
    if (end_ - begin_ >= least) return true;
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= std::exchange(begin_, 0);
    while (end_ < least) {
      const std::size_t got = summed_.read(std::span(buffer_).subspan(end_));
      if (got == 0) break;
      end_ += got;
    }
    return end_ > 0;
  }
  /// Whether what is left begins with these bytes, or ends within them.
  bool may_begin_with(std::string_view magic) {
    refill(magic.size());
    return magic.starts_with(std::string_view(left().data(), std::min(left().size(), magic.size())));
  }
  /// Reads the rest of the file, which is no data of the form: as its own program does, which warns as well.
  void ignore_rest(const char* form) {
    std::uint64_t bytes = 0;
    bool are_zero = true;
    for (; refill(); take(left().size())) {
      bytes += left().size();
      are_zero = are_zero && std::ranges::all_of(left(), [](char byte) { return byte == 0; });
    }
    warning_ =
        fmt::format("{}: ignored {} {} after its {} data", path_.string(), bytes,
                    are_zero ? (bytes == 1 ? "zero byte" : "zero bytes") : (bytes == 1 ? "byte" : "bytes"), form);
  }
  const std::string& warning() const { return warning_; }
  std::span<char> left() { return {buffer_.data() + begin_, end_ - begin_}; }
  void take(std::size_t bytes) { begin_ += bytes; }
  std::uint64_t consumed() const { return summed_.consumed(); }
  ReadContent content() const { return summed_.content(); }
  const Path& path() const { return path_; }
  [[noreturn]] void fail_damaged(const std::string& reason) const {
    fail(ExitCode::input, "{}: cannot decompress: {}", path_.string(), reason);
  }
  [[noreturn]] void fail_short() const {
    fail(ExitCode::input, "{}: the compressed data ends too early: the file is truncated", path_.string());
  }

 private:
  Path path_;
  SummedReader summed_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string warning_;
};

class GzipReader : public ByteReader {
 public:
  explicit GzipReader(const Path& path) : input_(path) {
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();  // 16: with a gzip header
  }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;
  ~GzipReader() override { inflateEnd(&stream_); }

  std::size_t read(std::span<char> out) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), std::numeric_limits<uInt>::max()));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (!within_member_ && behind_a_member_ && !input_.may_begin_with("\x1F\x8B")) input_.ignore_rest("gzip");
      if (!input_.refill()) {
        if (within_member_) input_.fail_short();
        return 0;
      }
      within_member_ = true;
      stream_.next_in = reinterpret_cast<Bytef*>(input_.left().data());
      stream_.avail_in = static_cast<uInt>(input_.left().size());
      const int state = inflate(&stream_, Z_NO_FLUSH);
      input_.take(input_.left().size() - stream_.avail_in);
      if (state == Z_STREAM_END) {  // members may follow each other
        inflateReset(&stream_);
        within_member_ = false;
        behind_a_member_ = true;
      } else if (state != Z_OK) {
        input_.fail_damaged(stream_.msg != nullptr ? stream_.msg : "not gzip data");
      }
    }
    return wanted - stream_.avail_out;
  }
  std::uint64_t consumed() const override { return input_.consumed(); }
  ReadContent content() const override { return input_.content(); }
  std::string warning() const override { return input_.warning(); }

 private:
  CompressedInput input_;
  z_stream stream_{};
  bool within_member_ = false, behind_a_member_ = false;
};

class ZstdReader : public ByteReader {
 public:
  explicit ZstdReader(const Path& path) : input_(path), stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, most_zstd_window_log);
  }
  ZstdReader(const ZstdReader&) = delete;
  ZstdReader& operator=(const ZstdReader&) = delete;
  ~ZstdReader() override { ZSTD_freeDStream(stream_); }

  std::size_t read(std::span<char> out) override {
    ZSTD_outBuffer decoded{out.data(), out.size(), 0};
    while (decoded.pos == 0) {
      const bool more = input_.refill(within_frame_ ? 1 : most_zstd_header);
      if (!more && !within_frame_) return 0;
      if (!within_frame_) {
        window_ = zstd_window(input_.left());
        require_zstd_window(input_.path().string(), window_);
      }
      ZSTD_inBuffer encoded{input_.left().data(), input_.left().size(), 0};
      const std::size_t left = ZSTD_decompressStream(stream_, &decoded, &encoded);
      if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation)
        refuse_zstd_window(input_.path().string(), window_, "it cannot be allocated");
      if (ZSTD_isError(left) != 0) input_.fail_damaged(ZSTD_getErrorName(left));
      input_.take(encoded.pos);
      within_frame_ = left != 0;
      if (!more && decoded.pos == 0 && within_frame_) input_.fail_short();
    }
    return decoded.pos;
  }
  std::uint64_t consumed() const override { return input_.consumed(); }
  ReadContent content() const override { return input_.content(); }

 private:
  CompressedInput input_;
  ZSTD_DStream* stream_;
  bool within_frame_ = false;
  std::uint64_t window_ = 0;  // bytes, of the frame
};

class Bzip2Reader : public ByteReader {
 public:
  explicit Bzip2Reader(const Path& path) : input_(path) { begin(); }
  Bzip2Reader(const Bzip2Reader&) = delete;
  Bzip2Reader& operator=(const Bzip2Reader&) = delete;
  ~Bzip2Reader() override { BZ2_bzDecompressEnd(&stream_); }

  std::size_t read(std::span<char> out) override {
    const auto wanted = static_cast<unsigned>(std::min<std::size_t>(out.size(), std::numeric_limits<unsigned>::max()));
    stream_.next_out = out.data();
    stream_.avail_out = wanted;
    while (stream_.avail_out == wanted) {
      if (!within_stream_ && behind_a_stream_ && !input_.may_begin_with("BZh")) input_.ignore_rest("bzip2");
      if (!input_.refill()) {
        if (within_stream_) input_.fail_short();
        return 0;
      }
      within_stream_ = true;
      stream_.next_in = input_.left().data();
      stream_.avail_in = static_cast<unsigned>(input_.left().size());
      const int state = BZ2_bzDecompress(&stream_);
      input_.take(input_.left().size() - stream_.avail_in);
      if (state == BZ_STREAM_END) {  // streams may follow each other, as pbzip2 writes them
        BZ2_bzDecompressEnd(&stream_);
        const bz_stream before = stream_;
        begin();
        stream_.next_out = before.next_out;
        stream_.avail_out = before.avail_out;
        within_stream_ = false;
        behind_a_stream_ = true;
      } else if (state != BZ_OK) {
        input_.fail_damaged(state == BZ_DATA_ERROR_MAGIC ? "not bzip2 data" : "its data is damaged");
      }
    }
    return wanted - stream_.avail_out;
  }
  std::uint64_t consumed() const override { return input_.consumed(); }
  ReadContent content() const override { return input_.content(); }
  std::string warning() const override { return input_.warning(); }

 private:
  void begin() {
    stream_ = {};
    if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) throw std::bad_alloc();
  }
  CompressedInput input_;
  bz_stream stream_{};
  bool within_stream_ = false, behind_a_stream_ = false;
};

class XzReader : public ByteReader {
 public:
  explicit XzReader(const Path& path) : input_(path) {
    constexpr std::uint64_t most_memory = std::uint64_t{1} << 31;  // what a file may ask of its reader
    if (lzma_stream_decoder(&stream_, most_memory, LZMA_CONCATENATED) != LZMA_OK) throw std::bad_alloc();
  }
  XzReader(const XzReader&) = delete;
  XzReader& operator=(const XzReader&) = delete;
  ~XzReader() override { lzma_end(&stream_); }

  std::size_t read(std::span<char> out) override {
    if (ended_) return 0;
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    stream_.avail_out = out.size();
    while (stream_.avail_out == out.size()) {
      const bool more = input_.refill();
      stream_.next_in = reinterpret_cast<const std::uint8_t*>(input_.left().data());
      stream_.avail_in = input_.left().size();
      const lzma_ret state = lzma_code(&stream_, more ? LZMA_RUN : LZMA_FINISH);
      input_.take(input_.left().size() - stream_.avail_in);
      ended_ = state == LZMA_STREAM_END;
      if (ended_) break;
      if (state == LZMA_BUF_ERROR && !more) input_.fail_short();
      if (state != LZMA_OK && state != LZMA_BUF_ERROR) input_.fail_damaged(reason_of(state));
    }
    return out.size() - stream_.avail_out;
  }
  std::uint64_t consumed() const override { return input_.consumed(); }
  ReadContent content() const override { return input_.content(); }

 private:
  static const char* reason_of(lzma_ret state) {
    switch (state) {
      case LZMA_FORMAT_ERROR: return "not xz data";
      case LZMA_MEMLIMIT_ERROR: return "it needs more than 2 GiB of memory";
      case LZMA_OPTIONS_ERROR: return "it uses a feature of xz that is not supported";
      default: return "its data is damaged";
    }
  }
  CompressedInput input_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ended_ = false;
};

std::unique_ptr<ByteReader> open_decompressed(const InputFile& file) {
  switch (file.compression) {
    case Compression::none: return std::make_unique<SummedReader>(file.path);
    case Compression::gzip: return std::make_unique<GzipReader>(file.path);
    case Compression::zstd: return std::make_unique<ZstdReader>(file.path);
    case Compression::bzip2: return std::make_unique<Bzip2Reader>(file.path);
    case Compression::xz: return std::make_unique<XzReader>(file.path);
  }
  fail(ExitCode::bug, "unknown compression");
}

}  // namespace

void ReadContent::add(const ReadContent& more) {
  bytes += more.bytes;
  sum = add_content_sums(sum, more.sum);
}

std::unique_ptr<ByteReader> open_stored(const Path& path, std::uint64_t offset) {
  if (names_objects(path.string())) return open_object(path.string(), offset);
  return std::make_unique<PlainReader>(path, offset);
}

std::unique_ptr<ByteReader> open_bytes(const InputFile& file, std::uint64_t offset) {
  if (file.is_plain()) return open_stored(file.path, offset);
  invariant(offset == 0, "a compressed file cannot be read from an offset");
  if (!names_objects(file.path.string())) open_regular(file.path);  // plug-ins would not know a pointer of Git LFS
  switch (file.format) {
    case TextFormat::text:
    case TextFormat::json_lines: return open_decompressed(file);
    case TextFormat::json: return json_as_json_lines(open_decompressed(file), file.name());
    case TextFormat::csv: return csv_as_json_lines(open_decompressed(file), file.name(), ',');
    case TextFormat::tsv: return csv_as_json_lines(open_decompressed(file), file.name(), '\t');
    case TextFormat::parquet:
    case TextFormat::arrow: return open_table(file);
    case TextFormat::plugin: return open_by_plugin(file);
  }
  fail(ExitCode::bug, "unknown input format");
}

}  // namespace lockstep
