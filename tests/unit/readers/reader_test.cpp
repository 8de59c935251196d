#include "base/error.hpp"
#include "harness/temporary_folder.hpp"
#include "readers/block_reader.hpp"
#include "readers/input_files.hpp"
#include "readers/json_lines.hpp"

#include <zlib.h>
#include <zstd.h>
#include <boost/test/unit_test.hpp>

#include <map>
#include <random>

using namespace lockstep;

namespace {

std::string gzipped(const std::string& text) {
  z_stream stream{};
  BOOST_REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  BOOST_REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstandard(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

std::string many_lines(std::size_t bytes) {
  std::string text;
  std::mt19937 random(1);
  while (text.size() < bytes) text += std::string(random() % 200, static_cast<char>('a' + random() % 26)) + "é\n";
  return text;
}

struct Read {
  std::string text;
  std::vector<TextBlock> blocks;
};

std::size_t anywhere(std::string_view text) { return text.size(); }
std::size_t before_a_space(std::string_view text) { return text.rfind(' ') + 1 == 0 ? 0 : text.rfind(' '); }

// Everything that the reader gives for one file, cut anywhere.
Read read_all(const Path& path, const LastCut& last_cut = anywhere) {
  const auto inputs = find_inputs({path.string()});
  BlockReader reader(inputs.files, whole_files(inputs.files), last_cut);
  Read read;
  for (TextBlock block; reader.next(block);) {
    read.text += block.text;
    block.file = nullptr;
    read.blocks.push_back(block);
  }
  BOOST_TEST(reader.consumed() == std::filesystem::file_size(path));
  return read;
}

// What one tells of text that `work` cannot use.
template <class Work>
void told(const Work& work) {
  try {
    work();
  } catch (const BadText& bad) {
    LineCounter lines;
    throw error_of(bad, lines);
  }
}

auto input_error(const std::string& part) {
  return [part](const Error& error) {
    if (error.code() == ExitCode::input && std::string(error.what()).find(part) != std::string::npos) return true;
    BOOST_TEST_MESSAGE("got: " << error.what());
    return false;
  };
}

std::vector<std::string> documents_of(const Path& path, const std::string& field = "text") {
  const auto inputs = find_inputs({path.string()});
  BlockReader reader(inputs.files, whole_files(inputs.files), anywhere);
  JsonLines lines(field);
  std::vector<std::string> documents;
  told([&] {
    for (TextBlock block; reader.next(block);)
      lines.for_each(
          block, [&](std::string_view text) { documents.emplace_back(text); },
          [](const BadText& problem) { throw problem; });
  });
  return documents;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(readers, TemporaryFolder)

BOOST_AUTO_TEST_CASE(a_text_reads_equal_plain_and_compressed_in_the_same_blocks) {
  const std::string text = many_lines(900000);
  publish_file(path / "a.txt", text);
  publish_file(path / "b.txt.gz", gzipped(text.substr(0, 1000)) + gzipped(text.substr(1000)));  // two members
  publish_file(path / "c.txt.zst", zstandard(text.substr(0, 500000)) + zstandard(text.substr(500000)));
  const Read plain = read_all(path / "a.txt");
  BOOST_TEST((plain.text == text));
  BOOST_TEST(plain.blocks.size() == 4u);
  for (const char* const name : {"b.txt.gz", "c.txt.zst"}) {
    const Read other = read_all(path / name);
    BOOST_REQUIRE(other.blocks.size() == plain.blocks.size());
    for (std::size_t i = 0; i < plain.blocks.size(); ++i) BOOST_TEST((other.blocks[i].text == plain.blocks[i].text));
  }
}

BOOST_AUTO_TEST_CASE(a_line_without_an_end_is_refused_before_it_fills_the_memory) {
  constexpr std::size_t limit = std::size_t{1} << 20;
  publish_file(path / "a.jsonl.gz", gzipped("{}\n" + std::string(limit * 20, 'x')));  // a small file
  publish_file(path / "b.txt", std::string(limit * 3, 'x'));
  const auto refused = [&](const char* name, const LastCut& last_cut, const std::string& message) {
    const auto inputs = find_inputs({(path / name).string()});
    BlockReader reader(inputs.files, whole_files(inputs.files), last_cut, limit);
    const auto read = [&] {
      for (TextBlock block; reader.next(block);) continue;
    };
    BOOST_CHECK_EXCEPTION(told(read), Error, input_error(message));
  };
  refused("a.jsonl.gz", anywhere, "a.jsonl.gz:2: a line is longer than 1.0 MiB");
  refused(
      "b.txt", [](std::string_view) { return std::size_t{0}; },
      "b.txt:1: a text that the tokenizer cannot split is longer than 1.0 MiB");
}

BOOST_AUTO_TEST_CASE(blocks_of_a_text_tell_their_place_and_never_cut_a_character) {
  for (const std::size_t size : {1ul, 262143ul, 262144ul, 262145ul, 700000ul}) {
    std::string text = "é";
    while (text.size() + 3 <= size) text += text.size() % 7 == 0 ? "\né" : "日";
    text.resize(std::max(text.size(), size), 'x');
    publish_file(path / "a.txt", text);
    const Read read = read_all(path / "a.txt");
    BOOST_TEST((read.text == text));
    std::uint64_t offset = 0;
    for (const TextBlock& block : read.blocks) {
      BOOST_TEST((static_cast<unsigned char>(block.text.front()) & 0xC0) != 0x80);
      BOOST_TEST(block.offset == offset);
      BOOST_TEST(block.begins_document == (offset == 0));
      offset += block.text.size();
    }
  }
}

// A block as its place in the corpus and its text.
std::string shown(const TextBlock& block) {
  return fmt::format("{} {} {} ", block.file->path.string(), block.offset, block.begins_document) + block.text;
}

BOOST_AUTO_TEST_CASE(however_a_corpus_is_divided_its_blocks_are_the_same) {
  const std::string mark = "\xEF\xBB\xBF";
  const std::string lines = many_lines(1500000);
  std::string dos_lines;
  for (const char c : lines.substr(0, 400000)) dos_lines += c == '\n' ? std::string("\r\n") : std::string(1, c);
  const std::string long_lines = std::string(700000, 'x') + "\n" + std::string(262143, 'y') + "\n\n" +
                                 std::string(262144, 'z') + "\n" + many_lines(300000) + std::string(600000, 'w');
  std::string spaced;
  while (spaced.size() < 900000) spaced += "日本 é x ";
  const std::vector<std::pair<const char*, std::string>> texts = {
      {"a.jsonl", lines},
      {"b.jsonl", mark + dos_lines},
      {"c.jsonl", long_lines},
      {"d.jsonl", lines.substr(0, 524287) + "\n" + "last line, which has no end"},
      {"e.txt", spaced + std::string(800000, 'x') + " " + spaced},  // three blocks without a cut
      {"f.txt", mark + std::string(600000, 'x')},                   // no cut at all
      {"g.txt", "short"},
      {"h.txt", mark}};
  for (const auto& [name, text] : texts) publish_file(path / name, text);
  publish_file(path / "i.jsonl.gz", gzipped(lines));
  publish_file(path / "j.txt", spaced);
  const auto files = find_inputs({path.string()}).files;
  std::vector<std::string> expected;
  BlockReader whole(files, whole_files(files), before_a_space);
  std::map<std::string, std::string> read;
  for (TextBlock block; whole.next(block);) {
    expected.push_back(shown(block));
    read[block.file->path.filename()] += block.text;
  }
  for (const auto& [name, text] : texts)
    BOOST_TEST((read[name] == (text.starts_with(mark) ? text.substr(mark.size()) : text)), name);
  for (int ranks = 1; ranks <= 40; ranks += ranks < 9 ? 1 : 7) {
    std::vector<std::string> found, empty;
    for (int rank = 0; rank < ranks; ++rank) {
      BlockReader reader(files, parts_of_rank(files, rank, ranks), before_a_space);
      for (TextBlock block; reader.next(block);) found.push_back(shown(block));
      empty.insert(empty.end(), reader.warnings().begin(), reader.warnings().end());
    }
    BOOST_TEST((found == expected), ranks << " ranks");
    BOOST_TEST((empty == std::vector{(path / "h.txt").string() + " contains no text"}));
  }
}

BOOST_AUTO_TEST_CASE(parts_of_ranks_are_consecutive_alike_in_size_and_read_hardly_more_than_their_bytes) {
  for (int i = 0; i < 5; ++i) publish_file(path / fmt::format("{}.jsonl", i), many_lines(1000000));
  const auto files = find_inputs({path.string()}).files;
  std::uint64_t total = 0;
  for (const InputFile& file : files) total += file.bytes;
  for (const int ranks : {1, 2, 3, 4}) {
    std::uint64_t all = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      BlockReader reader(files, parts_of_rank(files, rank, ranks), anywhere);
      for (TextBlock block; reader.next(block);) continue;
      BOOST_TEST(reader.consumed() < total / static_cast<std::uint64_t>(ranks) + 2 * BlockReader::block_bytes);
      all += reader.input_consumed();
    }
    BOOST_TEST(all >= total);
    BOOST_TEST(static_cast<double>(all) < 1.05 * static_cast<double>(total));
  }
}

BOOST_AUTO_TEST_CASE(a_compressed_file_is_read_by_one_rank_unless_it_outweighs_the_part_of_one) {
  std::vector<InputFile> files;
  for (int i = 0; i < 4; ++i)
    files.push_back({fmt::format("{}.jsonl.zst", i), TextFormat::json_lines, Compression::zstd, 1000000});
  for (const int ranks : {1, 2, 4}) {
    std::map<int, int> count;
    for (std::size_t i = 0; i < files.size(); ++i) {
      ++count[reader_of(files, i, ranks)];
      BOOST_TEST(!exceeds_equal_share(files, i, ranks));
    }
    BOOST_TEST(std::ssize(count) == ranks);
    for (const auto& [rank, of_rank] : count) BOOST_TEST(of_rank == 4 / ranks);
  }
  BOOST_TEST(exceeds_equal_share(files, 0, 8));
  files[1].compression = Compression::none;
  files[1].bytes = 100000000;
  BOOST_TEST(!exceeds_equal_share(files, 0, 8));
  BOOST_TEST(!exceeds_equal_share(files, 1, 8));
}

BOOST_AUTO_TEST_CASE(a_text_without_a_cut_is_one_block) {
  const std::string text(1000000, 'a');
  publish_file(path / "a.txt", text);
  const Read read = read_all(path / "a.txt", [](std::string_view) { return std::size_t{0}; });
  BOOST_TEST(read.blocks.size() == 1u);
  BOOST_TEST((read.text == text));
}

BOOST_AUTO_TEST_CASE(json_lines_give_their_field_whatever_their_length_and_place) {
  std::string lines = "\xEF\xBB\xBF";  // a byte order mark
  std::vector<std::string> expected;
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = i % 500 == 7 ? std::string(400000, 'x')
                                          : fmt::format("document {} é \" \\ {}", i, std::string(random() % 300, 'y'));
    expected.push_back(text);
    std::string escaped;
    for (const char c : text) escaped += c == '"' ? "\\u0022" : c == '\\' ? "\\\\" : std::string(1, c);
    lines +=
        fmt::format("{{\"id\": {}, \"text\": \"{}\", \"more\": [1, {{}}]}}{}", i, escaped, i % 3 == 0 ? "\r\n" : "\n");
    if (i % 100 == 0) lines += "  \n";
  }
  lines.pop_back();  // no line end at the end
  publish_file(path / "a.jsonl", lines);
  BOOST_TEST((documents_of(path / "a.jsonl") == expected));
  publish_file(path / "a.jsonl.zst", zstandard(lines));
  BOOST_TEST((documents_of(path / "a.jsonl.zst") == expected));
}

BOOST_AUTO_TEST_CASE(a_bad_line_is_named_with_its_reason) {
  const std::string good = "{\"text\": \"" + std::string(300000, 'a') + "\"}\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"text": "a)", "not valid JSON"},
      {R"({"text": "a"} x)", "not valid JSON"},
      {R"(["text"])", "not a JSON object"},
      {R"({"texts": "a", "id": 1})", "no field 'text'; it has texts, id"},
      {R"({})", "no field 'text'; it has none"},
      {R"({"text": 3})", "the field 'text' is not text"},
      {R"({"text": null})", "the field 'text' is null"},
      {"{\"text\": \"a\xFF\"}", "not valid UTF-8"},
      {R"({"text": "\ud800"})", "not valid JSON"}};
  for (const auto& [line, reason] : cases) {
    publish_file(path / "bad.jsonl", good + "\n" + good + line + "\n" + good);
    BOOST_CHECK_EXCEPTION(documents_of(path / "bad.jsonl"), Error, input_error("bad.jsonl:4: " + reason));
  }
}

BOOST_AUTO_TEST_CASE(numbers_that_python_writes_are_taken_where_nobody_reads_them_and_else_name_the_record) {
  const std::vector<std::string> numbers{
      "NaN",   "Infinity", "-Infinity",           "18446744073709551616",      "-9223372036854775809",
      "1e400", "-1E+999",  std::string(400, '9'), std::string(400, '9') + ".5"};
  std::string lines;
  for (const std::string& number : numbers)
    lines += fmt::format(R"({{"a": {0}, "text": "{0}, \"{0}\"", "b": [{0},{0}, {{"c": {0}}}]}})", number) + "\n";
  publish_file(path / "a.jsonl", lines);
  std::vector<std::string> expected;
  for (const std::string& number : numbers) expected.push_back(fmt::format("{0}, \"{0}\"", number));
  BOOST_TEST((documents_of(path / "a.jsonl") == expected));
  for (const std::string& number : numbers) {
    publish_file(path / "bad.jsonl", "\n{\"text\": " + number + "}\n");
    BOOST_CHECK_EXCEPTION(documents_of(path / "bad.jsonl"), Error,
                          input_error("bad.jsonl:2: the field 'text' is not text"));
  }
  for (const char* const other :
       {"nan", "-NaN", "+1", "Infinit", "NaNs", "01", "1e400x", "0xFF", "inf", "1.", "99999999999999999999."}) {
    publish_file(path / "bad.jsonl", fmt::format(R"({{"text": "a", "x": {}, "y": NaN}})", other));
    BOOST_CHECK_EXCEPTION(documents_of(path / "bad.jsonl"), Error, input_error("bad.jsonl:1: not valid JSON"));
  }
}

// One frame with one raw block, as RFC 8878 has it.
std::string frame_with_window(unsigned log, const std::string& text) {
  const auto size = static_cast<std::uint32_t>(text.size()) << 3 | 1;
  std::string frame("\x28\xB5\x2F\xFD\0", 5);
  frame += static_cast<char>((log - 10) << 3);
  for (int byte = 0; byte < 3; ++byte) frame += static_cast<char>(size >> 8 * byte);
  return frame + text;
}

BOOST_AUTO_TEST_CASE(windows_of_zstd_above_128_mebibytes_are_read_and_those_above_2_gibibytes_refused) {
  publish_file(path / "a.txt.zst", frame_with_window(28, "one") + frame_with_window(12, "two"));
  BOOST_TEST(read_all(path / "a.txt.zst").text == "onetwo");
  publish_file(path / "b.txt.zst", frame_with_window(32, "one"));
  BOOST_CHECK_EXCEPTION(read_all(path / "b.txt.zst"), Error,
                        input_error("its window is 4.0 GiB, but zstd supports at most 2.0 GiB"));
}

BOOST_AUTO_TEST_CASE(what_is_no_utf8_is_named_by_its_first_bytes) {
  const std::vector<std::pair<std::string, std::string>> cases{{std::string("\xFF\xFE{\0", 4), "UTF-16 text"},
                                                               {std::string("\xFE\xFF\0{", 4), "UTF-16 text"},
                                                               {std::string("\xFF\xFE\0\0{\0\0\0", 8), "UTF-32 text"},
                                                               {gzipped("text"), "gzip data"},
                                                               {zstandard("text"), "zstd data"}};
  for (const auto& [content, what] : cases) {
    for (const char* const name : {"a.jsonl", "a.json", "a.csv"}) {
      publish_file(path / name, content);
      BOOST_CHECK_EXCEPTION(documents_of(path / name), Error, input_error("it is " + what));
    }
    publish_file(path / "a.txt", content);
    const auto inputs = find_inputs({(path / "a.txt").string()});
    BlockReader reader(inputs.files, whole_files(inputs.files), anywhere);
    TextBlock block;
    BOOST_REQUIRE(reader.next(block));
    BOOST_CHECK_EXCEPTION(told([&] { require_utf8(block); }), Error,
                          input_error("a.txt:1: not valid UTF-8: it is " + what));
  }
  publish_file(path / "b.csv", "PAR1,text\n1,a\n");
  BOOST_TEST((documents_of(path / "b.csv") == std::vector<std::string>{"a"}));
}

BOOST_AUTO_TEST_CASE(a_format_is_that_of_files_whose_names_tell_none_and_contradicts_those_that_tell_another) {
  make_folder(path / "in");
  for (const char* const name : {"a.md", "b", "c.py.gz", "d.txt", "e.parquet", "f.tar", "g.csv", "h.ndjson"})
    publish_file(path / "in" / name, "x");
  const auto names = [&](std::optional<TextFormat> format) {
    std::string found;
    for (const InputFile& file : find_inputs({(path / "in").string()}, format).files) {
      BOOST_TEST((!format || file.format == *format));
      found += file.path.filename().string() + (file.compression == Compression::gzip ? "(gzip) " : " ");
    }
    return found;
  };
  BOOST_TEST(names({}) == "d.txt e.parquet g.csv h.ndjson ");
  BOOST_TEST(names(TextFormat::text) == "a.md b c.py.gz(gzip) d.txt ");
  BOOST_TEST(names(TextFormat::json_lines) == "a.md b c.py.gz(gzip) d.txt h.ndjson ");
  BOOST_TEST(names(TextFormat::json) == "a.md b c.py.gz(gzip) d.txt h.ndjson ");
  BOOST_TEST(names(TextFormat::csv) == "a.md b c.py.gz(gzip) d.txt g.csv ");
  BOOST_TEST(names(TextFormat::parquet) == "a.md b e.parquet ");
  const auto named = [&](const char* name, TextFormat format) {
    (void)find_inputs({(path / "in" / name).string()}, format);
  };
  BOOST_CHECK_EXCEPTION(named("e.parquet", TextFormat::text), Error,
                        input_error("data.format is txt, but its name says .parquet"));
  BOOST_CHECK_EXCEPTION(named("h.ndjson", TextFormat::text), Error,
                        input_error("data.format is txt, but its name says .ndjson"));
  BOOST_CHECK_EXCEPTION(named("d.txt", TextFormat::arrow), Error,
                        input_error("data.format is arrow, but its name says .txt"));
  BOOST_CHECK_EXCEPTION(named("f.tar", TextFormat::text), Error, input_error("f.tar as a corpus: it is an archive"));
  BOOST_CHECK_EXCEPTION(find_inputs({(path / "in/a.md").string()}), Error,
                        input_error("as a corpus: unknown file type"));
}

BOOST_AUTO_TEST_CASE(invalid_utf8_in_a_text_is_named_with_its_line) {
  publish_file(path / "a.txt", many_lines(600000) + "\xC3(\n");
  const auto inputs = find_inputs({(path / "a.txt").string()});
  const auto lines = std::ranges::count(read_file(path / "a.txt"), '\n');
  BlockReader reader(inputs.files, whole_files(inputs.files), anywhere);
  const auto check_all = [&] {
    for (TextBlock block; reader.next(block);) require_utf8(block);
  };
  BOOST_CHECK_EXCEPTION(told(check_all), Error,
                        input_error(fmt::format("a.txt:{}: not valid UTF-8 (byte 0xC3)", lines)));
}

BOOST_AUTO_TEST_CASE(compressed_files_that_are_cut_off_damaged_or_hold_nothing_are_named) {
  const std::string text = many_lines(300000);
  for (const auto& [name, whole] :
       {std::pair<std::string, std::string>{"a.txt.gz", gzipped(text)}, {"a.txt.zst", zstandard(text)}}) {
    publish_file(path / name, whole.substr(0, whole.size() - 5));
    BOOST_CHECK_EXCEPTION(read_all(path / name), Error, input_error(name + ": the compressed data ends too early"));
    publish_file(path / name, "this is no compressed data at all");
    BOOST_CHECK_EXCEPTION(read_all(path / name), Error, input_error(name + ": cannot decompress"));
  }
}

BOOST_AUTO_TEST_CASE(files_that_prove_to_hold_nothing_are_named_and_passed_over) {
  publish_file(path / "a.txt.gz", gzipped(""));
  publish_file(path / "b.txt", "\xEF\xBB\xBF");
  publish_file(path / "c.txt", "\xEF\xBB\xBFtext");
  const auto inputs = find_inputs({path.string()});
  BlockReader reader(inputs.files, whole_files(inputs.files), anywhere);
  std::string text;
  for (TextBlock block; reader.next(block);) {
    BOOST_TEST((block.begins_document && block.offset == 3));
    text += block.text;
  }
  BOOST_TEST(text == "text");
  const std::string says = " contains no text";
  BOOST_TEST((reader.warnings() == std::vector{(path / "a.txt.gz").string() + says, (path / "b.txt").string() + says}));
}

BOOST_AUTO_TEST_CASE(links_are_followed_and_those_that_lead_nowhere_or_back_are_noted) {
  for (const char* const name : {"d/a/x.txt", "other/y.txt", "other/sub/z.txt"}) {
    make_folder((path / name).parent_path());
    publish_file(path / name, "x");
  }
  std::filesystem::create_directory_symlink(path / "other", path / "d/b");
  std::filesystem::create_directory_symlink(path / "d", path / "other/sub/back");
  std::filesystem::create_symlink(path / "nothing", path / "d/c.txt");
  std::filesystem::create_symlink(path / "other/y.txt", path / "d/d.txt");
  const InputFiles inputs = find_inputs({(path / "d").string()});
  std::vector<std::string> found;
  for (const InputFile& file : inputs.files) found.push_back(file.path.lexically_relative(path / "d").string());
  BOOST_TEST((found == std::vector<std::string>{"a/x.txt", "b/sub/z.txt", "b/y.txt", "d.txt"}));
  BOOST_REQUIRE_EQUAL(inputs.notes.size(), 2u);
  BOOST_TEST(inputs.notes[0].ends_with("skipped 1 broken link, first " + (path / "d/c.txt").string()));
  BOOST_TEST(
      inputs.notes[1].ends_with("1 link to a folder that contains it, first " + (path / "d/b/sub/back").string()));
}

BOOST_AUTO_TEST_CASE(what_is_often_taken_for_json_lines_is_refused_with_what_it_is) {
  for (const auto& [text, hint] : {std::pair<std::string, std::string>{"[\n{\"text\": 1}]", ".json"},
                                   {"{\n \"text\": \"a\"\n}", ".json"},
                                   {"a\tb\n", ".tsv"}}) {
    publish_file(path / "b.jsonl", text);
    const auto says = [&](const Error& error) { return error.hint().find(hint) != std::string::npos; };
    BOOST_CHECK_EXCEPTION(documents_of(path / "b.jsonl"), Error, says);
  }
}

BOOST_AUTO_TEST_CASE(folders_and_globs_give_their_files_sorted_and_pass_over_others_with_a_note) {
  for (const char* const name :
       {"d/b.txt", "d/a/z.jsonl.gz", "d/a/y.txt", "d/picture.png", "d/.hidden.txt", "d/.git/x.txt", "d/c.jsonl"}) {
    make_folder((path / name).parent_path());
    publish_file(path / name, "x");
  }
  const auto names = [&](const std::vector<std::string>& words, std::size_t notes) {
    std::vector<std::string> rooted;
    for (const std::string& word : words) rooted.push_back((path / word).string());
    const InputFiles inputs = find_inputs(rooted);
    BOOST_TEST(inputs.notes.size() == notes);
    std::vector<std::string> found;
    for (const InputFile& file : inputs.files) found.push_back(file.path.lexically_relative(path).string());
    return found;
  };
  using Names = std::vector<std::string>;
  BOOST_TEST((names({"d"}, 2) == Names{"d/a/y.txt", "d/a/z.jsonl.gz", "d/b.txt", "d/c.jsonl"}));
  BOOST_TEST((names({"d/c.jsonl", "d/*.txt"}, 0) == Names{"d/c.jsonl", "d/b.txt"}));
  BOOST_TEST((names({"d/*"}, 1) == Names{"d/a/y.txt", "d/a/z.jsonl.gz", "d/b.txt", "d/c.jsonl"}));
  BOOST_CHECK_EXCEPTION(names({"d/picture.png"}, 0), Error,
                        input_error("d/picture.png as a corpus: unknown file type"));
  BOOST_CHECK_EXCEPTION(names({"d/absent.txt"}, 0), Error, input_error("d/absent.txt: no such file or folder"));
  BOOST_CHECK_EXCEPTION(names({"d/*.csv"}, 0), Error, input_error("no file matches"));
  make_folder(path / "none");
  BOOST_CHECK_EXCEPTION(names({"none"}, 0), Error, input_error("none has no text to prepare"));
  publish_file(path / "none/empty.txt", "");
  BOOST_CHECK_EXCEPTION(names({"none"}, 0), Error, input_error("none/empty.txt is empty"));
}

BOOST_AUTO_TEST_SUITE_END()
