# Tests in text: a RUN line, then what its output must contain.
import os
import lit.formats

config.name = "echelon"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".ech", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt", "lit.cfg.py"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.echelon_obj_root, "test")
path = [config.echelon_tools_dir, config.llvm_tools_dir, os.environ["PATH"]]
config.environment["PATH"] = os.pathsep.join(path)
config.environment["NO_COLOR"] = "1"
config.environment["ECHELON_MACHINE"] = "typical"  # whatever the user has measured
config.environment["CXXFLAGS"] = os.environ.get("CXXFLAGS", "")  # as CTestCustom.cmake says
if os.path.exists(os.path.join(config.echelon_obj_root, "lib", "libechelon_cuda_host.a")):
    config.available_features.add("cuda")  # programs for GPUs can be emulated
config.substitutions.append(("%nvtx-tool", os.path.join(config.echelon_obj_root, "lib", "libnvtx_tool.so")))
