#include "report/device_peaks.hpp"

#include <boost/test/unit_test.hpp>

#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(device_peaks)

namespace {

double bf16_of(std::string_view name) {
  const DevicePeaks* const device = find_device(name);
  return device == nullptr ? 0 : device->of(Precision::bf16).value_or(-1);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_name_that_begins_as_another_one_is_another_device) {
  BOOST_TEST(bf16_of("NVIDIA H20") == 148);
  BOOST_TEST(bf16_of("NVIDIA H200") == 989.5);
  BOOST_TEST(bf16_of("NVIDIA H200 NVL") == 835.5);
  BOOST_TEST(bf16_of("NVIDIA H2") == 0);
  BOOST_TEST(bf16_of("NVIDIA L4") == 121);
  BOOST_TEST(bf16_of("NVIDIA L40") == 181.05);
  BOOST_TEST(bf16_of("NVIDIA L40S") == 362.05);
}

BOOST_AUTO_TEST_CASE(what_is_not_in_the_table_is_not_known) {
  for (const char* name : {"", "NVIDIA", "H100", "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
                           "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA A100X", "NVIDIA H2000", "xH200"})
    BOOST_TEST(find_device(name) == nullptr, name);
}

BOOST_AUTO_TEST_CASE(case_maker_and_what_stands_between_words_do_not_matter) {
  for (const char* name : {"NVIDIA A100-SXM4-80GB", "a100 sxm4 80gb", "A100_SXM4_80GB", "nvidia  a100-SXM4-80GB "})
    BOOST_TEST(bf16_of(name) == 312, name);
}

BOOST_AUTO_TEST_CASE(a_type_without_a_figure_has_none) {
  BOOST_TEST(bf16_of("Tesla V100-SXM2-16GB") == -1);
  BOOST_TEST(find_device("Tesla V100-SXM2-16GB")->of(Precision::fp16).value() == 125);
  BOOST_TEST(find_device("NVIDIA H200")->of(Precision::fp64).value() == 67);
  BOOST_TEST(find_device("NVIDIA H200")->of(Precision::fp32).value() == 67);
}

BOOST_AUTO_TEST_CASE(the_plug_in_runs_on_all_but_volta_and_turing) {
  for (const DevicePeaks& device : known_devices())
    BOOST_TEST(device.runs_plugin == !device.name.starts_with("Tesla "), std::string(device.name));
}

BOOST_AUTO_TEST_CASE(an_unknown_name_suggests_devices_with_its_words_or_nearly_its_spelling) {
  using Names = std::vector<std::string_view>;
  BOOST_TEST((similar_devices("A100") == Names{"NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB",
                                               "NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe"}));
  BOOST_TEST((similar_devices("nvidia a100-80gb") == Names{"NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"}));
  BOOST_TEST((similar_devices("NVIDIA H300") == Names{"NVIDIA H200"}));
  BOOST_TEST(
      (similar_devices("NVIDIA GeForce RTX 5090") == Names{"NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090"}));
  for (const char* name : {"", "NVIDIA", "AMD Instinct MI300X", "NVIDIA RTX A6000"})
    BOOST_TEST(similar_devices(name).empty(), name);
}

BOOST_AUTO_TEST_CASE(each_device_is_found_by_its_name_alone) {
  std::set<const DevicePeaks*> found;
  for (const DevicePeaks& device : known_devices()) {
    BOOST_TEST(find_device(device.name) == &device, std::string(device.name));
    found.insert(find_device(device.name));
  }
  BOOST_TEST(found.size() == known_devices().size());
}

BOOST_AUTO_TEST_SUITE_END()
