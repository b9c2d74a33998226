# install() rules and the package that find_package(silt) reads.
include(CMakePackageConfigHelpers)

install(TARGETS silt EXPORT siltTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS silt_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET silt-bench) # beside silt, which hands over to it
  install(TARGETS silt-bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/silt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT siltTargets NAMESPACE silt:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/silt)
configure_package_config_file(cmake/siltConfig.cmake.in ${PROJECT_BINARY_DIR}/siltConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/silt)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/siltConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/siltConfig.cmake ${PROJECT_BINARY_DIR}/siltConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/silt)
