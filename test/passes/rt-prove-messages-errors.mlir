// RUN: echelon-opt %s --rt-prove-messages --split-input-file --verify-diagnostics

// What ranks differ in is not here: they have one text (prove/ProveTest.cpp, test/mutants/messages).

!d = !rt.buffer<[n=64], f32>

// A buffer that shares bytes of a message under way lies on it.
rt.function @train {
  %d = rt.alloc work at 0 : !d
  %on = rt.alloc work at 128 : !d
  rt.fill %d with 1.0 : !d
  // expected-note@+1 {{it is started here}}
  %t = rt.collective "all_reduce" %d, %d count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" : !d, !d -> !rt.ticket
  // expected-error-re@+1 {{E0798: internal error, please report: rt.fill {{.*}} writes what all_reduce over dp {{.*}} writes at the same time: no rt.wait orders them}}
  rt.fill %on with 1.0 : !d
  rt.wait %t
}

// -----

// What a message reads is not written meanwhile.
!d = !rt.buffer<[n=64], f32>
!row = !rt.buffer<[p=2, n=64], f32>
rt.function @train {
  %in = rt.alloc work at 0 : !d
  %all = rt.alloc work at 256 : !row
  rt.fill %in with 1.0 : !d
  // expected-note@+1 {{it is started here}}
  %t = rt.collective "all_gather" %in, %all count 64 over [1] ranks 2 "tp" with "ring" why "w" : !d, !row -> !rt.ticket
  // expected-error-re@+1 {{rt.fill {{.*}} writes what all_gather over tp {{.*}} reads at the same time: no rt.wait orders them}}
  rt.fill %in with 1.0 : !d
  rt.wait %t
}

// -----

// Two messages are in streams of their own: the second waits for nobody.
!d = !rt.buffer<[n=64], f32>
rt.function @train {
  %d = rt.alloc work at 0 : !d
  rt.fill %d with 1.0 : !d
  // expected-note@+1 {{it is started here}}
  %t = rt.collective "all_reduce" %d, %d count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" : !d, !d -> !rt.ticket
  // expected-error-re@+1 {{rt.collective {{.*}} reads what all_reduce over dp {{.*}} writes at the same time: no rt.wait orders them}}
  rt.collective "all_reduce" %d, %d count 64 "Sum" over [1] ranks 2 "tp" with "ring" why "w" : !d, !d
  rt.wait %t
}

// -----

// The slice of the first iteration is under way in the second.
!d = !rt.buffer<[n=64], f32>
!stack = !rt.buffer<[layer=4, n=64], f32>
rt.function @train {
  %d = rt.alloc work at 0 : !stack
  %all = rt.tickets 4
  rt.for "layer" = 4 {
  ^bb0(%i: index):
    %first = rt.view %d from 0 : !stack -> !d
    %here = rt.view %d from 0 plus (%i) times [64] : !stack -> !d
    // expected-error-re@+1 {{rt.fill {{.*}} writes what all_reduce over dp {{.*}} writes at the same time: no rt.wait orders them}}
    rt.fill %first with 1.0 : !d
    // expected-note@+1 {{it is started here}}
    rt.collective "all_reduce" %here, %here count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" keeps %all[%i] : !d, !d
  }
  rt.wait %all
}

// -----

// Each is waited for before the function ends.
!d = !rt.buffer<[n=64], f32>
rt.function @train {
  %d = rt.alloc work at 0 : !d
  rt.fill %d with 1.0 : !d
  // expected-error-re@+1 {{all_reduce over dp {{.*}} is started and never waited for}}
  %t = rt.collective "all_reduce" %d, %d count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" : !d, !d -> !rt.ticket
}

// -----

// How often the loop runs is not known before, so what an iteration starts ends with it.
!d = !rt.buffer<[n=64], f32>
rt.function @evaluate {
  %d = rt.alloc work at 0 : !d
  rt.fill %d with 1.0 : !d
  rt.for "batch" = 0 time {
  ^bb0(%i: index):
    // expected-error-re@+1 {{all_reduce over dp {{.*}} is not waited for in the iteration that starts it, of a loop that runs until data ends}}
    %t = rt.collective "all_reduce" %d, %d count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" : !d, !d -> !rt.ticket
  }
}

// -----

// Of two buffers in one place, the second takes what the first holds.
!d = !rt.buffer<[n=64], f32>
rt.function @train {
  %a = rt.alloc work at 0 {rt.name = "a"} : !d
  %b = rt.alloc work at 128 {rt.name = "b"} : !d
  %c = rt.alloc work at 512 {rt.name = "c"} : !d
  rt.fill %a with 1.0 : !d
  // expected-note@+1 {{it is written here}}
  rt.fill %b with 1.0 : !d
  // expected-error-re@+1 {{rt.copy_strided {{.*}} reads a, whose bytes hold b: two buffers have one place}}
  rt.copy_strided %c, %a : !d, !d
}

// -----

// A buffer is written before it is read.
!d = !rt.buffer<[n=64], f32>
rt.function @train {
  %a = rt.alloc work at 0 {rt.name = "a"} : !d
  // expected-error-re@+1 {{rt.collective {{.*}} reads a, which nothing has written}}
  rt.collective "all_reduce" %a, %a count 64 "Sum" over [0] ranks 2 "dp" with "ring" why "w" : !d, !d
}

// -----

// A message is as long as what it reads and writes.
!d = !rt.buffer<[n=64], f32>
rt.function @train {
  %a = rt.alloc work at 0 : !d
  rt.fill %a with 1.0 : !d
  // expected-error-re@+1 {{all_reduce over dp of 65 f32, Sum, with ring {{.*}} reads 65 elements of a buffer of 64}}
  rt.collective "all_reduce" %a, %a count 65 "Sum" over [0] ranks 2 "dp" with "ring" why "w" : !d, !d
}

// -----

// Under a sync policy a worker computes gradients by itself, some more than others.
!d = !rt.buffer<[n=64], f32>
module attributes {dist.mesh = #dist.mesh<pod = 2 [batch], tp = 2 [n]>} {
  run.sync "k_async" k 1 of 2 over ["pod"]
  rt.function @train {
    %a = rt.alloc work at 0 : !d
    rt.fill %a with 1.0 : !d
    rt.collective "all_reduce" %a, %a count 64 "Sum" over [1] ranks 2 "tp" with "ring" why "w" : !d, !d
    // expected-error-re@+1 {{all_reduce over pod of 64 f32, Sum, with ring {{.*}} goes to other workers, which need not run @train as often}}
    rt.collective "all_reduce" %a, %a count 64 "Sum" over [0] ranks 2 "pod" with "ring" why "w" : !d, !d
  }
}

// -----

// Where workers arrive in real time, an update may come between two operations, and finds nothing of its own under way.
!d = !rt.buffer<[n=64], f32>
module attributes {dist.mesh = #dist.mesh<pod = 2 [batch], tp = 2 [n]>} {
  run.sync "k_async" k 1 of 2 over ["pod"]
  rt.function @train {
    %a = rt.alloc work at 0 : !d
    rt.fill %a with 1.0 : !d
    // expected-note@+1 {{it is started here}}
    %t = rt.collective "all_reduce" %a, %a count 64 "Sum" over [1] ranks 2 "tp" with "ring" why "w" : !d, !d -> !rt.ticket
    // expected-error-re@+1 {{rt.progress {{.*}} writes what all_reduce over tp {{.*}} writes at the same time: no rt.wait orders them}}
    rt.progress looks
    rt.wait %t
  }
  rt.function @update {
    %b = rt.alloc work at 128 : !d
    rt.fill %b with 1.0 : !d
  }
}

// -----

// A worker whose work is no longer wanted leaves it there, and waits for nothing.
!d = !rt.buffer<[n=64], f32>
module attributes {dist.mesh = #dist.mesh<pod = 2 [batch], tp = 2 [n]>} {
  run.sync "k_sync" k 1 of 2 over ["pod"]
  rt.function @train {
    %a = rt.alloc work at 0 : !d
    rt.fill %a with 1.0 : !d
    // expected-note@+1 {{it is started here}}
    %t = rt.collective "all_reduce" %a, %a count 64 "Sum" over [1] ranks 2 "tp" with "ring" why "w" : !d, !d -> !rt.ticket
    // expected-error-re@+1 {{all_reduce over tp {{.*}} is under way where a worker may leave its work}}
    rt.progress looks
    rt.wait %t
  }
}

// -----

// Who does fewer iterations than others does not take part in the messages of the last ones.
!d = !rt.buffer<[n=64], f32>
module attributes {dist.mesh = #dist.mesh<pp = 2 [layer blocks (1, 2)]>} {
rt.function @train {
  %d = rt.alloc work at 0 : !d
  rt.fill %d with 1.0 : !d
  %own = rt.offset [0] times [] table [1, 2] over [2]
  rt.for "layer" = 2 own %own {
  ^bb0(%i: index):
    // expected-error-re@+1 {{no rank goes on: rank 1 waits for all_reduce over pp of 64 f32, Sum{{.*}}, to which rank 0 does not come; rank 0 has ended}}
    rt.collective "all_reduce" %d, %d count 64 "Sum" over [0] ranks 2 "pp" with "ring" why "w" : !d, !d
  }
}
}
