# Makes UCX::ucp and UCX::ucs from Debian's libucx-dev.
find_path(UCX_INCLUDE_DIR ucp/api/ucp.h)
find_library(UCX_UCP_LIBRARY ucp)
find_library(UCX_UCS_LIBRARY ucs)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(UCX REQUIRED_VARS UCX_UCP_LIBRARY UCX_UCS_LIBRARY UCX_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libucx-dev (./dev deps)")
if(UCX_FOUND AND NOT TARGET UCX::ucp)
  add_library(UCX::ucs UNKNOWN IMPORTED)
  set_target_properties(UCX::ucs PROPERTIES IMPORTED_LOCATION ${UCX_UCS_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${UCX_INCLUDE_DIR})
  add_library(UCX::ucp UNKNOWN IMPORTED)
  set_target_properties(UCX::ucp PROPERTIES IMPORTED_LOCATION ${UCX_UCP_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${UCX_INCLUDE_DIR} INTERFACE_LINK_LIBRARIES UCX::ucs)
endif()
