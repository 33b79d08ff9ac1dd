package logzip_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"kusto-agent/internal/logzip"
)

// Payloads of one stream share tables; each is a gzip member that any decoder reads.
func ExampleEncoder() {
	var enc logzip.Encoder
	var stream logzip.Tables
	for i := range 2 {
		payload := fmt.Appendf(nil, "request %d took 12 ms\n", i)
		member := enc.Append(make([]byte, 0, logzip.MaxLen(len(payload))), &stream, payload)
		r, err := gzip.NewReader(bytes.NewReader(member))
		if err != nil {
			panic(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s", text)
	}
	// Output:
	// request 0 took 12 ms
	// request 1 took 12 ms
}
