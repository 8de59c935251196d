// What the other end of an output is: whether it takes colour, pictures in place and Unicode.
#pragma once

namespace lockstep {

enum class When { automatic, always, never };

/// Whether output to `fd` gets colour. Automatic: a terminal, unless NO_COLOR is set or TERM is dumb. Local.
bool use_color(When color, int fd);

/// Whether progress to `fd` is drawn in place. Automatic: on a terminal that is not dumb. Local.
bool draw_in_place(When progress, int fd);

/// Columns of the terminal at `fd`; 80 if it is none. Local.
int columns_of(int fd);

/// Whether the locale's character set is UTF-8 (LC_ALL, LC_CTYPE, LANG). Local.
bool takes_unicode();

}  // namespace lockstep
