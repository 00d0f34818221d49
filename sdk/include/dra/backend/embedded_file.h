#pragma once

#include <cstddef>
#include <string_view>

// A file put into the backend's library as it is, such as the program of an OCI hook (Host::SharedFile brings it to the
// host). Once in one source, at global scope; symbol: unique in the library, path: a string literal of an absolute path
// at build time. The bytes are DRA_EMBEDDED(symbol), a std::string_view that stays valid.
//
//   DRA_EMBEDDED_FILE(acme_hook, ACME_HOOK);   // the build defines ACME_HOOK
//   std::string_view HookProgram() { return DRA_EMBEDDED(acme_hook); }
#define DRA_EMBEDDED_FILE(symbol, path)                                     \
  __asm__(                                                                  \
      ".pushsection .rodata\n"                                              \
      ".global " #symbol                                                    \
      "_begin\n"                                                            \
      ".hidden " #symbol "_begin\n" #symbol                                 \
      "_begin:\n"                                                           \
      ".incbin \"" path                                                     \
      "\"\n"                                                                \
      ".global " #symbol                                                    \
      "_end\n"                                                              \
      ".hidden " #symbol "_end\n" #symbol                                   \
      "_end:\n"                                                             \
      ".popsection\n");                                                     \
  extern "C" {                                                              \
  extern const char symbol##_begin[] __attribute__((visibility("hidden"))); \
  extern const char symbol##_end[] __attribute__((visibility("hidden")));   \
  }                                                                         \
  static_assert(true)

#define DRA_EMBEDDED(symbol) \
  std::string_view(symbol##_begin, static_cast<size_t>(symbol##_end - symbol##_begin))
