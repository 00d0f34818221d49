# One static library per layer of sdk/; the link lines are the proof of the layer order.

add_library(dra_warnings INTERFACE)
add_library(dra::warnings ALIAS dra_warnings)
target_compile_options(dra_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wconversion>
  $<$<BOOL:${DRA_WERROR}>:-Werror>)

if(DRA_SANITIZE)
  add_compile_options(-fsanitize=${DRA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${DRA_SANITIZE})
endif()
# Coverage for libFuzzer in every layer; the targets themselves link the fuzzer: test/fuzz/CMakeLists.txt.
if(DRA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# dra_add_layer(<layer> SOURCES <file>... [USES <dra layer>...] [PUBLIC <target>...] [PRIVATE <target>...])
# Sources are relative to the calling directory (sdk/src/<layer>). USES names the layers that stand below it.
function(dra_add_layer layer)
  cmake_parse_arguments(arg "" "" "SOURCES;USES;PUBLIC;PRIVATE" ${ARGN})
  add_library(dra_${layer} STATIC ${arg_SOURCES})
  add_library(dra::${layer} ALIAS dra_${layer})
  set_target_properties(dra_${layer} PROPERTIES EXPORT_NAME ${layer} OUTPUT_NAME dra_${layer})
  target_include_directories(dra_${layer}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/sdk/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/sdk/src)
  target_compile_features(dra_${layer} PUBLIC cxx_std_20)
  list(TRANSFORM arg_USES PREPEND "dra::")
  target_link_libraries(dra_${layer} PUBLIC ${arg_USES} ${arg_PUBLIC} PRIVATE $<BUILD_INTERFACE:dra::warnings> ${arg_PRIVATE})
endfunction()

# Under ThreadSanitizer every test program gets test/support/tsan_absl_mutex.cc, which makes abseil's locks visible.
if(DRA_SANITIZE MATCHES "thread")
  add_library(dra_tsan_locks OBJECT "${PROJECT_SOURCE_DIR}/test/support/tsan_absl_mutex.cc")
  target_link_libraries(dra_tsan_locks PUBLIC absl::synchronization)
  target_compile_features(dra_tsan_locks PUBLIC cxx_std_20)
  file(STRINGS "${PROJECT_SOURCE_DIR}/test/support/tsan_wrapped_symbols.txt" wrapped_symbols)
  list(TRANSFORM wrapped_symbols PREPEND "LINKER:--wrap=")
  target_link_options(dra_tsan_locks INTERFACE ${wrapped_symbols})
endif()

# Every test program that has the label "threaded": what the TSan run builds.
add_custom_target(threaded_tests)

# dra_add_test(<name> SOURCES <file>... LINK <target>... [LABELS <label>...] [DEFINES <X=Y>...])
# One gtest program; each TEST in it is one ctest test.
function(dra_add_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;LABELS;DEFINES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/sdk/src)
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_definitions(${name} PRIVATE DRA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ${arg_DEFINES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} dra::warnings GTest::gmock GTest::gtest GTest::gtest_main)
  if(TARGET dra_tsan_locks)
    target_link_libraries(${name} PRIVATE dra_tsan_locks)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:dra_tsan_locks>)
  endif()
  # "long": whole processes or disks, over and over; what they run is tested under sanitizers by other programs.
  if("long" IN_LIST arg_LABELS AND DRA_SANITIZE)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  if("threaded" IN_LIST arg_LABELS)
    add_dependencies(threaded_tests ${name})
  endif()
  set(timeout 120)
  if("long" IN_LIST arg_LABELS)
    set(timeout 400)
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${timeout} LABELS "${arg_LABELS}")
endfunction()
