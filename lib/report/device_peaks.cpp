#include "report/device_peaks.hpp"

#include "base/text.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <cctype>

namespace lockstep {

namespace {

constexpr std::optional<double> none = std::nullopt;
constexpr bool below_8_0 = false;  // runs_plugin

/// A name without what may be left out: its words in lower case, with one blank between.
std::string words_of_name(std::string_view name) {
  std::string words;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '.')
      words += static_cast<char>(std::tolower(byte));
    else if (!words.empty() && words.back() != ' ')
      words += ' ';
  }
  while (!words.empty() && words.back() == ' ') words.pop_back();
  for (const std::string_view maker : {"nvidia ", "tesla ", "geforce "})
    if (words.starts_with(maker)) words.erase(0, maker.size());
  return words;
}

bool has_words(const std::string& name, const std::string& words) {
  const std::vector<std::string> all = split(name, ' ');
  return std::ranges::all_of(split(words, ' '),
                             [&](const std::string& word) { return std::ranges::find(all, word) != all.end(); });
}

}  // namespace

std::optional<double> DevicePeaks::of(Precision type) const {
  switch (type) {
    case Precision::bf16: return bf16;
    case Precision::fp16: return fp16;
    case Precision::fp32: return fp32;
    case Precision::fp64: return fp64;
  }
  return std::nullopt;
}

// Data sheets of NVIDIA, and where these tell only of sparse matrices, half of that. fp32 without TF32; fp64 with the
// units for matrices where there are such.
const std::vector<DevicePeaks>& known_devices() {
  static const std::vector<DevicePeaks> devices{
      // Tesla V100 data sheet, January 2020
      {"Tesla V100-SXM2-16GB", 16, none, 125, 15.7, 7.8, below_8_0},
      {"Tesla V100-SXM2-32GB", 32, none, 125, 15.7, 7.8, below_8_0},
      {"Tesla V100-PCIE-16GB", 16, none, 112, 14, 7, below_8_0},
      {"Tesla V100-PCIE-32GB", 32, none, 112, 14, 7, below_8_0},
      // T4 data sheet, March 2019
      {"Tesla T4", 16, none, 65, 8.1, none, below_8_0},
      // A100 data sheet, June 2021
      {"NVIDIA A100-SXM4-40GB", 40, 312, 312, 19.5, 19.5},
      {"NVIDIA A100-SXM4-80GB", 80, 312, 312, 19.5, 19.5},
      {"NVIDIA A100-PCIE-40GB", 40, 312, 312, 19.5, 19.5},
      {"NVIDIA A100 80GB PCIe", 80, 312, 312, 19.5, 19.5},
      // A30, A10 and A40 data sheets, 2021 and 2022
      {"NVIDIA A30", 24, 165, 165, 10.3, 10.3},
      {"NVIDIA A10", 24, 125, 125, 31.2, none},
      {"NVIDIA A40", 48, 149.7, 149.7, 37.4, none},
      // L4, L40 and L40S data sheets, 2023
      {"NVIDIA L4", 24, 121, 121, 30.3, none},
      {"NVIDIA L40", 48, 181.05, 181.05, 90.5, none},
      {"NVIDIA L40S", 48, 362.05, 362.05, 91.6, none},
      // H100 data sheet, September 2024: SXM and NVL; PCIe: that of 2022
      {"NVIDIA H100 80GB HBM3", 80, 989.5, 989.5, 67, 67},
      {"NVIDIA H100 SXM", 80, 989.5, 989.5, 67, 67},
      {"NVIDIA H100 NVL", 94, 835.5, 835.5, 60, 60},
      {"NVIDIA H100 PCIe", 80, 756, 756, 51, 51},
      // H200 data sheet, November 2024
      {"NVIDIA H200", 141, 989.5, 989.5, 67, 67},
      {"NVIDIA H200 NVL", 141, 835.5, 835.5, 60, 60},
      // H20, as its distributors give NVIDIA's figures
      {"NVIDIA H20", 96, 148, 148, 44, 1},
      // GH200 data sheet, 2024: its Hopper part
      {"NVIDIA GH200 480GB", 96, 989.5, 989.5, 67, 67},
      // HGX B200 and GB200 NVL72, divided by their 8 and 72
      {"NVIDIA B200", 180, 2250, 2250, 75, 37},
      {"NVIDIA GB200", 186, 2500, 2500, 80, 40},
      // Architecture papers of Ampere GA102 and Ada: sums in fp32
      {"NVIDIA GeForce RTX 3090", 24, 71, 71, 35.6, none},
      {"NVIDIA GeForce RTX 4090", 24, 165.2, 165.2, 82.6, none},
  };
  return devices;
}

const DevicePeaks* find_device(std::string_view name) {
  const std::string words = words_of_name(name);
  for (const DevicePeaks& device : known_devices())
    if (words_of_name(device.name) == words) return &device;
  return nullptr;
}

std::vector<std::string_view> similar_devices(std::string_view name) {
  const std::string words = words_of_name(name);
  std::vector<std::string_view> with_words, nearest;
  std::size_t least = 0;
  for (const DevicePeaks& device : known_devices()) {
    const std::string known = words_of_name(device.name);
    if (!words.empty() && has_words(known, words)) with_words.push_back(device.name);
    const std::optional<std::size_t> distance = misspelling(words, known);
    if (!distance || (!nearest.empty() && *distance > least)) continue;
    if (*distance < least) nearest.clear();
    nearest.push_back(device.name);
    least = *distance;
  }
  return with_words.empty() ? nearest : with_words;
}

}  // namespace lockstep
