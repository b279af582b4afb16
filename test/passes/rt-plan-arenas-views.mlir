// A loop nest that reads %x element by element and again through a view (its row 0, for every row) may not write into
// its memory; one that only reads it element by element may.
// RUN: echelon-opt %s --rt-plan-arenas | FileCheck %s

!b = !rt.buffer<[seq=4, embed=16], f32>
rt.function @train {
  // CHECK: rt.alloc work at [[X:[0-9]+]]
  %x = rt.alloc work : !b
  // CHECK-NOT: rt.alloc work at [[X]]
  // CHECK: rt.alloc work at [[Y:[0-9]+]]
  %y = rt.alloc work : !b
  // CHECK: rt.alloc work at [[Y]]
  %z = rt.alloc work : !b
  %first = rt.view %x from 0 : !b -> !rt.buffer<[embed=16], f32>
  rt.fill %x with 1.0 : !b
  rt.fused ["seq", "embed"] = [4, 16](%x, %first) -> ["store"](%y) {
  ^bb0(%a: f32, %b: f32):
    %s = rt.compute "add" %a, %b : (f32, f32) -> f32
    rt.yield %s : f32
  } : (!b, !rt.buffer<[embed=16], f32>) -> (!b)
  rt.fused ["seq", "embed"] = [4, 16](%y) -> ["store"](%z) {
  ^bb0(%a: f32):
    rt.yield %a : f32
  } : (!b) -> (!b)
  rt.copy_strided %z, %z : !b, !b
}

// A buffer that nothing touches has no place, and its views go with it.
// CHECK-LABEL: rt.function @evaluate
// CHECK-NOT:   rt.alloc
// CHECK-NOT:   rt.view
rt.function @evaluate {
  %x = rt.alloc work : !b
  %row = rt.view %x from 0 : !b -> !rt.buffer<[embed=16], f32>
  %one = rt.view %row from 3 : !rt.buffer<[embed=16], f32> -> !rt.buffer<[], f32>
}
