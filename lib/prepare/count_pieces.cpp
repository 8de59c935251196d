#include "prepare/count_pieces.hpp"

#include "base/error.hpp"
#include "base/load.hpp"
#include "base/mapped_file.hpp"
#include "prepare/gather_values.hpp"
#include "readers/json_lines.hpp"
#include "tokenizer/piece_counts.hpp"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

namespace lockstep {

namespace {

using Counted = std::vector<std::pair<std::string, std::uint64_t>>;

/// Appends records, each a count, a size and the bytes of a piece, to a new file.
class PieceFile {
 public:
  PieceFile(const Path& path, std::uint64_t begin)
      : path_(path), file_(open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC)), end_(begin) {}

  void append(std::string_view piece, std::uint64_t count) {
    put(count);
    put(static_cast<std::uint64_t>(piece.size()));
    buffer_.append(piece);
    if (buffer_.size() > buffer_bytes) flush();
  }
  /// Where the next record will begin.
  std::uint64_t end() const { return end_ + buffer_.size(); }
  /// With what stands before the records, if they do not begin the file.
  void finish(std::span<const std::uint64_t> head) {
    flush();
    write_at(file_, std::as_bytes(head), 0, path_);
    file_.close(path_);
  }

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

  void put(std::uint64_t value) { buffer_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void flush() {
    write_at(file_, std::as_bytes(std::span(buffer_)), end_, path_);
    end_ += buffer_.size();
    buffer_.clear();
  }

  Path path_;
  FileDescriptor file_;
  std::uint64_t end_;
  std::string buffer_;
};

/// Goes through records of a file, which outlives it.
class PieceCursor {
 public:
  PieceCursor(const MappedFile& file, std::span<const std::byte> records) : file_(&file), records_(records) {}
  /// The next piece; false at the end. Throws Error(storage) if the file cannot be read.
  bool next() {
    constexpr std::size_t head = 2 * sizeof(std::uint64_t);
    const std::size_t left = records_.size() - at_;
    const std::uint64_t size = left < head ? 0 : load<std::uint64_t>(records_, at_ + sizeof(std::uint64_t));
    const bool whole = left >= head && size <= left - head;
    if (!whole) {
      require_intact(*file_);
      invariant(left == 0, "the last record of pieces ends its section");
      return false;
    }
    piece_ = {std::string_view(reinterpret_cast<const char*>(records_.data()) + at_ + head, size),
              load<std::uint64_t>(records_, at_)};
    at_ += head + size;
    return true;
  }
  const CountedPiece& piece() const { return piece_; }

 private:
  const MappedFile* file_;
  std::span<const std::byte> records_;
  std::size_t at_ = 0;
  CountedPiece piece_;
};

std::size_t owner_of(std::string_view piece, int ranks) {
  return hash128(piece).low % static_cast<std::uint64_t>(ranks);
}

/// A file of sorted counts, in sections by the rank that brings them together.
class Run {
 public:
  static Path path(const Path& folder, std::size_t rank, std::size_t number) {
    return folder / fmt::format("counts-{}-{}", rank, number);
  }
  static void write(const Path& path, int ranks, Counted&& counted) {
    std::vector<std::pair<std::size_t, std::size_t>> order;  // owner, place
    for (std::size_t i = 0; i < counted.size(); ++i) order.emplace_back(owner_of(counted[i].first, ranks), i);
    std::ranges::sort(order, [&](const auto& a, const auto& b) {
      return std::tie(a.first, counted[a.second].first) < std::tie(b.first, counted[b.second].first);
    });
    std::vector<std::uint64_t> sections;
    PieceFile file(path, (static_cast<std::size_t>(ranks) + 1) * sizeof(std::uint64_t));
    for (const auto& [owner, place] : order) {
      sections.resize(std::max(sections.size(), owner + 1), file.end());
      file.append(counted[place].first, counted[place].second);
    }
    sections.resize(static_cast<std::size_t>(ranks) + 1, file.end());
    file.finish(sections);
  }
  explicit Run(const Path& path) : file_(path) {}
  PieceCursor section(int rank) const {
    const std::size_t at = static_cast<std::size_t>(rank) * sizeof(std::uint64_t);
    const std::uint64_t begin = load<std::uint64_t>(file_.bytes(), at),
                        end = load<std::uint64_t>(file_.bytes(), at + sizeof begin);
    require_intact(file_);
    return PieceCursor(file_, file_.bytes().subspan(begin, end - begin));
  }

 private:
  MappedFile file_;
};

/// Where the threads of a rank put counts that have become many.
class RunFolder {
 public:
  RunFolder(const Path& folder, int rank, int ranks)
      : folder_(folder), rank_(static_cast<std::size_t>(rank)), ranks_(ranks) {}
  void write(Counted&& counted) { Run::write(Run::path(folder_, rank_, runs_++), ranks_, std::move(counted)); }
  std::size_t runs() const { return runs_; }

 private:
  Path folder_;
  std::size_t rank_;
  int ranks_;
  std::atomic<std::size_t> runs_{0};
};

/// What was met in a block.
struct BlockFacts {
  std::int64_t pieces = 0;
  std::int64_t text_bytes = 0;
  std::int64_t malformed = 0;
};

/// Counts the pieces of one block after the other, on one thread.
class PieceCounter {
 public:
  PieceCounter(const PieceCounting& settings, RunFolder& folder)
      : settings_(settings), folder_(folder), cutter_(settings.rule), lines_(settings.text_field) {}

  BlockFacts count(TextBlock& block) {
    BlockFacts facts;
    const auto take = [&](std::string_view text) { count_text(text, facts); };
    const auto skip = [&](const BadText& problem) {
      if (settings_.malformed == OnMalformed::stop) throw problem;
      ++facts.malformed;
    };
    if (block.file->has_records()) {
      lines_.for_each(block, take, skip);
    } else {
      try {
        require_utf8(block);
        take(block.text);
      } catch (const BadText& problem) {
        skip(problem);
      }
    }
    if (counts_.bytes() > settings_.thread_bytes) flush();
    return facts;
  }
  void flush() {
    if (!counts_.empty()) folder_.write(counts_.take());
  }

 private:
  void count_text(std::string_view text, BlockFacts& facts) {
    facts.text_bytes += std::ssize(text);
    for (std::size_t begin = 0; begin < text.size(); ++facts.pieces) {
      const std::size_t end = cutter_.end_of_piece(text, begin);
      counts_.add(text, begin, end);
      begin = end;
    }
  }

  const PieceCounting& settings_;
  RunFolder& folder_;
  PieceCutter cutter_;
  JsonLines lines_;
  PieceCounts counts_;
};

/// How many pieces there are, and how many bytes they have, by how often they occur.
struct ByCount {
  static constexpr std::size_t most = std::size_t{1} << 16;  // what occurs at least so often is one
  std::vector<std::int64_t> pieces = std::vector<std::int64_t>(most);
  std::vector<std::int64_t> bytes = std::vector<std::int64_t>(most);

  void add(const CountedPiece& piece) {
    const auto at = static_cast<std::size_t>(std::min<std::uint64_t>(piece.count, most - 1));
    ++pieces[at];
    bytes[at] += std::ssize(piece.bytes);
  }
};

/// Adds up the sections of `rank` in all runs, into one file.
void merge_runs(const std::vector<Path>& runs, int rank, const Path& merged, ByCount& by_count,
                const std::function<void()>& alive) {
  std::vector<std::unique_ptr<Run>> files;
  std::vector<PieceCursor> cursors;
  const auto later = [&](std::size_t a, std::size_t b) { return cursors[a].piece().bytes > cursors[b].piece().bytes; };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> next(later);
  for (const Path& path : runs) {
    files.push_back(std::make_unique<Run>(path));
    cursors.push_back(files.back()->section(rank));
  }
  for (std::size_t run = 0; run < cursors.size(); ++run) {
    if (cursors[run].next()) next.push(run);
  }
  PieceFile out(merged, 0);
  const auto go_on = [&](std::size_t run) {
    next.pop();
    if (cursors[run].next()) next.push(run);
  };
  while (!next.empty()) {
    alive();
    CountedPiece sum = cursors[next.top()].piece();
    go_on(next.top());
    while (!next.empty() && cursors[next.top()].piece().bytes == sum.bytes) {
      sum.count += cursors[next.top()].piece().count;
      go_on(next.top());
    }
    by_count.add(sum);
    out.append(sum.bytes, sum.count);
  }
  out.finish({});
}

/// Keeps the most frequent pieces, all that are equally frequent or none of them.
void choose_pieces(const ByCount& all, std::size_t most_bytes, CountedCorpus& corpus) {
  std::size_t kept_bytes = 0;
  std::size_t least = all.bytes.size();
  while (least > 1 && kept_bytes + static_cast<std::size_t>(all.bytes[least - 1]) <= most_bytes)
    kept_bytes += static_cast<std::size_t>(all.bytes[--least]);
  corpus.min_count = least;
  for (std::size_t count = 1; count < all.pieces.size(); ++count) {
    corpus.different += all.pieces[count];
    if (count < least) corpus.left_out += all.pieces[count];
  }
}

}  // namespace

CountedCorpus count_pieces(const BlockPass& pass, const PieceCounting& settings) {
  Session& session = pass.session;
  Communicator& world = session.world();
  RunFolder folder(settings.folder, world.rank(), world.size());
  std::mutex mutex;
  std::vector<std::shared_ptr<PieceCounter>> counters;  // of the threads
  const auto make_work = [&] {
    const auto counter = std::make_shared<PieceCounter>(settings, folder);
    const std::lock_guard lock(mutex);
    counters.push_back(counter);
    return [counter](TextBlock& block) { return counter->count(block); };
  };
  BlockFacts own;
  CountedCorpus corpus;
  corpus.input = for_own_blocks<BlockFacts>(pass, make_work, [&](BlockFacts&& block) {
    own.pieces += block.pieces;
    own.text_bytes += block.text_bytes;
    own.malformed += block.malformed;
  });
  long_work_together(session, pass.what, [&](const std::function<void()>& alive) {
    for (const auto& counter : counters) {
      alive();
      counter->flush();
    }
  });
  corpus.pieces = world.all_reduce(own.pieces, Reduce::sum);
  corpus.text_bytes = world.all_reduce(own.text_bytes, Reduce::sum);
  corpus.malformed = world.all_reduce(own.malformed, Reduce::sum);
  const std::vector<std::size_t> runs_of = gather_values(world, folder.runs());
  std::vector<Path> runs;
  for (std::size_t rank = 0; rank < runs_of.size(); ++rank) {
    for (std::size_t run = 0; run < runs_of[rank]; ++run) runs.push_back(Run::path(settings.folder, rank, run));
    corpus.files.push_back(settings.folder / fmt::format("pieces-{}", rank));
  }
  ByCount by_count;
  long_work_together(session, pass.what, [&](const std::function<void()>& alive) {
    merge_runs(runs, world.rank(), corpus.files[static_cast<std::size_t>(world.rank())], by_count, alive);
  });
  for (std::vector<std::int64_t>* const sums : {&by_count.pieces, &by_count.bytes})
    world.all_reduce(std::as_writable_bytes(std::span(*sums)), DType::i64, Reduce::sum);
  choose_pieces(by_count, settings.most_piece_bytes, corpus);
  return corpus;
}

void for_each_piece(const Path& file, const std::function<void(const CountedPiece&)>& use) {
  const MappedFile mapped(file);
  PieceCursor cursor(mapped, mapped.bytes());
  while (cursor.next()) use(cursor.piece());
}

}  // namespace lockstep
