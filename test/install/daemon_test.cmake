# Installs the programs to a prefix and gives them the two backends that were built outside of the tree: the installed
# daemon must load both, and a pod on each must get its device and leave nothing (dra-sandbox runs the installed daemon).
#   -DBUILD=<build folder> -DSOURCE=<source folder> -DWORK=<folder of install_test.cmake>
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}\n${err}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

set(prefix "${WORK}/daemon-prefix")
file(REMOVE_RECURSE "${prefix}" "${WORK}/backends")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${prefix}" --component Runtime)
file(COPY "${WORK}/acme/dra-backend-acme.so" "${WORK}/plain-c/dra-backend-plain-c.so" DESTINATION "${WORK}/backends")

run("${prefix}/bin/dra-driver" --list-backends --backend-directory "${WORK}/backends")
set(listed "${output}")
foreach(name acme plain-c)
  if(NOT listed MATCHES "dra-backend-${name}\\.so\tusable")
    message(FATAL_ERROR "dra-backend-${name}.so is not listed as usable:\n${listed}")
  endif()
  run("${prefix}/bin/dra-sandbox" run --backend "${WORK}/backends/dra-backend-${name}.so" --driver "${name}.example.com"
      --apply "${SOURCE}/test/install/one-device-pod.yaml")
  if(NOT output MATCHES "nothing is left after unprepare")
    message(FATAL_ERROR "${output}")
  endif()
endforeach()
