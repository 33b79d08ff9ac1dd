package logzip

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	kgzip "github.com/klauspost/compress/gzip"

	"kusto-agent/internal/logzip/corpus"
)

// FuzzStream compresses a stream of payloads that the input describes: four bytes
// each say what the text is, where in it the payload begins and how long it is,
// 1 B to 4 MB. Some are bytes of the input itself. Each has to come back from an
// independent decoder, and be no larger than promised.
func FuzzStream(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x90\x01\x02\x00\x91\x02\x03\x00\xa0"))
	f.Add([]byte("\x0a\x00\x00\x88\x00\x00\x00\x90\x0b\x00\x00\x90\x0a\x07\x00\x90"))
	f.Add([]byte("\x04\x01\x00\x70\x04\x01\x40\x71\x04\x01\x80\x60\x09\x01\x80\x10"))
	f.Add([]byte("\x0c\x01\x00\x40abcabcabcabcabcabcabcabcabcabc\xff\xff\x00\x00"))
	f.Add([]byte("\x04\x01\x00\xff"))
	f.Add([]byte("\x07\x01\x00\xb0\x0b\x01\x00\xb0\x00\x01\x00\xb0\x0a\x01\x00\xa0"))

	var texts [][]byte
	for _, k := range corpus.Kinds() {
		texts = append(texts, k.Make(300_000, 1))
	}
	texts = append(texts, random(300_000, 1), make([]byte, 300_000), bytes.Repeat([]byte("ab\n"), 100_000))
	var e Encoder
	var zr gzip.Reader
	var kr kgzip.Reader
	var payload, out, raw []byte
	f.Fuzz(func(t *testing.T, in []byte) {
		var tables Tables
		all := 0
		for n := 0; len(in) >= 4 && n < 16; n++ {
			kind, at, size := int(in[0]), int(in[1])<<8|int(in[2]), sizeOf(in[3])
			in = in[4:]
			// One payload may be as large as they come, if it is the first.
			if all += size; all > 128<<10 && n > 0 {
				return
			}
			payload = payload[:0]
			if kind %= len(texts) + 1; kind == len(texts) {
				size = min(size, len(in))
				payload, in = append(payload, in[:size]...), in[size:]
			} else {
				for text := texts[kind]; len(payload) < size; {
					payload = append(payload, text[at:min(at+size-len(payload), len(text))]...)
				}
			}
			out = e.Append(out[:0], &tables, payload[:len(payload)/2], payload[len(payload)/2:])
			if most := MaxLen(len(payload)) + 5; len(out) > most {
				t.Fatalf("payload %d of %d bytes became %d, more than %d", n, len(payload), len(out), most)
			}
			if err := zr.Reset(bytes.NewReader(out)); err != nil {
				t.Fatal(err)
			}
			decoder := io.Reader(&zr)
			if n%2 == 1 {
				if err := kr.Reset(bytes.NewReader(out)); err != nil {
					t.Fatal(err)
				}
				decoder = &kr
			}
			b := bytes.NewBuffer(raw[:0])
			if _, err := b.ReadFrom(decoder); err != nil {
				t.Fatal(err)
			}
			raw = b.Bytes()
			sameBytes(t, raw, payload)
		}
	})
}

// sizeOf spreads sizes from 1 B to 4 MB over a byte, an eighth apart at least.
func sizeOf(b byte) int {
	const most = 4_000_000
	if b == 255 {
		return most
	}
	k := int(b) / 11 // 0 to 23
	return min(1<<k+(1<<k)*(int(b)%11)/11, 1<<17)
}
