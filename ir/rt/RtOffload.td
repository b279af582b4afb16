// What programs alone have whose optimizer's state is offloaded. Apart from RtOps.td, which everything includes.
#ifndef RT_OFFLOAD
#define RT_OFFLOAD

include "ir/rt/RtOps.td"

def Rt_LetGoOp : Rt_Op<"let_go"> {
  let summary = "a buffer that lies in a file has been used: it leaves memory";
  let arguments = (ins Rt_Buffer:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

#endif
