// RUN: echelon-opt --ech-sync --split-input-file --verify-diagnostics %s

// Statistics over the batch of all workers are those of no worker.
!x = !ech.tensor<[batch=8, in=3], f32>
!m = !ech.tensor<[in=3], f32>
module attributes {dist.mesh = #dist.mesh<dp = 2 []>, ech.batch_axis = "batch"} {
run.sync "k_async" k 1 of 2 over ["dp"] staleness -1
ech.input @x 0 : !x below 0
ech.step @train {
  %x = ech.read @x : <[batch=8, in=3], f32>
  // expected-error @+1 {{E0317: this needs other samples of the step, and under sync k_async each worker has a mini-batch of its own; `local = true` takes the statistics of the mini-batch}}
  %y, %r, %m, %v, %lo = ech.normalize %x over ["batch"] : (!x) -> (!x, !m, !m, !m, !m)
  %s = ech.reduce sum %y over ["batch", "in"] : (!x) -> !ech.tensor<[], f32>
  ech.report loss "loss", %s : <[], f32>
}
}

// -----

// So is a total of the batch that each sample reads, where parameters enter it.
module attributes {dist.mesh = #dist.mesh<dp = 2 []>, ech.batch_axis = "batch"} {
run.sync "k_batch_sync" k 3 of 2 over ["dp"] staleness -1
ech.input @x 0 : !ech.tensor<[batch=8, in=3], f32> below 0
ech.variable param @w : !ech.tensor<[in=3], f32> = normal(0.0, 0.02)
ech.step @train {
  %x = ech.read @x : <[batch=8, in=3], f32>
  %w = ech.read @w : <[in=3], f32>
  %y = ech.dot %x, %w over ["in"] : (!ech.tensor<[batch=8, in=3], f32>, !ech.tensor<[in=3], f32>) -> !ech.tensor<[batch=8], f32>
  %s = ech.reduce sum %y over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
  // expected-error @+1 {{E0317: this needs other samples of the step, and under sync k_batch_sync each worker has a mini-batch of its own; leave the batch out of it, or sync every step}}
  %z = ech.map div %y, %s : (!ech.tensor<[batch=8], f32>, !ech.tensor<[], f32>) -> !ech.tensor<[batch=8], f32>
  %l = ech.reduce sum %z over ["batch"] : (!ech.tensor<[batch=8], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}
