package format

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/record"
)

func logLine(r *rand.Rand, n int) string {
	return fmt.Sprintf("2026-03-01 12:%02d:%02d.%06d INFO  [worker-%d] c.e.shop.OrderService - order \"%d\" accepted for customer %08x, total %d.%02d EUR, 3 items\n",
		n/60%60, n%60, r.IntN(1e6), r.IntN(32), r.IntN(1e7), r.Uint32(), r.IntN(1000), r.IntN(100))
}

func traceLine(r *rand.Rand, n int) string {
	if n%8 == 0 {
		return logLine(r, n)
	}
	return fmt.Sprintf("\tat com.example.shop.%s.handle(%s.java:%d)\n", "OrderService", "OrderService", r.IntN(1000))
}

func logfmtLine(r *rand.Rand, n int) string {
	return fmt.Sprintf("ts=2026-03-01T12:%02d:%02d.%06dZ level=info service=checkout host=web-%03d status=%d duration=%.3f msg=\"order \\\"%d\\\" accepted\" user=%d\n",
		n/60%60, n%60, r.IntN(1e6), r.IntN(400), 200+r.IntN(300), r.Float64()*100, r.IntN(1e7), r.IntN(1e6))
}

func dockerLine(r *rand.Rand, n int) string {
	return strings.TrimSuffix(docker(logLine(r, n), "stdout", fmt.Sprintf("2026-03-01T12:%02d:%02d.%09dZ", n/60%60, n%60, r.IntN(1e9))), "\n") + "\n"
}

func criBenchLine(r *rand.Rand, n int) string {
	return fmt.Sprintf("2026-03-01T12:%02d:%02d.%09dZ stdout F ", n/60%60, n%60, r.IntN(1e9)) + logLine(r, n)
}

// BenchmarkParse: megabytes of the file a second, checked, as JSON in a body of
// its own.
func BenchmarkParse(b *testing.B) {
	f := func(name string, o Options, data []byte) {
		b.Run(name, func(b *testing.B) {
			o.Validate, o.MaxBody = true, 2*blockSize
			if o.Format == "" {
				o.Format = record.JSON
			}
			s := newScanner(b, o)
			s.SetStamp(Stamp{Dated: 1})
			var c Chunk
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			records := 0
			for b.Loop() {
				records = 0
				for at := 0; at < len(data); at += c.Consumed {
					s.Scan(data[at:], int64(at+1), true, 0, &c)
					if c.Consumed == 0 || len(c.Rejected) > 0 {
						b.Fatalf("at %d of %d, rejected %v", at, len(data), c.Rejected)
					}
					records += c.Records
				}
			}
			b.ReportMetric(float64(len(data)/records), "B/record")
		})
	}
	f("text", Options{Parse: ParseText}, fill(logLine))
	f("events-start", Options{Parse: ParseText, Multiline: multiline(b, `^\d{4}-`, "", 500)}, fill(traceLine))
	f("events-java", Options{Parse: ParseText, Multiline: multiline(b, "", "java", 500)}, fill(traceLine))
	f("logfmt", Options{Parse: ParseLogfmt}, fill(logfmtLine))
	f("docker", Options{Parse: ParseDocker}, fill(dockerLine))
	f("cri", Options{Parse: ParseCRI}, fill(criBenchLine))
	inside := func(line func(*rand.Rand, int) string, wrap func(text string) string) []byte {
		return fill(func(r *rand.Rand, n int) string { return wrap(line(r, n)) })
	}
	jsonLine := func(r *rand.Rand, n int) string {
		return fmt.Sprintf(`{"time":"2026-03-01T12:00:00Z","level":"INFO","msg":"order accepted","order":%d,"took":%d,"user":{"id":%d}}`+"\n", n, r.IntN(1e6), r.IntN(1e6))
	}
	inCRI := func(text string) string { return "2026-03-01T12:00:00.123456789Z stdout F " + text }
	f("cri-combined", Options{Parse: ParseCRI, Inner: ParseCombined}, inside(accessLine, inCRI))
	f("cri-json", Options{Parse: ParseCRI, Inner: ParseJSON}, inside(jsonLine, inCRI))
	f("docker-json", Options{Parse: ParseDocker, Inner: ParseJSON}, inside(jsonLine, func(text string) string { return docker(text, "stdout", "2026-03-01T12:00:00.123456789Z") }))
	f("combined", Options{Parse: ParseCombined}, fill(accessLine))
	f("syslog", Options{Parse: ParseSyslog, Zone: time.UTC}, fill(syslogLine))
	f("syslog-5424", Options{Parse: ParseSyslog}, fill(modernLine))
	f("regex", Options{Parse: ParseRegex, Pattern: accessRegex(b)}, fill(accessLine))
	text := string(fill(logLine))
	f("latin1", Options{Format: record.TXT, Encoding: Latin1}, []byte(text))
	f("latin1-umlauts", Options{Format: record.TXT, Encoding: Latin1}, []byte(latin1Text(strings.ReplaceAll(text, "a", "ä"))))
	f("utf-16le", Options{Format: record.TXT, Encoding: UTF16LE}, []byte(utf16Text(text, false)))
	f("utf-16le-text", Options{Parse: ParseText, Encoding: UTF16LE}, []byte(utf16Text(strings.ReplaceAll(text, "a", "ä"), false)))
}
