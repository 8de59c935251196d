#include "store/part_file.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "harness/temporary_folder.hpp"
#include "store/hdf5.hpp"
#include "store/piece_pass.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstring>
#include <thread>

using namespace lockstep;

namespace {

struct Content {
  std::vector<PartPiece> pieces;
  std::vector<std::vector<std::byte>> bytes;
};

// Small and large, aligned and odd, a scalar, and one with more than two blocks.
Content content() {
  Content result;
  const RandomStream random(1, "content");
  std::uint64_t draw = 0;
  const auto add = [&](const std::string& name, DType dtype, Shape global, Box box) {
    result.pieces.push_back({name, std::move(global), dtype, std::move(box)});
    std::vector<std::byte> bytes(bytes_of(result.pieces.back()));
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      const std::uint64_t bits = random.bits(draw++);
      std::memcpy(bytes.data() + i, &bits, 8);
    }
    result.bytes.push_back(std::move(bytes));
  };
  add("model/a", DType::f32, {100, 7}, {{10, 0}, {20, 7}});
  add("model/large", DType::bf16, {3000, 3001}, whole({3000, 3001}));
  add("optimizer/exp_avg/a", DType::f32, {}, whole({}));
  add("model/odd", DType::u8, {1048577}, whole({1048577}));
  return result;
}

struct Written {
  std::vector<PieceRecord> records;
  SealedPart sealed;
};

std::vector<HeldPiece> held_pieces(const Content& content, const StampedPart& stamped, const PartFile& part) {
  std::vector<HeldPiece> held;
  for (std::size_t i = 0; i < content.pieces.size(); ++i)
    held.push_back({content.pieces[i], content.bytes[i], PiecePlace{&part, stamped.table.records[i].offset}});
  return held;
}

Written write(const Path& path, const Content& content, PartFile::Cache cache = PartFile::Cache::around) {
  Written written;
  const StampedPart stamped = stamp_part(path, content.pieces);
  PartFile part(path, cache);
  written.records = pass_over(held_pieces(content, stamped, part));
  part.finish();
  written.sealed = seal_part(path, stamped, written.records);
  return written;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(part_file)

BOOST_FIXTURE_TEST_CASE(a_sealed_part_is_read_by_the_library_as_written, TemporaryFolder) {
  const Content given = content();
  const Written written = write(path / "part.h5", given);
  BOOST_TEST(written.sealed.bytes == std::filesystem::file_size(path / "part.h5"));
  const Hdf5File file = Hdf5File::open(path / "part.h5");
  const PartTable table = read_part_table(path / "part.h5", written.sealed.columns, written.sealed.table_hash);
  for (std::size_t i = 0; i < given.pieces.size(); ++i) {
    const std::int64_t packed_at = table.records[i].packed_at;
    const Hdf5Dataset dataset = file.dataset(dataset_of(given.pieces[i], table.records[i]));
    std::vector<std::byte> read(dataset.bytes);
    file.read(dataset.path, read);
    if (packed_at >= 0) {  // its stretch of it
      const std::int64_t size = size_of(given.pieces[i].dtype);
      read = {read.begin() + packed_at * size, read.begin() + packed_at * size + std::ssize(given.bytes[i])};
    }
    BOOST_TEST((packed_at < 0) == (given.bytes[i].size() >= packed_below));
    BOOST_TEST((read == given.bytes[i]));
  }
  BOOST_TEST(file.has("/model/large/0:3000,0:3001"));
  BOOST_TEST((file.dataset("/packed/fp32").shape == Shape{20 * 7 + 1}));  // model/a and a scalar
}

BOOST_FIXTURE_TEST_CASE(a_part_says_itself_what_is_in_it, TemporaryFolder) {
  const Content given = content();
  const Written written = write(path / "part.h5", given);
  const PartTable table = read_part_table(path / "part.h5", written.sealed.columns, written.sealed.table_hash);
  BOOST_REQUIRE_EQUAL(table.pieces.size(), given.pieces.size());
  for (std::size_t i = 0; i < table.pieces.size(); ++i) {
    BOOST_TEST(table.pieces[i].tensor == given.pieces[i].tensor);
    BOOST_TEST((table.pieces[i].box == given.pieces[i].box));
    BOOST_TEST((table.records[i].blocks == written.records[i].blocks));
    BOOST_TEST(table.records[i].offset == written.records[i].offset);
    BOOST_TEST((table.records[i].fingerprint == written.records[i].fingerprint));
  }
  BOOST_TEST(table.records[1].blocks.size() == 3u);  // 18 MB in blocks of 8 MiB
}

BOOST_FIXTURE_TEST_CASE(a_table_that_is_not_the_one_meant_is_damage, TemporaryFolder) {
  const Written written = write(path / "part.h5", content());
  const std::string right = read_file(path / "part.h5");
  const auto code_of_reading = [&](const Hash128& hash) {
    try {
      (void)read_part_table(path / "part.h5", written.sealed.columns, hash);
    } catch (const Error& error) {
      BOOST_TEST(std::string(error.what()).find((path / "part.h5").string()) != std::string::npos);
      return error.code();
    }
    return ExitCode::done;
  };
  BOOST_TEST((code_of_reading(written.sealed.table_hash) == ExitCode::done));
  BOOST_TEST((code_of_reading({1, 2}) == ExitCode::input));
  for (const ByteRange& column : written.sealed.columns) {
    std::string wrong = right;
    wrong[column.offset + column.bytes / 2] ^= 1;
    publish_file(path / "part.h5", wrong);
    BOOST_TEST((code_of_reading(written.sealed.table_hash) == ExitCode::input));
  }
  std::filesystem::remove(path / "part.h5");
  BOOST_TEST((code_of_reading(written.sealed.table_hash) == ExitCode::storage));  // who knows that it was there
}

BOOST_FIXTURE_TEST_CASE(an_unsealed_part_does_not_open, TemporaryFolder) {
  const Content given = content();
  const StampedPart stamped = stamp_part(path / "part.h5", given.pieces);
  BOOST_CHECK_THROW(Hdf5File::open(path / "part.h5"), Error);
  PartFile part(path / "part.h5");
  pass_over(held_pieces(given, stamped, part));
  part.finish();
  BOOST_CHECK_THROW(Hdf5File::open(path / "part.h5"), Error);
}

BOOST_FIXTURE_TEST_CASE(equal_content_gives_equal_parts_and_the_order_of_writing_does_not_matter, TemporaryFolder) {
  const Content given = content();
  write(path / "a.h5", given);
  const StampedPart stamped = stamp_part(path / "b.h5", given.pieces);
  std::vector<PieceRecord> records(given.pieces.size());
  for (std::size_t i = given.pieces.size(); i-- > 0;) {  // each by a writer of its own, as ranks that share a part
    PartFile part(path / "b.h5");
    const std::vector<HeldPiece> held = held_pieces(given, stamped, part);
    records[i] = pass_over(std::span(held).subspan(i, 1)).front();
    part.finish();
  }
  seal_part(path / "b.h5", stamped, records);
  BOOST_TEST((read_file(path / "a.h5") == read_file(path / "b.h5")));
}

BOOST_FIXTURE_TEST_CASE(direct_and_buffered_writing_and_the_library_itself_give_the_same_datasets, TemporaryFolder) {
  const Content given = content();
  write(path / "direct.h5", given);  // direct where the file system can
  write(path / "buffered.h5", given, PartFile::Cache::through);
  BOOST_TEST((read_file(path / "buffered.h5") == read_file(path / "direct.h5")));
  Hdf5File plain = Hdf5File::create(path / "plain.h5");
  plain.set_attribute("/", "format", "lockstep.part");
  plain.set_attribute("/", "version", 2);
  for (const std::size_t i : {1, 3})
    plain.add("/" + given.pieces[i].tensor + "/" + (i == 1 ? "0:3000,0:3001" : "0:1048577"), given.pieces[i].dtype,
              given.pieces[i].box.extent, given.bytes[i]);
  std::vector<std::byte> packed = given.bytes[0];
  packed.insert(packed.end(), given.bytes[2].begin(), given.bytes[2].end());
  plain.add("/packed/fp32", DType::f32, {20 * 7 + 1}, packed);
  const Hdf5File direct = Hdf5File::open(path / "direct.h5");
  for (const char* const column :
       {"tensors", "tensor", "first_box", "boxes", "offset", "packed_at", "first_block", "fingerprints", "blocks"}) {
    const Hdf5Dataset dataset = direct.dataset(std::string("/_index/") + column);
    std::vector<std::byte> bytes(dataset.bytes);
    direct.read(dataset.path, bytes);
    plain.add(dataset.path, dataset.dtype, dataset.shape, bytes);
  }
  plain.close();
  BOOST_TEST((read_file(path / "plain.h5") == read_file(path / "direct.h5")));
}

BOOST_FIXTURE_TEST_CASE(records_are_those_of_the_bytes_wherever_these_lie_in_memory, TemporaryFolder) {
  const Content given = content();
  const StampedPart stamped = stamp_part(path / "part.h5", given.pieces);
  for (const std::size_t shift : {0, 4, 64, 512}) {
    PartFile part(path / "part.h5");
    std::vector<HeldPiece> held = held_pieces(given, stamped, part);
    std::vector<std::byte> moved(given.bytes[1].size() + 8192);
    const std::size_t align = 4096 - reinterpret_cast<std::uintptr_t>(moved.data()) % 4096;
    std::copy(given.bytes[1].begin(), given.bytes[1].end(), moved.begin() + static_cast<std::ptrdiff_t>(align + shift));
    held[1].bytes = std::span<const std::byte>(moved).subspan(align + shift, given.bytes[1].size());
    held.push_back({given.pieces[1], given.bytes[1], {}});  // as a rank that holds it too and does not write it
    const std::vector<PieceRecord> records = pass_over(held);
    for (std::size_t i = 0; i < given.pieces.size(); ++i) {
      const std::span<const std::byte> bytes(given.bytes[i]);
      BOOST_REQUIRE_EQUAL(records[i].blocks.size(), (bytes.size() + block_bytes - 1) / block_bytes);
      for (std::size_t block = 0; block < records[i].blocks.size(); ++block)
        BOOST_TEST(
            (records[i].blocks[block] ==
             hash128(bytes.subspan(block * block_bytes, std::min(block_bytes, bytes.size() - block * block_bytes)))));
      BOOST_TEST((records[i].fingerprint ==
                  fingerprint(given.pieces[i].global, given.pieces[i].dtype, given.pieces[i].box, bytes)));
      BOOST_TEST(records[i].offset == stamped.table.records[i].offset);
    }
    BOOST_TEST(records.back().blocks.empty());
    BOOST_TEST((records.back().fingerprint == records[1].fingerprint));
    const std::string file = read_file(path / "part.h5");
    BOOST_TEST((
        std::memcmp(file.data() + stamped.table.records[1].offset, given.bytes[1].data(), given.bytes[1].size()) == 0));
  }
}

BOOST_FIXTURE_TEST_CASE(a_write_that_fails_is_the_failure_of_the_pass, TemporaryFolder) {
  const Content given = content();
  const StampedPart stamped = stamp_part(path / "part.h5", given.pieces);
  const PartFile part(path / "part.h5");
  std::vector<HeldPiece> held = held_pieces(given, stamped, part);
  held[1].place->offset = std::uint64_t{1} << 62;  // beyond what any file may have
  BOOST_CHECK_EXCEPTION(pass_over(held), Error, [&](const Error& error) {
    return error.code() == ExitCode::storage &&
           std::string(error.what()).find((path / "part.h5").string()) != std::string::npos;
  });
}

BOOST_FIXTURE_TEST_CASE(the_bytes_of_a_part_do_not_depend_on_the_time_of_day, TemporaryFolder) {
  const Content given = content();
  write(path / "now.h5", given);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5 keeps whole seconds
  write(path / "later.h5", given);
  BOOST_TEST((read_file(path / "now.h5") == read_file(path / "later.h5")));
}

BOOST_FIXTURE_TEST_CASE(every_flipped_byte_changes_the_hash_of_the_part, TemporaryFolder) {
  const Content given = content();
  const Written written = write(path / "part.h5", given);
  const std::string right = read_file(path / "part.h5");
  const RandomStream random(4, "flips");
  const auto ignore = [](std::size_t, std::size_t, std::span<const std::byte>, const Hash128&) {};
  BOOST_TEST((part_hash(path / "part.h5", given.pieces, written.records, ignore) == written.sealed.hash));
  for (std::uint64_t trial = 0; trial < 24; ++trial) {
    const std::uint64_t at =
        trial < 12 ? random.below(trial, 8192) : random.below(trial, right.size());  // half of them among the metadata
    std::string wrong = right;
    wrong[at] = static_cast<char>(wrong[at] ^ (1 << trial % 8));
    publish_file(path / "part.h5", wrong);
    BOOST_TEST((part_hash(path / "part.h5", given.pieces, written.records, ignore) != written.sealed.hash));
  }
}

BOOST_AUTO_TEST_SUITE_END()
