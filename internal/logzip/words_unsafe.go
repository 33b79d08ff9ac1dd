//go:build !purego && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package logzip

import "unsafe"

// load64 reads the eight bytes of b from i on, the first one lowest. The caller
// sees to it that 0 <= i and i+8 <= cap(b): nothing checks it here.
func load64(b []byte, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// store64 writes v to the eight bytes of b from i on, under the same terms.
func store64(b []byte, i int, v uint64) {
	*(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i)) = v
}
