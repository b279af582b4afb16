// What programs alone have whose optimizer's state, or parameters, are offloaded. Apart from RtOps.td, which
// everything includes.
#ifndef RT_OFFLOAD
#define RT_OFFLOAD

include "ir/rt/RtOps.td"

def Rt_LetGoOp : Rt_Op<"let_go"> {
  let summary = "a buffer that lies in a file has been used: it leaves memory";
  let arguments = (ins Rt_Buffer:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

def Rt_WillNeedOp : Rt_Op<"will_need"> {
  let summary = "a buffer that lies in a file will soon be read: its reading is begun";
  let arguments = (ins Rt_Buffer:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

def Rt_FetchOp : Rt_Kernel<"fetch"> {
  let summary = "of a GPU: a buffer of the host is copied to the device whole";
  let arguments = (ins Out<"there">:$there, In<"here">:$here);
  let assemblyFormat = "$there `,` $here attr-dict `:` type($there) `,` type($here)";
}

def Rt_WriteBackOp : Rt_Kernel<"write_back"> {
  let summary = "of a GPU: what was fetched is copied back to the host";
  let arguments = (ins Out<"here">:$here, In<"there">:$there);
  let assemblyFormat = "$here `,` $there attr-dict `:` type($here) `,` type($there)";
}

#endif
