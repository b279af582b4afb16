// RUN: echelon-opt %s --mlir-print-debuginfo --rt-plan-arenas --shape-program | echelon-translate --rt-to-cpp | FileCheck %s

// Moments are a Params each, which begin at bytes of their own. A parameter may be called as the program calls them.
!w = !ech.tensor<[a=4], f32>
!b = !rt.buffer<[a=4], f32>
run.train "t" of "M" in "" folder "." batch 8 steps 3 seed 0
ech.variable param @first : !w = constant(0.0, 0.0)
ech.variable param @from : !w = constant(0.0, 0.0)
ech.variable optimizer @optimizer.m.first : !w = constant(0.0, 0.0)
ech.variable optimizer @optimizer.m.from : !w = constant(0.0, 0.0)

// CHECK:      struct Params {
// CHECK-NEXT:   Rank &r;
// CHECK-NEXT:   int64_t from = 0;
// CHECK-NEXT:   float *first = r.state<float>(from);
// CHECK-NEXT:   float *from_ = r.state<float>(from + 64);
// CHECK:      struct OptimizerState {
// CHECK-NEXT:   Rank &r;
// CHECK-NEXT:   Params m{r, 128};
// CHECK-NEXT: };

// CHECK:   fill(p.from_, a, 0.0f);
// CHECK:   fill(opt.m.from_, a, 0.0f);
rt.function @train {
  %first = rt.alloc state of @first : !b loc("first")
  %from = rt.alloc state of @from : !b loc("from")
  %m = rt.alloc state of @optimizer.m.from : !b loc("m")
  rt.fill %first with 0.0 : !b
  rt.fill %from with 0.0 : !b
  rt.fill %m with 0.0 : !b
}

// CHECK:   p.store(Stored::Param, "first", "a=4", {Init::Zeros}, 0);
// CHECK:   p.store(Stored::Param, "from", "a=4", {Init::Zeros}, 64);
// CHECK-NEXT: p.storeMoments("m", 128);
