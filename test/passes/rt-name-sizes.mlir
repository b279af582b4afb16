// RUN: echelon-opt %s --rt-name-sizes | FileCheck %s

// An axis has its name at its own size. A part of it has the name where nothing has the whole (head), else the mesh axis
// after it (seq); other sizes of an axis have none: nothing splits row.
// CHECK: rt.sizes = [
// CHECK-SAME: {axis = "seq", name = "seq", size = 64 : i64}
// CHECK-SAME: {axis = "seq", name = "seq_tp", over = ["tp"], size = 32 : i64, whole = 64 : i64}
// CHECK-SAME: {axis = "head", name = "head", over = ["tp"], size = 2 : i64, whole = 4 : i64}
// CHECK-SAME: {axis = "row", name = "row", size = 28 : i64}
// CHECK-SAME: {axis = "past", name = "past", size = 64 : i64}
// CHECK-NOT:  size = 14
// CHECK-NOT:  "message"
module attributes {dist.mesh = #dist.mesh<tp = 2 [seq, head]>, rt.axes = {past = 64 : i64}} {
  ech.variable param @w : !ech.tensor<[seq=64, head=4, row=28], f32> = constant(0.0, 0.0)
  rt.function @train {
    %a = rt.alloc work at 0 : !rt.buffer<[seq=64, head=2, row=28], f32>
    %b = rt.alloc work at 0 : !rt.buffer<[seq=32, row=14, message=96], f32>
    %c = rt.alloc work at 0 : !rt.buffer<[past=64], f32>
  }
}
