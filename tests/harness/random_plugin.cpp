// A plug-in whose table is drawn by the number in the variable TABLE: of what a careless author may have written. All
// its texts end, and all its pointers lead somewhere or nowhere.
#include "plugin/lockstep_plugin.h"

#include <array>
#include <cstdlib>
#include <random>

namespace {

std::mt19937 generator;

std::size_t below(std::size_t count) { return generator() % count; }
/// Once in so many times.
bool once_in(std::size_t times) { return below(times) == 0; }

const char* word() {
  static constexpr std::array words{"alpha", "beta", "gamma_2", "delta", "epsilon", "zeta", "eta", "theta"};
  static constexpr std::array none{"",      "Alpha", "two words", "1st",  "_",        "bytes", "adamw", "cosine",
                                   "gpipe", "none",  "optimizer", "data", "\xff\xfe", "-",     "a.b",   "a\nb"};
  return once_in(60) ? none.at(below(none.size())) : words.at(below(words.size()));
}

const char* text() {
  static constexpr std::array texts{
      "",  "0", "1",   "-1", "0.5", "1e400", "nan", "true", "maybe", "a text", "\xff", "[1, 2]", "9223372036854775808",
      "{", "#", "null"};
  return once_in(60) ? nullptr : texts.at(below(texts.size()));
}

double number() {
  static constexpr std::array numbers{0.0, 1.0, -1.0, 1e300, -1e300, 0.5, 1e15};
  return numbers.at(below(numbers.size()));
}

template <class Function>
Function function(Function whole) {
  return once_in(50) ? nullptr : whole;
}

constexpr std::size_t room = 4;
template <class Entry>
struct List {
  std::array<Entry, room> entries{};
  template <class Draw>
  const Entry* drawn(const Draw& draw) {
    if (!once_in(4)) return nullptr;
    const std::size_t count = below(room);
    for (std::size_t i = 0; i < count; ++i) entries[i] = draw();
    return entries.data();
  }
};

List<lockstep_option> options;
List<lockstep_schedule> schedules;
List<lockstep_optimizer> optimizers;
List<lockstep_callback> callbacks;
List<lockstep_recompute> recomputes;
List<lockstep_splitter> splitters;
List<lockstep_pipeline_schedule> pipeline_schedules;
List<lockstep_loss> losses;
List<lockstep_family> families;
List<lockstep_packing> packings;
List<lockstep_reader> readers;
List<lockstep_tokenizer> tokenizers;
lockstep_plugin table;

double rate(const lockstep_value*, const lockstep_schedule_facts* facts, int64_t) { return facts->peak; }
template <class T>
const char* update(const lockstep_value*, const lockstep_update*, int64_t, const T*, T*, T* const*) {
  return nullptr;
}
const char* make_callback(const lockstep_host*, void**) { return nullptr; }
void drop(void*) {}
const char* event(void*, lockstep_event, const lockstep_facts*) { return nullptr; }
const char* save(void*, const char** text) {
  *text = "";
  return nullptr;
}
const char* load(void*, const char*) { return nullptr; }
int keeps(const lockstep_value*, const lockstep_block*) { return 0; }
const char* split(const lockstep_value*, int, const char* const*, const int64_t*, int, int*) { return nullptr; }
const char* order(const lockstep_value*, const lockstep_pipeline*, int, lockstep_pass*) { return nullptr; }
template <class T>
const char* rows(const lockstep_value*, int64_t, int64_t, const T*, const int32_t*, double*, T*) {
  return nullptr;
}
const char* translate(const lockstep_value*, const char*, const char**) { return "no"; }
const char* place(const lockstep_value*, int64_t, const int64_t*, int64_t, int64_t*) { return nullptr; }
const char* open_file(const lockstep_value*, const char*, void**) { return "no"; }
const char* next(void*, const char**, int64_t*) { return "no"; }
const char* make_tokenizer(const lockstep_value*, void**) { return "no"; }
int64_t count(void*) { return 0; }
const char* encode(void*, const char*, int64_t, int32_t*, int64_t, int64_t*) { return "no"; }
const char* decode(void*, const int32_t*, int64_t, char*, int64_t, int64_t*) { return "no"; }

void draw_states(lockstep_optimizer& optimizer) {
  for (std::size_t i = 0, states = below(LOCKSTEP_MOST_STATES + 2); i < states; ++i) optimizer.states[i] = word();
}

void draw_table() {
  table.version = once_in(30) ? static_cast<int>(below(100)) : LOCKSTEP_PLUGIN_VERSION;
  table.name = once_in(20) ? nullptr : word();
  table.help = text();
  table.options = options.drawn([] {
    return lockstep_option{word(),
                           static_cast<lockstep_type>(below(once_in(20) ? 7 : 4)),
                           text(),
                           text(),
                           number(),
                           number(),
                           static_cast<int>(below(3))};
  });
  table.schedules = schedules.drawn([] { return lockstep_schedule{word(), function(rate)}; });
  table.optimizers = optimizers.drawn([] {
    lockstep_optimizer one{word(), {}, function(update<float>), function(update<double>)};
    draw_states(one);
    return one;
  });
  table.callbacks = callbacks.drawn([] {
    return lockstep_callback{word(),
                             static_cast<lockstep_state>(below(3)),
                             static_cast<int>(below(2)),
                             function(make_callback),
                             function(drop),
                             function(event),
                             function(save),
                             function(load)};
  });
  table.recomputes = recomputes.drawn([] { return lockstep_recompute{word(), function(keeps)}; });
  table.splitters = splitters.drawn([] { return lockstep_splitter{word(), function(split)}; });
  table.pipeline_schedules = pipeline_schedules.drawn([] {
    return lockstep_pipeline_schedule{word(), static_cast<lockstep_placement>(below(once_in(20) ? 4 : 2)),
                                      static_cast<int>(below(20)), static_cast<int>(below(2)), function(order)};
  });
  table.losses = losses.drawn([] { return lockstep_loss{word(), function(rows<float>), function(rows<double>)}; });
  table.families = families.drawn([] { return lockstep_family{word(), function(translate), function(translate)}; });
  table.packings =
      packings.drawn([] { return lockstep_packing{word(), text(), static_cast<int64_t>(below(20)), function(place)}; });
  table.readers = readers.drawn([] {
    static constexpr std::array suffixes{".a", ".b", ".c", ".txt", ".gz", "warc", "", "."};
    return lockstep_reader{word(),
                           text(),
                           once_in(10) ? nullptr : suffixes.at(below(suffixes.size())),
                           static_cast<lockstep_records>(below(once_in(20) ? 4 : 2)),
                           function(open_file),
                           function(next),
                           function(drop)};
  });
  table.tokenizers = tokenizers.drawn([] {
    return lockstep_tokenizer{word(),           text(),           function(make_tokenizer),
                              function(drop),   function(count),  function(count),
                              function(encode), function(decode), nullptr};
  });
}

}  // namespace

extern "C" const lockstep_plugin* lockstep_plugin() {
  const char* const number = std::getenv("TABLE");
  generator.seed(number == nullptr ? 0 : static_cast<unsigned>(std::atoi(number)));
  draw_table();
  return once_in(40) ? nullptr : &table;
}
