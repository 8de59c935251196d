// A plug-in with one of each part that reads, orders or measures, most of which do what a built-in one does. The option
// fault makes one of them fail.
#include "plugin/lockstep_plugin.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

namespace {

enum Place { fault, shift };

lockstep_option options[] = {{"fault", LOCKSTEP_TEXT, "", "what fails", 0, 0, 0},
                             {"shift", LOCKSTEP_INTEGER, "1", "what is added to each byte", 0, 255, 1},
                             {nullptr, LOCKSTEP_TEXT, nullptr, nullptr, 0, 0, 0}};

bool has(const lockstep_value* values, const char* name) { return std::strcmp(values[fault].text, name) == 0; }

/// All forwards, stage by stage, then all backwards: with one stage a rank that is gpipe.
const char* order(const lockstep_value* values, const lockstep_pipeline* pipeline, int rank, lockstep_pass* passes,
                  bool as_v, bool splits) {
  const int p = pipeline->ranks, last = pipeline->stages_per_rank - 1;
  if (has(values, "refuse") || pipeline->micro_batches > 8) return "there are too many of them";
  const auto stage = [&](int chunk) { return chunk * p + (as_v && chunk % 2 == 1 ? p - 1 - rank : rank); };
  lockstep_pass* next = passes;
  for (int chunk = 0; chunk <= last; ++chunk)
    for (int mb = 0; mb < pipeline->micro_batches; ++mb)
      *next++ = {LOCKSTEP_FORWARD, stage(has(values, "circle") ? last - chunk : chunk), mb};
  for (int chunk = last; chunk >= 0; --chunk)
    for (int mb = 0; mb < pipeline->micro_batches; ++mb) {
      *next++ = {splits ? LOCKSTEP_BACKWARD_INPUT : LOCKSTEP_BACKWARD, stage(chunk), mb};
      if (splits) *next++ = {LOCKSTEP_BACKWARD_WEIGHT, stage(chunk), mb};
    }
  if (has(values, "kind")) passes[0].kind = static_cast<lockstep_pass_kind>(7);
  if (has(values, "stage")) passes[0].stage = stage(0) + 1;
  if (has(values, "twice")) passes[1] = passes[0];
  if (has(values, "early")) passes[0].kind = splits ? LOCKSTEP_BACKWARD_INPUT : LOCKSTEP_BACKWARD;
  if (has(values, "halves")) (next - 1)->kind = splits ? LOCKSTEP_BACKWARD : LOCKSTEP_BACKWARD_WEIGHT;
  return nullptr;
}

template <bool as_v, bool splits>
const char* ordered(const lockstep_value* values, const lockstep_pipeline* pipeline, int rank, lockstep_pass* passes) {
  return order(values, pipeline, rank, passes, as_v, splits);
}

lockstep_pipeline_schedule pipeline_schedules[] = {{"all_forward", LOCKSTEP_LOOPED, 1, 0, ordered<false, false>},
                                                   {"waves", LOCKSTEP_V, 3, 0, ordered<true, false>},
                                                   {"halves", LOCKSTEP_V, 2, 1, ordered<true, true>},
                                                   {nullptr, LOCKSTEP_LOOPED, 1, 0, nullptr}};

/// −log soft-max[label] + weight · log² Σ exp.
template <class T>
const char* rows_of(const lockstep_value* values, int64_t rows, int64_t vocabulary, const T* logits,
                    const int32_t* labels, double* losses, T* derivative, double weight) {
  if (has(values, "loss")) return "it was told to fail";
  for (int64_t r = 0; r < rows; ++r) {
    const T* const row = logits + r * vocabulary;
    const bool counts = labels[r] >= 0 && labels[r] < vocabulary;
    double largest = row[0], sum = 0;
    for (int64_t v = 1; v < vocabulary; ++v) largest = row[v] > largest ? row[v] : largest;
    for (int64_t v = 0; v < vocabulary; ++v) sum += std::exp(row[v] - largest);
    const double log_sum = largest + std::log(sum);
    losses[r] = counts ? log_sum - row[labels[r]] + weight * log_sum * log_sum : 0;
    if (has(values, "nan")) losses[r] = std::nan("");
    if (derivative == nullptr) continue;
    for (int64_t v = 0; v < vocabulary; ++v) {
      const double slope = std::exp(row[v] - log_sum) * (1 + 2 * weight * log_sum) - (v == labels[r] ? 1 : 0);
      derivative[r * vocabulary + v] = counts ? static_cast<T>(slope) : 0;
    }
  }
  return nullptr;
}

template <class T>
const char* plain(const lockstep_value* values, int64_t rows, int64_t vocabulary, const T* logits,
                  const int32_t* labels, double* losses, T* derivative) {
  return rows_of(values, rows, vocabulary, logits, labels, losses, derivative, 0);
}

template <class T>
const char* z_loss(const lockstep_value* values, int64_t rows, int64_t vocabulary, const T* logits,
                   const int32_t* labels, double* losses, T* derivative) {
  return rows_of(values, rows, vocabulary, logits, labels, losses, derivative, 1e-2);
}

lockstep_loss losses[] = {{"plain", plain<float>, plain<double>},
                          {"z_loss", z_loss<float>, z_loss<double>},
                          {"of_floats", plain<float>, nullptr},
                          {nullptr, nullptr, nullptr}};

const char* place(const lockstep_value* values, int64_t count, const int64_t* costs, int64_t length, int64_t* row) {
  if (has(values, "refuse")) return "it was told to fail";
  int64_t present = 0, filled = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (filled + costs[i] > length && !has(values, "overfull")) {
      ++present;
      filled = 0;
    }
    filled += costs[i];
    row[i] = present;
  }
  if (has(values, "gap")) row[count - 1] = count - 1;
  if (has(values, "row")) row[0] = count;
  return nullptr;
}

std::string replaced(std::string text, const std::string& word, const std::string& by) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
  return text;
}

const char* built_in_config(const lockstep_value* values, const char* text, const char** built_in) {
  static thread_local std::string made;
  if (has(values, "config")) return "it was told to fail";
  made =
      replaced(replaced(replaced(text, "\"acme\"", has(values, "type") ? "\"acme_2\"" : "\"gpt2\""), "width", "n_embd"),
               "depth", "n_layer");
  if (has(values, "json")) made += "}";
  *built_in = has(values, "null") ? nullptr : made.c_str();
  return nullptr;
}

const char* built_in_tensor(const lockstep_value* values, const char* name, const char** built_in) {
  static thread_local std::string made;
  if (has(values, "tensor")) return "it was told to fail";
  made = replaced(name, "net.", "transformer.");
  *built_in = made.c_str();
  return nullptr;
}

lockstep_family families[] = {{"acme", built_in_config, built_in_tensor}, {nullptr, nullptr, nullptr}};

lockstep_packing packings[] = {{"in_order", "1", int64_t{1} << 40, place}, {nullptr, nullptr, 0, nullptr}};

struct Reader {
  std::ifstream file;
  std::string record;
  const lockstep_value* values;
};

const char* open_file(const lockstep_value* values, const char* path, void** self) {
  if (has(values, "open")) return "it was told to fail";
  auto* const reader = new (std::nothrow) Reader{std::ifstream(path), {}, values};
  *self = reader;
  return nullptr;
}

const char* give(Reader& reader, const char** record, int64_t* bytes) {
  if (has(reader.values, "next")) return "it was told to fail";
  if (has(reader.values, "utf8")) reader.record = "\xff";
  *record = reader.record.data();
  *bytes = has(reader.values, "size") ? -1 : static_cast<int64_t>(reader.record.size());
  return nullptr;
}

/// Documents that empty lines part.
const char* next_paragraph(void* self, const char** record, int64_t* bytes) {
  Reader& reader = *static_cast<Reader*>(self);
  reader.record.clear();
  for (std::string line; std::getline(reader.file, line);) {
    if (line.empty() && !reader.record.empty()) return give(reader, record, bytes);
    if (!line.empty()) reader.record += line + "\n";
  }
  *record = nullptr;
  return reader.record.empty() ? nullptr : give(reader, record, bytes);
}

/// Of each line a record over several lines.
const char* next_object(void* self, const char** record, int64_t* bytes) {
  Reader& reader = *static_cast<Reader*>(self);
  std::string line;
  *record = nullptr;
  if (!std::getline(reader.file, line)) return nullptr;
  reader.record = "{\n\"text\":\n\"" + line + "\"\n}";
  return give(reader, record, bytes);
}

void close_file(void* self) { delete static_cast<Reader*>(self); }

lockstep_reader readers[] = {{"paragraphs", "1", ".paras", LOCKSTEP_TEXTS, open_file, next_paragraph, close_file},
                             {"objects", "1", ".objs", LOCKSTEP_JSON_OBJECTS, open_file, next_object, close_file},
                             {nullptr, nullptr, nullptr, LOCKSTEP_TEXTS, nullptr, nullptr, nullptr}};

const char* make(const lockstep_value* values, void** self) {
  *self = const_cast<lockstep_value*>(values);
  return has(values, "make") ? "it was told to fail" : nullptr;
}

const lockstep_value* values_of(void* self) { return static_cast<const lockstep_value*>(self); }

const char* encode(void* self, const char* text, int64_t bytes, int32_t* ids, int64_t room, int64_t* count) {
  const lockstep_value* const values = values_of(self);
  if (has(values, "encode")) return "it was told to fail";
  *count = bytes;
  if (has(values, "lie")) *count = room + 1;
  if (*count > room) return nullptr;
  for (int64_t i = 0; i < bytes; ++i)
    ids[i] = static_cast<int32_t>((static_cast<unsigned char>(text[i]) + values[shift].integer) % 256);
  if (has(values, "id") && bytes > 0) ids[0] = 257;
  return nullptr;
}

const char* decode(void* self, const int32_t* ids, int64_t count, char* text, int64_t room, int64_t* bytes) {
  static const char end[] = "(the end of a text)";
  std::string whole;
  for (int64_t i = 0; i < count; ++i)
    if (ids[i] == 256)
      whole += end;
    else
      whole += static_cast<char>((ids[i] + 256 - values_of(self)[shift].integer) % 256);
  *bytes = static_cast<int64_t>(whole.size());
  if (*bytes <= room) std::memcpy(text, whole.data(), whole.size());
  return nullptr;
}

lockstep_tokenizer tokenizers[] = {
    {"letters", "1", make, [](void*) {},
     [](void* self) { return static_cast<int64_t>(has(values_of(self), "vocabulary") ? 0 : 257); },
     [](void*) { return int64_t{256}; }, encode, decode,
     [](void* self, const char*, int64_t bytes) { return has(values_of(self), "cut") ? bytes + 1 : bytes; }},
    {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr}};

/// What is not named here it does not bring.
lockstep_plugin make_table() {
  lockstep_plugin made = {};
  made.version = LOCKSTEP_PLUGIN_VERSION;
  made.name = "parts";
  made.help = "one of each part, for tests";
  made.options = options;
  made.pipeline_schedules = pipeline_schedules;
  made.losses = losses;
  made.families = families;
  made.packings = packings;
  made.readers = readers;
  made.tokenizers = tokenizers;
  return made;
}

lockstep_plugin table = make_table();

}  // namespace

extern "C" const lockstep_plugin* lockstep_plugin() { return &table; }
