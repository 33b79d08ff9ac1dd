package format

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"kusto-agent/internal/record"
)

const blockSize = 4 << 20

// fill repeats line with changing values up to the size of a block.
func fill(line func(r *rand.Rand, n int) string) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for n := 0; ; n++ {
		l := line(r, n)
		if b.Len()+len(l) > blockSize {
			return []byte(b.String())
		}
		b.WriteString(l)
	}
}

func jsonLine(r *rand.Rand, n int) string {
	return fmt.Sprintf(`{"time":"2026-03-01T12:%02d:%02d.%06dZ","level":"info","service":"checkout","host":"web-%03d","trace":"%016x%016x",`+
		`"method":"POST","path":"/api/v1/orders/%d/items","status":%d,"bytes":%d,"duration_ms":%.3f,"user":{"id":%d,"agent":"Mozilla/5.0"},`+
		`"tags":["eu","prod",null,true],"msg":"order \"%d\""}`+"\n",
		n/60%60, n%60, r.IntN(1e6), r.IntN(400), r.Uint64(), r.Uint64(), r.IntN(1e7), 200+r.IntN(300), r.IntN(1e5), r.Float64()*100, r.IntN(1e6), r.IntN(1e7))
}

func umlautLine(r *rand.Rand, n int) string {
	return strings.Replace(jsonLine(r, n), "Mozilla", "Größenänderung ☃", 1)
}

func elementLine(r *rand.Rand, n int) string {
	return "  " + strings.TrimSuffix(jsonLine(r, n), "\n") + ",\n"
}

func csvLine(r *rand.Rand, n int) string {
	return fmt.Sprintf("2026-03-01T12:%02d:%02d.%06dZ,info,checkout,web-%03d,%016x,POST,/api/v1/orders/%d/items,%d,%d,%.3f,%d,Mozilla/5.0,order accepted,eu\n",
		n/60%60, n%60, r.IntN(1e6), r.IntN(400), r.Uint64(), r.IntN(1e7), 200+r.IntN(300), r.IntN(1e5), r.Float64()*100, r.IntN(1e6))
}

func quotedLine(r *rand.Rand, n int) string {
	return `"` + strings.ReplaceAll(strings.TrimSuffix(csvLine(r, n), "\n"), ",", `","`) + "\"\n"
}

func mixedLine(r *rand.Rand, n int) string {
	return strings.Replace(csvLine(r, n), "order accepted", `"order accepted, ""paid"""`, 1)
}

func BenchmarkScan(b *testing.B) {
	f := func(name string, format record.Format, line func(*rand.Rand, int) string) {
		data := fill(line)
		for _, validate := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/validate=%t", name, validate), func(b *testing.B) {
				s, err := New(Options{Format: format, Validate: validate, MaxRecord: 1 << 20})
				if err != nil {
					b.Fatal(err)
				}
				var c Chunk
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				records := 0
				for b.Loop() {
					records = 0
					for at := 0; at < len(data); at += c.Consumed {
						s.Scan(data[at:], 1, false, 0, &c)
						if c.Consumed == 0 || len(c.Rejected) > 0 {
							b.Fatalf("at %d of %d, rejected %v", at, len(data), c.Rejected)
						}
						records += c.Records
					}
				}
				b.ReportMetric(float64(len(data)/records), "B/record")
			})
		}
	}
	f("JSON", record.JSON, jsonLine)
	f("JSON-unicode", record.JSON, umlautLine)
	f("MultiJSON", record.MultiJSON, jsonLine)
	f("MultiJSON-array", record.MultiJSON, elementLine)
	f("CSV", record.CSV, csvLine)
	f("CSV-mixed", record.CSV, mixedLine)
	f("CSV-quoted", record.CSV, quotedLine)
	f("TXT", record.TXT, csvLine)
}

func BenchmarkScanAvro(b *testing.B) {
	data := avroFile(b, "null", slices.Repeat([]int{2000}, 200)...)
	for _, validate := range []bool{true, false} {
		b.Run(fmt.Sprintf("validate=%t", validate), func(b *testing.B) {
			s := newScanner(b, Options{Format: record.Avro, Validate: validate})
			var c Chunk
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				s.Scan(data, 0, true, 0, &c)
			}
			if c.Records != 400000 {
				b.Fatalf("%d records", c.Records)
			}
		})
	}
}

// BenchmarkJSONCheck sets the check of this package beside those of libraries,
// over the lines of one block.
func BenchmarkJSONCheck(b *testing.B) {
	data := fill(jsonLine)
	lines := strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
	f := func(name string, valid func([]byte) bool) {
		b.Run(name, func(b *testing.B) {
			records := make([][]byte, len(lines))
			for i, l := range lines {
				records[i] = []byte(l)
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				for _, r := range records {
					if !valid(r) {
						b.Fatal("a sound record was refused")
					}
				}
			}
		})
	}
	s := newScanner(b, Options{Format: record.JSON, Validate: true})
	f("own", func(r []byte) bool { ok, _ := s.checkJSON(r, len(r)); return ok })
	f("gjson", gjson.ValidBytes)
	f("encoding-json", json.Valid)
}
