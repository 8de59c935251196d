#include "exchange/safetensors.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "unit/exchange/folder.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(safetensors)

namespace {

/// A file as the format describes it: header text behind its length, then `data` bytes.
std::string file_of(const std::string& header, std::size_t data) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return text + header + std::string(data, 'x');
}

std::vector<SafetensorsEntry> parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), "f.safetensors");
}

std::string error_of(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& error) {
    BOOST_CHECK(error.code() == ExitCode::input);
    BOOST_TEST(std::string(error.what()).starts_with("f.safetensors: "));
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(entries_come_in_the_order_of_their_data_with_offsets_in_the_file) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[1],"data_offsets":[6,10]},)"
      R"("a":{"dtype":"BF16","shape":[3,1],"data_offsets":[0,6]},"e":{"dtype":"I8","shape":[0,4],"data_offsets":[6,6]}})";
  const auto entries = parse(file_of(header, 10));
  BOOST_REQUIRE_EQUAL(entries.size(), 3u);
  BOOST_TEST(entries[0].tensor.name == "a");
  BOOST_CHECK(entries[0].tensor.dtype == DType::bf16);
  BOOST_TEST(entries[0].begin == 8 + header.size());
  BOOST_TEST(entries[1].tensor.name == "e");
  BOOST_TEST(entries[2].tensor.name == "b");
  BOOST_TEST(entries[2].end == 8 + header.size() + 10);
  BOOST_TEST(parse(file_of("{} ", 0)).empty());
}

BOOST_AUTO_TEST_CASE(damaged_headers_are_refused_with_the_place) {
  const auto one = [](const std::string& entry, std::size_t data) {
    return error_of(file_of("{\"w\":" + entry + "}", data));
  };
  BOOST_TEST(has(error_of("short"), "5 bytes"));
  BOOST_TEST(has(error_of(std::string(8, '\xff') + "{}"), "header of 18446744073709551615 bytes"));
  BOOST_TEST(has(error_of(file_of("[]", 0)), "not a JSON object"));
  BOOST_TEST(has(error_of(file_of("{} {}", 0)), "damaged"));
  BOOST_TEST(has(error_of(file_of("{\"w\":", 0)), "damaged"));
  BOOST_TEST(
      has(one(R"({"dtype":"F33","shape":[1],"data_offsets":[0,4]})", 4), "tensor 'w': type F33 is not supported"));
  BOOST_TEST(has(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4), "damaged"));
  BOOST_TEST(has(one(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})", 4), "damaged"));
  BOOST_TEST(has(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4),
                 "tensor 'w': shape (2) of fp32 does not fill bytes 0 to 4"));
  BOOST_TEST(has(one(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})", 0), "does not fill"));
  BOOST_TEST(has(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4), "does not fill"));
  BOOST_TEST(has(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})", 4), "more than 2 numbers"));
  BOOST_TEST(has(one(R"({"dtype":"F32","shape":[1]})", 4), "is missing"));
  BOOST_TEST(has(one(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})", 4), "dtype appears twice"));
  BOOST_TEST(has(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"colour":1})", 4), "unknown key colour"));
  BOOST_TEST(has(one(R"({"dtype":"F32","shape":[1],"data_offsets":[2,6]})", 6), "after a gap that starts at 0"));
  BOOST_TEST(has(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 3),
                 "truncated: its tensors need 4 data bytes, it has 3"));
  BOOST_TEST(has(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 7), "3 bytes follow"));
  const std::string entry = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  BOOST_TEST(has(error_of(file_of("{\"w\":" + entry + ",\"w\":" + entry + "}", 4)), "'w' appears twice"));
  BOOST_TEST(
      has(error_of(file_of("{\"w\":" + entry + ",\"v\":" + entry + "}", 4)), "inside the tensor that ends at 4"));
}

BOOST_FIXTURE_TEST_CASE(what_is_written_is_read_back_whole_and_by_box, Folder) {
  const std::vector<TensorDescription> tensors{{"m", {4, 6}, DType::f32},
                                               {"s", {}, DType::f32},
                                               {"e", {0, 3}, DType::f32},
                                               {"z", {3, 0}, DType::f32},
                                               {"c", {2, 3, 4}, DType::f32}};
  {
    SafetensorsWriter writer(path, tensors);
    const auto m = counting(24, 0);
    const auto c = counting(24, 100);
    const float s = 7;
    const auto bytes = std::as_bytes(std::span(m));
    writer.write("m", {{0, 0}, {3, 6}}, bytes.first(72));
    writer.write("c", whole({2, 3, 4}), std::as_bytes(std::span(c)));  // tensors may be interleaved
    writer.write("m", {{3, 0}, {1, 6}}, bytes.subspan(72));
    writer.write("s", whole({}), std::as_bytes(std::span(&s, 1)));
    BOOST_TEST(!std::filesystem::exists(path / "model.safetensors"));  // not before finish
    writer.finish();
  }
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(path), {}) == 1);
  const auto source = open_safetensors(path);
  BOOST_TEST(source->list().size() == 5u);
  BOOST_TEST(read_all(*source, "m") == counting(24, 0), boost::test_tools::per_element());
  BOOST_TEST(read_all(*source, "s") == std::vector<float>{7}, boost::test_tools::per_element());
  std::vector<float> part(8);
  source->read("c", {{0, 1, 1}, {2, 2, 2}}, std::as_writable_bytes(std::span(part)));
  BOOST_TEST(part == (std::vector<float>{105, 106, 109, 110, 117, 118, 121, 122}), boost::test_tools::per_element());
  BOOST_CHECK_EXCEPTION(source->read("c", {{0, 0, 0}, {3, 1, 1}}, std::as_writable_bytes(std::span(part).first(3))),
                        Error, [](const Error& error) {
                          return error.code() == ExitCode::input && has(error.what(), "outside tensor 'c' (2, 3, 4)");
                        });
  BOOST_CHECK_EXCEPTION(source->read("d", {{0}, {1}}, std::as_writable_bytes(std::span(part).first(1))), Error,
                        [](const Error& error) { return error.code() == ExitCode::input; });
}

BOOST_FIXTURE_TEST_CASE(large_models_become_shards_with_an_index_that_reads_as_one, Folder) {
  const std::vector<TensorDescription> tensors{
      {"a", {10}, DType::f32}, {"b", {5}, DType::f32}, {"c", {30}, DType::f32}, {"d", {1}, DType::f32}};
  write_counting(path, tensors, {.shard_bytes = 64});
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  BOOST_TEST(names == (std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                                "model-00003-of-00003.safetensors", "model.safetensors.index.json"}),
             boost::test_tools::per_element());
  const Json index = parse_json(read_file(path / "model.safetensors.index.json"), "index");
  BOOST_TEST(index["metadata"]["total_size"] == 184);
  BOOST_TEST(index["weight_map"]["c"] == "model-00002-of-00003.safetensors");
  const auto source = open_safetensors(path);
  BOOST_TEST((source->list() == tensors));
  BOOST_TEST(read_all(*source, "c") == counting(30, 200), boost::test_tools::per_element());
  std::filesystem::remove(path / "model-00002-of-00003.safetensors");
  BOOST_CHECK_EXCEPTION(open_safetensors(path), Error, [](const Error& error) {
    return error.code() == ExitCode::input && has(error.what(), "00002-of-00003.safetensors: no such file");
  });
}

namespace {

/// What opening a folder says: its error, else its warnings and notes.
std::string said_of(const Path& path) {
  Remarks remarks;
  try {
    open_safetensors(path, remarks);
  } catch (const Error& error) {
    return fmt::format("error {}: {}|{}", static_cast<int>(error.code()), error.what(), error.hint());
  }
  std::string said;
  for (const std::string& warning : remarks.warnings) said += "warning " + warning + "\n";
  for (const std::string& note : remarks.notes) said += "note " + note + "\n";
  return said;
}

/// A file of one fp32 tensor of two values.
void write_one(const Path& folder, const std::string& file, const std::string& name, std::vector<float> values) {
  SafetensorsWriter writer(folder, {{name, {2}, DType::f32}}, {.stem = file});
  writer.write(name, whole({2}), std::as_bytes(std::span(values)));
  writer.finish();
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(an_index_lists_files_and_where_it_disagrees_with_them_is_said, Folder) {
  write_counting(path, {{"a", {2}, DType::f32}, {"b", {2}, DType::f32}}, {.stem = "part"});
  write_counting(path, {{"c", {2}, DType::f32}}, {.stem = "more"});
  const auto said = [&](const std::string& map) {
    publish_file(path / "model.safetensors.index.json", "{\"weight_map\":" + map + "}");
    return said_of(path);
  };
  BOOST_TEST(said(R"({"a":"part.safetensors","b":"part.safetensors","c":"more.safetensors"})") == "");
  BOOST_TEST(has(said(R"({"a":"part.safetensors","c":"more.safetensors"})"),
                 "note " + path.string() + "/model.safetensors.index.json: 1 tensor used although not listed: b"));
  BOOST_TEST(has(said(R"({"a":"part.safetensors","b":"more.safetensors","c":"more.safetensors"})"),
                 "1 tensor in another file than listed: b is in part.safetensors, not in more.safetensors"));
  BOOST_TEST(
      has(said(R"({"a":"part.safetensors","b":"part.safetensors","c":"more.safetensors","h":"part.safetensors"})"),
          "1 tensor listed but in no file: h"));
  BOOST_TEST(has(said(R"({"a":"part.safetensors","b":"part.safetensors"})"),
                 "warning " + (path / "more.safetensors").string() + " is ignored"));
  BOOST_TEST(has(said(R"({"a":"../part.safetensors"})"), "not a file in the folder of the index"));
  BOOST_TEST(has(said(R"({"a":7})"), "not a file in the folder of the index"));
  BOOST_TEST(has(said(R"([])"), "damaged index"));
  // a name given twice: the last one counts, as in Python
  BOOST_TEST(
      said(R"({"a":"absent.safetensors","a":"part.safetensors","b":"part.safetensors","c":"more.safetensors"})") == "");
}

BOOST_FIXTURE_TEST_CASE(of_a_tensor_in_two_files_that_of_the_last_file_counts, Folder) {
  write_one(path, "y", "w", {1, 2});
  write_one(path, "x", "w", {3, 4});
  const auto index = [&](const std::string& map) {
    publish_file(path / "model.safetensors.index.json", "{\"weight_map\":" + map + "}");
  };
  index(R"({"w":"x.safetensors","v":"y.safetensors"})");
  BOOST_TEST(read_all(*open_safetensors(path), "w") == (std::vector<float>{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(has(said_of(path), "warning " + path.string() +
                                    ": 1 tensor in two files, with different values: w in x.safetensors and "
                                    "y.safetensors; the last file is used, as in transformers"));
  std::filesystem::remove(path / "x.safetensors");
  write_one(path, "x", "w", {1, 2});
  BOOST_TEST(
      has(said_of(path), "note " + path.string() + ": 1 tensor in two files, equal in both: w in x.safetensors"));
  BOOST_TEST(!has(said_of(path), "warning"));
}

BOOST_FIXTURE_TEST_CASE(numbered_files_without_an_index_are_taken_if_they_are_all_there_and_agree, Folder) {
  write_one(path, "model-00001-of-00002", "a", {1, 2});
  BOOST_TEST(has(said_of(path), "has 1 of 2 weight files"));
  write_one(path, "model-00002-of-00002", "b", {3, 4});
  BOOST_TEST(has_safetensors(path));
  BOOST_TEST(said_of(path) ==
             "note " + path.string() + " has no model.safetensors.index.json: using the tensors of all 2 files\n");
  BOOST_TEST(read_all(*open_safetensors(path), "b") == (std::vector<float>{3, 4}), boost::test_tools::per_element());
  std::filesystem::remove(path / "model-00002-of-00002.safetensors");
  write_one(path, "model-00002-of-00002", "a", {1, 3});
  BOOST_TEST(has(said_of(path), "error 3: " + path.string() +
                                    ": 1 tensor in two files, with different values: a in "
                                    "model-00001-of-00002.safetensors and model-00002-of-00002.safetensors"));
  std::filesystem::remove(path / "model-00001-of-00002.safetensors");
  BOOST_TEST(has(said_of(path), "where model-00001-of-00002.safetensors is expected"));
}

BOOST_FIXTURE_TEST_CASE(the_same_tensors_give_the_same_bytes_with_wide_types_first, Folder) {
  const std::vector<TensorDescription> tensors{{"h", {3}, DType::bf16}, {"w", {2}, DType::i64}, {"f", {1}, DType::f32}};
  const auto write = [&](const std::string& stem) {
    SafetensorsWriter writer(path, tensors, {.stem = stem});
    writer.write("h", whole({3}), std::as_bytes(std::span("abcdef", 6)));
    writer.write("w", whole({2}), std::as_bytes(std::span("0123456789abcdef", 16)));
    writer.write("f", whole({1}), std::as_bytes(std::span("wxyz", 4)));
    writer.finish();
    return read_file(path / (stem + ".safetensors"));
  };
  const std::string bytes = write("one");
  BOOST_TEST(bytes == write("two"));
  BOOST_TEST(bytes.ends_with("0123456789abcdefwxyzabcdef"));
  BOOST_TEST((bytes.size() - 26) % 8 == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_writer_that_does_not_finish_leaves_nothing, Folder) {
  {
    SafetensorsWriter writer(path, {{"a", {2, 2}, DType::f32}});
    const auto row = counting(2, 0);
    writer.write("a", {{0, 0}, {1, 2}}, std::as_bytes(std::span(row)));
    const auto is_bug = [](const Error& error) { return error.code() == ExitCode::bug; };
    BOOST_CHECK_EXCEPTION(writer.write("a", {{0, 0}, {1, 2}}, std::as_bytes(std::span(row))), Error,
                          is_bug);  // out of order
    BOOST_CHECK_EXCEPTION(writer.write("b", {{0, 0}, {1, 2}}, std::as_bytes(std::span(row))), Error, is_bug);
    BOOST_CHECK_EXCEPTION(writer.finish(), Error, is_bug);  // a row is missing
  }
  BOOST_TEST(std::filesystem::is_empty(path));
}

BOOST_FIXTURE_TEST_CASE(a_file_that_is_cut_short_once_it_is_open_is_an_error_of_storage_that_names_it, Folder) {
  write_counting(path, {{"a", {5000}, DType::f32}, {"b", {5000}, DType::f32}});
  const auto source = open_safetensors(path);
  BOOST_TEST(read_all(*source, "b") == counting(5000, 100), boost::test_tools::per_element());
  std::filesystem::resize_file(path / "model.safetensors", 4096);
  for (const char* const name : {"a", "b"})
    BOOST_CHECK_EXCEPTION(read_all(*source, name), Error, [](const Error& error) {
      return error.code() == ExitCode::storage && has(error.what(), "model.safetensors from byte 4096 on");
    });
}

BOOST_FIXTURE_TEST_CASE(a_folder_of_pickles_is_refused_with_the_way_out, Folder) {
  publish_file(path / "pytorch_model.bin", "x");
  BOOST_CHECK_EXCEPTION(open_safetensors(path), Error,
                        [](const Error& error) { return has(error.hint(), "safe_serialization"); });
}

BOOST_AUTO_TEST_CASE(mutated_headers_end_in_entries_or_an_input_error) {
  const RandomStream random(5, "header fuzz");
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"BF16","shape":[3,1],"data_offsets":[0,6]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[6,10]},"c":{"dtype":"I64","shape":[0],"data_offsets":[10,10]}})";
  int accepted = 0;
  for (std::uint64_t round = 0; round < 3000; ++round) {
    std::string text = header;
    const std::uint64_t edits = random.below(10 * round, 4);
    for (std::uint64_t edit = 0; edit < edits; ++edit) {
      const std::uint64_t bits = random.bits(10 * round + 1 + edit);
      const std::size_t at = bits % text.size();
      switch (bits >> 60 & 3) {
        case 0: text[at] = static_cast<char>(bits >> 32 & 0xff); break;
        case 1: text.erase(at, bits >> 40 & 15); break;
        case 2: text.insert(at, 1, "0123456789-.eE[]{}\",:\\"[bits >> 32 & 15]); break;
        default: text.insert(at, text.substr(text.size() / 3, bits >> 40 & 63)); break;
      }
    }
    std::string file = file_of(text, 10);
    if (random.below(10 * round + 7, 10) == 0)
      file[random.below(10 * round + 8, 8)] = static_cast<char>(random.bits(10 * round + 9));
    if (random.below(10 * round + 6, 20) == 0) file.resize(random.below(10 * round + 5, file.size()));
    try {
      for (const SafetensorsEntry& entry : parse(file)) {
        BOOST_REQUIRE_LE(entry.end, file.size());
        BOOST_REQUIRE_EQUAL(entry.end - entry.begin, static_cast<std::uint64_t>(elements(entry.tensor.shape)) *
                                                         static_cast<std::uint64_t>(size_of(entry.tensor.dtype)));
      }
      ++accepted;
    } catch (const Error& error) {
      BOOST_REQUIRE(error.code() == ExitCode::input);
    }
  }
  BOOST_TEST(accepted > 300);
  BOOST_TEST(accepted < 2000);
}

BOOST_AUTO_TEST_SUITE_END()
