// RUN: echelon-opt %s --mlir-print-debuginfo --split-input-file --shape-program | echelon-translate --split-input-file --rt-to-cpp | FileCheck %s

!row = !rt.buffer<[embed=8], f32>
!stack = !rt.buffer<[layer=3, embed=8], f32>

// A message that one function starts and another one waits for is under way in between, whatever their phases.
// CHECK-LABEL: train one.
// CHECK:       struct Messages {
// CHECK-NEXT:    Ticket all_reduce_of_x;
// CHECK:         messages.all_reduce_of_x = all_reduce_start(
// CHECK:         wait(messages.all_reduce_of_x);
// CHECK:       void step(Rank &r, double /*lr*/) {
// CHECK-NEXT:    Messages messages;
// CHECK-NEXT:    update(r, messages);
// CHECK-NEXT:    backward(r);
// CHECK-NEXT:    update_2(r, messages);
// CHECK-NEXT:  }
run.train "one" of "M" in "" folder "." batch 8 steps 3 seed 0
rt.function @train {
  %x = rt.alloc work at 0 : !row loc("x")
  %y = rt.alloc work at 64 : !row loc("y")
  rt.fill %x with 1.0 {ech.phase = "update"} : !row
  %t = rt.collective "all_reduce" %x, %x count 8 "Sum" over [0] ranks 2 "dp" with "ring" why "t"
      {ech.phase = "update", rt.group = 0 : i64} : !row, !row -> !rt.ticket
  rt.fill %y with 0.0 {ech.phase = "backward"} : !row
  rt.wait %t {ech.phase = "update"}
}

// -----

!row = !rt.buffer<[embed=8], f32>
!stack = !rt.buffer<[layer=3, embed=8], f32>

// Tickets of a loop's iterations are an array, declared before the loop where the same function waits.
// CHECK-LABEL: train array.
// CHECK:       void backward(Rank &r) {
// CHECK-NEXT:    Ticket all_reduce_of_x[3];
// CHECK:           all_reduce_of_x[l] = all_reduce_start(r, r.group(0), x_l, 8, Sum, {Algorithm::ring, "messages.mlir:{{[0-9]+}}"});
// CHECK:         wait(all_reduce_of_x);
run.train "array" of "M" in "" folder "." batch 8 steps 3 seed 0
rt.function @train {
  %x = rt.alloc work at 0 : !stack loc("x")
  %each = rt.tickets 3 {ech.phase = "backward"}
  rt.fill %x with 1.0 {ech.phase = "backward"} : !stack
  rt.for "layer" = 3 reverse {
  ^bb0(%i: index):
    %part = rt.view %x from 0 plus(%i) times [8] : !stack -> !row
    rt.collective "all_reduce" %part, %part count 8 "Sum" over [0] ranks 2 "dp" with "ring" why "t" keeps %each[%i]
        {ech.phase = "backward", rt.group = 0 : i64} : !row, !row
  } {ech.phase = "backward"}
  rt.wait %each {ech.phase = "backward"}
}

// -----

!row = !rt.buffer<[embed=8], f32>
!stack = !rt.buffer<[layer=3, embed=8], f32>

// Where another function waits, the array is a member.
// CHECK-LABEL: train member.
// CHECK:       struct Messages {
// CHECK-NEXT:    Ticket all_reduce_of_x[3];
// CHECK-NEXT:  };
// CHECK:           messages.all_reduce_of_x[l] = all_reduce_start(
// CHECK:         wait(messages.all_reduce_of_x);
run.train "member" of "M" in "" folder "." batch 8 steps 3 seed 0
rt.function @train {
  %x = rt.alloc work at 0 : !stack loc("x")
  %each = rt.tickets 3 {ech.phase = "backward"}
  rt.fill %x with 1.0 {ech.phase = "backward"} : !stack
  rt.for "layer" = 3 reverse {
  ^bb0(%i: index):
    %part = rt.view %x from 0 plus(%i) times [8] : !stack -> !row
    rt.collective "all_reduce" %part, %part count 8 "Sum" over [0] ranks 2 "dp" with "ring" why "t" keeps %each[%i]
        {ech.phase = "backward", rt.group = 0 : i64} : !row, !row
  } {ech.phase = "backward"}
  rt.wait %each {ech.phase = "update"}
}

// -----

!whole = !rt.buffer<[batch=3, seq=4, embed=8], f32>
!part = !rt.buffer<[batch=3, seq=2, embed=8], f32>

// Rows in runs: how many there are, and how long they are. The line of the spec goes along, for who waits in vain.
// CHECK-LABEL: train rows.
// CHECK:         reduce_scatter_inner(r, r.group(0), y, x, 3, 16, Sum, {Algorithm::ring, "mlp.ech:33"});
// CHECK:         = all_gather_inner_start(r, r.group(0), x, y, 3, 16, "a\"b.ech:7");
run.train "rows" of "M" in "" folder "." batch 3 steps 3 seed 0
rt.function @train {
  %x = rt.alloc work at 0 : !whole loc("x")
  %y = rt.alloc work at 384 : !part loc("y")
  rt.fill %x with 1.0 : !whole
  rt.collective "reduce_scatter" %x, %y count 48 runs 3 "Sum" over [0] ranks 2 "dp" with "ring" why "t"
      {rt.group = 0 : i64} : !whole, !part loc("mlp.ech":33:3)
  %t = rt.collective "all_gather" %y, %x count 48 runs 3 over [0] ranks 2 "dp" with "automatic" why "t"
      {rt.group = 0 : i64} : !part, !whole -> !rt.ticket loc("a\"b.ech":7:1)
  rt.wait %t
}
