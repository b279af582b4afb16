// What programs for GPUs alone have beside a nest's kernels. Apart from RtOps.td, which everything includes.
#ifndef RT_TOGETHER
#define RT_TOGETHER

include "ir/rt/RtOps.td"

def Rt_TogetherOp : Rt_Op<"together", [SingleBlock, NoTerminator,
                                       DeclareOpInterfaceMethods<Touches, ["reads", "writes"]>,
                                       DeclareOpInterfaceMethods<Costed, ["cost"]>]> {
  let summary = "operations of one kind, each on a tensor of its own, in one launch";
  let description = [{
    ```mlir
    rt.together {
      rt.invoke @adamw(%w, %d_w, %m, %v, %rate) count 4096 writes [0, 2, 3]
      rt.invoke @adamw(%b, %d_b, %m_2, %v_2, %rate) count 64 writes [0, 2, 3]
    }
    ```
    Either all are rt.invoke of one rule, with the same numbers, or all are rt.add_squares to one sum, of one element
    type, that name their parameters: these are added in their order.
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$body attr-dict";
  let hasRegionVerifier = 1;
}

#endif
