// RUN: echelon-opt %s --split-input-file --rt-plan-arenas --rt-bind-buffers | FileCheck %s

// What the optimizer keeps lies in the arena as the parameters do, one moment after the other, wherever its variables
// stand: each is a Params of its own.
!w = !ech.tensor<[a=4], f32>
!b = !rt.buffer<[a=4], f32>
// CHECK: ech.variable param @w {{.*}}rt.offset = 0
ech.variable param @w : !w = constant(0.0, 0.0)
// CHECK: ech.variable optimizer @optimizer.m.w {{.*}}rt.offset = 192
ech.variable optimizer @optimizer.m.w : !w = constant(0.0, 0.0)
// CHECK: ech.variable optimizer @optimizer.v.w {{.*}}rt.offset = 320
ech.variable optimizer @optimizer.v.w : !w = constant(0.0, 0.0)
// CHECK: ech.variable state @mean {{.*}}rt.offset = 128
ech.variable state @mean : !w = constant(0.0, 0.0)
// CHECK: ech.variable param @u {{.*}}rt.offset = 64
ech.variable param @u : !w = constant(0.0, 0.0)
// CHECK: ech.variable optimizer @optimizer.m.u {{.*}}rt.offset = 256
ech.variable optimizer @optimizer.m.u : !w = constant(0.0, 0.0)
// CHECK: ech.variable optimizer @optimizer.v.u {{.*}}rt.offset = 384
ech.variable optimizer @optimizer.v.u : !w = constant(0.0, 0.0)
rt.function @train {
  // CHECK: rt.alloc state of @optimizer.v.u at 384 {rt.member = ["OptimizerState", "v.u"]}
  %v = rt.alloc state of @optimizer.v.u : !b
  // CHECK: rt.alloc state of @u at 64 {rt.member = ["Params", "u"]}
  %u = rt.alloc state of @u : !b
  rt.fill %v with 0.0 : !b
  rt.fill %u with 0.0 : !b
}

// -----

// A moment that one parameter lacks is a member of its own.
!w = !ech.tensor<[a=4], f32>
!b = !rt.buffer<[a=4], f32>
ech.variable param @w : !w = constant(0.0, 0.0)
ech.variable param @u : !w = constant(0.0, 0.0)
ech.variable optimizer @optimizer.m.u : !w = constant(0.0, 0.0)
rt.function @train {
  // CHECK: rt.alloc state of @optimizer.m.u at 128 {rt.member = ["OptimizerState", "m_u"]}
  %m = rt.alloc state of @optimizer.m.u : !b
  rt.fill %m with 0.0 : !b
}

// -----

// Nor is one that is called like a size, which its member would hide.
!w = !ech.tensor<[a=4], f32>
!b = !rt.buffer<[a=4], f32>
module attributes {rt.sizes = [{axis = "m", name = "m", size = 4}]} {
  ech.variable param @w : !w = constant(0.0, 0.0)
  ech.variable optimizer @optimizer.m.w : !w = constant(0.0, 0.0)
  rt.function @train {
    // CHECK: rt.alloc state of @optimizer.m.w at 64 {rt.member = ["OptimizerState", "m_w"]}
    %m = rt.alloc state of @optimizer.m.w : !b
    rt.fill %m with 0.0 : !b
  }
}
