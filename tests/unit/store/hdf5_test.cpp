#include "store/hdf5.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "harness/temporary_folder.hpp"

#include <fcntl.h>
#include <hdf5.h>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>

using namespace lockstep;

namespace {

constexpr DType all_types[] = {DType::f64,     DType::f32, DType::bf16, DType::f16, DType::f8_e4m3,
                               DType::f8_e5m2, DType::i64, DType::i32,  DType::i16, DType::i8,
                               DType::u64,     DType::u32, DType::u16,  DType::u8,  DType::boolean};

std::vector<std::byte> counting(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hdf5)

BOOST_FIXTURE_TEST_CASE(every_type_and_shape_comes_back_as_written, TemporaryFolder) {
  const std::vector<Shape> shapes = {{}, {0}, {3, 0, 2}, {7}, {5, 3}, {2, 3, 4, 1, 2}};
  {
    Hdf5File file = Hdf5File::create(path / "a.h5");
    for (const DType dtype : all_types) {
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        const auto bytes =
            counting(static_cast<std::size_t>(elements(shapes[i])) * static_cast<std::size_t>(size_of(dtype)));
        file.add(fmt::format("/{}/shape-{}", name_of(dtype), i), dtype, shapes[i], bytes);
      }
    }
    file.close();
  }
  const Hdf5File file = Hdf5File::open(path / "a.h5");
  BOOST_TEST(file.datasets().size() == std::size(all_types) * shapes.size());
  for (const DType dtype : all_types) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Hdf5Dataset dataset = file.dataset(fmt::format("/{}/shape-{}", name_of(dtype), i));
      BOOST_TEST((dataset.dtype == dtype));
      BOOST_TEST((dataset.shape == shapes[i]));
      std::vector<std::byte> bytes(dataset.bytes);
      file.read(dataset.path, bytes);
      BOOST_TEST((bytes ==
                  counting(static_cast<std::size_t>(elements(shapes[i])) * static_cast<std::size_t>(size_of(dtype)))));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(bytes_written_past_the_library_at_the_offset_are_the_dataset, TemporaryFolder) {
  Hdf5File file = Hdf5File::create(path / "a.h5");
  const Hdf5Dataset small = file.create_dataset("/small", DType::u8, {10});
  const Hdf5Dataset large = file.create_dataset("/group/large", DType::f32, {64, 64});
  file.close();
  BOOST_TEST(large.offset % 4096 == 0u);
  const auto bytes = counting(large.bytes);
  const FileDescriptor raw = open_file(path / "a.h5", O_RDWR);
  write_at(raw, bytes, large.offset, path / "a.h5");
  write_at(raw, std::span(bytes).first(10), small.offset, path / "a.h5");
  const Hdf5File again = Hdf5File::open(path / "a.h5");
  std::vector<std::byte> read(large.bytes);
  again.read("/group/large", read);
  BOOST_TEST((read == bytes));
  BOOST_TEST(again.dataset("/group/large").offset == large.offset);
}

BOOST_FIXTURE_TEST_CASE(equal_content_gives_equal_files, TemporaryFolder) {
  for (const char* name : {"a.h5", "b.h5"}) {
    Hdf5File file = Hdf5File::create(path / name);
    file.add("/x/y", DType::i32, {2000}, counting(8000));
    file.set_attribute("/x/y", "unit", "tokens");
    file.set_attribute("/", "count", 17);
    file.close();
  }
  BOOST_TEST((read_file(path / "a.h5") == read_file(path / "b.h5")));
}

BOOST_FIXTURE_TEST_CASE(attributes_are_what_the_library_itself_reads, TemporaryFolder) {
  Hdf5File file = Hdf5File::create(path / "a.h5");
  file.add("/x", DType::u8, {1}, counting(1));
  file.set_attribute("/x", "name", "größe");
  file.set_attribute("/x", "empty", "");
  file.set_attribute("/", "count", -5);
  file.close();
  const hid_t raw = H5Fopen((path / "a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const auto text = [&](const char* name) {
    const hid_t attribute = H5Aopen_by_name(raw, "/x", name, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t type = H5Aget_type(attribute);
    std::string value(H5Tget_size(type), '?');
    BOOST_TEST(H5Aread(attribute, type, value.data()) >= 0);
    H5Tclose(type);
    H5Aclose(attribute);
    return value;
  };
  BOOST_TEST(text("name") == "größe");
  BOOST_TEST(text("empty") == std::string(1, '\0'));
  std::int64_t count = 0;
  const hid_t attribute = H5Aopen(raw, "count", H5P_DEFAULT);
  BOOST_TEST(H5Aread(attribute, H5T_NATIVE_INT64, &count) >= 0);
  BOOST_TEST(count == -5);
  H5Aclose(attribute);
  H5Fclose(raw);
  const Hdf5File again = Hdf5File::open(path / "a.h5");
  BOOST_TEST(again.has("/x"));
  BOOST_TEST(!again.has("/no/such/path"));
}

BOOST_FIXTURE_TEST_CASE(what_no_file_has_of_a_virtual_dataset_is_no_number_or_zero, TemporaryFolder) {
  {
    Hdf5File file = Hdf5File::create(path / "view.h5");
    for (const DType dtype : all_types) {
      const std::vector<Hdf5Mapping> mappings{{{{1}, {2}}, "absent.h5", "/100%d", {{3, 0}, {1, 2}}}};
      file.create_virtual(fmt::format("/{}", name_of(dtype)), dtype, {4}, mappings);
    }
    file.close();
  }
  const hid_t file = H5Fopen((path / "view.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  for (const DType dtype : all_types) {
    const hid_t dataset = H5Dopen2(file, std::string(name_of(dtype)).c_str(), H5P_DEFAULT);
    std::array<double, 4> values{1, 1, 1, 1};
    BOOST_TEST(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
    const bool has_nan = dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
    for (const double value : values) BOOST_TEST((has_nan ? std::isnan(value) : value == 0), name_of(dtype));
    H5Dclose(dataset);
  }
  H5Fclose(file);
}

BOOST_FIXTURE_TEST_CASE(a_type_named_by_several_texts_is_none_and_datasets_larger_than_their_file_are_refused,
                        TemporaryFolder) {
  const hid_t file = H5Fcreate((path / "a.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t many = 1000;
  const hid_t list = H5Screate_simple(1, &many, nullptr);
  const hid_t letters = H5Tcopy(H5T_C_S1);
  H5Tset_size(letters, 4);
  const hid_t bytes = H5Dcreate2(file, "bytes", H5T_STD_U8LE, list, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(bytes, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, counting(many).data());
  H5Aclose(H5Acreate2(bytes, "dtype", letters, list, H5P_DEFAULT, H5P_DEFAULT));
  H5Dclose(bytes);
  const hsize_t vast = hsize_t{1} << 62;
  const hid_t space = H5Screate_simple(1, &vast, nullptr);
  H5Dclose(H5Dcreate2(file, "vast", H5T_STD_U64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Fclose(file);
  const Hdf5File read = Hdf5File::open(path / "a.h5");
  BOOST_TEST((read.dataset("/bytes").dtype == DType::u8));
  BOOST_CHECK_EXCEPTION(read.dataset("/vast"), Error,
                        [](const Error& error) { return error.code() == ExitCode::input; });
}

BOOST_FIXTURE_TEST_CASE(files_that_are_absent_foreign_or_in_the_way_are_errors_that_name_them, TemporaryFolder) {
  publish_file(path / "text.h5", "this is no HDF5 file");
  const auto says = [&](ExitCode code, const std::string& part) {
    return [=](const Error& error) {
      return error.code() == code && std::string(error.what()).find(part) != std::string::npos;
    };
  };
  BOOST_CHECK_EXCEPTION(Hdf5File::open(path / "absent.h5"), Error, says(ExitCode::input, "absent.h5: no such file"));
  BOOST_CHECK_EXCEPTION(Hdf5File::open(path / "text.h5"), Error, says(ExitCode::input, "text.h5"));
  BOOST_CHECK_EXCEPTION(Hdf5File::create(path / "text.h5"), Error, says(ExitCode::storage, "text.h5"));
  Hdf5File file = Hdf5File::create(path / "a.h5");
  BOOST_CHECK_EXCEPTION(file.dataset("/x"), Error, says(ExitCode::storage, "open dataset /x of"));
}

BOOST_AUTO_TEST_SUITE_END()
