#include "store/token_shards.hpp"
#include "base/content_sum.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "harness/temporary_folder.hpp"
#include "made_dataset.hpp"
#include "store/hdf5.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <boost/test/unit_test.hpp>

#include <filesystem>

using namespace lockstep;

namespace {

// An error of input data whose text names `part`.
auto input_error_naming(const std::string& part) {
  return [part](const Error& error) {
    return error.code() == ExitCode::input && std::string(error.what()).find(part) != std::string::npos;
  };
}

void flip_byte(const Path& path, std::uint64_t offset) {
  const FileDescriptor file = open_file(path, O_RDWR);
  std::byte byte{};
  read_at(file, {&byte, 1}, offset, path);
  byte ^= std::byte{1};
  write_at(file, {&byte, 1}, offset, path);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(token_shards)

BOOST_FIXTURE_TEST_CASE(every_range_of_a_stream_reads_as_written_across_shards_of_any_size, TemporaryFolder) {
  int folders = 0;
  for (const std::int64_t vocabulary : {std::int64_t{65536}, std::int64_t{70001}}) {
    for (const std::int64_t shard_tokens : {1, 3, 16, 1000}) {
      const auto split = test::made_split({5, 1, 1, 12, 2, 30}, vocabulary);
      DatasetManifest manifest = test::manifest_for(vocabulary, shard_tokens);
      const Path folder = path / std::to_string(folders++);
      test::write_split(folder, manifest, DataSplit::train, split);
      const TokenStream stream(folder, manifest, DataSplit::train);
      const auto total = static_cast<std::int64_t>(split.tokens.size());
      BOOST_TEST(stream.tokens() == total);
      BOOST_TEST(stream.documents() == 6);
      for (std::int64_t begin = 0; begin <= total; ++begin) {
        for (std::int64_t end = begin; end <= total; ++end) {
          std::vector<std::int32_t> read(static_cast<std::size_t>(end - begin));
          stream.copy(begin, read);
          BOOST_REQUIRE(
              std::ranges::equal(read, std::span(split.tokens).subspan(static_cast<std::size_t>(begin), read.size())));
          std::vector<std::int64_t> starts;
          std::ranges::copy_if(split.starts, std::back_inserter(starts),
                               [&](std::int64_t start) { return start >= begin && start < end; });
          BOOST_REQUIRE(stream.document_starts(begin, end) == starts);
        }
      }
      for (std::int64_t shard = 0; shard < stream.shards(); ++shard) stream.verify_shard(shard);
      BOOST_TEST(stream.shard_at(total - 1) == stream.shards() - 1);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_shard_that_several_write_parts_of_has_the_bytes_of_one_that_one_writes, TemporaryFolder) {
  const std::vector<std::uint32_t> tokens = {5, 1, 4, 1, 3, 2, 6};
  const std::vector<std::size_t> starts = {0, 2, 5};
  for (const int token_bytes : {2, 4}) {
    const auto write_parts = [&](const Path& file, const std::vector<std::size_t>& ends) {
      create_shard(file, token_bytes, std::ssize(tokens), std::ssize(starts));
      std::size_t first = 0;
      std::uint64_t written = 0;
      for (const std::size_t end : ends) {
        const auto before = std::ranges::lower_bound(starts, first) - starts.begin();
        ShardWriter writer(file, static_cast<std::int64_t>(first), before);
        for (; first < end; ++first) {
          if (std::ranges::count(starts, first) > 0) writer.start_document();
          writer.append({&tokens[first], 1});
        }
        written = add_content_sums(written, writer.finish());
      }
      return std::pair(written, describe_shard(file, written));
    };
    const Path whole = path / fmt::format("whole-{}.h5", token_bytes);
    const Path parts = path / fmt::format("parts-{}.h5", token_bytes);
    const ShardEntry one = write_parts(whole, {7}).second;
    const auto [written, several] = write_parts(parts, {1, 2, 2, 6, 7});
    BOOST_TEST((read_file(parts) == read_file(whole)));
    BOOST_TEST((several.hash == one.hash && one.hash == hash128(read_file(whole))));
    BOOST_TEST((several.tokens == 7 && several.documents == 3));
    flip_byte(parts, Hdf5File::open(parts).dataset("/tokens").offset + 3);  // bytes of a writer were lost
    BOOST_CHECK_EXCEPTION(describe_shard(parts, written), Error, [](const Error& error) {
      return error.code() == ExitCode::storage &&
             std::string(error.what()).find("reads back differently than it was written") != std::string::npos;
    });
  }
}

BOOST_FIXTURE_TEST_CASE(every_range_of_a_mask_reads_as_written_and_other_values_in_it_are_damage, TemporaryFolder) {
  auto split = test::made_split({5, 1, 12, 2, 30}, 1000);
  for (std::size_t i = 0; i < split.tokens.size(); ++i) split.mask.push_back(i % 3 == 1 || i % 7 == 2 ? 1 : 0);
  for (const std::int64_t shard_tokens : {1, 3, 16, 1000}) {
    DatasetManifest manifest = test::manifest_for(1000, shard_tokens);
    manifest.masks = TokenMasks::present;
    const Path folder = path / std::to_string(shard_tokens);
    test::write_split(folder, manifest, DataSplit::train, split);
    publish_file(folder / "DATASET.json", to_text(manifest));
    const DatasetManifest read = read_dataset_manifest(folder);
    BOOST_TEST((read.masks == TokenMasks::present));
    const TokenStream stream(folder, read, DataSplit::train);
    for (std::size_t begin = 0; begin <= split.mask.size(); ++begin) {
      for (std::size_t end = begin; end <= split.mask.size(); ++end) {
        std::vector<std::uint8_t> mask(end - begin);
        stream.copy_mask(static_cast<std::int64_t>(begin), mask);
        BOOST_REQUIRE(std::ranges::equal(mask, std::span(split.mask).subspan(begin, mask.size())));
      }
    }
    for (const ShardEntry& shard : read.train.shards) verify_shard_file(folder, read, shard);
    DatasetManifest unmasked = read;  // a file without the mask that the manifest promises, and one with too much
    unmasked.masks = TokenMasks::absent;
    std::vector<std::uint8_t> all(split.mask.size());
    TokenStream(folder, unmasked, DataSplit::train).copy_mask(0, all);
    BOOST_TEST((std::ranges::count(all, std::uint8_t{1}) == std::ssize(all)));
    const Path file = folder / read.train.shards[0].file;
    flip_byte(file, Hdf5File::open(file).dataset("/mask").offset);  // 0 becomes 1: the hash alone shows it
    BOOST_CHECK_THROW(verify_shard_file(folder, read, read.train.shards[0]), Error);
    const std::byte strange{7};
    const FileDescriptor opened = open_file(file, O_RDWR);
    write_at(opened, {&strange, 1}, Hdf5File::open(file).dataset("/mask").offset, file);
    BOOST_CHECK_EXCEPTION(TokenStream(folder, read, DataSplit::train).copy_mask(0, std::span(all).first(1)), Error,
                          [](const Error& error) {
                            return std::string(error.what()).find("its mask holds values other than") !=
                                   std::string::npos;
                          });
  }
  DatasetManifest manifest = test::manifest_for(1000, 100);
  test::write_split(path / "without", manifest, DataSplit::train, split);
  manifest.masks = TokenMasks::present;
  BOOST_CHECK_EXCEPTION(
      TokenStream(path / "without", manifest, DataSplit::train).document_starts(0, 1), Error,
      [](const Error& error) { return std::string(error.what()).find("/mask is not a dataset") != std::string::npos; });
}

BOOST_FIXTURE_TEST_CASE(a_stream_of_more_shards_than_are_mapped_at_a_time_reads_as_written, TemporaryFolder) {
  DatasetManifest manifest = test::manifest_for(1000, 3);
  test::write_split(path, manifest, DataSplit::train, test::made_split({3, 3, 3}, 1000));
  const std::vector<ShardEntry> made = manifest.train.shards;
  constexpr std::size_t count = TokenStream::most_mapped + 10;
  for (std::size_t i = made.size(); i < count; ++i) {  // the same three files under more names
    ShardEntry shard = made[i % made.size()];
    shard.file = fmt::format("train/tokens-{:05}.h5", i);
    std::filesystem::create_hard_link(path / made[i % made.size()].file, path / shard.file);
    manifest.train.shards.push_back(shard);
    manifest.train.tokens += shard.tokens;
    manifest.train.documents += shard.documents;
  }
  number_shards(manifest.train);
  const TokenStream stream(path, manifest, DataSplit::train);
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(stream.tokens()));
    stream.copy(0, tokens);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      BOOST_REQUIRE_EQUAL(tokens[i], static_cast<std::int32_t>(i % 9 * 7 + 3));
    BOOST_TEST(stream.document_starts(0, stream.tokens()).size() == count);
  }
}

BOOST_FIXTURE_TEST_CASE(the_same_tokens_make_the_same_bytes, TemporaryFolder) {
  for (const char* const name : {"a", "b"}) {
    DatasetManifest manifest = test::manifest_for(1000, 64);
    test::write_split(path / name, manifest, DataSplit::train, test::made_split({50, 50}, 1000));
    publish_file(path / name / "DATASET.json", to_text(manifest));
  }
  for (const char* const file : {"DATASET.json", "train/tokens-00000.h5", "train/tokens-00001.h5"}) {
    BOOST_TEST((read_file(path / "a" / file) == read_file(path / "b" / file)), file);
  }
}

BOOST_FIXTURE_TEST_CASE(a_manifest_comes_back_and_a_changed_one_is_refused, TemporaryFolder) {
  DatasetManifest manifest = test::manifest_for(257, 64);
  manifest.end_of_text = 256;
  manifest.tokenizer_hash = {1, 2};
  test::write_split(path, manifest, DataSplit::train, test::made_split({50, 50}, 257));
  const std::string text = to_text(manifest);
  publish_file(path / "DATASET.json", text);
  BOOST_TEST(to_text(read_dataset_manifest(path)) == text);
  std::string edited = text;
  edited.replace(edited.find("\"tokens\": 100"), 13, "\"tokens\": 101");
  publish_file(path / "DATASET.json", edited);
  BOOST_CHECK_EXCEPTION(read_dataset_manifest(path), Error, input_error_naming("does not match its self_hash"));
  publish_file(path / "DATASET.json", R"({"format": "lockstep dataset", "version": 99})");
  BOOST_CHECK_EXCEPTION(read_dataset_manifest(path), Error,
                        input_error_naming("has format version 99; this program reads versions 2 and 3"));
  publish_file(path / "DATASET.json", "[]");
  BOOST_CHECK_EXCEPTION(read_dataset_manifest(path), Error, input_error_naming("is not the manifest of a dataset"));
}

BOOST_FIXTURE_TEST_CASE(a_manifest_whose_token_bytes_are_not_those_of_its_vocabulary_is_refused, TemporaryFolder) {
  DatasetManifest manifest = test::manifest_for(257, 64);
  test::write_split(path, manifest, DataSplit::train, test::made_split({50, 50}, 257));
  for (const int token_bytes : {0, 1, 4, 8, -2}) {
    Json document = parse_json(to_text(manifest), "manifest");
    document.erase("self_hash");
    document["token_bytes"] = token_bytes;
    document["self_hash"] = to_hex(hash128(to_text(document)));
    publish_file(path / "DATASET.json", to_text(document));
    BOOST_CHECK_EXCEPTION(
        read_dataset_manifest(path), Error,
        input_error_naming(fmt::format("token_bytes is {}, but ids of a vocabulary of 257 have 2", token_bytes)));
  }
}

BOOST_FIXTURE_TEST_CASE(damage_to_a_shard_is_named, TemporaryFolder) {
  DatasetManifest manifest = test::manifest_for(1000, 6000);
  test::write_split(path, manifest, DataSplit::train, test::made_split({5000, 5000}, 1000));
  const Path second = path / "train/tokens-00001.h5";
  flip_byte(second, std::filesystem::file_size(second) / 2);
  const TokenStream stream(path, manifest, DataSplit::train);  // sizes are right
  stream.verify_shard(0);
  BOOST_CHECK_EXCEPTION(stream.verify_shard(1), Error, input_error_naming("train/tokens-00001.h5 is damaged"));
  stream.verify_shard(1, [] { return true; });  // given up before a byte was read
  BOOST_CHECK_EXCEPTION(verify_shard_file(path, manifest, manifest.train.shards[1]), Error,
                        input_error_naming("train/tokens-00001.h5 is damaged"));
  verify_shard_file(path, manifest, manifest.train.shards[0]);
  std::filesystem::resize_file(second, 100);
  BOOST_CHECK_EXCEPTION(verify_shard_file(path, manifest, manifest.train.shards[1]), Error,
                        input_error_naming("train/tokens-00001.h5 has 100 bytes"));
  const auto read = [&] {
    const TokenStream opened(path, manifest, DataSplit::train);
    std::vector<std::int32_t> tokens(6001);
    opened.copy(0, std::span(tokens).first(6000));  // of the first shard alone
    opened.copy(0, tokens);
  };
  BOOST_CHECK_EXCEPTION(read(), Error, input_error_naming("train/tokens-00001.h5 has 100 bytes"));
  std::filesystem::remove(second);
  BOOST_CHECK_EXCEPTION(read(), Error, input_error_naming("train/tokens-00001.h5: no such file"));
}

BOOST_FIXTURE_TEST_CASE(a_shard_that_is_cut_short_while_it_is_read_is_an_error_of_storage_that_names_it,
                        TemporaryFolder) {
  const auto lost = [](const Error& error) {
    return error.code() == ExitCode::storage &&
           std::string(error.what()).find("train/tokens-00001.h5 from byte ") != std::string::npos;
  };
  DatasetManifest manifest = test::manifest_for(1000, 6000);
  manifest.masks = TokenMasks::present;
  test::MadeSplit split = test::made_split({5000, 5000}, 1000);
  split.mask.assign(split.tokens.size(), 1);
  test::write_split(path, manifest, DataSplit::train, split);
  const Path second = path / "train/tokens-00001.h5";
  const std::string whole = read_file(second);
  const std::uint64_t tokens_at = Hdf5File::open(second).dataset("/tokens").offset;
  // In front of the tokens, where every read faults, and in a page of them, where those behind it read as zeros.
  for (const std::uint64_t length : {tokens_at, tokens_at + 100}) {
    publish_file(second, whole);
    const TokenStream stream(path, manifest, DataSplit::train);
    std::vector<std::int32_t> tokens(100);
    std::vector<std::uint8_t> mask(100);
    stream.copy(6000, tokens);
    std::filesystem::resize_file(second, length);
    BOOST_CHECK_EXCEPTION(stream.copy(6100, tokens), Error, lost);
    BOOST_CHECK_EXCEPTION(stream.copy_mask(6100, mask), Error, lost);
    BOOST_CHECK_EXCEPTION((void)stream.document_starts(6000, 10000), Error, lost);
    stream.copy(5900, tokens);  // of the first shard
  }
}

BOOST_FIXTURE_TEST_CASE(tokens_beyond_the_vocabulary_and_documents_out_of_place_are_named, TemporaryFolder) {
  DatasetManifest manifest = test::manifest_for(1000, 6000);
  test::write_split(path, manifest, DataSplit::train, test::made_split({100, 100, 100}, 1000));
  std::vector<std::int32_t> tokens(300);
  TokenStream(path, manifest, DataSplit::train).copy(0, tokens);
  DatasetManifest smaller = manifest;
  smaller.vocabulary = 998;  // the highest of the stream
  BOOST_CHECK_EXCEPTION(TokenStream(path, smaller, DataSplit::train).copy(0, tokens), Error,
                        input_error_naming("it holds the token id 998"));
  const Path shard = path / "train/tokens-00000.h5";
  const Hdf5Dataset documents = Hdf5File::open(shard).dataset("/documents");
  for (const std::uint64_t place :
       {std::uint64_t{300}, ~std::uint64_t{0}, std::uint64_t{250}}) {  // behind the end, far behind, behind the next
    const FileDescriptor file = open_file(shard, O_RDWR);
    write_at(file, std::as_bytes(std::span(&place, 1)), documents.offset + 8, shard);
    BOOST_CHECK_EXCEPTION(TokenStream(path, manifest, DataSplit::train).document_starts(0, 300), Error,
                          input_error_naming("tokens-00000.h5 is damaged"));
  }
}

BOOST_FIXTURE_TEST_CASE(a_shard_takes_no_more_tokens_and_documents_than_were_announced, TemporaryFolder) {
  const auto is_bug = [](const Error& error) { return error.code() == ExitCode::bug; };
  create_shard(path / "a.h5", 2, 3, 1);
  const std::vector<std::uint32_t> tokens = {1, 2, 3};
  ShardWriter late(path / "a.h5", 1, 0);
  BOOST_CHECK_EXCEPTION(late.append(tokens), Error, is_bug);
  ShardWriter second(path / "a.h5", 0, 1);
  second.start_document();
  second.append(tokens);
  BOOST_CHECK_EXCEPTION(second.finish(), Error, is_bug);
}

BOOST_AUTO_TEST_SUITE_END()
