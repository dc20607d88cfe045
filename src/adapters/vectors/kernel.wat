;; Distances of one query to many rows, with 128-bit SIMD. Rows are contiguous, and a multiple of 16 bytes long.
;; Compiled into arena.ts: wat2wasm kernel.wat --output=- | base64 -w0
(module
  (import "kernel" "memory" (memory 1 65536))

  ;; out[i] (i32) = the dot product of the int8 vectors at `query` and at `rows + i * size`.
  (func (export "dot") (param $query i32) (param $rows i32) (param $count i32) (param $size i32) (param $out i32)
    (local $row i32) (local $at i32) (local $sum v128) (local $a v128) (local $b v128)
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $row) (local.get $count)))
      (local.set $sum (v128.const i32x4 0 0 0 0))
      (local.set $at (i32.const 0))
      (loop $lanes
        (local.set $a (v128.load (i32.add (local.get $query) (local.get $at))))
        (local.set $b (v128.load (i32.add (local.get $rows) (local.get $at))))
        (local.set $sum (i32x4.add (local.get $sum) (i32x4.add
          (i32x4.extadd_pairwise_i16x8_s (i16x8.extmul_low_i8x16_s (local.get $a) (local.get $b)))
          (i32x4.extadd_pairwise_i16x8_s (i16x8.extmul_high_i8x16_s (local.get $a) (local.get $b))))))
        (br_if $lanes (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 16))) (local.get $size))))
      (i32.store (local.get $out) (i32.add
        (i32.add (i32x4.extract_lane 0 (local.get $sum)) (i32x4.extract_lane 1 (local.get $sum)))
        (i32.add (i32x4.extract_lane 2 (local.get $sum)) (i32x4.extract_lane 3 (local.get $sum)))))
      (local.set $out (i32.add (local.get $out) (i32.const 4)))
      (local.set $rows (i32.add (local.get $rows) (local.get $size)))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br $next))))

  ;; out[i] (i32) = the number of bits that differ between those at `query` and at `rows + i * size`.
  (func (export "hamming") (param $query i32) (param $rows i32) (param $count i32) (param $size i32) (param $out i32)
    (local $row i32) (local $at i32) (local $sum v128)
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $row) (local.get $count)))
      (local.set $sum (v128.const i32x4 0 0 0 0))
      (local.set $at (i32.const 0))
      (loop $lanes
        (local.set $sum (i16x8.add (local.get $sum) (i16x8.extadd_pairwise_i8x16_u (i8x16.popcnt (v128.xor
          (v128.load (i32.add (local.get $query) (local.get $at)))
          (v128.load (i32.add (local.get $rows) (local.get $at))))))))
        (br_if $lanes (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 16))) (local.get $size))))
      (local.set $sum (i32x4.extadd_pairwise_i16x8_u (local.get $sum)))
      (i32.store (local.get $out) (i32.add
        (i32.add (i32x4.extract_lane 0 (local.get $sum)) (i32x4.extract_lane 1 (local.get $sum)))
        (i32.add (i32x4.extract_lane 2 (local.get $sum)) (i32x4.extract_lane 3 (local.get $sum)))))
      (local.set $out (i32.add (local.get $out) (i32.const 4)))
      (local.set $rows (i32.add (local.get $rows) (local.get $size)))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br $next)))))
