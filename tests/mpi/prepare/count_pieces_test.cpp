#include "prepare/count_pieces.hpp"

#include "base/error.hpp"
#include "comm/together.hpp"
#include "harness/shared_folder.hpp"
#include "tokenizer/pre_tokenizer.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

using namespace lockstep;
using test::world;

BOOST_AUTO_TEST_SUITE(count_pieces_)

namespace {

using Pieces = std::map<std::string, std::uint64_t>;

/// Two files of several blocks; rare and frequent pieces, short and long ones.
struct Corpus : test::SharedFolder {
  std::vector<InputFile> files;
  Pieces expected;

  Corpus() {
    std::string text;
    std::string lines;
    for (int i = 0; text.size() < 4 * input_block_bytes; ++i) {
      const std::string word = fmt::format("word{}{}", std::string(static_cast<std::size_t>(i % 40), 'a'), i % 7);
      text += word + (i % 13 == 0 ? "\n" : " ");
      lines += fmt::format("{{\"text\": \"{} {}\"}}\n", word, i % 5000);
      count(fmt::format("{} {}", word, i % 5000));
    }
    count(text);
    together(world(), "write the input", [&] {
      if (world().rank() != 0) return;
      publish_file(path / "a.txt", text);
      publish_file(path / "b.jsonl", lines);
    });
    files = {{path / "a.txt", TextFormat::text, Compression::none, text.size()},
             {path / "b.jsonl", TextFormat::json_lines, Compression::none, lines.size()}};
  }
  void count(const std::string& text) {
    const PieceCutter cutter(PieceRule::gpt2);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = cutter.end_of_piece(text, begin);
      ++expected[text.substr(begin, end - begin)];
      begin = end;
    }
  }
  CountedCorpus counted(int threads, std::size_t thread_bytes, std::size_t most_bytes) const {
    Session session(world().split(0, "world"));
    const Path scratch = path / fmt::format("scratch-{}-{}-{}", threads, thread_bytes, most_bytes);
    together(world(), "make a folder", [&] { make_folder(scratch); });
    const auto cut = [](std::string_view text) { return PreTokenizer(PieceRule::gpt2).last_cut(text); };
    return count_pieces({session, files, "count pieces", cut, threads, [](std::uint64_t) {}},
                        {PieceRule::gpt2, "text", OnMalformed::stop, scratch, thread_bytes, most_bytes});
  }
};

Pieces found(const CountedCorpus& corpus) {
  Pieces pieces;
  std::size_t times = 0;
  for (const Path& file : corpus.files) {
    for_each_piece(file, [&](const CountedPiece& piece) {
      pieces[std::string(piece.bytes)] = piece.count;
      ++times;
    });
  }
  BOOST_TEST(times == pieces.size());  // each piece in one file
  return pieces;
}

}  // namespace

LOCKSTEP_MPI_TEST(all_pieces_are_counted_whatever_threads_can_hold, test::at_least(1)) {
  const Corpus corpus;
  for (const std::size_t thread_bytes : {std::size_t{1} << 28, std::size_t{1} << 10}) {
    const CountedCorpus counted = corpus.counted(2, thread_bytes, most_piece_bytes);
    BOOST_TEST((found(counted) == corpus.expected));
    BOOST_TEST(counted.different == std::ssize(corpus.expected));
    BOOST_TEST(counted.left_out == 0);
    BOOST_TEST(counted.min_count == 1u);
  }
}

LOCKSTEP_MPI_TEST(where_pieces_are_too_many_the_frequent_ones_stay, test::at_least(1)) {
  const Corpus corpus;
  std::map<std::uint64_t, std::size_t> bytes;  // by count
  for (const auto& [piece, count] : corpus.expected) bytes[count] += piece.size();
  const std::size_t most = 20000;
  std::size_t kept = 0;
  std::uint64_t least = 0;
  for (auto entry = bytes.rbegin(); entry != bytes.rend() && kept + entry->second <= most; ++entry) {
    kept += entry->second;
    least = entry->first;
  }
  std::int64_t left_out = 0;
  for (const auto& [piece, count] : corpus.expected) left_out += count < least ? 1 : 0;
  const CountedCorpus counted = corpus.counted(1, std::size_t{1} << 28, most);
  BOOST_TEST(left_out > 0);
  BOOST_TEST(counted.left_out == left_out);
  BOOST_TEST(counted.min_count <= least);
  for (const auto& [piece, count] : corpus.expected) BOOST_TEST((count < counted.min_count) == (count < least));
}

BOOST_AUTO_TEST_SUITE_END()
