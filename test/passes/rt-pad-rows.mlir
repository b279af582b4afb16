// RUN: echelon-opt %s --rt-pad-rows | FileCheck %s
// Rows of matrices begin at multiples of 16 bytes where a product reads or writes them.

!x = !rt.buffer<[batch=4, embed=64], bf16>
!w = !rt.buffer<[vocab=101, embed=64], bf16>
!y = !rt.buffer<[batch=4, vocab=101], bf16>
!f = !rt.buffer<[batch=4], f32>
!i = !rt.buffer<[batch=4], i32>
rt.function @train {
  %x = rt.alloc work : !x
  %w = rt.alloc work : !w
  %labels = rt.alloc work : !i
  %loss = rt.alloc work : !f
  %shift = rt.alloc work : !f
  %sum = rt.alloc work : !f

  // 101 elements of two bytes become 128; products, losses and loops follow.
  // CHECK: %[[Y:.*]] = rt.alloc work : <[batch=4, vocab=101], bf16, [128, 1]>
  // CHECK: rt.gemm %[[Y]], {{.*}} ld <embed=64> <embed=64> <""=128>
  // CHECK: rt.cross_entropy {{.*}} of <batch=4> <vocab=101> ld <""=128>
  // CHECK: rt.gemm %{{.*}}, %[[Y]], {{.*}} ld <""=128> <embed=64> <embed=64>
  %y = rt.alloc work : !y
  rt.gemm %y, %x, %w m <batch=4> n <vocab=101> k <embed=64> transB ld <embed=64> <embed=64> <vocab=101> : !y, !x, !w
  rt.cross_entropy %loss, %shift, %sum, %y, %labels of <batch=4> <vocab=101> : !f, !f, !f, !y, !i
  rt.fused ["batch", "vocab"] = [4, 101](%y) -> ["store"](%y) {
  ^bb0(%e: bf16):
    rt.yield %e : bf16
  } : (!y) -> (!y)
  rt.gemm %x, %y, %w m <batch=4> n <embed=64> k <vocab=101> ld <vocab=101> <embed=64> <embed=64> : !x, !y, !w

  // A kernel that takes dense rows keeps them dense.
  // CHECK: %[[Z:.*]] = rt.alloc work : <[batch=4, vocab=101], bf16>
  // CHECK: rt.gemm %[[Z]], {{.*}} <vocab=101> :
  %z = rt.alloc work : !y
  rt.gemm %z, %x, %w m <batch=4> n <vocab=101> k <embed=64> transB ld <embed=64> <embed=64> <vocab=101> : !y, !x, !w
  rt.softmax %z, %z of <batch=4> <vocab=101> <> : !y, !y
}
