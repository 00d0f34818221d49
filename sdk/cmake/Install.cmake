# What `cmake --install` gives.
#   component Development   dra::backend (headers, nothing linked), dra_add_backend(), find_package(dra_sdk)
#   component Testing       dra::testing with every layer below it, static; find_package(dra_sdk COMPONENTS testing)
#   component Runtime       the programs; backends/ adds each backend
# Included last: it looks at the targets that exist.
include(CMakePackageConfigHelpers)
set(DRA_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/dra_sdk")

# ---- Development
install(TARGETS dra_backend EXPORT dra_sdkTargets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/sdk/include/dra/backend" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/dra"
        COMPONENT Development FILES_MATCHING PATTERN "*.h")
install(EXPORT dra_sdkTargets NAMESPACE dra:: DESTINATION "${DRA_PACKAGE_DIR}" COMPONENT Development)
configure_package_config_file("${PROJECT_SOURCE_DIR}/sdk/cmake/dra_sdkConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/dra_sdkConfig.cmake" INSTALL_DESTINATION "${DRA_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/dra_sdkConfigVersion.cmake" COMPATIBILITY SameMajorVersion)
install(FILES "${PROJECT_BINARY_DIR}/dra_sdkConfig.cmake" "${PROJECT_BINARY_DIR}/dra_sdkConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/sdk/cmake/DraAddBackend.cmake" "${PROJECT_SOURCE_DIR}/sdk/cmake/dra_backend.map"
        DESTINATION "${DRA_PACKAGE_DIR}" COMPONENT Development)

# ---- Testing: dra::testing and all that its link lines reach inside the project.
function(dra_collect_linked target result)
  set(found ${${result}})
  if(NOT target IN_LIST found)
    list(APPEND found ${target})
    get_target_property(linked ${target} LINK_LIBRARIES)
    get_target_property(interface ${target} INTERFACE_LINK_LIBRARIES)
    foreach(item IN LISTS linked interface)
      string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
      if(TARGET "${item}")
        get_target_property(real "${item}" ALIASED_TARGET)
        if(NOT real)
          set(real "${item}")
        endif()
        get_target_property(imported ${real} IMPORTED)
        if(NOT imported AND NOT real STREQUAL "dra_backend" AND NOT real STREQUAL "dra_warnings")
          dra_collect_linked(${real} found)
        endif()
      endif()
    endforeach()
  endif()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

if(TARGET dra_testing)
  set(DRA_TESTING_TARGETS "")
  dra_collect_linked(dra_testing DRA_TESTING_TARGETS)
  foreach(target IN LISTS DRA_TESTING_TARGETS)
    string(REGEX REPLACE "^dra_" "" name ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  endforeach()
  install(TARGETS ${DRA_TESTING_TARGETS} EXPORT dra_sdkTestingTargets
          ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT Testing)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/sdk/include/dra" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
          COMPONENT Testing FILES_MATCHING PATTERN "*.h" PATTERN "backend" EXCLUDE)
  install(EXPORT dra_sdkTestingTargets NAMESPACE dra:: DESTINATION "${DRA_PACKAGE_DIR}" COMPONENT Testing)
endif()

# ---- Runtime
foreach(program dra-driver dra-sandbox)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT Runtime)
  endif()
endforeach()
