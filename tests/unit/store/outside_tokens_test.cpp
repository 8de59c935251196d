#include "base/error.hpp"
#include "base/files.hpp"
#include "harness/temporary_folder.hpp"
#include "made_dataset.hpp"
#include "store/token_elements.hpp"
#include "store/token_shards.hpp"

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>

#include <cstring>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(outside_tokens)

namespace {

void append_element(std::string& bytes, DType dtype, std::int64_t value) {
  bytes.append(reinterpret_cast<const char*>(&value), static_cast<std::size_t>(size_of(dtype)));  // little-endian
}

/// Two token files with the documents of `split`, and a dataset that names them: shards of documents [0, 3) and [3, 6).
/// With `gap`, that many bytes are in front of each document.
DatasetManifest place_outside(const Path& folder, const test::MadeSplit& split, DType dtype, std::size_t gap) {
  DatasetManifest manifest = test::manifest_for(100, 1000);
  make_folder(folder / "dataset/train");
  for (const std::size_t first : {std::size_t{0}, std::size_t{3}}) {
    std::string bytes(7, 'h');  // a header that aligns nothing
    std::vector<std::uint64_t> starts, places;
    std::int64_t tokens = 0;
    for (std::size_t document = first; document < first + 3; ++document) {
      bytes.append(gap, 'g');
      starts.push_back(static_cast<std::uint64_t>(tokens));
      places.push_back(bytes.size());
      const std::size_t end = document + 1 < split.starts.size() ? static_cast<std::size_t>(split.starts[document + 1])
                                                                 : split.tokens.size();
      for (auto i = static_cast<std::size_t>(split.starts[document]); i < end; ++i, ++tokens)
        append_element(bytes, dtype, split.tokens[i]);
    }
    ShardEntry entry;
    entry.file = fmt::format("../{}.bin", first);
    entry.tokens = tokens;
    entry.documents = 3;
    entry.bytes = bytes.size() + 5;
    entry.outside = OutsideTokens{.offset = places[0],
                                  .extent = bytes.size() - places[0],
                                  .dtype = dtype,
                                  .apart = gap > 0,
                                  .documents = fmt::format("train/documents-{:05}.h5", first)};
    entry.hash = hash128(std::string_view(bytes).substr(places[0]));
    write_document_starts(folder / "dataset" / entry.outside->documents, starts, places, *entry.outside);
    publish_file(folder / fmt::format("{}.bin", first), bytes + "after");
    manifest.train.shards.push_back(entry);
    manifest.train.tokens += tokens;
    manifest.train.documents += 3;
  }
  number_shards(manifest.train);
  return manifest;
}

auto input_error_naming(const std::string& part) {
  return [part](const Error& error) {
    return error.code() == ExitCode::input && std::string(error.what()).find(part) != std::string::npos;
  };
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(tokens_of_any_type_read_in_place_as_the_same_tokens_of_our_shards, TemporaryFolder) {
  const auto split = test::made_split({5, 1, 7, 12, 2, 9}, 100);
  const auto total = static_cast<std::int64_t>(split.tokens.size());
  int folders = 0;
  for (const DType dtype :
       {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::i32, DType::u64, DType::i64}) {
    for (const std::size_t gap : {0, 1, 8}) {
      const Path folder = path / std::to_string(folders++);
      const DatasetManifest manifest = place_outside(folder, split, dtype, gap);
      publish_file(folder / "dataset/DATASET.json", to_text(manifest));
      const DatasetManifest read_back = read_dataset_manifest(folder / "dataset");
      BOOST_TEST(to_text(read_back) == to_text(manifest));
      const TokenStream stream(folder / "dataset", read_back, DataSplit::train);
      for (std::int64_t begin = 0; begin < total; ++begin) {
        for (std::int64_t end = begin; end <= total; ++end) {
          std::vector<std::int32_t> read(static_cast<std::size_t>(end - begin));
          stream.copy(begin, read);
          BOOST_REQUIRE(
              std::ranges::equal(read, std::span(split.tokens).subspan(static_cast<std::size_t>(begin), read.size())));
        }
      }
      BOOST_TEST((stream.document_starts(0, total) == split.starts));
      BOOST_TEST((stream.shard_at(12) == 0 && stream.shard_at(13) == 1 && stream.shard_at(total - 1) == 1));
      for (const ShardEntry& shard : manifest.train.shards) verify_shard_file(folder / "dataset", manifest, shard);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_file_outside_that_changed_is_refused_with_its_name, TemporaryFolder) {
  const auto split = test::made_split({5, 1, 7, 12, 2, 9}, 100);
  const DatasetManifest manifest = place_outside(path, split, DType::u16, 0);
  const Path dataset = path / "dataset", file = path / "3.bin";
  const std::string sound = read_file(file);
  const auto verify = [&] { TokenStream(dataset, manifest, DataSplit::train).verify_shard(1); };
  const auto read = [&] {
    std::vector<std::int32_t> all(split.tokens.size());
    TokenStream(dataset, manifest, DataSplit::train).copy(0, all);
  };
  verify();
  std::string damaged = sound;
  damaged[9] ^= 1;
  publish_file(file, damaged);
  BOOST_CHECK_EXCEPTION(verify(), Error, input_error_naming("3.bin is damaged: its hash is"));
  damaged = sound;
  damaged[8] = '\x7f';
  publish_file(file, damaged);
  BOOST_CHECK_EXCEPTION(read(), Error, input_error_naming("3.bin is damaged: it holds the token"));
  publish_file(file, sound.substr(0, 20));
  BOOST_CHECK_EXCEPTION(read(), Error, input_error_naming("3.bin has 20 bytes, but DATASET.json says"));
  std::filesystem::remove(file);
  BOOST_CHECK_EXCEPTION(read(), Error, input_error_naming("3.bin"));
  publish_file(file, sound);
  publish_file(dataset / "train/documents-00003.h5", "");
  BOOST_CHECK_EXCEPTION(verify(), Error, input_error_naming("documents-00003.h5"));
}

BOOST_AUTO_TEST_CASE(an_id_that_no_vocabulary_has_is_found_whatever_its_type) {
  std::int32_t out = 0;
  const auto outside = [&](DType dtype, std::int64_t value) {
    std::string bytes;
    append_element(bytes, dtype, value);
    return copy_ids(std::as_bytes(std::span(bytes)), dtype, {&out, 1}).outside(100);
  };
  BOOST_TEST(
      (outside(DType::i8, -1) == -1 && outside(DType::u8, 255) == 255 && outside(DType::u8, 99) == std::nullopt));
  BOOST_TEST((outside(DType::i64, -1) == -1 &&
              outside(DType::i64, (std::int64_t{1} << 32) + 5) == (std::int64_t{1} << 32) + 5));
  BOOST_TEST((outside(DType::u64, -1) == std::numeric_limits<std::int64_t>::max()));
}

BOOST_AUTO_TEST_CASE(a_token_file_that_is_cut_short_while_it_is_read_is_an_error_of_storage_that_names_it) {
  for (const std::size_t gap : {std::size_t{0}, std::size_t{5}}) {
    const TemporaryFolder folder;
    const test::MadeSplit split = test::made_split({300, 40, 600, 500, 7, 400}, 100);
    const DatasetManifest manifest = place_outside(folder.path, split, DType::i64, gap);
    const TokenStream stream(folder.path / "dataset", manifest, DataSplit::train);
    std::vector<std::int32_t> tokens(900);
    stream.copy(0, tokens);
    std::filesystem::resize_file(folder.path / "0.bin", 4096);
    BOOST_CHECK_EXCEPTION(stream.copy(0, tokens), Error, [](const Error& error) {
      return error.code() == ExitCode::storage &&
             std::string(error.what()).find("0.bin from byte 4096 on") != std::string::npos;
    });
    stream.copy(940, tokens);  // of the other file
  }
}

BOOST_AUTO_TEST_SUITE_END()
