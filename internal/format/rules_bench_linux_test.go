package format

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

// BenchmarkRules scans records, checked, with rules by which one in a hundred is left out,
// or changed, and in turns with those without. It reports the speed by the CPU time of the
// thread, and how many times that of a scan without rules it takes.
func BenchmarkRules(b *testing.B) {
	level := func(line func(*rand.Rand, int) string) func(*rand.Rand, int) string {
		return func(r *rand.Rand, n int) string {
			if n%100 == 0 {
				return strings.Replace(line(r, n), "info", "debug", 1)
			}
			return line(r, n)
		}
	}
	f := func(name string, o Options, data []byte, c rules.Config) {
		b.Run(name, func(b *testing.B) {
			o.Validate = true
			bare := newScanner(b, o)
			if !c.Empty() {
				o.Rules = newRules(b, o, c)
			}
			shaped := newScanner(b, o)
			scratch := make([]byte, len(data))
			var chunk Chunk
			turn := func(s *Scanner) func() {
				return func() {
					for at := 0; at < len(data); at += chunk.Consumed {
						s.Scan(scratch[at:], int64(at+1), true, 0, &chunk)
						if chunk.Consumed == 0 {
							b.Fatal("no progress")
						}
					}
				}
			}
			b.ReportAllocs()
			beside(b, len(data), func() { copy(scratch, data) }, turn(bare), turn(shaped)) // which the records are moved together in
		})
	}
	one := func(c rules.Condition) rules.Config { return rules.Config{Drop: []rules.Rule{{Condition: c}}} }
	json, rows := Options{Format: record.JSON}, Options{Format: record.CSV}
	objects := fill(level(jsonLine))
	f("json/none", json, objects, rules.Config{})
	f("json/member", json, objects, one(rules.Condition{Member: "level", In: []string{"debug"}}))
	f("json/number", json, objects, one(rules.Condition{Member: "status", Below: "203"}))
	f("json/nested", json, objects, one(rules.Condition{Member: "user.agent", Match: "^curl"}))
	f("json/literal", json, objects, one(rules.Condition{Match: `"level":"debug"`}))
	f("json/regex", json, objects, one(rules.Condition{Match: `"level":"(debug|trace)"`}))
	redact := func(r ...rules.Redaction) rules.Config { return rules.Config{Redact: r} }
	presets := rules.Redaction{Preset: rules.Presets(), With: "***"}
	mailed := bytes.ReplaceAll(objects, []byte(`"debug"`), []byte(`"a@b.example.org"`))
	f("json/redact preset, in none", json, objects, redact(presets))
	f("json/redact preset, in 1%", json, mailed, redact(presets))
	f("json/redact email, in 1%", json, mailed, redact(rules.Redaction{Preset: []string{"email"}, With: "***"}))
	f("json/redact regex, in 1%", json, mailed, redact(rules.Redaction{Match: `\S+@b\.example\S+`, With: "***"}))
	f("json/redact member, in all", json, objects, redact(rules.Redaction{Member: "user.agent", With: "***"}))
	f("json/remove, in all", json, objects, rules.Config{Remove: []string{"user.agent"}})
	f("json/rename and add, in all", json, objects, rules.Config{Rename: map[string]string{"level": "severity"}, Add: map[string]string{"env": "prod"}})
	f("csv/none", rows, fill(level(csvLine)), rules.Config{})
	f("csv/column", rows, fill(level(csvLine)), one(rules.Condition{Column: "2", In: []string{"debug"}}))
}

// beside lets two take turns over so many bytes, each behind prepare, and reports the speed
// of the second and the ratio of their times, by the medians.
func beside(b *testing.B, size int, prepare, one, other func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took [2][]time.Duration
	for b.Loop() {
		for i, turn := range []func(){one, other} {
			prepare()
			began := cpu()
			turn()
			took[i] = append(took[i], cpu()-began)
		}
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return all[len(all)/2].Seconds()
	}
	b.ReportMetric(float64(size)/1e6/median(took[1]), "MB/s")
	b.ReportMetric(median(took[1])/median(took[0]), "of-none")
	b.ReportMetric(0, "ns/op")
}
