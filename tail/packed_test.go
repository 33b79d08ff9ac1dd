package tail

import (
	"bytes"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// packedBytes compresses as the command does that gives a name this ending.
func packedBytes(suffix string, text []byte) []byte {
	var b bytes.Buffer
	if suffix == ".gz" {
		z := gzip.NewWriter(&b)
		_, _ = z.Write(text)
		_ = z.Close()
		return b.Bytes()
	}
	z, err := zstd.NewWriter(&b)
	if err != nil {
		panic(err)
	}
	_, _ = z.Write(text)
	_ = z.Close()
	return b.Bytes()
}
