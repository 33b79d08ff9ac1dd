//go:build purego || !(amd64 || arm64 || loong64 || ppc64le || riscv64)

package logzip

import "encoding/binary"

// load64 reads the eight bytes of b from i on, the first one lowest.
func load64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// store64 writes v to the eight bytes of b from i on.
func store64(b []byte, i int, v uint64) { binary.LittleEndian.PutUint64(b[i:], v) }
